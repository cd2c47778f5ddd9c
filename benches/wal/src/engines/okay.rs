//! OkayWAL: segments of 64 MiB, no checkpoint by itself. A batch is one entry of many chunks.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use okaywal::Configuration;
use okaywal::EntryId;
use okaywal::LogManager;
use okaywal::SegmentReader;
use okaywal::WriteAheadLog;

use super::Log;
use super::Writer;
use crate::Result;

pub struct Okay {
    log: WriteAheadLog,
}

struct Handle<'a> {
    log: &'a WriteAheadLog,
}

/// Keeps what an opening found.
#[derive(Debug, Default, Clone)]
struct Found(Arc<Mutex<Vec<Vec<u8>>>>);

impl LogManager for Found {
    fn recover(&mut self, entry: &mut okaywal::Entry<'_>) -> io::Result<()> {
        let chunks = entry.read_all_chunks()?.unwrap_or_default();
        self.0.lock().map_err(|_| io::Error::other("an opening panicked"))?.extend(chunks);
        Ok(())
    }

    fn checkpoint_to(&mut self, _: EntryId, _: &mut SegmentReader, _: &WriteAheadLog) -> io::Result<()> {
        Err(io::Error::other("nobody asked for a checkpoint"))
    }
}

fn open(dir: &Path, found: Found) -> Result<WriteAheadLog> {
    let configuration = Configuration::default_for(dir.join("okay"))
        .preallocate_bytes(64 << 20)
        .checkpoint_after_bytes(u64::MAX);
    Ok(configuration.open(found)?)
}

impl Okay {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self { log: open(dir, Found::default())? })
    }
}

impl Log for Okay {
    fn writer(&self, _writer: u64) -> Result<Box<dyn Writer + '_>> {
        Ok(Box::new(Handle { log: &self.log }))
    }
}

impl Writer for Handle<'_> {
    fn commit(&mut self, record: &[u8]) -> Result<()> {
        self.commit_batch(&[record])
    }

    fn commit_batch(&mut self, records: &[&[u8]]) -> Result<()> {
        let mut entry = self.log.begin_entry()?;
        for record in records {
            entry.write_chunk(record)?;
        }
        entry.commit()?;
        Ok(())
    }
}

pub fn replay(dir: &Path, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let found = Found::default();
    let _log = open(dir, found.clone())?;
    found.0.lock().map_err(|_| "an opening panicked")?.iter().for_each(|record| each(record));
    Ok(())
}
