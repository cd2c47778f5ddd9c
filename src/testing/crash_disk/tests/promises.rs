use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::super::*;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::OpenMode;
use crate::testing::contract;

const NEW: OpenMode = OpenMode::CreateNew { private: false };
const POWER: [CrashModel; 2] = [CrashModel::LoseUnsynced, CrashModel::AnySubset];
const ALL: [CrashModel; 3] = [CrashModel::LoseUnsynced, CrashModel::AnySubset, CrashModel::ProcessOnly];

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A disk with the durable, empty folders `/a` and `/b`.
fn two_folders() -> CrashDisk {
    let disk = CrashDisk::new();
    disk.make_dirs("/a").unwrap();
    disk.make_dirs("/b").unwrap();
    disk
}

fn create(disk: &CrashDisk, at: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
    let file = disk.open(path(at), NEW).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

fn open(disk: &CrashDisk, at: &str) -> Box<dyn DiskFile> {
    disk.open(path(at), OpenMode::ReadWrite).unwrap()
}

/// Each outcome of a loss of power that some of many seeds gives, as `look` sees it.
fn outcomes<T: Ord>(disk: &CrashDisk, look: impl Fn(&CrashDisk) -> T) -> BTreeSet<T> {
    (0..400).map(|seed| look(&disk.after_crash(CrashModel::AnySubset, seed))).collect()
}

fn names(disk: &CrashDisk) -> Vec<String> {
    disk.list_all().iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn it_keeps_the_contract_of_disks() {
    let disk = CrashDisk::new();
    disk.make_dirs("/base").unwrap();
    contract::disk(&disk, path("/base"));
}

#[test]
fn it_keeps_the_contract_without_reservations_and_renames() {
    let disk = CrashDisk::new();
    disk.fail(StepKind::Reserve, "", 0, ErrorKind::Unsupported, true);
    disk.make_dirs("/base").unwrap();
    contract::disk(&disk, path("/base"));
}

#[test]
fn s1_bytes_before_a_sync_are_lost_and_bytes_after_it_are_kept() {
    let disk = two_folders();
    let file = create(&disk, "/a/f", b"kept");
    file.sync().unwrap();
    disk.sync_dir(path("/a")).unwrap();
    file.write_at(0, b"LOST").unwrap();
    file.write_at(4, b" and gone").unwrap();
    assert_eq!(disk.read_file("/a/f").unwrap(), b"LOST and gone");
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(after.read_file("/a/f").unwrap(), b"kept");
    let after = disk.after_crash(CrashModel::ProcessOnly, 0);
    assert_eq!(after.read_file("/a/f").unwrap(), b"LOST and gone");
}

#[test]
fn s1_any_subset_of_sectors_survives_each_at_any_of_its_versions() {
    let disk = CrashDisk::new();
    disk.write_file("/f", [b'0'; 1024]).unwrap();
    let file = open(&disk, "/f");
    file.write_at(0, &[b'1'; 1024]).unwrap();
    file.write_at(100, &[b'2'; 824]).unwrap();
    let found = outcomes(&disk, |disk| {
        let bytes = disk.read_file("/f").unwrap();
        assert_eq!(bytes.len(), 1024);
        for (sector, plain) in [(&bytes[..512], 0), (&bytes[512..], 511)] {
            let edge = sector[plain];
            let versions: BTreeSet<&u8> = sector.iter().collect();
            assert!(edge != b'0' || versions.len() == 1, "a sector is torn");
        }
        (bytes[0], bytes[511], bytes[512], bytes[1023])
    });
    let sector = [(b'0', b'0'), (b'1', b'1'), (b'1', b'2')];
    let all: BTreeSet<_> = sector
        .iter()
        .flat_map(|&(outer, inner)| sector.iter().map(move |&(end, begin)| (outer, inner, begin, end)))
        .collect();
    assert_eq!(found, all);
}

#[test]
fn s1_a_length_survives_without_its_bytes_and_bytes_never_without_their_length() {
    let disk = CrashDisk::new();
    disk.write_file("/f", b"").unwrap();
    let file = open(&disk, "/f");
    file.write_at(0, &[1; 512]).unwrap();
    file.write_at(512, &[1; 512]).unwrap();
    let found = outcomes(&disk, |disk| {
        let bytes = disk.read_file("/f").unwrap();
        (bytes.len(), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())
    });
    let all = [(0, 0), (512, 0), (512, 512), (1024, 0), (1024, 512), (1024, 1024)];
    assert_eq!(found, BTreeSet::from(all));
}

#[test]
fn s1_a_cut_that_was_not_synced_may_come_undone_or_leave_zeros() {
    let disk = CrashDisk::new();
    disk.write_file("/f", [7; 1024]).unwrap();
    let file = open(&disk, "/f");
    file.set_len(100).unwrap();
    file.set_len(1024).unwrap();
    let found = outcomes(&disk, |disk| {
        let bytes = disk.read_file("/f").unwrap();
        assert_eq!(bytes[..100], [7; 100]);
        (bytes.len(), bytes.get(100).copied(), bytes.get(1023).copied())
    });
    assert!(found.contains(&(1024, Some(7), Some(7))), "undone");
    assert!(found.contains(&(1024, Some(0), Some(0))), "all zeros");
    assert!(found.contains(&(1024, Some(0), Some(7))), "in part");
    assert!(found.contains(&(100, None, None)), "cut only");
    file.sync().unwrap();
    let kept = outcomes(&disk, |disk| disk.read_file("/f").unwrap());
    assert_eq!(kept.len(), 1);
    assert_eq!(kept.first().unwrap()[100..], [0; 924]);
}

#[test]
fn s1_stores_through_a_map_are_as_unsynced_as_writes() {
    let disk = CrashDisk::new();
    disk.write_file("/f", b"").unwrap();
    let file = open(&disk, "/f");
    file.reserve(4096).unwrap();
    file.sync().unwrap();
    let map = file.map(4096).unwrap();
    map.write(1000, b"synced").unwrap();
    file.sync().unwrap();
    map.write(2000, b"stored").unwrap();
    let bytes = |model| disk.after_crash(model, 1).read_file("/f").unwrap();
    assert_eq!(bytes(CrashModel::LoseUnsynced)[1000..1006], *b"synced");
    assert_eq!(bytes(CrashModel::LoseUnsynced)[2000..2006], [0; 6]);
    assert_eq!(bytes(CrashModel::ProcessOnly)[2000..2006], *b"stored");
    assert_eq!(disk.steps().last().unwrap().kind, StepKind::RegionWrite);
}

#[test]
fn s2_a_synced_file_without_a_synced_name_is_gone() {
    let disk = two_folders();
    create(&disk, "/a/f", b"bytes").sync().unwrap();
    assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), [""; 0]);
    let found = outcomes(&disk, |disk| disk.read_file("/a/f").ok());
    assert_eq!(found, BTreeSet::from([None, Some(b"bytes".to_vec())]));
    disk.sync_dir(path("/a")).unwrap();
    for model in ALL {
        assert_eq!(disk.after_crash(model, 0).read_file("/a/f").unwrap(), b"bytes");
    }
}

#[test]
fn s2_a_folder_is_lost_with_all_below_when_its_parent_was_not_synced() {
    let disk = CrashDisk::new();
    disk.create_dir(path("/base"), false).unwrap();
    create(&disk, "/base/f", b"bytes").sync().unwrap();
    disk.sync_dir(path("/base")).unwrap();
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(after.list(path("/")).unwrap(), []);
    disk.sync_dir(path("/")).unwrap();
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(after.read_file("/base/f").unwrap(), b"bytes");
}

#[test]
fn s2_a_removed_file_comes_back_until_its_folder_is_synced() {
    let disk = two_folders();
    disk.write_file("/a/f", b"bytes").unwrap();
    disk.remove_file(path("/a/f")).unwrap();
    assert_eq!(names(&disk), [""; 0]);
    assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), ["/a/f"]);
    let found = outcomes(&disk, |disk| names(disk).len());
    assert_eq!(found, BTreeSet::from([0, 1]));
    disk.sync_dir(path("/a")).unwrap();
    assert_eq!(outcomes(&disk, names), BTreeSet::from([vec![]]));
}

#[test]
fn s2_operations_of_one_folder_survive_apart_from_each_other() {
    let disk = two_folders();
    for name in ["/a/1", "/a/2", "/a/3"] {
        drop(create(&disk, name, b""));
    }
    assert_eq!(outcomes(&disk, names).len(), 8);
}

#[test]
fn s2_an_operation_does_not_survive_without_the_one_it_builds_on() {
    let disk = two_folders();
    drop(create(&disk, "/a/tmp", b""));
    disk.rename(path("/a/tmp"), path("/a/f")).unwrap();
    disk.link(path("/a/f"), path("/b/g")).unwrap();
    let found = outcomes(&disk, names);
    let all = [vec![], vec!["/a/tmp"], vec!["/a/f"], vec!["/a/f", "/b/g"]];
    assert_eq!(found, all.map(|names| names.iter().map(ToString::to_string).collect()).into());
}

#[test]
fn s2_a_link_and_the_removal_of_the_first_name_may_lose_the_file() {
    let disk = two_folders();
    disk.write_file("/a/f", b"bytes").unwrap();
    disk.link(path("/a/f"), path("/b/f")).unwrap();
    disk.remove_file(path("/a/f")).unwrap();
    assert!(outcomes(&disk, names).contains(&vec![]));
    let disk = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(names(&disk), ["/a/f"]);
    disk.link(path("/a/f"), path("/b/f")).unwrap();
    disk.sync_dir(path("/b")).unwrap();
    disk.remove_file(path("/a/f")).unwrap();
    assert!(!outcomes(&disk, names).contains(&vec![]));
}

#[test]
fn s3_a_rename_leaves_the_old_or_the_new_name_never_both_and_never_none() {
    for to in ["/a/g", "/b/f"] {
        let disk = two_folders();
        disk.write_file("/a/f", b"bytes").unwrap();
        disk.rename(path("/a/f"), path(to)).unwrap();
        let found = outcomes(&disk, names);
        assert_eq!(found, BTreeSet::from([vec!["/a/f".to_owned()], vec![to.to_owned()]]));
        assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), ["/a/f"]);
    }
}

#[test]
fn s3_a_rename_across_folders_is_durable_once_both_are_synced() {
    for order in [["/a", "/b"], ["/b", "/a"]] {
        let disk = two_folders();
        disk.write_file("/a/f", b"bytes").unwrap();
        disk.rename(path("/a/f"), path("/b/f")).unwrap();
        disk.sync_dir(path(order[0])).unwrap();
        assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), ["/a/f"]);
        assert_eq!(outcomes(&disk, names).len(), 2);
        disk.sync_dir(path(order[1])).unwrap();
        for model in ALL {
            assert_eq!(names(&disk.after_crash(model, 0)), ["/b/f"]);
        }
    }
}

#[test]
fn s3_a_folder_removed_after_a_rename_out_of_it_never_takes_the_file_along() {
    let disk = two_folders();
    disk.write_file("/a/f", b"bytes").unwrap();
    disk.rename(path("/a/f"), path("/b/f")).unwrap();
    disk.remove_dir(path("/a")).unwrap();
    for model in POWER {
        for seed in 0..200 {
            assert_eq!(names(&disk.after_crash(model, seed)).len(), 1);
        }
    }
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), ["/b/f"]);
}

#[test]
fn s2_a_name_used_again_is_durable_after_its_folder_is_synced() {
    let disk = two_folders();
    disk.write_file("/a/f", b"old").unwrap();
    disk.rename(path("/a/f"), path("/b/f")).unwrap();
    create(&disk, "/a/f", b"new").sync().unwrap();
    disk.sync_dir(path("/a")).unwrap();
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(after.read_file("/a/f").unwrap(), b"new");
    assert_eq!(after.read_file("/b/f").unwrap(), b"old");
}

#[test]
fn s4_a_second_sync_after_a_failed_one_saves_nothing_of_before() {
    let disk = CrashDisk::new();
    disk.write_file("/f", [b'0'; 1536]).unwrap();
    disk.fail(StepKind::Sync, "/f", 0, ErrorKind::Other, false);
    let file = open(&disk, "/f");
    file.write_at(0, &[b'1'; 512]).unwrap();
    file.sync().unwrap_err();
    assert_eq!(disk.read_file("/f").unwrap()[0], b'1', "it can still be read");
    file.write_at(512, &[b'2'; 512]).unwrap();
    file.sync().unwrap();
    let firsts = |disk: &CrashDisk| {
        let bytes = disk.read_file("/f").unwrap();
        (bytes[0], bytes[512])
    };
    assert_eq!(firsts(&disk.after_crash(CrashModel::ProcessOnly, 0)), (b'1', b'2'));
    assert_eq!(firsts(&disk.after_crash(CrashModel::LoseUnsynced, 0)), (b'0', b'2'));
    let again = disk.after_crash(CrashModel::ProcessOnly, 0);
    open(&again, "/f").sync().unwrap();
    assert_eq!(firsts(&again.after_crash(CrashModel::LoseUnsynced, 0)), (b'0', b'2'));
}

#[test]
fn s4_after_a_failed_sync_some_of_the_bytes_may_still_be_there() {
    let disk = CrashDisk::new();
    disk.write_file("/f", [b'0'; 512]).unwrap();
    disk.fail(StepKind::Sync, "", 0, ErrorKind::Other, false);
    let file = open(&disk, "/f");
    file.write_at(0, &[b'1'; 512]).unwrap();
    file.sync().unwrap_err();
    assert_eq!(outcomes(&disk, |disk| disk.read_file("/f").unwrap()[0]), BTreeSet::from([b'0', b'1']));
}

#[test]
fn s4_a_second_sync_of_a_folder_after_a_failed_one_saves_nothing_of_before() {
    let disk = two_folders();
    disk.fail(StepKind::SyncDir, "/a", 0, ErrorKind::Other, false);
    create(&disk, "/a/f", b"").sync().unwrap();
    disk.sync_dir(path("/a")).unwrap_err();
    create(&disk, "/a/g", b"").sync().unwrap();
    disk.sync_dir(path("/a")).unwrap();
    assert_eq!(names(&disk.after_crash(CrashModel::LoseUnsynced, 0)), ["/a/g"]);
}

#[test]
fn s5_what_a_killed_process_wrote_survives_it_and_is_lost_with_a_later_loss_of_power() {
    let disk = two_folders();
    drop(create(&disk, "/a/f", b"written"));
    disk.crash();
    let killed = disk.after_crash(CrashModel::ProcessOnly, 0);
    assert_eq!(killed.read_file("/a/f").unwrap(), b"written");
    let later = killed.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(names(&later), [""; 0]);
    open(&killed, "/a/f").sync().unwrap();
    killed.sync_dir(path("/a")).unwrap();
    let later = killed.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(later.read_file("/a/f").unwrap(), b"written");
}

#[test]
fn a_loss_of_power_leaves_a_disk_on_which_all_is_durable() {
    let disk = two_folders();
    create(&disk, "/a/f", &[1; 2000]).write_at(100, &[2; 700]).unwrap();
    disk.rename(path("/a/f"), path("/b/f")).unwrap();
    for seed in 0..50 {
        let first = disk.after_crash(CrashModel::AnySubset, seed);
        for model in ALL {
            let second = first.after_crash(model, seed + 1);
            assert_eq!(names(&second), names(&first));
            for name in names(&first) {
                assert_eq!(second.read_file(&name).unwrap(), first.read_file(&name).unwrap());
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let disk = two_folders();
    for (number, name) in ["/a/1", "/a/2", "/b/3"].iter().enumerate() {
        create(&disk, name, &[number as u8; 3000]).write_at(64, &[9; 1000]).unwrap();
    }
    for seed in 0..20 {
        let [one, two] = [0; 2].map(|_| disk.after_crash(CrashModel::AnySubset, seed));
        assert_eq!(one.dump(), two.dump());
        for name in names(&one) {
            assert_eq!(one.read_file(&name).unwrap(), two.read_file(&name).unwrap());
        }
    }
}

#[test]
fn identities_of_files_stay_across_crashes() {
    let disk = two_folders();
    disk.write_file("/a/f", b"").unwrap();
    let id = disk.metadata(path("/a/f")).unwrap().id;
    for model in ALL {
        let after = disk.after_crash(model, 0);
        assert_eq!(after.metadata(path("/a/f")).unwrap().id, id);
        drop(create(&after, "/a/g", b""));
        assert_ne!(after.metadata(path("/a/g")).unwrap().id, id);
    }
}

#[test]
fn a_crash_stops_every_later_call_and_the_step_itself() {
    let job = |disk: &CrashDisk| -> std::io::Result<()> {
        let file = disk.open(path("/a/f"), NEW)?;
        file.write_at(0, b"bytes")?;
        file.sync()?;
        disk.rename(path("/a/f"), path("/b/f"))
    };
    let whole = two_folders();
    job(&whole).unwrap();
    let kinds: Vec<StepKind> = whole.steps().iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Create, StepKind::Write, StepKind::Sync, StepKind::Rename]);
    assert_eq!(*whole.steps()[3].path, *path("/b/f"));
    for number in 0..4 {
        let (before, midway, after) = (two_folders(), two_folders(), two_folders());
        before.crash_at(number);
        midway.crash_midway(number);
        after.crash_after(number);
        for disk in [&before, &midway, &after] {
            let error = job(disk).unwrap_err();
            assert!(is_simulated_crash(&error) && disk.crashed());
            assert_eq!(disk.step_count(), number + 1);
            assert!(is_simulated_crash(&disk.metadata(path("/")).unwrap_err()));
            assert!(is_simulated_crash(&disk.list(path("/")).unwrap_err()));
            assert!(is_simulated_crash(&disk.lock(path("/lock")).unwrap_err()));
            assert_eq!(disk.step_count(), number + 1, "what comes too late is no step");
        }
        let bytes = |disk: &CrashDisk| {
            let after = disk.after_crash(CrashModel::ProcessOnly, 0);
            assert!(!after.crashed() && after.step_count() == 0);
            names(&after).pop().map(|name| (name.clone(), after.read_file(&name).unwrap().len()))
        };
        let file = |name: &str, len| Some((name.to_owned(), len));
        let expected = [
            [None, None, file("/a/f", 0)],
            [file("/a/f", 0), file("/a/f", 2), file("/a/f", 5)],
            [file("/a/f", 5), file("/a/f", 5), file("/a/f", 5)],
            [file("/a/f", 5), file("/a/f", 5), file("/b/f", 5)],
        ];
        assert_eq!([bytes(&before), bytes(&midway), bytes(&after)], expected[number]);
    }
}

#[test]
fn a_crash_is_recognised_below_other_errors() {
    let disk = CrashDisk::new();
    disk.crash();
    let error = disk.metadata(path("/")).unwrap_err();
    let outer = crate::Error::retry("the log cannot be opened").with_source(error);
    assert!(is_simulated_crash(&outer));
    assert!(!is_simulated_crash(&crate::Error::retry("the log cannot be opened")));
    assert!(!is_simulated_crash(&std::io::Error::from(ErrorKind::NotFound)));
}

#[test]
fn a_planned_error_hits_the_call_it_was_planned_for() {
    let disk = two_folders();
    disk.fail(StepKind::Write, "/f", 1, ErrorKind::Other, false);
    disk.fail(StepKind::Rename, "", 0, ErrorKind::Unsupported, true);
    disk.fail(StepKind::Read, "/g", 0, ErrorKind::Interrupted, false);
    let (file, other) = (create(&disk, "/a/f", b"one"), create(&disk, "/a/g", b"one"));
    other.write_at(0, b"two").unwrap();
    assert_eq!(file.write_at(0, b"twotwo").unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(disk.read_file("/a/f").unwrap(), b"two", "half of a failed write is there");
    file.write_at(0, b"threes").unwrap();
    assert_eq!(other.read_at(0, &mut [0; 1]).unwrap_err().kind(), ErrorKind::Interrupted);
    other.read_at(0, &mut [0; 1]).unwrap();
    for _ in 0..3 {
        let error = disk.rename(path("/a/f"), path("/b/f")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    disk.heal();
    disk.rename(path("/a/f"), path("/b/f")).unwrap();
}

#[test]
fn a_full_disk_takes_what_fits_and_what_was_reserved() {
    let disk = two_folders();
    let file = create(&disk, "/a/f", &[1; 100]);
    file.reserve(1000).unwrap();
    disk.set_capacity(Some(1010));
    let other = disk.open(path("/a/g"), NEW).unwrap();
    assert_eq!(other.write_at(0, &[2; 20]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(other.size().unwrap(), 10, "what fits is written");
    file.write_at(900, &[3; 100]).unwrap();
    file.map(1000).unwrap().write(0, &[3; 1000]).unwrap();
    assert_eq!(file.reserve(1001).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.set_len(1001).unwrap_err().kind(), ErrorKind::StorageFull);
    let after = disk.after_crash(CrashModel::ProcessOnly, 0);
    assert_eq!(after.used(), 1010);
    open(&after, "/a/f").write_at(1000, b"!").unwrap_err();
    disk.remove_file(path("/a/g")).unwrap();
    file.reserve(1001).unwrap();
    disk.set_capacity(Some(0));
    file.write_at(0, &[4; 1001]).unwrap();
    disk.set_capacity(None);
    file.reserve(2000).unwrap();
}

#[test]
fn a_map_of_a_sparse_file_and_a_cut_below_a_map_are_refused() {
    let disk = CrashDisk::new();
    disk.write_file("/f", b"").unwrap();
    let file = open(&disk, "/f");
    file.write_at(4095, b"!").unwrap();
    assert_eq!(file.map(4096).unwrap_err().kind(), ErrorKind::InvalidInput);
    file.reserve(4096).unwrap();
    file.set_len(0).unwrap();
    file.set_len(4096).unwrap();
    assert_eq!(file.map(4096).unwrap_err().kind(), ErrorKind::InvalidInput);
    file.reserve(4096).unwrap();
    let map = file.map(4096).unwrap();
    assert_eq!(file.set_len(4095).unwrap_err().kind(), ErrorKind::InvalidInput);
    drop(map);
    file.set_len(4095).unwrap();
}

#[test]
fn a_crash_releases_locks() {
    let disk = CrashDisk::new();
    let held = disk.lock(path("/lock")).unwrap().expect("nobody holds it");
    assert!(disk.lock(path("/lock")).unwrap().is_none());
    disk.crash();
    let after = disk.after_crash(CrashModel::ProcessOnly, 0);
    let again = after.lock(path("/lock")).unwrap().expect("its holder is dead");
    drop(held);
    assert!(after.lock(path("/lock")).unwrap().is_none(), "a dead holder releases nothing here");
    drop(again);
}

#[test]
fn setting_up_counts_no_steps_and_is_durable() {
    let disk = CrashDisk::new();
    disk.write_file("/in/deep/f", b"one").unwrap();
    disk.write_file("/in/deep/f", b"two").unwrap();
    assert_eq!(disk.step_count(), 0);
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(after.read_file("/in/deep/f").unwrap(), b"two");
    assert!(disk.dump().contains("/in/deep/f: 3 bytes, 0 sectors unsynced"), "{}", disk.dump());
}
