//! The one error that leaves the crate, sorted by what the caller should do about it.
//!
//! Rooms have precise errors of their own and convert them at their front door; this file knows no
//! room.

use std::fmt;
use std::io;

/// What went wrong, in words that start the repair, and what the caller should do about it.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The caller's reaction to an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call or the configuration is wrong; nothing was changed. Exit code 2.
    Usage,
    /// The attempt failed in a way that another attempt, from the last completed checkpoint, may
    /// mend: the restart strategy decides. Exit code 1 once the strategy gives up.
    Retry,
    /// Another attempt would fail in the same way (bad credentials, a bad record under
    /// `bad_record = "fail"`): stop the job, nothing is lost. Exit code 1.
    Fatal,
    /// Acknowledged data is damaged or missing, and a person has to decide. Exit code 3.
    Damage,
    /// A successor owns the job; this process is a zombie and stops. Exit code 4.
    Fenced,
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error that asks for the reaction `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// [`ErrorKind::Usage`] with `message`.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// [`ErrorKind::Retry`] with `message`.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Retry, message)
    }

    /// [`ErrorKind::Fatal`] with `message`.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fatal, message)
    }

    /// [`ErrorKind::Damage`] with `message`.
    pub fn damage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Damage, message)
    }

    /// Keeps `source` as the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts `what: ` in front of the message; the reaction stays.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// [`ErrorKind::Fatal`] instead of [`ErrorKind::Retry`] where the cause is that something may not be done
    /// (no permission, a read-only file system): the next attempt would be told the same.
    #[must_use]
    pub(crate) fn fatal_if_forbidden(mut self) -> Self {
        let mut cause = std::error::Error::source(&self);
        let mut forbidden = false;
        while let Some(error) = cause {
            forbidden |= error.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
            });
            cause = error.source();
        }
        if forbidden && self.kind == ErrorKind::Retry {
            self.kind = ErrorKind::Fatal;
        }
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_stays_forbidden() {
        let kind = |error: io::Error| {
            let inner = Error::retry("part file cannot be opened").with_source(error);
            Error::retry("the barrier failed").with_source(inner).fatal_if_forbidden().kind()
        };
        // EPERM, EACCES, EROFS; then EIO and ENOSPC, which may pass.
        for code in [1, 13, 30] {
            assert_eq!(kind(io::Error::from_raw_os_error(code)), ErrorKind::Fatal, "{code}");
        }
        for code in [5, 28] {
            assert_eq!(kind(io::Error::from_raw_os_error(code)), ErrorKind::Retry, "{code}");
        }
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(Error::damage("x").with_source(denied()).fatal_if_forbidden().kind(), ErrorKind::Damage);
    }
}
