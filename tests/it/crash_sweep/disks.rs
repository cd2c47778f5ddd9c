//! Two disks as one: the job's, and the one that its input lies on.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use alluvium::storage::Disk;
use alluvium::storage::DiskFile;
use alluvium::storage::DiskLock;
use alluvium::storage::Entry;
use alluvium::storage::FileSystem;
use alluvium::storage::Metadata;
use alluvium::storage::OpenMode;
use alluvium::testing::CrashDisk;

/// The folder that is on the input's disk.
pub const INPUT: &str = "/w/in";

/// Routes each path to the disk it lies on.
#[derive(Debug, Clone)]
pub struct Disks {
    pub job: CrashDisk,
    pub input: CrashDisk,
}

impl Disks {
    fn of(&self, path: &Path) -> &CrashDisk {
        if path.starts_with(INPUT) { &self.input } else { &self.job }
    }
}

impl Disk for Disks {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.of(path).open(path, mode)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.of(path).metadata(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.of(path).list(path)
    }

    fn create_dir(&self, path: &Path, private: bool) -> io::Result<()> {
        self.of(path).create_dir(path, private)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.of(path).sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.of(path).lock(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.of(path).canonicalize(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.of(path).file_system(path)
    }
}
