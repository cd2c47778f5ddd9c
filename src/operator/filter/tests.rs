//! Expressions on rows.

use std::sync::Arc;

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::BooleanArray;
use arrow::array::Date32Array;
use arrow::array::Decimal128Array;
use arrow::array::Float64Array;
use arrow::array::Int32Array;
use arrow::array::Int64Array;
use arrow::array::ListArray;
use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::array::StructArray;
use arrow::array::TimestampMillisecondArray;
use arrow::array::TimestampNanosecondArray;
use arrow::array::UInt64Array;
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Fields;
use arrow::datatypes::Int64Type;
use proptest::prelude::prop_assert_eq;
use proptest::proptest;

use super::check::check;
use super::eval::mask;
use crate::operator::Site;

/// Five rows; the last is all null.
fn rows() -> RecordBatch {
    let geo_fields = Fields::from(vec![
        Field::new("country", DataType::Utf8, true),
        Field::new("zip", DataType::Int64, true),
    ]);
    // The fourth `geo` is null, though its parts hold values.
    let geo = StructArray::new(
        geo_fields,
        vec![
            Arc::new(StringArray::from(vec![Some("DE"), Some("FR"), None, Some("DE"), None])) as ArrayRef,
            Arc::new(Int64Array::from(vec![Some(10115), Some(75001), Some(1), Some(20095), None])),
        ],
        Some(NullBuffer::from(vec![true, true, true, false, false])),
    );
    let ms = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let times = vec![
        Some(ms("2026-03-01T00:00:00Z")),
        Some(ms("2026-03-01T10:59:59.999Z")),
        Some(ms("2026-03-01T11:00:00Z")),
        Some(ms("2026-03-02T00:00:00Z")),
        None,
    ];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), Some(i64::MAX), None]))),
        ("small", Arc::new(Int32Array::from(vec![Some(-1), Some(0), Some(1), Some(2), None]))),
        ("big", Arc::new(UInt64Array::from(vec![Some(0), Some(1), Some(2), Some(u64::MAX), None]))),
        ("f", Arc::new(Float64Array::from(vec![Some(-0.0), Some(0.5), Some(1e300), Some(2.0), None]))),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(0), Some(999), Some(1000), Some(-5), None])
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
        ),
        (
            "wide",
            Arc::new(
                Decimal128Array::from(vec![Some(1), Some(10_i128.pow(37)), Some(0), Some(0), None])
                    .with_precision_and_scale(38, 30)
                    .unwrap(),
            ),
        ),
        ("s", Arc::new(StringArray::from(vec![Some("apple"), Some("Banana"), Some("100%"), Some(""), None]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true), None]))),
        ("ts", Arc::new(TimestampMillisecondArray::from(times).with_timezone("UTC"))),
        (
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![
                Some(0),
                Some(1),
                Some(1_000_000_000),
                Some(2),
                None,
            ])),
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(20513), Some(20514), Some(20515), Some(0), None]))),
        ("geo", Arc::new(geo)),
        (
            "tags",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
                Some(vec![Some(1)]),
                Some(vec![]),
                None,
                Some(vec![]),
                None,
            ])),
        ),
        ("user", Arc::new(StringArray::from(vec![Some("u1"), Some("u2"), Some("u3"), Some("u4"), None]))),
        ("date", Arc::new(StringArray::from(vec![Some("d1"), Some("d2"), Some("d3"), Some("d4"), None]))),
        ("odd name", Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), Some(4), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// The rows, from 1, that an expression keeps.
fn kept(expression: &str) -> Vec<usize> {
    let rows = rows();
    let predicate = match check(expression, &rows.schema()) {
        Ok(predicate) => predicate,
        Err(refusal) => panic!("`{expression}` is refused: {refusal:?}"),
    };
    let mask = mask(&predicate, &rows).unwrap();
    assert_eq!(mask.len(), rows.num_rows(), "{expression}");
    (0..mask.len()).filter(|row| mask.is_valid(*row) && mask.value(*row)).map(|row| row + 1).collect()
}

#[test]
fn comparisons_keep_the_rows_for_which_they_are_true() {
    for (expression, rows) in [
        ("i = 2", &[2][..]),
        ("i <> 2", &[1, 3, 4]),
        ("i != 2", &[1, 3, 4]),
        ("2 <= i", &[2, 3, 4]),
        ("i = 9223372036854775807", &[4]),
        ("small < 0", &[1]),
        ("small = i", &[]),
        ("small > -1", &[2, 3, 4]),
        ("big > i", &[4]),
        ("big = 18446744073709551615", &[4]),
        ("big >= 0", &[1, 2, 3, 4]),
        ("f = 0", &[1]),
        ("f >= 0.5", &[2, 3, 4]),
        ("f > 1e299", &[3]),
        ("i = 2.0", &[2]),
        ("i > 2.5", &[3, 4]),
        ("i > 9223372036854775806.5", &[4]),
        ("price >= 9.99", &[2, 3]),
        ("price > 9.991", &[3]),
        ("price = 10", &[3]),
        ("price < 0", &[4]),
        ("price = -0.05", &[4]),
        ("price < f", &[3, 4]),
        ("wide < i", &[1, 3, 4]),
        ("wide > 0", &[1, 2]),
        ("s = 'apple'", &[1]),
        ("s < 'b'", &[1, 2, 3, 4]),
        ("s = ''", &[4]),
        ("ok", &[1, 4]),
        ("ok = false", &[2]),
        ("NOT ok", &[2]),
        ("geo.country = 'DE'", &[1]),
        ("geo.zip > 10000", &[1, 2]),
        ("user = 'u2'", &[2]),
        ("date = 'd3'", &[3]),
        ("\"odd name\" = 4", &[4]),
        ("\"geo\".\"country\" = 'FR'", &[2]),
        ("true", &[1, 2, 3, 4, 5]),
        ("1 = 1", &[1, 2, 3, 4, 5]),
        ("1 > 2 OR i = 1", &[1]),
    ] {
        assert_eq!(kept(expression), rows, "{expression}");
    }
}

#[test]
fn times_compare_as_instants_in_units_that_lose_nothing() {
    for (expression, rows) in [
        ("ts = '2026-03-01T00:00:00Z'", &[1][..]),
        ("ts < '2026-03-01T11:00:00Z'", &[1, 2]),
        ("ts >= '2026-03-01 11:00:00'", &[3, 4]),
        ("ts >= '2026-03-01T12:00:00+01:00'", &[3, 4]),
        ("ts > '2026-03-01T10:59:59.9989'", &[2, 3, 4]),
        ("ts > '2026-03-01T10:59:59.9990001'", &[3, 4]),
        ("ts >= '2026-03-02'", &[4]),
        ("'2026-03-02' <= ts", &[4]),
        ("ts >= TIMESTAMP '2026-03-02 00:00:00'", &[4]),
        ("ts < DATE '2026-03-02'", &[1, 2, 3]),
        ("ts BETWEEN '2026-03-01' AND '2026-03-01T10:59:59.999Z'", &[1, 2]),
        ("ns > '1970-01-01T00:00:00Z'", &[2, 3, 4]),
        ("ns = '1970-01-01T00:00:00.000000001Z'", &[2]),
        ("ts > ns", &[1, 2, 3, 4]),
        ("day = '2026-03-01'", &[1]),
        ("day < ts", &[4]),
        ("day = DATE '1970-01-01'", &[4]),
    ] {
        assert_eq!(kept(expression), rows, "{expression}");
    }
}

#[test]
fn null_is_neither_kept_nor_the_opposite_of_anything() {
    for (expression, rows) in [
        ("i = i", &[1, 2, 3, 4][..]),
        ("NOT (i = 1)", &[2, 3, 4]),
        ("i IS NULL", &[5]),
        ("i IS NOT NULL", &[1, 2, 3, 4]),
        ("ok IS NULL", &[3, 5]),
        ("ok IS TRUE", &[1, 4]),
        ("ok IS NOT TRUE", &[2, 3, 5]),
        ("ok IS FALSE", &[2]),
        ("ok IS NOT FALSE", &[1, 3, 4, 5]),
        ("geo IS NULL", &[4, 5]),
        ("geo.country IS NULL", &[3, 4, 5]),
        ("tags IS NULL", &[3, 5]),
        ("tags IS NOT NULL AND ok", &[1, 4]),
        ("ok OR i = 3", &[1, 3, 4]),
        ("ok AND i = 3", &[]),
        ("i NOT IN (1, 2)", &[3, 4]),
        ("s NOT LIKE 'a%'", &[2, 3, 4]),
        ("i NOT BETWEEN 2 AND 3", &[1, 4]),
        ("i + 1 IS NULL", &[4, 5]),
    ] {
        assert_eq!(kept(expression), rows, "{expression}");
    }
}

#[test]
fn lists_ranges_and_patterns() {
    for (expression, rows) in [
        ("i IN (1, 3)", &[1, 3][..]),
        ("s IN ('apple')", &[1]),
        ("price IN (9.99, 10)", &[2, 3]),
        ("ts IN ('2026-03-01', '2026-03-02')", &[1, 4]),
        ("i BETWEEN 2 AND 3", &[2, 3]),
        ("s LIKE 'a%'", &[1]),
        ("s LIKE '_anan_'", &[2]),
        ("s ILIKE 'b%'", &[2]),
        ("s NOT ILIKE '%A%'", &[3, 4]),
        (r"s LIKE '100\%'", &[3]),
        ("s LIKE '%'", &[1, 2, 3, 4]),
        ("s LIKE ''", &[4]),
    ] {
        assert_eq!(kept(expression), rows, "{expression}");
    }
    let many: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    assert_eq!(kept(&format!("i IN ({})", many.join(","))), [1, 2, 3]);
}

#[test]
fn arithmetic_is_exact_and_what_is_undefined_is_null() {
    for (expression, rows) in [
        ("i + 1 = 3", &[2][..]),
        ("i * 2 > 3", &[2, 3]),
        ("i - small = 2", &[1, 2, 3]),
        ("i / 2 = 1.5", &[3]),
        ("i % 2 = 1", &[1, 3, 4]),
        ("1 / small > 0", &[3, 4]),
        ("1 % small = 0", &[1, 3]),
        ("small <> 0 AND 1 / small > 0", &[3, 4]),
        ("-i = -2", &[2]),
        ("- (i + 1) < -3", &[3]),
        ("price * 3 = 29.97", &[2]),
        ("price + 0.01 = 10", &[2]),
        ("price * price = 99.8001", &[2]),
        ("price - i = 7.99", &[2]),
        ("f * 1e300 > 0", &[2, 4]),
        ("f * 10 = 5", &[2]),
        ("big + 1 = 18446744073709551616", &[4]),
        ("i + 0.5 > 9223372036854775807", &[4]),
        ("1 + 2 * 3 = 7", &[1, 2, 3, 4, 5]),
        ("(1 + 2) * 3 = i + 8", &[1]),
    ] {
        assert_eq!(kept(expression), rows, "{expression}");
    }
}

#[test]
fn and_or_not_follow_the_tables_of_three_values() {
    let values = [Some(true), Some(false), None];
    let mut columns: (Vec<Option<bool>>, Vec<Option<bool>>) = Default::default();
    for a in values {
        for b in values {
            columns.0.push(a);
            columns.1.push(b);
        }
    }
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(BooleanArray::from(columns.0.clone())) as ArrayRef, true),
        ("b", Arc::new(BooleanArray::from(columns.1.clone())) as ArrayRef, true),
    ])
    .unwrap();
    let and = |a: Option<bool>, b: Option<bool>| match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    };
    let not = |a: Option<bool>| a.map(|a| !a);
    for (expression, expected) in [
        ("a AND b", Box::new(and) as Box<dyn Fn(Option<bool>, Option<bool>) -> Option<bool>>),
        ("a OR b", Box::new(move |a, b| not(and(not(a), not(b))))),
        ("NOT a AND b", Box::new(move |a, b| and(not(a), b))),
        ("NOT (a AND b)", Box::new(move |a, b| not(and(a, b)))),
    ] {
        let found = mask(&check(expression, &rows.schema()).unwrap(), &rows).unwrap();
        let expected: Vec<Option<bool>> =
            columns.0.iter().zip(&columns.1).map(|(a, b)| expected(*a, *b)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{expression}");
    }
}

#[test]
fn what_does_not_fit_is_refused_at_its_character() {
    let schema = rows().schema();
    for (expression, at, says) in [
        ("", 0, "empty"),
        ("pries > 1", 0, "did you mean `price`?"),
        ("i = 1 AND geo.cuntry = 'DE'", 14, "no field `cuntry` in `geo`"),
        ("geo.country.x = 1", 12, "`geo.country` is of type string"),
        ("i", 0, "needs true or false"),
        ("i + 1", 0, "needs true or false"),
        ("i = 'x'", 4, "without quotes"),
        ("s = 1", 4, "single quotes"),
        ("s = \"DE\"", 4, "strings stand in single quotes: 'DE'"),
        ("ok = 1", 5, "cannot compare boolean and int64"),
        ("tags = 1", 7, "IS [NOT] NULL"),
        ("geo = geo", 6, "IS [NOT] NULL"),
        ("ts > 5", 5, "as a string"),
        ("ts > 'soon'", 5, "is no timestamp"),
        ("ts > '2026-13-01'", 5, "is no timestamp"),
        ("ts > '2026-03-01T10:00:00Z' AND ns > '9999-01-01'", 37, "beyond what nanoseconds"),
        ("i = NULL", 4, "IS NULL"),
        ("i IN (1, NULL)", 9, "IS NULL"),
        ("i AND ok", 0, "of type int64, here true or false"),
        ("NOT s", 4, "of type string, here true or false"),
        ("i LIKE 'a%'", 0, "LIKE needs a string"),
        ("s LIKE s", 7, "must be a string in single quotes"),
        ("s || 'x' = 'y'", 5, "`||` is not supported"),
        ("s + 1 = 2", 0, "arithmetic needs numbers"),
        ("current_user = 'x'", 0, "`current_user` is a word of SQL, and no field here has this name"),
        ("lower(s) = 'x'", 0, "the function lower is not supported"),
        ("CAST(i AS TEXT) = '1'", 5, "CAST is not supported"),
        ("CASE WHEN ok THEN true END", 0, "CASE is not supported"),
        ("i IN (SELECT 1)", 0, "a subquery is not supported"),
        ("i >", 3, "not a SQL expression"),
        ("i > 1)", 5, "does not continue"),
        ("i > 1; i < 2", 5, "one expression"),
        ("i > 1 i < 2", 6, "does not continue"),
        ("s = 'open", 4, "not a SQL expression"),
        ("(i = 1", 6, "not a SQL expression"),
    ] {
        let refusal = check(expression, &schema).unwrap_err();
        let told = format!("{} {}", refusal.reason, refusal.help.unwrap_or_default());
        assert!(told.contains(says), "`{expression}`: {told}");
        assert_eq!(refusal.site, Site::Expression(at), "`{expression}`: {told}");
    }
    let lines = check("i = 1\n  AND pries = 1", &schema).unwrap_err();
    assert_eq!(lines.site, Site::Expression(12));
}

#[test]
fn expressions_that_would_exhaust_the_stack_are_refused() {
    let schema = rows().schema();
    for text in [
        format!("{}i = 1{}", "(".repeat(5000), ")".repeat(5000)),
        vec!["i = 1"; 1000].join(" OR "),
        "NOT ".repeat(3000) + "ok",
        format!("i = {}1", "- ".repeat(4000)),
        "i = 1 OR ".repeat(1 << 20),
    ] {
        assert!(check(&text, &schema).is_err(), "{} bytes are taken", text.len());
    }
}

proptest! {
    /// Integers, 64-bit unsigned integers and decimals compare as numbers, whatever their types.
    #[test]
    fn numbers_of_all_exact_types_compare_as_numbers(i: i64, u: u64, cents in -9_999_999_999_i64..=9_999_999_999) {
        let rows = RecordBatch::try_from_iter([
            ("i", Arc::new(Int64Array::from(vec![i])) as ArrayRef),
            ("u", Arc::new(UInt64Array::from(vec![u])) as ArrayRef),
            ("d", Arc::new(Decimal128Array::from(vec![i128::from(cents)]).with_precision_and_scale(10, 2).unwrap()) as ArrayRef),
        ]).unwrap();
        let holds = |expression: &str| mask(&check(expression, &rows.schema()).unwrap(), &rows).unwrap().value(0);
        let hundredfold = (i128::from(i) * 100, i128::from(u) * 100, i128::from(cents));
        prop_assert_eq!(holds("i < u"), hundredfold.0 < hundredfold.1);
        prop_assert_eq!(holds("i >= d"), hundredfold.0 >= hundredfold.2);
        prop_assert_eq!(holds("d > u"), hundredfold.2 > hundredfold.1);
        prop_assert_eq!(holds(&format!("d = {}.{:02}", cents.abs() / 100, cents.abs() % 100)), cents >= 0);
        prop_assert_eq!(holds(&format!("i = {i} AND u = {u}")), true);
        prop_assert_eq!(holds("i + u = u + i"), true);
    }

    /// No text makes the check panic.
    #[test]
    fn any_text_is_either_taken_or_refused(text in "[a-z0-9 .'\"()<>=+*/%_-]{0,40}") {
        let rows = rows();
        if let Ok(predicate) = check(&text, &rows.schema()) {
            mask(&predicate, &rows).unwrap();
        }
    }
}
