//! Wrong pipeline files (C23): each is refused with its place, its key, the reason and, where a word
//! is not known, the nearest that is.

use super::WHOLE;
use super::parse;

/// A mistake made in [`WHOLE`]: a line of it, what stands there instead, and what is said about it.
struct Wrong {
    line: &'static str,
    instead: &'static str,
    /// Line and column of the problem.
    at: (usize, usize),
    key: &'static str,
    /// Parts of the message.
    says: &'static [&'static str],
}

const fn wrong(
    line: &'static str,
    instead: &'static str,
    at: (usize, usize),
    key: &'static str,
    says: &'static [&'static str],
) -> Wrong {
    Wrong { line, instead, at, key, says }
}

/// Mistakes of form: no TOML, unknown keys, wrong types, unknown words.
const FORM: &[Wrong] = &[
    wrong("type = \"file\"", "type = file", (4, 8), "", &["not TOML", "quotes"]),
    wrong("name = \"clicks\"", "name = \"clicks", (1, 15), "", &["not TOML"]),
    wrong("retain = 3", "retain = 3\nretain = 4", (43, 1), "", &["not TOML", "duplicate"]),
    wrong("interval = \"10s\"", "interval = 10s", (40, 12), "", &["not TOML", "quotes"]),
    wrong("[schema]", "[schema", (8, 8), "", &["not TOML"]),
    wrong(
        "path = \"data/*.ndjson\"",
        "paht = \"data/*.ndjson\"",
        (5, 1),
        "source.paht",
        &["unknown key", "`path`"],
    ),
    wrong(
        "partition_by = [",
        "partiton_by = [",
        (33, 1),
        "sink.partiton_by",
        &["unknown key", "`partition_by`"],
    ),
    wrong(
        "time_zone = \"UTC\"",
        "timezone = \"UTC\"",
        (34, 1),
        "sink.timezone",
        &["unknown key", "`time_zone`"],
    ),
    wrong(
        "size = \"256MB\", age",
        "sise = \"256MB\", age",
        (35, 10),
        "sink.roll.sise",
        &["unknown key", "`size`"],
    ),
    wrong(
        "compression = \"zstd(3)\"",
        "compresion = \"zstd\"",
        (37, 13),
        "sink.parquet.compresion",
        &["`compression`"],
    ),
    wrong("interval = \"10s\"", "intervall = \"10s\"", (40, 1), "checkpoint.intervall", &["`interval`"]),
    wrong("[checkpoint]", "[checkpoints]", (39, 2), "checkpoints", &["unknown key", "`checkpoint`"]),
    wrong(
        "name = \"clicks\"",
        "name = \"clicks\"\nverbose = true",
        (2, 1),
        "verbose",
        &["unknown key", "valid here", "transform"],
    ),
    wrong(
        "expression = \"price",
        "expresion = \"price",
        (23, 1),
        "transform[0].expresion",
        &["`expression`"],
    ),
    wrong(
        "bad_record = \"dead_letter\"",
        "bad_record = \"dead_leter\"",
        (17, 14),
        "on_error.bad_record",
        &["`dead_leter`", "`dead_letter`"],
    ),
    wrong("format = \"ndjson\"", "format = \"json\"", (6, 10), "source.format", &["`json`", "`ndjson`"]),
    wrong("format = \"parquet\"", "format = \"parket\"", (32, 10), "sink.format", &["`parket`", "`parquet`"]),
    wrong(
        "strategy = \"exponential\"",
        "strategy = \"always\"",
        (45, 12),
        "restart.strategy",
        &["`always`", "exponential, fixed, none"],
    ),
    wrong("memory = \"256MB\"", "memory = \"256mb\"", (36, 10), "sink.memory", &["written `MB`"]),
    wrong("memory = \"256MB\"", "memory = true", (36, 10), "sink.memory", &["boolean", "size such as"]),
    wrong(
        "interval = \"10s\"",
        "interval = 10",
        (40, 12),
        "checkpoint.interval",
        &["integer `10`", "duration with its unit"],
    ),
    wrong(
        "interval = \"10s\"",
        "interval = \"10 sec\"",
        (40, 12),
        "checkpoint.interval",
        &["`sec` is no unit"],
    ),
    wrong("retain = 3", "retain = -1", (42, 10), "checkpoint.retain", &["integer `-1`", "0 or more"]),
    wrong(
        "partition_by = [\"dt={ts:%Y-%m-%d}\", \"hour={ts:%H}\"]",
        "partition_by = \"dt={ts:%Y}\"",
        (33, 16),
        "sink.partition_by",
        &["list in brackets"],
    ),
    wrong("name = \"clicks\"", "name = 7", (1, 8), "name", &["integer `7`", "expected a string"]),
    wrong(
        "path = \"out/clicks\"",
        "path = \"${OUT}/clicks\"",
        (31, 8),
        "sink.path",
        &["OUT is not set", "${OUT:-default}"],
    ),
    wrong("path = \"out/clicks\"", "path = \"${OUT\"", (31, 8), "sink.path", &["no closing `}`"]),
    wrong(
        "path = \"out/clicks\"",
        "path = \"${O-UT}\"",
        (31, 8),
        "sink.path",
        &["no name of an environment variable"],
    ),
];

/// Values that cannot be right, and words of later versions.
const VALUES: &[Wrong] = &[
    wrong("name = \"clicks\"", "name = \"My Clicks\"", (1, 8), "name", &["is no name", "\"my-clicks\""]),
    wrong("name = \"clicks\"", "", (1, 1), "name", &["missing"]),
    wrong(
        "type = \"file\"\npath = \"data",
        "type = \"kafka\"\npath = \"data",
        (4, 8),
        "source.type",
        &["not in this version", "\"file\""],
    ),
    wrong("format = \"ndjson\"", "format = \"parquet\"", (6, 10), "source.format", &["not in this version"]),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"s3://bucket/in/*.ndjson\"",
        (5, 8),
        "source.path",
        &["s3://", "not in this version"],
    ),
    wrong(
        "path = \"out/clicks\"",
        "path = \"s3://bucket/clicks\"",
        (31, 8),
        "sink.path",
        &["s3://", "not in this version"],
    ),
    wrong("path = \"data/*.ndjson\"", "", (3, 2), "source.path", &["missing"]),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"data/[ab.ndjson\"",
        (5, 8),
        "source.path",
        &["pattern is not valid"],
    ),
    wrong("path = \"data/*.ndjson\"", "path = \"data/\"", (5, 8), "source.path", &["names a folder"]),
    wrong(
        "user_id = \"int64\"",
        "user_id = \"int\"",
        (10, 12),
        "schema.user_id",
        &["unknown type `int`", "`int64`"],
    ),
    wrong(
        "price = \"decimal(10,2)\"",
        "price = \"decimal(40,2)\"",
        (12, 18),
        "schema.price",
        &["precision", "1 to 38"],
    ),
    wrong("tags = \"list<string>\"", "tags = \"list<string\"", (13, 20), "schema.tags", &["expected `>`"]),
    wrong("ts = \"timestamp(ms)\"", "ts = \"timestamp(min)\"", (11, 17), "schema.ts", &["not `min`"]),
    wrong("type = \"filter\"", "type = \"dedup\"", (22, 8), "transform[0].type", &["comes later"]),
    wrong(
        "type = \"file\"\npath = \"out",
        "type = \"postgres\"\npath = \"out",
        (30, 8),
        "sink.type",
        &["not in this version"],
    ),
    wrong(
        "time_zone = \"UTC\"",
        "time_zone = \"Berlin\"",
        (34, 13),
        "sink.time_zone",
        &["no time zone `Berlin`", "`Europe/Berlin`"],
    ),
    wrong("age = \"15m\"", "age = \"0s\"", (35, 32), "sink.roll.age", &["0 would give every row a file"]),
    wrong(
        "size = \"256MB\", age",
        "size = 0, age",
        (35, 17),
        "sink.roll.size",
        &["0 would give every row a file"],
    ),
    wrong("memory = \"256MB\"", "memory = \"1MB\"", (36, 10), "sink.memory", &["too little", "8MB"]),
    wrong(
        "row_group_rows = 1048576",
        "row_group_rows = 0",
        (37, 55),
        "sink.parquet.row_group_rows",
        &["from 1 to"],
    ),
    wrong(
        "compression = \"zstd(3)\"",
        "compression = \"zst\"",
        (37, 27),
        "sink.parquet.compression",
        &["`zst`", "`zstd`"],
    ),
    wrong(
        "compression = \"zstd(3)\"",
        "compression = \"zstd(40)\"",
        (37, 27),
        "sink.parquet.compression",
        &["from 1 to 22"],
    ),
    wrong(
        "compression = \"zstd(3)\"",
        "encryption = { footer_key = \"0123secret\" }",
        (37, 26),
        "sink.parquet.encryption",
        &["not supported"],
    ),
    wrong(
        "interval = \"10s\"",
        "interval = \"0s\"",
        (40, 12),
        "checkpoint.interval",
        &["0 would leave no time"],
    ),
    wrong("retain = 3", "retain = 0", (42, 10), "checkpoint.retain", &["from 1 to"]),
    wrong(
        "retain = 3",
        "replicate = \"s3://bucket/x\"",
        (42, 13),
        "checkpoint.replicate",
        &["not in this version"],
    ),
    wrong("state = \"state/clicks\"", "", (39, 2), "checkpoint.state", &["missing"]),
    wrong(
        "partition_by = [\"dt={ts:%Y-%m-%d}\"",
        "partition_by = [\"{ts:%Y-%m-%d}\"",
        (33, 17),
        "sink.partition_by[0]",
        &["is no level", "dt={ts:%Y-%m-%d}"],
    ),
    wrong(
        "partition_by = [\"dt={ts:%Y-%m-%d}\", ",
        "partition_by = [\"dt={ts:%Y}/m={ts:%m}\", ",
        (33, 17),
        "sink.partition_by[0]",
        &["several levels"],
    ),
    wrong(
        "partition_by = [\"dt={ts:%Y-%m-%d}\"",
        "partition_by = [\"../dt={ts:%Y-%m-%d}\"",
        (33, 17),
        "sink.partition_by[0]",
        &["no name for a level"],
    ),
    wrong(
        "partition_by = [\"dt={ts:%Y-%m-%d}\"",
        "partition_by = [\"dt={ts:%!}\"",
        (33, 17),
        "sink.partition_by[0]",
        &["format `%!`"],
    ),
    wrong(
        "state = \"state/clicks\"",
        "state = \"/\"",
        (41, 9),
        "checkpoint.state",
        &["root of the file system"],
    ),
];

/// Keys that contradict each other: both are named.
const RELATIONS: &[Wrong] = &[
    wrong(
        "dead_letters = \"out/bad\"",
        "",
        (17, 14),
        "on_error.bad_record",
        &["on_error.bad_record", "on_error.dead_letters"],
    ),
    wrong(
        "bad_record = \"dead_letter\"",
        "bad_record = \"skip\"",
        (18, 16),
        "on_error.dead_letters",
        &["on_error.dead_letters", "on_error.bad_record"],
    ),
    wrong(
        "dead_letters = \"out/bad\"",
        "dead_letters = \"out/clicks/bad\"",
        (18, 16),
        "on_error.dead_letters",
        &["lies inside sink.path"],
    ),
    wrong(
        "state = \"state/clicks\"",
        "state = \"out/clicks\"",
        (41, 9),
        "checkpoint.state",
        &["checkpoint.state and sink.path are the same"],
    ),
    wrong(
        "state = \"state/clicks\"",
        "state = \"./out/../out/clicks/state\"",
        (41, 9),
        "checkpoint.state",
        &["checkpoint.state lies inside sink.path"],
    ),
    wrong(
        "state = \"state/clicks\"",
        "state = \"out\"",
        (41, 9),
        "checkpoint.state",
        &["sink.path lies inside checkpoint.state"],
    ),
    wrong(
        "dead_letters = \"out/bad\"",
        "dead_letters = \"state/clicks/bad\"",
        (18, 16),
        "on_error.dead_letters",
        &["lies inside checkpoint.state"],
    ),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"**/*.ndjson\"",
        (5, 8),
        "source.path",
        &["source.path", "on_error.dead_letters"],
    ),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"out/**\"",
        (5, 8),
        "source.path",
        &["source.path", "sink.path"],
    ),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"state/clicks/*\"",
        (5, 8),
        "source.path",
        &["source.path", "checkpoint.state"],
    ),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"*.toml\"",
        (5, 8),
        "source.path",
        &["source.path", "the pipeline file"],
    ),
    wrong(
        "path = \"data/*.ndjson\"",
        "path = \"out/clicks/in/*.ndjson\"",
        (5, 8),
        "source.path",
        &["source.path lies inside sink.path"],
    ),
    wrong("hour={ts:%H}", "hour={tss:%H}", (33, 37), "sink.partition_by[1]", &["no field `tss`", "`ts`"]),
    wrong(
        "hour={ts:%H}",
        "hour={price:%H}",
        (33, 37),
        "sink.partition_by[1]",
        &["schema.price", "only timestamps and dates"],
    ),
    wrong("hour={ts:%H}", "hour={ts}", (33, 37), "sink.partition_by[1]", &["needs a format"]),
    wrong(
        "hour={ts:%H}",
        "DT={ts:%H}",
        (33, 37),
        "sink.partition_by[1]",
        &["sink.partition_by[0]", "own name"],
    ),
    wrong("hour={ts:%H}", "price={ts:%H}", (33, 37), "sink.partition_by[1]", &["two columns"]),
    wrong("hour={ts:%H}", "tags={tags}", (33, 37), "sink.partition_by[1]", &["cannot name a folder"]),
    wrong(
        "hour={ts:%H}",
        "u={user_id}",
        (33, 37),
        "sink.partition_by[1]",
        &["no field `user_id` reaches the sink", "`user`"],
    ),
    wrong(
        "age = \"15m\", inactivity = \"5m\"",
        "age = \"5m\", inactivity = \"15m\"",
        (35, 51),
        "sink.roll.inactivity",
        &["sink.roll.inactivity", "sink.roll.age"],
    ),
    wrong(
        "record_limit = \"16MB\"",
        "record_limit = \"300MB\"",
        (36, 10),
        "sink.memory",
        &["sink.memory", "on_error.record_limit"],
    ),
    wrong(
        "format = \"parquet\"",
        "format = \"ndjson\"",
        (37, 11),
        "sink.parquet",
        &["sink.parquet", "sink.format"],
    ),
    wrong(
        "strategy = \"exponential\"",
        "strategy = \"fixed\"\njitter = 0.5",
        (46, 10),
        "restart.jitter",
        &["restart.jitter", "restart.strategy"],
    ),
    wrong(
        "strategy = \"exponential\"",
        "delay = \"10m\"\ndelay_max = \"1m\"",
        (45, 9),
        "restart.delay",
        &["restart.delay", "restart.delay_max"],
    ),
    wrong(
        "format = \"ndjson\"",
        "format = \"ndjson\"\npoll = \"1s\"",
        (7, 8),
        "source.poll",
        &["source.poll", "source.follow"],
    ),
    wrong(
        "type = \"rename\"",
        "type = \"rename\"\nfields = [\"ts\"]",
        (27, 10),
        "transform[1].fields",
        &["\"select\"", "transform[1].type"],
    ),
    wrong("map = { user_id = \"user\" }", "", (25, 1), "transform[1].map", &["missing", "map = {"]),
    wrong(
        "map = { user_id = \"user\" }",
        "map = { userid = \"user\" }",
        (27, 9),
        "transform[1].map.userid",
        &["no field `userid`", "`user_id`"],
    ),
    wrong(
        "map = { user_id = \"user\" }",
        "map = { user_id = \"ts\" }",
        (27, 9),
        "transform[1].map.user_id",
        &["two fields would be called `ts`"],
    ),
    wrong(
        "expression = \"price > 0 AND",
        "expression = \"prize > 0 AND",
        (23, 15),
        "transform[0].expression",
        &["no field `prize`", "`price`"],
    ),
    wrong(
        "geo.country <> 'XX'",
        "geo.land <> 'XX'",
        (23, 33),
        "transform[0].expression",
        &["no field `land` in `geo`", "country, city"],
    ),
    wrong(
        "geo.country <> 'XX'",
        "geo.country <> 7",
        (23, 44),
        "transform[0].expression",
        &["cannot compare string and int64", "quotes"],
    ),
    wrong(
        "geo.country <> 'XX'",
        "geo.country <>",
        (23, 43),
        "transform[0].expression",
        &["not a SQL expression"],
    ),
    wrong(
        "expression = \"price > 0 AND geo.country <> 'XX'\"",
        "expression = \"price + 1\"",
        (23, 15),
        "transform[0].expression",
        &["true or false"],
    ),
    wrong(
        "row_group_rows = 1048576",
        "bloom_filter = [\"evnt_id\"]",
        (37, 54),
        "sink.parquet.bloom_filter[0]",
        &["no field `evnt_id`", "`event_id`"],
    ),
];

fn refuse(table: &[Wrong]) {
    let failures: Vec<String> = table.iter().filter_map(|case| judge(case).err()).collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), table.len(), failures.join("\n"));
}

fn judge(case: &Wrong) -> Result<(), String> {
    assert!(WHOLE.contains(case.line), "the right file has no `{}`", case.line);
    let text = WHOLE.replacen(case.line, case.instead, 1);
    let Err(problems) = parse(&text) else { return Err(format!("`{}` is taken", case.instead)) };
    let told = problems.to_string();
    let Some(found) = problems.list.iter().find(|problem| problem.key == case.key) else {
        return Err(format!("`{}`: no word about `{}` in:\n{told}", case.instead, case.key));
    };
    if (found.line, found.column) != case.at {
        return Err(format!("`{}`: not at {:?}:\n{told}", case.instead, case.at));
    }
    if !told.contains(&format!("/jobs/clicks.toml:{}:{}: ", case.at.0, case.at.1)) {
        return Err(format!("no file and place in:\n{told}"));
    }
    match case.says.iter().find(|phrase| !found.to_string().contains(**phrase)) {
        Some(phrase) => Err(format!("`{}`: `{phrase}` is not in:\n{told}", case.instead)),
        None => Ok(()),
    }
}

#[test]
fn mistakes_of_form_are_refused_with_place_and_nearest_key() {
    refuse(FORM);
}

#[test]
fn values_that_cannot_be_right_are_refused() {
    refuse(VALUES);
}

#[test]
fn keys_that_contradict_each_other_are_both_named() {
    refuse(RELATIONS);
}

#[test]
fn the_right_file_itself_is_taken() {
    parse(WHOLE).unwrap();
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_lines() {
    let text = WHOLE
        .replace("age = \"15m\"", "age = \"0s\"")
        .replace("retain = 3", "retain = 0")
        .replace("name = \"clicks\"", "name = \"X\"");
    let problems = parse(&text).unwrap_err();
    let keys: Vec<&str> = problems.list.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["name", "sink.roll.age", "checkpoint.retain"]);
}

#[test]
fn the_value_of_a_secret_key_is_never_shown() {
    for text in [
        WHOLE.replace("retain = 3", "sasl_password = \"hunter2\""),
        WHOLE.replace("compression = \"zstd(3)\"", "encryption = { key = \"hunter2\" }"),
        WHOLE.replace("[restart]", "[restart]\napi_key = { nested = \"hunter2\" }"),
    ] {
        let told = parse(&text).unwrap_err().to_string();
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_field_that_captured_ones_would_fall_together_with_is_refused() {
    let text = WHOLE
        .replace("price = ", "_unknown = \"string\"\nprice = ")
        .replace("[on_error]", "[on_error]\nunknown_field = \"capture\"");
    let told = parse(&text).unwrap_err().to_string();
    assert!(
        told.contains("/jobs/clicks.toml:12:1: schema._unknown: ") && told.contains("on_error.unknown_field"),
        "{told}"
    );
}

#[test]
fn a_home_that_only_a_shell_knows_is_refused() {
    let told = parse(&WHOLE.replace("\"out/clicks\"", "\"~/clicks\"")).unwrap_err().to_string();
    assert!(told.contains("sink.path: `~` is not expanded here") && told.contains("${HOME}"), "{told}");
}

#[test]
fn several_sources_or_sinks_are_refused_in_words() {
    let told = parse(&WHOLE.replace("[sink]", "[[sink]]")).unwrap_err().to_string();
    assert!(
        told.contains("/jobs/clicks.toml:29:3: sink: [[sink]]") && told.contains("not in this version"),
        "{told}"
    );
}

#[test]
fn a_single_transform_is_one_of_a_list() {
    let told = parse("name = \"x\"\n[transform]\ntype = \"filter\"\n").unwrap_err().to_string();
    assert!(told.contains(":2:2: transform: ") && told.contains("write [[transform]]"), "{told}");
}

#[test]
fn numbers_that_need_not_be_whole_may_be_strings_too() {
    let with = |more: &str| {
        parse(&WHOLE.replacen(
            "strategy = \"exponential\"",
            &format!("strategy = \"exponential\"\n{more}"),
            1,
        ))
    };
    with("multiplier = \"1.5\"\njitter = \"0\"").unwrap();
    with("multiplier = 3\njitter = 0.25").unwrap();
    for (wrong, words) in [
        ("jitter = \"much\"", "expected a number such as 1.5"),
        ("multiplier = true", "expected a number such as 1.5"),
        ("multiplier = \"0.5\"", "must be from 1 to 100"),
        ("multiplier = \"inf\"", "expected a number"),
    ] {
        let told = with(wrong).unwrap_err().to_string();
        assert!(told.contains(words) && !told.contains("f64"), "{wrong}: {told}");
    }
}
