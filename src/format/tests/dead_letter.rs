use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;

use super::*;
use crate::format::dead_letter_schema;
use crate::format::dead_letters;
use crate::format::rejected;

#[test]
fn a_dead_letter_says_where_it_came_from_and_why_and_holds_the_record() {
    let split = SplitId::new("in/a.ndjson");
    let letters = [
        rejected(&split, 7, "not valid JSON", b"{\"a\":"),
        rejected(&split, 90, "not valid UTF-8", b"\xff\x00"),
        rejected(&split, 99, "too long", &[b'x'; 100_000]),
    ];
    let rows = dead_letters(&letters).unwrap();
    assert_eq!(rows.schema(), dead_letter_schema());
    let text = |name: &str, row| rows[name].as_string::<i32>().value(row).to_owned();
    let number = |name: &str, row| rows[name].as_primitive::<UInt64Type>().value(row);
    assert_eq!(text("split", 0), "in/a.ndjson");
    assert_eq!((number("position", 0), text("reason", 0)), (7, "not valid JSON".into()));
    assert_eq!(
        (text("raw", 0), text("raw_encoding", 0), number("raw_bytes", 0)),
        ("{\"a\":".into(), "utf8".into(), 5)
    );
    assert_eq!(
        (text("raw", 1), text("raw_encoding", 1), number("raw_bytes", 1)),
        ("/wA=".into(), "base64".into(), 2)
    );
    assert_eq!((text("raw", 2).len(), number("raw_bytes", 2)), (65_536, 100_000));
    assert_eq!(dead_letters(&[]).unwrap().num_rows(), 0);
}
