//! What is asked of a disk, and what each call promises.
//!
//! # Promises
//!
//! - **S1** Bytes written are durable only after [`DiskFile::sync`] of that file returned Ok. Until
//!   then any subset of the 512-byte sectors written since the last sync may survive a loss of power.
//! - **S2** An entry of a folder (a file or folder made, renamed or removed in it) is durable only
//!   after [`Disk::sync_dir`] of that folder. Syncing a file does not make its name durable.
//! - **S3** [`Disk::rename`] is atomic: after a loss of power either the old or the new name is
//!   there, never both and never none (journaling file systems; a rename across folders needs both
//!   folders synced). It never replaces a file.
//! - **S4** After a failed sync nothing is known of the bytes since the last good one, and a second
//!   sync that says Ok means nothing ("Can Applications Recover from fsync Failures?", ATC 2020).
//! - **S5** What a process wrote survives the end of that process, however it ends.
//!
//! All calls block; async code calls them through [`crate::pool::Pool`].

use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::storage::FileSystem;

/// A file system.
///
/// Calls that change something refuse a symbolic link anywhere in their paths (`InvalidInput`), so
/// that nobody can lead our files elsewhere: give them paths below a folder that went through
/// [`Disk::canonicalize`]. Calls that only look follow links.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens the regular file `path` as `mode` says.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is no such file, `AlreadyExists` for [`OpenMode::CreateNew`] when there
    /// is one, `IsADirectory` for a folder, `InvalidInput` for a pipe or device.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;

    /// What is at `path`; symbolic links are followed.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The entries of the folder `path`, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Makes the folder `path`; its parent must be there. `private` folders are for their owner only.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when something of that name is there.
    fn create_dir(&self, path: &Path, private: bool) -> io::Result<()>;

    /// Makes the entries of the folder `path` durable (S2).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Gives `from` the name `to`, atomically, and never replaces anything (S3, P9).
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when `to` is there, `CrossesDevices` when it is on another file system,
    /// `Unsupported` when the file system cannot do it without the risk of replacing: use
    /// [`Disk::link`] and [`Disk::remove_file`] then.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the second name `to`.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when `to` is there.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name `path` of a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes the empty folder `path`.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Takes the exclusive lock that `path` (a file, made if absent) stands for; `None` when another
    /// descriptor, of this or any process, holds it. The lock ends with the value or the process.
    /// Only its holder may remove the file, as the last thing that it does.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;

    /// The absolute path without links and dots. The path must be there.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// What the file system that holds `path` is good for. The path must be there.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;

    /// Whether this process may make and remove entries of the folder `path`, as far as that can be told
    /// without trying.
    fn may_write(&self, path: &Path) -> io::Result<bool> {
        self.metadata(path).map(|found| found.kind == Kind::Dir)
    }
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To read; the file must be there.
    Read,
    /// To read and write; the file must be there.
    ReadWrite,
    /// To read and write a file that is not there yet; `private` files are for their owner only.
    CreateNew {
        /// Readable and writable by the owner alone, whatever the umask.
        private: bool,
    },
}

/// An open file. Offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// What is open here, whatever has its name by now.
    fn metadata(&self) -> io::Result<Metadata>;

    /// The file's length.
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len)
    }

    /// Reads into `buf` from `offset` on; less than asked only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. After an error any prefix may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or extends it by zeros. A mapped file is never shortened.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space for `len` bytes from the start, so that later writes below cannot fail for
    /// want of it, and sets the length to at least `len`.
    ///
    /// # Errors
    ///
    /// `StorageFull` when there is no room; `Unsupported` where the file system cannot reserve.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Makes all bytes and the length durable (S1; `fdatasync`), also those stored through maps.
    /// Never call it again after an error (S4).
    fn sync(&self) -> io::Result<()>;

    /// Maps the first `len` bytes, which must have been reserved, to be written and read in memory.
    fn map(&self, len: u64) -> io::Result<Box<dyn Region>>;
}

/// A piece of a file in memory: what is stored here survives the process (S5); [`DiskFile::sync`] of
/// the mapped file makes it durable (S1).
///
/// Coherent with [`DiskFile::read_at`] and [`DiskFile::write_at`] of the same file. Positions are
/// bytes from the start of the file. Writers do not overlap, and nobody reads a range that is being
/// written: the log's own lock sees to both.
pub trait Region: Send + Sync + fmt::Debug {
    /// Mapped bytes.
    fn size(&self) -> u64;

    /// Stores `bytes` at `offset`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the range does not lie inside the region; nothing is stored then.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the range does not lie inside the region.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
}

/// A held lock; dropping it releases it.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// What [`Disk::metadata`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, folder or something else.
    pub kind: Kind,
    /// Length in bytes; meaningless for folders.
    pub len: u64,
    /// Device and inode: two names of one file have the same.
    pub id: (u64, u64),
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name inside the folder.
    pub name: std::ffi::OsString,
    /// What it names; links are not followed.
    pub kind: Kind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link, a socket or the like.
    Other,
}
