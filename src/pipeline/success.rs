//! `_SUCCESS`: an empty file in the table's folder says that the input has ended and everything of it is
//! there (`sink.success_file`).
//!
//! It is taken away before a start changes anything and comes back after everything is committed, so that
//! it is never beside a table that is being added to. Readers of Hive tables pass over names that begin
//! with an underscore.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::error::Result;
use crate::storage::Disk;
use crate::storage::OpenMode;
use crate::storage::make_folders;

const NAME: &str = "_SUCCESS";

/// Takes the file out of the table `base`, durably, if it is there. Blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Retry`] when the disk refuses.
pub(super) fn withdraw(disk: &dyn Disk, base: &Path) -> Result<()> {
    let path = base.join(NAME);
    match disk.remove_file(&path) {
        Ok(()) => disk.sync_dir(base).map_err(|error| refused(&path, error)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => Err(refused(&path, error)),
    }
}

/// Puts the file into the table `base`, durably. Blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Retry`] when the disk refuses.
pub(super) fn announce(disk: &dyn Disk, base: &Path) -> Result<()> {
    let path = base.join(NAME);
    let made = make_folders(disk, base, false)
        .and_then(|()| disk.open(&path, OpenMode::CreateNew { private: false }))
        .and_then(|file| file.sync());
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(refused(&path, error)),
        _ => disk.sync_dir(base).map_err(|error| refused(&path, error)),
    }
}

fn refused(path: &Path, error: io::Error) -> Error {
    Error::retry(format!("{} cannot be made or removed", path.display())).with_source(error)
}
