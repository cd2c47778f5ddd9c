//! raft-engine: a region for each writer, files and purge threshold of 64 MiB.

use std::path::Path;

use protobuf::well_known_types::BytesValue;
use raft_engine::Config;
use raft_engine::LogBatch;
use raft_engine::MessageExt;
use raft_engine::ReadableSize;

use super::Log;
use super::Writer;
use crate::Result;
use crate::records::number;

pub struct Raft {
    engine: raft_engine::Engine,
}

struct Handle<'a> {
    engine: &'a raft_engine::Engine,
    region: u64,
    batch: LogBatch,
    entry: BytesValue,
}

/// A record as an entry: its index, from 1 on, is in its number.
struct Entry;

impl MessageExt for Entry {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        number(&entry.value).1 + 1
    }
}

fn open(dir: &Path) -> Result<raft_engine::Engine> {
    let config = Config {
        dir: dir.join("raft").to_string_lossy().into_owned(),
        target_file_size: ReadableSize::mb(64),
        purge_threshold: ReadableSize::mb(64),
        ..Config::default()
    };
    Ok(raft_engine::Engine::open(config)?)
}

fn region(writer: u64) -> u64 {
    writer + 1
}

impl Raft {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self { engine: open(dir)? })
    }
}

impl Log for Raft {
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>> {
        Ok(Box::new(Handle {
            engine: &self.engine,
            region: region(writer),
            batch: LogBatch::default(),
            entry: BytesValue::new(),
        }))
    }

    fn give_up(&self, count: u64) -> Result<()> {
        self.engine.compact_to(region(0), count + 1);
        self.engine.purge_expired_files()?;
        Ok(())
    }
}

impl Handle<'_> {
    fn write(&mut self, records: &[&[u8]], sync: bool) -> Result<()> {
        for record in records {
            self.entry.value.clear();
            self.entry.value.extend_from_slice(record);
            self.batch.add_entries::<Entry>(self.region, std::slice::from_ref(&self.entry))?;
        }
        self.engine.write(&mut self.batch, sync)?;
        Ok(())
    }
}

impl Writer for Handle<'_> {
    fn commit(&mut self, record: &[u8]) -> Result<()> {
        self.write(&[record], true)
    }

    /// The last append syncs for those before: a sync of its own does nothing (tikv/raft-engine #395).
    fn in_flight(&mut self, records: &[&[u8]]) -> Result<()> {
        for (at, record) in records.iter().enumerate() {
            self.write(&[record], at + 1 == records.len())?;
        }
        Ok(())
    }

    fn commit_batch(&mut self, records: &[&[u8]]) -> Result<()> {
        self.write(records, true)
    }
}

pub fn replay(dir: &Path, writers: u64, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let engine = open(dir)?;
    let mut entries = Vec::new();
    for region in (0..writers).map(region) {
        let (Some(first), Some(last)) = (engine.first_index(region), engine.last_index(region)) else {
            return Err(format!("region {region} is empty").into());
        };
        let mut from = first;
        while from <= last {
            let to = last.min(from + 999) + 1;
            entries.clear();
            engine.fetch_entries_to::<Entry>(region, from, to, None, &mut entries)?;
            entries.iter().for_each(|entry| each(&entry.value));
            from = to;
        }
    }
    // The process ends now, and what a log does when it is dropped is not measured.
    std::mem::forget(engine);
    Ok(())
}
