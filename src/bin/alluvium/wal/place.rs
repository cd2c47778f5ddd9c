//! Where the log is.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use alluvium::Error;
use alluvium::storage::Disk;
use alluvium::storage::Kind;

/// The name of the log in a state directory.
const LOG: &str = "log";

/// The log in `dir`, which is a log's folder or the state directory of a job.
pub(super) fn log(disk: &dyn Disk, dir: &Path) -> alluvium::Result<PathBuf> {
    let path = folder(disk, dir)?;
    if holds_log(disk, &path)? {
        return Ok(path);
    }
    let below = path.join(LOG);
    match holds_log(disk, &below) {
        Ok(true) => Ok(below),
        _ => Err(Error::usage(format!(
            "{}: there is no log here; name a log's folder, or the state directory of a job",
            dir.display()
        ))),
    }
}

/// The folder `dir`, without links.
pub(super) fn folder(disk: &dyn Disk, dir: &Path) -> alluvium::Result<PathBuf> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Error::usage(format!("{}: there is no such folder", dir.display())),
        _ => Error::retry(format!("{} cannot be read", dir.display())).with_source(error),
    };
    let path = disk.canonicalize(dir).map_err(failed)?;
    match disk.metadata(&path).map_err(failed)?.kind {
        Kind::Dir => Ok(path),
        _ => Err(Error::usage(format!("{} is no folder", dir.display()))),
    }
}

/// A folder that is to be made, or is empty.
pub(super) fn fresh(disk: &dyn Disk, dir: &Path) -> alluvium::Result<PathBuf> {
    match disk.list(dir) {
        Ok(entries) if entries.is_empty() => folder(disk, dir),
        Ok(_) => Err(Error::usage(format!("{} is not empty, and nothing is overwritten", dir.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = dir.file_name().ok_or_else(|| {
                Error::usage(format!("{}: this names no folder that can be made", dir.display()))
            })?;
            let parent = match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            Ok(folder(disk, parent)?.join(name))
        }
        Err(error) => {
            Err(Error::usage(format!("{} cannot be used as a new log", dir.display())).with_source(error))
        }
    }
}

/// Whether `dir` has files that only a log has.
fn holds_log(disk: &dyn Disk, dir: &Path) -> alluvium::Result<bool> {
    let entries = disk
        .list(dir)
        .map_err(|error| Error::retry(format!("{} cannot be read", dir.display())).with_source(error))?;
    Ok(entries.iter().any(|entry| {
        let name = Path::new(&entry.name);
        entry.kind == Kind::File
            && (name == Path::new("manifest") || name.extension().is_some_and(|end| end == "wal"))
    }))
}
