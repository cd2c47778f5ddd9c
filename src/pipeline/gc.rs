//! Removes what nothing needs any more: `alluvium gc`.
//!
//! By ownership alone, never by age or by mere listing: a file goes when its name has this state's lineage
//! and a former incarnation, and no checkpoint that the log holds has it (C24). Such a file was begun by a
//! run that is over, is adopted by none (P1), and no later checkpoint can come to name it: that stays true
//! however old the moment is at which the state was read, so no lock is needed beside a running job.
//!
//! Files of the newest incarnation are left alone although no checkpoint has them: they are being written,
//! or the next start removes them.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::pipeline::job::LOCK;
use crate::pipeline::model::Pipeline;
use crate::pipeline::tables::Known;
use crate::pipeline::tables::Record;
use crate::pipeline::tables::Staging;
use crate::pipeline::tables::Table;
use crate::pipeline::units::counted;

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GarbageCollection {
    /// Files, and their bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// Empty staging folders.
    pub folders: Vec<PathBuf>,
    /// What was left alone and looks like something to remove, and why.
    pub kept: Vec<String>,
}

impl GarbageCollection {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Removes the garbage of `pipeline`; with `dry_run` it is only listed. It blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when the job has no state, or one of other tables;
/// [`crate::ErrorKind::Damage`] when the state cannot be read back, or a file that it needs is gone: nothing is
/// removed then, for what looks like garbage may be what is left of it;
/// [`crate::ErrorKind::Retry`] when the disk refuses: what was removed so far stays removed.
pub fn gc(pipeline: &Pipeline, doors: &Doors, dry_run: bool) -> Result<GarbageCollection> {
    let known = whole(doors, pipeline)?;
    let mut done = GarbageCollection::default();
    for table in &known.tables {
        let staging = Staging::list(doors, table)?;
        let (orphans, others): (Vec<_>, Vec<_>) =
            staging.parts.iter().partition(|name| known.is_orphan(name));
        for name in orphans {
            let path = table.hidden(name);
            let bytes = match doors.disk.metadata(&path) {
                Ok(found) => found.len,
                // The job was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unremovable(&path, error)),
            };
            if dry_run || removed(doors.disk.remove_file(&path), &path)? {
                done.files.push((path, bytes));
            }
        }
        let young = others.iter().filter(|name| !known.named.contains(**name)).count();
        if young > 0 {
            done.kept.push(format!(
                "{}: {} of the newest start in no checkpoint yet: being written, or removed by the next start",
                table.staging.display(),
                counted(young as u64, "file")
            ));
        }
        if !dry_run && !done.files.is_empty() && staging.there {
            synced(doors.disk.sync_dir(&table.staging), &table.staging)?;
        }
        if staging.there && others.is_empty() && staging.strange.is_empty() {
            folder(pipeline, doors, table, dry_run, &mut done)?;
        }
    }
    Ok(done)
}

/// What is known, once every file that the newest checkpoint needs was seen.
fn whole(doors: &Doors, pipeline: &Pipeline) -> Result<Known> {
    let mut missing: Vec<PathBuf> = Vec::new();
    loop {
        let known = Known::read(doors, pipeline)?;
        let still = gone(doors, &known)?;
        // A running job moves files while they are looked for: only what is gone twice is gone.
        match still.iter().find(|path| missing.contains(path)) {
            None if still.is_empty() => return Ok(known),
            None => missing = still,
            Some(path) => {
                return Err(Error::damage(format!(
                    "{}: the newest checkpoint needs this file and it is gone, so nothing was removed. Put it back \
                     under its name; `alluvium verify` lists everything that is wrong",
                    path.display()
                )));
            }
        }
    }
}

/// The files in progress or pending that are there under neither of their names.
fn gone(doors: &Doors, known: &Known) -> Result<Vec<PathBuf>> {
    let mut gone = Vec::new();
    for table in &known.tables {
        for (name, record) in &table.records {
            let Record::Open(part) = record else { continue };
            let (hidden, target) =
                (table.hidden(name), part.bucket.folder(&table.base).join(name.to_string()));
            if part.content.len > 0 && !there(doors, &hidden)? && !there(doors, &target)? {
                gone.push(hidden);
            }
        }
    }
    Ok(gone)
}

fn there(doors: &Doors, path: &Path) -> Result<bool> {
    match doors.disk.metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(Error::retry(format!("{} cannot be looked at", path.display())).with_source(error)),
    }
}

/// Removes the staging folder of `table` in which nothing is but, at most, its lock.
///
/// A job that starts makes the folder and then the lock in it; so that it cannot lose the one between the
/// two steps, no job runs while this is done.
fn folder(
    pipeline: &Pipeline,
    doors: &Doors,
    table: &Table,
    dry_run: bool,
    done: &mut GarbageCollection,
) -> Result<()> {
    let (disk, folder) = (&doors.disk, &table.staging);
    if dry_run {
        done.folders.push(folder.clone());
        return Ok(());
    }
    let state = &pipeline.checkpoint.state;
    let lock = disk.canonicalize(state).and_then(|state| disk.lock(&state.join(LOCK)));
    let lock = lock.map_err(|error| {
        Error::retry(format!("the lock of {} cannot be asked for", state.display())).with_source(error)
    })?;
    let Some(_lock) = lock else {
        done.kept.push(format!("{}: the job runs and may use it", folder.display()));
        return Ok(());
    };
    let its_lock = folder.join("lock");
    removed(disk.remove_file(&its_lock), &its_lock)?;
    if removed(disk.remove_dir(folder), folder)? {
        done.folders.push(folder.clone());
    }
    if removed(disk.remove_dir(&table.root), &table.root)? {
        let parent = table.root.parent().unwrap_or(Path::new("."));
        synced(disk.sync_dir(parent), parent)?;
    }
    Ok(())
}

/// False when it was not there, or a folder is not empty.
fn removed(result: io::Result<()>, path: &Path) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(false)
        }
        Err(error) => Err(unremovable(path, error)),
    }
}

fn synced(result: io::Result<()>, folder: &Path) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::retry(format!("{} cannot be made durable", folder.display())).with_source(error))
        }
        _ => Ok(()),
    }
}

fn unremovable(path: &Path, error: io::Error) -> Error {
    Error::retry(format!("{} cannot be removed", path.display())).with_source(error)
}
