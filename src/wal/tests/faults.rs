//! The disk says no.

use std::io::ErrorKind;

use super::*;
use crate::storage::Disk;
use crate::testing::CrashModel;
use crate::testing::StepKind;

fn poisoned<T: std::fmt::Debug>(result: Result<T, WalError>) -> Lsn {
    match result {
        Err(WalError::Poisoned { durable, .. }) => durable,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_sync_ends_the_log_for_all_and_is_never_tried_again() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let first = append(&wal, &[entry(1, 100)]).unwrap();
    wal.sync().unwrap();
    append(&wal, &[entry(2, 100)]).unwrap();
    disk.fail(StepKind::Sync, "", 0, ErrorKind::Other, false);
    assert_eq!(poisoned(wal.sync()), first.end);
    let steps = disk.step_count();
    assert_eq!(poisoned(wal.sync()), first.end);
    poisoned(append(&wal, &[entry(3, 100)]));
    poisoned(wal.truncate_before(wal.end()));
    poisoned(wal.read(first.lsns[0]));
    poisoned(wal.clone().close());
    assert_eq!(disk.step_count(), steps, "nothing touches the disk any more");
    drop(wal);
    // The page cache still shows what the disk has lost: the next opening must not rely on it (S4, P5).
    let (wal, _) = open(&disk);
    let found = all(&wal);
    assert_eq!(entries(&found), [entry(1, 100), entry(2, 100)]);
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    drop(wal);
    assert_eq!(all(&open(&after).0), found);
}

#[test]
fn every_waiter_of_a_failed_sync_gets_the_error_and_nobody_hangs() {
    for spared in 0..3 {
        let disk = disk();
        let (wal, _) = open(&disk);
        disk.fail(StepKind::Sync, "", spared, ErrorKind::Other, false);
        let told: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16_u64)
                .map(|thread| {
                    let wal = wal.clone();
                    scope.spawn(move || {
                        let mut acknowledged = Vec::new();
                        for number in 0..20 {
                            let number = thread * 100 + number;
                            match append(&wal, &[entry(number, 100)]).and_then(|_| wal.sync()) {
                                Ok(_) => acknowledged.push(entry(number, 100)),
                                Err(WalError::Poisoned { .. }) => break,
                                Err(other) => panic!("{other}"),
                            }
                        }
                        acknowledged
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(told.iter().all(|acknowledged| acknowledged.len() < 20));
        poisoned(wal.sync());
        drop(wal);
        let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
        let found = entries(&all(&open(&after).0));
        for entry in told.iter().flatten() {
            assert!(found.contains(entry), "an acknowledged entry is gone");
        }
    }
}

/// Appends over several segments with truncation, until something fails.
fn work(wal: &Wal, acknowledged: &mut Vec<Vec<u8>>) -> Result<(), WalError> {
    for number in 0..60 {
        append(wal, &[entry(number, 3000)])?;
        if number % 5 == 4 {
            wal.sync()?;
            acknowledged.extend((number - 4..=number).map(|number| entry(number, 3000)));
        }
    }
    let middle = wal.replay(wal.start())?.nth(30).unwrap()?.at;
    acknowledged.drain(..30);
    wal.truncate_before(middle)
}

#[test]
fn any_failing_step_stops_the_log_and_loses_nothing_that_was_acknowledged() {
    use StepKind::{RegionWrite, Rename, Reserve, Sync, SyncDir, Write};
    for kind in [RegionWrite, Rename, Reserve, Sync, SyncDir, Write] {
        let mut hit = 0;
        for spared in 0.. {
            let disk = disk();
            let (wal, _) = open(&disk);
            // Writes that initialise are many and alike.
            let spared_steps = if kind == Write { spared * 5 } else { spared };
            disk.fail(kind, "", spared_steps, ErrorKind::Other, false);
            let mut acknowledged = Vec::new();
            let result = work(&wal, &mut acknowledged);
            disk.heal();
            let what = format!("{kind:?} after {spared_steps}");
            let stopped = match &result {
                Ok(()) => {
                    assert!(append(&wal, &[entry(99, 1)]).is_ok(), "{what}");
                    break;
                }
                Err(WalError::Poisoned { .. }) => wal.durable(),
                Err(other) => panic!("{what}: {other}"),
            };
            hit += 1;
            poisoned(append(&wal, &[entry(99, 1)]));
            assert_eq!(poisoned(wal.sync()), stopped);
            drop(wal);
            for model in [CrashModel::ProcessOnly, CrashModel::LoseUnsynced, CrashModel::AnySubset] {
                let left = disk.after_crash(model, spared);
                let (wal, _) = try_open(&left).unwrap_or_else(|error| panic!("{what}, {model:?}: {error}"));
                let found = entries(&all(&wal));
                assert!(acknowledged.iter().all(|entry| found.contains(entry)), "{what}, {model:?}");
                drop(wal);
                // P5: and it stays so.
                let again = left.after_crash(CrashModel::LoseUnsynced, 0);
                assert_eq!(entries(&all(&open(&again).0)), found, "{what}, {model:?}");
            }
        }
        assert!(hit > 0, "{kind:?} never happened");
    }
}

#[test]
fn a_full_disk_is_an_ordinary_error_of_the_append() {
    let disk = disk();
    let (wal, _) = open(&disk);
    // Room for the manifest, and for four segments.
    disk.set_capacity(Some(4 * SEGMENT + 9000));
    let mut count = 0;
    let full = loop {
        match append(&wal, &[entry(count, 3000)]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, WalError::NoSpace { bytes: SEGMENT, .. }), "{full}");
    assert!(matches!(append(&wal, &[entry(0, 1_000_000)]), Err(WalError::NoSpace { .. })));
    assert!(!files(&disk).iter().any(|name| name.starts_with("making-")));
    assert_eq!(all(&wal).len() as u64, count);
    // What still fits is taken.
    append(&wal, &[entry(count, 10)]).unwrap();
    wal.sync().unwrap();
    let expected = all(&wal);
    drop(wal);
    // The reserve is for openings: one after another, on the full disk, appends being refused or not.
    for _ in 0..5 {
        let (wal, opened) = open(&disk);
        assert_eq!(opened.cut, None);
        assert_eq!(all(&wal), expected);
        assert!(matches!(append(&wal, &[entry(0, 10)]), Err(WalError::NoSpace { .. })));
    }
    // Room again, by truncation alone.
    let (wal, _) = open(&disk);
    let floor = expected[expected.len() - 3].at;
    wal.truncate_before(floor).unwrap();
    append(&wal, &[entry(count + 1, 3000)]).unwrap();
    wal.sync().unwrap();
    drop(wal);
    disk.set_capacity(None);
    let (wal, _) = open(&disk);
    append(&wal, &[entry(count + 2, 100_000)]).unwrap();
    let found = entries(&all(&wal));
    assert_eq!(found[found.len() - 2..], [entry(count + 1, 3000), entry(count + 2, 100_000)]);
}

#[test]
fn openings_of_a_torn_log_need_no_space_however_many_there_are() {
    for torn in [false, true] {
        let disk = disk();
        let (wal, _) = open(&disk);
        for number in 0..30 {
            append(&wal, &[entry(number, 3000)]).unwrap();
        }
        wal.sync().unwrap();
        let acknowledged = all(&wal);
        append(&wal, &[entry(30, 3000)]).unwrap();
        append(&wal, &[entry(31, 3000)]).unwrap();
        let expected = all(&wal);
        let left = disk.after_crash(CrashModel::ProcessOnly, 0);
        if torn {
            let path = segment_files(&left).pop().unwrap();
            let mut bytes = left.read_file(&path).unwrap();
            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[last - 100] ^= 1;
            left.write_file(&path, bytes).unwrap();
        }
        left.set_capacity(Some(left.used()));
        // The file of the other spare is taken as well: one is enough.
        let spare = files(&left).into_iter().filter(|name| name.starts_with("spare-")).nth(1);
        if let Some(spare) = spare {
            left.remove_file(&dir().join(spare)).unwrap();
            left.set_capacity(Some(left.used()));
        }
        for turn in 0..6 {
            let (wal, opened) = open(&left);
            let count = if torn { acknowledged.len() + 1 } else { expected.len() };
            assert!(all(&wal) == expected[..count]);
            assert_eq!(opened.cut.is_some(), torn && turn == 0);
            assert!(opened.cut.is_none_or(|cut| cut.quarantine.is_none()));
            assert!(matches!(append(&wal, &[entry(0, 10)]), Err(WalError::NoSpace { .. })));
            if turn % 2 == 1 {
                wal.close().unwrap();
            }
        }
    }
}

#[test]
fn an_error_of_a_read_is_no_end_of_the_log() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..40 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    wal.sync().unwrap();
    let expected = all(&wal);
    drop(wal);
    for spared in 0.. {
        disk.fail(StepKind::Read, ".wal", spared, ErrorKind::Other, false);
        let opened = try_open(&disk);
        disk.heal();
        match opened {
            Err(WalError::Io { .. }) => {}
            Err(other) => panic!("{other}"),
            Ok((wal, _)) => {
                assert_eq!(all(&wal), expected);
                break;
            }
        }
        assert_eq!(all(&open(&disk).0), expected);
    }
}
