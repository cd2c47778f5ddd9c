//! Open files, maps and locks of the simulated disk.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::control::Moment;
use super::control::StepKind;
use super::control::Verdict;
use super::control::simulated_crash;
use super::disk::CrashDisk;
use super::tree::Ino;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Metadata;
use crate::storage::Region;

/// A file opened once.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) disk: CrashDisk,
    pub(super) path: Arc<Path>,
    pub(super) ino: Ino,
    pub(super) writable: bool,
}

impl OpenFile {
    fn writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for OpenFile {
    fn metadata(&self) -> io::Result<Metadata> {
        let mut state = self.disk.state();
        state.control.look(&self.path)?;
        state.metadata(self.ino)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.control.look(&self.path)?;
        Ok(state.tree.file(self.ino)?.content.read(offset, buf))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        self.disk.state().write(StepKind::Write, &self.path, self.ino, offset, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        self.disk.state().step(StepKind::SetLen, &self.path, |state| {
            if state.maps.iter().any(|(ino, mapped)| *ino == self.ino && len < *mapped) {
                // On a real disk the next access of the map would be a SIGBUS.
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a mapped file was shortened"));
            }
            let grows = len > state.tree.file(self.ino)?.content.len();
            state.set_len(self.ino, len)?;
            state.tree.file_mut(self.ino)?.holes |= grows;
            Ok(())
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        self.disk.state().step(StepKind::Reserve, &self.path, |state| {
            let before = state.tree.file(self.ino)?.content.len();
            if len > before {
                state.set_len(self.ino, len)?;
            }
            if len >= before {
                state.tree.file_mut(self.ino)?.holes = false;
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let verdict = state.control.step(StepKind::Sync, &self.path)?;
        let content = &mut state.tree.file_mut(self.ino)?.content;
        match verdict {
            Verdict::Do => content.sync(),
            Verdict::Fail(error) => {
                content.fail_sync();
                return Err(error.into());
            }
            Verdict::Last(moment) => {
                if moment == Moment::After {
                    content.sync();
                }
                return Err(simulated_crash());
            }
        }
        Ok(())
    }

    fn map(&self, len: u64) -> io::Result<Box<dyn Region>> {
        self.writable()?;
        let mut state = self.disk.state();
        state.control.look(&self.path)?;
        let file = state.tree.file(self.ino)?;
        if len > file.content.len() || file.holes {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a map of what was not reserved"));
        }
        state.maps.push((self.ino, len));
        Ok(Box::new(MappedFile { disk: self.disk.clone(), path: Arc::clone(&self.path), ino: self.ino, len }))
    }
}

#[derive(Debug)]
struct MappedFile {
    disk: CrashDisk,
    path: Arc<Path>,
    ino: Ino,
    len: u64,
}

impl MappedFile {
    fn inside(&self, offset: u64, len: usize) -> io::Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a range outside of the map")),
        }
    }
}

impl Region for MappedFile {
    fn size(&self) -> u64 {
        self.len
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inside(offset, bytes.len())?;
        self.disk.state().write(StepKind::RegionWrite, &self.path, self.ino, offset, bytes)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.inside(offset, buf.len())?;
        let mut state = self.disk.state();
        state.control.look(&self.path)?;
        state.tree.file(self.ino)?.content.read(offset, buf);
        Ok(())
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if let Some(at) = state.maps.iter().position(|map| *map == (self.ino, self.len)) {
            state.maps.swap_remove(at);
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) disk: CrashDisk,
    pub(super) ino: Ino,
}

impl DiskLock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.state().locks.retain(|held| *held != self.ino);
    }
}
