//! CSV with a header line, RFC 4180.
//!
//! Owns where records begin and end, the header, and how the text of a cell becomes a value.
//!
//! # Rules
//!
//! - **V1** A record ends at a line end outside of quotes, `\n` or `\r\n`, or at the end of the input. A
//!   quote opens only at the first byte of a cell; in it, a quote is doubled. A quote elsewhere and text behind a
//!   closing quote make a bad record, which ends where its line does.
//! - **V2** The first line that is not empty names the columns; blanks around unquoted names are dropped. Each
//!   field of the schema needs a column, in any order: a missing one is refused, because it is more often
//!   a typing error or another separator than a column of nulls. A column that the schema does not name follows
//!   `unknown_field`.
//! - **V3** Each record has as many cells as the header. Empty lines are no records, except in files of
//!   one column, where they are a null.
//! - **V4** An empty cell is null. A quoted empty cell is an empty string (or empty binary), and null for
//!   all other types.
//! - **V5** A cell says what the value's text says in NDJSON, with the same exactness. Numbers may have
//!   blanks around them, a `+`, leading zeros, and no digit on one side of the point; booleans are `true`,
//!   `True`, `TRUE` and so on. Lists, structs and `json` are JSON texts.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::error::Result;
use crate::format::column::Column;
use crate::format::decode::DecodeOptions;
use crate::format::decode::Decoded;
use crate::format::decode::InputFormat;
use crate::format::decode::RECORD_BYTES_LIMIT;
use crate::format::decode::SplitDecoder;
use crate::format::decode::Unknown;
use crate::format::fault::Fault;
use crate::format::fault::quoted;
use crate::format::json::Cursor;
use crate::format::ndjson::BYTE_ORDER_MARK;
use crate::format::ndjson::check_record_bytes_max;
use crate::format::ndjson::too_long;
use crate::format::reader::Reader;
use crate::format::reader::push_number;
use crate::format::reader::push_text;
use crate::format::rows::Rows;
use crate::format::rows::Target;
use crate::format::rows::each_text;
use crate::format::schema::type_text;
use crate::stream::SplitId;

/// Records as lines of cells.
#[derive(Debug)]
pub struct Csv {
    target: Arc<Target>,
    record_bytes_max: u64,
}

impl Csv {
    /// Reads as `options` say.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the schema holds a type that records cannot have.
    pub fn new(options: &DecodeOptions) -> Result<Self> {
        Ok(Self { target: Arc::new(Target::new(options)?), record_bytes_max: RECORD_BYTES_LIMIT })
    }

    /// Rejects records longer than `bytes`, the line end not counted ([`RECORD_BYTES_LIMIT`] if never
    /// called).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] for more than [`super::RECORD_BYTES_LIMIT`].
    pub fn with_record_bytes_max(mut self, bytes: u64) -> Result<Self> {
        check_record_bytes_max(bytes)?;
        self.record_bytes_max = bytes;
        Ok(self)
    }

    fn columns(&self, names: &[String]) -> Result<Vec<Place>> {
        let mut wanted = self.target.columns().collect::<BTreeMap<_, _>>();
        let mut taken = BTreeSet::new();
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            places.push(match wanted.remove(name.as_str()) {
                Some(index) => Place::Field(index),
                None if taken.contains(name) => {
                    return Err(Error::fatal(format!("the header names the column {} twice", quoted(name))));
                }
                None if self.target.unknown == Unknown::Fail => {
                    return Err(Error::fatal(format!(
                        "the column {} is not in the schema, and unknown_field is \"fail\"",
                        quoted(name)
                    )));
                }
                None if self.target.unknown == Unknown::Capture => Place::Captured,
                None => Place::Ignored,
            });
            if let Some(Place::Field(_)) = places.last() {
                taken.insert(name);
            }
        }
        if wanted.is_empty() {
            return Ok(places);
        }
        let list = |names: &mut dyn Iterator<Item = &str>| names.map(quoted).collect::<Vec<_>>().join(", ");
        Err(Error::fatal(format!(
            "the header lacks columns of the schema: {}; it has {}",
            list(&mut wanted.keys().copied()),
            list(&mut names.iter().map(String::as_str))
        )))
    }
}

impl InputFormat for Csv {
    fn schema(&self) -> SchemaRef {
        self.target.schema.clone()
    }

    fn decoder(&self, split: &SplitId, head: &[u8]) -> Result<Arc<dyn SplitDecoder>> {
        let header = Header::read(head).map_err(|error| error.context(split))?;
        let places = match &header.names {
            Some(names) => self.columns(names).map_err(|error| error.context(split))?,
            None => Vec::new(),
        };
        Ok(Arc::new(CsvDecoder {
            target: self.target.clone(),
            record_bytes_max: self.record_bytes_max,
            split: split.clone(),
            start: header.len as u64,
            names: header.names.unwrap_or_default(),
            places,
        }))
    }
}

/// The header of a split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Names of the columns; `None` if the split is empty.
    pub(super) names: Option<Vec<String>>,
    /// Offset behind it.
    pub(super) len: usize,
}

impl Header {
    pub(super) fn read(head: &[u8]) -> Result<Self> {
        let mut start = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        while let Some(len) = blank_line(head, start) {
            start += len;
        }
        if start >= head.len() {
            return Ok(Self { names: None, len: head.len() });
        }
        let (len, _) = record_end(head, start);
        let record = head.get(start..len).unwrap_or_default();
        let text = std::str::from_utf8(record).map_err(|_| Error::fatal("the header is not UTF-8"))?;
        let mut names = Vec::new();
        let mut cells = Cells { text, at: 0 };
        let mut scratch = String::new();
        loop {
            let cell = cells
                .next()
                .map_err(|fault| Error::fatal(format!("the header: {}", fault.reason(0, "header"))))?;
            let name = cell.decoded(&mut scratch);
            names.push(if cell.quoted { name } else { name.trim() }.to_owned());
            if cell.last {
                return Ok(Self { names: Some(names), len });
            }
        }
    }
}

/// Where a cell goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Field(usize),
    Captured,
    Ignored,
}

#[derive(Debug)]
struct CsvDecoder {
    target: Arc<Target>,
    record_bytes_max: u64,
    split: SplitId,
    start: u64,
    names: Vec<String>,
    places: Vec<Place>,
}

impl SplitDecoder for CsvDecoder {
    fn start(&self) -> u64 {
        self.start
    }

    fn boundary(&self, bytes: &[u8]) -> usize {
        let mut boundary = 0;
        while let (end, true) = record_end(bytes, boundary) {
            boundary = end;
        }
        boundary
    }

    fn record_end(&self, scan: &mut u8, bytes: &[u8]) -> Option<usize> {
        // What the function `record_end` does in leaps, byte by byte.
        for (at, byte) in bytes.iter().enumerate() {
            *scan = match (*scan, byte) {
                (CELL_START | IN_CELL | BEHIND_QUOTE, b'\n') => {
                    *scan = CELL_START;
                    return Some(at + 1);
                }
                (CELL_START | IN_CELL | BEHIND_QUOTE, b',') => CELL_START,
                (CELL_START | BEHIND_QUOTE, b'"') => IN_QUOTES,
                (IN_QUOTES, b'"') => BEHIND_QUOTE,
                (IN_QUOTES, _) => IN_QUOTES,
                _ => IN_CELL,
            };
        }
        None
    }

    fn decode(&self, base: u64, bytes: &[u8]) -> Result<Decoded> {
        if self.places.is_empty() && !bytes.is_empty() {
            return Err(
                Error::fatal("records came of a split whose header was not there yet").context(&self.split)
            );
        }
        let mut records = Records {
            decoder: self,
            rows: self.target.rows(&self.split)?,
            reader: Reader::new(self.target.unknown),
            scratch: String::new(),
            base,
        };
        each_text(&mut records, bytes, |bytes, at| record_end(bytes, at).0, Records::read, Records::refuse)?;
        records.rows.finish()
    }
}

/// States of the machine that finds a record's end: at the first byte of a cell.
const CELL_START: u8 = 0;
/// Inside a cell, outside of quotes.
const IN_CELL: u8 = 1;
/// Inside of quotes.
const IN_QUOTES: u8 = 2;
/// Behind a quote that closes, or is the first of two.
const BEHIND_QUOTE: u8 = 3;

/// Offset behind the record that begins at `start`, and whether its line end is there.
pub(super) fn record_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let mut at = start;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'"', b'\n', rest).map(|offset| at + offset) else {
            return (bytes.len(), false);
        };
        at = found + 1;
        match bytes.get(found) {
            Some(b'\n') => return (at, true),
            // Outside of quotes every comma ends a cell.
            _ if found == start || bytes.get(found - 1) == Some(&b',') => match quote_end(bytes, at) {
                Some(end) => at = end,
                None => return (bytes.len(), false),
            },
            _ => {}
        }
    }
}

/// Offset behind the quote that closes the cell whose content begins at `at`.
fn quote_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr(b'"', bytes.get(at..)?)? + 1;
        if bytes.get(at) != Some(&b'"') {
            return Some(at);
        }
        at += 1;
    }
}

/// Length of the empty line at `at`, if there is one.
fn blank_line(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at..)? {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        [b'\r'] => Some(1),
        _ => None,
    }
}

/// Cuts one record into cells.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

/// One cell, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell<'a> {
    /// Without the quotes around it.
    raw: &'a str,
    /// It had quotes around it.
    pub(super) quoted: bool,
    /// There are doubled quotes in it.
    doubled: bool,
    /// It ends its record.
    pub(super) last: bool,
}

impl<'a> Cell<'a> {
    pub(super) fn decoded<'s>(&self, scratch: &'s mut String) -> &'s str
    where
        'a: 's,
    {
        if !self.doubled {
            return self.raw;
        }
        *scratch = self.raw.replace("\"\"", "\"");
        scratch
    }
}

impl<'a> Cells<'a> {
    fn fault(&self, what: &str, at: usize, record: usize) -> Box<Fault> {
        Fault::value(format!("not valid CSV: {what} at offset {} of the record", at - record))
    }

    /// Reads the cell at `at` and steps over the comma or the line end behind it.
    pub(super) fn next(&mut self) -> Result<Cell<'a>, Box<Fault>> {
        self.next_of(0)
    }

    /// [`Self::next`] in the record that begins at `record`.
    fn next_of(&mut self, record: usize) -> Result<Cell<'a>, Box<Fault>> {
        let bytes = self.text.as_bytes();
        let quoted = bytes.get(self.at) == Some(&b'"');
        let start = self.at + usize::from(quoted);
        let end = match quoted {
            true => match quote_end(bytes, start) {
                Some(end) => {
                    self.at = end;
                    end - 1
                }
                None => return Err(self.fault("a quote that is never closed", self.at, record)),
            },
            false => {
                let rest = bytes.get(start..).unwrap_or_default();
                let len = rest.iter().position(|byte| matches!(byte, b',' | b'\n' | b'\r' | b'"'));
                self.at = start + len.unwrap_or(rest.len());
                self.at
            }
        };
        let last = match bytes.get(self.at..).unwrap_or_default() {
            [b',', ..] => {
                self.at += 1;
                false
            }
            [] => true,
            [b'\n', ..] | [b'\r'] => {
                self.at += 1;
                true
            }
            [b'\r', b'\n', ..] => {
                self.at += 2;
                true
            }
            [b'\r', ..] => return Err(self.fault("a carriage return outside of quotes", self.at, record)),
            _ if quoted => return Err(self.fault("text behind the closing quote", self.at, record)),
            _ => return Err(self.fault("a quote in a cell that does not begin with one", self.at, record)),
        };
        let raw = self.text.get(start..end).unwrap_or_default();
        Ok(Cell { raw, quoted, doubled: quoted && raw.contains('"'), last })
    }
}

#[derive(Debug)]
struct Records<'a> {
    decoder: &'a CsvDecoder,
    rows: Rows<'a>,
    reader: Reader,
    scratch: String,
    base: u64,
}

impl Records<'_> {
    /// Reads the records of `text`, which lies at `offset` in what the decoder was given.
    fn read(&mut self, offset: usize, text: &str) -> Result<()> {
        let bytes = text.as_bytes();
        let mut cells = Cells { text, at: 0 };
        while cells.at < text.len() {
            let start = cells.at;
            if self.decoder.places.len() > 1
                && let Some(len) = blank_line(bytes, start)
            {
                cells.at += len;
                continue;
            }
            let position = self.base + (offset + start) as u64;
            self.reader.begin_record();
            let reason = match self.record(&mut cells) {
                Ok(()) => {
                    let record = without_end(bytes.get(start..cells.at).unwrap_or_default());
                    too_long(record.len() as u64, self.decoder.record_bytes_max)
                }
                Err(fault) => Some(fault.reason(0, "value")),
            };
            match reason {
                None => self.rows.keep(position, (cells.at - start) as u64, self.reader.captured())?,
                Some(reason) => {
                    cells.at = record_end(bytes, start).0;
                    self.reject(position, reason, bytes.get(start..cells.at).unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, offset: usize, record: &[u8], reason: String) {
        self.reject(self.base + offset as u64, reason, record);
    }

    fn reject(&mut self, position: u64, reason: String, record: &[u8]) {
        let record = without_end(record);
        let reason = too_long(record.len() as u64, self.decoder.record_bytes_max).unwrap_or(reason);
        self.rows.reject(position, reason, record);
    }

    fn record(&mut self, cells: &mut Cells<'_>) -> Result<(), Box<Fault>> {
        let start = cells.at;
        let wanted = self.decoder.places.len();
        let mut count = 0;
        loop {
            let cell = cells.next_of(start)?;
            let text = cell.decoded(&mut self.scratch);
            if let (Some(place), Some(name)) = (self.decoder.places.get(count), self.decoder.names.get(count))
            {
                match place {
                    Place::Field(index) => {
                        if let Some(field) = self.rows.record.fields.get_mut(*index)
                            && let Err(fault) =
                                push_cell(&mut self.reader, &mut field.column, text, cell.quoted)
                        {
                            return Err(fault.in_field(name));
                        }
                    }
                    Place::Captured if text.is_empty() && !cell.quoted => {}
                    Place::Captured => self.reader.capture_text(name, text),
                    Place::Ignored => {}
                }
            }
            count += 1;
            if cell.last {
                break;
            }
        }
        match count == wanted {
            true => Ok(()),
            false => Err(Fault::value(format!("the record has {count} cells, the header has {wanted}"))),
        }
    }
}

fn without_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// Appends what the cell `text` says (V4, V5).
fn push_cell(reader: &mut Reader, column: &mut Column, text: &str, quotes: bool) -> Result<(), Box<Fault>> {
    if text.is_empty() && !(quotes && matches!(column, Column::Text(_) | Column::Binary(_))) {
        column.push_null();
        return Ok(());
    }
    let taken = match &mut *column {
        Column::Text(values) => values.push(text.as_bytes()),
        Column::Json(values) => {
            let mut cursor = Cursor::new(text, 0);
            cursor.blanks();
            cursor.skip(0)?;
            whole_value(cursor, text)?;
            values.push(text.as_bytes())
        }
        Column::List(_) | Column::Struct(_) => {
            let mut cursor = Cursor::new(text, 0);
            cursor.blanks();
            reader.value(column, &mut cursor, 0)?;
            return whole_value(cursor, text);
        }
        Column::Boolean(values) => match trimmed(text) {
            "true" | "True" | "TRUE" => {
                values.push(true);
                true
            }
            "false" | "False" | "FALSE" => {
                values.push(false);
                true
            }
            _ => false,
        },
        column => {
            let text = trimmed(text);
            match loose_number(text) {
                Some(number) => push_number(column, &number)? || push_text(column, text)?,
                None => push_text(column, text)?,
            }
        }
    };
    match taken {
        true => Ok(()),
        false => Err(Fault::value(format!("{} is not {}", quoted(text), type_text(&column.data_type())))),
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn loose_number(text: &str) -> Option<crate::format::json::Number<'_>> {
    let text = match text.strip_prefix('+') {
        Some(rest) if rest.starts_with('-') => return None,
        Some(rest) => rest,
        None => text,
    };
    let number = Cursor::new(text, 0).loose_number().ok()?;
    (number.text.len() == text.len()).then_some(number)
}

/// Nothing but blanks may be behind a JSON text in a cell.
fn whole_value(mut cursor: Cursor<'_>, text: &str) -> Result<(), Box<Fault>> {
    cursor.blanks();
    match cursor.at == text.len() {
        true => Ok(()),
        false => Err(cursor.fault("the end of the cell")),
    }
}
