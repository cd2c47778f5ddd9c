//! The bytes every durable value is made of: a small, bounds-checked binary form.
//!
//! Owns the primitive layout only; each format is drawn in the file that encodes it. Integers are
//! little-endian; `varint` is unsigned LEB128 of at most ten bytes; `bytes` is a varint length and
//! that many bytes. Frames, checksums and places belong to the log (`wal`).

mod bytes;

pub use bytes::DecodeError;
pub use bytes::Decoder;
pub use bytes::Encoder;
