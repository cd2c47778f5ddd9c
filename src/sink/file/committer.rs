//! Makes pending files visible, once each.
//!
//! Owns the step from staging to the table (P9). Does not own the record of it: the writer takes
//! note in the state (`SinkWriter::committed`).
//!
//! What if the process dies?
//!
//! ```text
//!  before the rename          hidden there, target not       the next start renames
//!  after it, before the syncs the same, or the other way     renames, or syncs: both end with one file
//!  after the syncs            target there                   looks at it, syncs again, done
//!  link fallback, in between  both there, the same file      syncs, then removes the hidden name
//! ```
//!
//! An error answer is believed only after looking: the rename may have happened. Nothing is ever
//! overwritten: neither a rename nor a link replaces (C5).

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checkpoint::Completed;
use crate::error::Error;
use crate::error::Result;
use crate::sink::Committer;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::plan;
use crate::sink::file::recover::Verdict;
use crate::sink::file::table::Table;
use crate::storage::OpenMode;

/// Moves pending part files into the table.
#[derive(Debug)]
pub struct FileCommitter {
    table: Arc<Table>,
}

/// How far one file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// Its only name is in the table now; both folders want a sync.
    Renamed,
    /// It has both names; the hidden one goes after the sync of the target's folder.
    Linked,
}

impl FileCommitter {
    pub(super) fn new(table: Arc<Table>) -> Self {
        Self { table }
    }

    pub(super) async fn commit_all(&self, parts: Vec<ClosedPart>) -> Result<Vec<ClosedPart>> {
        let table = &self.table;
        let io = &table.doors.io;
        if parts.is_empty() {
            return Ok(parts);
        }
        let folders: BTreeSet<PathBuf> = parts.iter().map(|part| table.target_folder(part)).collect();
        let making = Arc::clone(table);
        io.run(move || making.folders.make(folders.iter().map(PathBuf::as_path), false)).await??;

        // All moves, then one sync of each folder, then what is left of the link fallback.
        let moves: Vec<_> = parts
            .iter()
            .map(|part| {
                let (table, part) = (Arc::clone(table), part.clone());
                io.run(move || move_one(&table, &part))
            })
            .collect();
        let mut problems = Vec::new();
        let mut moved = Vec::new();
        for (part, outcome) in parts.into_iter().zip(moves) {
            match outcome.await? {
                Ok(how) => moved.push((part, how)),
                Err(error) => problems.push(error),
            }
        }

        let targets: BTreeSet<PathBuf> = moved.iter().map(|(part, _)| table.target_folder(part)).collect();
        self.sync_folders(targets).await?;
        let links: Vec<_> = moved
            .iter()
            .filter(|(_, how)| *how == Moved::Linked)
            .map(|(part, _)| {
                let (table, hidden) = (Arc::clone(table), table.hidden(&part.name));
                io.run(move || match table.doors.disk.remove_file(&hidden) {
                    Ok(()) => Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    Err(error) => {
                        Err(Error::retry(format!("{hidden:?} cannot be removed")).with_source(error))
                    }
                })
            })
            .collect();
        for removed in links {
            removed.await??;
        }
        if !moved.is_empty() {
            self.sync_folders(BTreeSet::from([table.folders.staging.clone()])).await?;
        }
        match problems.into_iter().next() {
            // The others are done and will be found to be.
            Some(problem) => Err(problem),
            None => Ok(moved.into_iter().map(|(part, _)| part).collect()),
        }
    }

    async fn sync_folders(&self, folders: BTreeSet<PathBuf>) -> Result<()> {
        let syncs: Vec<_> =
            folders
                .into_iter()
                .map(|folder| {
                    let table = Arc::clone(&self.table);
                    self.table.doors.io.run(move || match table.doors.disk.sync_dir(&folder) {
                        Ok(()) => Ok(()),
                        // Staging is gone once a job has ended and tidied up: nothing is in it.
                        Err(error)
                            if error.kind() == io::ErrorKind::NotFound && folder == table.folders.staging =>
                        {
                            Ok(())
                        }
                        Err(error) => Err(Error::retry(format!("folder {folder:?} cannot be made durable"))
                            .with_source(error)),
                    })
                })
                .collect();
        for synced in syncs {
            synced.await??;
        }
        Ok(())
    }
}

impl Committer for FileCommitter {
    type Committable = ClosedPart;

    async fn commit(
        &mut self,
        completed: &Completed,
        committables: Vec<Self::Committable>,
    ) -> Result<Vec<Self::Committable>> {
        if let Some(early) = committables.iter().find(|part| part.epoch > completed.epoch()) {
            return Err(Error::fatal(format!(
                "{} of epoch {} is not to be committed by the checkpoint of epoch {}",
                early.name,
                early.epoch,
                completed.epoch()
            )));
        }
        self.commit_all(committables).await
    }
}

/// Gives one file its name in the table. Blocks.
fn move_one(table: &Table, part: &ClosedPart) -> Result<Moved> {
    let disk = &table.doors.disk;
    let hidden = table.hidden(&part.name);
    let target = table.target_folder(part).join(part.name.to_string());
    let error = match disk.rename(&hidden, &target) {
        Ok(()) => return Ok(Moved::Renamed),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => match disk.link(&hidden, &target) {
            Ok(()) => return Ok(Moved::Linked),
            Err(error) => error,
        },
        Err(error) => error,
    };
    // Unknown until looked at: the answer may be wrong, or an earlier attempt may have done it.
    match plan::look(&**disk, &hidden, &target, &part.content, true)? {
        Verdict::Done => {
            // Whoever moved it may have died before its syncs (P4); the folders are synced by the caller.
            let synced = disk.open(&target, OpenMode::Read).and_then(|file| file.sync());
            synced.map_err(|error| {
                Error::retry(format!("{target:?} cannot be made durable")).with_source(error)
            })?;
            Ok(Moved::Renamed)
        }
        Verdict::Unlink => Ok(Moved::Linked),
        Verdict::Commit => {
            let what = format!("{hidden:?} cannot be moved to {target:?}");
            Err(match error.kind() {
                io::ErrorKind::Unsupported
                | io::ErrorKind::CrossesDevices
                // A symbolic link where a bucket's folder should be.
                | io::ErrorKind::InvalidInput => Error::fatal(what),
                _ => Error::retry(what),
            }
            .with_source(error))
        }
        Verdict::Lost => Err(Error::damage(plan::lost(&table.folders, part))),
        Verdict::Damage(found) => Err(Error::damage(plan::problem(&table.folders, part, found))),
        Verdict::Cut { .. } | Verdict::Begin | Verdict::Delete | Verdict::Leave => {
            Err(Error::fatal(format!("{hidden:?} was judged as if it were not pending")))
        }
    }
}
