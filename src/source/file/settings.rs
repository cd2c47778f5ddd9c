//! What a user can set about files as a source.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::error::Result;
use crate::format::RECORD_BYTES_LIMIT;

/// 16 MB: a hundred times the longest sensible record, and still small beside the memory budget.
pub const RECORD_LIMIT: usize = 16_000_000;
/// 200 ms: a new line is seen before a person wonders, and an idle job costs next to nothing.
pub const POLL: Duration = Duration::from_millis(200);
/// 1 MiB: large enough that a read and the start of a job are noise beside decoding it (some
/// milliseconds), small enough that two cores share a file of a few megabytes.
pub const CHUNK_BYTES: usize = 1 << 20;
/// 32 MiB of raw bytes read and not yet handed on; decoded they take one to three times as much.
pub const READ_AHEAD_BYTES: usize = 32 << 20;

/// Which files to read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The folder that a relative [`Self::path`] starts from: the pipeline file's (D6).
    pub base: PathBuf,
    /// A path or a pattern: `*` and `?` within a name, `[...]`, `{a,b}`, `**` over folders. Names that
    /// start with a dot match only a pattern that spells the dot.
    pub path: String,
    /// Wait for new lines and new files instead of ending.
    pub follow: bool,
    /// Bytes of the longest record, line end not counted; a longer one is rejected.
    pub record_limit: usize,
    /// How long to wait between two looks for new lines and files.
    pub poll: Duration,
    /// Bytes of one read.
    pub chunk_bytes: usize,
    /// Raw bytes that may be read ahead of what was handed on. One chunk is always read.
    pub read_ahead_bytes: usize,
}

impl FileSettings {
    /// Reads what `path` matches below `base` to its end.
    pub fn new(base: impl Into<PathBuf>, path: impl Into<String>) -> Self {
        Self {
            base: base.into(),
            path: path.into(),
            follow: false,
            record_limit: RECORD_LIMIT,
            poll: POLL,
            chunk_bytes: CHUNK_BYTES,
            read_ahead_bytes: READ_AHEAD_BYTES,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] for a limit of 0, and for a record limit that a batch cannot hold.
    pub fn validate(&self) -> Result<()> {
        if self.record_limit == 0 || self.record_limit as u64 > RECORD_BYTES_LIMIT {
            return Err(Error::usage(format!(
                "record_limit is {} bytes, it must be from 1 to {RECORD_BYTES_LIMIT}",
                self.record_limit
            )));
        }
        if self.chunk_bytes == 0 {
            return Err(Error::usage("chunk_bytes is 0, a read needs at least one byte"));
        }
        Ok(())
    }
}
