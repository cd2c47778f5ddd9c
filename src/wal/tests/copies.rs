//! A copy of a log is a log.

use super::*;
use crate::storage::OpenMode;
use crate::testing::CrashModel;
use crate::wal::backup;

const COPY: &str = "/home/copy";

fn copied(disk: &CrashDisk) -> Vec<Logged> {
    let (wal, _) = Wal::open(Path::new(COPY), small(), &sim_doors(disk, 77)).unwrap();
    all(&wal)
}

fn grow(wal: &Wal, numbers: std::ops::Range<u64>) {
    for number in numbers {
        append(wal, &[entry(number, 3000), entry(number, 7)]).unwrap();
        if number % 17 == 4 {
            append(wal, &[entry(number, 100_000)]).unwrap();
        }
    }
}

#[test]
fn a_copy_of_an_idle_log_holds_everything_and_opens_alone() {
    for (closed, synced) in [(true, true), (false, true), (false, false)] {
        let disk = disk();
        let (wal, _) = open(&disk);
        grow(&wal, 0..60);
        wal.truncate_before(Lsn(100_000)).unwrap();
        if synced {
            wal.sync().unwrap();
        }
        let expected = all(&wal);
        if closed {
            wal.close().unwrap();
        } else {
            drop(wal);
        }
        let verified = backup(dir(), Path::new(COPY), &doors(&disk)).unwrap();
        assert_eq!(verified.entries as usize, expected.len());
        // The original goes, and the power too: the copy is durable and needs nobody.
        let left = disk.after_crash(CrashModel::LoseUnsynced, 0);
        for path in left.list_all().into_iter().filter(|path| path.starts_with(DIR)) {
            crate::storage::Disk::remove_file(&left, &path).unwrap();
        }
        assert!(copied(&left) == expected, "closed {closed}, synced {synced}");
        assert_eq!(salvage(Path::new(COPY), &doors(&left)).unwrap().count(), expected.len());
        let (wal, _) = Wal::open(Path::new(COPY), small(), &sim_doors(&left, 78)).unwrap();
        grow(&wal, 60..90);
        drop(wal);
        assert!(copied(&left).starts_with(&expected));
    }
    let empty = disk();
    drop(open(&empty));
    assert_eq!(backup(dir(), Path::new(COPY), &doors(&empty)).unwrap().entries, 0);
    assert_eq!(copied(&empty), []);
}

#[test]
fn a_copy_of_an_open_log_ends_where_it_was_durable() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for round in 0..12 {
        grow(&wal, round * 10..round * 10 + 5);
        wal.sync().unwrap();
        let expected = all(&wal);
        grow(&wal, round * 10 + 5..round * 10 + 10);
        let dest = Path::new(COPY);
        backup(dir(), dest, &doors(&disk)).unwrap();
        let reader = WalReader::open(dest, &doors(&disk)).unwrap();
        let found: Vec<_> = reader.replay(reader.start()).unwrap().map(Result::unwrap).collect();
        assert!(found.starts_with(&expected), "round {round}: {} of {}", found.len(), expected.len());
        assert!(all(&wal).starts_with(&found), "round {round}");
        // What the copy has, the original has after a loss of power now.
        let left = disk.after_crash(CrashModel::LoseUnsynced, round);
        assert!(all(&open(&left).0).starts_with(&found), "round {round}: more than what was durable");
        for entry in crate::storage::Disk::list(&disk, dest).unwrap() {
            crate::storage::Disk::remove_file(&disk, &dest.join(entry.name)).unwrap();
        }
    }
}

#[test]
fn a_copy_is_refused_of_a_damaged_log_and_into_a_folder_with_something_in_it() {
    let disk = disk();
    let (wal, _) = open(&disk);
    grow(&wal, 0..60);
    wal.close().unwrap();
    disk.write_file("/home/copy/mine", "mine").unwrap();
    assert!(matches!(backup(dir(), Path::new(COPY), &doors(&disk)), Err(WalError::Io { .. })));
    assert_eq!(disk.read_file("/home/copy/mine").unwrap(), b"mine");
    let path = segment_files(&disk)[1].clone();
    let mut bytes = disk.read_file(&path).unwrap();
    bytes[9000] ^= 1;
    disk.write_file(&path, bytes).unwrap();
    let failed = backup(dir(), Path::new("/home/other"), &doors(&disk));
    assert!(matches!(failed, Err(WalError::Damage { .. })), "{failed:?}");
}

#[test]
fn a_copy_that_a_crash_interrupts_is_no_log_or_a_whole_one() {
    let disk = disk();
    let (wal, _) = open(&disk);
    grow(&wal, 0..40);
    let expected = all(&wal);
    wal.close().unwrap();
    let steps = {
        let disk = copy(&disk);
        backup(dir(), Path::new(COPY), &doors(&disk)).unwrap();
        disk.step_count()
    };
    let mut whole = 0;
    for step in 0..steps {
        let first = copy(&disk);
        first.crash_after(step);
        _ = backup(dir(), Path::new(COPY), &doors(&first));
        let left = first.after_crash(CrashModel::AnySubset, step as u64);
        assert_eq!(all(&open(&left).0), expected, "step {step}: the original");
        let is_log =
            crate::storage::Disk::open(&left, &Path::new(COPY).join("manifest"), OpenMode::Read).is_ok();
        if is_log {
            assert!(copied(&left) == expected, "step {step}");
            whole += 1;
        }
    }
    assert!(whole > 0);
}

#[test]
fn a_copy_of_a_busy_log_verifies_and_replays_alone() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let doors = Doors::real();
    let (wal, _) = Wal::open(&dir, small(), &doors).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                append(&wal, &[entry(number, 1900)]).unwrap();
                number += 1;
                if number % 5 == 0 {
                    wal.sync().unwrap();
                }
                if number % 100 == 99 {
                    wal.truncate_before(Lsn(wal.end().0.saturating_sub(200_000))).unwrap();
                }
            }
        });
        let mut copies = 0;
        for round in 0..12 {
            wal.hold("backup", wal.start());
            let held = wal.start();
            let durable = wal.durable();
            let dest = home.path().join(format!("copy-{round}"));
            backup(&dir, &dest, &doors).unwrap();
            wal.release("backup");
            let (copy, opened) = Wal::open(&dest, small(), &doors).unwrap();
            assert_eq!(opened.cut, None);
            assert!(copy.start() <= held && copy.end() >= durable, "{copy:?}, durable {durable}");
            for logged in all(&copy) {
                let number = u64::from_le_bytes(logged.entry[..8].try_into().unwrap());
                assert!(logged.entry == entry(number, 1900));
            }
            copies += 1;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(copies, 12);
    });
}
