//! What can be wrong with files that are read, in words that start the repair.

use std::io;
use std::path::PathBuf;

use crate::error::Error;
use crate::error::ErrorKind;

/// Something is wrong with the input files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The pattern cannot be understood.
    #[error("source path {pattern:?} is no valid pattern: {why}")]
    Pattern { pattern: String, why: String },
    /// A bounded input with nothing in it is most likely a mistyped path.
    #[error("source path {pattern:?} matches no file (looked below {below:?})")]
    NoMatch { pattern: String, below: PathBuf },
    /// Splits are known by their path as text.
    #[error("{path:?} has a name that is not UTF-8; give it another name")]
    NotUtf8 { path: PathBuf },
    /// Only regular files can be read again from a position.
    #[error("{path:?} is no regular file, and only regular files can be read again after a restart")]
    NotAFile { path: PathBuf },
    /// A folder or file may not be read.
    #[error("{path:?} may not be read: give this user the permission, or leave it out of the source path")]
    Denied { path: PathBuf, source: io::Error },
    /// A folder could not be listed, or an entry in it not be looked at.
    #[error("{path:?} cannot be listed")]
    List { path: PathBuf, source: io::Error },
    /// An I/O error is never an end of input.
    #[error("{path:?} cannot be read at position {position}")]
    Read { path: PathBuf, position: u64, source: io::Error },
    /// Compressed bytes that do not decompress.
    #[error(
        "{path:?} is damaged: its compressed data cannot be read behind position {position} of its content"
    )]
    Corrupt { path: PathBuf, position: u64, source: io::Error },
    /// A compressed file that ends too early is an incomplete copy, not an end of input.
    #[error(
        "{path:?} ends in the middle of its compressed data, behind position {position} of its content: \
         complete the copy, and start again"
    )]
    CutShort { path: PathBuf, position: u64 },
    /// An unfinished file is not there any more.
    #[error(
        "{path:?} is gone, and it was read only up to position {position}: put it back, there or under \
         another name that starts alike in the same folder, and start again"
    )]
    Vanished { path: PathBuf, position: u64 },
    /// Copy-truncate, or a rewrite.
    #[error(
        "{path:?} has {found} bytes, but was read up to position {position}: it was cut or written anew, and \
         rows that were not read yet may be lost; put the old content back to go on, and let new content \
         come in files of other names (rotate by renaming, not by copy and truncate)"
    )]
    Shrank { path: PathBuf, position: u64, found: u64 },
    /// Another file under a known name.
    #[error(
        "{path:?} is not the file that was read up to position {position}: its bytes before that position \
         are others; put the old file back to go on, and let new content come in files of other names"
    )]
    Replaced { path: PathBuf, position: u64 },
    /// More bytes behind a last line without an end that was taken for a record.
    #[error(
        "{path:?} has grown beyond position {position}, where its last line had no line end and was taken as \
         a record: what follows would be half a record; cut the file back to {position} bytes and put the \
         new lines into a new file (or set follow = true for a file that grows)"
    )]
    GrewBehindTail { path: PathBuf, position: u64 },
    /// The file changes under the reader.
    #[error("the source has failed before and must be opened again")]
    FailedBefore,
}

impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        let kind = match error {
            FileError::Pattern { .. } | FileError::NoMatch { .. } => ErrorKind::Usage,
            FileError::NotUtf8 { .. }
            | FileError::NotAFile { .. }
            | FileError::Denied { .. }
            | FileError::Corrupt { .. }
            | FileError::CutShort { .. } => ErrorKind::Fatal,
            FileError::List { .. } | FileError::Read { .. } | FileError::FailedBefore => ErrorKind::Retry,
            FileError::Vanished { .. }
            | FileError::Shrank { .. }
            | FileError::Replaced { .. }
            | FileError::GrewBehindTail { .. } => ErrorKind::Damage,
        };
        let message = error.to_string();
        match error {
            FileError::Denied { source, .. }
            | FileError::List { source, .. }
            | FileError::Read { source, .. }
            | FileError::Corrupt { source, .. } => Self::new(kind, message).with_source(source),
            _ => Self::new(kind, message),
        }
    }
}

impl FileError {
    /// What `source` means for reading `path` at `position`.
    pub(crate) fn reading(path: PathBuf, position: u64, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            io::ErrorKind::NotFound => Self::Vanished { path, position },
            _ => Self::Read { path, position, source },
        }
    }

    /// What `source` means for listing or looking at `path`.
    pub(crate) fn listing(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            _ => Self::List { path, source },
        }
    }
}
