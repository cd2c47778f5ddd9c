//! Parquet files that outlive checkpoints, restarts and crashes.
//!
//! Owns the bytes of a part file and what has to be remembered to finish it. Does not own when a
//! row group is full, where the bytes go or which checkpoint remembers them: that is the sink's.
//!
//! A Parquet file ends with a footer that lists all row groups, and a usual writer keeps that list
//! in memory from the first byte to the last. Here each row group is written by an encoder of its
//! own, which knows nothing but its place in the file:
//!
//! ```text
//!   0      4                a                b                      c
//!   | PAR1 | row group 0    | row group 1    | indexes, footer      |
//!     head   RowGroupEncoder  RowGroupEncoder  footer
//! ```
//!
//! The encoder gives the bytes to append at its place, and a *meta*: about a kilobyte that is kept
//! with the checkpoint. When the file is to be finished, [`footer()`] merges the metas. In between the
//! file has no footer and needs no descriptor, no writer and no memory; what was appended behind
//! the last remembered row group is cut off after a crash.
//!
//! Types come back as they were in readers of Arrow, by a copy of the schema in the footer. Parquet
//! has no word for timestamps in seconds: other readers see them as integers.
//!
//! # Invariants
//!
//! - **R1** The finished file has the bytes that one writer would have written in one go.
//! - **R2** Row groups lie one behind the other without a gap, from the head to the footer; metas
//!   that say otherwise are refused.
//! - **R3** A file is continued only under the [`fingerprint`] that it was begun with.

mod footer;
mod place;
mod row_group;
mod settings;

pub use footer::footer;
pub use footer::head;
pub use row_group::ColumnEncoder;
pub use row_group::EncodedColumn;
pub use row_group::EncodedRowGroup;
pub use row_group::RowGroupEncoder;
pub use row_group::RowGroupPlace;
pub use row_group::SLICE_ROWS;
pub use row_group::assemble;
pub use row_group::columns;
pub use settings::Codec;
pub use settings::ParquetSettings;
pub use settings::fingerprint;

#[cfg(test)]
mod tests;
