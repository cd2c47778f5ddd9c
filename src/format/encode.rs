//! Row formats for part files: every prefix that ends behind an [`LineEncoder::encode`] is a whole file.
//!
//! Owns the texts. What they say is what `ndjson` and `csv` read back to the same values.
//!
//! # Rules
//!
//! - **L1** NDJSON: one object a line, all fields in the schema's order, null ones as `null`, so that a reader
//!   that guesses a schema sees every column in the first line.
//! - **L2** CSV: a header, `\n`, quotes where RFC 4180 needs them. Null is an empty cell, an empty string is
//!   `""`. Lists and structs are JSON texts. In a file of one column a null is an empty line.
//! - **L3** Timestamps are RFC 3339 in UTC with the digits of their unit (years of other than four
//!   digits: the number since 1970), dates `2026-01-31`, decimals numbers with all their places, binary base64,
//!   floats the shortest digits that read back the same (`NaN`, `Infinity` and `-Infinity` by these words), `json`
//!   as it stands (as a string if it is none).

use std::fmt;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::AsArray;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::datatypes::Date32Type;
use arrow::datatypes::Decimal128Type;
use arrow::datatypes::Fields;
use arrow::datatypes::Float32Type;
use arrow::datatypes::Float64Type;
use arrow::datatypes::Int8Type;
use arrow::datatypes::Int16Type;
use arrow::datatypes::Int32Type;
use arrow::datatypes::Int64Type;
use arrow::datatypes::SchemaRef;
use arrow::datatypes::TimeUnit;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::datatypes::TimestampMillisecondType;
use arrow::datatypes::TimestampNanosecondType;
use arrow::datatypes::TimestampSecondType;
use arrow::datatypes::UInt8Type;
use arrow::datatypes::UInt16Type;
use arrow::datatypes::UInt32Type;
use arrow::datatypes::UInt64Type;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;
use crate::error::Result;
use crate::format::column::Column;
use crate::format::json::Cursor;
use crate::format::json::plain_end;
use crate::format::schema::SchemaError;
use crate::format::value;

/// Turns rows into lines that may be appended to a file at any time.
pub trait LineEncoder: Send + Sync + fmt::Debug {
    /// What stands at the start of each file; empty if nothing.
    fn header(&self) -> Vec<u8>;

    /// Appends the rows of `batch` to `out`, whole lines only.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when the batch has another schema; `out` is as it was.
    fn encode(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
}

/// A row format of part files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineFormat {
    /// One JSON object a line.
    Ndjson,
    /// A header, and one line a row.
    Csv,
}

impl LineFormat {
    /// The encoder for rows of `schema`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when a column has a type that no text stands for.
    pub fn encoder(self, schema: SchemaRef) -> Result<Arc<dyn LineEncoder>> {
        if schema.fields().is_empty() {
            return Err(SchemaError::Empty.into());
        }
        if let Some(field) = schema.fields().iter().find(|field| Column::new(field.data_type()).is_none()) {
            let found = field.data_type().to_string();
            return Err(SchemaError::Unsupported { field: field.name().clone(), found }.into());
        }
        Ok(Arc::new(TextEncoder { format: self, schema }))
    }

    /// What the names of its files end with.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }
}

/// How lines are compressed: each append is a frame of its own, so that a file is whole after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LineCompression {
    /// Not at all.
    #[default]
    None,
    /// Members of RFC 1952, which every gzip reads as one file.
    Gzip,
    /// Zstandard frames with checksums, which every zstd reads as one file.
    Zstd,
}

/// gzip's own default: a fair trade of size for time.
const GZIP_LEVEL: u32 = 6;

/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

impl LineCompression {
    /// Appends `lines` to `out` as one frame; nothing for no lines.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when the compressor fails.
    pub fn frame(self, lines: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let frame = match self {
            Self::None => {
                out.extend_from_slice(lines);
                return Ok(());
            }
            Self::Gzip => gzip(lines),
            Self::Zstd => zstandard(lines),
        };
        out.extend(frame.map_err(|error| Error::fatal("cannot compress lines").with_source(error))?);
        Ok(())
    }

    /// What the names of its files end with, behind the format's extension.
    pub fn extension(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gz"),
            Self::Zstd => Some("zst"),
        }
    }
}

fn gzip(lines: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
    encoder.write_all(lines)?;
    encoder.finish()
}

fn zstandard(lines: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(lines.len() as u64))?;
    encoder.write_all(lines)?;
    encoder.finish()
}

#[derive(Debug)]
struct TextEncoder {
    format: LineFormat,
    schema: SchemaRef,
}

impl LineEncoder for TextEncoder {
    fn header(&self) -> Vec<u8> {
        if self.format == LineFormat::Ndjson {
            return Vec::new();
        }
        let mut line = String::new();
        for (i, field) in self.schema.fields().iter().enumerate() {
            if i > 0 {
                line.push(',');
            }
            let name = field.name();
            // A reader drops blanks around names, and a byte order mark at the start.
            match name.trim() != name || name.starts_with('\u{feff}') {
                true => quoted_cell(name, &mut line),
                false => cell(name, &mut line),
            }
        }
        line.push('\n');
        line.into_bytes()
    }

    fn encode(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let same = |(ours, theirs): (&Arc<arrow::datatypes::Field>, &Arc<arrow::datatypes::Field>)| {
            ours.name() == theirs.name() && ours.data_type() == theirs.data_type()
        };
        let batch_schema = batch.schema();
        if self.schema.fields().len() != batch.num_columns()
            || !self.schema.fields().iter().zip(batch_schema.fields()).all(same)
        {
            return Err(Error::fatal("a batch of another schema came to the encoder of a part file"));
        }
        let columns = named(self.schema.fields(), batch.columns())
            .ok_or_else(|| Error::fatal("a column of the batch has no text"))?;
        let mut text = String::new();
        let mut scratch = String::new();
        for row in 0..batch.num_rows() {
            match self.format {
                LineFormat::Ndjson => object(&columns, row, &mut text),
                LineFormat::Csv => {
                    for (i, (_, column)) in columns.iter().enumerate() {
                        if i > 0 {
                            text.push(',');
                        }
                        column.write_cell(row, &mut scratch, &mut text);
                    }
                }
            }
            text.push('\n');
        }
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A column whose values can be written.
struct Texts<'a> {
    array: &'a ArrayRef,
    values: Values<'a>,
}

/// Writes the value of a row and gives a word on it.
type Write<'a, T> = Box<dyn Fn(usize, &mut String) -> T + 'a>;

/// How to write the value of a row that is not null.
enum Values<'a> {
    /// Text with nothing to escape or quote; true if it is a word, which JSON has in quotes.
    Scalar(Write<'a, bool>),
    /// Any text.
    Text(Box<dyn Fn(usize) -> &'a str + 'a>),
    /// A JSON text.
    Json(Write<'a, ()>),
}

/// Columns with their names as JSON strings.
type Named<'a> = Vec<(String, Texts<'a>)>;

fn named<'a>(fields: &Fields, columns: &'a [ArrayRef]) -> Option<Named<'a>> {
    let both = fields.iter().zip(columns);
    both.map(|(field, column)| Some((json_text(field.name()), Texts::new(column)?))).collect()
}

impl<'a> Texts<'a> {
    /// `None` for a type that no text stands for.
    fn new(array: &'a ArrayRef) -> Option<Self> {
        macro_rules! numbers {
            ($type:ty) => {{
                let values = array.as_primitive_opt::<$type>()?.values();
                Values::Scalar(Box::new(|row, out| {
                    // A row of the array, so it is there.
                    _ = write!(out, "{}", values.get(row).copied().unwrap_or_default());
                    false
                }))
            }};
        }
        macro_rules! times {
            ($type:ty, $unit:expr) => {{
                let (values, unit) = (array.as_primitive_opt::<$type>()?.values(), $unit);
                Values::Scalar(Box::new(move |row, out| {
                    let ticks = values.get(row).copied().unwrap_or_default();
                    let written = value::write_timestamp(ticks, unit, out);
                    if !written {
                        _ = write!(out, "{ticks}");
                    }
                    written
                }))
            }};
        }
        macro_rules! floats {
            ($type:ty) => {{
                let values = array.as_primitive_opt::<$type>()?.values();
                Values::Scalar(Box::new(|row, out| {
                    let value = values.get(row).copied().unwrap_or_default();
                    match value.is_finite() {
                        true => _ = write!(out, "{value:?}"),
                        false => out.push_str(value::float_name(f64::from(value))),
                    }
                    !value.is_finite()
                }))
            }};
        }
        let values = match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean_opt()?;
                Values::Scalar(Box::new(|row, out| {
                    out.push_str(if values.value(row) { "true" } else { "false" });
                    false
                }))
            }
            DataType::Int8 => numbers!(Int8Type),
            DataType::Int16 => numbers!(Int16Type),
            DataType::Int32 => numbers!(Int32Type),
            DataType::Int64 => numbers!(Int64Type),
            DataType::UInt8 => numbers!(UInt8Type),
            DataType::UInt16 => numbers!(UInt16Type),
            DataType::UInt32 => numbers!(UInt32Type),
            DataType::UInt64 => numbers!(UInt64Type),
            DataType::Float32 => floats!(Float32Type),
            DataType::Float64 => floats!(Float64Type),
            DataType::Decimal128(_, scale) => {
                let (values, scale) = (array.as_primitive_opt::<Decimal128Type>()?, *scale);
                Values::Scalar(Box::new(move |row, out| {
                    value::write_decimal(values.value(row), scale, out);
                    false
                }))
            }
            DataType::Date32 => {
                let values = array.as_primitive_opt::<Date32Type>()?;
                Values::Scalar(Box::new(|row, out| {
                    value::write_date(values.value(row), out);
                    true
                }))
            }
            DataType::Timestamp(TimeUnit::Second, _) => times!(TimestampSecondType, TimeUnit::Second),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                times!(TimestampMillisecondType, TimeUnit::Millisecond)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                times!(TimestampMicrosecondType, TimeUnit::Microsecond)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                times!(TimestampNanosecondType, TimeUnit::Nanosecond)
            }
            DataType::Binary => {
                let values = array.as_binary_opt::<i32>()?;
                Values::Scalar(Box::new(|row, out| {
                    STANDARD.encode_string(values.value(row), out);
                    true
                }))
            }
            DataType::Utf8 => {
                let values = array.as_string_opt::<i32>()?;
                Values::Text(Box::new(|row| values.value(row)))
            }
            DataType::LargeUtf8 => {
                let values = array.as_string_opt::<i64>()?;
                Values::Json(Box::new(|row, out| match values.value(row) {
                    text if is_json(text) => out.push_str(text),
                    text => json_string(text, out),
                }))
            }
            DataType::List(_) => {
                let lists = array.as_list_opt::<i32>()?;
                let items = Texts::new(lists.values())?;
                Values::Json(Box::new(move |row, out| {
                    let range = match lists.value_offsets().get(row..row + 2) {
                        // Offsets are never negative.
                        Some([start, end]) => *start as usize..*end as usize,
                        _ => 0..0,
                    };
                    out.push('[');
                    for item in range.clone() {
                        if item > range.start {
                            out.push(',');
                        }
                        items.write_json(item, out);
                    }
                    out.push(']');
                }))
            }
            DataType::Struct(fields) => {
                let columns = named(fields, array.as_struct_opt()?.columns())?;
                Values::Json(Box::new(move |row, out| object(&columns, row, out)))
            }
            _ => return None,
        };
        Some(Self { array, values })
    }

    fn write_json(&self, row: usize, out: &mut String) {
        if self.array.is_null(row) {
            return out.push_str("null");
        }
        match &self.values {
            Values::Scalar(write) => {
                let start = out.len();
                if write(row, out) {
                    out.insert(start, '"');
                    out.push('"');
                }
            }
            Values::Text(text) => json_string(text(row), out),
            Values::Json(write) => write(row, out),
        }
    }

    fn write_cell(&self, row: usize, scratch: &mut String, out: &mut String) {
        if self.array.is_null(row) {
            return;
        }
        match &self.values {
            Values::Scalar(write) => {
                let start = out.len();
                write(row, out);
                if out.len() == start {
                    out.push_str("\"\"");
                }
            }
            Values::Text(text) => cell(text(row), out),
            Values::Json(write) => {
                scratch.clear();
                write(row, scratch);
                cell(scratch, out);
            }
        }
    }
}

fn object(columns: &Named<'_>, row: usize, out: &mut String) {
    out.push('{');
    for (i, (name, column)) in columns.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push(':');
        column.write_json(row, out);
    }
    out.push('}');
}

/// Whether `text` is one JSON value on one line.
fn is_json(text: &str) -> bool {
    let mut cursor = Cursor::new(text, 0);
    cursor.blanks();
    let value = cursor.skip(0).is_ok();
    cursor.blanks();
    value && cursor.at == text.len()
}

fn json_text(text: &str) -> String {
    let mut out = String::new();
    json_string(text, &mut out);
    out
}

/// Appends `text` as a JSON string.
pub(super) fn json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    loop {
        let plain = plain_end(rest.as_bytes(), 0);
        out.push_str(rest.get(..plain).unwrap_or_default());
        let Some(special) = rest.as_bytes().get(plain) else { break };
        match special {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => _ = write!(out, "\\u{control:04x}"),
        }
        rest = rest.get(plain + 1..).unwrap_or_default();
    }
    out.push('"');
}

/// Appends `text` as a CSV cell that is not null.
fn cell(text: &str, out: &mut String) {
    match text.is_empty() || text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        true => quoted_cell(text, out),
        false => out.push_str(text),
    }
}

fn quoted_cell(text: &str, out: &mut String) {
    out.push('"');
    for (i, part) in text.split('"').enumerate() {
        if i > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }
    out.push('"');
}
