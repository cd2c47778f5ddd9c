//! Columns that grow value by value and can forget their last row.
//!
//! Owns the memory of a batch in the making. Does not own where values come from (`ndjson`, `csv`).
//!
//! A row that turns out bad in its fifth field has left values in four columns: [`Column::truncate`]
//! takes them back, so that a verdict on one record never touches another.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::ArrowPrimitiveType;
use arrow::array::BinaryArray;
use arrow::array::BooleanArray;
use arrow::array::LargeStringArray;
use arrow::array::ListArray;
use arrow::array::OffsetSizeTrait;
use arrow::array::PrimitiveArray;
use arrow::array::StringArray;
use arrow::array::StructArray;
use arrow::array::types::Date32Type;
use arrow::array::types::Decimal128Type;
use arrow::array::types::Float32Type;
use arrow::array::types::Float64Type;
use arrow::array::types::Int8Type;
use arrow::array::types::Int16Type;
use arrow::array::types::Int32Type;
use arrow::array::types::Int64Type;
use arrow::array::types::TimestampMicrosecondType;
use arrow::array::types::TimestampMillisecondType;
use arrow::array::types::TimestampNanosecondType;
use arrow::array::types::TimestampSecondType;
use arrow::array::types::UInt8Type;
use arrow::array::types::UInt16Type;
use arrow::array::types::UInt32Type;
use arrow::array::types::UInt64Type;
use arrow::buffer::BooleanBuffer;
use arrow::buffer::Buffer;
use arrow::buffer::NullBuffer;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::ArrowNativeType;
use arrow::datatypes::DataType;
use arrow::datatypes::FieldRef;
use arrow::datatypes::Fields;
use arrow::datatypes::TimeUnit;
use arrow::error::ArrowError;

/// One column of any type that `schema` knows.
#[derive(Debug)]
pub(super) enum Column {
    Boolean(Booleans),
    Int8(Values<i8>),
    Int16(Values<i16>),
    Int32(Values<i32>),
    Int64(Values<i64>),
    UInt8(Values<u8>),
    UInt16(Values<u16>),
    UInt32(Values<u32>),
    UInt64(Values<u64>),
    Float32(Values<f32>),
    Float64(Values<f64>),
    Date(Values<i32>),
    Timestamp(TimeUnit, Values<i64>),
    Decimal(u8, i8, Values<i128>),
    Text(Bytes<i32>),
    Json(Bytes<i64>),
    Binary(Bytes<i32>),
    List(Box<List>),
    Struct(Box<Struct>),
}

/// Runs `$body` with `$part` bound to what is inside the variant.
macro_rules! each {
    ($column:expr, $part:ident => $body:expr) => {
        match $column {
            Column::Boolean($part) => $body,
            Column::Int8($part) => $body,
            Column::Int16($part) => $body,
            Column::Int32($part) | Column::Date($part) => $body,
            Column::Int64($part) | Column::Timestamp(_, $part) => $body,
            Column::UInt8($part) => $body,
            Column::UInt16($part) => $body,
            Column::UInt32($part) => $body,
            Column::UInt64($part) => $body,
            Column::Float32($part) => $body,
            Column::Float64($part) => $body,
            Column::Decimal(_, _, $part) => $body,
            Column::Text($part) | Column::Binary($part) => $body,
            Column::Json($part) => $body,
            Column::List($part) => $body,
            Column::Struct($part) => $body,
        }
    };
}

impl Column {
    /// An empty column; `None` for a type that records cannot have.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean(Booleans::default()),
            DataType::Int8 => Self::Int8(Values::default()),
            DataType::Int16 => Self::Int16(Values::default()),
            DataType::Int32 => Self::Int32(Values::default()),
            DataType::Int64 => Self::Int64(Values::default()),
            DataType::UInt8 => Self::UInt8(Values::default()),
            DataType::UInt16 => Self::UInt16(Values::default()),
            DataType::UInt32 => Self::UInt32(Values::default()),
            DataType::UInt64 => Self::UInt64(Values::default()),
            DataType::Float32 => Self::Float32(Values::default()),
            DataType::Float64 => Self::Float64(Values::default()),
            DataType::Date32 => Self::Date(Values::default()),
            DataType::Timestamp(unit, Some(_)) => Self::Timestamp(*unit, Values::default()),
            DataType::Decimal128(precision, scale) => Self::Decimal(*precision, *scale, Values::default()),
            DataType::Utf8 => Self::Text(Bytes::default()),
            DataType::LargeUtf8 => Self::Json(Bytes::default()),
            DataType::Binary => Self::Binary(Bytes::default()),
            DataType::List(item) => Self::List(Box::new(List::new(item)?)),
            DataType::Struct(fields) => Self::Struct(Box::new(Struct::new(fields)?)),
            _ => return None,
        })
    }

    /// The type of its values.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self::Boolean(_) => DataType::Boolean,
            Self::Int8(_) => DataType::Int8,
            Self::Int16(_) => DataType::Int16,
            Self::Int32(_) => DataType::Int32,
            Self::Int64(_) => DataType::Int64,
            Self::UInt8(_) => DataType::UInt8,
            Self::UInt16(_) => DataType::UInt16,
            Self::UInt32(_) => DataType::UInt32,
            Self::UInt64(_) => DataType::UInt64,
            Self::Float32(_) => DataType::Float32,
            Self::Float64(_) => DataType::Float64,
            Self::Date(_) => DataType::Date32,
            Self::Timestamp(unit, _) => DataType::Timestamp(*unit, Some("UTC".into())),
            Self::Decimal(precision, scale, _) => DataType::Decimal128(*precision, *scale),
            Self::Text(_) => DataType::Utf8,
            Self::Json(_) => DataType::LargeUtf8,
            Self::Binary(_) => DataType::Binary,
            Self::List(list) => DataType::List(list.item.clone()),
            Self::Struct(part) => DataType::Struct(part.record.types.clone()),
        }
    }

    /// Appends a null.
    pub(super) fn push_null(&mut self) {
        each!(self, part => part.push_null());
    }

    /// Forgets all rows but the first `len`, and values that belong to no row.
    pub(super) fn truncate(&mut self, len: usize) {
        each!(self, part => part.truncate(len));
    }

    /// The rows as an array; the column is empty afterwards.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Boolean(part) => Arc::new(part.finish()),
            Self::Int8(part) => Arc::new(part.finish::<Int8Type>()?),
            Self::Int16(part) => Arc::new(part.finish::<Int16Type>()?),
            Self::Int32(part) => Arc::new(part.finish::<Int32Type>()?),
            Self::Int64(part) => Arc::new(part.finish::<Int64Type>()?),
            Self::UInt8(part) => Arc::new(part.finish::<UInt8Type>()?),
            Self::UInt16(part) => Arc::new(part.finish::<UInt16Type>()?),
            Self::UInt32(part) => Arc::new(part.finish::<UInt32Type>()?),
            Self::UInt64(part) => Arc::new(part.finish::<UInt64Type>()?),
            Self::Float32(part) => Arc::new(part.finish::<Float32Type>()?),
            Self::Float64(part) => Arc::new(part.finish::<Float64Type>()?),
            Self::Date(part) => Arc::new(part.finish::<Date32Type>()?),
            Self::Timestamp(unit, part) => match unit {
                TimeUnit::Second => Arc::new(part.finish::<TimestampSecondType>()?.with_timezone("UTC")),
                TimeUnit::Millisecond => {
                    Arc::new(part.finish::<TimestampMillisecondType>()?.with_timezone("UTC"))
                }
                TimeUnit::Microsecond => {
                    Arc::new(part.finish::<TimestampMicrosecondType>()?.with_timezone("UTC"))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(part.finish::<TimestampNanosecondType>()?.with_timezone("UTC"))
                }
            },
            Self::Decimal(precision, scale, part) => {
                let values = part.finish::<Decimal128Type>()?;
                Arc::new(values.with_precision_and_scale(*precision, *scale)?)
            }
            Self::Text(part) => {
                let (offsets, values, nulls) = part.finish();
                Arc::new(StringArray::try_new(offsets, values, nulls)?)
            }
            Self::Json(part) => {
                let (offsets, values, nulls) = part.finish();
                Arc::new(LargeStringArray::try_new(offsets, values, nulls)?)
            }
            Self::Binary(part) => {
                let (offsets, values, nulls) = part.finish();
                Arc::new(BinaryArray::try_new(offsets, values, nulls)?)
            }
            Self::List(part) => Arc::new(part.finish()?),
            Self::Struct(part) => Arc::new(part.finish()?),
        })
    }
}

/// Which values are not null; no bitmap is made before the first null.
#[derive(Debug, Default)]
struct Validity {
    bits: Option<Vec<bool>>,
}

impl Validity {
    #[inline]
    fn push_valid(&mut self) {
        if let Some(bits) = &mut self.bits {
            bits.push(true);
        }
    }

    /// `len` values are there already.
    fn push_null(&mut self, len: usize) {
        self.bits.get_or_insert_with(|| vec![true; len]).push(false);
    }

    fn truncate(&mut self, len: usize) {
        if let Some(bits) = &mut self.bits {
            bits.truncate(len);
        }
    }

    fn finish(&mut self) -> Option<NullBuffer> {
        let bits = self.bits.take()?;
        Some(NullBuffer::new(BooleanBuffer::from(bits))).filter(|nulls| nulls.null_count() > 0)
    }
}

/// Values of a fixed width.
#[derive(Debug, Default)]
pub(super) struct Values<N> {
    values: Vec<N>,
    validity: Validity,
}

impl<N: ArrowNativeType> Values<N> {
    #[inline]
    pub(super) fn push(&mut self, value: N) {
        self.values.push(value);
        self.validity.push_valid();
    }

    fn push_null(&mut self) {
        self.validity.push_null(self.values.len());
        self.values.push(N::default());
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.validity.truncate(len);
    }

    fn finish<T: ArrowPrimitiveType<Native = N>>(&mut self) -> Result<PrimitiveArray<T>, ArrowError> {
        let capacity = self.values.len();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(capacity));
        PrimitiveArray::try_new(values.into(), self.validity.finish())
    }
}

/// True and false.
#[derive(Debug, Default)]
pub(super) struct Booleans {
    values: Vec<bool>,
    validity: Validity,
}

impl Booleans {
    #[inline]
    pub(super) fn push(&mut self, value: bool) {
        self.values.push(value);
        self.validity.push_valid();
    }

    fn push_null(&mut self) {
        self.validity.push_null(self.values.len());
        self.values.push(false);
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.validity.truncate(len);
    }

    fn finish(&mut self) -> BooleanArray {
        let values = std::mem::take(&mut self.values);
        BooleanArray::new(BooleanBuffer::from(values), self.validity.finish())
    }
}

/// Values of any length, one behind the other.
#[derive(Debug)]
pub(super) struct Bytes<O> {
    /// End of each value, behind a 0.
    ends: Vec<O>,
    values: Vec<u8>,
    validity: Validity,
}

impl<O: OffsetSizeTrait> Default for Bytes<O> {
    fn default() -> Self {
        Self { ends: vec![O::zero()], values: Vec::new(), validity: Validity::default() }
    }
}

impl<O: OffsetSizeTrait> Bytes<O> {
    /// Appends what `write` appends to the bytes; false if the column cannot hold it, and then the row
    /// must be taken back.
    #[inline]
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        write(&mut self.values);
        let Some(end) = O::from_usize(self.values.len()) else { return false };
        self.ends.push(end);
        self.validity.push_valid();
        true
    }

    /// Appends `value`; false as [`Self::push_with`].
    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) -> bool {
        self.push_with(|values| values.extend_from_slice(value))
    }

    fn end(&self) -> O {
        self.ends.last().copied().unwrap_or_default()
    }

    pub(super) fn push_null(&mut self) {
        self.validity.push_null(self.ends.len() - 1);
        self.ends.push(self.end());
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        self.values.truncate(self.end().as_usize());
        self.validity.truncate(len);
    }

    fn finish(&mut self) -> (OffsetBuffer<O>, Buffer, Option<NullBuffer>) {
        let mut ends = Vec::with_capacity(self.ends.len());
        ends.push(O::zero());
        let ends = std::mem::replace(&mut self.ends, ends);
        let next = Vec::with_capacity(self.values.len() + self.values.len() / 8);
        let values = std::mem::replace(&mut self.values, next);
        // From 0 and never falling, as the buffer demands.
        (OffsetBuffer::new(ends.into()), values.into(), self.validity.finish())
    }
}

/// Lists.
#[derive(Debug)]
pub(super) struct List {
    item: FieldRef,
    ends: Vec<i32>,
    /// The items of all lists.
    pub(super) items: Column,
    validity: Validity,
}

impl List {
    fn new(item: &FieldRef) -> Option<Self> {
        Some(Self {
            item: item.clone(),
            ends: vec![0],
            items: Column::new(item.data_type())?,
            validity: Validity::default(),
        })
    }

    fn end(&self) -> i32 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Ends a list of `count` items, which are in [`Self::items`]; false if there are too many.
    #[inline]
    pub(super) fn push(&mut self, count: usize) -> bool {
        let Some(end) = i32::try_from(count).ok().and_then(|count| self.end().checked_add(count)) else {
            return false;
        };
        self.ends.push(end);
        self.validity.push_valid();
        true
    }

    fn push_null(&mut self) {
        self.validity.push_null(self.ends.len() - 1);
        self.ends.push(self.end());
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        // Never negative.
        self.items.truncate(usize::try_from(self.end()).unwrap_or_default());
        self.validity.truncate(len);
    }

    fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        // From 0 and never falling, as the buffer demands.
        let offsets = OffsetBuffer::new(ends.into());
        ListArray::try_new(self.item.clone(), offsets, self.items.finish()?, self.validity.finish())
    }
}

/// Structs.
#[derive(Debug)]
pub(super) struct Struct {
    /// The fields of all structs.
    pub(super) record: Record,
    len: usize,
    validity: Validity,
}

impl Struct {
    fn new(fields: &Fields) -> Option<Self> {
        Some(Self { record: Record::new(fields)?, len: 0, validity: Validity::default() })
    }

    /// Ends a struct, whose fields are in [`Self::record`].
    #[inline]
    pub(super) fn push(&mut self) {
        self.len += 1;
        self.validity.push_valid();
    }

    fn push_null(&mut self) {
        for field in &mut self.record.fields {
            field.column.push_null();
        }
        self.validity.push_null(self.len);
        self.len += 1;
    }

    fn truncate(&mut self, len: usize) {
        self.record.truncate(len);
        self.len = self.len.min(len);
        self.validity.truncate(len);
    }

    fn finish(&mut self) -> Result<StructArray, ArrowError> {
        self.len = 0;
        StructArray::try_new(self.record.types.clone(), self.record.finish()?, self.validity.finish())
    }
}

/// The columns of a record's fields, found by name.
#[derive(Debug)]
pub(super) struct Record {
    types: Fields,
    /// In the schema's order.
    pub(super) fields: Vec<RecordField>,
    /// Index of the field that came first in the last record that surprised.
    pub(super) first: usize,
    names: Names,
}

/// One field of a record.
#[derive(Debug)]
pub(super) struct RecordField {
    /// The name.
    pub(super) name: Arc<str>,
    /// The name as JSON usually has it, with quotes and colon.
    pub(super) opening: Box<[u8]>,
    /// Index of the field that followed in the last record that surprised.
    pub(super) next: usize,
    /// Number of the last record that had the field.
    pub(super) seen_in: u64,
    /// The values.
    pub(super) column: Column,
}

impl Record {
    pub(super) fn new(types: &Fields) -> Option<Self> {
        let field = |(i, field): (usize, &FieldRef)| {
            let opening = serde_json::Value::from(field.name().as_str()).to_string() + ":";
            Some(RecordField {
                name: Arc::from(field.name().as_str()),
                opening: opening.into_bytes().into(),
                next: i + 1,
                seen_in: 0,
                column: Column::new(field.data_type())?,
            })
        };
        let fields = types.iter().enumerate().map(field).collect::<Option<Vec<_>>>()?;
        let names = Names::new(&fields);
        Some(Self { types: types.clone(), fields, first: 0, names })
    }

    /// Index of the field called `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name, &self.fields)
    }

    pub(super) fn truncate(&mut self, len: usize) {
        for field in &mut self.fields {
            field.column.truncate(len);
        }
    }

    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.fields.iter_mut().map(|field| field.column.finish()).collect()
    }
}

/// A hash table from names to indexes. What stands in the data only asks, so it cannot fill a chain.
#[derive(Debug)]
struct Names {
    /// Index of a field plus one, or 0; a power of two of them, at most half of them taken.
    slots: Box<[u32]>,
}

impl Names {
    fn new(fields: &[RecordField]) -> Self {
        let mut slots = vec![0; (fields.len() * 2).next_power_of_two().max(2)].into_boxed_slice();
        for (i, field) in (1..).zip(fields) {
            let mut slot = hash(field.name.as_bytes());
            while let Some(taken) = slots.get_mut(slot & (slots.len() - 1)) {
                if *taken == 0 {
                    *taken = i;
                    break;
                }
                slot += 1;
            }
        }
        Self { slots }
    }

    fn find(&self, name: &str, fields: &[RecordField]) -> Option<usize> {
        let mut slot = hash(name.as_bytes());
        loop {
            let index = self.slots.get(slot & (self.slots.len() - 1))?.checked_sub(1)? as usize;
            if fields.get(index).is_some_and(|field| *field.name == *name) {
                return Some(index);
            }
            slot += 1;
        }
    }
}

/// Mixes the length, the first and the last eight bytes.
#[inline]
fn hash(name: &[u8]) -> usize {
    let (front, back) = match (name.first_chunk(), name.last_chunk()) {
        (Some(front), Some(back)) => (u64::from_le_bytes(*front), u64::from_le_bytes(*back)),
        _ => (name.iter().fold(0, |part, byte| part << 8 | u64::from(*byte)), 0),
    };
    let mixed = (front ^ back.rotate_left(29) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The upper half is the mixed one.
    (mixed >> 40) as usize
}
