//! Rows that wait for their row group, as compact bytes.
//!
//! Owns the bytes only. Does not own when rows are spilled, nor the log that they go to: it has a
//! checksum, these bytes have none.
//!
//! Rows are spilled once and read once or never, at the speed of the landing itself, so what counts is
//! the processor's time. Measured on five million clicks, LZ4 over everything costs three times what
//! this form costs, and saves nothing more: most of its time goes to random ids and to numbers, which
//! hardly shrink. So a block is compressed only if a sample of it shrinks to half, and offsets, a
//! sixth of the bytes in memory, are kept as lengths in as few bytes as the longest needs.
//!
//! # Bytes, version 1
//!
//! Nothing is said that the schema says. Integers are little-endian, `varint` is unsigned LEB128.
//!
//! ```text
//!  batch    | version u8 = 1 | rows varint | a column for each field |
//!  column   | nothing if it has no rows or is of the null type
//!           | 0, or 1 and a block: a bit a row, set where there is a value | then by type:
//!    fixed    | block: the values
//!    boolean  | block: a bit a row
//!    text     | lengths | block: the values' bytes, end to end
//!    list     | lengths | the items of all rows as a column
//!    struct   | a column for each field
//!  lengths  | 0 and a varint: the length of every row | 1, 2 or 4 and a block: that many bytes a row
//!  block    | 0 and its bytes | 1, length u32, and that many bytes of LZ4 (block format, no header)
//! ```
//!
//! # Invariants
//!
//! - **S1** Whatever the bytes, decoding gives a batch of the schema or an error; it never takes more
//!   than [`BATCH_BYTES_MAX`] of memory for it.
//! - **S2** A slice is encoded as if it were all there is: nothing outside it costs a byte.

mod block;
mod decode;
mod encode;
mod shape;

pub use decode::decode;
pub use encode::encode;
pub use encode::encode_into;

/// Most bytes that the rows of one encoded batch have in memory; more are for several batches.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests;
