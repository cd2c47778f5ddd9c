//! Part files on the disk: appends at recorded offsets, syncs, and few open descriptors.
//!
//! Owns every write to a part file. Does not own what is written, nor the record of it.
//!
//! A file needs no descriptor between two row groups (D14). The cache holds at most `limit`; a
//! further one closes the least recently used. A file with unsynced bytes is synced before it is
//! closed: an error of the write-back could otherwise pass unseen between two descriptors.
//!
//! # Invariants
//!
//! - **D1** Bytes are appended at the recorded length only; after a failed append the file is cut back
//!   to it (P8), and before the sync of a roll as well.
//! - **D2** A failed sync, or a write of unknown outcome, is never tried again: the file, and with it
//!   every later barrier of the writer, fails (P7, S4). A full disk with the file cut back is not such a
//!   failure: no byte went wrong.
//! - **D3** All calls on one file are in one order, the order in which they took its lock. A sync that
//!   is told Ok was never preceded by one that failed.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::error::Error;
use crate::error::Result;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::OpenMode;

/// One part file in staging.
#[derive(Debug)]
pub(super) struct PartFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    /// It has been made.
    exists: bool,
    descriptor: Option<Box<dyn DiskFile>>,
    /// Bytes were written, or cut, since the last sync.
    unsynced: bool,
    /// Why nothing is done with it any more.
    failed: Option<Arc<io::Error>>,
}

/// An error of the disk that several calls report.
#[derive(Debug)]
struct Failure(Arc<io::Error>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the disk failed")
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The error itself, not the pointer to it: callers look for its type.
        Some(&*self.0)
    }
}

/// What became of an append.
#[derive(Debug)]
pub(super) enum AppendError {
    /// The disk is full, and the file is as it was.
    Full(io::Error),
    /// Anything else.
    Failed(Error),
}

impl PartFile {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf, exists: bool) -> Self {
        let state = FileState { exists, descriptor: None, unsynced: false, failed: None };
        Self { disk, path, state: Mutex::new(state) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, FileState> {
        // A panic under the lock fails the job of the pool, and with it the task.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `pieces` one behind the other from `offset` on; makes the file when it is not there yet.
    /// With `roll` nothing is left behind them. True when the file was made.
    pub(super) fn append(&self, offset: u64, pieces: &[Vec<u8>], roll: bool) -> Result<bool, AppendError> {
        let mut state = self.lock();
        let made = self.open(&mut state)?;
        let FileState { descriptor: Some(file), unsynced, failed, .. } = &mut *state else {
            return Err(AppendError::Failed(Error::fatal("a descriptor that was just opened is gone")));
        };
        *unsynced = true;
        let mut at = offset;
        let mut written = Ok(());
        for piece in pieces {
            written = written.and_then(|()| file.write_at(at, piece));
            at += piece.len() as u64;
        }
        if roll {
            written = written.and_then(|()| file.set_len(at));
        }
        let Err(error) = written else { return Ok(made) };
        // P8: whatever prefix was written goes away, so that a later attempt finds the recorded length.
        match file.set_len(offset) {
            Ok(()) if error.kind() == io::ErrorKind::StorageFull => Err(AppendError::Full(error)),
            _ => Err(AppendError::Failed(self.failure("cannot be written to", error, failed))),
        }
    }

    /// Cuts the file to `len`: what lies behind it was never acknowledged.
    pub(super) fn cut(&self, len: u64) -> Result<()> {
        let mut state = self.lock();
        self.open(&mut state).map_err(|error| match error {
            AppendError::Full(error) => self.error("cannot be opened", error),
            AppendError::Failed(error) => error,
        })?;
        let FileState { descriptor: Some(file), unsynced, .. } = &mut *state else {
            return Err(Error::fatal("a descriptor that was just opened is gone"));
        };
        file.set_len(len).map_err(|error| self.error("cannot be cut", error))?;
        *unsynced = true;
        Ok(())
    }

    /// Makes all that was appended durable (P3). With nothing new it does nothing.
    // remove-syncs: Ok(())
    pub(super) fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        self.sync_locked(&mut state)
    }

    /// Closes the descriptor, after a sync of what is not durable yet.
    pub(super) fn close(&self) -> Result<()> {
        let mut state = self.lock();
        let synced = self.sync_locked(&mut state);
        state.descriptor = None;
        synced
    }

    fn sync_locked(&self, state: &mut FileState) -> Result<()> {
        self.usable(state)?;
        if !state.unsynced {
            return Ok(());
        }
        let Some(file) = &state.descriptor else {
            return Err(Error::fatal(format!("{:?} was closed before its sync", self.path)));
        };
        match file.sync() {
            Ok(()) => {
                state.unsynced = false;
                Ok(())
            }
            Err(error) => {
                // P7, S4: what the file holds is not known any more, and asking again would not tell.
                Err(self.failure("cannot be made durable", error, &mut state.failed))
            }
        }
    }

    fn usable(&self, state: &FileState) -> Result<()> {
        match &state.failed {
            None => Ok(()),
            Some(source) => {
                let earlier = Failure(Arc::clone(source));
                Err(Error::retry(format!("part file {:?} is not used any more", self.path))
                    .with_source(earlier))
            }
        }
    }

    fn open(&self, state: &mut FileState) -> Result<bool, AppendError> {
        self.usable(state).map_err(AppendError::Failed)?;
        if state.descriptor.is_some() {
            return Ok(false);
        }
        let mode = if state.exists { OpenMode::ReadWrite } else { OpenMode::CreateNew { private: false } };
        match self.disk.open(&self.path, mode) {
            Ok(file) => {
                state.descriptor = Some(file);
                Ok(!std::mem::replace(&mut state.exists, true))
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(AppendError::Full(error)),
            Err(error) => Err(AppendError::Failed(self.error("cannot be opened", error))),
        }
    }

    /// An error after which the file is not used any more.
    fn failure(&self, what: &str, error: io::Error, failed: &mut Option<Arc<io::Error>>) -> Error {
        let source = Arc::new(error);
        *failed = Some(Arc::clone(&source));
        Error::retry(format!("part file {:?} {what}", self.path)).with_source(Failure(source))
    }

    fn error(&self, what: &str, error: io::Error) -> Error {
        Error::retry(format!("part file {:?} {what}", self.path)).with_source(error)
    }
}

/// Which part files have a descriptor.
#[derive(Debug)]
pub(super) struct Descriptors {
    limit: usize,
    /// The stamp of its last use for each open file, and the files by stamp.
    stamps: HashMap<PathBuf, u64>,
    open: BTreeMap<u64, Arc<PartFile>>,
    next: u64,
}

impl Descriptors {
    /// 64: far below what processes may open, and enough for the buckets that are written to at a time.
    pub(super) const LIMIT: usize = 64;

    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), stamps: HashMap::new(), open: BTreeMap::new(), next: 0 }
    }

    /// `file` is about to be used: those in the result have to be closed before.
    #[must_use]
    pub(super) fn used(&mut self, file: &Arc<PartFile>) -> Vec<Arc<PartFile>> {
        let stamp = self.next;
        self.next += 1;
        if let Some(old) = self.stamps.insert(file.path().to_owned(), stamp) {
            self.open.remove(&old);
        }
        self.open.insert(stamp, Arc::clone(file));
        let mut victims = Vec::new();
        while self.open.len() > self.limit {
            let Some((_, victim)) = self.open.pop_first() else { break };
            self.stamps.remove(victim.path());
            victims.push(victim);
        }
        victims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CrashDisk;
    use crate::testing::CrashModel;
    use crate::testing::StepKind;

    fn disk() -> CrashDisk {
        let disk = CrashDisk::new();
        disk.make_dirs("/s").unwrap();
        disk
    }

    fn file(disk: &CrashDisk, name: &str, exists: bool) -> Arc<PartFile> {
        Arc::new(PartFile::new(Arc::new(disk.clone()), Path::new("/s").join(name), exists))
    }

    #[test]
    fn a_full_disk_leaves_the_file_as_it_was_and_the_append_can_be_tried_again() {
        let disk = disk();
        let file = file(&disk, "a", false);
        assert!(file.append(0, &[b"abc".to_vec()], false).unwrap());
        disk.set_capacity(Some(5));
        let full = file.append(3, &[b"defgh".to_vec()], false);
        assert!(matches!(full, Err(AppendError::Full(_))), "{full:?}");
        assert_eq!(disk.read_file("/s/a").unwrap(), b"abc", "P8");
        disk.set_capacity(None);
        assert!(!file.append(3, &[b"de".to_vec(), b"f".to_vec()], false).unwrap());
        file.sync().unwrap();
        assert_eq!(disk.read_file("/s/a").unwrap(), b"abcdef");
    }

    #[test]
    fn a_failed_write_is_cut_away_and_never_tried_again() {
        let disk = disk();
        let file = file(&disk, "a", false);
        file.append(0, &[b"abc".to_vec()], false).unwrap();
        disk.fail(StepKind::Write, "a", 0, io::ErrorKind::Other, false);
        let failed = file.append(3, &[b"defgh".to_vec()], false);
        assert!(matches!(failed, Err(AppendError::Failed(_))), "{failed:?}");
        assert_eq!(disk.read_file("/s/a").unwrap(), b"abc", "P8");
        let steps = disk.step_count();
        assert!(file.append(3, &[b"def".to_vec()], false).is_err(), "P7");
        assert!(file.sync().is_err(), "P7");
        assert!(file.close().is_err());
        assert_eq!(disk.step_count(), steps, "nothing more is asked of the disk");
    }

    #[test]
    fn a_failed_sync_is_never_tried_again() {
        let disk = disk();
        let file = file(&disk, "a", false);
        file.append(0, &[b"abc".to_vec()], false).unwrap();
        disk.fail(StepKind::Sync, "a", 0, io::ErrorKind::Other, false);
        let error = file.sync().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Retry);
        let steps = disk.step_count();
        assert!(file.sync().is_err());
        assert_eq!(disk.step_count(), steps);
    }

    #[test]
    fn a_roll_leaves_nothing_behind_the_last_byte() {
        let disk = disk();
        disk.write_file("/s/a", b"abcXXXXXXXX").unwrap();
        let file = file(&disk, "a", true);
        file.append(3, &[b"end".to_vec()], true).unwrap();
        assert_eq!(disk.read_file("/s/a").unwrap(), b"abcend");
    }

    #[test]
    fn no_more_files_are_open_than_the_limit_and_each_is_synced_before_it_is_closed() {
        let disk = disk();
        let mut descriptors = Descriptors::new(2);
        let files: Vec<_> = ["a", "b", "c"].iter().map(|name| file(&disk, name, false)).collect();
        for file in &files {
            for victim in descriptors.used(file) {
                victim.close().unwrap();
            }
            file.append(0, &[b"x".to_vec()], false).unwrap();
        }
        disk.sync_dir(Path::new("/s")).unwrap();
        let open = files.iter().filter(|file| file.lock().descriptor.is_some()).count();
        assert_eq!(open, 2);
        let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
        assert_eq!(after.read_file("/s/a").unwrap(), b"x", "the one that was closed");
        assert_eq!(after.read_file("/s/c").unwrap(), b"");
        assert!(files[0].append(1, &[b"y".to_vec()], false).is_ok(), "it is opened again");
    }

    #[test]
    fn a_name_that_is_taken_is_never_written_to() {
        let disk = disk();
        disk.write_file("/s/a", b"foreign").unwrap();
        assert!(file(&disk, "a", false).append(0, &[b"x".to_vec()], false).is_err());
        assert_eq!(disk.read_file("/s/a").unwrap(), b"foreign");
    }
}
