//! Guesses a schema from the first records (D11).
//!
//! Owns the guess, and the refusal to guess. Reads nothing itself: the caller hands in the starts of
//! files, in name order, until [`Inference::wants_more`] is false.
//!
//! # Rules
//!
//! - **I1** Fields stand in the order of their first appearance.
//! - **I2** A type is taken only if every value seen has it: `int64` (or `uint64` if one needs it), `float64` where some
//!   numbers have a point or an exponent, `boolean`, `string`, lists and structs of these. Times and dates in texts
//!   stay `string`: a guess must not lose what was written (the offset, the digits).
//! - **I3** NDJSON: a field that was only null or an empty list, has values of several kinds, or numbers that the type
//!   would not hold, is in doubt: [`InferError::Doubtful`] has a `[schema]` to paste, with those lines as comments.
//! - **I4** CSV: cells are texts, so a column whose cells are of several kinds is `string`. So are digits with leading
//!   zeros or a `+`, which are names more often than numbers. Only a column without any value is in doubt.
//! - **I5** Records that are not valid are passed over; reading meets them again and refuses them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::format::csv;
use crate::format::fault::Fault;
use crate::format::fault::quoted;
use crate::format::json::Cursor;
use crate::format::json::Number;
use crate::format::ndjson::BYTE_ORDER_MARK;
use crate::format::schema::TYPE_DEPTH_MAX;
use crate::format::schema::parse_schema;
use crate::format::schema::schema_line;
use crate::format::schema::write_name;
use crate::format::value;

/// Records that a guess is made from.
pub const SAMPLE_RECORDS: u64 = 10_000;

/// A nested object with more names than this is taken for a map, whose names are data.
const STRUCT_NAMES_MAX: usize = 500;

/// The largest distance from 0 up to which a double holds every whole number.
const WHOLE_IN_DOUBLE: i128 = 1 << 53;

/// Why no schema could be guessed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// There was nothing to guess from.
    #[error("no schema is declared, and there is no record to guess it from{}; write a [schema] into the pipeline file", first_fault(*.bad, .first))]
    NoRecords {
        /// Records that were not valid.
        bad: u64,
        /// What is wrong with the first of them.
        first: String,
    },
    /// The header of a CSV file cannot be read.
    #[error("{message}")]
    Header {
        /// Why.
        message: String,
    },
    /// Some fields could be of several types, or of any.
    #[error(
        "the first {} not tell the type of {}; put this into the pipeline file and choose:\n\n{schema}",
        if *.records == 1 { "record does".to_owned() } else { format!("{} records do", .records) },
        list(.doubts)
    )]
    Doubtful {
        /// Records that the guess was made from.
        records: u64,
        /// Each field and what is wrong with it.
        doubts: Vec<(String, String)>,
        /// A `[schema]` block for the pipeline file, doubtful lines as comments.
        schema: String,
    },
}

impl From<InferError> for Error {
    fn from(error: InferError) -> Self {
        Self::usage(error.to_string())
    }
}

fn first_fault(bad: u64, first: &str) -> String {
    match bad {
        0 => String::new(),
        bad => format!(" ({bad} that are not valid; the first: {first})"),
    }
}

fn list(doubts: &[(String, String)]) -> String {
    let doubts = doubts.iter().map(|(name, why)| format!("{} ({why})", quoted(name)));
    doubts.collect::<Vec<_>>().join(", ")
}

/// What was seen of the records so far.
#[derive(Debug)]
pub struct Inference {
    kind: Kind,
    fields: Fields,
    records: u64,
    bad: u64,
    first_fault: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ndjson,
    Csv,
}

impl Inference {
    /// Nothing seen yet of NDJSON.
    pub fn ndjson() -> Self {
        Self::new(Kind::Ndjson)
    }

    /// Nothing seen yet of CSV.
    pub fn csv() -> Self {
        Self::new(Kind::Csv)
    }

    fn new(kind: Kind) -> Self {
        Self { kind, fields: Fields::default(), records: 0, bad: 0, first_fault: String::new() }
    }

    /// Whether more records would still be looked at.
    pub fn wants_more(&self) -> bool {
        self.records < SAMPLE_RECORDS
    }

    /// Looks at `head`, the start of a file or, with `whole`, all of it. Bytes behind the last record that ends in it
    /// are not looked at unless it is whole.
    ///
    /// # Errors
    ///
    /// [`InferError::Header`] when the header of a CSV file cannot be read.
    pub fn add(&mut self, head: &[u8], whole: bool) -> Result<(), InferError> {
        match self.kind {
            Kind::Ndjson => self.add_ndjson(head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head), whole),
            Kind::Csv => return self.add_csv(head, whole),
        }
        Ok(())
    }

    fn add_ndjson(&mut self, head: &[u8], whole: bool) {
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            if !self.wants_more() || !(whole || line.ends_with(b"\n")) {
                return;
            }
            match std::str::from_utf8(line) {
                Ok(line) => self.add_line(line),
                Err(_) => self.pass_over("not valid UTF-8".into()),
            }
        }
    }

    fn add_line(&mut self, line: &str) {
        let mut cursor = Cursor::new(line, 0);
        cursor.blanks();
        if cursor.at_end() {
            return;
        }
        let start = cursor.clone();
        match whole_object(&mut cursor) {
            Ok(()) => {
                self.records += 1;
                // The line is valid, and so is each of its parts.
                let _ = see_object(&mut self.fields, &mut start.clone());
            }
            Err(fault) => self.pass_over(fault.reason(0, "record")),
        }
    }

    fn add_csv(&mut self, head: &[u8], whole: bool) -> Result<(), InferError> {
        let header =
            csv::Header::read(head).map_err(|error| InferError::Header { message: error.to_string() })?;
        let names = header.names.unwrap_or_default();
        for name in &names {
            self.fields.get(name);
        }
        let mut at = header.len;
        let mut scratch = String::new();
        while at < head.len() && self.wants_more() {
            let (end, ended) = csv::record_end(head, at);
            if !(whole || ended) {
                break;
            }
            let record = head.get(at..end).unwrap_or_default();
            at = end;
            if names.len() > 1 && matches!(record, b"\n" | b"\r\n" | b"\r") {
                continue;
            }
            let Ok(text) = std::str::from_utf8(record) else {
                self.pass_over("not valid UTF-8".into());
                continue;
            };
            match cells(text, &mut scratch) {
                Ok(cells) if cells.len() == names.len() => {
                    self.records += 1;
                    for (name, (cell, quotes)) in names.iter().zip(cells) {
                        self.fields.get(name).see_cell(&cell, quotes);
                    }
                }
                Ok(cells) => {
                    self.pass_over(format!(
                        "the record has {} cells, the header has {}",
                        cells.len(),
                        names.len()
                    ));
                }
                Err(fault) => self.pass_over(fault.reason(0, "record")),
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, fault: String) {
        if self.bad == 0 {
            self.first_fault = fault;
        }
        self.bad += 1;
    }

    /// The schema of the records seen.
    ///
    /// # Errors
    ///
    /// [`InferError::Doubtful`] when it cannot be told, [`InferError::NoRecords`] when there were none.
    pub fn finish(self) -> Result<SchemaRef, InferError> {
        if self.records == 0 {
            return Err(InferError::NoRecords { bad: self.bad, first: self.first_fault });
        }
        let mut schema = String::from("[schema]\n");
        let mut doubts = Vec::new();
        let mut fields = Vec::new();
        for (name, seen) in &self.fields.fields {
            let guess = match self.kind {
                Kind::Ndjson => seen.guess(0),
                Kind::Csv => seen.guess_cells(),
            };
            let line = schema_line(name, &guess.text);
            match guess.doubt {
                None => {
                    _ = writeln!(schema, "{line}");
                    fields.push((name, guess.text));
                }
                Some(why) => {
                    _ = writeln!(schema, "# {why}:\n# {line}");
                    doubts.push((name.clone(), why));
                }
            }
        }
        let doubtful =
            |doubts| InferError::Doubtful { records: self.records, doubts, schema: schema.clone() };
        if !doubts.is_empty() {
            return Err(doubtful(doubts));
        }
        // Every name came once and every text is a type; only an empty list of fields is refused.
        parse_schema(fields).map_err(|error| doubtful(vec![("[schema]".into(), error.to_string())]))
    }
}

fn whole_object(cursor: &mut Cursor<'_>) -> Result<(), Box<Fault>> {
    if cursor.peek() != b'{' {
        return Err(cursor.fault("an object, `{`"));
    }
    cursor.skip(0)?;
    cursor.blanks();
    if cursor.at_end() { Ok(()) } else { Err(cursor.fault("the end of the line behind the object")) }
}

/// The cells of one record, and whether they had quotes.
fn cells(text: &str, scratch: &mut String) -> Result<Vec<(String, bool)>, Box<Fault>> {
    let mut cells = csv::Cells { text, at: 0 };
    let mut found = Vec::new();
    loop {
        let cell = cells.next()?;
        found.push((cell.decoded(scratch).to_owned(), cell.quoted));
        if cell.last {
            return Ok(found);
        }
    }
}

/// Fields in the order of their first appearance.
#[derive(Debug, Default)]
struct Fields {
    fields: Vec<(String, Seen)>,
    places: BTreeMap<String, usize>,
}

impl Fields {
    fn get(&mut self, name: &str) -> &mut Seen {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.fields.len());
                self.fields.push((name.to_owned(), Seen::default()));
                self.fields.len() - 1
            }
        };
        let (_, seen) = self.fields.get_mut(place).expect("a place is noted only once its field is there");
        seen
    }
}

/// What kinds of values a field had.
#[derive(Debug, Default)]
struct Seen {
    booleans: bool,
    /// Whole numbers: the least and the greatest.
    whole: Option<(i128, i128)>,
    /// Numbers with a point or an exponent.
    floats: bool,
    /// Numbers that neither 64-bit integers nor doubles hold.
    huge: bool,
    texts: bool,
    /// Texts without a character, in quotes, in CSV.
    empty_texts: bool,
    items: Option<Box<Seen>>,
    fields: Option<Fields>,
}

/// A type, and why it may be wrong.
#[derive(Debug)]
struct Guess {
    text: String,
    doubt: Option<String>,
}

impl Guess {
    fn sure(text: impl Into<String>) -> Self {
        Self { text: text.into(), doubt: None }
    }

    fn doubt(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { text: text.into(), doubt: Some(why.into()) }
    }
}

/// Looks at the object at the cursor, which is valid.
fn see_object(fields: &mut Fields, cursor: &mut Cursor<'_>) -> Result<(), Box<Fault>> {
    let mut scratch = Vec::new();
    cursor.at += 1;
    cursor.blanks();
    if cursor.takes(b"}") {
        return Ok(());
    }
    loop {
        let name = cursor.name()?;
        fields.get(name.decoded(&mut scratch)).see(cursor)?;
        cursor.blanks();
        if !cursor.takes(b",") {
            cursor.at += 1;
            return Ok(());
        }
        cursor.blanks();
    }
}

impl Seen {
    /// Looks at the value at the cursor. It is valid, so it nests no deeper than the stack can take.
    fn see(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Box<Fault>> {
        match cursor.peek() {
            b'{' => return see_object(self.fields.get_or_insert_default(), cursor),
            b'[' => {
                let items = self.items.get_or_insert_default();
                cursor.at += 1;
                cursor.blanks();
                while !cursor.takes(b"]") {
                    items.see(cursor)?;
                    cursor.blanks();
                    cursor.takes(b",");
                    cursor.blanks();
                }
                return Ok(());
            }
            b'"' => self.texts = true,
            b't' | b'f' => self.booleans = true,
            b'-' | b'0'..=b'9' => {
                let number = cursor.number()?;
                self.see_number(&number);
                return Ok(());
            }
            _ => {}
        }
        cursor.skip(0)
    }

    fn see_number(&mut self, number: &Number<'_>) {
        if number.text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            self.floats = true;
            self.huge |= value::float64(number).is_err();
            return;
        }
        match value::whole::<i128>(number) {
            Ok(whole) => {
                let (least, greatest) = self.whole.unwrap_or((whole, whole));
                self.whole = Some((least.min(whole), greatest.max(whole)));
            }
            Err(_) => self.huge = true,
        }
    }

    fn see_cell(&mut self, cell: &str, quotes: bool) {
        if cell.is_empty() {
            self.empty_texts |= quotes;
            return;
        }
        if matches!(cell, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") {
            self.booleans = true;
        } else if value::float_word(cell).is_some() {
            self.floats = true;
        } else {
            let mut cursor = Cursor::new(cell, 0);
            match cursor.number() {
                Ok(number) if number.text.len() == cell.len() => self.see_number(&number),
                _ => self.texts = true,
            }
        }
    }

    /// The type of numbers, if they were of one.
    fn numbers(&self) -> Guess {
        let (least, greatest) = self.whole.unwrap_or_default();
        if self.huge {
            return Guess::doubt("decimal(38,0)", "has numbers beyond 64 bits");
        }
        if self.floats {
            return match least < -WHOLE_IN_DOUBLE || greatest > WHOLE_IN_DOUBLE {
                true => Guess::doubt("float64", "has fractions, and whole numbers that float64 would round"),
                false => Guess::sure("float64"),
            };
        }
        match (i64::try_from(least), i64::try_from(greatest), u64::try_from(greatest)) {
            (Ok(_), Ok(_), _) => Guess::sure("int64"),
            (Ok(0..), _, Ok(_)) => Guess::sure("uint64"),
            _ => Guess::doubt("decimal(38,0)", "has numbers beyond 64 bits"),
        }
    }

    fn is_number(&self) -> bool {
        self.whole.is_some() || self.floats || self.huge
    }

    fn guess(&self, depth: usize) -> Guess {
        if depth > TYPE_DEPTH_MAX {
            return Guess::doubt("json", "nests too deep for a type");
        }
        let kinds = [
            (self.booleans, "booleans"),
            (self.is_number(), "numbers"),
            (self.texts, "texts"),
            (self.items.is_some(), "lists"),
            (self.fields.is_some(), "objects"),
        ];
        let kinds: Vec<_> = kinds.iter().filter(|(seen, _)| *seen).map(|(_, name)| *name).collect();
        match (kinds.as_slice(), &self.items, &self.fields) {
            ([], ..) => Guess::doubt("string", "is only null"),
            (["booleans"], ..) => Guess::sure("boolean"),
            (["numbers"], ..) => self.numbers(),
            (["texts"], ..) => Guess::sure("string"),
            ([_], Some(items), _) if items.is_nothing() => {
                Guess::doubt("list<string>", "has only lists without a value")
            }
            ([_], Some(items), _) => {
                let item = items.guess(depth + 1);
                let why = item.doubt.map(|why| format!("its items: {why}"));
                Guess { text: format!("list<{}>", item.text), doubt: why }
            }
            ([_], _, Some(fields)) => fields.guess(depth + 1),
            (kinds, ..) => Guess::doubt("json", format!("has {}", kinds.join(" and "))),
        }
    }

    fn is_nothing(&self) -> bool {
        !self.booleans && !self.is_number() && !self.texts && self.items.is_none() && self.fields.is_none()
    }

    fn guess_cells(&self) -> Guess {
        match (self.booleans, self.is_number(), self.texts) {
            (false, false, false) if self.empty_texts => Guess::sure("string"),
            (false, false, false) => Guess::doubt("string", "is always empty"),
            (true, false, false) => Guess::sure("boolean"),
            (false, true, false) => match self.numbers() {
                sure @ Guess { doubt: None, .. } => sure,
                _ => Guess::sure("string"),
            },
            _ => Guess::sure("string"),
        }
    }
}

impl Fields {
    fn guess(&self, depth: usize) -> Guess {
        match self.fields.len() {
            0 => return Guess::doubt("json", "has only objects without fields"),
            many if many > STRUCT_NAMES_MAX => {
                return Guess::doubt("json", format!("is an object with {many} different names"));
            }
            _ => {}
        }
        let mut text = String::from("struct<");
        let mut doubt = None;
        for (i, (name, seen)) in self.fields.iter().enumerate() {
            let guess = seen.guess(depth);
            if i > 0 {
                text.push(',');
            }
            write_name(name, &mut text);
            text.push(':');
            text.push_str(&guess.text);
            doubt = doubt.or(guess.doubt.map(|why| format!("its field {}: {why}", quoted(name))));
        }
        text.push('>');
        Guess { text, doubt }
    }
}
