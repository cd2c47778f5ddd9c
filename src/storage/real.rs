//! Linux: the only place that calls the operating system about files.
//!
//! # Symbolic links
//!
//! Every call that changes something refuses a symbolic link anywhere in its path (`openat2` with
//! `RESOLVE_NO_SYMLINKS`, Linux 5.6): a bucket that somebody swaps for a link between two calls
//! must not lead our files elsewhere. Paths are therefore canonical ([`Disk::canonicalize`]) before
//! they come here. On an older kernel only a link at the last name is refused. Calls that only look
//! follow links: input files may be links.
//!
//! # Interrupted calls
//!
//! Calls that a signal interrupts are repeated, but for the sync of a file or folder: that is a
//! failed sync (S4).
#![expect(clippy::disallowed_methods, reason = "the door to the file system")]

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::Access;
use rustix::fs::AtFlags;
use rustix::fs::CWD;
use rustix::fs::FallocateFlags;
use rustix::fs::FlockOperation;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::fs::ResolveFlags;
use rustix::io::Errno;
use rustix::io::retry_on_intr;

use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Entry;
use crate::storage::FileSystem;
use crate::storage::Kind;
use crate::storage::Metadata;
use crate::storage::OpenMode;
use crate::storage::Region;
use crate::storage::mapped::MappedRegion;

/// The machine's file systems.
#[derive(Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The one there is.
    pub fn new() -> Self {
        Self
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = match mode {
            OpenMode::Read => {
                // Without this flag the opening of a named pipe would wait for its other end.
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?
            }
            OpenMode::ReadWrite => open_at(path, OFlags::NONBLOCK, Mode::empty())?,
            OpenMode::CreateNew { private } => {
                let mode = if private { 0o600 } else { 0o666 };
                let file = open_at(path, OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode))?;
                if private {
                    file.set_permissions(fs::Permissions::from_mode(mode))?;
                }
                file
            }
        };
        regular(&file)?;
        Ok(Box::new(RealFile { file }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata(&fs::metadata(path)?))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                Ok(Entry { name: entry.file_name(), kind: kind(entry.file_type()?) })
            })
            .collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable();
        Ok(entries)
    }

    fn create_dir(&self, path: &Path, private: bool) -> io::Result<()> {
        let (folder, name) = folder_of(path)?;
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o777 });
        Ok(rustix::fs::mkdirat(folder, name, mode)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let folder = open_folder(path, OFlags::RDONLY)?;
        Ok(rustix::fs::fsync(folder)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (folder_of(from)?, folder_of(to)?);
        match rustix::fs::renameat_with(from_folder, from, to_folder, to, RenameFlags::NOREPLACE) {
            // The file system does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            result => Ok(result?),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (folder_of(from)?, folder_of(to)?);
        Ok(rustix::fs::linkat(from_folder, from, to_folder, to, AtFlags::empty())?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = folder_of(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = folder_of(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        loop {
            let file = open_at(path, OFlags::CREATE | OFlags::NONBLOCK, Mode::from_raw_mode(0o600))?;
            regular(&file)?;
            match retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
            // The last holder may have removed the file between the two calls: this lock would then
            // exclude nobody who comes later.
            match self.metadata(path) {
                Ok(found) if found.id == metadata(&file.metadata()?).id => {
                    return Ok(Some(Box::new(RealLock { _file: file })));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn may_write(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        Ok(FileSystem::of_magic(rustix::fs::statfs(path)?.f_type))
    }
}

/// Opens `path` to read and write; no link leads there.
fn open_at(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let (folder, name) = folder_of(path)?;
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match retry_on_intr(|| rustix::fs::openat(&folder, name, flags, mode)) {
        Ok(file) => Ok(file.into()),
        Err(Errno::LOOP) => Err(link_refused()),
        Err(errno) => Err(errno.into()),
    }
}

/// The folder that holds the last name of `path`, found without following links, and that name.
fn folder_of(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((open_folder(parent, OFlags::PATH)?, name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a path that ends in no name")),
    }
}

fn open_folder(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let none = Mode::empty();
    match retry_on_intr(|| rustix::fs::openat2(CWD, path, flags, none, ResolveFlags::NO_SYMLINKS)) {
        Ok(folder) => Ok(folder),
        Err(Errno::LOOP) => Err(link_refused()),
        // A kernel before 5.6, or a container whose filter of system calls is older than that.
        Err(Errno::NOSYS | Errno::PERM) => Ok(retry_on_intr(|| rustix::fs::openat(CWD, path, flags, none))?),
        Err(errno) => Err(errno.into()),
    }
}

fn link_refused() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link in the path, where files are written")
}

/// Refuses folders, pipes and devices.
fn regular(file: &File) -> io::Result<()> {
    match metadata(&file.metadata()?).kind {
        Kind::File => Ok(()),
        Kind::Dir => Err(io::ErrorKind::IsADirectory.into()),
        Kind::Other => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

fn metadata(found: &fs::Metadata) -> Metadata {
    Metadata { kind: kind(found.file_type()), len: found.len(), id: (found.dev(), found.ino()) }
}

fn kind(found: fs::FileType) -> Kind {
    if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn metadata(&self) -> io::Result<Metadata> {
        Ok(metadata(&self.file.metadata()?))
    }

    fn read_at(&self, offset: u64, mut buf: &mut [u8]) -> io::Result<usize> {
        let asked = buf.len();
        let mut offset = offset;
        while !buf.is_empty() {
            match self.file.read_at(buf, offset) {
                Ok(0) => break,
                Ok(count) => {
                    buf = buf.get_mut(count..).unwrap_or_default();
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(asked - buf.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        // Not `File::sync_data`, which repeats an interrupted call.
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn map(&self, len: u64) -> io::Result<Box<dyn Region>> {
        Ok(Box::new(MappedRegion::map(&self.file, len)?))
    }
}

#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}
