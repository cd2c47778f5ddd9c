//! The end of a log after a failure: the first one is kept, and everybody gets it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use crate::stream::Lsn;

use super::WalError;

/// Whether a log may still be written, and how far it is durable.
#[derive(Debug)]
pub(super) struct Health {
    cause: OnceLock<String>,
    closed: AtomicBool,
    durable: AtomicU64,
}

impl Health {
    pub(super) fn new(durable: Lsn) -> Self {
        Self { cause: OnceLock::new(), closed: AtomicBool::new(false), durable: AtomicU64::new(durable.0) }
    }

    /// Fails when the log was stopped or closed.
    pub(super) fn check(&self) -> Result<(), WalError> {
        match self.cause.get() {
            Some(cause) => Err(WalError::Poisoned { durable: self.durable(), cause: cause.clone() }),
            None if self.closed.load(Ordering::Acquire) => Err(WalError::Closed),
            None => Ok(()),
        }
    }

    /// Ends the log because of `failure` (S4); the answer is what everybody gets from now on.
    pub(super) fn stop(&self, failure: &WalError) -> WalError {
        let text = || {
            let mut text = failure.to_string();
            let mut source = std::error::Error::source(failure);
            while let Some(cause) = source {
                text.push_str(": ");
                text.push_str(&cause.to_string());
                source = cause.source();
            }
            text
        };
        let cause = match failure {
            WalError::Poisoned { cause, .. } => self.cause.get_or_init(|| cause.clone()),
            _ => self.cause.get_or_init(text),
        };
        WalError::Poisoned { durable: self.durable(), cause: cause.clone() }
    }

    /// Ends the log in peace.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Everything below is durable.
    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Everything below `lsn` is durable now.
    pub(super) fn acknowledge(&self, lsn: Lsn) {
        self.durable.fetch_max(lsn.0, Ordering::AcqRel);
    }
}

/// Takes a lock; a panic of another holder does not matter, since each of the log's locks guards values
/// that are consistent between calls, and a panic inside of a write leaves an end that was not published.
pub(super) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
