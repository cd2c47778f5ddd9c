//! The folder for what openings cut off: files go in and are never read, changed or removed again.
//!
//! ```text
//!  quarantine/0000000000000007-<salt>.wal            a whole segment
//!  quarantine/0000000000000007-<salt>-<offset>.cut   bytes of a segment from that offset on
//!  quarantine/....part                               a copy that was not finished
//! ```

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::storage::OpenMode;

use super::WalError;
use super::error::is_full;
use super::folder::Folder;
use super::folder::io_error;
use super::frame::Life;
use super::segment::Chunk;
use super::segment::Segment;
use super::segment::Source;

/// Moves the segment file at `path` here; its new path. On a full disk it may stay where it is, and the
/// next opening tries again.
pub(super) fn take_in(folder: &Folder, path: &Path, life: &Life) -> Result<Option<PathBuf>, WalError> {
    match moved(folder, path, life) {
        Err(WalError::Io { source, .. }) if is_full(&source) => Ok(None),
        moved => moved.map(Some),
    }
}

fn moved(folder: &Folder, path: &Path, life: &Life) -> Result<PathBuf, WalError> {
    make(folder)?;
    let dir = folder.quarantine();
    let to = dir.join(format!("{:016}-{:016x}.wal", life.number, life.salt));
    match folder.rename(path, &to) {
        // A file system without rename: the link was made, and the crash came before the name was removed.
        Err(WalError::Io { source, .. })
            if source.kind() == io::ErrorKind::AlreadyExists && same_file(folder, path, &to) =>
        {
            sync(folder)?;
            folder.remove(path)?;
        }
        moved => moved?,
    }
    sync(folder)?;
    folder.sync()?;
    Ok(to)
}

/// Copies the bytes of `segment` from `start` to `end` here; `None` when the disk is full.
pub(super) fn copy(
    folder: &Folder,
    segment: &Segment,
    start: u64,
    end: u64,
) -> Result<Option<PathBuf>, WalError> {
    let life = segment.life();
    let name = format!("{:016}-{:016x}-{start}.cut", life.number, life.salt);
    let to = folder.quarantine().join(&name);
    let part = folder.quarantine().join(name + ".part");
    let copied = make(folder).and_then(|()| match folder.disk.metadata(&to) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folder.remove(&part)?;
            write_copy(folder, segment, start, end, &part)?;
            folder.rename(&part, &to)?;
            sync(folder)
        }
        Err(error) => Err(io_error("look at", &to, error)),
    });
    match copied {
        Ok(()) => Ok(Some(to)),
        Err(WalError::Io { source, .. }) if is_full(&source) => {
            let _removed = folder.remove(&part);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn write_copy(folder: &Folder, segment: &Segment, start: u64, end: u64, to: &Path) -> Result<(), WalError> {
    const PIECE_BYTES: u64 = 64 << 10;
    let source = Source { file: &*segment.file, path: &segment.path, end };
    let mut chunk = Chunk::default();
    let file = folder
        .disk
        .open(to, OpenMode::CreateNew { private: true })
        .map_err(|error| io_error("create", to, error))?;
    let mut at = start;
    while at < end {
        let len = (end - at).min(PIECE_BYTES);
        let Some(bytes) = chunk.get(&source, at, len as usize)? else { break };
        file.write_at(at - start, bytes).map_err(|error| io_error("write", to, error))?;
        at += len;
    }
    file.sync().map_err(|error| io_error("sync", to, error))
}

fn make(folder: &Folder) -> Result<(), WalError> {
    let dir = folder.quarantine();
    match folder.disk.create_dir(&dir, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io_error("create the folder", &dir, error));
        }
        _ => {}
    }
    folder.sync()
}

fn sync(folder: &Folder) -> Result<(), WalError> {
    let dir = folder.quarantine();
    folder.disk.sync_dir(&dir).map_err(|source| io_error("sync the folder", &dir, source))
}

fn same_file(folder: &Folder, one: &Path, other: &Path) -> bool {
    match (folder.disk.metadata(one), folder.disk.metadata(other)) {
        (Ok(one), Ok(other)) => one.id == other.id,
        _ => false,
    }
}
