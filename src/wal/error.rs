//! What can go wrong with the log, each with what a person needs to start the repair.

use std::io;
use std::path::PathBuf;

use crate::error::Error;
use crate::error::ErrorKind;
use crate::stream::Lsn;

/// An error of the write-ahead log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// Another opening, of this or another process, holds the log.
    #[error("{dir:?}: the log is in use by another process, or by another opening in this one")]
    Locked {
        /// The log's folder.
        dir: PathBuf,
    },
    /// A write, sync or rename failed earlier (S4): nothing more is written until the log is opened anew.
    #[error(
        "the log stopped after a failure ({cause}); everything below LSN {durable} is durable, the outcome \
         above it is unknown until the log is opened again"
    )]
    Poisoned {
        /// Everything below was acknowledged.
        durable: Lsn,
        /// The failure that stopped the log.
        cause: String,
    },
    /// The log has reached its limit; nothing was appended, and the log goes on once it is truncated.
    #[error(
        "the log is full: its segments take {live_bytes} bytes and another {wanted_bytes} would pass \
         the limit of {limit_bytes}; nothing was appended"
    )]
    Full {
        /// Bytes of the segments in use.
        live_bytes: u64,
        /// Bytes of the further segments that the append needs.
        wanted_bytes: u64,
        /// [`crate::wal::WalSettings::log_bytes_max`].
        limit_bytes: u64,
    },
    /// The disk has no room for the next segment; nothing was appended, and the log goes on once there is
    /// room.
    #[error(
        "the disk has no room for another segment of the log ({bytes} bytes, {path:?}); nothing was appended"
    )]
    NoSpace {
        /// The file that could not be made.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// What the disk said.
        source: io::Error,
    },
    /// The settings contradict themselves; nothing was changed.
    #[error("settings of the log: {what}")]
    Settings {
        /// Which, and why.
        what: String,
    },
    /// A position outside of what the log holds.
    #[error("LSN {at} is outside of the log, which holds {start} to {end}")]
    OutOfRange {
        /// The position that was asked for.
        at: Lsn,
        /// Where the log starts.
        start: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// Bytes that were acknowledged, or that the log itself needs, are damaged or missing. Nothing was
    /// changed.
    #[error(
        "{path:?}: damage at byte {offset} (LSN {at} to {}): {what}; nothing was changed, put the file \
         back from a copy or set the whole log aside",
        end_of_range(*to)
    )]
    Damage {
        /// The file.
        path: PathBuf,
        /// The first byte of the damage in it.
        offset: u64,
        /// The first position that is affected.
        at: Lsn,
        /// Positions from here on are not affected by this damage, as far as is known; the highest one there is
        /// when nothing is known.
        to: Lsn,
        /// What is wrong.
        what: String,
    },
    /// The log was written by a newer program.
    #[error("{path:?}: format version {found}, this program knows versions up to {known}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u32,
        /// The newest one that this program reads.
        known: u32,
    },
    /// A call to the disk failed and the log was not harmed by it.
    #[error("{path:?}: cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// The log was closed by another handle.
    #[error("the log is closed")]
    Closed,
}

impl WalError {
    /// Whether nothing was appended for want of room, and the log goes on once there is some:
    /// [`WalError::Full`] or [`WalError::NoSpace`].
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::NoSpace { .. })
    }
}

impl From<WalError> for Error {
    fn from(error: WalError) -> Self {
        let kind = match &error {
            WalError::Poisoned { .. }
            | WalError::Full { .. }
            | WalError::NoSpace { .. }
            | WalError::Io { .. }
            | WalError::Closed => ErrorKind::Retry,
            WalError::Locked { .. } | WalError::Settings { .. } => ErrorKind::Usage,
            WalError::Version { .. } => ErrorKind::Fatal,
            // Whoever asks has a position from a record that was acknowledged.
            WalError::Damage { .. } | WalError::OutOfRange { .. } => ErrorKind::Damage,
        };
        let message = error.to_string();
        match error {
            WalError::NoSpace { source, .. } | WalError::Io { source, .. } => {
                Self::new(kind, message).with_source(source)
            }
            _ => Self::new(kind, message),
        }
    }
}

/// The end of a range of positions, in words where it is not known.
pub(super) fn end_of_range(to: Lsn) -> String {
    match to {
        Lsn(u64::MAX) => "an unknown end".to_owned(),
        Lsn(to) => to.to_string(),
    }
}

/// Whether the disk is full, which is an ordinary answer to the making of a file.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_asks_for_the_right_reaction() {
        let disk_full = || io::Error::from(io::ErrorKind::StorageFull);
        let path = || PathBuf::from("/log");
        let kind = |error: WalError| Error::from(error).kind();
        assert_eq!(kind(WalError::Locked { dir: path() }), ErrorKind::Usage);
        assert_eq!(kind(WalError::Poisoned { durable: Lsn(1), cause: String::new() }), ErrorKind::Retry);
        assert_eq!(
            kind(WalError::Damage { path: path(), offset: 0, at: Lsn(0), to: Lsn(1), what: String::new() }),
            ErrorKind::Damage
        );
        assert_eq!(kind(WalError::Version { path: path(), found: 2, known: 1 }), ErrorKind::Fatal);
        let full = WalError::NoSpace { path: path(), bytes: 5, source: disk_full() };
        assert!(full.is_full());
        let error = Error::from(full);
        assert_eq!(error.kind(), ErrorKind::Retry);
        let cause = disk_full().to_string();
        assert!(error.to_string().ends_with(&cause), "the cause is told: {error}");
        assert_eq!(error.to_string().matches(&cause).count(), 1, "once: {error}");
    }
}
