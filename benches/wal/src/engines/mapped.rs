//! A bare log in a map: stores with a checksum, no call of the system.

use std::path::Path;
use std::sync::Mutex;
use std::sync::MutexGuard;

use memmap2::MmapMut;

use super::Log;
use super::Writer;
use super::bare;
use crate::Result;

pub struct Mapped {
    map: Mutex<MmapMut>,
}

/// The one writer.
struct Handle<'a> {
    map: MutexGuard<'a, MmapMut>,
    at: usize,
    sequence: u64,
}

impl Mapped {
    pub fn open(dir: &Path, bytes: usize) -> Result<Self> {
        let file = bare::make(dir, bytes, 4096)?;
        // SAFETY: the file was made here, in a folder of this process's own; nobody shortens it.
        let map = unsafe { MmapMut::map_mut(&file)? };
        Ok(Self { map: Mutex::new(map) })
    }
}

impl Log for Mapped {
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>> {
        if writer > 0 {
            return Err("a bare log has one writer".into());
        }
        Ok(Box::new(Handle { map: self.map.lock().map_err(|_| "a writer panicked")?, at: 0, sequence: 0 }))
    }
}

impl Writer for Handle<'_> {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        let header = bare::header(self.sequence, record);
        let end = self.at + header.len() + record.len();
        let room = self.map.get_mut(self.at..end).ok_or("the map is full")?;
        let (start, bytes) = room.split_at_mut(header.len());
        // The bytes first: the end of the process may come in between.
        bytes.copy_from_slice(record);
        start.copy_from_slice(&header);
        self.at = end;
        self.sequence += 1;
        Ok(())
    }
}
