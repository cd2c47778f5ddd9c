//! Walrus with its mapped backend and no syncs: a topic for each writer.
//!
//! Where its files go, and that it prints nothing, it takes from the environment (`children`).

use walrus_rust::FsyncSchedule;
use walrus_rust::ReadConsistency;
use walrus_rust::Walrus;

use super::Log;
use super::Writer;
use crate::Result;

/// Bytes that one read asks for.
const READ_BYTES: usize = 1 << 20;

pub struct Topics {
    log: Walrus,
}

struct Handle<'a> {
    log: &'a Walrus,
    topic: String,
}

fn open() -> Result<Walrus> {
    walrus_rust::disable_fd_backend();
    let reads = ReadConsistency::AtLeastOnce { persist_every: u32::MAX };
    Ok(Walrus::with_consistency_and_schedule_for_key("log", reads, FsyncSchedule::NoFsync)?)
}

fn topic(writer: u64) -> String {
    format!("w{writer}")
}

impl Topics {
    pub fn open() -> Result<Self> {
        Ok(Self { log: open()? })
    }
}

impl Log for Topics {
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>> {
        Ok(Box::new(Handle { log: &self.log, topic: topic(writer) }))
    }
}

impl Writer for Handle<'_> {
    fn append(&mut self, record: &[u8]) -> Result<()> {
        Ok(self.log.append_for_topic(&self.topic, record)?)
    }
}

pub fn replay(writers: u64, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let log = open()?;
    for topic in (0..writers).map(topic) {
        loop {
            let entries = log.batch_read_for_topic(&topic, READ_BYTES, true)?;
            if entries.is_empty() {
                break;
            }
            entries.iter().for_each(|entry| each(&entry.data));
        }
    }
    Ok(())
}
