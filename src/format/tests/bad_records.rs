//! C18: each kind of bad record, alone and among good ones.

use proptest::prelude::*;

use super::*;
use crate::format::RAW_BYTES_MAX;

const FIELDS: [(&str, &str); 10] = [
    ("id", "int64"),
    ("small", "int8"),
    ("count", "uint32"),
    ("price", "decimal(10,2)"),
    ("ratio", "float64"),
    ("half", "float32"),
    ("name", "string"),
    ("at", "timestamp(ms)"),
    ("day", "date"),
    ("tags", "list<struct<k:string,v:binary>>"),
];

/// Lines that are no records, and what the reason says.
fn bad() -> Vec<(Vec<u8>, &'static str)> {
    let text = [
        ("{\"id\":1", "expected `,` or `}`, found the end"),
        ("{\"id\":}", "offset 6 of the record: expected a value, found `}`"),
        ("{\"id\":1,}", "offset 8 of the record: expected the name of a field, in quotes, found `}`"),
        ("{\"id\":1 \"name\":\"x\"}", "offset 8 of the record: expected `,` or `}`, found `\"`"),
        ("{\"id\":1,,\"name\":\"x\"}", "expected the name of a field"),
        ("{,\"id\":1}", "expected the name of a field"),
        ("{\"id\" 1}", "expected `:` behind the name of the field"),
        ("{\"id\":007}", "expected a number without leading zeros, found `0`"),
        ("{\"x\":007}", "expected a number without leading zeros"),
        ("{\"x\":-}", "expected a digit, found `}`"),
        ("{\"x\":1.}", "expected a digit"),
        ("{\"x\":.5}", "expected a value"),
        ("{\"x\":1e}", "expected a digit"),
        ("{\"x\":+1}", "expected a value"),
        ("{\"x\":0x1}", "expected `,` or `}`"),
        ("{\"x\":NaN}", "expected a value"),
        ("{\"x\":nul}", "expected a value"),
        ("{\"x\":truex}", "expected `,` or `}`"),
        ("{\"x\":'a'}", "expected a value"),
        ("{\"x\":[1,]}", "expected a value, found `]`"),
        ("{\"x\":[1 2]}", "expected `,` or `]`"),
        ("{\"x\":[}", "expected a value, found `}`"),
        ("{\"x\":{1:2}}", "expected the name of a field"),
        ("{\"x\":1]", "expected `,` or `}`"),
        ("{\"x\":1}{\"x\":2}", "expected the end of the line behind the object, found `{`"),
        ("{\"x\":1} // why", "expected the end of the line"),
        ("[{\"x\":1}]", "expected an object, `{`, found `[`"),
        ("1", "expected an object"),
        ("null", "expected an object"),
        ("\"x\"", "expected an object"),
        (
            "{\"name\":\"a\tb\"}",
            "field `name`: not valid JSON at offset 10 of the record: expected the end of the string",
        ),
        ("{\"name\":\"a", "expected the end of the string"),
        ("{\"name\":\"\\x\"}", "expected one of"),
        ("{\"name\":\"\\u12g4\"}", "expected a hexadecimal digit, found `g`"),
        ("{\"name\":\"\\ud800\"}", "expected a whole surrogate pair"),
        ("{\"name\":\"\\ud800\\u0041\"}", "expected a whole surrogate pair"),
        ("{\"name\":\"\\udc00\"}", "expected a whole surrogate pair"),
        ("{\"x\":\"\\ud800\"}", "expected a whole surrogate pair"),
        ("{\"x\":\"a\u{1}b\"}", "expected the end of the string"),
        ("{\"id\":1.9}", "field `id`: `1.9` is no whole number, int64 holds no other"),
        ("{\"id\":9223372036854775808}", "field `id`: `9223372036854775808` is out of the range of int64"),
        ("{\"id\":1e400}", "`1e400` is out of the range of int64"),
        ("{\"id\":1e-400}", "`1e-400` is no whole number"),
        ("{\"id\":1e99999999999}", "is out of the range of int64"),
        ("{\"id\":\"1\"}", "field `id`: `\"1\"` is a text, not int64"),
        ("{\"id\":true}", "field `id`: `true` is a boolean, not int64"),
        ("{\"id\":[1]}", "field `id`: `[1]` is a list, not int64"),
        ("{\"id\":{\"a\":1}}", "field `id`: `{\"a\":1}` is an object, not int64"),
        ("{\"id\":{\"a\":01}}", "expected a number without leading zeros"),
        ("{\"small\":128}", "field `small`: `128` is out of the range of int8"),
        ("{\"count\":-1}", "field `count`: `-1` is out of the range of uint32"),
        (
            "{\"price\":1.239}",
            "field `price`: `1.239` has more than 2 digits behind the point, decimal(10,2) would round it",
        ),
        ("{\"price\":123456789.5}", "field `price`: `123456789.5` is out of the range of decimal(10,2)"),
        ("{\"price\":\"abc\"}", "field `price`: `\"abc\"` is a text, not decimal(10,2)"),
        ("{\"price\":\"01\"}", "field `price`: `\"01\"` is a text, not decimal(10,2)"),
        ("{\"ratio\":1e400}", "field `ratio`: `1e400` is out of the range of float64"),
        ("{\"ratio\":\"inf\"}", "field `ratio`: `\"inf\"` is a text, not float64"),
        ("{\"half\":1e39}", "field `half`: `1e39` is out of the range of float32"),
        ("{\"name\":5}", "field `name`: `5` is a number, not string"),
        ("{\"at\":\"2024-01-01\"}", "field `at`: `2024-01-01` is no time of RFC 3339"),
        ("{\"at\":\"2024-01-01T00:00:00\"}", "has no offset from UTC"),
        ("{\"at\":\"2024-01-01T00:00:00.0001Z\"}", "has more than 3 digits of a second"),
        ("{\"at\":1.5}", "`1.5` is no whole number, a timestamp holds no other"),
        ("{\"day\":\"2023-02-29\"}", "field `day`: `2023-02-29` is no date"),
        ("{\"day\":5}", "field `day`: `5` is a number, not date"),
        ("{\"tags\":[{},{\"k\":1}]}", "field `tags[1].k`: `1` is a number, not string"),
        ("{\"tags\":[{\"v\":\"a\"}]}", "field `tags[0].v`: `a` is no base64"),
        ("{\"tags\":[{\"k\":\"x\"},", "field `tags[1]`: not valid JSON at offset 19"),
        ("{\"tags\":{}}", "field `tags`: `{}` is an object, not list<struct<k:string,v:binary>>"),
        ("\u{feff}{}", "expected an object, `{`, found `\\ufeff`"),
        ("\u{0}", "expected an object, `{`, found `\\u0000`"),
    ];
    let mut bad: Vec<_> = text.map(|(line, reason)| (line.as_bytes().to_vec(), reason)).into();
    bad.push((b"{\"name\":\"a\xff\"}".to_vec(), "not valid UTF-8: byte 0xff at offset 10 of the record"));
    bad.push((b"{\"x\":\"\xed\xa0\x80\"}".to_vec(), "not valid UTF-8: byte 0xed at offset 6 of the record"));
    let deep =
        |open: &str, close: &str| format!("{{\"x\":{}1{}}}", open.repeat(10_000), close.repeat(10_000));
    bad.push((deep("[", "]").into_bytes(), "field `x`: nested deeper than 128 levels"));
    bad.push((deep("{\"a\":", "}").into_bytes(), "nested deeper than 128 levels"));
    bad.push((deep("[", "").into_bytes(), "nested deeper than 128 levels"));
    bad
}

#[test]
fn every_kind_of_bad_record_is_refused_with_its_reason() {
    for (line, reason) in bad() {
        let decoded = read_lines(&FIELDS, &line);
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        assert_eq!(decoded.rejected.len(), 1, "{shown} was taken");
        assert!(decoded.batches.is_empty());
        let found = &decoded.rejected[0].reason;
        assert!(found.contains(reason.trim_start_matches("field `x`: ")), "{shown}: {found}");
        assert_eq!(decoded.rejected[0].raw.as_ref(), &line[..line.len().min(RAW_BYTES_MAX)]);
        assert_eq!(decoded.rejected[0].raw_len, line.len() as u64);
    }
}

#[test]
fn an_object_over_two_lines_is_two_bad_records() {
    let decoded = read_lines(&FIELDS, "{\"id\":\n1}\n");
    let reasons: Vec<_> = decoded.rejected.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2);
    assert!(reasons[0].ends_with("expected a value, found the end"), "{}", reasons[0]);
    assert!(reasons[1].ends_with("expected an object, `{`, found `1`"), "{}", reasons[1]);
}

#[test]
fn bad_records_among_ten_thousand_never_disturb_the_others() {
    let bad = bad();
    let good = |i: usize| {
        format!(
            "{{\"id\":{i},\"name\":\"n{i}\",\"price\":{i}.25,\"x\":[{{}}],\"tags\":[{{\"k\":\"k{i}\"}},null],\"ratio\":null}}"
        )
    };
    let (mut text, mut expected, mut places) = (Vec::new(), String::new(), Vec::new());
    for i in 0..10_000 {
        if i % 97 == 0 {
            places.push(text.len() as u64);
            text.extend_from_slice(&bad[i / 97 % bad.len()].0);
        } else {
            text.extend_from_slice(good(i).as_bytes());
            expected.push_str(&good(i));
            expected.push('\n');
        }
        text.push(b'\n');
    }
    let decoded = read_lines(&FIELDS, &text);
    assert_eq!(decoded.rejected.iter().map(|one| one.position).collect::<Vec<_>>(), places);
    assert_eq!(decoded.records, 10_000);
    assert_eq!(rows(&decoded), rows(&read_lines(&FIELDS, expected)));
}

#[test]
fn a_record_in_an_ignored_field_may_nest_127_deep() {
    let line = |depth: usize| format!("{{\"x\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(row_count(&read_lines(&FIELDS, line(127))), 1);
    assert_eq!(row_count(&read_lines(&FIELDS, line(128))), 0);
}

#[test]
fn a_reason_quotes_the_start_of_a_value_on_one_line() {
    let decoded = read_lines(&[("id", "int64")], format!("{{\"id\":\"{}\"}}", "é\u{202e}".repeat(3000)));
    let reason = only_reason(&decoded);
    assert!(reason.chars().count() < 500, "{reason}");
    assert!(!reason.contains('\u{202e}') && reason.contains("\\u202e") && reason.contains('…'), "{reason}");
}

#[test]
fn a_long_record_is_kept_up_to_64_kib_and_between_characters() {
    let line = format!("x{}", "é".repeat(100_000));
    let decoded = read_lines(&[("id", "int64")], &line);
    let letter = &decoded.rejected[0];
    assert_eq!(letter.raw.len(), RAW_BYTES_MAX - 1);
    assert!(std::str::from_utf8(&letter.raw).is_ok());
    assert_eq!(letter.raw_len, 200_001);
}

/// Pieces that make text which is nearly NDJSON.
fn nearly_ndjson() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\n",
            "\n",
            "\r\n",
            " ",
            "\"",
            "\\",
            "\"id\"",
            "\"name\"",
            "\"tags\"",
            "\"x\"",
            "null",
            "true",
            "0",
            "-1",
            "1.5",
            "1e9",
            "\"a\"",
            "\\u00e9",
            "\\ud83d",
            "{\"id\":1}\n",
            "{\"tags\":[{\"k\":",
            "{\"name\":\"é\"}\n",
            "\"at\"",
            "\"2024-01-01T00:00:00Z\"",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..3),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn lines_with_something(bytes: &[u8]) -> u64 {
    let blank = |line: &&[u8]| !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    bytes.split(|byte| *byte == b'\n').filter(blank).count() as u64
}

proptest! {
    #[test]
    fn any_bytes_give_each_line_one_verdict(bytes in nearly_ndjson()) {
        for unknown in [Unknown::Ignore, Unknown::Fail, Unknown::Capture] {
            let decoded = ndjson(&FIELDS, unknown).decode(7, &bytes).unwrap();
            prop_assert_eq!(decoded.records, lines_with_something(&bytes));
            prop_assert_eq!(decoded.records, row_count(&decoded) + decoded.rejected.len() as u64);
        }
    }

    #[test]
    fn the_verdict_on_a_line_never_depends_on_its_chunk(bytes in nearly_ndjson()) {
        let decoder = ndjson(&FIELDS, Unknown::Capture);
        let whole = decoder.decode(0, &bytes).unwrap();
        let (mut alone_rows, mut alone_rejected, mut base) = (Vec::new(), Vec::new(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let decoded = decoder.decode(base, line).unwrap();
            alone_rows.extend(decoded.batches.into_iter().map(|batch| batch.records));
            alone_rejected.extend(decoded.rejected);
            base += line.len() as u64;
        }
        prop_assert_eq!(&whole.rejected, &alone_rejected);
        if !alone_rows.is_empty() {
            let schema = alone_rows[0].schema();
            prop_assert_eq!(rows(&whole), arrow::compute::concat_batches(&schema, &alone_rows).unwrap());
        }
    }
}
