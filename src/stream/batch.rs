//! Batches, and where each of their rows comes from.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::UInt64Array;

use crate::stream::Barrier;
use crate::stream::SplitId;

/// Records of one split, in the split's order: the unit that moves.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The rows.
    pub records: RecordBatch,
    /// The split that all of them come from.
    pub split: SplitId,
    /// The position of each row in its split: as many as rows, never falling, no nulls. For a file
    /// it is the offset of the line's first byte.
    pub positions: UInt64Array,
}

impl Batch {
    /// Positions of the first and last row; `None` for an empty batch.
    pub fn span(&self) -> Option<RangeInclusive<u64>> {
        let positions = self.positions.values();
        Some(*positions.first()?..=*positions.last()?)
    }

    /// Memory that the batch holds, in bytes, positions included.
    pub fn bytes(&self) -> usize {
        self.records.get_array_memory_size() + self.positions.len() * size_of::<u64>()
    }
}

/// What flows through a channel, never reordered.
#[derive(Debug, Clone)]
pub enum Element {
    /// Records.
    Batch(Batch),
    /// The end of an epoch.
    Barrier(Barrier),
}

/// A record that could not be taken: a dead letter, once it is landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The split it comes from.
    pub split: SplitId,
    /// Its position in the split.
    pub position: u64,
    /// Why, in words that name the field and the value.
    pub reason: String,
    /// The record's own bytes, at most 64 KiB of them.
    pub raw: Arc<[u8]>,
    /// Length of the whole record in bytes.
    pub raw_len: u64,
}

/// First and last position of the rows of one split in a part file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// Position of the first row.
    pub first: u64,
    /// Position of the last row.
    pub last: u64,
}

/// Where the rows of a part file come from: a span for each split.
pub type Spans = BTreeMap<SplitId, Span>;

/// A stateless step between source and sink (filter, select, rename), run where the batch is decoded.
pub type Stage = Arc<dyn Fn(Batch) -> crate::error::Result<Batch> + Send + Sync>;
