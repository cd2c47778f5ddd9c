//! The same text read by us, by serde_json and by arrow-json.

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::TimestampMillisecondType;
use proptest::prelude::*;

use super::*;

/// JSON texts, and with `broken` some that are nearly JSON.
fn json(broken: bool) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        prop::sample::select(vec![
            "true",
            "false",
            "null",
            "\"\"",
            "{}",
            "[]",
            "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
            "\"é😀\""
        ])
        .prop_map(str::to_owned),
        "\"[ -!#-\\[\\]-~é]{0,20}\"",
    ];
    let value = leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" ,\t"))),
            prop::collection::vec(("[a-c]{1,2}", inner), 0..4).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.into_iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
                format!("{{ {} }}", fields.join(","))
            }),
        ]
    });
    let wounds = prop::sample::select(vec![
        ",", "\"", "\\", "{", "}", "[", "]", ":", "0", "-", ".", "e", "\u{1}", "\\u", "\\ud800", "\\x", " ",
        "t", "é", "1", "\r", "\u{7f}", "+", "/",
    ]);
    (value, prop::collection::vec((any::<prop::sample::Index>(), wounds, any::<bool>()), 0..=3)).prop_map(
        move |(value, wounds)| {
            let mut text: Vec<char> = value.chars().collect();
            for (place, wound, removes) in wounds.into_iter().filter(|_| broken) {
                let at = place.index(text.len() + 1);
                if removes && at < text.len() {
                    text.remove(at);
                }
                text.splice(at.min(text.len())..at.min(text.len()), wound.chars());
            }
            text.into_iter().collect()
        },
    )
}

/// What serde_json says; `None` where it has not seen all.
fn is_json(text: &str) -> Option<bool> {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => Some(true),
        // A number that does not fit a double is still JSON. What comes behind it is then only known to the
        // reader of raw values, which does not look at surrogates.
        Err(error) if error.to_string().contains("number out of range") => {
            let syntax = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
            (!syntax || !text.contains("\\ud")).then_some(syntax)
        }
        Err(_) => Some(false),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn we_take_as_json_exactly_what_serde_takes(value in json(true)) {
        let line = format!("{{\"a\":{value},\"b\":1}}");
        // Typed as `json` and ignored.
        for fields in [[("a", "json")], [("z", "json")]] {
            let decoded = read_lines(&fields, &line);
            // That a field stands twice is our own rule.
            let twice = decoded.rejected.iter().any(|one| one.reason.contains("twice"));
            if let Some(json) = is_json(&line).filter(|_| !twice) {
                prop_assert_eq!(row_count(&decoded) == 1, json, "{}", line);
            }
        }
    }
}

const FIELDS: [(&str, &str); 8] = [
    ("id", "int64"),
    ("n", "int16"),
    ("price", "float64"),
    ("money", "decimal(12,2)"),
    ("ok", "boolean"),
    ("name", "string"),
    ("at", "timestamp(ms)"),
    ("tags", "list<struct<k:string,v:list<int64>>>"),
];

fn optional(inner: impl Strategy<Value = serde_json::Value>) -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![1 => Just(serde_json::Value::Null), 4 => inner]
}

fn record() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    use serde_json::json;
    let value = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let tag = ("[a-zé\"\\\\\n]{0,5}", prop::collection::vec(any::<i64>(), 0..3))
        .prop_map(|(k, v)| json!({"k": k, "v": v}));
    (
        (
            optional(any::<i64>().prop_map(Value::from)),
            optional(any::<i16>().prop_map(Value::from)),
            optional("-?[0-9]{1,2}\\.[0-9]{1,18}".prop_map(|text| Value::from(text.parse::<f64>().unwrap()))),
            optional("-?[1-9][0-9]{0,8}\\.[0-9]{1,2}".prop_map(value)),
        ),
        (
            optional(any::<bool>().prop_map(Value::from)),
            optional(any::<String>().prop_map(Value::from)),
            optional((0_i64..4_000_000_000_000).prop_map(Value::from)),
            optional(prop::collection::vec(optional(tag), 0..3).prop_map(Value::from)),
        ),
        any::<u64>(),
    )
        .prop_map(|((a, b, c, d), (e, f, g, h), order)| {
            let values = [a, b, c, d, e, f, g, h];
            let mut fields: Vec<_> = FIELDS.iter().map(|(name, _)| *name).zip(values).collect();
            let turn = (order % 8) as usize;
            if order & 0x100 != 0 {
                fields.rotate_left(turn);
            }
            Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        })
}

proptest! {
    #[test]
    fn valid_lines_give_the_values_that_arrow_json_gives(records in prop::collection::vec(record(), 1..20)) {
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        let decoded = read_lines(&FIELDS, &text);
        prop_assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
        // arrow-json knows zones by their offset only.
        let zone = |field: &Arc<Field>| match field.data_type() {
            DataType::Timestamp(unit, _) => {
                Field::new(field.name(), DataType::Timestamp(*unit, Some("+00:00".into())), true).into()
            },
            _ => field.clone(),
        };
        let theirs = Arc::new(Schema::new(schema(&FIELDS).fields().iter().map(zone).collect::<Vec<_>>()));
        let mut decoder = arrow::json::ReaderBuilder::new(theirs).build_decoder().unwrap();
        decoder.decode(text.as_bytes()).unwrap();
        let (ours, theirs) = (rows(&decoded), decoder.flush().unwrap().unwrap());
        for (name, _) in FIELDS.iter().filter(|(name, _)| *name != "at") {
            prop_assert_eq!(&ours[*name], &theirs[*name]);
        }
        let times = |batch: &RecordBatch| batch["at"].as_primitive::<TimestampMillisecondType>().iter().collect::<Vec<_>>();
        prop_assert_eq!(times(&ours), times(&theirs));
    }
}
