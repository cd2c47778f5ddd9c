//! Bucket templates: one text for each level, such as `dt={ts:%Y-%m-%d}` or `country={country}`.
//!
//! ```text
//!  level      name "=" "{" source "}"
//!  source     field                      the value itself; the field leaves the file
//!             field ":" format           a time, formatted as strftime does; the field stays
//!             "arrival" ":" format       when the row was taken in, unless a field has that name
//!  name       1 to 54 of A-Z a-z 0-9 _ . -, not starting with "_" or "."
//! ```
//!
//! A level holds exactly one value, so that two pairs of values cannot meet in one name (B2), and it
//! is called `name=`, so that readers see a Hive partition.
//!
//! Fields of a level may be texts, booleans, integers, decimals and dates. Floats are refused, since
//! they do not come back exactly; times need a format.

use std::sync::Arc;
use std::sync::Mutex;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use super::Assigned;
use super::BucketAssigner;
use super::BucketKey;
use super::assign;
use super::assign::Times;
use super::escape;
use crate::error::Error;
use crate::error::Result;

/// Longest level name: with a value of at most 200 bytes a folder name stays below 255.
const NAME_BYTES_MAX: usize = 54;
/// More levels than this are a mistake.
const LEVELS_MAX: usize = 16;

/// The levels of a table's folders, bound to the schema of its rows.
#[derive(Debug)]
pub struct BucketTemplate {
    schema: SchemaRef,
    levels: Vec<Level>,
    /// As it was written, with the zone.
    text: String,
}

/// One level of folders.
#[derive(Debug)]
pub(super) struct Level {
    /// What stands before the value: the name and `=`.
    pub(super) prefix: String,
    pub(super) value: LevelValue,
}

/// Where the value of a level comes from.
#[derive(Debug)]
pub(super) enum LevelValue {
    /// The field's value; the field leaves the file.
    Field { column: usize },
    /// The field's time.
    Time { column: usize, format: TimeFormat, seen: Mutex<Times> },
    /// The time at which the row arrived.
    Arrival { format: TimeFormat },
}

/// A strftime format in a time zone.
#[derive(Debug, Clone)]
pub(super) struct TimeFormat {
    text: String,
    zone: TimeZone,
    /// Seconds for which the text usually stays the same, counted in UTC; `None` below a second.
    pub(super) slot_s: Option<i64>,
}

impl BucketTemplate {
    /// Binds the levels `partition_by`, outermost first, to rows of `schema`; times are told in `zone`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], naming the level and what is wrong with it.
    pub fn new(partition_by: &[impl AsRef<str>], zone: &TimeZone, schema: &SchemaRef) -> Result<Self> {
        let texts: Vec<&str> = partition_by.iter().map(AsRef::as_ref).collect();
        if texts.len() > LEVELS_MAX {
            return Err(Error::usage(format!("partition_by has more than {LEVELS_MAX} levels")));
        }
        let mut levels = Vec::with_capacity(texts.len());
        for text in &texts {
            let level = Level::parse(text, zone, schema)
                .map_err(|problem| Error::usage(format!("partition_by level {text:?}: {problem}")))?;
            levels.push(level);
        }
        let template =
            Self { schema: Arc::clone(schema), levels, text: format!("{texts:?} {}", zone_name(zone)) };
        template.check_names()?;
        Ok(template)
    }

    /// One level for each of `fields`, named like it.
    ///
    /// # Errors
    ///
    /// As [`BucketTemplate::new`].
    pub fn by_fields(fields: &[impl AsRef<str>], schema: &SchemaRef) -> Result<Self> {
        let levels: Vec<String> = fields.iter().map(|field| format!("{0}={{{0}}}", field.as_ref())).collect();
        Self::new(&levels, &TimeZone::UTC, schema)
    }

    /// Days `dt=2026-01-31` and hours `hour=07` of the time in `field`, told in `zone`.
    ///
    /// # Errors
    ///
    /// As [`BucketTemplate::new`].
    pub fn by_hour(field: &str, zone: &TimeZone, schema: &SchemaRef) -> Result<Self> {
        Self::new(&[format!("dt={{{field}:%Y-%m-%d}}"), format!("hour={{{field}:%H}}")], zone, schema)
    }

    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Columns that readers see twice, or not at all, are refused.
    fn check_names(&self) -> Result<()> {
        let mut names: Vec<String> = Vec::new();
        let mut in_path = Vec::new();
        for level in &self.levels {
            let name = level.prefix.trim_end_matches('=').to_lowercase();
            if names.contains(&name) {
                return Err(Error::usage(format!("partition_by has two levels called {name:?}")));
            }
            names.push(name);
            if let LevelValue::Field { column } = level.value {
                if in_path.contains(&column) {
                    let field = self.schema.field(column).name();
                    return Err(Error::usage(format!("partition_by uses the field {field:?} twice")));
                }
                in_path.push(column);
            }
        }
        for (column, field) in self.schema.fields().iter().enumerate() {
            if names.contains(&field.name().to_lowercase()) && !in_path.contains(&column) {
                return Err(Error::usage(format!(
                    "partition_by has a level called {:?}, and so is a field that stays in the files: \
                     readers would see two columns of that name; call the level otherwise",
                    field.name()
                )));
            }
        }
        if !self.schema.fields().is_empty() && in_path.len() == self.schema.fields().len() {
            return Err(Error::usage("partition_by takes every field out of the files: none would be left"));
        }
        Ok(())
    }
}

impl BucketAssigner for BucketTemplate {
    fn assign(&self, batch: &RecordBatch, arrival: Timestamp) -> Result<Assigned> {
        if batch.num_columns() != self.schema.fields().len() {
            return Err(Error::fatal("a batch does not have the schema that its buckets were made for"));
        }
        assign::assign(self, batch, arrival)
    }

    fn columns(&self, bucket: &BucketKey) -> Vec<usize> {
        let mut told = Vec::new();
        for (level, folder) in self.levels.iter().zip(bucket.levels()) {
            if let LevelValue::Field { column } = level.value {
                let value = folder.strip_prefix(&level.prefix).unwrap_or(folder);
                if !escape::is_cut(value) {
                    told.push(column);
                }
            }
        }
        (0..self.schema.fields().len()).filter(|column| !told.contains(column)).collect()
    }

    fn usual_columns(&self) -> Vec<usize> {
        let told = |column: &usize| {
            self.levels
                .iter()
                .any(|level| matches!(level.value, LevelValue::Field { column: c } if c == *column))
        };
        (0..self.schema.fields().len()).filter(|column| !told(column)).collect()
    }

    fn fingerprint(&self) -> String {
        self.text.clone()
    }
}

impl Level {
    fn parse(text: &str, zone: &TimeZone, schema: &Schema) -> Result<Self, String> {
        const SHAPE: &str = "a level is name={field}, name={field:format} or name={arrival:format}";
        let (name, rest) = text.split_once('=').ok_or(SHAPE)?;
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if name.is_empty() || !name.chars().all(good) {
            return Err(format!("{name:?} is no name for a level: use letters, digits, _, . and -"));
        }
        if name.starts_with(['_', '.']) {
            return Err(format!("{name:?}: readers skip folders whose name starts with _ or ."));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("{name:?} is longer than {NAME_BYTES_MAX} bytes"));
        }
        let source = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or(SHAPE)?;
        if source.contains(['{', '}']) {
            return Err(format!("a level holds one value; {SHAPE}"));
        }
        let (field, format) = match source.split_once(':') {
            Some((field, format)) => (field, Some(format)),
            None => (source, None),
        };
        let column = schema.fields().iter().position(|known| known.name() == field);
        let value = match (column, format) {
            (None, Some(format)) if field == "arrival" => {
                LevelValue::Arrival { format: TimeFormat::parse(format, zone)? }
            }
            (None, None) if field == "arrival" => {
                return Err("the arrival time needs a format, such as {arrival:%Y-%m-%d}".to_owned());
            }
            (None, _) => {
                let known: Vec<&str> = schema.fields().iter().map(|known| known.name().as_str()).collect();
                return Err(format!("there is no field {field:?}; there are {}", known.join(", ")));
            }
            (Some(column), Some(format)) => {
                match schema.field(column).data_type() {
                    DataType::Timestamp(..) | DataType::Date32 => {}
                    other => return Err(format!("{field} is {other}; only times and dates take a format")),
                }
                let format = TimeFormat::parse(format, zone)?;
                LevelValue::Time { column, format, seen: Mutex::default() }
            }
            (Some(column), None) => {
                assign::check_type(field, schema.field(column).data_type())?;
                LevelValue::Field { column }
            }
        };
        Ok(Self { prefix: format!("{name}="), value })
    }
}

impl TimeFormat {
    fn parse(text: &str, zone: &TimeZone) -> Result<Self, String> {
        let format = Self { text: text.to_owned(), zone: zone.clone(), slot_s: slot_s(text) };
        match format.text(Timestamp::UNIX_EPOCH) {
            Ok(sample) if sample.is_empty() => Err("the format is empty".to_owned()),
            Ok(_) => Ok(format),
            Err(problem) => Err(format!("format {text:?}: {problem}")),
        }
    }

    /// The text for `instant`.
    pub(super) fn text(&self, instant: Timestamp) -> Result<String, String> {
        let zoned = instant.to_zoned_datetime(self.zone.clone());
        BrokenDownTime::from(&zoned).to_string(&self.text).map_err(|error| error.to_string())
    }

    /// The text for a field's value: dates (`date`) have no zone, they are told as they are.
    pub(super) fn told(&self, instant: Timestamp, date: bool) -> Result<String, String> {
        if !date {
            return self.text(instant);
        }
        let day = instant.to_zoned_datetime(TimeZone::UTC);
        BrokenDownTime::from(&day).to_string(&self.text).map_err(|error| error.to_string())
    }

    /// Seconds by which local time is ahead of UTC at `instant`.
    pub(super) fn offset_s(&self, instant: Timestamp) -> i32 {
        self.zone.to_offset(instant).seconds()
    }
}

/// For how many seconds, counted in UTC, a text of `format` usually stays the same.
///
/// Offsets of zones are multiples of a quarter of an hour today; where they are not,
/// [`Times`] finds out and asks for each row.
fn slot_s(format: &str) -> Option<i64> {
    const QUARTER_HOUR_S: i64 = 900;
    let mut slot_s = QUARTER_HOUR_S;
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        let directive = characters
            .find(|c| !c.is_ascii_digit() && !matches!(c, '-' | '_' | '^' | '#' | ':'))
            .unwrap_or('%');
        let grain_s = match directive {
            'A' | 'a' | 'B' | 'b' | 'h' | 'C' | 'D' | 'd' | 'e' | 'F' | 'G' | 'g' | 'j' | 'm' | 'U' | 'u'
            | 'V' | 'W' | 'w' | 'Y' | 'y' | 'q' | 'Z' | 'z' | 'Q' | 'H' | 'I' | 'k' | 'l' | 'P' | 'p'
            | 'n' | 't' | '%' => QUARTER_HOUR_S,
            'M' | 'R' => 60,
            'S' | 's' | 'T' | 'X' | 'c' | 'r' => 1,
            _ => return None,
        };
        slot_s = slot_s.min(grain_s);
    }
    Some(slot_s)
}

fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().map_or_else(|| format!("{zone:?}"), str::to_owned)
}
