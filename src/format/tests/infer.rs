use proptest::prelude::*;

use super::*;
use crate::format::InferError;
use crate::format::Inference;
use crate::format::SAMPLE_RECORDS;
use crate::format::type_text;

fn ndjson_of(text: &str) -> Result<SchemaRef, InferError> {
    let mut inference = Inference::ndjson();
    inference.add(text.as_bytes(), true).unwrap();
    inference.finish()
}

fn csv_of(text: &str) -> Result<SchemaRef, InferError> {
    let mut inference = Inference::csv();
    inference.add(text.as_bytes(), true)?;
    inference.finish()
}

fn texts(schema: &SchemaRef) -> Vec<(String, String)> {
    schema.fields().iter().map(|field| (field.name().clone(), type_text(field.data_type()))).collect()
}

fn named(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn fields_keep_their_order_and_get_the_type_that_all_values_have() {
    let text = r#"{"z":1,"b":true,"t":"2024-01-01T00:00:00Z","f":1,"l":[],"o":null}
not a record

{"z":null,"l":[1,null],"o":{"x y":"a"},"f":1.5,"new":[[{"k":-1}]],"u":18446744073709551615}
{"o":{"q":[1e3]},"u":0}"#;
    assert_eq!(
        texts(&ndjson_of(text).unwrap()),
        named(&[
            ("z", "int64"),
            ("b", "boolean"),
            ("t", "string"),
            ("f", "float64"),
            ("l", "list<int64>"),
            ("o", "struct<`x y`:string,q:list<float64>>"),
            ("new", "list<list<struct<k:int64>>>"),
            ("u", "uint64"),
        ])
    );
}

#[test]
fn doubtful_fields_are_an_error_with_a_schema_to_paste() {
    let text = r#"{"id":1,"none":null,"mixed":1,"empty":[],"o":{"a":null,"b":1},"big":99999999999999999999,"e":{},"r":0.5}
{"id":2,"none":null,"mixed":"x","l":[[null]],"r":9007199254740993,"m m":[true,{}]}
"#;
    let error = ndjson_of(text).unwrap_err();
    let message = error.to_string();
    let InferError::Doubtful { records: 2, doubts, schema } = error else { panic!("{error:?}") };
    let doubts: Vec<_> = doubts.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    assert_eq!(
        doubts,
        [
            ("none", "is only null"),
            ("mixed", "has numbers and texts"),
            ("empty", "has only lists without a value"),
            ("o", "its field `a`: is only null"),
            ("big", "has numbers beyond 64 bits"),
            ("e", "has only objects without fields"),
            ("r", "has fractions, and whole numbers that float64 would round"),
            ("l", "its items: has only lists without a value"),
            ("m m", "its items: has booleans and objects"),
        ]
    );
    assert!(
        schema.starts_with("[schema]\nid = \"int64\"\n# is only null:\n# none = \"string\"\n"),
        "{schema}"
    );
    assert!(schema.contains("# \"m m\" = \"list<json>\"\n"), "{schema}");
    assert!(message.contains("`mixed` (has numbers and texts)") && message.ends_with(&schema), "{message}");
    // As it stands and with the comments taken away, it is a schema.
    for text in [
        schema.clone(),
        schema
            .lines()
            .filter(|line| !line.ends_with(':'))
            .map(|line| format!("{}\n", line.trim_start_matches("# ")))
            .collect(),
    ] {
        let file: toml::Table = text.parse().unwrap();
        let fields = file["schema"].as_table().unwrap();
        parse_schema(fields.iter().map(|(name, found)| (name, found.as_str().unwrap()))).unwrap();
    }
}

#[test]
fn an_object_whose_names_are_data_is_in_doubt() {
    let names: Vec<_> = (0..600).map(|i| format!("\"user{i}\":1")).collect();
    let error = ndjson_of(&format!("{{\"counts\":{{{}}}}}\n", names.join(","))).unwrap_err().to_string();
    assert!(error.contains("is an object with 600 different names"), "{error}");
}

#[test]
fn without_a_valid_record_there_is_no_guess() {
    assert!(matches!(ndjson_of("\n\n"), Err(InferError::NoRecords { bad: 0, .. })));
    let error = ndjson_of("[1]\n\u{feff}{}").unwrap_err().to_string();
    assert!(error.contains("2 that are not valid; the first: not valid JSON at offset 0"), "{error}");
    assert!(matches!(ndjson_of("{}\n"), Err(InferError::Doubtful { .. })));
    assert!(matches!(csv_of(""), Err(InferError::NoRecords { .. })));
    assert!(matches!(csv_of("a,b\n"), Err(InferError::NoRecords { .. })));
    assert!(matches!(csv_of("a\"b\n"), Err(InferError::Header { .. })));
}

#[test]
fn only_the_first_ten_thousand_records_are_looked_at() {
    let mut inference = Inference::ndjson();
    let lines = "{\"a\":1}\n".repeat(6000);
    inference.add(lines.as_bytes(), true).unwrap();
    assert!(inference.wants_more());
    inference.add(format!("{}{{\"a\":\"late\"}}\n", "{\"a\":1}\n".repeat(4000)).as_bytes(), true).unwrap();
    assert!(!inference.wants_more());
    assert_eq!(inference.finish().unwrap().fields().len(), 1);
    assert_eq!(SAMPLE_RECORDS, 10_000);
}

#[test]
fn a_record_that_the_head_cuts_off_is_not_looked_at() {
    let mut inference = Inference::ndjson();
    inference.add(b"{\"a\":1}\n{\"a\":1.5", false).unwrap();
    inference.add(b"{\"a\":2}\n{\"b\":1}", false).unwrap();
    assert_eq!(texts(&inference.finish().unwrap()), named(&[("a", "int64")]));
    let mut inference = Inference::csv();
    inference.add(b"a,b\n1,2\n3,\"4\n", false).unwrap();
    assert_eq!(texts(&inference.finish().unwrap()), named(&[("a", "int64"), ("b", "int64")]));
}

#[test]
fn cells_of_csv_give_the_narrowest_type_that_holds_all() {
    let text = "i,f,b,s,zip,mix,q,u,n\n1,1,true,x,007,1,\"\",18446744073709551615,NaN\n-2,.5,FALSE,,123,true,\"\",1,2.5\nbad\n,2.5e3,,y,,,,,\n";
    let schema = csv_of(text).unwrap();
    assert_eq!(
        texts(&schema),
        named(&[
            ("i", "int64"),
            ("f", "string"),
            ("b", "boolean"),
            ("s", "string"),
            ("zip", "string"),
            ("mix", "string"),
            ("q", "string"),
            ("u", "uint64"),
            ("n", "float64"),
        ])
    );
    let error = csv_of("a,b\n1,\n2,\n").unwrap_err().to_string();
    assert!(error.contains("`b` (is always empty)"), "{error}");
}

#[test]
fn deep_records_do_not_overflow_the_stack() {
    let deep = |depth: usize| format!("{{\"a\":{}1{}}}\n", "[".repeat(depth), "]".repeat(depth));
    assert!(matches!(ndjson_of(&deep(100_000)), Err(InferError::NoRecords { bad: 1, .. })));
    let error = ndjson_of(&deep(100)).unwrap_err().to_string();
    assert!(error.contains("nests too deep"), "{error}");
}

proptest! {
    #[test]
    fn what_was_guessed_reads_the_records_it_was_guessed_from(
        values in prop::collection::vec((any::<Option<i64>>(), any::<Option<f64>>(), "[a-zé\"\\\\\n,]{0,5}", prop::collection::vec(any::<bool>(), 0..3)), 1..20)
    ) {
        let text: String = values.iter().map(|(i, f, s, l)| format!("{}\n", serde_json::json!({"i": i, "f": f, "s": s, "l": l}))).collect();
        if let Ok(schema) = ndjson_of(&text) {
            let format = Ndjson::new(&DecodeOptions { schema, unknown: Unknown::Fail }).unwrap();
            let decoded = format.decoder(&SplitId::new("in"), b"").unwrap().decode(0, text.as_bytes()).unwrap();
            prop_assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
            prop_assert_eq!(decoded.records, values.len() as u64);
        }
    }
}
