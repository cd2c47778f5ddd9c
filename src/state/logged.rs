//! The write-ahead log as a journal.

use crate::state::journal::Journal;
use crate::state::journal::JournalError;
use crate::state::journal::JournalReader;
use crate::state::journal::Replay;
use crate::stream::Lsn;
use crate::wal::Appended;
use crate::wal::Wal;
use crate::wal::WalError;
use crate::wal::WalReader;

impl JournalReader for Wal {
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError> {
        Ok(Wal::read(self, at)?)
    }

    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError> {
        Ok(Box::new(Wal::replay(self, from)?.map(|logged| Ok(logged?))))
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
        Ok(Wal::append(self, entries)?)
    }

    fn sync(&self) -> Result<Lsn, JournalError> {
        Ok(Wal::sync(self)?)
    }

    fn truncate_before(&self, before: Lsn) -> Result<(), JournalError> {
        Ok(Wal::truncate_before(self, before)?)
    }

    fn appended_bytes(&self) -> u64 {
        self.stats().appended_bytes
    }
}

impl JournalReader for WalReader {
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError> {
        Ok(WalReader::read(self, at)?)
    }

    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError> {
        Ok(Box::new(WalReader::replay(self, from)?.map(|logged| Ok(logged?))))
    }

    fn start(&self) -> Lsn {
        WalReader::start(self)
    }

    fn end(&self) -> Lsn {
        WalReader::end(self)
    }
}

impl From<WalError> for JournalError {
    fn from(error: WalError) -> Self {
        match error {
            WalError::Full { wanted_bytes, .. } | WalError::NoSpace { bytes: wanted_bytes, .. } => {
                Self::NoRoom { wanted_bytes, source: Some(error.into()) }
            }
            WalError::Poisoned { durable, .. } => Self::Uncertain { durable, source: Some(error.into()) },
            WalError::OutOfRange { at, start, .. } if at < start => Self::Gone { at, start },
            WalError::OutOfRange { at, .. } | WalError::Damage { at, .. } => {
                Self::Damaged { at, source: Some(error.into()) }
            }
            _ => Self::Failed { source: error.into() },
        }
    }
}
