//! A log in memory, for tests and examples: it forgets at the end of the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::state::journal::Journal;
use crate::state::journal::JournalError;
use crate::state::journal::JournalReader;
use crate::state::journal::Replay;
use crate::stream::Lsn;
use crate::wal::Appended;
use crate::wal::Logged;

/// Bytes that a frame takes besides its entries, as in the real log.
const FRAME_HEADER_BYTES: u64 = 64;

/// A log in memory that can lose what was not synced, run full, or fail, as a test asks.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Clone, Default)]
struct Inner {
    entries: BTreeMap<Lsn, Vec<u8>>,
    start: u64,
    durable: u64,
    end: u64,
    appended_bytes: u64,
    full: bool,
    failing: bool,
    failed: bool,
}

impl MemoryJournal {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The log as a loss of power leaves it: only what was synced. With `all`, as the end of the
    /// process leaves it: everything. A failure or a full disk is not inherited.
    #[must_use]
    pub fn reopened(&self, all: bool) -> Self {
        let inner = self.lock();
        let end = if all { inner.end } else { inner.durable };
        let mut entries = inner.entries.clone();
        entries.split_off(&Lsn(end));
        let copy = Inner { entries, start: inner.start, durable: end, end, ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(copy)) }
    }

    /// From now on, until told otherwise, there is no room for entries.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// The next sync fails, and all calls after it.
    pub fn fail_next_sync(&self) {
        self.lock().failing = true;
    }

    /// Entries that there are.
    pub fn entries(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No method panics while it holds the lock half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn uncertain(&self) -> JournalError {
        JournalError::Uncertain { durable: Lsn(self.durable), source: None }
    }
}

impl JournalReader for MemoryJournal {
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError> {
        let inner = self.lock();
        if at.0 < inner.start {
            return Err(JournalError::Gone { at, start: Lsn(inner.start) });
        }
        inner.entries.get(&at).cloned().ok_or(JournalError::Damaged { at, source: None })
    }

    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError> {
        let inner = self.lock();
        if from.0 < inner.start {
            return Err(JournalError::Gone { at: from, start: Lsn(inner.start) });
        }
        let entries: Vec<_> = inner
            .entries
            .range(from..)
            .map(|(at, entry)| Ok(Logged { at: *at, entry: entry.clone() }))
            .collect();
        Ok(Box::new(entries.into_iter()))
    }

    fn start(&self) -> Lsn {
        Lsn(self.lock().start)
    }

    fn end(&self) -> Lsn {
        Lsn(self.lock().end)
    }
}

impl Journal for MemoryJournal {
    fn append(&self, entries: &[&[u8]]) -> Result<Appended, JournalError> {
        let mut inner = self.lock();
        if inner.failed {
            return Err(inner.uncertain());
        }
        let wanted_bytes = FRAME_HEADER_BYTES + entries.iter().map(|entry| entry.len() as u64).sum::<u64>();
        if inner.full {
            return Err(JournalError::NoRoom { wanted_bytes, source: None });
        }
        let mut at = inner.end + FRAME_HEADER_BYTES;
        let mut lsns = Vec::with_capacity(entries.len());
        for entry in entries {
            lsns.push(Lsn(at));
            inner.entries.insert(Lsn(at), entry.to_vec());
            // An empty entry takes a place too: positions grow.
            at += (entry.len() as u64).max(1);
        }
        inner.end = at;
        inner.appended_bytes += wanted_bytes;
        Ok(Appended { lsns, end: Lsn(at) })
    }

    fn sync(&self) -> Result<Lsn, JournalError> {
        let mut inner = self.lock();
        inner.failed |= inner.failing;
        if inner.failed {
            return Err(inner.uncertain());
        }
        inner.durable = inner.end;
        Ok(Lsn(inner.durable))
    }

    fn truncate_before(&self, before: Lsn) -> Result<(), JournalError> {
        let mut inner = self.lock();
        if inner.failed {
            return Err(inner.uncertain());
        }
        let before = before.0.min(inner.end);
        if before > inner.start {
            inner.start = before;
            inner.entries = inner.entries.split_off(&Lsn(before));
        }
        Ok(())
    }

    fn appended_bytes(&self) -> u64 {
        self.lock().appended_bytes
    }
}
