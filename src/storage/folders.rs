//! Folders that are durable once they are made.

use std::io;
use std::path::Path;

use crate::storage::Disk;
use crate::storage::Kind;

/// Makes the folder `path` and those above it that are missing, and makes each name durable (S2).
///
/// A folder that is there counts as durable only once its parent was synced by this process: it may have
/// been made by one that was killed before it could sync. Parents high above that may not be opened are
/// passed over if nothing was made in them.
///
/// # Errors
///
/// `NotADirectory` when something else has the name; whatever making or syncing a folder gives.
pub fn make_folders(disk: &dyn Disk, path: &Path, private: bool) -> io::Result<()> {
    let chain: Vec<&Path> = path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
    for folder in chain.into_iter().rev() {
        let made = match disk.metadata(folder) {
            Ok(found) if found.kind == Kind::Dir => false,
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match disk.create_dir(folder, private) {
                Ok(()) => true,
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        let Some(parent) = folder.parent() else { continue };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match disk.sync_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !made => {}
            synced => synced?,
        }
    }
    Ok(())
}
