use arrow::array::Array;
use arrow::array::AsArray;
use arrow::datatypes::Float64Type;
use arrow::datatypes::Int64Type;
use arrow::datatypes::TimestampMillisecondType;
use proptest::prelude::*;

use super::*;

const FIELDS: [(&str, &str); 4] =
    [("id", "int64"), ("name", "string"), ("price", "decimal(10,2)"), ("tags", "list<string>")];

#[test]
fn cells_come_to_the_columns_that_the_header_names() {
    let file = "\u{feff}\r\nname,extra, id ,\"tags\",price\r\n\"a,\"\"b\"\"\nc\",x,7,\"[\"\"u\"\",null]\",1.5\r\n,,,,\n\"\",,-03,[],+2";
    let decoded = read_csv(&FIELDS, Unknown::Ignore, file).unwrap();
    assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
    let rows = rows(&decoded);
    let names: Vec<_> = rows["name"].as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("a,\"b\"\nc"), None, Some("")]);
    let ids: Vec<_> = rows["id"].as_primitive::<Int64Type>().iter().collect();
    assert_eq!(ids, [Some(7), None, Some(-3)]);
    let tags = rows["tags"].as_list::<i32>();
    assert_eq!(tags.value(0).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("u"), None]);
    assert!(tags.is_null(1) && tags.value(2).is_empty());
    let start = file.find("\"a,").unwrap() as u64;
    assert_eq!(positions(&decoded)[0], start);
    assert_eq!(positions(&decoded)[1], file.find(",,,,").unwrap() as u64);
}

#[test]
fn a_bad_record_is_refused_with_its_reason_and_ends_with_its_line() {
    for (record, reason) in [
        ("1,a,1.5", "the record has 3 cells, the header has 4"),
        ("1,a,1.5,[],", "the record has 5 cells, the header has 4"),
        ("1,a\"b,1.5,[]", "a quote in a cell that does not begin with one at offset 3"),
        ("1,\"a\"b,1.5,[]", "text behind the closing quote at offset 5"),
        ("1,a\rb,1.5,[]", "a carriage return outside of quotes at offset 3"),
        ("x,a,1.5,[]", "field `id`: `x` is not int64"),
        ("1.9,a,1.5,[]", "field `id`: `1.9` is no whole number"),
        ("99999999999999999999,a,1.5,[]", "out of the range of int64"),
        ("1,a,1.555,[]", "field `price`: `1.555` has more than 2 digits"),
        (
            "1,a,1.5,[",
            "field `tags[0]`: not valid JSON at offset 1 of the value: expected a value, found the end",
        ),
        (
            "1,a,1.5,[] []",
            "field `tags`: not valid JSON at offset 3 of the value: expected the end of the cell",
        ),
        ("1,a,1.5,[1]", "field `tags[0]`: `1` is a number, not string"),
        ("1,a,1.5,{}", "field `tags`: `{}` is an object, not list<string>"),
        ("--1,a,1.5,[]", "field `id`: `--1` is not int64"),
        ("+-1,a,1.5,[]", "field `id`: `+-1` is not int64"),
    ] {
        let file = format!("id,name,price,tags\n5,x,1,[]\n{record}\n6,y,1,[]\n");
        let decoded = read_csv(&FIELDS, Unknown::Ignore, &file).unwrap();
        let found = only_reason(&decoded);
        assert!(found.contains(reason), "{record}: {found}");
        assert_eq!(decoded.rejected[0].raw.as_ref(), record.as_bytes());
        assert_eq!(decoded.rejected[0].position, 28);
        let ids: Vec<_> = rows(&decoded)["id"].as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(ids, [5, 6], "{record}");
    }
}

#[test]
fn bytes_that_are_no_text_reject_their_record_only() {
    let decoded =
        read_csv(&FIELDS, Unknown::Ignore, b"id,name,price,tags\n1,\"a\n\xff\",,\n2,b,,\n").unwrap();
    assert_eq!(only_reason(&decoded), "not valid UTF-8: byte 0xff at offset 5 of the record");
    assert_eq!(positions(&decoded), [29]);
}

#[test]
fn a_quote_that_is_never_closed_is_one_bad_record_to_the_end() {
    let decoded = read_csv(&FIELDS, Unknown::Ignore, "id,name,price,tags\n1,a,,\n2,\"b,,\n3,c,,\n").unwrap();
    assert!(only_reason(&decoded).contains("a quote that is never closed at offset 2"));
    assert_eq!(decoded.records, 2);
}

#[test]
fn a_header_that_does_not_fit_the_schema_is_refused() {
    for (unknown, header, message) in [
        (
            Unknown::Ignore,
            "id,name,price",
            "in.csv: the header lacks columns of the schema: `tags`; it has `id`, `name`, `price`",
        ),
        (Unknown::Ignore, "id;name;price;tags", "it has `id;name;price;tags`"),
        (Unknown::Ignore, "id,name,price,tags,id", "the header names the column `id` twice"),
        (
            Unknown::Fail,
            "id,name,price,tags,more",
            "the column `more` is not in the schema, and unknown_field is \"fail\"",
        ),
        (Unknown::Ignore, "id,na\"me", "the header: not valid CSV: a quote in a cell"),
    ] {
        let error = read_csv(&FIELDS, unknown, format!("{header}\n1,2,3,4\n")).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Fatal);
        assert!(error.to_string().contains(message), "{header}: {error}");
    }
}

#[test]
fn a_split_with_no_byte_or_only_a_header_has_no_records() {
    assert_eq!(read_csv(&FIELDS, Unknown::Ignore, "").unwrap().records, 0);
    assert_eq!(read_csv(&FIELDS, Unknown::Ignore, "id,name,price,tags").unwrap().records, 0);
    let decoder =
        Csv::new(&options(&FIELDS, Unknown::Ignore)).unwrap().decoder(&SplitId::new("e"), b"").unwrap();
    assert!(decoder.decode(0, b"1,a,,\n").is_err());
}

#[test]
fn columns_that_the_schema_does_not_name_are_captured_as_texts() {
    let file = "id,b,\"c \"\"d\"\n1,x,\"\"\"y\"\"\"\n2,,\n3,\"\",z\n";
    let decoded = read_csv(&[("id", "int64")], Unknown::Capture, file).unwrap();
    let rows = rows(&decoded);
    let captured: Vec<_> = rows["_unknown"].as_string::<i64>().iter().collect();
    assert_eq!(captured, [Some(r#"{"b":"x","c \"d":"\"y\""}"#), None, Some(r#"{"b":"","c \"d":"z"}"#)]);
}

#[test]
fn numbers_times_and_booleans_are_read_as_people_write_them() {
    let fields = [("f", "float64"), ("t", "timestamp(ms)"), ("b", "boolean"), ("j", "json"), ("x", "binary")];
    let file = "f,t,b,j,x\n.5, 5 ,True,\"{\"\"a\"\": 1}\",AA==\n -07.50e1,2024-01-01T00:00:00Z,FALSE,1,\"\"\nNaN,,,,\n\"\",\"\",\"\",\"\",\n";
    let decoded = read_csv(&fields, Unknown::Ignore, file).unwrap();
    assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
    let rows = rows(&decoded);
    let floats = rows["f"].as_primitive::<Float64Type>();
    assert_eq!(&floats.values()[..2], [0.5, -75.0]);
    assert!(floats.value(2).is_nan());
    let times: Vec<_> = rows["t"].as_primitive::<TimestampMillisecondType>().iter().collect();
    assert_eq!(times, [Some(5), Some(1_704_067_200_000), None, None]);
    assert_eq!(rows["b"].as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None, None]);
    assert_eq!(
        rows["j"].as_string::<i64>().iter().collect::<Vec<_>>(),
        [Some("{\"a\": 1}"), Some("1"), None, None]
    );
    assert_eq!(
        rows["x"].as_binary::<i32>().iter().collect::<Vec<_>>(),
        [Some(&[0][..]), Some(&[]), None, None]
    );
}

#[test]
fn an_empty_line_is_a_null_in_a_file_of_one_column_and_nothing_elsewhere() {
    let one = read_csv(&[("a", "string")], Unknown::Ignore, "a\nx\n\n\"\"\r\n\r\n").unwrap();
    let values: Vec<_> =
        rows(&one)["a"].as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect();
    assert_eq!(values, [Some("x".into()), None, Some(String::new()), None]);
    let two = read_csv(&[("a", "string")], Unknown::Ignore, "a,b\nx,\n\n\r\ny,\n\n").unwrap();
    assert_eq!((two.records, row_count(&two)), (2, 2));
}

fn decoder() -> Arc<dyn SplitDecoder> {
    Csv::new(&options(&[("a", "string"), ("b", "int64")], Unknown::Capture))
        .unwrap()
        .decoder(&SplitId::new("in.csv"), b"a,b,c\n")
        .unwrap()
}

#[test]
fn a_boundary_never_lies_in_quotes() {
    let decoder = decoder();
    assert_eq!(decoder.boundary(b"1,2,3\n4,\"5\n6\n"), 6);
    assert_eq!(decoder.boundary(b"1,2,3\n4,\"5\n6\"\n7"), 14);
    assert_eq!(decoder.boundary(b"\"a\"\"\n"), 0);
    assert_eq!(decoder.boundary(b"\"a\"\"\n\"\n"), 7);
    assert_eq!(decoder.boundary(b"5\" pipe,\"\n\n"), 0);
    assert_eq!(decoder.boundary(b"5\" pipe,x\n\n"), 11);
    assert_eq!(decoder.boundary(b""), 0);
}

fn nearly_csv() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "a",
            ",",
            ",",
            "\n",
            "\n",
            "\r\n",
            "\"",
            "\"\"",
            "1",
            "-2.5",
            " ",
            "é",
            "x,1,\n",
            "\"q\",2,c\r\n"
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..2),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_give_each_record_one_verdict_wherever_they_are_cut(bytes in nearly_csv()) {
        let decoder = decoder();
        let whole = decoder.decode(9, &bytes).unwrap();
        prop_assert_eq!(whole.records, row_count(&whole) + whole.rejected.len() as u64);

        // Cut at the first boundary, again and again.
        let (mut at, mut alone_rows, mut alone_rejected, mut records) = (0, Vec::new(), Vec::new(), 0);
        while at < bytes.len() {
            let mut len = 1;
            while at + len < bytes.len() && decoder.boundary(&bytes[at..at + len]) == 0 {
                len += 1;
            }
            let decoded = decoder.decode(9 + at as u64, &bytes[at..at + len]).unwrap();
            alone_rows.extend(decoded.batches.into_iter().map(|batch| batch.records));
            alone_rejected.extend(decoded.rejected);
            records += decoded.records;
            at += len;
        }
        prop_assert_eq!(whole.records, records);
        prop_assert_eq!(&whole.rejected, &alone_rejected);
        if !alone_rows.is_empty() {
            let schema = alone_rows[0].schema();
            prop_assert_eq!(rows(&whole), arrow::compute::concat_batches(&schema, &alone_rows).unwrap());
        }
    }

    #[test]
    fn the_end_of_a_record_is_the_first_boundary_however_its_bytes_come(
        bytes in nearly_csv(), step in 1_usize..5
    ) {
        let decoder = decoder();
        let first = (1..=bytes.len()).find(|len| decoder.boundary(&bytes[..*len]) == *len);
        let (mut scan, mut found) = (0, None);
        for (i, piece) in bytes.chunks(step).enumerate() {
            found = decoder.record_end(&mut scan, piece).map(|end| i * step + end);
            if found.is_some() {
                break;
            }
        }
        prop_assert_eq!(found, first);
    }

    #[test]
    fn the_boundary_is_the_same_in_one_step_as_in_many(bytes in nearly_csv()) {
        let decoder = decoder();
        let boundary = decoder.boundary(&bytes);
        let shorter = (0..=boundary).filter(|len| decoder.boundary(&bytes[..*len]) == *len).count();
        prop_assert!(shorter >= usize::from(boundary > 0));
        prop_assert_eq!(decoder.boundary(&bytes[boundary..]), 0);
    }
}
