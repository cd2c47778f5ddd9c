//! NDJSON: one JSON object on each line.
//!
//! Owns where lines begin and end, which value goes into which field, and what is refused. The syntax is
//! `json`'s, the meaning of values `value`'s.
//!
//! One pass over the bytes checks the syntax and fills the columns; there is no second reader that could
//! see a line otherwise. A line with a fault is taken back from the columns, so the verdict on a line
//! never depends on its neighbours (D10).
//!
//! # Rules
//!
//! - **N1** A line is one object and nothing else, strictly by RFC 8259 and UTF-8. It ends with `\n` (a
//!   `\r` before it is white space) or at the end of the input. Lines of white space are no records. A byte order
//!   mark is passed over at the start of the split only.
//! - **N2** A field that is missing or `null` is null. Fields stand in any order. A field of the schema
//!   that stands twice in an object is refused; names of unknown fields are not compared.
//! - **N3** Nothing is rounded or cut: `1.9` is no `int64` (`2.0` and `2e0` are), `1.239` no
//!   `decimal(10,2)` (`1.230` is), microseconds no `timestamp(ms)`. Only floats round, to the nearest;
//!   what they would make infinite is refused.
//! - **N4** A number is a number: `"5"` is no `int64`. Two exceptions, where texts are what careful writers
//!   write: decimals also come as strings, and floats as `"NaN"`, `"Infinity"`, `"-Infinity"`.
//! - **N5** Timestamps are whole numbers since 1970 in the declared unit, or texts of RFC 3339 with an
//!   offset; dates are texts, `2026-01-31`; binary is base64 with padding; `json` takes any value as it
//!   stands.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::error::Result;
use crate::format::decode::DecodeOptions;
use crate::format::decode::Decoded;
use crate::format::decode::InputFormat;
use crate::format::decode::RECORD_BYTES_LIMIT;
use crate::format::decode::SplitDecoder;
use crate::format::json::Cursor;
use crate::format::reader::Reader;
use crate::format::rows::Rows;
use crate::format::rows::Target;
use crate::format::rows::each_text;
use crate::stream::SplitId;

/// What some programs write in front of UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Records as JSON objects, one on a line.
#[derive(Debug)]
pub struct Ndjson {
    target: Arc<Target>,
    record_bytes_max: u64,
}

impl Ndjson {
    /// Reads as `options` say.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the schema holds a type that records cannot have.
    pub fn new(options: &DecodeOptions) -> Result<Self> {
        Ok(Self { target: Arc::new(Target::new(options)?), record_bytes_max: RECORD_BYTES_LIMIT })
    }

    /// Rejects lines longer than `bytes`, the line end not counted ([`RECORD_BYTES_LIMIT`] if never called).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] for more than [`RECORD_BYTES_LIMIT`].
    pub fn with_record_bytes_max(mut self, bytes: u64) -> Result<Self> {
        check_record_bytes_max(bytes)?;
        self.record_bytes_max = bytes;
        Ok(self)
    }
}

pub(super) fn check_record_bytes_max(bytes: u64) -> Result<()> {
    match (1..=RECORD_BYTES_LIMIT).contains(&bytes) {
        true => Ok(()),
        false => {
            Err(Error::usage(format!("a record limit is from 1 to {RECORD_BYTES_LIMIT} bytes, not {bytes}")))
        }
    }
}

/// Why a record of `len` bytes is refused, if it is.
#[inline]
pub(super) fn too_long(len: u64, max: u64) -> Option<String> {
    (len > max).then(|| format!("the record has {len} bytes, more than the limit of {max}"))
}

impl InputFormat for Ndjson {
    fn schema(&self) -> SchemaRef {
        self.target.schema.clone()
    }

    fn decoder(&self, split: &SplitId, head: &[u8]) -> Result<Arc<dyn SplitDecoder>> {
        Ok(Arc::new(NdjsonDecoder {
            target: self.target.clone(),
            record_bytes_max: self.record_bytes_max,
            split: split.clone(),
            start: if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() as u64 } else { 0 },
        }))
    }
}

#[derive(Debug)]
struct NdjsonDecoder {
    target: Arc<Target>,
    record_bytes_max: u64,
    split: SplitId,
    start: u64,
}

impl SplitDecoder for NdjsonDecoder {
    fn start(&self) -> u64 {
        self.start
    }

    fn boundary(&self, bytes: &[u8]) -> usize {
        memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1)
    }

    fn record_end(&self, _scan: &mut u8, bytes: &[u8]) -> Option<usize> {
        memchr::memchr(b'\n', bytes).map(|at| at + 1)
    }

    fn decode(&self, base: u64, bytes: &[u8]) -> Result<Decoded> {
        let mut lines = Lines {
            rows: self.target.rows(&self.split)?,
            reader: Reader::new(self.target.unknown),
            base,
            record_bytes_max: self.record_bytes_max,
        };
        each_text(&mut lines, bytes, line_end, Lines::read, Lines::refuse)?;
        lines.rows.finish()
    }
}

/// Offset behind the line that `at` lies in.
fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    memchr::memchr(b'\n', rest).map_or(bytes.len(), |end| at + end + 1)
}

/// `line` without its end.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[derive(Debug)]
struct Lines<'a> {
    rows: Rows<'a>,
    reader: Reader,
    base: u64,
    record_bytes_max: u64,
}

impl Lines<'_> {
    /// Reads the lines of `text`, which lies at `offset` in what the decoder was given.
    fn read(&mut self, offset: usize, text: &str) -> Result<()> {
        let mut cursor = Cursor::new(text, 0);
        while cursor.at < text.len() {
            let start = cursor.at;
            cursor.blanks();
            if cursor.at_end() {
                cursor.at += 1;
                continue;
            }
            let position = self.base + (offset + start) as u64;
            self.reader.begin_record();
            let fault = match self.reader.line(&mut self.rows.record, &mut cursor) {
                Ok(()) if ((cursor.at - start) as u64) <= self.record_bytes_max => None,
                Ok(()) => {
                    let line = without_end(text.as_bytes().get(start..cursor.at).unwrap_or_default());
                    too_long(line.len() as u64, self.record_bytes_max)
                }
                Err(fault) => Some(fault.reason(start, "record")),
            };
            match fault {
                None => {
                    self.rows.keep(position, (cursor.at - start) as u64, self.reader.captured())?;
                    cursor.at += 1;
                }
                Some(reason) => {
                    let end = line_end(text.as_bytes(), start);
                    let line = without_end(text.as_bytes().get(start..end).unwrap_or_default());
                    self.reject(position, reason, line);
                    cursor.at = end;
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, offset: usize, line: &[u8], reason: String) {
        self.reject(self.base + offset as u64, reason, without_end(line));
    }

    /// Where a line is too long, that is the reason, whatever else is wrong with it.
    fn reject(&mut self, position: u64, reason: String, line: &[u8]) {
        let reason = too_long(line.len() as u64, self.record_bytes_max).unwrap_or(reason);
        self.rows.reject(position, reason, line);
    }
}
