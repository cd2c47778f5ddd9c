//! The types a user writes in `[schema]`, as text and as Arrow's types.
//!
//! Owns the grammar and the list of types that records can have. Does not own how a value of a type
//! is read (`column`, `value`) or guessed (`infer`).
//!
//! ```text
//!  type    = "string" | "boolean" | "date" | "json" | "binary" | "binary(base64)"
//!          | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
//!          | "float32" | "float64"
//!          | "timestamp(" ( "s" | "ms" | "us" | "ns" ) ")"
//!          | "decimal(" precision "," scale ")"          1 <= precision <= 38, scale <= precision
//!          | "list<" type ">"
//!          | "struct<" name ":" type { "," name ":" type } ">"
//!  name    = letters, digits, "_", "-", "." | "`" any, "`" doubled "`"
//! ```
//!
//! Blanks may stand between the parts. Every field is nullable.
//!
//! | text | Arrow |
//! |---|---|
//! | `string` | `Utf8` |
//! | `json` | `LargeUtf8`: the value's own text. No other type of ours is `LargeUtf8`, so that the two can be told apart |
//! | `binary` | `Binary`, base64 in the text formats |
//! | `timestamp(ms)` | `Timestamp(Millisecond, "UTC")` |
//! | `decimal(p,s)` | `Decimal128(p, s)` |
//! | `list<T>` | `List` of a nullable field `item` |

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Fields;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use arrow::datatypes::TimeUnit;

use crate::error::Error;

/// Deepest nesting of lists and structs in a type.
pub const TYPE_DEPTH_MAX: usize = 32;

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

const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

/// What other systems call our types.
const ALIASES: [(&str, &str); 33] = [
    ("str", "string"),
    ("text", "string"),
    ("varchar", "string"),
    ("utf8", "string"),
    ("uuid", "string"),
    ("byte", "int8"),
    ("tinyint", "int8"),
    ("short", "int16"),
    ("smallint", "int16"),
    ("int", "int32` or `int64"),
    ("integer", "int32` or `int64"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("u64", "uint64"),
    ("long", "int64"),
    ("bigint", "int64"),
    ("uint", "uint64"),
    ("float", "float32` or `float64"),
    ("real", "float32"),
    ("double", "float64"),
    ("number", "float64` or `decimal(18,2)"),
    ("numeric", "decimal(18,2)"),
    ("bool", "boolean"),
    ("date32", "date"),
    ("time", "timestamp(ms)"),
    ("datetime", "timestamp(ms)"),
    ("timestamptz", "timestamp(ms)"),
    ("bytes", "binary"),
    ("blob", "binary"),
    ("array", "list<string>"),
    ("object", "struct<name:string>` or `json"),
    ("record", "struct<name:string>"),
    ("map", "json"),
];

/// A type text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}, at character {at} of `{text}`", at = offset + 1)]
pub struct TypeError {
    /// The whole text.
    pub text: String,
    /// Where in it, in characters from 0.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

/// A `[schema]` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A field's type is not one.
    #[error("field `{field}`: {error}")]
    Type {
        /// The field.
        field: String,
        /// What is wrong.
        error: TypeError,
    },
    /// Two fields have one name.
    #[error("the schema names the field `{field}` twice")]
    Twice {
        /// The field.
        field: String,
    },
    /// There is nothing to read records into.
    #[error("the schema has no fields")]
    Empty,
    /// A type that no text stands for.
    #[error("field `{field}`: records cannot have the type {found}")]
    Unsupported {
        /// The field.
        field: String,
        /// The type, as Arrow calls it.
        found: String,
    },
    /// A field that refuses nulls.
    #[error("field `{field}` is not nullable; every field of a record is, because it may be missing")]
    NotNullable {
        /// The field.
        field: String,
    },
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Reads a type, for instance `list<struct<a:int64,b:decimal(10,2)>>`.
///
/// # Errors
///
/// [`TypeError`] with the place, and the type that was probably meant.
pub fn parse_type(text: &str) -> Result<DataType, TypeError> {
    let mut parser = Parser { text, at: 0 };
    let found = parser.data_type(0)?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.error("there is something behind the type"));
    }
    Ok(found)
}

/// The text that [`parse_type`] reads as `data_type`; for types that it never gives, Arrow's own name.
pub fn type_text(data_type: &DataType) -> String {
    let mut text = String::new();
    write_type(data_type, &mut text);
    text
}

/// Reads the fields of a `[schema]`, name and type text each, in their order.
///
/// # Errors
///
/// [`SchemaError`] names the field.
pub fn parse_schema<N: AsRef<str>, T: AsRef<str>>(
    fields: impl IntoIterator<Item = (N, T)>,
) -> Result<SchemaRef, SchemaError> {
    let fields = fields
        .into_iter()
        .map(|(name, text)| {
            let name = name.as_ref();
            let found = parse_type(text.as_ref())
                .map_err(|error| SchemaError::Type { field: name.to_owned(), error })?;
            Ok(Field::new(name, found, true))
        })
        .collect::<Result<Vec<_>, SchemaError>>()?;
    let schema = Schema::new(fields);
    check_schema(&schema)?;
    Ok(Arc::new(schema))
}

/// Checks that records can be read into `schema`: types of this page, nullable, each name once.
///
/// # Errors
///
/// [`SchemaError`] names the field.
pub fn check_schema(schema: &Schema) -> Result<(), SchemaError> {
    if schema.fields().is_empty() {
        return Err(SchemaError::Empty);
    }
    check_fields(schema.fields(), 0)
}

/// The `[schema]` block of a pipeline file that gives `schema`.
pub fn schema_text(schema: &Schema) -> String {
    let mut text = String::from("[schema]\n");
    for field in schema.fields() {
        text.push_str(&schema_line(field.name(), &type_text(field.data_type())));
        text.push('\n');
    }
    text
}

/// One line of a `[schema]` block.
pub(super) fn schema_line(name: &str, type_text: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match bare {
        true => format!("{name} = {}", toml_string(type_text)),
        false => format!("{} = {}", toml_string(name), toml_string(type_text)),
    }
}

fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn check_fields(fields: &Fields, depth: usize) -> Result<(), SchemaError> {
    let mut names = BTreeSet::new();
    for field in fields {
        let name = || field.name().clone();
        if !names.insert(field.name()) {
            return Err(SchemaError::Twice { field: name() });
        }
        check_field(field, depth).map_err(|error| match (depth, error) {
            (0, SchemaError::Unsupported { found, .. }) => SchemaError::Unsupported { field: name(), found },
            (0, SchemaError::NotNullable { .. }) => SchemaError::NotNullable { field: name() },
            (_, error) => error,
        })?;
    }
    Ok(())
}

fn check_field(field: &Field, depth: usize) -> Result<(), SchemaError> {
    let unsupported =
        || SchemaError::Unsupported { field: field.name().clone(), found: field.data_type().to_string() };
    if depth > TYPE_DEPTH_MAX {
        return Err(unsupported());
    }
    if !field.is_nullable() {
        return Err(SchemaError::NotNullable { field: field.name().clone() });
    }
    match field.data_type() {
        DataType::List(item) => check_field(item, depth + 1),
        DataType::Struct(fields) if !fields.is_empty() => check_fields(fields, depth + 1),
        DataType::Timestamp(_, Some(zone)) if zone.as_ref() == "UTC" => Ok(()),
        DataType::Decimal128(precision, scale)
            if (1..=DECIMAL128_MAX_PRECISION).contains(precision)
                && u8::try_from(*scale).is_ok_and(|scale| scale <= *precision) =>
        {
            Ok(())
        }
        simple if SIMPLE.iter().any(|(_, known)| known == simple) => Ok(()),
        _ => Err(unsupported()),
    }
}

fn write_type(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::List(item) => {
            out.push_str("list<");
            write_type(item.data_type(), out);
            out.push('>');
        }
        DataType::Struct(fields) => {
            out.push_str("struct<");
            for (i, field) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_name(field.name(), out);
                out.push(':');
                write_type(field.data_type(), out);
            }
            out.push('>');
        }
        DataType::Timestamp(unit, Some(_)) => {
            let name = UNITS.iter().find(|(_, known)| known == unit).map_or("?", |(name, _)| name);
            let _ = write!(out, "timestamp({name})");
        }
        DataType::Decimal128(precision, scale) => {
            let _ = write!(out, "decimal({precision},{scale})");
        }
        simple => match SIMPLE.iter().find(|(_, known)| known == simple) {
            Some((name, _)) => out.push_str(name),
            None => {
                let _ = write!(out, "{simple}");
            }
        },
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

pub(super) fn write_name(name: &str, out: &mut String) {
    if !name.is_empty() && name.chars().all(is_name_char) {
        out.push_str(name);
    } else {
        out.push('`');
        out.push_str(&name.replace('`', "``"));
        out.push('`');
    }
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
        TypeError { text: self.text.to_owned(), offset: before.chars().count(), message: message.into() }
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

    fn expect(&mut self, c: char, what: &str) -> Result<(), TypeError> {
        match self.takes(c) {
            true => Ok(()),
            false => Err(self.error(format!("expected `{c}` {what}"))),
        }
    }

    /// A run of name characters, perhaps empty.
    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType, TypeError> {
        self.blanks();
        let start = self.at;
        if depth > TYPE_DEPTH_MAX {
            return Err(self.error(format!("types nest at most {TYPE_DEPTH_MAX} deep")));
        }
        match self.word() {
            "" => Err(self.error("expected a type")),
            "list" => {
                self.expect('<', "and the type of the items, as in `list<string>`")?;
                let item = self.data_type(depth + 1)?;
                self.expect('>', "behind the type of the items")?;
                Ok(DataType::new_list(item, true))
            }
            "struct" => self.fields(depth),
            "timestamp" => self.timestamp(),
            "decimal" => self.decimal(),
            word => match SIMPLE.iter().find(|(name, _)| *name == word) {
                Some((_, DataType::Binary)) if self.takes('(') => {
                    let inner = self.at;
                    if self.word() != "base64" {
                        return Err(
                            self.error_at(inner, "binary values are read from base64: `binary(base64)`")
                        );
                    }
                    self.expect(')', "behind `base64`")?;
                    Ok(DataType::Binary)
                }
                Some((_, found)) => Ok(found.clone()),
                None => Err(self.error_at(start, format!("unknown type `{word}`{}", suggestion(word)))),
            },
        }
    }

    fn fields(&mut self, depth: usize) -> Result<DataType, TypeError> {
        self.expect('<', "and the fields, as in `struct<a:int64,b:string>`")?;
        let mut fields = Vec::new();
        let mut names = BTreeSet::new();
        loop {
            self.blanks();
            let start = self.at;
            let name = self.name()?;
            if !names.insert(name.clone()) {
                return Err(self.error_at(start, format!("the struct names the field `{name}` twice")));
            }
            self.expect(':', "and a type behind the name of the field")?;
            fields.push(Field::new(name, self.data_type(depth + 1)?, true));
            if !self.takes(',') {
                break;
            }
        }
        self.expect('>', "or `,` behind the type of the field")?;
        Ok(DataType::Struct(fields.into()))
    }

    fn name(&mut self) -> Result<String, TypeError> {
        let start = self.at;
        if !self.takes('`') {
            return match self.word() {
                "" => Err(self.error("expected the name of a field")),
                name => Ok(name.to_owned()),
            };
        }
        let mut name = String::new();
        let mut chars = self.rest().char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            match (c, chars.peek()) {
                ('`', Some((_, '`'))) => {
                    chars.next();
                    name.push('`');
                }
                ('`', _) => {
                    self.at += i + 1;
                    return Ok(name);
                }
                (c, _) => name.push(c),
            }
        }
        Err(self.error_at(start, "the quoted name does not end"))
    }

    fn timestamp(&mut self) -> Result<DataType, TypeError> {
        self.expect('(', "and a unit, as in `timestamp(ms)`")?;
        self.blanks();
        let start = self.at;
        let unit = self.word();
        let Some((_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(
                self.error_at(start, format!("the unit of a timestamp is s, ms, us or ns, not `{unit}`"))
            );
        };
        self.expect(')', "behind the unit")?;
        Ok(DataType::Timestamp(*unit, Some("UTC".into())))
    }

    fn decimal(&mut self) -> Result<DataType, TypeError> {
        self.expect('(', "and precision and scale, as in `decimal(10,2)`")?;
        let precision = self.number("the precision (digits in all)", 1, DECIMAL128_MAX_PRECISION)?;
        self.expect(',', "and the scale (digits behind the point)")?;
        let scale = self.number("the scale (digits behind the point)", 0, precision)?;
        self.expect(')', "behind the scale")?;
        // At most 38, so the cast cannot wrap.
        Ok(DataType::Decimal128(precision, scale.cast_signed()))
    }

    fn number(&mut self, what: &str, min: u8, max: u8) -> Result<u8, TypeError> {
        self.blanks();
        let start = self.at;
        match self.word().parse() {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            _ => Err(self.error_at(start, format!("{what} is a number from {min} to {max}"))),
        }
    }
}

/// `; did you mean …?`, or nothing.
fn suggestion(word: &str) -> String {
    let lower = word.to_lowercase();
    if let Some((_, meant)) = ALIASES.iter().find(|(alias, _)| *alias == lower) {
        return format!("; did you mean `{meant}`?");
    }
    let known =
        SIMPLE.iter().map(|(name, _)| *name).chain(["timestamp(ms)", "decimal(18,2)", "list<string>"]);
    let nearest = known
        .map(|name| (strsim::jaro_winkler(&lower, name), name))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .filter(|(likeness, _)| *likeness > 0.75);
    match nearest {
        Some((_, name)) => format!("; did you mean `{name}`?"),
        None => format!(
            "; known are {}, timestamp(s|ms|us|ns), decimal(precision,scale), list<type>, struct<name:type,…>",
            SIMPLE.map(|(name, _)| name).join(", ")
        ),
    }
}
