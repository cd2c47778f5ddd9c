//! The disk is only as good as the bugs it finds: a small commit protocol, swept whole and with each
//! of its syncs taken out.
//!
//! ```text
//!  part: create, write, sync, sync /base/staging -> log "commit n", sync -> acknowledged
//!        -> rename to /base/table, sync both -> log "done n"
//!  recovery: sync the log (P5), commit what is logged and not done, remove other parts
//! ```

use std::cell::RefCell;
use std::io;
use std::io::ErrorKind;
use std::path::Path;

use super::super::*;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::OpenMode;

const EPOCHS: u8 = 3;
const NEW: OpenMode = OpenMode::CreateNew { private: false };

/// The syncs of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    BaseParent,
    Base,
    Part,
    Staging,
    Commit,
    Table,
    StagingAfterRename,
    LogAtRecovery,
    TableAtRecovery,
}

const SITES: [Site; 9] = [
    Site::BaseParent,
    Site::Base,
    Site::Part,
    Site::Staging,
    Site::Commit,
    Site::Table,
    Site::StagingAfterRename,
    Site::LogAtRecovery,
    Site::TableAtRecovery,
];

struct Job<'a> {
    disk: &'a CrashDisk,
    /// The sync that is forgotten.
    without: Option<Site>,
    /// The last epoch that was acknowledged to the outside.
    acknowledged: &'a RefCell<u8>,
}

impl Job<'_> {
    fn sync(&self, site: Site, file: &dyn DiskFile) -> io::Result<()> {
        if self.without == Some(site) { Ok(()) } else { file.sync() }
    }

    fn sync_dir(&self, site: Site, path: &str) -> io::Result<()> {
        if self.without == Some(site) { Ok(()) } else { self.disk.sync_dir(Path::new(path)) }
    }

    fn run(&self) -> io::Result<()> {
        let disk = self.disk;
        for folder in ["/base", "/base/staging", "/base/table"] {
            match disk.create_dir(Path::new(folder), false) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                result => result?,
            }
        }
        self.sync_dir(Site::BaseParent, "/")?;
        let log = match disk.open(Path::new("/base/log"), OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => disk.open(Path::new("/base/log"), NEW)?,
            result => result?,
        };
        log.reserve(4096)?;
        self.sync_dir(Site::Base, "/base")?;
        self.sync(Site::LogAtRecovery, log.as_ref())?;
        let map = log.map(4096)?;

        // Each epoch has two bytes of the log, in sectors of their own: committed, done.
        let at = |epoch: u8, done: u64| u64::from(epoch) * 1024 + done * 512;
        let logged = |epoch: u8, done: u64| {
            let mut byte = [0];
            map.read(at(epoch, done), &mut byte).map(|()| byte == [1])
        };
        for entry in disk.list(Path::new("/base/staging"))? {
            let epoch: u8 = entry.name.to_str().unwrap().parse().unwrap();
            if !logged(epoch, 0)? || logged(epoch, 1)? {
                disk.remove_file(&Path::new("/base/staging").join(entry.name))?;
            }
        }
        self.sync_dir(Site::StagingAfterRename, "/base/staging")?;
        for epoch in 0..EPOCHS {
            let (staged, target) = (format!("/base/staging/{epoch}"), format!("/base/table/{epoch}"));
            if logged(epoch, 1)? {
                continue;
            }
            if !logged(epoch, 0)? {
                let part = disk.open(Path::new(&staged), NEW)?;
                part.write_at(0, &[epoch + 1; 700])?;
                self.sync(Site::Part, part.as_ref())?;
                self.sync_dir(Site::Staging, "/base/staging")?;
                map.write(at(epoch, 0), &[1])?;
                self.sync(Site::Commit, log.as_ref())?;
                *self.acknowledged.borrow_mut() = epoch + 1;
            }
            match disk.rename(Path::new(&staged), Path::new(&target)) {
                // Renamed before the crash; that it is durable is not known.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    disk.metadata(Path::new(&target))?;
                    self.sync_dir(Site::TableAtRecovery, "/base/table")?;
                }
                result => {
                    result?;
                    self.sync_dir(Site::Table, "/base/table")?;
                }
            }
            self.sync_dir(Site::StagingAfterRename, "/base/staging")?;
            map.write(at(epoch, 1), &[1])?;
        }
        Ok(())
    }
}

/// What is wrong after a run that ended well.
fn wrong(disk: &CrashDisk) -> Option<String> {
    let table: Vec<_> = (0..EPOCHS).map(|epoch| disk.read_file(format!("/base/table/{epoch}"))).collect();
    let whole = table.iter().zip(1..).all(|(part, byte)| matches!(part, Ok(part) if *part == [byte; 700]));
    let files = disk.list_all().len();
    (!whole || files != usize::from(EPOCHS) + 1).then(|| disk.dump())
}

struct Counts {
    cases: u64,
    failed: u64,
}

/// Runs the job again on `disk`, what a crash left, and judges.
fn finish(disk: &CrashDisk, without: Option<Site>, acknowledged: u8, counts: &mut Counts) {
    let durable = |epoch: u8| {
        let staged = disk.read_file(format!("/base/staging/{epoch}"));
        let part = disk.read_file(format!("/base/table/{epoch}")).or(staged);
        matches!(part, Ok(part) if part == [epoch + 1; 700])
    };
    let kept = (0..acknowledged).all(durable);
    let job = Job { disk, without, acknowledged: &RefCell::new(0) };
    let fine = kept && job.run().is_ok() && wrong(disk).is_none();
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    // The last "done" may be lost, and is done again.
    let again = Job { disk: &after, without, acknowledged: &RefCell::new(0) };
    let fine = fine && again.run().is_ok() && wrong(&after).is_none();
    counts.cases += 1;
    counts.failed += u64::from(!fine);
}

/// Crashes the job at each step, under each model, and once more during each recovery. One failure
/// ends the sweep of a job without a sync.
fn sweep(without: Option<Site>) -> Counts {
    let mut counts = Counts { cases: 0, failed: 0 };
    let models = || {
        let subsets = (0..4).map(|seed| (CrashModel::AnySubset, seed));
        [(CrashModel::LoseUnsynced, 0), (CrashModel::ProcessOnly, 0)].into_iter().chain(subsets)
    };
    for step in 0.. {
        let disk = CrashDisk::new();
        let acknowledged = RefCell::new(0);
        disk.crash_at(step);
        if (Job { disk: &disk, without, acknowledged: &acknowledged }).run().is_ok() {
            assert!(!disk.crashed() && step > 25);
            return counts;
        }
        for (model, seed) in models() {
            if without.is_some() && counts.failed > 0 {
                return counts;
            }
            let acknowledged = *acknowledged.borrow();
            finish(&disk.after_crash(model, seed), without, acknowledged, &mut counts);
            for second in 0.. {
                let disk = disk.after_crash(model, seed);
                let again = RefCell::new(acknowledged);
                disk.crash_at(second);
                let ended = (Job { disk: &disk, without, acknowledged: &again }).run();
                if !disk.crashed() {
                    break;
                }
                assert!(ended.is_err());
                let left = disk.after_crash(CrashModel::LoseUnsynced, 0);
                finish(&left, without, *again.borrow(), &mut counts);
            }
        }
    }
    unreachable!("a job has an end");
}

#[test]
fn a_correct_protocol_survives_a_crash_at_every_pair_of_steps() {
    let counts = sweep(None);
    assert!(counts.cases > 5_000, "{} cases", counts.cases);
    assert_eq!(counts.failed, 0, "of {} cases", counts.cases);
}

#[test]
fn every_missing_sync_is_found() {
    let survived: Vec<Site> = SITES.into_iter().filter(|site| sweep(Some(*site)).failed == 0).collect();
    assert_eq!(survived, [], "the sweep did not notice that these syncs are missing");
}
