//! What the formats promise.

mod bad_records;
mod csv;
mod dead_letter;
mod encode;
mod infer;
mod ndjson;
mod peers;
mod schema;
mod value;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;

use crate::format::Csv;
use crate::format::DecodeOptions;
use crate::format::Decoded;
use crate::format::InputFormat;
use crate::format::Ndjson;
use crate::format::SplitDecoder;
use crate::format::Unknown;
use crate::format::parse_schema;
use crate::stream::SplitId;

fn schema(fields: &[(&str, &str)]) -> SchemaRef {
    parse_schema(fields.iter().copied()).unwrap()
}

fn options(fields: &[(&str, &str)], unknown: Unknown) -> DecodeOptions {
    DecodeOptions { schema: schema(fields), unknown }
}

fn ndjson(fields: &[(&str, &str)], unknown: Unknown) -> Arc<dyn SplitDecoder> {
    Ndjson::new(&options(fields, unknown)).unwrap().decoder(&SplitId::new("in.ndjson"), b"").unwrap()
}

/// Decodes `lines` at position 0.
fn read_lines(fields: &[(&str, &str)], lines: impl AsRef<[u8]>) -> Decoded {
    ndjson(fields, Unknown::Ignore).decode(0, lines.as_ref()).unwrap()
}

/// Decodes a CSV file with its header.
fn read_csv(fields: &[(&str, &str)], unknown: Unknown, file: impl AsRef<[u8]>) -> crate::Result<Decoded> {
    let file = file.as_ref();
    let decoder = Csv::new(&options(fields, unknown))?.decoder(&SplitId::new("in.csv"), file)?;
    let start = decoder.start();
    decoder.decode(start, &file[usize::try_from(start).unwrap()..])
}

/// All rows in one batch.
fn rows(decoded: &Decoded) -> RecordBatch {
    let schema = decoded.batches.first().expect("some rows").records.schema();
    concat_batches(&schema, decoded.batches.iter().map(|batch| &batch.records)).unwrap()
}

fn row_count(decoded: &Decoded) -> u64 {
    decoded.batches.iter().map(|batch| batch.records.num_rows() as u64).sum()
}

fn positions(decoded: &Decoded) -> Vec<u64> {
    decoded.batches.iter().flat_map(|batch| batch.positions.values().to_vec()).collect()
}

/// The one reason for which something was rejected.
fn only_reason(decoded: &Decoded) -> &str {
    assert_eq!(decoded.rejected.len(), 1, "{decoded:?}");
    &decoded.rejected[0].reason
}
