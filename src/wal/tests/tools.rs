//! What is done to a log by hand: salvage, and the cut behind a position.

use proptest::prelude::*;

use super::*;
use crate::testing::CrashModel;
use crate::testing::StepKind;

type Found = (Vec<Logged>, Vec<(usize, Gap)>);

/// The good entries, and the gaps with how many entries were before each.
fn salvaged(disk: &CrashDisk) -> Result<Found, WalError> {
    let before = contents(disk);
    let (mut entries, mut gaps) = (Vec::new(), Vec::new());
    for found in salvage(dir(), &doors(disk))? {
        match found {
            Salvaged::Entry { at, entry } => entries.push((at, entry)),
            Salvaged::Gap(gap) => gaps.push((entries.len(), gap)),
        }
    }
    assert!(contents(disk) == before, "salvage changed a file");
    Ok((logged(entries), gaps))
}

fn logged(entries: Vec<(Lsn, Vec<u8>)>) -> Vec<Logged> {
    entries.into_iter().map(|(at, entry)| Logged { at, entry }).collect()
}

fn contents(disk: &CrashDisk) -> Vec<(PathBuf, Vec<u8>)> {
    disk.list_all().into_iter().map(|path| (path.clone(), disk.read_file(path).unwrap())).collect()
}

fn cut(disk: &CrashDisk, lsn: Lsn) -> Result<Truncation, WalError> {
    truncate_after(dir(), lsn, &sim_doors(disk, disk.step_count() as u64 + 5))
}

/// Appends of all sizes over several segments, in a log that was opened thrice; with where each append ends.
fn varied(disk: &CrashDisk) -> (Vec<Logged>, Vec<Lsn>) {
    let (mut wal, _) = open(disk);
    let mut ends = vec![Lsn(0)];
    for number in 0..40 {
        let batch = match number % 8 {
            0 => vec![entry(number, 20), entry(number, 3000)],
            3 => vec![entry(number, 1), entry(number, 90_000), entry(number, 2)],
            5 => vec![entry(number, 30_000)],
            _ => vec![entry(number, 700), entry(number, 0), entry(number, 1300)],
        };
        ends.push(append(&wal, &batch).unwrap().end);
        if number % 3 == 0 {
            wal.sync().unwrap();
        }
        if number % 16 == 15 {
            drop(wal);
            wal = open(disk).0;
        }
    }
    wal.sync().unwrap();
    (all(&wal), ends)
}

/// Entries of `expected` that were not found are in gaps, and nothing else was found.
fn check_gaps(expected: &[Logged], (found, gaps): &Found, what: &str) {
    let mut rest = found.iter().peekable();
    let mut before = 0;
    for logged in expected {
        if rest.next_if(|found| *found == logged).is_some() {
            before += 1;
            continue;
        }
        let told = gaps.iter().any(|(at, gap)| *at == before && gap.from <= logged.at && logged.at < gap.to);
        assert!(told, "{what}: the entry at {} is missing without a gap: {gaps:?}", logged.at);
    }
    assert_eq!(rest.next(), None, "{what}: something that nobody appended");
    assert!(gaps.windows(2).all(|pair| pair[0].1.to <= pair[1].1.from), "{what}: {gaps:?}");
}

#[test]
fn salvage_of_a_log_that_opens_gives_what_it_holds_and_no_gap() {
    for (closed, torn) in [(true, false), (false, false), (false, true)] {
        let disk = disk();
        varied(&disk);
        let (wal, _) = open(&disk);
        append(&wal, &[entry(100, 150_000)]).unwrap();
        append(&wal, &[entry(101, 1000)]).unwrap();
        if closed {
            wal.close().unwrap();
        } else {
            drop(wal);
        }
        let left = copy(&disk);
        if torn {
            let path = segment_files(&left).pop().unwrap();
            let mut bytes = left.read_file(&path).unwrap();
            bytes[4096 + 300] ^= 1;
            left.write_file(&path, bytes).unwrap();
        }
        let found = salvaged(&left).unwrap();
        assert_eq!(found, (all(&open(&left).0), Vec::new()), "closed {closed}, torn {torn}");
    }
    let empty = disk();
    drop(open(&empty));
    assert_eq!(salvaged(&empty).unwrap(), (Vec::new(), Vec::new()));
}

#[test]
fn salvage_is_refused_while_the_log_is_open_and_where_there_is_none() {
    let disk = disk();
    assert!(matches!(salvaged(&disk), Err(WalError::Io { .. })));
    let (wal, _) = open(&disk);
    assert!(matches!(salvaged(&disk), Err(WalError::Locked { .. })));
    assert!(matches!(cut(&disk, Lsn(0)), Err(WalError::Locked { .. })));
    drop(wal);
    let salvage = salvage(dir(), &doors(&disk)).unwrap();
    assert!(matches!(try_open(&disk), Err(WalError::Locked { .. })), "and the other way round");
    drop(salvage);
    open(&disk);
}

#[test]
fn a_lost_manifest_or_header_and_swapped_files_cost_no_entry() {
    let disk = disk();
    let (expected, _) = varied(&disk);
    let segments = segment_files(&disk);
    let check = |what: &str, count: usize, change: &dyn Fn(&CrashDisk)| {
        let changed = copy(&disk);
        change(&changed);
        assert!(try_open(&changed).is_err(), "{what}");
        let (found, gaps) = salvaged(&changed).unwrap();
        assert!(found == expected, "{what}: {} of {} entries", found.len(), expected.len());
        assert!(gaps.iter().all(|(_, gap)| gap.is_empty()) && gaps.len() == count, "{what}: {gaps:?}");
    };
    check("no manifest", 1, &|disk| {
        crate::storage::Disk::remove_file(disk, &dir().join("manifest")).unwrap();
    });
    check("a manifest of zeros", 1, &|disk| disk.write_file(dir().join("manifest"), [0; 8192]).unwrap());
    for path in &segments {
        check("a header of zeros", 1, &|disk| {
            let mut bytes = disk.read_file(path).unwrap();
            bytes[..4096].fill(0);
            disk.write_file(path, bytes).unwrap();
        });
    }
    check("two swapped", 2, &|disk| {
        let (one, other) = (disk.read_file(&segments[1]).unwrap(), disk.read_file(&segments[3]).unwrap());
        disk.write_file(&segments[1], other).unwrap();
        disk.write_file(&segments[3], one).unwrap();
    });
    check("neither manifest nor a header", segments.len() + 1, &|disk| {
        crate::storage::Disk::remove_file(disk, &dir().join("manifest")).unwrap();
        for path in &segments {
            let mut bytes = disk.read_file(path).unwrap();
            bytes[..4096].fill(0);
            disk.write_file(path, bytes).unwrap();
        }
    });
}

#[test]
fn damage_in_several_places_is_several_gaps() {
    let disk = disk();
    let (expected, _) = varied(&disk);
    let changed = copy(&disk);
    for path in segment_files(&disk) {
        let mut bytes = changed.read_file(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        for at in [used / 4, used / 2] {
            bytes[at.max(4200)] ^= 1;
        }
        changed.write_file(&path, bytes).unwrap();
    }
    let found = salvaged(&changed).unwrap();
    check_gaps(&expected, &found, "everywhere");
    assert!(found.0.len() > expected.len() / 2, "{} of {}", found.0.len(), expected.len());
    assert!(found.1.len() >= 8, "{:?}", found.1);
}

#[test]
fn a_read_that_fails_once_costs_nothing_and_one_that_always_fails_is_a_gap() {
    let disk = disk();
    let (expected, _) = varied(&disk);
    let path = segment_files(&disk)[2].clone();
    let name = path.file_name().unwrap().to_str().unwrap();
    // The header is the first read, the frames are the next one.
    let once = copy(&disk);
    once.fail(StepKind::Read, name, 4, std::io::ErrorKind::Other, false);
    assert_eq!(salvaged(&once).unwrap().0, expected);
    let ever = copy(&disk);
    ever.fail(StepKind::Read, name, 3, std::io::ErrorKind::Other, true);
    let found = {
        let (mut entries, mut gaps) = (Vec::new(), Vec::new());
        for found in salvage(dir(), &doors(&ever)).unwrap() {
            match found {
                Salvaged::Entry { at, entry } => entries.push((at, entry)),
                Salvaged::Gap(gap) => gaps.push((entries.len(), gap)),
            }
        }
        (logged(entries), gaps)
    };
    check_gaps(&expected, &found, "a disk that does not read");
    let [(_, gap)] = &found.1[..] else { panic!("{:?}", found.1) };
    assert!(gap.segment == path && gap.reason.contains("cannot read"), "{gap}");
}

#[test]
fn a_cut_anywhere_leaves_the_appends_that_lie_wholly_below() {
    let disk = disk();
    let (expected, ends) = varied(&disk);
    let last = ends[ends.len() - 1];
    for lsn in (0..last.0 + 700).step_by(3331).chain(ends.iter().flat_map(|end| [end.0, end.0 + 1])) {
        let what = format!("cut at {lsn}");
        let disk = copy(&disk);
        let end = *ends.iter().rev().find(|end| end.0 <= lsn).unwrap();
        let kept: Vec<_> = expected.iter().filter(|logged| logged.at < end).cloned().collect();
        let truncation = cut(&disk, Lsn(lsn)).unwrap();
        assert_eq!((truncation.end(), truncation.is_done()), (end, end == last), "{what}");
        assert_eq!(truncation.loss().entries as usize, expected.len() - kept.len(), "{what}");
        let changed = truncation.carry_out().unwrap().is_some();
        assert_eq!(changed, end != last, "{what}");
        // Also through a loss of power now (P5).
        let disk = disk.after_crash(CrashModel::LoseUnsynced, lsn);
        assert!(cut(&disk, Lsn(lsn)).unwrap().is_done(), "{what}: a second time");
        let (wal, opened) = open(&disk);
        assert_eq!((opened.end, opened.cut), (end, None), "{what}");
        assert!(all(&wal) == kept, "{what}");
        // It goes on, and what was cut never comes back.
        let next = append(&wal, &[entry(500, 400)]).unwrap();
        assert!(next.lsns[0] >= end);
        drop(wal);
        assert_eq!(entries(&all(&open(&disk).0)), [entries(&kept), vec![entry(500, 400)]].concat(), "{what}");
        assert_eq!(disk.list_all().iter().any(|path| path.starts_with("/home/log/quarantine")), changed);
    }
}

#[test]
fn what_a_cut_takes_out_is_in_the_quarantine() {
    let disk = disk();
    let (_, ends) = varied(&disk);
    let before: Vec<_> = segment_files(&disk).iter().map(|path| disk.read_file(path).unwrap()).collect();
    cut(&disk, ends[20]).unwrap().carry_out().unwrap();
    let kept: Vec<_> = disk
        .list_all()
        .into_iter()
        .filter(|path| path.starts_with("/home/log/quarantine"))
        .map(|path| disk.read_file(path).unwrap())
        .collect();
    let gone = before.iter().filter(|bytes| kept.contains(bytes)).count();
    let written = |bytes: &Vec<u8>| bytes[..=bytes.iter().rposition(|byte| *byte != 0).unwrap()].to_vec();
    let part = before.iter().filter(|bytes| {
        kept.iter().any(|kept| kept.len() > 1000 && kept != *bytes && written(bytes).ends_with(kept))
    });
    assert!(gone >= 2, "{gone} whole segments");
    assert_eq!(part.count(), 1, "and the rest of the one in which the cut is");
}

#[test]
fn a_cut_makes_durable_what_it_keeps() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let ends: Vec<_> = (0..30).map(|number| append(&wal, &[entry(number, 900)]).unwrap().end).collect();
    drop(wal);
    // Nothing was ever synced: the page cache alone has it.
    let left = disk.after_crash(CrashModel::ProcessOnly, 0);
    cut(&left, ends[19]).unwrap().carry_out().unwrap();
    let after = left.after_crash(CrashModel::LoseUnsynced, 0);
    let expected: Vec<_> = (0..20).map(|number| entry(number, 900)).collect();
    assert_eq!(entries(&all(&open(&after).0)), expected);
}

#[test]
fn a_cut_is_refused_above_damage_and_before_the_start_and_changes_nothing() {
    let disk = disk();
    let (expected, ends) = varied(&disk);
    let (wal, _) = open(&disk);
    wal.truncate_before(ends[15]).unwrap();
    let start = wal.start();
    drop(wal);
    assert!(start > Lsn(0));
    assert!(matches!(cut(&disk, Lsn(start.0 - 1)), Err(WalError::OutOfRange { .. })));
    let path = segment_files(&disk)[1].clone();
    let changed = copy(&disk);
    let mut bytes = changed.read_file(&path).unwrap();
    bytes[4096 + 90] ^= 1;
    changed.write_file(&path, bytes).unwrap();
    let before = contents(&changed);
    let (found, gaps) = salvaged(&changed).unwrap();
    check_gaps(
        &expected[expected.iter().position(|logged| logged.at >= start).unwrap()..],
        &(found, gaps.clone()),
        "",
    );
    let Err(WalError::Damage { path: named, .. }) = cut(&changed, Lsn(gaps[0].1.to.0 + 1)) else {
        panic!("it was not refused")
    };
    assert_eq!(named, path);
    // A plan that is not carried out.
    assert!(!cut(&changed, gaps[0].1.from).unwrap().is_done());
    assert!(contents(&changed) == before);
}

#[test]
fn a_cut_on_a_disk_without_room_for_the_copy_is_refused_and_done_later() {
    let disk = disk();
    let (expected, ends) = varied(&disk);
    disk.set_capacity(Some(disk.used() + 1000));
    assert!(matches!(cut(&disk, ends[9]).unwrap().carry_out(), Err(WalError::NoSpace { .. })));
    disk.set_capacity(None);
    assert_eq!(all(&open(&disk).0), expected, "nothing was cut");
    cut(&disk, ends[9]).unwrap().carry_out().unwrap();
    assert_eq!(open(&disk).1.end, ends[9]);
}

/// Cuts at `lsn` with a crash at each step: what is left is the log before or after, and another attempt does the
/// rest.
fn sweep_cut(disk: &CrashDisk, lsn: Lsn, model: CrashModel, whole: Option<&[Logged]>, kept: &[Logged]) {
    // A segment file of which an opening could not tell that it was cut off.
    let headless = segment_files(disk)
        .into_iter()
        .map(|path| disk.read_file(path).unwrap())
        .find(|bytes| bytes[..64].iter().all(|byte| *byte == 0));
    let steps = {
        let disk = copy(disk);
        cut(&disk, lsn).unwrap().carry_out().unwrap();
        disk.step_count()
    };
    let (mut old, mut new) = (0, 0);
    for (step, moment) in (0..steps).flat_map(|step| [(step, false), (step, true)]) {
        let what = format!("{model:?}, step {step} of {steps}, midway {moment}");
        let first = copy(disk);
        if moment {
            first.crash_midway(step);
        } else {
            first.crash_after(step);
        }
        let done = cut(&first, lsn).and_then(Truncation::carry_out);
        let left = first.after_crash(model, step as u64);
        let opened = left.after_crash(CrashModel::ProcessOnly, 0);
        match try_open(&opened) {
            Ok((wal, _)) => {
                let found = all(&wal);
                let aside = |path: &PathBuf| path.starts_with("/home/log/quarantine");
                let mut aside = opened.list_all().into_iter().filter(aside);
                let is_aside = |bytes: &Vec<u8>| aside.any(|path| opened.read_file(path).unwrap() == *bytes);
                assert!(headless.as_ref().is_none_or(is_aside), "{what}: a file that was cut off is a spare");
                if found == kept {
                    new += 1;
                } else {
                    assert!(whole == Some(&found[..]) && done.is_err(), "{what}");
                    old += 1;
                }
            }
            Err(WalError::Damage { .. }) => assert!(whole.is_none() && done.is_err(), "{what}"),
            Err(error) => panic!("{what}: {error}"),
        }
        cut(&left, lsn)
            .unwrap_or_else(|error| panic!("{what}: {error}\n{}", left.dump()))
            .carry_out()
            .unwrap_or_else(|error| panic!("{what}: {error:?}\n{}", left.dump()));
        let left = left.after_crash(CrashModel::LoseUnsynced, 1);
        let (wal, opened) = open(&left);
        assert_eq!(opened.cut, None, "{what}: the second attempt");
        assert!(all(&wal) == kept, "{what}: the second attempt");
    }
    assert!(new > 0 && (old > 0 || whole.is_none()));
}

#[test]
fn a_cut_interrupted_at_any_step_is_done_by_the_next_attempt() {
    let disk = disk();
    let (expected, ends) = varied(&disk);
    let lsn = ends[17];
    let kept: Vec<_> = expected.iter().filter(|logged| logged.at < lsn).cloned().collect();
    for model in [CrashModel::ProcessOnly, CrashModel::AnySubset, CrashModel::LoseUnsynced] {
        sweep_cut(&copy(&disk), lsn, model, Some(&expected), &kept);
    }
    // The same with damage behind: a header, a file of another log, a segment that is missing.
    let segments = segment_files(&disk);
    let damaged = copy(&disk);
    let gone = segments.len() - 2;
    crate::storage::Disk::remove_file(&damaged, &segments[gone]).unwrap();
    let mut bytes = damaged.read_file(&segments[gone - 1]).unwrap();
    bytes[..100].fill(0);
    damaged.write_file(&segments[gone - 1], bytes).unwrap();
    sweep_cut(&copy(&damaged), lsn, CrashModel::AnySubset, None, &kept);
    let other = super::disk();
    let (wal, _) = Wal::open(dir(), small(), &sim_doors(&other, 12345)).unwrap();
    append(&wal, &[entry(1, 10_000)]).unwrap();
    damaged.write_file(segments.last().unwrap(), other.read_file(&segments[0]).unwrap()).unwrap();
    let (found, gaps) = salvaged(&damaged).unwrap();
    check_gaps(&expected, &(found, gaps), "before the cut");
    sweep_cut(&copy(&damaged), lsn, CrashModel::AnySubset, None, &kept);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn salvage_loses_only_what_is_in_a_gap_and_is_silent_only_about_a_log_that_opens(
        flips in prop::collection::vec((0_usize..12, 0_usize..65_536, 1_u8..), 0..6),
        zeros in prop::collection::vec((0_usize..12, 0_usize..16), 0..3),
        missing in prop::collection::vec(0_usize..12, 0..2),
    ) {
        let disk = disk();
        let (expected, _) = varied(&disk);
        let segments = segment_files(&disk);
        let changed = copy(&disk);
        for (which, at, bits) in flips {
            let path = &segments[which % segments.len()];
            let mut bytes = changed.read_file(path).unwrap();
            bytes[at] ^= bits;
            changed.write_file(path, bytes).unwrap();
        }
        for (which, page) in zeros {
            let path = &segments[which % segments.len()];
            let mut bytes = changed.read_file(path).unwrap();
            bytes[page * 4096..(page + 1) * 4096].fill(0);
            changed.write_file(path, bytes).unwrap();
        }
        for which in missing {
            let _ = crate::storage::Disk::remove_file(&changed, &segments[which % segments.len()]);
        }
        let found = salvaged(&changed).unwrap();
        check_gaps(&expected, &found, "damaged");
        let silent = found.1.is_empty();
        match try_open(&copy(&changed)) {
            Ok((wal, _)) => prop_assert!(silent && all(&wal) == found.0, "{:?}", found.1),
            Err(error) => {
                prop_assert!(!silent, "{}", error);
                // Cut at the first gap, the rest is a log.
                let at = found.1[0].1.from;
                let kept: Vec<_> = expected.iter().filter(|logged| logged.at < at).cloned().collect();
                let truncation = cut(&changed, at).unwrap();
                prop_assert!(truncation.end() <= at);
                let end = truncation.end();
                truncation.carry_out().unwrap();
                let whole: Vec<_> = kept.into_iter().filter(|logged| logged.at < end).collect();
                prop_assert!(all(&open(&changed).0) == whole);
            }
        }
    }

    #[test]
    fn any_bytes_as_files_are_salvaged_and_cut_without_a_panic(
        manifest in prop::option::of(prop::collection::vec(any::<u8>(), 0..9000)),
        segment in prop::collection::vec(any::<u8>(), 0..9000),
        headers in prop::collection::vec((0_usize..4, 8_usize..112, any::<u8>()), 0..4),
        which in 0_usize..4,
        lsn in 0_u64..400_000,
    ) {
        let disk = disk();
        varied(&disk);
        let segments = segment_files(&disk);
        let changed = copy(&disk);
        changed.write_file(&segments[which], segment).unwrap();
        // Headers whose checksums are right and whose numbers are not.
        for (which, at, byte) in headers {
            let mut bytes = changed.read_file(&segments[which]).unwrap();
            if bytes.len() >= 4096 {
                bytes[at] = byte;
                let crc = crc32fast::hash(&bytes[8..4096]);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
                changed.write_file(&segments[which], bytes).unwrap();
            }
        }
        if let Some(manifest) = manifest {
            changed.write_file(dir().join("manifest"), manifest).unwrap();
        }
        let _ = salvaged(&changed);
        let _ = cut(&changed, Lsn(lsn)).and_then(Truncation::carry_out);
        let _ = salvaged(&changed);
    }
}
