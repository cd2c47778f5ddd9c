//! The reference tells the truth.

use super::WHOLE;
use super::parse;
use crate::pipeline::ByteSize;
use crate::pipeline::TimeSpan;
use crate::pipeline::settings;

const REFERENCE: &str = include_str!("../../../docs/pipeline.md");

/// What is valid where `marker` stands in the right file, as the program itself lists it.
fn valid_at(line: &str, with_unknown: &str) -> Vec<String> {
    let told = parse(&WHOLE.replacen(line, with_unknown, 1)).unwrap_err().to_string();
    let (_, list) = told.split_once("valid here: ").unwrap_or_else(|| panic!("no list in: {told}"));
    list.lines().next().unwrap().split(", ").map(str::to_owned).collect()
}

#[test]
fn the_reference_names_every_key() {
    let mut count = 0;
    for (line, with_unknown) in [
        ("name = ", "qqqqqqqq = 1\nname = "),
        ("[source]", "[source]\nqqqqqqqq = 1"),
        ("[on_error]", "[on_error]\nqqqqqqqq = 1"),
        ("[[transform]]", "[[transform]]\nqqqqqqqq = 1"),
        ("[sink]", "[sink]\nqqqqqqqq = 1"),
        ("size = \"256MB\", age", "qqqqqqqq = 1, age"),
        ("compression = \"zstd(3)\"", "qqqqqqqq = 1"),
        ("[checkpoint]", "[checkpoint]\nqqqqqqqq = 1"),
        ("[restart]", "[restart]\nqqqqqqqq = 1"),
    ] {
        for key in valid_at(line, with_unknown) {
            let named =
                [format!("`{key}`"), format!("`[{key}]`"), format!("`[[{key}]]`"), format!("`sink.{key}`")];
            assert!(named.iter().any(|form| REFERENCE.contains(form)), "docs/pipeline.md has no `{key}`");
            count += 1;
        }
    }
    assert!(count > 45, "only {count} keys were found");
}

#[test]
fn the_reference_names_every_default() {
    let size = |bytes: u64| format!("`\"{}\"`", ByteSize(bytes));
    let span = |of| format!("`\"{}\"`", TimeSpan(of));
    for (key, default) in [
        ("poll", span(settings::SOURCE_POLL)),
        ("record_limit", size(settings::RECORD_LIMIT)),
        ("memory", size(settings::SINK_MEMORY)),
        ("descriptors", format!("`{}`", settings::SINK_DESCRIPTORS)),
        ("size", size(settings::ROLL_SIZE)),
        ("age", span(settings::ROLL_AGE)),
        ("inactivity", span(settings::ROLL_INACTIVITY)),
        ("row_group_rows", format!("`{}`", settings::ROW_GROUP_ROWS)),
        ("interval", span(settings::CHECKPOINT_INTERVAL)),
        ("retain", format!("`{}`", settings::CHECKPOINT_RETAIN)),
        ("timeout", span(settings::CHECKPOINT_TIMEOUT)),
        ("tolerated_failures", format!("`{}`", settings::CHECKPOINT_TOLERATED_FAILURES)),
        ("delay", span(settings::RESTART_DELAY)),
        ("attempts", format!("`{}`", settings::RESTART_ATTEMPTS)),
        ("delay_max", span(settings::RESTART_DELAY_MAX)),
        ("multiplier", format!("`{:?}`", settings::RESTART_MULTIPLIER)),
        ("jitter", format!("`{:?}`", settings::RESTART_JITTER)),
        ("reset_after", span(settings::RESTART_RESET_AFTER)),
    ] {
        let row = REFERENCE.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for `{key}`"));
        assert!(row.contains(&default), "the default of `{key}` is {default}: {row}");
    }
}

#[test]
fn the_examples_of_the_reference_are_right() {
    let blocks: Vec<&str> =
        REFERENCE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 8);
    parse(blocks[0]).unwrap();
    // The others show one table each; together they are a pipeline.
    let whole = format!("name = \"x\"\n{}", blocks[1..].concat());
    if let Err(problems) = parse(&whole) {
        panic!("{problems}\n{whole}");
    }
}
