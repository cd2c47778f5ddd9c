//! Bytes of records: decoders for sources, encoders for part files, schemas.

mod decode;
pub mod parquet;
#[cfg(test)]
pub(crate) mod sample;

pub use decode::Decoded;
pub use decode::InputFormat;
pub use decode::SplitDecoder;
