//! What a user can set about files as a source.

use std::path::PathBuf;
use std::time::Duration;

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
}
