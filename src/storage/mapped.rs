//! A piece of a file in memory: the only `unsafe` of the crate.
//!
//! # Why no store or load here ends in SIGBUS
//!
//! The file was reserved to at least the mapped length before ([`DiskFile::reserve`]), so the file
//! system has a block for each page, and a mapped file is never shortened (a rule of
//! `storage::disk`, kept by the log, which is the only user and whose lock keeps others out). A
//! bad sector under a page that is read would still be a SIGBUS: replay and verification therefore
//! read with [`DiskFile::read_at`], and the map is read only where the same process has written.
//!
//! [`DiskFile::reserve`]: crate::storage::DiskFile::reserve
//! [`DiskFile::read_at`]: crate::storage::DiskFile::read_at
#![expect(unsafe_code, reason = "the one file that may")]

use std::fs::File;
use std::io;

use memmap2::MmapOptions;
use memmap2::MmapRaw;

use crate::storage::Region;

/// A shared, writable map of the start of a file.
#[derive(Debug)]
pub(super) struct MappedRegion {
    map: MmapRaw,
}

impl MappedRegion {
    /// Maps the first `len` bytes of `file`.
    pub(super) fn map(file: &File, len: u64) -> io::Result<Self> {
        if file.metadata()?.len() < len {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than its map"));
        }
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { map: MmapOptions::new().len(len).map_raw(file)? })
    }

    /// A pointer to `offset` if `len` bytes from there lie inside the map.
    fn inside(&self, offset: u64, len: usize) -> io::Result<usize> {
        usize::try_from(offset)
            .ok()
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.map.len()))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a range outside of the map"))
    }
}

impl Region for MappedRegion {
    fn size(&self) -> u64 {
        self.map.len() as u64
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = self.inside(offset, bytes.len())?;
        // SAFETY: `start + bytes.len()` lies inside the map (`inside`), which lives as long as
        // `self`. `bytes` is a Rust slice, and no Rust reference to mapped memory ever exists, so
        // the ranges do not overlap. A concurrent access of the same range by another thread
        // would be a data race; the contract of `Region` forbids it (writers do not overlap and
        // nobody reads a range that is being written). No page faults in as SIGBUS: module doc.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(start), bytes.len());
        }
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = self.inside(offset, buf.len())?;
        // SAFETY: as in `write`, with the roles of source and destination exchanged.
        unsafe {
            std::ptr::copy_nonoverlapping(self.map.as_ptr().add(start), buf.as_mut_ptr(), buf.len());
        }
        Ok(())
    }
}
