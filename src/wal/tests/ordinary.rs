//! Nothing goes wrong.

use proptest::prelude::*;

use super::*;
use crate::doors::Doors;
use crate::testing::StepKind;

#[test]
fn entries_come_back_in_order_with_their_positions() {
    let disk = disk();
    let (wal, opened) = open(&disk);
    assert!(opened.fresh && opened.clean && opened.cut.is_none());
    let first = append(&wal, &[entry(1, 10), entry(2, 0), entry(3, 5000)]).unwrap();
    let second = append(&wal, &[entry(4, 64)]).unwrap();
    assert_eq!(first.lsns[0], Lsn(64));
    let lsns: Vec<_> = first.lsns.iter().chain(&second.lsns).copied().collect();
    let logged = all(&wal);
    assert_eq!(logged.iter().map(|logged| logged.at).collect::<Vec<_>>(), lsns);
    assert_eq!(entries(&logged), [entry(1, 10), entry(2, 0), entry(3, 5000), entry(4, 64)]);
    for logged in &logged {
        assert_eq!(wal.read(logged.at).unwrap(), logged.entry);
    }
    assert_eq!(wal.durable(), Lsn(0));
    assert_eq!(wal.sync().unwrap(), second.end);
    assert_eq!(wal.durable(), wal.end());
}

#[test]
fn an_append_within_a_segment_makes_no_system_call() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let before = disk.step_count();
    append(&wal, &[entry(1, 1000)]).unwrap();
    append(&wal, &[entry(2, 1000)]).unwrap();
    let steps = disk.steps();
    assert_eq!(steps.len(), before + 2);
    assert!(steps[before..].iter().all(|step| step.kind == StepKind::RegionWrite));
}

#[test]
fn a_sync_is_one_sync_and_with_nothing_new_it_is_no_step() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 1000)]).unwrap();
    let before = disk.step_count();
    wal.sync().unwrap();
    let kinds: Vec<_> = disk.steps()[before..].iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [StepKind::Sync, StepKind::RegionWrite, StepKind::Write],
        "the sync, then the mark in the map and the witness in the manifest"
    );
    let before = disk.step_count();
    assert_eq!(wal.sync().unwrap(), wal.end());
    assert_eq!(disk.step_count(), before);
}

#[test]
fn appended_bytes_are_what_the_end_moved() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let mut sum = 0;
    for number in 0..200 {
        let before = wal.end();
        let appended = append(&wal, &[entry(number, 997), entry(number, 3)]).unwrap();
        assert!(appended.end.0 - before.0 >= 1000);
        sum += appended.end.0 - before.0;
        assert_eq!(wal.stats().appended_bytes, sum);
    }
    assert!(wal.stats().segments >= 3);
    assert_eq!(wal.stats().live_bytes, sum);
    wal.truncate_before(wal.end()).unwrap();
    assert_eq!(wal.stats().appended_bytes, sum);
}

#[test]
fn an_entry_of_many_segments_is_one_entry() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let big = [entry(1, 10), entry(2, 300_000), entry(3, 20), entry(4, 100_000)];
    let appended = append(&wal, &big).unwrap();
    append(&wal, &[entry(5, 5)]).unwrap();
    assert!(wal.stats().segments >= 6);
    assert_eq!(entries(&all(&wal)), [&big[..], &[entry(5, 5)]].concat());
    for (lsn, entry) in appended.lsns.iter().zip(&big) {
        assert_eq!(&wal.read(*lsn).unwrap(), entry);
    }
    wal.sync().unwrap();
    drop(wal);
    let (wal, opened) = open(&disk);
    assert_eq!(opened.cut, None);
    assert_eq!(entries(&all(&wal)), [&big[..], &[entry(5, 5)]].concat());
    for (lsn, entry) in appended.lsns.iter().zip(&big) {
        assert_eq!(&wal.read(*lsn).unwrap(), entry);
    }
}

#[test]
fn a_replay_may_start_at_any_position() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..20 {
        append(&wal, &[entry(number, 40), entry(number, 7000), entry(number, 100)]).unwrap();
    }
    append(&wal, &[entry(99, 150_000)]).unwrap();
    let logged = all(&wal);
    for from in (0..=wal.end().0).step_by(709).chain([wal.end().0]) {
        let found: Vec<_> = wal.replay(Lsn(from)).unwrap().collect::<Result<_, _>>().unwrap();
        let expected: Vec<_> = logged.iter().filter(|logged| logged.at >= Lsn(from)).cloned().collect();
        assert_eq!(found, expected, "from {from}");
    }
    assert!(matches!(wal.replay(Lsn(wal.end().0 + 1)), Err(WalError::OutOfRange { .. })));
    assert!(matches!(wal.read(wal.end()), Err(WalError::OutOfRange { .. })));
    assert!(matches!(wal.read(Lsn(65)), Err(WalError::Damage { .. })));
}

#[test]
fn positions_stay_the_same_over_openings_and_truncation() {
    let disk = disk();
    let mut expected = Vec::new();
    let mut number = 0;
    for _ in 0..6 {
        let (wal, opened) = open(&disk);
        assert_eq!(opened.cut, None);
        for _ in 0..25 {
            number += 1;
            let appended = append(&wal, &[entry(number, 3000)]).unwrap();
            expected.push(Logged { at: appended.lsns[0], entry: entry(number, 3000) });
        }
        if number % 2 == 0 {
            wal.sync().unwrap();
        }
        let floor = expected[expected.len() - 30.min(expected.len())].at;
        wal.truncate_before(floor).unwrap();
        expected.retain(|logged| logged.at >= wal.start());
        assert!(expected[0].at <= floor);
        assert_eq!(all(&wal), expected);
    }
}

#[test]
fn a_closed_log_opens_clean_and_one_that_was_dropped_does_not() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 100)]).unwrap();
    let other = wal.clone();
    wal.close().unwrap();
    assert!(matches!(append(&other, &[entry(2, 1)]), Err(WalError::Closed)));
    assert!(matches!(other.sync(), Err(WalError::Closed)));
    let (wal, opened) = open(&disk);
    assert!(opened.clean && !opened.fresh);
    assert_eq!(entries(&all(&wal)), [entry(1, 100)]);
    drop(wal);
    assert!(!open(&disk).1.clean);
}

#[test]
fn openings_and_closings_leave_no_files_behind() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 100)]).unwrap();
    wal.close().unwrap();
    for round in 0..10 {
        let (wal, opened) = open(&disk);
        assert_eq!(opened.clean, round % 2 == 0);
        assert_eq!(segment_files(&disk).len(), 1);
        if round % 2 == 1 {
            wal.close().unwrap();
        }
    }
    let spares = files(&disk).iter().filter(|name| name.starts_with("spare-")).count();
    assert!((1..=2).contains(&spares));
    assert!(!files(&disk).iter().any(|name| name.starts_with("making-")));
}

#[test]
fn short_lives_of_a_log_share_segments() {
    let disk = disk();
    for life in 0..100 {
        let (wal, opened) = open(&disk);
        assert_eq!(opened.end.0 > 0, life > 0);
        append(&wal, &[entry(life, 500)]).unwrap();
        wal.sync().unwrap();
        // Ends as a killed process does.
    }
    let (wal, _) = open(&disk);
    // 64 KiB each, at least a quarter of it used.
    assert!(segment_files(&disk).len() <= 100 * 640 / (16 << 10) + 2, "{:?}", segment_files(&disk));
    assert_eq!(entries(&all(&wal)), (0..100).map(|life| entry(life, 500)).collect::<Vec<_>>());
}

#[test]
fn a_hold_keeps_what_is_behind_it_and_the_smallest_wins() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let lsns: Vec<_> = (0..100).map(|number| append(&wal, &[entry(number, 3000)]).unwrap().lsns[0]).collect();
    wal.hold("one", lsns[60]);
    wal.hold("two", lsns[40]);
    wal.truncate_before(wal.end()).unwrap();
    assert!(wal.start() <= lsns[40] && wal.start() > lsns[0]);
    assert_eq!(wal.read(lsns[40]).unwrap(), entry(40, 3000));
    wal.release("two");
    wal.hold("one", lsns[80]);
    wal.truncate_before(wal.end()).unwrap();
    assert!(wal.start() <= lsns[80] && wal.start() > lsns[40]);
    assert!(matches!(wal.read(lsns[40]), Err(WalError::OutOfRange { .. })));
    assert_eq!(wal.read(lsns[80]).unwrap(), entry(80, 3000));
    wal.release("one");
    wal.truncate_before(wal.end()).unwrap();
    assert_eq!(wal.stats().segments, 1);
    assert!(files(&disk).iter().filter(|name| name.starts_with("spare-")).count() <= 2);
}

#[test]
fn a_replay_outlives_the_truncation_of_what_it_reads() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..100 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    let mut replay = wal.replay(Lsn(0)).unwrap();
    assert_eq!(replay.next().unwrap().unwrap().entry, entry(0, 3000));
    wal.truncate_before(wal.end()).unwrap();
    for number in 100..200 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    for number in 1..100 {
        assert_eq!(replay.next().unwrap().unwrap().entry, entry(number, 3000));
    }
    assert!(replay.next().is_none());
}

#[test]
fn segments_given_up_are_used_again_and_their_old_frames_are_never_delivered() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..300 {
        append(&wal, &[entry(number, 3000)]).unwrap();
        if number % 10 == 0 {
            wal.truncate_before(wal.end()).unwrap();
        }
    }
    assert!(disk.used() <= 6 * SEGMENT, "files are used again: {:?}", files(&disk));
    wal.truncate_before(wal.end()).unwrap();
    let kept = all(&wal);
    wal.sync().unwrap();
    drop(wal);
    // Behind the last frame lie valid frames of a former life.
    let (wal, opened) = open(&disk);
    assert_eq!(opened.cut, None);
    assert_eq!(all(&wal), kept);
}

#[test]
fn a_second_opening_is_refused_until_the_first_ends() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let other = wal.clone();
    drop(wal);
    assert!(matches!(try_open(&disk), Err(WalError::Locked { .. })));
    drop(other);
    let (wal, _) = open(&disk);
    let other = wal.clone();
    wal.close().unwrap();
    drop(open(&disk));
    drop(other);
}

#[test]
fn another_segment_size_takes_over_an_old_log() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let mut expected = Vec::new();
    for number in 0..50 {
        append(&wal, &[entry(number, 3000)]).unwrap();
        expected.push(entry(number, 3000));
    }
    drop(wal);
    for (bytes, number) in [(256 << 10, 50), (64 << 10, 51), (128 << 10, 52)] {
        let settings = WalSettings { segment_bytes: bytes, ..WalSettings::default() };
        let (wal, _) = Wal::open(dir(), settings, &doors(&disk)).unwrap();
        assert_eq!(entries(&all(&wal)), expected);
        append(&wal, &[entry(number, 100_000)]).unwrap();
        expected.push(entry(number, 100_000));
        assert_eq!(entries(&all(&wal)), expected);
    }
}

/// A log of a released version must open for ever: when this fails, the version has to grow.
#[test]
fn the_bytes_of_version_1_stay_as_they_are() {
    let disk = disk();
    let (wal, _) = Wal::open(dir(), small(), &doors(&disk)).unwrap();
    for number in 0..30 {
        append(&wal, &[entry(number, 300), entry(number, 3000)]).unwrap();
        wal.sync().unwrap();
    }
    append(&wal, &[entry(30, 90_000)]).unwrap();
    wal.close().unwrap();
    let crcs: Vec<_> = files(&disk)
        .into_iter()
        .filter(|name| name.ends_with(".wal") || name == "manifest")
        .map(|name| crc32fast::hash(&disk.read_file(dir().join(name)).unwrap()))
        .collect();
    assert_eq!(
        crcs,
        [1449620910, 2888850636, 3216716750, 1195771068, 3894084662],
        "of four segments and the manifest"
    );
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refused = |settings: WalSettings| {
        let disk = disk();
        matches!(Wal::open(dir(), settings, &doors(&disk)), Err(WalError::Settings { .. }))
            && disk.step_count() == 0
    };
    assert!(refused(WalSettings { segment_bytes: 4096, ..small() }));
    assert!(refused(WalSettings { segment_bytes: SEGMENT + 64, ..small() }));
    assert!(refused(WalSettings { log_bytes_max: Some(SEGMENT), ..small() }));
}

#[test]
fn a_log_at_its_limit_refuses_appends_until_it_is_truncated() {
    let disk = disk();
    let settings = WalSettings { log_bytes_max: Some(3 * SEGMENT), ..small() };
    let (wal, _) = Wal::open(dir(), settings, &doors(&disk)).unwrap();
    let mut count = 0;
    let full = loop {
        match append(&wal, &[entry(count, 3000)]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, WalError::Full { limit_bytes, .. } if limit_bytes == 3 * SEGMENT), "{full}");
    assert_eq!(all(&wal).len() as u64, count);
    assert!(matches!(append(&wal, &[entry(0, 500_000)]), Err(WalError::Full { .. })));
    // What has to be written to make room still can be.
    wal.append_past_limit(&[&entry(count, 3000)]).unwrap();
    assert_eq!(wal.stats().segments, 4);
    wal.sync().unwrap();
    wal.truncate_before(wal.end()).unwrap();
    append(&wal, &[entry(count, 3000)]).unwrap();
}

#[test]
fn the_real_disk_keeps_a_log() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let mut expected = Vec::new();
    for round in 0..4 {
        let (wal, opened) = Wal::open(&dir, small(), &Doors::real()).unwrap();
        assert_eq!(opened.cut, None);
        assert_eq!(entries(&all(&wal)), expected);
        for number in 0..40 {
            let batch = [entry(number, 500), entry(number, 2500)];
            append(&wal, &batch).unwrap();
            expected.extend(batch);
        }
        append(&wal, &[entry(round, 200_000)]).unwrap();
        expected.push(entry(round, 200_000));
        if round % 2 == 0 {
            wal.sync().unwrap();
            wal.close().unwrap();
        }
    }
    let (wal, _) = Wal::open(&dir, small(), &Doors::real()).unwrap();
    wal.truncate_before(wal.end()).unwrap();
    assert!(all(&wal).is_empty());
}

#[test]
fn many_threads_append_and_sync_and_each_finds_its_entries() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let (wal, _) = Wal::open(&dir, small(), &Doors::real()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let wal = wal.clone();
            scope.spawn(move || {
                for number in 0..50 {
                    let appended = append(&wal, &[entry(thread * 1000 + number, 700)]).unwrap();
                    assert!(wal.sync().unwrap() >= appended.end);
                    assert_eq!(wal.read(appended.lsns[0]).unwrap(), entry(thread * 1000 + number, 700));
                }
            });
        }
    });
    assert!(wal.stats().syncs <= 400 + 2 * wal.stats().segments);
    drop(wal);
    let (wal, _) = Wal::open(&dir, small(), &Doors::real()).unwrap();
    let mut found = entries(&all(&wal));
    assert_eq!(found.len(), 400);
    for thread in 0..8 {
        let numbers = found.iter().map(|entry| u64::from_le_bytes(entry[..8].try_into().unwrap()));
        assert!(numbers.filter(|number| number / 1000 == thread).is_sorted());
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 400);
}

#[tokio::test]
async fn spares_are_made_in_the_background() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let doors = Doors::real();
    let (wal, _) = Wal::open(&dir, small(), &doors).unwrap();
    for number in 0..100 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    doors.io.join().await;
    assert!(dir.join("spare-1").exists() || wal.stats().segments > 3);
    wal.close().unwrap();
    let (wal, _) = Wal::open(&dir, small(), &doors).unwrap();
    assert_eq!(all(&wal).len(), 100);
}

fn lens() -> impl Strategy<Value = usize> {
    prop_oneof![0_usize..200, 0_usize..9000, 0_usize..180_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_appended_comes_back(
        appends in prop::collection::vec((prop::collection::vec(lens(), 1..5), any::<bool>()), 1..20),
    ) {
        let disk = disk();
        let mut expected = Vec::new();
        let (mut wal, _) = open(&disk);
        for (number, (lens, reopen)) in appends.iter().enumerate() {
            let batch: Vec<_> = lens.iter().map(|len| entry(number as u64, *len)).collect();
            let appended = append(&wal, &batch).unwrap();
            expected.extend(appended.lsns.iter().zip(batch).map(|(at, entry)| Logged { at: *at, entry }));
            if *reopen {
                drop(wal);
                wal = open(&disk).0;
            }
        }
        prop_assert_eq!(all(&wal), expected.clone());
        for logged in expected {
            prop_assert_eq!(wal.read(logged.at).unwrap(), logged.entry);
        }
    }
}
