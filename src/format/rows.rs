//! Rows of one split on their way to batches, and the records that are none.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::UInt64Array;
use arrow::datatypes::Field;
use arrow::datatypes::Fields;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::error::Result;
use crate::format::column::Bytes;
use crate::format::column::Column;
use crate::format::column::Record;
use crate::format::decode::DecodeOptions;
use crate::format::decode::Decoded;
use crate::format::decode::UNKNOWN_COLUMN;
use crate::format::decode::Unknown;
use crate::format::fault::rejected;
use crate::format::schema::SchemaError;
use crate::format::schema::check_schema;
use crate::stream::Batch;
use crate::stream::SplitId;

/// Rows of a batch at most.
pub(super) const BATCH_ROWS_MAX: usize = 8192;

/// A batch is closed once its records have this many bytes: together with
/// [`super::RECORD_BYTES_LIMIT`] it keeps every 32-bit offset in range.
const BATCH_BYTES_MAX: u64 = 64 << 20;

/// What records are read into: the schema, and the column of unknown fields if they are captured.
#[derive(Debug)]
pub(super) struct Target {
    /// Of every batch.
    pub(super) schema: SchemaRef,
    /// Without the column of unknown fields.
    fields: Fields,
    pub(super) unknown: Unknown,
}

impl Target {
    pub(super) fn new(options: &DecodeOptions) -> Result<Self> {
        check_schema(&options.schema)?;
        let fields = options.schema.fields().clone();
        let schema = match options.unknown {
            Unknown::Ignore | Unknown::Fail => options.schema.clone(),
            Unknown::Capture => {
                if options.schema.column_with_name(UNKNOWN_COLUMN).is_some() {
                    return Err(SchemaError::Twice { field: UNKNOWN_COLUMN.into() }.into());
                }
                let captured = Field::new(UNKNOWN_COLUMN, arrow::datatypes::DataType::LargeUtf8, true);
                let all = fields.iter().cloned().chain([Arc::new(captured)]).collect::<Fields>();
                Arc::new(Schema::new_with_metadata(all, options.schema.metadata().clone()))
            }
        };
        Ok(Self { schema, fields, unknown: options.unknown })
    }

    /// Names and indexes of the fields that records are read into.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&str, usize)> {
        self.fields.iter().enumerate().map(|(index, field)| (field.name().as_str(), index))
    }

    /// Nothing yet.
    pub(super) fn rows<'a>(&'a self, split: &'a SplitId) -> Result<Rows<'a>> {
        let record =
            Record::new(&self.fields).ok_or_else(|| Error::fatal("a type of the schema has no column"))?;
        Ok(Rows {
            target: self,
            split,
            record,
            captured: (self.unknown == Unknown::Capture).then(Bytes::default),
            positions: Vec::new(),
            bytes: 0,
            decoded: Decoded::default(),
        })
    }
}

/// The rows of one call of a decoder.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    target: &'a Target,
    split: &'a SplitId,
    /// The columns. Between records each has as many values as there are positions.
    pub(super) record: Record,
    captured: Option<Bytes<i64>>,
    positions: Vec<u64>,
    /// Bytes of the records of the rows.
    bytes: u64,
    decoded: Decoded,
}

impl Rows<'_> {
    /// Keeps the row whose values were appended, of a record of `len` bytes at `position`; `captured` is
    /// the text of its unknown fields, or empty.
    #[inline]
    pub(super) fn keep(&mut self, position: u64, len: u64, captured: &str) -> Result<()> {
        if let Some(column) = &mut self.captured {
            match captured {
                "" => column.push_null(),
                // 64-bit offsets do not run out.
                text => _ = column.push(text.as_bytes()),
            }
        }
        self.positions.push(position);
        self.decoded.records += 1;
        self.bytes += len;
        if self.positions.len() >= BATCH_ROWS_MAX || self.bytes >= BATCH_BYTES_MAX {
            self.close_batch()?;
        }
        Ok(())
    }

    /// Takes back what was appended of the record `raw` at `position`, and keeps it as a dead letter.
    #[cold]
    pub(super) fn reject(&mut self, position: u64, reason: String, raw: &[u8]) {
        self.record.truncate(self.positions.len());
        self.decoded.records += 1;
        self.decoded.rejected.push(rejected(self.split, position, reason, raw));
    }

    fn close_batch(&mut self) -> Result<()> {
        if self.positions.is_empty() {
            return Ok(());
        }
        let fault = |error| Error::fatal("decoded columns do not make a batch").with_source(error);
        let mut columns = self.record.finish().map_err(fault)?;
        if let Some(captured) = self.captured.take() {
            columns.push(Column::Json(captured).finish().map_err(fault)?);
            self.captured = Some(Bytes::default());
        }
        let records = RecordBatch::try_new(self.target.schema.clone(), columns).map_err(fault)?;
        let positions = UInt64Array::from(std::mem::take(&mut self.positions));
        self.decoded.batches.push(Batch { records, split: self.split.clone(), positions });
        self.bytes = 0;
        Ok(())
    }

    /// What became of the records.
    pub(super) fn finish(mut self) -> Result<Decoded> {
        self.close_batch()?;
        Ok(self.decoded)
    }
}

/// Calls `run` with each stretch of whole records of `bytes` that is UTF-8, and its offset, and
/// `refuse` with the records that are not; `record_end` gives the end of the record at an offset.
///
/// Nearly always that is one stretch, checked at one go.
pub(super) fn each_text<C>(
    context: &mut C,
    bytes: &[u8],
    record_end: impl Fn(&[u8], usize) -> usize,
    mut run: impl FnMut(&mut C, usize, &str) -> Result<()>,
    mut refuse: impl FnMut(&mut C, usize, &[u8], String),
) -> Result<()> {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return run(context, 0, text);
    }
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        // The end is behind `at` whatever the function says, so that this ends.
        let end = record_end(bytes, at).clamp(at + 1, bytes.len());
        let record = bytes.get(at..end).unwrap_or_default();
        if let Err(error) = std::str::from_utf8(record) {
            run_stretch(context, bytes, start..at, &mut run)?;
            let offset = error.valid_up_to();
            let byte = record.get(offset).copied().unwrap_or_default();
            refuse(
                context,
                at,
                record,
                format!("not valid UTF-8: byte 0x{byte:02x} at offset {offset} of the record"),
            );
            start = end;
        }
        at = end;
    }
    run_stretch(context, bytes, start..at, &mut run)
}

fn run_stretch<C>(
    context: &mut C,
    bytes: &[u8],
    range: std::ops::Range<usize>,
    run: &mut impl FnMut(&mut C, usize, &str) -> Result<()>,
) -> Result<()> {
    match bytes.get(range.clone()).map(std::str::from_utf8) {
        Some(Ok(text)) if !text.is_empty() => run(context, range.start, text),
        _ => Ok(()),
    }
}
