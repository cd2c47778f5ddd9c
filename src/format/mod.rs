//! Bytes of records: decoders for sources, encoders for part files, schemas.
//!
//! A source reads with an [`InputFormat`] ([`Ndjson`], [`Csv`]), strictly: what is not exactly a record
//! of the schema comes back as a rejected record with its place and the reason, never as a guess.

mod schema;

mod decode;
mod fault;
mod gather;
pub mod parquet;
#[cfg(test)]
pub(crate) mod sample;
pub mod spill;

mod column;
mod json;
mod reader;
mod rows;
mod value;

mod csv;
mod ndjson;

mod infer;

mod dead_letter;
mod encode;

#[cfg(test)]
mod tests;

pub use csv::Csv;
pub use dead_letter::dead_letter_schema;
pub use dead_letter::dead_letters;
pub use decode::DecodeOptions;
pub use decode::Decoded;
pub use decode::InputFormat;
pub use decode::RECORD_BYTES_LIMIT;
pub use decode::SplitDecoder;
pub use decode::UNKNOWN_COLUMN;
pub use decode::Unknown;
pub use encode::LineCompression;
pub use encode::LineEncoder;
pub use encode::LineFormat;
pub use fault::QUOTED_CHARS_MAX;
pub use fault::RAW_BYTES_MAX;
pub use fault::rejected;
pub use gather::Gather;
pub use infer::InferError;
pub use infer::Inference;
pub use infer::SAMPLE_RECORDS;
pub use ndjson::Ndjson;
pub use schema::SchemaError;
pub use schema::TYPE_DEPTH_MAX;
pub use schema::TypeError;
pub use schema::check_schema;
pub use schema::parse_schema;
pub use schema::parse_type;
pub use schema::schema_text;
pub use schema::type_text;
