use std::sync::Arc;

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::BooleanArray;
use arrow::array::DictionaryArray;
use arrow::array::FixedSizeBinaryArray;
use arrow::array::FixedSizeListArray;
use arrow::array::Int64Array;
use arrow::array::LargeListArray;
use arrow::array::LargeStringArray;
use arrow::array::MapBuilder;
use arrow::array::NullArray;
use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::array::StringArray;
use arrow::array::StringBuilder;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Int32Type;
use arrow::datatypes::Int64Type;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::format::sample;
use crate::format::sample::Dice;

fn round_trip(batch: &RecordBatch) -> RecordBatch {
    decode(&batch.schema(), &encode(batch).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_of_every_type_come_back_from_any_slice(seed: u64, rows in 0_usize..600, from in 0_usize..600, len in 0_usize..600) {
        let batch = sample::batch(&sample::schema(), seed, rows);
        let from = from.min(rows);
        let slice = batch.slice(from, len.min(rows - from));
        prop_assert_eq!(round_trip(&slice), slice);
    }

    #[test]
    fn any_bytes_are_an_error_or_a_batch(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&sample::schema(), &bytes);
        let _ = decode(&sample::schema(), &[&[1], &bytes[..]].concat());
    }
}

#[test]
fn rare_types_come_back_as_well() {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..7 {
        for i in 0..row % 3 {
            map.keys().append_value(format!("k{i}"));
            map.values().append_option((i > 0).then_some("v"));
        }
        map.append(row != 4).unwrap();
    }
    let lists = (0..7).map(|row| (row != 2).then(|| vec![Some(row), None, Some(3)]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(map.finish()),
        Arc::new(NullArray::new(7)),
        Arc::new(LargeStringArray::from_iter((0..7).map(|row| (row != 1).then(|| "x".repeat(row * 90))))),
        Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(lists.clone())),
        Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(lists, 3)),
        Arc::new(FixedSizeBinaryArray::try_from_iter((0..7_u8).map(|row| [row; 5])).unwrap()),
        Arc::new(StringArray::from_iter_values((0..7).map(|row| "y".repeat(row * 30_000)))),
    ];
    let fields: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(i.to_string(), c.data_type().clone(), true))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    for from in 0..=7 {
        let slice = batch.slice(from, 7 - from);
        assert_eq!(round_trip(&slice), slice);
    }
}

#[test]
fn rows_without_columns_are_counted() {
    let options = RecordBatchOptions::new().with_row_count(Some(12));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    assert_eq!(round_trip(&batch).num_rows(), 12);
}

#[test]
fn a_slice_costs_no_more_than_its_rows() {
    let schema = sample::schema();
    let batch = sample::batch(&schema, 3, 5000);
    let whole = encode(&batch).unwrap().len();
    let parts: usize = (0..50).map(|i| encode(&batch.slice(i * 100, 100)).unwrap().len()).sum();
    assert!(parts < whole * 11 / 10, "S2: {parts} bytes in parts, {whole} as a whole");
}

#[test]
fn a_row_costs_little_more_than_its_values() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("event_id", DataType::Utf8, true),
        Field::new("user_id", DataType::Int64, true),
        Field::new("vip", DataType::Boolean, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["3f2504e0-4f89-11d3-9a0c-0305e82c3301"])),
        Arc::new(Int64Array::from(vec![7])),
        Arc::new(BooleanArray::from(vec![true])),
    ];
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    assert!(encode(&batch).unwrap().len() < 36 + 8 + 1 + 12);
}

#[test]
fn what_shrinks_is_compressed_and_what_does_not_is_left_alone() {
    let mut dice = Dice::new(1);
    let urls: Vec<_> =
        (0..5000).map(|_| format!("https://shop.example.com/toys/p/{}", dice.below(50_000))).collect();
    let ids: Vec<_> = (0..5000).map(|_| format!("{:016x}{:016x}", dice.roll(), dice.roll())).collect();
    let encoded = |values: &[String]| {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(values));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        assert_eq!(round_trip(&batch), batch);
        encode(&batch).unwrap().len()
    };
    let bytes = |values: &[String]| values.iter().map(String::len).sum::<usize>();
    assert!(encoded(&urls) < bytes(&urls) / 2);
    assert!(encoded(&ids) < bytes(&ids) + 20);
}

#[test]
fn damaged_bytes_are_an_error_or_a_batch() {
    let schema = sample::schema();
    for (seed, rows) in [(1, 3), (2, 40), (3, 300)] {
        let good = encode(&sample::batch(&schema, seed, rows)).unwrap();
        for len in (0..good.len()).step_by(good.len() / 150 + 1) {
            assert_eq!(decode(&schema, &good[..len]).unwrap_err().kind(), ErrorKind::Damage);
        }
        let mut dice = Dice::new(seed);
        for _ in 0..600 {
            let mut bad = good.clone();
            for _ in 0..=dice.below(3) {
                // Small values steer the decoder elsewhere more often than any.
                let value = if dice.below(2) == 0 { dice.below(6) as u8 } else { dice.roll() as u8 };
                let at = dice.below(bad.len() as u64) as usize;
                bad[at] = value;
            }
            if let Err(error) = decode(&schema, &bad) {
                assert_eq!(error.kind(), ErrorKind::Damage, "{error}");
            }
        }
        assert!(decode(&schema, &[&good[..], &[0]].concat()).is_err());
    }
}

#[test]
fn lengths_beyond_memory_are_refused_before_memory_is_taken() {
    let one = |data_type| -> SchemaRef { Arc::new(Schema::new(vec![Field::new("a", data_type, true)])) };
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let million = [0xc0, 0x84, 0x3d];
    let lists = DataType::List(Arc::new(Field::new(
        "item",
        DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        true,
    )));
    // So many rows, no nulls, all of one length.
    let claims = [
        (one(DataType::Utf8), [&[1], &most[..], &[0, 0, 0]].concat()),
        (one(DataType::Int64), [&[1], &most[..], &[0, 0]].concat()),
        (one(DataType::Int64), [&[1], &million[..2], &[1, 0, 1, 1, 0, 0, 0, 9]].concat()),
        (one(DataType::FixedSizeBinary(i32::MAX)), [&[1], &million[..], &[0, 1, 1, 0, 0, 0, 9]].concat()),
        (one(DataType::Boolean), [&[1], &most[..], &[0, 1, 0]].concat()),
        (one(DataType::Utf8), [&[1, 1, 0, 0], &most[..], &[1, 0]].concat()),
        (one(DataType::FixedSizeBinary(i32::MAX)), [&[1], &million[..], &[0, 0]].concat()),
        (one(lists), [&[1], &million[..], &[0, 0], &million[..], &[0, 0], &million[..]].concat()),
        (one(DataType::Utf8), [1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1].to_vec()),
    ];
    for (schema, bytes) in claims {
        assert_eq!(decode(&schema, &bytes).unwrap_err().kind(), ErrorKind::Damage, "S1");
    }
}

#[test]
fn a_null_where_the_schema_forbids_it_is_damage() {
    let nullable: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let strict = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let batch =
        RecordBatch::try_new(nullable, vec![Arc::new(Int64Array::from(vec![Some(1), None]))]).unwrap();
    assert_eq!(decode(&strict, &encode(&batch).unwrap()).unwrap_err().kind(), ErrorKind::Damage);
}

#[test]
fn a_newer_version_is_refused() {
    let batch = sample::batch(&sample::schema(), 1, 2);
    let mut bytes = encode(&batch).unwrap();
    bytes[0] = 2;
    assert_eq!(decode(&batch.schema(), &bytes).unwrap_err().kind(), ErrorKind::Damage);
}

#[test]
fn a_type_that_no_schema_has_is_refused() {
    let column: ArrayRef = Arc::new(["a", "b"].into_iter().collect::<DictionaryArray<Int32Type>>());
    let schema = Arc::new(Schema::new(vec![Field::new("a", column.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    assert_eq!(encode(&batch).unwrap_err().kind(), ErrorKind::Fatal);
}
