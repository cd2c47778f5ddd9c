use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::TimeUnit;
use proptest::prelude::*;

use crate::format::parse_schema;
use crate::format::parse_type;
use crate::format::schema_text;
use crate::format::type_text;

fn any_type() -> impl Strategy<Value = DataType> {
    let simple = prop::sample::select(vec![
        "string",
        "int8",
        "int64",
        "uint16",
        "float32",
        "float64",
        "boolean",
        "date",
        "json",
        "binary",
        "timestamp(s)",
        "timestamp(ms)",
        "timestamp(us)",
        "timestamp(ns)",
        "decimal(10,2)",
        "decimal(38,38)",
        "decimal(1,0)",
    ]);
    let leaf = simple.prop_map(|text| parse_type(text).unwrap());
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|item| DataType::new_list(item, true)),
            prop::collection::btree_map("[a-z`:<>, é]{0,4}", inner, 1..4).prop_map(|fields| {
                DataType::Struct(
                    fields.into_iter().map(|(name, found)| Field::new(name, found, true)).collect(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn the_text_of_a_type_reads_back_as_the_type(found in any_type()) {
        prop_assert_eq!(parse_type(&type_text(&found)).unwrap(), found);
    }

    #[test]
    fn no_text_makes_the_type_parser_panic(text in "[a-z0-9<>(),:` é]{0,40}") {
        let _ = parse_type(&text);
    }
}

#[test]
fn every_type_of_the_documentation_is_read() {
    let list = |item| DataType::new_list(item, true);
    let field = |name: &str, found| Field::new(name, found, true);
    let utc = Some("UTC".into());
    for (text, found) in [
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
        ("binary(base64)", DataType::Binary),
        ("timestamp(ms)", DataType::Timestamp(TimeUnit::Millisecond, utc)),
        ("decimal(10,2)", DataType::Decimal128(10, 2)),
        (" list < string > ", list(DataType::Utf8)),
        (
            "struct<a:int64, b:list<struct<`x:y`:decimal( 3 , 1 )>>>",
            DataType::Struct(
                vec![
                    field("a", DataType::Int64),
                    field("b", list(DataType::Struct(vec![field("x:y", DataType::Decimal128(3, 1))].into()))),
                ]
                .into(),
            ),
        ),
    ] {
        assert_eq!(parse_type(text).unwrap(), found, "{text}");
    }
}

#[test]
fn a_wrong_type_is_refused_with_its_place_and_what_was_meant() {
    for (text, message) in [
        ("strng", "unknown type `strng`; did you mean `string`?, at character 1 of `strng`"),
        ("list<int>", "did you mean `int32` or `int64`?, at character 6 of `list<int>`"),
        ("list<string", "expected `>` behind the type of the items, at character 12"),
        ("timestamp", "expected `(` and a unit, as in `timestamp(ms)`, at character 10"),
        ("timestamp(m)", "the unit of a timestamp is s, ms, us or ns, not `m`, at character 11"),
        ("decimal(39,2)", "the precision (digits in all) is a number from 1 to 38, at character 9"),
        ("decimal(10,11)", "the scale (digits behind the point) is a number from 0 to 10, at character 12"),
        ("struct<>", "expected the name of a field, at character 8"),
        ("struct<a:int64,a:int64>", "the struct names the field `a` twice, at character 16"),
        ("struct<a int64>", "expected `:` and a type behind the name of the field, at character 10"),
        ("struct<`a:int64>", "the quoted name does not end, at character 8"),
        ("string string", "there is something behind the type, at character 8"),
        ("binary(hex)", "binary values are read from base64: `binary(base64)`, at character 8"),
        ("", "expected a type, at character 1"),
        ("frobnicate", "known are string, int8"),
        ("list<é>", "at character 6"),
    ] {
        let error = parse_type(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn types_that_nest_too_deep_are_refused_without_overflow() {
    let deep = format!("{}int64{}", "list<".repeat(100_000), ">".repeat(100_000));
    assert!(parse_type(&deep).unwrap_err().message.contains("at most 32 deep"));
}

#[test]
fn a_schema_names_each_field_once_and_has_one() {
    let twice = parse_schema([("a", "int64"), ("a", "string")]).unwrap_err();
    assert_eq!(twice.to_string(), "the schema names the field `a` twice");
    let wrong = parse_schema([("a", "int64"), ("b", "bool")]).unwrap_err();
    assert!(
        wrong.to_string().starts_with("field `b`: unknown type `bool`; did you mean `boolean`?"),
        "{wrong}"
    );
    assert_eq!(parse_schema::<&str, &str>([]).unwrap_err().to_string(), "the schema has no fields");
}

#[test]
fn the_block_of_a_schema_is_toml_that_gives_it_back() {
    let schema = parse_schema([
        ("plain-name_1", "list<string>"),
        ("with blank", "struct<`a\"b\\`:int64>"),
        ("", "decimal(3,2)"),
        ("ctrl\u{7f}\n", "json"),
    ])
    .unwrap();
    let text = schema_text(&schema);
    let file: toml::Table = text.parse().unwrap();
    let block = file["schema"].as_table().unwrap();
    let fields = schema.fields().iter().map(|field| (field.name(), block[field.name()].as_str().unwrap()));
    assert_eq!(parse_schema(fields).unwrap(), schema);
}
