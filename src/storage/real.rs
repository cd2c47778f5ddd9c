//! Linux: the only place that calls the operating system about files.
#![expect(clippy::disallowed_methods, reason = "the door to the file system")]

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::AtFlags;
use rustix::fs::CWD;
use rustix::fs::FallocateFlags;
use rustix::fs::FlockOperation;
use rustix::fs::RenameFlags;

use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Entry;
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
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
            }
            OpenMode::CreateNew { private } => {
                options.write(true).create_new(true).mode(if private { 0o600 } else { 0o666 });
            }
        }
        let file = options.open(path)?;
        if mode == (OpenMode::CreateNew { private: true }) {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(Box::new(RealFile { file }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = fs::metadata(path)?;
        Ok(Metadata { kind: kind(found.file_type()), len: found.len(), id: (found.dev(), found.ino()) })
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
        fs::DirBuilder::new().mode(if private { 0o700 } else { 0o777 }).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // EINVAL: the file system does not know the flag.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(RealLock { _file: file }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
}

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn map(&self, len: u64) -> io::Result<Box<dyn Region>> {
        Ok(Box::new(MappedRegion::map(&self.file, len)?))
    }
}

#[derive(Debug)]
struct RealLock {
    _file: fs::File,
}

impl DiskLock for RealLock {}

fn kind(found: fs::FileType) -> Kind {
    if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    }
}
