//! Steps on batches.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::Int64Array;
use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Int64Type;
use arrow::datatypes::Schema;

use crate::operator::Site;
use crate::operator::TransformSettings;
use crate::operator::compile;
use crate::stream::Batch;
use crate::stream::SplitId;

fn batch() -> Batch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("word", DataType::Utf8, true),
        Field::new("n", DataType::Int64, true),
    ]);
    let records = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("c"), Some("d")])),
            Arc::new(Int64Array::from(vec![Some(10), Some(20), None, Some(40)])),
        ],
    );
    Batch {
        records: records.unwrap(),
        split: SplitId::new("clicks.ndjson"),
        positions: UInt64Array::from(vec![0, 17, 40, 99]),
    }
}

fn filter(expression: &str) -> TransformSettings {
    TransformSettings::Filter { expression: expression.to_owned() }
}

fn select(fields: &[&str]) -> TransformSettings {
    TransformSettings::Select { fields: fields.iter().map(|name| (*name).to_owned()).collect() }
}

fn rename(map: &[(&str, &str)]) -> TransformSettings {
    TransformSettings::Rename {
        map: map.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect(),
    }
}

fn run(steps: &[TransformSettings]) -> Batch {
    let batch = batch();
    let (stage, output) = compile(steps, batch.records.schema()).unwrap();
    let result = stage(batch).unwrap();
    assert_eq!(result.records.schema(), output);
    result
}

fn names(batch: &Batch) -> Vec<String> {
    batch.records.schema().fields().iter().map(|field| field.name().clone()).collect()
}

#[test]
fn rows_that_stay_keep_their_positions_and_their_split() {
    let kept = run(&[filter("n > 15")]);
    assert_eq!(kept.positions.values().as_ref(), [17, 99]);
    assert_eq!(kept.records.column(0).as_primitive::<Int64Type>().values().as_ref(), [2, 4]);
    assert_eq!(kept.split.as_str(), "clicks.ndjson");
}

#[test]
fn a_batch_that_is_kept_or_dropped_whole_is_still_a_batch() {
    assert_eq!(run(&[filter("id >= 1")]).records.num_rows(), 4);
    let none = run(&[filter("id < 1")]);
    assert_eq!((none.records.num_rows(), none.positions.len()), (0, 0));
    assert_eq!(none.span(), None);
}

#[test]
fn select_keeps_the_fields_named_in_their_order() {
    let kept = run(&[select(&["n", "id"])]);
    assert_eq!(names(&kept), ["n", "id"]);
    assert_eq!(kept.records.num_rows(), 4);
    assert_eq!(kept.positions.len(), 4);
}

#[test]
fn names_can_be_exchanged() {
    let renamed = run(&[rename(&[("id", "word"), ("word", "id")])]);
    assert_eq!(names(&renamed), ["word", "id", "n"]);
}

#[test]
fn each_step_sees_what_the_one_before_left() {
    let result = run(&[rename(&[("n", "amount")]), filter("amount >= 20"), select(&["amount"])]);
    assert_eq!(result.records.column(0).as_primitive::<Int64Type>().values().as_ref(), [20, 40]);
    let error = compile(&[select(&["id"]), filter("n > 1")], batch().records.schema()).err().unwrap();
    assert_eq!((error.transform, error.site.clone()), (1, Site::Expression(0)));
    assert!(error.to_string().contains("there is no field `n`"), "{error}");
}

#[test]
fn steps_that_do_not_fit_name_the_place_and_the_nearest_field() {
    let refused = |step: TransformSettings| compile(&[step], batch().records.schema()).err().unwrap();
    for (step, site, says) in [
        (select(&[]), Site::Whole, "empty"),
        (select(&["id", "wrod"]), Site::Field(1), "did you mean `word`?"),
        (select(&["id", "id"]), Site::Field(1), "named twice"),
        (rename(&[]), Site::Whole, "empty"),
        (rename(&[("wrd", "x")]), Site::Map("wrd".into()), "did you mean `word`?"),
        (rename(&[("id", "n")]), Site::Map("id".into()), "two fields would be called `n`"),
        (rename(&[("id", "x"), ("n", "x")]), Site::Map("id".into()), "two fields would be called `x`"),
        (rename(&[("id", "")]), Site::Map("id".into()), "empty"),
    ] {
        let error = refused(step);
        assert_eq!(error.site, site, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_batch_of_another_schema_is_an_error_and_no_panic() {
    let (stage, _) = compile(&[select(&["n"]), filter("n > 1")], batch().records.schema()).unwrap();
    let records = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let foreign =
        Batch { records, split: SplitId::new("x"), positions: UInt64Array::from(Vec::<u64>::new()) };
    assert!(stage(foreign).is_err());
}
