//! A bare log of writes: one `pwrite` and one `fdatasync` for each commit, into initialised space.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Log;
use super::Writer;
use super::bare;
use crate::Result;

pub struct Written {
    file: File,
}

/// The one writer.
struct Handle<'a> {
    file: &'a File,
    at: u64,
    sequence: u64,
    buffer: Vec<u8>,
}

impl Written {
    pub fn open(dir: &Path, bytes: usize) -> Result<Self> {
        Ok(Self { file: bare::make(dir, bytes, 256 << 10)? })
    }
}

impl Log for Written {
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>> {
        if writer > 0 {
            return Err("a bare log has one writer".into());
        }
        Ok(Box::new(Handle { file: &self.file, at: 0, sequence: 0, buffer: Vec::new() }))
    }
}

impl Writer for Handle<'_> {
    fn commit(&mut self, record: &[u8]) -> Result<()> {
        self.in_flight(&[record])
    }

    fn in_flight(&mut self, records: &[&[u8]]) -> Result<()> {
        self.buffer.clear();
        for record in records {
            self.buffer.extend_from_slice(&bare::header(self.sequence, record));
            self.buffer.extend_from_slice(record);
            self.sequence += 1;
        }
        self.file.write_all_at(&self.buffer, self.at)?;
        self.file.sync_data()?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }

    /// Not atomic, but no cheaper if it were.
    fn commit_batch(&mut self, records: &[&[u8]]) -> Result<()> {
        self.in_flight(records)
    }
}
