//! Alluvium's log, default settings.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use alluvium::doors::Doors;
use alluvium::stream::Lsn;
use alluvium::wal::Ticket;
use alluvium::wal::Wal;
use alluvium::wal::WalSettings;
use tokio::runtime::EnterGuard;
use tokio::runtime::Runtime;

use super::Log;
use super::Writer;
use crate::Result;
use crate::records::number;

/// Spare segments that a log at rest has ready.
const SPARES: usize = 2;
/// Longer than two spares take on any disk worth measuring.
const SPARES_WITHIN: Duration = Duration::from_secs(30);

pub struct Alluvium {
    wal: Wal,
    /// The log makes spares in the background only where there is a runtime.
    runtime: Runtime,
    /// First record and position of each batch.
    batches: Mutex<Vec<(u64, Lsn)>>,
}

struct Handle<'a> {
    log: &'a Alluvium,
    tickets: Vec<Ticket>,
    _entered: EnterGuard<'a>,
}

impl Alluvium {
    pub fn open(dir: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
        let entered = runtime.enter();
        let dir = dir.join("log");
        let (wal, _) = Wal::open(&dir, WalSettings::default(), &Doors::real())?;
        await_spares(&dir)?;
        drop(entered);
        Ok(Self { wal, runtime, batches: Mutex::default() })
    }
}

/// Waits until the spares are there: they are made once in a log's life, and not what is measured.
fn await_spares(dir: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        let names: Vec<_> = std::fs::read_dir(dir)?
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_, _>>()?;
        let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
        if count("spare-") >= SPARES && count("making-") == 0 {
            return Ok(());
        }
        if start.elapsed() > SPARES_WITHIN {
            return Err(format!("no {SPARES} spares after {SPARES_WITHIN:?}: {names:?}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Log for Alluvium {
    fn writer(&self, _writer: u64) -> Result<Box<dyn Writer + '_>> {
        Ok(Box::new(Handle { log: self, tickets: Vec::new(), _entered: self.runtime.enter() }))
    }

    fn give_up(&self, count: u64) -> Result<()> {
        let batches = self.batches.lock().map_err(|_| "a writer panicked")?;
        let kept = batches.iter().rev().find(|(first, _)| *first <= count);
        let (_, lsn) = kept.ok_or("nothing was appended")?;
        Ok(self.wal.truncate_before(*lsn)?)
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.wal.stats().syncs)
    }
}

impl Writer for Handle<'_> {
    fn commit(&mut self, record: &[u8]) -> Result<()> {
        self.in_flight(&[record])
    }

    fn in_flight(&mut self, records: &[&[u8]]) -> Result<()> {
        self.tickets.clear();
        for record in records {
            self.tickets.push(self.log.wal.submit(&[record])?);
        }
        for ticket in &self.tickets {
            ticket.wait()?;
        }
        Ok(())
    }

    fn commit_batch(&mut self, records: &[&[u8]]) -> Result<()> {
        let ticket = self.log.wal.submit(records)?;
        ticket.wait()?;
        if let (Some(first), Some(lsn)) = (records.first(), ticket.appended().lsns.first()) {
            self.log.batches.lock().map_err(|_| "a writer panicked")?.push((number(first).1, *lsn));
        }
        Ok(())
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        self.log.wal.append(&[record])?;
        Ok(())
    }
}

pub fn replay(dir: &Path, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let (wal, _) = Wal::open(&dir.join("log"), WalSettings::default(), &Doors::real())?;
    let mut replay = wal.replay(wal.start())?;
    while let Some(logged) = replay.next_ref() {
        each(logged?.entry);
    }
    // The process ends now, and what a log does when it is dropped is not measured.
    std::mem::forget(wal);
    Ok(())
}
