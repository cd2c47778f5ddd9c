//! Bytes change, or files vanish, behind the log's back.

use proptest::prelude::*;

use super::*;
use crate::testing::CrashModel;

/// What became of a log that was tampered with.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    Same,
    Shorter,
}

fn outcome(disk: &CrashDisk, expected: &[Logged], what: &str) -> Outcome {
    let before: Vec<_> =
        disk.list_all().into_iter().map(|path| (disk.read_file(&path).unwrap(), path)).collect();
    match try_open(disk) {
        Err(WalError::Damage { path, offset, at, to, .. }) => {
            assert!(path.starts_with(DIR) && at <= to, "{what}");
            assert!(offset <= SEGMENT, "{what}");
            let after: Vec<_> =
                disk.list_all().into_iter().map(|path| (disk.read_file(&path).unwrap(), path)).collect();
            assert!(before == after, "{what}: a refused log was changed");
            Outcome::Refused
        }
        Err(WalError::Version { .. }) => Outcome::Refused,
        Err(error) => panic!("{what}: {error}"),
        Ok((wal, _)) => {
            let found = all(&wal);
            assert!(expected.starts_with(&found), "{what}: something else was delivered");
            if found.len() == expected.len() { Outcome::Same } else { Outcome::Shorter }
        }
    }
}

/// Three segments, everything acknowledged, the process killed.
fn acknowledged() -> (CrashDisk, Vec<Logged>) {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..40 {
        append(&wal, &[entry(number, 2000), entry(number, 1500)]).unwrap();
        if number % 7 == 0 {
            wal.sync().unwrap();
        }
    }
    wal.sync().unwrap();
    let expected = all(&wal);
    assert_eq!(wal.stats().segments, 3);
    let left = disk.after_crash(CrashModel::ProcessOnly, 0);
    (copy(&left), expected)
}

fn with_change(disk: &CrashDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> CrashDisk {
    let changed = copy(disk);
    let mut bytes = changed.read_file(path).unwrap();
    change(&mut bytes);
    changed.write_file(path, bytes).unwrap();
    changed
}

#[test]
fn a_bit_flipped_anywhere_in_an_acknowledged_log_is_refused_or_harmless() {
    let (disk, expected) = acknowledged();
    let mut refused = 0;
    for path in segment_files(&disk) {
        // Every byte of the start, of the first frames, and a sample of the rest.
        let sample = (0..120).chain((120..4096).step_by(59)).chain(4096..4096 + 200);
        for at in sample.chain((4296..SEGMENT as usize).step_by(173)) {
            let what = format!("{} byte {at}", path.display());
            let changed = with_change(&disk, &path, |bytes| bytes[at] ^= 1 << (at % 8));
            match outcome(&changed, &expected, &what) {
                Outcome::Refused => refused += 1,
                Outcome::Same => {}
                Outcome::Shorter => panic!("{what}: acknowledged entries are gone without an error"),
            }
        }
    }
    assert!(refused > 1200, "{refused}");
}

#[test]
fn a_bit_flipped_in_the_manifest_is_refused_or_harmless() {
    let (disk, expected) = acknowledged();
    // The rest of a slot is zeros under the same checksum.
    let slot = || (0..140).chain((140..4096).step_by(61));
    // And the witness behind the two: without it the log is as it was before there was one.
    for at in slot().chain(slot().map(|at| at + 4096)).chain(8192..8232) {
        let what = format!("manifest byte {at}");
        let changed = with_change(&disk, &dir().join("manifest"), |bytes| bytes[at] ^= 0x10);
        assert_ne!(outcome(&changed, &expected, &what), Outcome::Shorter, "{what}");
    }
}

#[test]
fn a_damaged_frame_is_named_by_segment_offset_and_position() {
    let (disk, expected) = acknowledged();
    let segments = segment_files(&disk);
    for (index, path) in segments.iter().enumerate() {
        let base = if index == 0 {
            0
        } else {
            u64::from_le_bytes(disk.read_file(path).unwrap()[40..48].try_into().unwrap())
        };
        let third = expected.iter().filter(|logged| logged.at.0 > base).nth(4).unwrap().at;
        let offset = third.0 - base + 4096;
        let changed = with_change(&disk, path, |bytes| bytes[offset as usize + 100] ^= 1);
        let Err(WalError::Damage { path: named, offset: found, at, to, .. }) = try_open(&changed) else {
            panic!("not refused");
        };
        assert_eq!(&named, path);
        assert_eq!(found, offset - 64, "the frame's header");
        assert_eq!(at.0, third.0 - 64);
        assert!(to > at);
    }
}

#[test]
fn a_page_of_zeros_in_the_middle_is_refused() {
    let (disk, expected) = acknowledged();
    for path in segment_files(&disk) {
        for page in (4096..20_000).step_by(4096) {
            let what = format!("{} page at {page}", path.display());
            let changed = with_change(&disk, &path, |bytes| bytes[page..page + 4096].fill(0));
            assert_eq!(outcome(&changed, &expected, &what), Outcome::Refused, "{what}");
        }
    }
}

#[test]
fn a_missing_segment_is_refused_whichever_it_is() {
    let (disk, expected) = acknowledged();
    for path in segment_files(&disk) {
        let changed = CrashDisk::new();
        changed.make_dirs("/home").unwrap();
        for other in disk.list_all().into_iter().filter(|other| *other != path) {
            changed.write_file(&other, disk.read_file(&other).unwrap()).unwrap();
        }
        assert_eq!(outcome(&changed, &expected, &path.display().to_string()), Outcome::Refused);
    }
}

#[test]
fn a_missing_manifest_is_refused() {
    let (disk, expected) = acknowledged();
    let changed = CrashDisk::new();
    changed.make_dirs("/home").unwrap();
    for path in disk.list_all().into_iter().filter(|path| !path.ends_with("manifest")) {
        changed.write_file(&path, disk.read_file(&path).unwrap()).unwrap();
    }
    assert_eq!(outcome(&changed, &expected, "manifest"), Outcome::Refused);
}

#[test]
fn two_swapped_segments_are_refused() {
    let (disk, expected) = acknowledged();
    let segments = segment_files(&disk);
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        let changed = copy(&disk);
        changed.write_file(&segments[one], disk.read_file(&segments[other]).unwrap()).unwrap();
        changed.write_file(&segments[other], disk.read_file(&segments[one]).unwrap()).unwrap();
        assert_eq!(outcome(&changed, &expected, "swapped"), Outcome::Refused);
    }
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let (disk, expected) = acknowledged();
    let other = super::disk();
    let (wal, _) = Wal::open(dir(), small(), &sim_doors(&other, 12345)).unwrap();
    for number in 0..60 {
        append(&wal, &[entry(number, 3500)]).unwrap();
    }
    wal.sync().unwrap();
    for path in segment_files(&disk) {
        let changed = copy(&disk);
        changed.write_file(&path, other.read_file(&path).unwrap()).unwrap();
        assert_eq!(outcome(&changed, &expected, "foreign"), Outcome::Refused);
    }
    // Also where no manifest names it.
    let changed = copy(&disk);
    let extra = dir().join("0000000000000004.wal");
    changed.write_file(&extra, other.read_file(&extra).unwrap()).unwrap();
    assert_eq!(outcome(&changed, &expected, "foreign and unnamed"), Outcome::Refused);
}

#[test]
fn a_shortened_segment_is_refused() {
    let (disk, expected) = acknowledged();
    for path in segment_files(&disk) {
        for len in [0, 100, 4096, 5000, SEGMENT as usize - 1] {
            let changed = with_change(&disk, &path, |bytes| bytes.truncate(len));
            assert_eq!(outcome(&changed, &expected, "shortened"), Outcome::Refused, "{len}");
        }
    }
}

#[test]
fn a_manifest_that_went_back_in_time_is_noticed() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 100)]).unwrap();
    wal.sync().unwrap();
    let old = disk.read_file(dir().join("manifest")).unwrap();
    for number in 2..40 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    wal.sync().unwrap();
    let expected = all(&wal);
    drop(wal);
    let changed = copy(&disk);
    changed.write_file(dir().join("manifest"), old).unwrap();
    assert_eq!(outcome(&changed, &expected, "an old manifest"), Outcome::Refused);
}

#[test]
fn after_a_clean_close_every_missing_byte_is_damage() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..10 {
        append(&wal, &[entry(number, 1000)]).unwrap();
    }
    let (expected, end) = (all(&wal), wal.end().0 as usize + 4096);
    wal.close().unwrap();
    let path = segment_files(&disk)[0].clone();
    // The last frame, the seal, and its body: with the seal gone as well nothing in the segment tells.
    for from in (end - 1100..end + 96).step_by(13) {
        let changed = with_change(&disk, &path, |bytes| bytes[from..].fill(0));
        let what = format!("zeros from {from} of {end}");
        assert_eq!(outcome(&changed, &expected, &what), Outcome::Refused, "{what}");
    }
    assert_eq!(outcome(&disk, &expected, "untouched"), Outcome::Same);
}

/// Twenty acknowledged entries and one that is not, in a segment that may have had a life before.
fn unacknowledged(used: bool) -> (CrashDisk, Vec<Logged>, PathBuf, usize, usize) {
    let disk = disk();
    let (wal, _) = open(&disk);
    if used {
        for number in 0..200 {
            append(&wal, &[entry(number, 1500)]).unwrap();
            wal.truncate_before(wal.end()).unwrap();
        }
        wal.sync().unwrap();
        // Into a segment that was used before.
        while wal.stats().live_bytes > 8000 {
            append(&wal, &[entry(0, 1500)]).unwrap();
            wal.truncate_before(wal.end()).unwrap();
        }
    }
    for number in 0..20 {
        append(&wal, &[entry(number, 300)]).unwrap();
    }
    wal.sync().unwrap();
    let start = wal.end();
    append(&wal, &[entry(20, 570)]).unwrap();
    let expected = all(&wal);
    let base = wal.start();
    let path = segment_files(&disk).pop().unwrap();
    let offset = |lsn: Lsn| (lsn.0 - base.0 + 4096) as usize;
    let (from, to) = (offset(start), offset(wal.end()));
    (copy(&disk), expected, path, from, to)
}

#[test]
fn an_unacknowledged_last_frame_cut_at_any_byte_is_cut() {
    for used in [false, true] {
        let (disk, expected, path, from, to) = unacknowledged(used);
        assert_eq!(outcome(&copy(&disk), &expected, "whole"), Outcome::Same);
        for at in from..to {
            let what = format!("cut at {at} of {from}..{to}, used before {used}");
            // Zeros, or what a former life left.
            let changed = with_change(&disk, &path, |bytes| {
                for (index, byte) in bytes[at..to].iter_mut().enumerate() {
                    *byte = if used { (index * 7) as u8 } else { 0 };
                }
            });
            let (wal, opened) = try_open(&changed).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(all(&wal) == expected[..expected.len() - 1], "{what}");
            if at >= from + 64 {
                let cut = opened.cut.unwrap_or_else(|| panic!("{what}: no cut was told"));
                assert_eq!((cut.segment.as_path(), cut.offset), (path.as_path(), from as u64));
                let kept = changed.read_file(cut.quarantine.unwrap()).unwrap();
                assert_eq!(kept[..at - from], disk.read_file(&path).unwrap()[from..at], "{what}");
            }
        }
    }
}

#[test]
fn an_acknowledged_last_frame_cut_at_any_byte_is_refused() {
    let (disk, expected, path, from, _) = unacknowledged(false);
    let (wal, _) = open(&disk);
    let _ = (expected, path, from);
    append(&wal, &[entry(21, 500)]).unwrap();
    let start = wal.end();
    append(&wal, &[entry(22, 1000)]).unwrap();
    wal.sync().unwrap();
    let expected = all(&wal);
    let newest = segment_files(&disk).pop().unwrap();
    let base = u64::from_le_bytes(disk.read_file(&newest).unwrap()[40..48].try_into().unwrap());
    let (from, to) = ((start.0 - base + 4096) as usize, (wal.end().0 - base + 4096) as usize);
    drop(wal);
    for at in (from..to - 18).step_by(3) {
        let changed = with_change(&disk, &newest, |bytes| bytes[at..to].fill(0));
        assert_eq!(outcome(&changed, &expected, "acknowledged"), Outcome::Refused, "{at}");
    }
}

#[test]
fn an_acknowledged_end_that_is_gone_with_its_mark_is_refused() {
    let (disk, expected) = acknowledged();
    let newest = segment_files(&disk).pop().unwrap();
    let base = u64::from_le_bytes(disk.read_file(&newest).unwrap()[40..48].try_into().unwrap());
    let end = expected.last().unwrap().at.0 - base + 4096;
    for lost in [20, 200, 512, 4096, 20_000] {
        let from = end.saturating_sub(lost).max(4096) as usize;
        let changed = with_change(&disk, &newest, |bytes| bytes[from..].fill(0));
        assert_eq!(outcome(&changed, &expected, "the end"), Outcome::Refused, "{lost} bytes");
    }
}

#[test]
fn a_cut_append_over_segments_is_cut_whole_and_its_segments_are_kept_aside() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 1000)]).unwrap();
    wal.sync().unwrap();
    let expected = all(&wal);
    append(&wal, &[entry(2, 200_000)]).unwrap();
    drop(wal);
    let newest = segment_files(&disk).pop().unwrap();
    let changed = with_change(&disk, &newest, |bytes| bytes[4096 + 200] ^= 1);
    let (wal, opened) = open(&changed);
    assert_eq!(all(&wal), expected);
    let cut = opened.cut.unwrap();
    assert_eq!(cut.last_good, opened.end);
    assert!(cut.bytes > 200_000, "{cut:?}");
    let kept = changed.list_all().into_iter().filter(|path| path.starts_with("/home/log/quarantine")).count();
    assert_eq!(kept, 4, "a piece of the first segment and three whole ones");
    append(&wal, &[entry(3, 1000)]).unwrap();
    drop(wal);
    assert_eq!(entries(&all(&open(&changed).0)), [entry(1, 1000), entry(3, 1000)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_garbage_as_a_tail_is_survived(
        garbage in prop::collection::vec(any::<u8>(), 0..3000),
        copied in prop::collection::vec((0_usize..60_000, 64_usize..3000, 0_usize..900), 0..4),
    ) {
        let (disk, expected, path, from, _) = unacknowledged(true);
        let changed = with_change(&disk, &path, |bytes| {
            let end = (from + garbage.len()).min(bytes.len());
            bytes[from..end].copy_from_slice(&garbage[..end - from]);
            // Pieces of the log itself, at other places.
            for (source, len, to) in copied {
                let to = (from + to * 64).min(bytes.len());
                let len = len.min(bytes.len() - source).min(bytes.len() - to);
                bytes.copy_within(source..source + len, to);
            }
        });
        let (wal, _) = try_open(&changed).unwrap();
        let found = all(&wal);
        let acknowledged = &expected[..expected.len() - 1];
        prop_assert!(found == acknowledged || found == expected, "something else was delivered");
    }

    #[test]
    fn any_bytes_as_files_are_survived(
        manifest in prop::collection::vec(any::<u8>(), 0..9000),
        segment in prop::collection::vec(any::<u8>(), 0..9000),
        flips in prop::collection::vec((0_usize..65_536, any::<u8>()), 0..50),
        which in 0_usize..3,
    ) {
        let (disk, _) = acknowledged();
        let segments = segment_files(&disk);
        let changed = with_change(&disk, &segments[which], |bytes| {
            for (at, byte) in flips {
                bytes[at] = byte;
            }
        });
        let _ = try_open(&changed);
        let changed = copy(&disk);
        changed.write_file(&segments[which], segment).unwrap();
        let _ = try_open(&changed);
        changed.write_file(dir().join("manifest"), manifest).unwrap();
        let _ = try_open(&changed);
    }
}

/// What ten thousand crashes may leave behind the last frame of a segment that had lives before: frames of the
/// last lap with valid checksums of their own salt, in their places and in others, pieces of them, noise.
#[test]
fn ten_thousand_tails_of_a_recycled_segment_deliver_nothing_of_the_last_lap() {
    use crate::doors::Random;
    use crate::storage::Disk;
    use crate::storage::OpenMode;
    use crate::testing::SeededRandom;
    use crate::wal::judge;
    use crate::wal::segment::Segment;
    use crate::wal::segment::SegmentHeader;

    let disk = disk();
    let (wal, _) = open(&disk);
    // The file of segment 1, full of frames; then the same file in its next life.
    let mut number = 0;
    let mut next = || {
        number += 1;
        append(&wal, &[entry(number, 300)]).unwrap()
    };
    while wal.stats().segments < 2 {
        next();
    }
    let lap = disk.read_file(&segment_files(&disk)[0]).unwrap();
    wal.truncate_before(wal.end()).unwrap();
    let mut newest = segment_files(&disk).pop().unwrap();
    // Until a segment has a file that is full of the lap.
    while disk.read_file(&newest).unwrap()[40_000..60_000] != lap[40_000..60_000] {
        next();
        wal.truncate_before(wal.end()).unwrap();
        newest = segment_files(&disk).pop().unwrap();
    }
    for _ in 0..10 {
        next();
    }
    wal.sync().unwrap();
    let used = (wal.end().0 - wal.start().0) as usize + 4096;
    assert_eq!(wal.stats().segments, 1);
    let good = copy(&disk).read_file(&newest).unwrap();
    let header = SegmentHeader::decode(&good[..4096]).unwrap();
    let random = SeededRandom::new(2026);
    let at = |below: usize| random.below(below.max(1) as u64) as usize;
    let scratch = super::disk();
    let place = Path::new("/home/segment");
    let mut openings = 0;
    for round in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..=at(4) {
            let from = used + at(SEGMENT as usize - used);
            let len = at(3000).min(bytes.len() - from);
            match at(5) {
                // In their places.
                0 => bytes[from..from + len].copy_from_slice(&lap[from..from + len]),
                // Elsewhere, at a multiple of 64 and right behind the last frame.
                1 => {
                    let source = (4096 + at(40_000)) & !63;
                    bytes[used..used + len].copy_from_slice(&lap[source..source + len]);
                }
                // This life's own frames, once more.
                2 => bytes.copy_within((4096 + at(used - 4096)) & !63..used, used),
                3 => random.fill(&mut bytes[from..from + len]),
                _ => bytes[from..from + len].fill(0),
            }
        }
        scratch.write_file(place, &bytes).unwrap();
        let file = scratch.open(place, OpenMode::Read).unwrap();
        let tail = judge::look(&Segment { path: place.to_owned(), header, file, region: None }).unwrap();
        assert_eq!(tail.reached.at, wal.end(), "round {round}");
        assert!(tail.acked.max(tail.behind.acked) <= wal.end(), "round {round}");
        if round % 50 == 0 {
            let changed = with_change(&copy(&disk), &newest, |whole| *whole = bytes);
            let (again, opened) = try_open(&changed).unwrap();
            assert!(opened.end == wal.end() && all(&again) == all(&wal), "round {round}");
            openings += 1;
        }
    }
    assert_eq!(openings, 200);
}
