//! What the state asks of a log, so that it runs on the real one and on one in memory.

use std::fmt;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::stream::Lsn;
use crate::wal::Appended;
use crate::wal::Logged;

/// The reading half of a log: enough for `inspect`, which never writes.
pub trait JournalReader: Send + Sync + fmt::Debug {
    /// The entry that begins at `at`, verified.
    ///
    /// # Errors
    ///
    /// [`JournalError::Gone`] when it was given up, [`JournalError::Damaged`] when it does not verify.
    fn read(&self, at: Lsn) -> Result<Vec<u8>, JournalError>;

    /// The entries at or above `from`, in order. Those appended meanwhile may or may not come.
    ///
    /// # Errors
    ///
    /// [`JournalError::Gone`] when `from` lies below [`Self::start`].
    fn replay(&self, from: Lsn) -> Result<Replay<'_>, JournalError>;

    /// The oldest position that can be read; entries may lie anywhere above.
    fn start(&self) -> Lsn;

    /// The position behind the newest entry.
    fn end(&self) -> Lsn;
}

/// A log with one writer process; its calls may come from many threads.
pub trait Journal: JournalReader {
    /// Appends `entries` as one atomic frame: after a crash all of them are there or none. They survive
    /// the process; the machine only after [`Self::sync`].
    ///
    /// # Errors
    ///
    /// [`JournalError::NoRoom`] and [`JournalError::Failed`] changed nothing; after
    /// [`JournalError::Uncertain`] the log is closed to writing until it is opened again.
    fn append(&self, entries: &[&[u8]]) -> Result<Appended, JournalError>;

    /// Makes durable what was appended so far; returns the position below which all is.
    ///
    /// # Errors
    ///
    /// [`JournalError::Uncertain`]: never retried.
    // remove-syncs: Ok(self.end())
    fn sync(&self) -> Result<Lsn, JournalError>;

    /// Gives up entries below `before`, or fewer of them: whole segments only.
    fn truncate_before(&self, before: Lsn) -> Result<(), JournalError>;

    /// Bytes appended since the log was opened, with all that the log adds to them.
    fn appended_bytes(&self) -> u64;
}

/// Entries of a log in order.
pub type Replay<'a> = Box<dyn Iterator<Item = Result<Logged, JournalError>> + Send + 'a>;

/// Why a log did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no room; nothing was appended and the log is whole.
    #[error("no room in the log for {wanted_bytes} more bytes")]
    NoRoom {
        /// Bytes that were to be appended.
        wanted_bytes: u64,
        /// What the log says of it.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A write or sync failed: what lies above `durable` may or may not be there after a restart.
    #[error("the log failed; what happened above {durable} is not known until it is opened again")]
    Uncertain {
        /// Below this everything is durable.
        durable: Lsn,
        /// What failed.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The position was given up.
    #[error("position {at} was given up, the log begins at {start}")]
    Gone {
        /// What was asked for.
        at: Lsn,
        /// The oldest position there is.
        start: Lsn,
    },
    /// What is there does not verify, or nothing begins there.
    #[error("position {at} cannot be read")]
    Damaged {
        /// The position.
        at: Lsn,
        /// What the log says of it.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A call failed that changed nothing: a file could not be read, the log was closed.
    #[error("the log did not answer")]
    Failed {
        /// What the log says of it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The handle belongs to a former start of the job, whose tasks may no longer write (P10).
    #[error("a newer start of the job owns the log")]
    Superseded,
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        let (make, what): (fn(&'static str) -> Error, _) = match &error {
            JournalError::NoRoom { .. } => (Error::retry, "state cannot be written"),
            JournalError::Uncertain { .. } => (Error::retry, "state may not have been written"),
            JournalError::Gone { .. } => (Error::damage, "state is missing"),
            JournalError::Damaged { .. } => (Error::damage, "state is damaged"),
            JournalError::Failed { .. } => (Error::retry, "state cannot be read or written"),
            JournalError::Superseded => {
                (|what| Error::new(ErrorKind::Fenced, what), "state cannot be written")
            }
        };
        make(what).with_source(error)
    }
}

/// Whether `error` says that the log is full: nothing was appended, nothing is lost, and the same may be
/// tried again when there is room (P7 lets such a checkpoint be carried).
pub fn is_out_of_room(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if matches!(cause.downcast_ref(), Some(JournalError::NoRoom { .. })) {
            return true;
        }
        source = cause.source();
    }
    false
}
