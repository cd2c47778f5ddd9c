//! Rows of every type a pipeline can have, for tests.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;

/// A small generator: the same rows for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn nulls(&mut self, field: &Field, rows: usize) -> Option<NullBuffer> {
        if !field.is_nullable() || self.below(4) == 0 {
            return None;
        }
        Some((0..rows).map(|_| self.below(5) > 0).collect())
    }
}

/// All types of a `[schema]`, nested ones twice over.
pub fn schema() -> SchemaRef {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let point: Fields = vec![
        Field::new("x", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
    ]
    .into();
    let deep: Fields = vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::List(item(DataType::Utf8)), true),
        Field::new("c", DataType::Struct(point.clone()), true),
    ]
    .into();
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        DataType::Decimal128(10, 2),
        DataType::Decimal128(38, 10),
        DataType::Decimal256(60, 4),
        DataType::List(item(DataType::Int64)),
        DataType::List(item(DataType::Struct(point))),
        DataType::List(item(DataType::List(item(DataType::Utf8)))),
        DataType::Struct(deep),
    ];
    let mut fields: Vec<_> =
        types.into_iter().enumerate().map(|(i, t)| Field::new(format!("f{i}"), t, i % 7 != 4)).collect();
    fields.push(Field::new("id", DataType::Utf8, false));
    Arc::new(Schema::new(fields))
}

/// `rows` rows of `schema`.
pub fn batch(schema: &SchemaRef, seed: u64, rows: usize) -> RecordBatch {
    let mut dice = Dice::new(seed);
    let columns = schema.fields().iter().map(|field| column(&mut dice, field, rows)).collect();
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .unwrap()
}

fn column(dice: &mut Dice, field: &Field, rows: usize) -> ArrayRef {
    let nulls = dice.nulls(field, rows);
    macro_rules! numbers {
        ($array:ty, $next:expr) => {
            Arc::new(<$array>::new((0..rows).map(|_| $next).collect::<Vec<_>>().into(), nulls))
        };
        ($array:ty, $data_type:expr, $next:expr) => {
            Arc::new(
                <$array>::new((0..rows).map(|_| $next).collect::<Vec<_>>().into(), nulls)
                    .with_data_type($data_type.clone()),
            )
        };
    }
    match field.data_type() {
        DataType::Boolean => {
            Arc::new(BooleanArray::new((0..rows).map(|_| dice.below(2) > 0).collect(), nulls))
        }
        DataType::Int8 => numbers!(Int8Array, dice.roll() as i8),
        DataType::Int16 => numbers!(Int16Array, dice.roll() as i16),
        DataType::Int32 => numbers!(Int32Array, dice.roll() as i32),
        DataType::Int64 => numbers!(Int64Array, dice.below(1000) as i64 - 500),
        DataType::UInt8 => numbers!(UInt8Array, dice.roll() as u8),
        DataType::UInt16 => numbers!(UInt16Array, dice.roll() as u16),
        DataType::UInt32 => numbers!(UInt32Array, dice.roll() as u32),
        DataType::UInt64 => numbers!(UInt64Array, dice.roll()),
        DataType::Float32 => numbers!(Float32Array, dice.below(1000) as f32 / 8.0),
        DataType::Float64 => numbers!(Float64Array, dice.below(100_000) as f64 / 8.0),
        DataType::Date32 => numbers!(Date32Array, dice.below(40_000) as i32),
        DataType::Time32(_) => numbers!(Time32MillisecondArray, dice.below(86_400_000) as i32),
        DataType::Time64(TimeUnit::Microsecond) => {
            numbers!(Time64MicrosecondArray, dice.below(86_400_000_000) as i64)
        }
        DataType::Time64(_) => numbers!(Time64NanosecondArray, dice.below(86_400_000_000_000) as i64),
        t @ DataType::Timestamp(TimeUnit::Second, _) => {
            numbers!(TimestampSecondArray, t, dice.below(2_000_000_000) as i64)
        }
        t @ DataType::Timestamp(TimeUnit::Millisecond, _) => {
            numbers!(TimestampMillisecondArray, t, dice.below(2_000_000_000_000) as i64)
        }
        t @ DataType::Timestamp(TimeUnit::Microsecond, _) => {
            numbers!(TimestampMicrosecondArray, t, dice.below(2_000_000_000_000_000) as i64)
        }
        t @ DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            numbers!(TimestampNanosecondArray, t, dice.below(2_000_000_000_000_000_000) as i64)
        }
        t @ DataType::Decimal128(..) => {
            numbers!(Decimal128Array, t, i128::from(dice.below(1_000_000)) - 500_000)
        }
        t @ DataType::Decimal256(..) => {
            numbers!(Decimal256Array, t, i256::from_i128(i128::from(dice.below(1_000_000)) - 500_000))
        }
        DataType::Utf8 => {
            let values: Vec<_> = (0..rows)
                .map(|_| match dice.below(8) {
                    0 => String::new(),
                    1 => format!("größer-{}", dice.below(10)),
                    _ => format!("{:016x}", dice.roll()),
                })
                .collect();
            let valid = |i| nulls.as_ref().is_none_or(|nulls: &NullBuffer| nulls.is_valid(i));
            Arc::new(StringArray::from_iter(values.iter().enumerate().map(|(i, v)| valid(i).then_some(v))))
        }
        DataType::Binary => {
            let valid = |i| nulls.as_ref().is_none_or(|nulls: &NullBuffer| nulls.is_valid(i));
            let values: Vec<_> = (0..rows).map(|_| dice.roll().to_le_bytes()).collect();
            Arc::new(BinaryArray::from_iter(
                values.iter().enumerate().map(|(i, v)| valid(i).then_some(&v[..3])),
            ))
        }
        DataType::List(item) => {
            let lengths: Vec<_> = (0..rows).map(|_| dice.below(4) as usize).collect();
            let values = column(dice, item, lengths.iter().sum());
            Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, nulls))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| column(dice, field, rows)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls))
        }
        other => unimplemented!("{other}"),
    }
}
