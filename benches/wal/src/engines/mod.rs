//! The compared logs behind one small trait, each with the settings the README names.

mod alluvium;
mod bare;
mod fjall;
mod mapped;
mod okay;
mod raft;
mod walrus;
mod written;

use std::path::Path;

use crate::Result;
use crate::workload::Workload;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Alluvium,
    /// A bare log of writes: what the disk allows.
    Written,
    /// A bare log in a map: what memory allows.
    Mapped,
    Raft,
    Okay,
    Walrus,
    Fjall,
}

/// A log that is open.
pub trait Log: Sync {
    /// The handle of one thread; writers are counted from 0.
    fn writer(&self, writer: u64) -> Result<Box<dyn Writer + '_>>;

    /// Gives up the records of writer 0 below `count`, as far as the engine does so at once.
    fn give_up(&self, count: u64) -> Result<()> {
        Err(format!("this engine cannot give up {count} records").into())
    }

    /// Syncs of files so far, where the engine counts them.
    fn syncs(&self) -> Option<u64> {
        None
    }
}

/// Each call is measured with the engines that have it; the others' answer is an error.
pub trait Writer {
    /// One append, durable when it returns.
    fn commit(&mut self, _record: &[u8]) -> Result<()> {
        Err("this engine is not measured with durable appends".into())
    }

    /// As many appends as there are records, all of them durable when it returns.
    fn in_flight(&mut self, _records: &[&[u8]]) -> Result<()> {
        Err("this engine cannot have several appends in flight on one thread".into())
    }

    /// One append of all records, atomic, and durable when it returns.
    fn commit_batch(&mut self, _records: &[&[u8]]) -> Result<()> {
        Err("this engine is not measured with batches".into())
    }

    /// One append that survives the end of the process.
    fn append(&mut self, _record: &[u8]) -> Result<()> {
        Err("this engine is not measured with appends that survive the process only".into())
    }
}

impl Engine {
    pub const ALL: [Self; 7] =
        [Self::Alluvium, Self::Written, Self::Mapped, Self::Raft, Self::Okay, Self::Walrus, Self::Fjall];

    pub fn name(self) -> &'static str {
        match self {
            Self::Alluvium => "alluvium",
            Self::Written => "bare writes",
            Self::Mapped => "bare map",
            Self::Raft => "raft-engine",
            Self::Okay => "okaywal",
            Self::Walrus => "walrus (map)",
            Self::Fjall => "fjall",
        }
    }

    pub fn find(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == name);
        Ok(found.ok_or_else(|| format!("{name:?} is no engine"))?)
    }

    /// Makes a log in `dir`, ready for `workload`: what is prepared ahead is prepared.
    pub fn open(self, dir: &Path, workload: &Workload) -> Result<Box<dyn Log>> {
        Ok(match self {
            Self::Alluvium => Box::new(alluvium::Alluvium::open(dir)?),
            Self::Written => Box::new(written::Written::open(dir, bare::file_bytes(workload))?),
            Self::Mapped => Box::new(mapped::Mapped::open(dir, bare::file_bytes(workload))?),
            Self::Raft => Box::new(raft::Raft::open(dir)?),
            Self::Okay => Box::new(okay::Okay::open(dir)?),
            Self::Walrus => Box::new(walrus::Topics::open()?),
            Self::Fjall => Box::new(fjall::Journal::open(dir)?),
        })
    }

    /// Opens the log in `dir` after an end without closing, and hands `each` every record.
    pub fn replay(self, dir: &Path, workload: &Workload, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let writers = workload.work.writers();
        match self {
            Self::Alluvium => alluvium::replay(dir, each),
            Self::Written | Self::Mapped => bare::replay(dir, each),
            Self::Raft => raft::replay(dir, writers, each),
            Self::Okay => okay::replay(dir, each),
            Self::Walrus => walrus::replay(writers, each),
            Self::Fjall => fjall::replay(dir, each),
        }
    }
}
