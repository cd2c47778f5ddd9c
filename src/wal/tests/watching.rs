//! Somebody else looks at the log.

use super::*;

#[test]
fn a_reader_shows_the_log_of_a_running_process_and_changes_nothing() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..60 {
        append(&wal, &[entry(number, 3000), entry(number, 5)]).unwrap();
    }
    let steps = disk.step_count();
    let reader = WalReader::open(dir(), &doors(&disk)).unwrap();
    assert_eq!((reader.start(), reader.end()), (wal.start(), wal.end()));
    let found: Vec<_> = reader.replay(reader.start()).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(found, all(&wal));
    assert_eq!(reader.read(found[7].at).unwrap(), found[7].entry);
    let verified = reader.verify().unwrap();
    assert_eq!((verified.entries, verified.frames), (120, 60));
    assert_eq!(verified.bytes, wal.stats().live_bytes);
    assert_eq!(verified.torn_bytes, 0);
    assert_eq!(disk.step_count(), steps);
}

#[test]
fn a_torn_tail_is_no_damage_to_a_reader() {
    let disk = disk();
    let (wal, _) = open(&disk);
    append(&wal, &[entry(1, 1000)]).unwrap();
    wal.sync().unwrap();
    let end = wal.end();
    append(&wal, &[entry(2, 1000)]).unwrap();
    let changed = copy(&disk);
    let path = segment_files(&changed)[0].clone();
    let mut bytes = changed.read_file(&path).unwrap();
    let at = (end.0 + 4096 + 500) as usize;
    bytes[at] ^= 1;
    changed.write_file(&path, bytes).unwrap();
    let reader = WalReader::open(dir(), &doors(&changed)).unwrap();
    assert_eq!(reader.end(), end);
    assert!(reader.verify().unwrap().torn_bytes >= 1064);
    let files = |disk: &CrashDisk| {
        disk.list_all().iter().map(|path| disk.read_file(path).unwrap()).collect::<Vec<_>>()
    };
    let before = files(&changed);
    drop(reader);
    assert_eq!(files(&changed), before);
}

#[test]
fn verify_finds_damage_in_an_older_segment() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..60 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    let path = segment_files(&disk)[0].clone();
    let changed = copy(&disk);
    let mut bytes = changed.read_file(&path).unwrap();
    bytes[9000] ^= 1;
    changed.write_file(&path, bytes).unwrap();
    let reader = WalReader::open(dir(), &doors(&changed)).unwrap();
    assert!(matches!(reader.verify(), Err(WalError::Damage { path: named, .. }) if named == path));
    // Without `verify_all` an opening does not see it, and reading does.
    let settings = WalSettings { verify_all: false, ..small() };
    let (wal, _) = Wal::open(dir(), settings, &doors(&changed)).unwrap();
    let read: Result<Vec<_>, _> = wal.replay(wal.start()).unwrap().collect();
    assert!(matches!(read, Err(WalError::Damage { path: named, .. }) if named == path));
}

#[test]
fn a_reader_beside_a_busy_writer_sees_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let doors = crate::doors::Doors::real();
    let (wal, _) = Wal::open(&dir, small(), &doors).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1500 {
                append(&wal, &[entry(number, 1900)]).unwrap();
                if number % 10 == 0 {
                    wal.sync().unwrap();
                }
                if number % 100 == 99 {
                    wal.truncate_before(Lsn(wal.end().0.saturating_sub(100_000))).unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut looks = 0;
        while looks < 20 || !done.load(std::sync::atomic::Ordering::Relaxed) {
            let reader = WalReader::open(&dir, &doors).unwrap();
            assert!(reader.start() <= reader.end());
            looks += 1;
        }
    });
}

#[test]
fn a_reader_tells_of_files_that_would_keep_an_opening_from_the_log_and_not_of_a_running_one() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..40 {
        append(&wal, &[entry(number, 3000)]).unwrap();
        WalReader::open(dir(), &doors(&disk)).unwrap().verify_folder().unwrap();
    }
    drop(wal);
    let other = super::disk();
    let (wal, _) = Wal::open(dir(), small(), &sim_doors(&other, 12345)).unwrap();
    append(&wal, &[entry(1, 100)]).unwrap();
    let foreign = other.read_file(&segment_files(&other)[0]).unwrap();
    let extra = dir().join("0000000000000009.wal");
    disk.write_file(&extra, foreign).unwrap();
    let reader = WalReader::open(dir(), &doors(&disk)).unwrap();
    reader.verify().unwrap();
    let found = reader.verify_folder();
    assert!(matches!(&found, Err(WalError::Damage { path, .. }) if *path == extra), "{found:?}");
}
