use arrow::array::Array;
use arrow::array::AsArray;
use arrow::datatypes::Date32Type;
use arrow::datatypes::Decimal128Type;
use arrow::datatypes::Float32Type;
use arrow::datatypes::Float64Type;
use arrow::datatypes::Int64Type;
use arrow::datatypes::TimestampMillisecondType;
use arrow::datatypes::UInt8Type;

use super::*;

#[test]
fn every_type_is_read_to_its_value() {
    let decoded = read_lines(
        &[
            ("s", "string"),
            ("i", "int64"),
            ("u", "uint8"),
            ("f", "float64"),
            ("g", "float32"),
            ("b", "boolean"),
            ("d", "date"),
            ("t", "timestamp(ms)"),
            ("m", "decimal(10,2)"),
            ("x", "binary"),
            ("j", "json"),
            ("l", "list<string>"),
            ("o", "struct<a:int64,b:list<int64>>"),
        ],
        r#"{"s":"ä\u00e9\ud83d\ude00\n\"\\\/","i":-9223372036854775808,"u":255,"f":0.1,"g":0.1,"b":true,"d":"2024-02-29","t":1700000000123,"m":-12.3,"x":"AAH/","j": {"a": [1, 2e400]} ,"l":["a",null,""],"o":{"b":[1,2],"a":3}}
{"t":"2023-11-14T23:13:20.123+01:00","m":"7","i":20e1,"f":-1e-400}
"#,
    );
    assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
    let rows = rows(&decoded);
    let text = |name: &str| rows[name].as_string::<i32>().value(0).to_owned();
    assert_eq!(text("s"), "äé😀\n\"\\/");
    assert_eq!(rows["i"].as_primitive::<Int64Type>().values().to_vec(), [i64::MIN, 200]);
    assert_eq!(rows["u"].as_primitive::<UInt8Type>().value(0), 255);
    assert_eq!(rows["f"].as_primitive::<Float64Type>().values().to_vec(), [0.1, -0.0]);
    assert_eq!(rows["g"].as_primitive::<Float32Type>().value(0), 0.1);
    assert!(rows["b"].as_boolean().value(0));
    assert_eq!(rows["d"].as_primitive::<Date32Type>().value(0), 19782);
    assert_eq!(
        rows["t"].as_primitive::<TimestampMillisecondType>().values().to_vec(),
        [1_700_000_000_123, 1_700_000_000_123]
    );
    assert_eq!(rows["m"].as_primitive::<Decimal128Type>().values().to_vec(), [-1230, 700]);
    assert_eq!(rows["x"].as_binary::<i32>().value(0), [0, 1, 255]);
    assert_eq!(rows["j"].as_string::<i64>().value(0), r#"{"a": [1, 2e400]}"#);
    let list = rows["l"].as_list::<i32>().value(0);
    assert_eq!(list.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None, Some("")]);
    let object = rows["o"].as_struct();
    assert_eq!(object["a"].as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(object["b"].as_list::<i32>().value(0).as_primitive::<Int64Type>().values().to_vec(), [1, 2]);
    for name in ["s", "u", "g", "b", "d", "x", "j", "l", "o"] {
        assert!(rows[name].is_null(1), "{name}");
    }
}

#[test]
fn positions_are_the_offsets_of_lines_and_blank_lines_are_no_records() {
    let text = "{\"a\":1}\r\n\n  \t\r\n {\"a\":2}\nbad\n{\"a\":3}";
    let decoded = ndjson(&[("a", "int64")], Unknown::Ignore).decode(1000, text.as_bytes()).unwrap();
    assert_eq!(positions(&decoded), [1000, 1015, 1028]);
    assert_eq!(decoded.rejected[0].position, 1024);
    assert_eq!(decoded.rejected[0].raw.as_ref(), b"bad");
    assert_eq!(decoded.records, 4);
}

#[test]
fn a_boundary_lies_behind_the_last_line_end() {
    let decoder = ndjson(&[("a", "int64")], Unknown::Ignore);
    assert_eq!(decoder.boundary(b""), 0);
    assert_eq!(decoder.boundary(b"{\"a\":"), 0);
    assert_eq!(decoder.boundary(b"{}\n{\"a\":"), 3);
    assert_eq!(decoder.boundary(b"{}\n{}\n"), 6);
}

#[test]
fn a_byte_order_mark_is_passed_over_at_the_start_only() {
    let format = Ndjson::new(&options(&[("a", "int64")], Unknown::Ignore)).unwrap();
    let split = SplitId::new("in.ndjson");
    assert_eq!(format.decoder(&split, b"\xef\xbb\xbf{}").unwrap().start(), 3);
    assert_eq!(format.decoder(&split, b"{}").unwrap().start(), 0);
    let decoded = read_lines(&[("a", "int64")], b"{}\n\xef\xbb\xbf{}\n");
    assert_eq!(decoded.rejected.len(), 1);
}

#[test]
fn batches_hold_at_most_8192_rows() {
    let text = "{\"a\":1}\n".repeat(20_000);
    let decoded = read_lines(&[("a", "int64")], text);
    let counts: Vec<_> = decoded.batches.iter().map(|batch| batch.records.num_rows()).collect();
    assert_eq!(counts, [8192, 8192, 3616]);
    assert_eq!(decoded.batches[2].span(), Some(16384 * 8..=19999 * 8));
}

#[test]
fn a_batch_of_long_records_is_closed_before_its_offsets_run_out() {
    let line = format!("{{\"a\":\"{}\"}}\n", "x".repeat(15 << 20));
    let decoded = read_lines(&[("a", "string")], line.repeat(6));
    let counts: Vec<_> = decoded.batches.iter().map(|batch| batch.records.num_rows()).collect();
    assert_eq!(counts, [5, 1]);
}

#[test]
fn fields_in_any_order_and_number_come_to_their_columns() {
    let fields = [("a", "int64"), ("b", "int64"), ("c", "int64")];
    let text =
        "{\"c\":3,\"a\":1,\"b\":2}\n{ \"b\" : 2 }\n{\"x\":[],\"\\u0061\":1}\n{}\n{\"a\":1,\"b\":2,\"c\":3}\n";
    let rows = rows(&read_lines(&fields, text.repeat(3)));
    let column = |name: &str| rows[name].as_primitive::<Int64Type>().iter().take(5).collect::<Vec<_>>();
    assert_eq!(column("a"), [Some(1), None, Some(1), None, Some(1)]);
    assert_eq!(column("b"), [Some(2), Some(2), None, None, Some(2)]);
    assert_eq!(column("c"), [Some(3), None, None, None, Some(3)]);
    assert_eq!(rows.num_rows(), 15);
    assert_eq!(rows["a"].slice(10, 5).to_data(), rows["a"].slice(0, 5).to_data());
}

#[test]
fn a_field_that_stands_twice_is_refused_and_an_unknown_one_is_not() {
    let fields = [("a", "int64"), ("o", "struct<b:int64>")];
    let decoded = read_lines(&fields, "{\"a\":1,\"a\":1}\n");
    assert_eq!(only_reason(&decoded), "field `a`: stands twice in one object");
    let decoded = read_lines(&fields, "{\"o\":{\"b\":1,\"\\u0062\":null}}\n");
    assert_eq!(only_reason(&decoded), "field `o.b`: stands twice in one object");
    assert_eq!(
        row_count(&read_lines(&fields, "{\"x\":1,\"x\":1}\n{\"o\":{},\"a\":1}\n{\"o\":{\"b\":1}}\n")),
        3
    );
}

#[test]
fn unknown_fields_are_ignored_refused_or_captured() {
    let fields = [("a", "int64"), ("o", "struct<b:int64>"), ("l", "list<struct<c:int64>>")];
    let line = "{\"x y\" : [1, {\"q\":2}],\"a\":1,\"o\":{\"z\":true,\"b\":2},\"l\":[{},{\"c\":1,\"d\":\"\\n\"}]}\n{\"a\":2}\n";
    assert_eq!(row_count(&ndjson(&fields, Unknown::Ignore).decode(0, line.as_bytes()).unwrap()), 2);
    let refused = ndjson(&fields, Unknown::Fail).decode(0, line.as_bytes()).unwrap();
    assert_eq!(only_reason(&refused), "field `x y`: is not in the schema");
    let decoder = ndjson(&fields, Unknown::Capture);
    let captured = rows(&decoder.decode(0, line.as_bytes()).unwrap());
    let column = captured[crate::format::UNKNOWN_COLUMN].as_string::<i64>();
    assert_eq!(column.value(0), "{\"x y\":[1, {\"q\":2}],\"o.z\":true,\"l[1].d\":\"\\n\"}");
    assert!(column.is_null(1));
    assert!(serde_json::from_str::<serde_json::Value>(column.value(0)).is_ok());
    let format = Ndjson::new(&options(&fields, Unknown::Capture)).unwrap();
    assert_eq!(format.schema(), captured.schema());
}

#[test]
fn a_schema_with_the_name_of_the_captured_column_is_refused() {
    let error = Ndjson::new(&options(&[("_unknown", "json")], Unknown::Capture)).unwrap_err();
    assert!(error.to_string().contains("`_unknown` twice"), "{error}");
}

#[test]
fn what_a_rejected_record_captured_never_comes_with_the_next() {
    let decoder = ndjson(&[("a", "int64"), ("o", "struct<b:int64>")], Unknown::Capture);
    let text = "{\"x\":1,\"o\":{\"y\":1,\"b\":false}}\n{\"o\":{\"z\":1}}\n{\"a\":1}\n";
    let captured = rows(&decoder.decode(0, text.as_bytes()).unwrap());
    let column = captured["_unknown"].as_string::<i64>();
    assert_eq!(column.iter().collect::<Vec<_>>(), [Some("{\"o.z\":1}"), None]);
}

#[test]
fn a_record_longer_than_the_limit_is_refused_whatever_chunk_it_comes_in() {
    let format = Ndjson::new(&options(&[("a", "string")], Unknown::Ignore)).unwrap();
    let decoder = format.with_record_bytes_max(20).unwrap().decoder(&SplitId::new("in"), b"").unwrap();
    let text =
        "{\"a\":\"0123456789ab\"}\r\n{\"a\":\"0123456789abc\"}\r\n{\"a\":0123456789abcdef}\n{\"a\":\"z\"}\n";
    let decoded = decoder.decode(0, text.as_bytes()).unwrap();
    assert_eq!(positions(&decoded), [0, 68]);
    assert_eq!(decoded.rejected[0].reason, "the record has 21 bytes, more than the limit of 20");
    assert_eq!(decoded.rejected[1].reason, "the record has 22 bytes, more than the limit of 20");
}

#[test]
fn schemas_that_records_cannot_have_are_refused() {
    use arrow::datatypes::DataType;
    use arrow::datatypes::Field;
    use arrow::datatypes::Schema;
    for (field, message) in [
        (
            Field::new("a", DataType::Duration(arrow::datatypes::TimeUnit::Second), true),
            "cannot have the type",
        ),
        (Field::new("a", DataType::Int64, false), "`a` is not nullable"),
        (Field::new("a", DataType::Struct(Vec::<Field>::new().into()), true), "cannot have the type"),
    ] {
        let schema = Arc::new(Schema::new(vec![field]));
        let error = Ndjson::new(&DecodeOptions { schema, unknown: Unknown::Ignore }).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Usage);
        assert!(error.to_string().contains(message), "{error}");
    }
}
