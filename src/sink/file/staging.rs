//! The folders of a table: where files wait, and where they become visible.
//!
//! Owns where the folders lie and how they are made durable. Does not own files.
//!
//! # Invariants
//!
//! - **G1** The staging folder lies on the table's file system: a rename moves a file between them (D2).
//! - **G2** A folder counts as durable only once its parent was synced by this process: one that was
//!   there may have been made by a process that was killed before it could sync (S5, P3).
//! - **G3** One process works on the staging folder of a lineage: it holds the lock (P10).

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::error::Error;
use crate::error::Result;
use crate::sink::file::name::staging_root;
use crate::storage::Disk;
use crate::storage::DiskLock;
use crate::storage::Kind;
use crate::stream::Lineage;

/// The lock file in the staging folder of a lineage.
pub(super) const LOCK: &str = "lock";

/// Where a table's files are.
#[derive(Debug)]
pub(super) struct Folders {
    disk: Arc<dyn Disk>,
    /// The table.
    pub(super) base: PathBuf,
    /// The files of this lineage that wait.
    pub(super) staging: PathBuf,
    root: PathBuf,
    /// Folders whose names are durable (G2).
    durable: Mutex<HashSet<PathBuf>>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Folders {
    /// Finds the folders of the table at `path`; nothing is made.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the table is no folder or on another file system than its parent (G1).
    pub(super) fn find(disk: Arc<dyn Disk>, path: &Path, lineage: Lineage) -> Result<Self> {
        let base = resolve(&*disk, path)
            .map_err(|error| Error::usage(format!("path {path:?} cannot be resolved")).with_source(error))?;
        let root = staging_root(&base)
            .ok_or_else(|| Error::usage(format!("path {path:?} has no folder above it to stage in")))?;
        let staging = root.join(lineage.to_string());
        let folders =
            Self { disk, base, staging, root, durable: Mutex::new(HashSet::new()), lock: Mutex::new(None) };
        folders.check_devices()?;
        Ok(folders)
    }

    fn check_devices(&self) -> Result<()> {
        let mut devices = Vec::new();
        for folder in [&self.base, &self.root, &self.staging] {
            match self.disk.metadata(folder) {
                Ok(found) if found.kind == Kind::Dir => devices.push((folder, found.id.0)),
                Ok(_) => return Err(Error::usage(format!("{folder:?} is there and is no folder"))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::usage(format!("{folder:?} cannot be looked at")).with_source(error));
                }
            }
        }
        // What is not there yet will be on the file system of the nearest folder above it.
        let above = self.base.ancestors().skip(1).find_map(|above| self.disk.metadata(above).ok());
        if let Some(above) = above
            && let Some((folder, _)) = devices.iter().find(|(_, device)| *device != above.id.0)
        {
            return Err(Error::usage(format!(
                "{folder:?} is on another file system than the folder above it: part files wait beside the \
                 table, in {:?}, and are moved by renaming; let path name a folder inside that file system",
                self.root
            )));
        }
        Ok(())
    }

    /// Takes the lock of the staging folder, if the folder is there.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when another process has it.
    pub(super) fn lock_if_there(&self) -> Result<()> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_some() {
            return Ok(());
        }
        // Asking for a lock makes its file: nothing is made where there is no folder.
        match self.disk.metadata(&self.staging) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(
                    Error::retry(format!("{:?} cannot be looked at", self.staging)).with_source(error)
                );
            }
        }
        let path = self.staging.join(LOCK);
        match self.disk.lock(&path) {
            Ok(Some(held)) => *lock = Some(held),
            Ok(None) => {
                return Err(Error::fatal(format!(
                    "{:?} is in use by another process of the same lineage: was the state directory copied \
                     while its job runs?",
                    self.staging
                )));
            }
            Err(error) => return Err(Error::retry(format!("{path:?} cannot be locked")).with_source(error)),
        }
        Ok(())
    }

    /// Makes the staging folder, durably, and takes its lock. Blocks.
    pub(super) fn make_staging(&self) -> Result<()> {
        self.make(std::iter::once(self.staging.as_path()), true)?;
        self.lock_if_there()
    }

    /// Makes the `folders` and those above them, durably (G2). Blocks.
    pub(super) fn make<'a>(&self, folders: impl Iterator<Item = &'a Path>, private: bool) -> Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh: HashSet<PathBuf> = HashSet::new();
        // Each parent once, in order, and whether something was made in it.
        let mut parents: BTreeMap<PathBuf, bool> = BTreeMap::new();
        for folder in folders {
            let chain: Vec<&Path> = folder.ancestors().collect();
            for folder in chain.into_iter().rev() {
                let Some(parent) = folder.parent() else { continue };
                if durable.contains(folder) || fresh.contains(folder) {
                    continue;
                }
                let made = self.make_one(folder, private && folder.starts_with(&self.root))?;
                fresh.insert(folder.to_owned());
                *parents.entry(parent.to_owned()).or_default() |= made;
            }
        }
        for (parent, made) in parents {
            match self.disk.sync_dir(&parent) {
                Ok(()) => {}
                // A folder far above that we did not make and may not open.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !made => {}
                Err(error) => {
                    return Err(
                        Error::retry(format!("folder {parent:?} cannot be made durable")).with_source(error)
                    );
                }
            }
        }
        durable.extend(fresh);
        Ok(())
    }

    fn make_one(&self, folder: &Path, private: bool) -> Result<bool> {
        // Looking first: making a folder high above may be forbidden though it is there.
        match self.disk.metadata(folder) {
            Ok(found) if found.kind == Kind::Dir => return Ok(false),
            Ok(_) => return Err(Error::fatal(format!("{folder:?} is there and is no folder"))),
            Err(_) => {}
        }
        match self.disk.create_dir(folder, private) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::retry(format!("folder {folder:?} cannot be made")).with_source(error)),
        }
    }

    /// Removes the lock and the empty staging folders: a job that ended leaves nothing behind.
    /// What is not empty stays. Blocks.
    pub(super) fn tidy(&self) -> Result<()> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            return Ok(());
        }
        let others = |entry: &crate::storage::Entry| entry.name != LOCK;
        match self.disk.list(&self.staging) {
            Ok(entries) if !entries.iter().any(others) => {}
            _ => return Ok(()),
        }
        let gone = |result: io::Result<()>| match result {
            Ok(()) => Ok(true),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) =>
            {
                Ok(false)
            }
            Err(error) => {
                Err(Error::retry(format!("{:?} cannot be tidied", self.staging)).with_source(error))
            }
        };
        gone(self.disk.remove_file(&self.staging.join(LOCK)))?;
        *lock = None;
        if gone(self.disk.remove_dir(&self.staging))? && gone(self.disk.remove_dir(&self.root))? {
            let parent = self.root.parent().unwrap_or(Path::new("."));
            gone(self.disk.sync_dir(parent))?;
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.retain(|folder| !folder.starts_with(&self.root));
        Ok(())
    }
}

/// The absolute path of `path` without links, whether or not its last folders are there.
pub(crate) fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        let there = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        match disk.canonicalize(there) {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else { return Err(error) };
                missing.push(name);
                at = parent;
            }
            Err(error) => return Err(error),
        }
    }
}
