//! The write-ahead log as the journal of states.

use crate::state::journal::Appended;
use crate::state::journal::Journal;
use crate::state::journal::JournalError;
use crate::state::journal::JournalReader;
use crate::state::journal::Logged;
use crate::state::journal::Replay;
use crate::stream::Lsn;
use crate::wal::Wal;
use crate::wal::WalError;
use crate::wal::WalReader;

impl JournalReader for Wal {
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError> {
        Wal::read(self, at).map_err(|error| reading(error, at))
    }

    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError> {
        let entries = Wal::replay(self, from).map_err(|error| reading(error, from))?;
        Ok(logged(entries, from))
    }

    fn start(&self) -> Lsn {
        Wal::start(self)
    }

    fn end(&self) -> Lsn {
        Wal::end(self)
    }
}

impl Journal for Wal {
    fn append(&self, entries: &[&[u8]]) -> Result<Appended, JournalError> {
        let wanted_bytes = entries.iter().map(|entry| entry.len() as u64).sum();
        let appended = Wal::append(self, entries).map_err(|error| writing(self, error, wanted_bytes))?;
        Ok(Appended { lsns: appended.lsns, end: appended.end })
    }

    fn sync(&self) -> Result<Lsn, JournalError> {
        Wal::sync(self).map_err(|error| uncertain(self, error))
    }

    fn truncate_before(&self, before: Lsn) -> Result<(), JournalError> {
        Wal::truncate_before(self, before).map_err(|error| uncertain(self, error))
    }
}

impl JournalReader for WalReader {
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError> {
        WalReader::read(self, at).map_err(|error| reading(error, at))
    }

    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError> {
        let entries = WalReader::replay(self, from).map_err(|error| reading(error, from))?;
        Ok(logged(entries, from))
    }

    fn start(&self) -> Lsn {
        WalReader::start(self)
    }

    fn end(&self) -> Lsn {
        WalReader::end(self)
    }
}

fn logged<'a>(entries: crate::wal::Replay, from: Lsn) -> Replay<'a> {
    Box::new(entries.map(move |entry| match entry {
        Ok(entry) => Ok(Logged { at: entry.at, entry: entry.entry }),
        Err(error) => Err(reading(error, from)),
    }))
}

fn reading(error: WalError, at: Lsn) -> JournalError {
    match error {
        WalError::OutOfRange { start, .. } if at < start => JournalError::Gone { at, start },
        error => JournalError::Damaged { at, source: Some(Box::new(error)) },
    }
}

fn writing(log: &Wal, error: WalError, wanted_bytes: u64) -> JournalError {
    match error {
        WalError::Full { .. } | WalError::NoSpace { .. } => {
            JournalError::NoRoom { wanted_bytes, source: Some(Box::new(error)) }
        }
        error => uncertain(log, error),
    }
}

fn uncertain(log: &Wal, error: WalError) -> JournalError {
    JournalError::Uncertain { durable: log.durable(), source: Some(Box::new(error)) }
}
