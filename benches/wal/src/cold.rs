//! What of a folder's files is in memory.

use std::fs::File;
use std::path::Path;

use nix::fcntl::PosixFadviseAdvice;
use nix::fcntl::posix_fadvise;

use crate::Result;

/// Writes back whatever the file system of `dir` has not written yet.
pub fn settle(dir: &Path) -> Result<()> {
    Ok(nix::unistd::syncfs(File::open(dir)?)?)
}

/// Takes the files below `dir` out of the page cache; nobody may have them mapped.
pub fn evict(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            evict(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
    }
    Ok(())
}

/// Bytes that this process has had read from the disk.
pub fn disk_read_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    Ok(line.ok_or("/proc/self/io has no read_bytes")?.trim().parse()?)
}
