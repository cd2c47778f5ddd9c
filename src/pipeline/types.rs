//! The types of a `[schema]`.
//!
//! The grammar is that of the room `format`, whose `parse_type` takes this file's place where both
//! rooms are there.

use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::TimeUnit;

use crate::pipeline::problem::nearest;

/// Deepest nesting of lists and structs.
const DEPTH_MAX: usize = 32;

const SIMPLE: [(&str, DataType); 15] = [
    ("string", DataType::Utf8),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("boolean", DataType::Boolean),
    ("date", DataType::Date32),
    ("json", DataType::LargeUtf8),
    ("binary", DataType::Binary),
];

const COMPOUND: [&str; 4] = ["timestamp(ms)", "decimal(10,2)", "list<string>", "struct<a:int64>"];

/// A type text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeError {
    /// Where in it, in characters from 0.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

/// Reads a type, for instance `list<struct<a:int64,b:decimal(10,2)>>`.
pub(crate) fn parse_type(text: &str) -> Result<DataType, TypeError> {
    let mut parser = Parser { text, at: 0 };
    let found = parser.data_type(0)?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.error("there is something behind the type"));
    }
    Ok(found)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, message: impl Into<String>) -> TypeError {
        self.error_at(self.at, message)
    }

    fn error_at(&self, at: usize, message: impl Into<String>) -> TypeError {
        let before = self.text.get(..at).unwrap_or(self.text);
        TypeError { offset: before.chars().count(), message: message.into() }
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, c: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char, shape: &str) -> Result<(), TypeError> {
        if self.takes(c) { Ok(()) } else { Err(self.error(format!("expected `{c}`, as in `{shape}`"))) }
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let len =
            rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, TypeError> {
        self.blanks();
        let start = self.at;
        if depth > DEPTH_MAX {
            return Err(self.error(format!("types nest at most {DEPTH_MAX} deep")));
        }
        match self.word() {
            "" => Err(self.error("expected a type")),
            "list" => {
                self.expect('<', "list<string>")?;
                let item = self.data_type(depth + 1)?;
                self.expect('>', "list<string>")?;
                Ok(DataType::new_list(item, true))
            }
            "struct" => {
                let shape = "struct<a:int64,b:string>";
                self.expect('<', shape)?;
                let mut fields: Vec<Field> = Vec::new();
                loop {
                    self.blanks();
                    let start = self.at;
                    let name = self.word();
                    if name.is_empty() {
                        return Err(self.error("expected the name of a field"));
                    }
                    if fields.iter().any(|field| field.name() == name) {
                        return Err(
                            self.error_at(start, format!("the struct names the field `{name}` twice"))
                        );
                    }
                    self.expect(':', shape)?;
                    fields.push(Field::new(name, self.data_type(depth + 1)?, true));
                    if !self.takes(',') {
                        break;
                    }
                }
                self.expect('>', shape)?;
                Ok(DataType::Struct(fields.into()))
            }
            "timestamp" => {
                self.expect('(', "timestamp(ms)")?;
                self.blanks();
                let start = self.at;
                let unit = match self.word() {
                    "s" => TimeUnit::Second,
                    "ms" => TimeUnit::Millisecond,
                    "us" => TimeUnit::Microsecond,
                    "ns" => TimeUnit::Nanosecond,
                    other => {
                        return Err(
                            self.error_at(start, format!("`{other}` is no unit of time: s, ms, us or ns"))
                        );
                    }
                };
                self.expect(')', "timestamp(ms)")?;
                Ok(DataType::Timestamp(unit, Some("UTC".into())))
            }
            "decimal" => {
                self.expect('(', "decimal(10,2)")?;
                let precision = self.number(1, 38, "precision")?;
                self.expect(',', "decimal(10,2)")?;
                let scale = self.number(0, precision, "scale")?;
                self.expect(')', "decimal(10,2)")?;
                Ok(DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(0)))
            }
            word => match SIMPLE.iter().find(|(name, _)| *name == word) {
                Some((_, found)) => Ok(found.clone()),
                None => Err(self.error_at(start, format!("unknown type `{word}`; {}", suggestion(word)))),
            },
        }
    }

    fn number(&mut self, least: u8, most: u8, what: &str) -> Result<u8, TypeError> {
        self.blanks();
        let start = self.at;
        match self.word().parse::<u8>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.error_at(start, format!("the {what} must be a number from {least} to {most}"))),
        }
    }
}

fn suggestion(word: &str) -> String {
    const ALIASES: [(&str, &str); 16] = [
        ("str", "string"),
        ("text", "string"),
        ("varchar", "string"),
        ("utf8", "string"),
        ("uuid", "string"),
        ("int", "int64"),
        ("integer", "int64"),
        ("long", "int64"),
        ("bigint", "int64"),
        ("float", "float64"),
        ("double", "float64"),
        ("bool", "boolean"),
        ("datetime", "timestamp(ms)"),
        ("bytes", "binary"),
        ("array", "list<string>"),
        ("object", "json"),
    ];
    let lower = word.to_lowercase();
    let alias = ALIASES.iter().find(|(name, _)| *name == lower).map(|(_, ours)| *ours);
    match alias.or_else(|| nearest(word, SIMPLE.iter().map(|(name, _)| *name))) {
        Some(ours) => format!("did you mean `{ours}`?"),
        None => {
            let all: Vec<&str> = SIMPLE.iter().map(|(name, _)| *name).chain(COMPOUND).collect();
            format!("types: {}", all.join(", "))
        }
    }
}
