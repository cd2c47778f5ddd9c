//! The log's folder: which names there are, and the few things done to names.
//!
//! ```text
//!  lock               held while the log is open
//!  manifest           which segments are the log
//!  manifest.new       a first manifest that was not finished
//!  0000000000000007.wal   segment 7
//!  spare-3            a segment file ready to be used
//!  making-4           a spare that is not finished
//!  quarantine/        what openings cut off; never touched again
//! ```

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::doors::Doors;
use crate::storage::Disk;

use super::WalError;

/// What a name in the folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Manifest,
    ManifestNew,
    Segment(u64),
    Spare(u64),
    Making(u64),
    /// The lock, the quarantine, and what is not ours.
    Other,
}

/// The folder of a log.
#[derive(Clone)]
pub(super) struct Folder {
    path: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
}

impl Folder {
    pub(super) fn new(path: &Path, doors: &Doors) -> Self {
        Self { path: path.to_owned(), disk: Arc::clone(&doors.disk) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.path.join("manifest")
    }

    pub(super) fn manifest_new(&self) -> PathBuf {
        self.path.join("manifest.new")
    }

    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016}.wal"))
    }

    pub(super) fn spare(&self, number: u64) -> PathBuf {
        self.path.join(format!("spare-{number}"))
    }

    pub(super) fn making(&self, number: u64) -> PathBuf {
        self.path.join(format!("making-{number}"))
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        self.path.join("quarantine")
    }

    /// Everything in the folder that is the log's, in the order of names.
    pub(super) fn list(&self) -> Result<Vec<Name>, WalError> {
        let entries = self.disk.list(&self.path).map_err(|source| io_error("list", &self.path, source))?;
        Ok(entries.iter().map(|entry| parse(&entry.name)).collect())
    }

    /// Makes the folder's own name durable.
    pub(super) fn sync_parent(&self) -> Result<(), WalError> {
        let parent = match self.path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => &self.path,
        };
        self.disk.sync_dir(parent).map_err(|source| io_error("sync the folder", parent, source))
    }

    /// Makes the names in the folder durable.
    // remove-syncs: Ok(())
    pub(super) fn sync(&self) -> Result<(), WalError> {
        self.disk.sync_dir(&self.path).map_err(|source| io_error("sync the folder", &self.path, source))
    }

    /// Renames without ever replacing, also where the file system has no such call (P9).
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), WalError> {
        match self.disk.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self
                .disk
                .link(from, to)
                .and_then(|()| self.disk.sync_dir(&self.path))
                .and_then(|()| self.disk.remove_file(from)),
            done => done,
        }
        .map_err(|source| io_error("rename a file to it", to, source))
    }

    /// Removes a file, or finds that it is not there.
    pub(super) fn remove(&self, path: &Path) -> Result<(), WalError> {
        match self.disk.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|source| io_error("remove", path, source)),
        }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

pub(super) fn io_error(what: &'static str, path: &Path, source: io::Error) -> WalError {
    WalError::Io { what, path: path.to_owned(), source }
}

fn parse(name: &OsStr) -> Name {
    let Some(name) = name.to_str() else { return Name::Other };
    match name {
        "manifest" => return Name::Manifest,
        "manifest.new" => return Name::ManifestNew,
        _ => {}
    }
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(number) = name.strip_suffix(".wal").filter(|stem| stem.len() >= 16).and_then(number) {
        return Name::Segment(number);
    }
    if let Some(number) = name.strip_prefix("spare-").and_then(number) {
        return Name::Spare(number);
    }
    name.strip_prefix("making-").and_then(number).map_or(Name::Other, Name::Making)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_foreign_ones_are_left_alone() {
        let folder = Folder::new(Path::new("/log"), &Doors::real());
        let named = |path: PathBuf| parse(path.file_name().unwrap());
        assert_eq!(named(folder.segment(7)), Name::Segment(7));
        assert_eq!(named(folder.segment(u64::MAX)), Name::Segment(u64::MAX));
        assert_eq!(named(folder.spare(7)), Name::Spare(7));
        assert_eq!(named(folder.making(7)), Name::Making(7));
        assert_eq!(named(folder.manifest()), Name::Manifest);
        assert_eq!(named(folder.manifest_new()), Name::ManifestNew);
        for foreign in ["lock", "quarantine", "7.wal", "spare-", "making-x", "notes"] {
            assert_eq!(parse(OsStr::new(foreign)), Name::Other, "{foreign}");
        }
    }
}
