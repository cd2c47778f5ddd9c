//! Bytes of records: decoders for sources, encoders for part files, schemas.

mod decode;
mod gather;
pub mod parquet;
#[cfg(test)]
pub(crate) mod sample;
pub mod spill;

pub use decode::Decoded;
pub use decode::InputFormat;
pub use decode::SplitDecoder;
pub use gather::Gather;
