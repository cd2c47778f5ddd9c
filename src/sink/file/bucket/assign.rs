//! Sorts the rows of a batch into buckets.
//!
//! Each level gives every row a small number, one for each folder name that occurs in the batch; the
//! numbers of the levels are combined, and rows are counted into place. So a name is formatted once
//! for each value and batch, not once for each row, and a time once for each slot of its format.

use std::collections::HashMap;
use std::collections::hash_map;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::PoisonError;

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::AsArray;
use arrow::array::RecordBatch;
use arrow::array::UInt32Array;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use arrow::datatypes::Date32Type;
use arrow::datatypes::Decimal128Type;
use arrow::datatypes::Int8Type;
use arrow::datatypes::Int16Type;
use arrow::datatypes::Int32Type;
use arrow::datatypes::Int64Type;
use arrow::datatypes::TimeUnit;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::datatypes::TimestampMillisecondType;
use arrow::datatypes::TimestampNanosecondType;
use arrow::datatypes::TimestampSecondType;
use arrow::datatypes::UInt8Type;
use arrow::datatypes::UInt16Type;
use arrow::datatypes::UInt32Type;
use arrow::datatypes::UInt64Type;
use arrow::util::display::ArrayFormatter;
use arrow::util::display::FormatOptions;
use jiff::Timestamp;

use super::Assigned;
use super::BucketKey;
use super::BucketRows;
use super::Unplaced;
use super::escape::NULL_NAME;
use super::escape::escape;
use super::template::BucketTemplate;
use super::template::Level;
use super::template::LevelValue;
use super::template::TimeFormat;
use crate::error::Error;
use crate::error::Result;

/// A folder name of a level, or why the row has none.
type Name = Result<Arc<str>, Arc<str>>;

/// Combined numbers up to this are looked up in a table, above in a map.
const TABLE_MAX: usize = 1 << 16;
/// Slots of time remembered between batches: a year of quarters of an hour.
const SLOTS_MAX: usize = 366 * 96;
/// Not a number that a row can have.
const NONE: u32 = u32::MAX;

/// Rows of a batch; more than `u32` counts are a fault of the program.
pub(super) fn row_count(batch: &RecordBatch) -> Result<u32> {
    u32::try_from(batch.num_rows()).map_err(|_| Error::fatal("a batch of more than 4,294,967,295 rows"))
}

/// The numbers of all rows in a level, and the name that each number stands for.
struct Codes {
    codes: Vec<u32>,
    names: Names,
}

/// Names in the order in which they first occurred, each once.
#[derive(Default)]
struct Names {
    names: Vec<Name>,
    known: HashMap<Name, u32>,
}

impl Names {
    fn code(&mut self, name: &Name) -> u32 {
        if let Some(code) = self.known.get(name) {
            return *code;
        }
        // At most as many names as rows, which fit.
        let code = u32::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(name.clone());
        self.known.insert(name.clone(), code);
        code
    }
}

pub(super) fn assign(template: &BucketTemplate, batch: &RecordBatch, arrival: Timestamp) -> Result<Assigned> {
    let rows = row_count(batch)?;
    let levels = template
        .levels()
        .iter()
        .map(|level| level_codes(level, batch, arrival))
        .collect::<Result<Vec<_>>>()?;
    let (combined, groups) = combine(&levels, batch.num_rows());

    // The first row of each group tells its name on every level.
    let mut first = vec![NONE; groups];
    let mut count = vec![0_usize; groups];
    for (row, group) in (0..rows).zip(&combined) {
        let group = *group as usize;
        if count[group] == 0 {
            first[group] = row;
        }
        count[group] += 1;
    }
    let mut start = Vec::with_capacity(groups);
    let mut total = 0;
    for count in &count {
        start.push(total);
        total += count;
    }
    let mut sorted = vec![0_u32; total];
    let mut next = start.clone();
    for (row, group) in (0..rows).zip(&combined) {
        let place = &mut next[*group as usize];
        sorted[*place] = row;
        *place += 1;
    }
    let sorted = ScalarBuffer::from(sorted);

    let mut assigned = Assigned::default();
    for group in 0..groups {
        let rows = sorted.slice(start[group], count[group]);
        match path(&levels, first[group] as usize) {
            Ok(path) => assigned
                .buckets
                .push(BucketRows { bucket: BucketKey::new(path)?, rows: UInt32Array::new(rows, None) }),
            Err(reason) => assigned
                .unplaced
                .extend(rows.iter().map(|row| Unplaced { row: *row, reason: reason.as_ref().to_owned() })),
        }
    }
    assigned.unplaced.sort_by_key(|unplaced| unplaced.row);
    Ok(assigned)
}

fn path(levels: &[Codes], row: usize) -> Result<String, Arc<str>> {
    let mut path = String::new();
    for level in levels {
        let name = level.names.names[level.codes[row] as usize].clone()?;
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(&name);
    }
    Ok(path)
}

/// One number for each row over all levels, dense, in the order of first occurrence; and how many.
fn combine(levels: &[Codes], rows: usize) -> (Vec<u32>, usize) {
    let Some((outer, inner)) = levels.split_first() else {
        return (vec![0; rows], usize::from(rows > 0));
    };
    let mut combined = outer.codes.clone();
    let mut groups = outer.names.names.len();
    for level in inner {
        let width = level.names.names.len();
        let mut dense = 0_u32;
        if groups.saturating_mul(width) <= TABLE_MAX.max(4 * rows) {
            let mut table = vec![NONE; groups * width];
            for (group, code) in combined.iter_mut().zip(&level.codes) {
                let known = &mut table[*group as usize * width + *code as usize];
                if *known == NONE {
                    *known = dense;
                    dense += 1;
                }
                *group = *known;
            }
        } else {
            let mut map: HashMap<u64, u32, Quick> = HashMap::default();
            for (group, code) in combined.iter_mut().zip(&level.codes) {
                *group = *map.entry((u64::from(*group) << 32) | u64::from(*code)).or_insert_with(|| {
                    dense += 1;
                    dense - 1
                });
            }
        }
        groups = dense as usize;
    }
    (combined, groups)
}

fn level_codes(level: &Level, batch: &RecordBatch, arrival: Timestamp) -> Result<Codes> {
    let rows = batch.num_rows();
    match &level.value {
        LevelValue::Arrival { format } => {
            let mut names = Names::default();
            let text = format.text(arrival).map_err(Error::fatal)?;
            let code = names.code(&name(&level.prefix, &text));
            Ok(Codes { codes: vec![code; rows], names })
        }
        LevelValue::Time { column, format, seen } => {
            let times = Column::ticks(batch.column(*column))?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(seen.codes(level, format, &times))
        }
        LevelValue::Field { column } => {
            let field = batch.schema_ref().field(*column).name().clone();
            field_codes(&level.prefix, &field, batch.column(*column))
        }
    }
}

/// The folder name of `text`.
fn name(prefix: &str, text: &str) -> Name {
    match escape(text) {
        Some(escaped) => Ok(Arc::from(format!("{prefix}{escaped}"))),
        None => Err(Arc::from(format!("{text:?} is the reserved name of the bucket without a value"))),
    }
}

/// Integers hash by one multiplication: the keys are not chosen to collide, and there is one a row.
#[derive(Default)]
pub(super) struct QuickHasher(u64);
type Quick = BuildHasherDefault<QuickHasher>;

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }
}

/// A column of times.
struct Column {
    ticks: ScalarBuffer<i64>,
    ticks_per_s: i64,
    array: ArrayRef,
}

impl Column {
    fn ticks(array: &ArrayRef) -> Result<Self> {
        let (ticks, ticks_per_s) = match array.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                (array.as_primitive::<TimestampSecondType>().values().clone(), 1)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                (array.as_primitive::<TimestampMillisecondType>().values().clone(), 1_000)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (array.as_primitive::<TimestampMicrosecondType>().values().clone(), 1_000_000)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                (array.as_primitive::<TimestampNanosecondType>().values().clone(), 1_000_000_000)
            }
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>().values();
                (days.iter().map(|day| i64::from(*day) * 86_400).collect(), 1)
            }
            other => {
                return Err(Error::fatal(format!("a bucket level over a time found a column of {other}")));
            }
        };
        Ok(Self { ticks, ticks_per_s, array: Arc::clone(array) })
    }

    fn instant(&self, tick: i64) -> Option<Timestamp> {
        let nanos = i128::from(tick) * i128::from(1_000_000_000 / self.ticks_per_s);
        Timestamp::from_nanosecond(nanos).ok()
    }
}

/// What is known of the slots of time seen so far, by number of the slot since 1970.
#[derive(Debug, Default)]
pub(super) struct Times {
    slots: HashMap<i64, Slot, Quick>,
}

#[derive(Debug, Clone)]
enum Slot {
    /// One name for the whole slot.
    Whole(Name),
    /// The local time jumps, or a name changes, inside it: each row is asked.
    Split,
}

impl Times {
    fn codes(&mut self, level: &Level, format: &TimeFormat, column: &Column) -> Codes {
        let mut names = Names::default();
        let mut codes = Vec::with_capacity(column.ticks.len());
        let nulls = column.array.nulls().filter(|nulls| nulls.null_count() > 0);
        // `Date32` counts local days: a date has no zone to be told in, its slot is never split.
        let date = matches!(column.array.data_type(), DataType::Date32);
        let slot_ticks = format.slot_s.and_then(|slot_s| slot_s.checked_mul(column.ticks_per_s));
        let mut in_batch: HashMap<i64, u32, Quick> = HashMap::default();
        // The span of ticks of the row before, and its number: neighbours are mostly alike.
        let (mut from, mut to, mut last) = (1_i64, 0_i64, NONE);
        for (row, tick) in column.ticks.iter().copied().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                codes.push(names.code(&Ok(Arc::from(format!("{}{NULL_NAME}", level.prefix)))));
                continue;
            }
            if from <= tick && tick <= to {
                codes.push(last);
                continue;
            }
            let row_name = |tick| match column.instant(tick) {
                Some(instant) => match format.told(instant, date) {
                    Ok(text) => name(&level.prefix, &text),
                    Err(problem) => Err(Arc::from(problem)),
                },
                None => Err(Arc::from(format!("the time {tick} is outside of the years that have names"))),
            };
            let Some(slot_ticks) = slot_ticks else {
                codes.push(names.code(&row_name(tick)));
                continue;
            };
            let slot = tick.div_euclid(slot_ticks);
            if let Some(code) = in_batch.get(&slot) {
                last = *code;
            } else {
                let known = self.slot(slot, || {
                    let first = slot.checked_mul(slot_ticks)?;
                    let end = first.checked_add(slot_ticks - 1)?;
                    let (a, b) = (column.instant(first)?, column.instant(end)?);
                    let (name_a, name_b) = (row_name(first), row_name(end));
                    let whole = name_a == name_b && (date || format.offset_s(a) == format.offset_s(b));
                    whole.then_some(name_a)
                });
                match known {
                    Slot::Whole(name) => {
                        last = names.code(&name);
                        in_batch.insert(slot, last);
                    }
                    Slot::Split => {
                        codes.push(names.code(&row_name(tick)));
                        continue;
                    }
                }
            }
            (from, to) = (slot * slot_ticks, slot * slot_ticks + (slot_ticks - 1));
            codes.push(last);
        }
        Codes { codes, names }
    }

    fn slot(&mut self, number: i64, judge: impl FnOnce() -> Option<Name>) -> Slot {
        if self.slots.len() >= SLOTS_MAX {
            self.slots.clear();
        }
        match self.slots.entry(number) {
            hash_map::Entry::Occupied(known) => known.get().clone(),
            hash_map::Entry::Vacant(free) => free.insert(judge().map_or(Slot::Split, Slot::Whole)).clone(),
        }
    }
}

/// Refuses types whose values do not come back from a folder name.
pub(super) fn check_type(field: &str, data_type: &DataType) -> Result<(), String> {
    match data_type {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Boolean
        | DataType::Date32
        | DataType::Decimal128(..) => Ok(()),
        integer if integer.is_integer() => Ok(()),
        DataType::Timestamp(..) => {
            Err(format!("{field} is a time; give it a format, such as {{{field}:%Y-%m-%d}}"))
        }
        other => Err(format!(
            "{field} is {other}; a level takes texts, booleans, integers, decimals, dates, and times with a format"
        )),
    }
}

fn field_codes(prefix: &str, field: &str, array: &ArrayRef) -> Result<Codes> {
    match array.data_type() {
        DataType::Utf8 => Ok(text_codes(prefix, field, array.as_string::<i32>().iter())),
        DataType::LargeUtf8 => Ok(text_codes(prefix, field, array.as_string::<i64>().iter())),
        DataType::Utf8View => Ok(text_codes(prefix, field, array.as_string_view().iter())),
        DataType::Boolean => {
            let values = array.as_boolean().iter().map(|value| value.map(i128::from));
            number_codes(prefix, array, values)
        }
        DataType::Int8 => numbers::<Int8Type>(prefix, array),
        DataType::Int16 => numbers::<Int16Type>(prefix, array),
        DataType::Int32 => numbers::<Int32Type>(prefix, array),
        DataType::Int64 => numbers::<Int64Type>(prefix, array),
        DataType::UInt8 => numbers::<UInt8Type>(prefix, array),
        DataType::UInt16 => numbers::<UInt16Type>(prefix, array),
        DataType::UInt32 => numbers::<UInt32Type>(prefix, array),
        DataType::UInt64 => numbers::<UInt64Type>(prefix, array),
        DataType::Date32 => numbers::<Date32Type>(prefix, array),
        DataType::Decimal128(..) => numbers::<Decimal128Type>(prefix, array),
        other => Err(Error::fatal(format!("a bucket level over {field} found a column of {other}"))),
    }
}

fn text_codes<'a>(prefix: &str, field: &str, values: impl Iterator<Item = Option<&'a str>>) -> Codes {
    let mut names = Names::default();
    let mut known: HashMap<Option<&str>, u32> = HashMap::new();
    let mut last = (None, NONE);
    let codes = values.map(|value| {
        if last.1 == NONE || last.0 != value {
            let code = *known.entry(value).or_insert_with(|| {
                let name = name(prefix, value.unwrap_or_default());
                names.code(&name.map_err(|reason| Arc::from(format!("field {field}: {reason}"))))
            });
            last = (value, code);
        }
        last.1
    });
    let codes = codes.collect();
    Codes { codes, names }
}

fn numbers<T>(prefix: &str, array: &ArrayRef) -> Result<Codes>
where
    T: arrow::datatypes::ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    number_codes(prefix, array, array.as_primitive::<T>().iter().map(|value| value.map(Into::into)))
}

/// Numbers, looked up by value and written once as arrow displays them.
fn number_codes(prefix: &str, array: &ArrayRef, values: impl Iterator<Item = Option<i128>>) -> Result<Codes> {
    let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())
        .map_err(|error| Error::fatal("values of a bucket level").with_source(error))?;
    let mut names = Names::default();
    let mut known: HashMap<Option<i128>, u32> = HashMap::new();
    let mut last = (None, NONE);
    let mut codes = Vec::with_capacity(array.len());
    for (row, value) in values.enumerate() {
        if last.1 == NONE || last.0 != value {
            let code = match known.entry(value) {
                hash_map::Entry::Occupied(known) => *known.get(),
                hash_map::Entry::Vacant(free) => {
                    let text = match value {
                        Some(_) => formatter
                            .value(row)
                            .try_to_string()
                            .map_err(|error| Error::fatal("a value of a bucket level").with_source(error))?,
                        None => String::new(),
                    };
                    *free.insert(names.code(&name(prefix, &text)))
                }
            };
            last = (value, code);
        }
        codes.push(last.1);
    }
    Ok(Codes { codes, names })
}
