//! What a right file means.

use std::path::Path;
use std::time::Duration;

use super::WHOLE;
use super::folder;
use super::parse;
use crate::operator::TransformSettings;
use crate::pipeline::BadRecord;
use crate::pipeline::Compression;
use crate::pipeline::Guarantee;
use crate::pipeline::Mode;
use crate::pipeline::Restart;
use crate::pipeline::UnknownField;
use crate::pipeline::settings;

const LEAST: &str = r#"
name = "x"
source = { type = "file", path = "in.csv", format = "csv" }
sink = { type = "file", path = "/lake/x", format = "parquet" }
checkpoint = { state = "s" }
"#;

#[test]
fn what_is_left_out_has_the_documented_default() {
    let pipeline = parse(LEAST).unwrap();
    assert_eq!(pipeline.checkpoint.interval, settings::CHECKPOINT_INTERVAL);
    assert_eq!(pipeline.checkpoint.retain, 3);
    assert_eq!(pipeline.checkpoint.mode, Mode::ExactlyOnce);
    assert_eq!(pipeline.on_error.bad_record, BadRecord::Fail);
    assert_eq!(pipeline.on_error.unknown_field, UnknownField::Ignore);
    assert_eq!(pipeline.on_error.record_limit, 16_000_000);
    assert_eq!(pipeline.sink.roll.size, 256_000_000);
    assert_eq!(pipeline.sink.roll.rows, None);
    assert_eq!(pipeline.sink.parquet.compression, Compression::Zstd(1));
    assert_eq!(pipeline.sink.time_zone.iana_name(), Some("UTC"));
    assert!(pipeline.schema.is_none() && pipeline.transforms.is_empty());
    assert!(matches!(pipeline.restart, Restart::Exponential { attempts: 10, .. }));
}

#[test]
fn paths_are_relative_to_the_pipeline_file() {
    let pipeline = parse(&WHOLE.replace("\"state/clicks\"", "\"../state/./clicks\"")).unwrap();
    assert_eq!(pipeline.sink.path, folder().join("out/clicks"));
    assert_eq!(pipeline.checkpoint.state, Path::new("/state/clicks"));
    assert_eq!(pipeline.source.base, folder());
    assert_eq!(parse(LEAST).unwrap().sink.path, Path::new("/lake/x"));
}

#[test]
fn variables_fill_values_and_stay_literal() {
    let text = WHOLE.replace("\"out/clicks\"", "\"${HOME}/${NONE:-lake}/${EMPTY:-clicks}\"");
    assert_eq!(parse(&text).unwrap().sink.path, Path::new("/home/ada/lake/clicks"));
    let text = WHOLE.replace("retain = 3", "retain = \"${RETAIN:-7}\"");
    assert_eq!(parse(&text).unwrap().checkpoint.retain, 7);
}

#[test]
fn fields_keep_the_order_of_the_file() {
    let pipeline = parse(WHOLE).unwrap();
    let schema = pipeline.schema.clone().unwrap();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["event_id", "user_id", "ts", "price", "tags", "geo"]);
    let bound = pipeline.bind(&schema).unwrap();
    let names: Vec<&str> = bound.output.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["event_id", "user", "ts", "price", "tags", "geo"]);
}

#[test]
fn captured_fields_are_one_more_column_for_the_transforms() {
    let text = WHOLE
        .replace("[on_error]", "[on_error]\nunknown_field = \"capture\"")
        .replace("price > 0", "_unknown IS NOT NULL");
    parse(&text).unwrap();
    let told = parse(&text.replace("\"capture\"", "\"ignore\"")).unwrap_err().to_string();
    assert!(told.contains("no field `_unknown`"), "{told}");
}

#[test]
fn values_are_typed() {
    let pipeline = parse(WHOLE).unwrap();
    assert_eq!(pipeline.sink.roll.age, Duration::from_secs(900));
    assert_eq!(pipeline.sink.parquet.compression, Compression::Zstd(3));
    assert_eq!(pipeline.transforms.len(), 2);
    assert!(
        matches!(&pipeline.transforms[1], TransformSettings::Rename { map } if map == &[("user_id".to_owned(), "user".to_owned())])
    );
    assert_eq!(pipeline.on_error.dead_letters.as_deref(), Some(folder().join("out/bad").as_path()));
}

#[test]
fn a_mistake_found_with_an_inferred_schema_has_its_place_too() {
    let text = WHOLE.replace("[schema]\nevent_id = \"string\"\nuser_id = \"int64\"\nts = \"timestamp(ms)\"\nprice = \"decimal(10,2)\"\ntags = \"list<string>\"\ngeo = \"struct<country:string,city:string>\"\n", "");
    let pipeline = parse(&text).unwrap();
    let schema =
        parse(&WHOLE.replace("price = \"decimal", "prize = \"decimal").replace("price > 0", "prize > 0"))
            .unwrap()
            .schema
            .unwrap();
    let told = pipeline.bind(&schema).unwrap_err().to_string();
    assert!(
        told.contains("/jobs/clicks.toml:16:15: transform[0].expression: there is no field `price`"),
        "{told}"
    );
}

#[test]
fn a_mistake_in_a_text_that_is_not_as_written_is_placed_at_its_start() {
    for expression in [
        "\"${NONE:-price} > 0 AND prize > 1\"",
        "\"price > 0\\tAND prize > 1\"",
        "\"\"\"price > 0 AND prize > 1\"\"\"",
    ] {
        let text = WHOLE.replace("\"price > 0 AND geo.country <> 'XX'\"", expression);
        let told = parse(&text).unwrap_err().to_string();
        assert!(
            told.contains("/jobs/clicks.toml:23:14: transform[0].expression: there is no field `prize`"),
            "{told}"
        );
    }
}

#[test]
fn the_fingerprint_covers_what_decides_rows_and_buckets_and_nothing_else() {
    let whole = parse(WHOLE).unwrap().fingerprint();
    // Written down once: a state of an older version must be known again.
    assert_eq!(whole.to_string(), "261c1dee287371b96aa55f881cddb357");
    for (line, instead) in [
        ("interval = \"10s\"", "interval = \"1s\""),
        ("age = \"15m\"", "age = \"16m\""),
        ("memory = \"256MB\"", "memory = \"64MB\""),
        ("compression = \"zstd(3)\"", "compression = \"none\""),
        ("strategy = \"exponential\"", "strategy = \"none\""),
        ("bad_record = \"dead_letter\"\ndead_letters = \"out/bad\"", "bad_record = \"skip\""),
        ("record_limit = \"16MB\"", "record_limit = \"1MB\""),
        ("state = \"state/clicks\"", "state = \"elsewhere\""),
    ] {
        assert_eq!(parse(&WHOLE.replace(line, instead)).unwrap().fingerprint(), whole, "{instead}");
    }
    for (line, instead) in [
        ("name = \"clicks\"", "name = \"clicks2\""),
        ("data/*.ndjson", "data/*.jsonl"),
        ("tags = \"list<string>\"", "tags = \"list<int64>\""),
        ("event_id = \"string\"\nuser_id = \"int64\"", "user_id = \"int64\"\nevent_id = \"string\""),
        ("price > 0", "price > 1"),
        ("map = { user_id = \"user\" }", "map = { user_id = \"who\" }"),
        ("hour={ts:%H}", "hour={ts:%I}"),
        ("time_zone = \"UTC\"", "time_zone = \"Europe/Berlin\""),
        ("out/clicks", "out/klicks"),
        ("[on_error]", "[on_error]\nunknown_field = \"capture\""),
    ] {
        assert_ne!(parse(&WHOLE.replace(line, instead)).unwrap().fingerprint(), whole, "{instead}");
    }
}

#[test]
fn the_guarantee_is_that_of_the_weakest_part() {
    let report = parse(WHOLE).unwrap().guarantees();
    assert_eq!(report.whole(), Guarantee::ExactlyOnce);
    let report = parse(&WHOLE.replace("retain = 3", "mode = \"at_least_once\"")).unwrap().guarantees();
    assert_eq!(report.whole(), Guarantee::AtLeastOnce);
    let weakest: Vec<_> = report.weakest().collect();
    assert_eq!(weakest.len(), 1);
    assert!(weakest[0].raise.as_deref().unwrap().contains("checkpoint.mode"));
}
