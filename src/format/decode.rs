//! How a source turns bytes into batches, whatever the format.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::stream::Batch;
use crate::stream::Rejected;
use crate::stream::SplitId;

/// What records are read into, and how.
#[derive(Debug, Clone)]
pub struct DecodeOptions {
    /// The fields, of the types that [`super::parse_type`] gives.
    pub schema: SchemaRef,
    /// What happens to fields that the schema does not name.
    pub unknown: Unknown,
}

/// What happens to fields that the schema does not name (`unknown_field`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// They are passed over; in NDJSON their syntax is checked all the same.
    #[default]
    Ignore,
    /// A record that has one is rejected; a CSV file that has such a column is refused.
    Fail,
    /// They go into the column [`UNKNOWN_COLUMN`].
    Capture,
}

/// The last column of every batch under [`Unknown::Capture`], of the type `json`: an object of a
/// record's unknown fields, or null if it has none.
///
/// Names and values stand in it as they did in the record; fields of structs are called by their way,
/// `a.b` or `list[2].b`; a column of a CSV file is a string.
pub const UNKNOWN_COLUMN: &str = "_unknown";

/// Bytes of a record at most, and the highest limit one may set: offsets in a batch have 32 bits.
pub const RECORD_BYTES_LIMIT: u64 = 1 << 30;

/// A format of records that a source can read, with the schema they are read into.
pub trait InputFormat: Send + Sync + fmt::Debug {
    /// The schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// A decoder for `split`, whose first bytes are `head` (a header line lies in it entirely, or
    /// `head` is the whole split).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when the header does not fit the schema.
    fn decoder(&self, split: &SplitId, head: &[u8]) -> Result<Arc<dyn SplitDecoder>>;
}

/// Decodes one split. Values have no memory: the verdict on a record never depends on its neighbours.
pub trait SplitDecoder: Send + Sync + fmt::Debug {
    /// Position of the first record: behind a byte order mark and a header line.
    fn start(&self) -> u64;

    /// Length of the whole records at the start of `bytes`, which begins at a record: the offset
    /// behind the last record's end, 0 if none ends here.
    fn boundary(&self, bytes: &[u8]) -> usize;

    /// Offset behind the end of the first record in `bytes`; `None` if it does not end here.
    ///
    /// For records too long to hold: `bytes` may begin inside of a record, whose part before was passed
    /// to earlier calls. `scan` is 0 at a record's first byte, and after that what the last call left.
    /// As it stands, a record ends with its line.
    fn record_end(&self, scan: &mut u8, bytes: &[u8]) -> Option<usize> {
        let _ = scan;
        bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
    }

    /// Decodes `bytes`, which begins at position `base` of the split and holds whole records (the
    /// last one may lack its line end at the end of the input).
    ///
    /// Records that are not valid come back as [`Rejected`]; they are no error here. Batches hold at
    /// most 8,192 rows.
    ///
    /// # Errors
    ///
    /// Only faults of the program.
    fn decode(&self, base: u64, bytes: &[u8]) -> Result<Decoded>;
}

/// What became of the bytes.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The valid records, in order.
    pub batches: Vec<Batch>,
    /// The others, in order.
    pub rejected: Vec<Rejected>,
    /// Records seen, valid or not; blank lines are none.
    pub records: u64,
}
