//! Rejected records as rows of a table (D12).
//!
//! ```text
//!  split          string   where it came from: a file's path
//!  position       uint64   its place there: the offset of its first byte
//!  reason         string   what is wrong with it
//!  raw            string   the record itself, cut at 64 KiB
//!  raw_encoding   string   "utf8", or "base64" if `raw` is not UTF-8
//!  raw_bytes      uint64   length of the whole record
//! ```

use std::sync::Arc;
use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::array::StringBuilder;
use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;
use crate::error::Result;
use crate::stream::Rejected;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, found: DataType| Field::new(name, found, true);
    Arc::new(Schema::new(vec![
        field("split", DataType::Utf8),
        field("position", DataType::UInt64),
        field("reason", DataType::Utf8),
        field("raw", DataType::Utf8),
        field("raw_encoding", DataType::Utf8),
        field("raw_bytes", DataType::UInt64),
    ]))
});

/// The schema of dead letters.
pub fn dead_letter_schema() -> SchemaRef {
    SCHEMA.clone()
}

/// Makes a row of each of `rejected`, in their order, at most some thousands at a time.
///
/// # Errors
///
/// [`crate::ErrorKind::Fatal`] when their texts together have more than 2 GiB.
pub fn dead_letters(rejected: &[Rejected]) -> Result<RecordBatch> {
    let bytes: usize = rejected.iter().map(|one| one.raw.len() / 3 * 4 + 4).sum();
    if i32::try_from(bytes).is_err() {
        return Err(Error::fatal(format!("{} dead letters are too many for one batch", rejected.len())));
    }
    let mut raws = StringBuilder::with_capacity(rejected.len(), bytes);
    let mut encodings = StringBuilder::with_capacity(rejected.len(), rejected.len() * 6);
    for one in rejected {
        match std::str::from_utf8(&one.raw) {
            Ok(text) => {
                raws.append_value(text);
                encodings.append_value("utf8");
            }
            Err(_) => {
                raws.append_value(STANDARD.encode(&one.raw));
                encodings.append_value("base64");
            }
        }
    }
    let columns = vec![
        Arc::new(StringArray::from_iter_values(rejected.iter().map(|one| one.split.as_str()))) as _,
        Arc::new(UInt64Array::from_iter_values(rejected.iter().map(|one| one.position))) as _,
        Arc::new(StringArray::from_iter_values(rejected.iter().map(|one| one.reason.as_str()))) as _,
        Arc::new(raws.finish()) as _,
        Arc::new(encodings.finish()) as _,
        Arc::new(UInt64Array::from_iter_values(rejected.iter().map(|one| one.raw_len))) as _,
    ];
    RecordBatch::try_new(dead_letter_schema(), columns)
        .map_err(|error| Error::fatal("dead letters do not make a batch").with_source(error))
}
