//! Buckets: many of them within limits, any value as a folder, closed when they fall silent.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use crate::job;
use crate::job::PATIENCE;
use crate::job::Running;
use crate::job::Site;
use crate::job::tell;
use crate::support;

fn pipeline(schema: &str, sink: &str, checkpoint: &str) -> String {
    format!(
        r#"
name = "buckets"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
[schema]
{schema}
[sink]
type = "file"
path = "out/x"
format = "parquet"
{sink}
[checkpoint]
state = "state"
{checkpoint}
"#
    )
}

/// What a process holds at a moment: descriptors of part files in staging, and bytes of anonymous memory.
fn held(pid: u32) -> Option<(usize, u64)> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let parts = descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|path| job::name_of(path).starts_with("part-"))
        .count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = anonymous.trim().trim_end_matches(" kB").parse().ok()?;
    Some((parts, kilobytes << 10))
}

/// C13. In memory the rows are three times the budget.
#[test]
fn five_thousand_buckets_keep_to_descriptors_and_memory_and_have_a_file_each() {
    const ROWS: i64 = 200_000;
    const BUCKETS: i64 = 5_000;
    let sink = "partition_by = [\"kind={kind}\"]\ndescriptors = 64\nmemory = \"32MB\"\n\
                roll = { age = \"1h\", inactivity = \"1h\" }";
    let schema = "id = \"int64\"\nkind = \"int64\"\ntext = \"string\"";
    let site = Site::new(&pipeline(schema, sink, "interval = \"1s\""));
    let filler = "0123456789abcdef".repeat(24);
    let mut text = String::new();
    for id in 0..ROWS {
        text.push_str(&format!("{{\"id\":{id},\"kind\":{},\"text\":\"{id} {filler}\"}}\n", id * 7 % BUCKETS));
        if text.len() > 1 << 20 {
            site.feed("a.ndjson", &text);
            text.clear();
        }
    }
    site.feed("a.ndjson", &text);

    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$0\" run --log json \"$1\""]);
    command.arg(support::program()).arg(site.pipeline());
    let started = Instant::now();
    let mut running = Running::start(command);
    let (mut parts_max, mut anonymous_max) = (0, 0);
    while running.is_alive() && started.elapsed() < PATIENCE {
        if let Some((parts, anonymous)) = held(running.pid()) {
            parts_max = parts_max.max(parts);
            anonymous_max = anonymous_max.max(anonymous);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = running.wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended}");
    tell(&format!(
        "{ROWS} rows, {BUCKETS} buckets: {parts_max} descriptors of part files, {} MiB of anonymous memory, \
         {} checkpoints, {:.1} s",
        anonymous_max >> 20,
        ended.count("checkpoint completed"),
        started.elapsed().as_secs_f64(),
    ));
    assert!((1..=64).contains(&parts_max), "{parts_max}");
    assert!(anonymous_max < 256 << 20, "{anonymous_max}");
    let parts = site.rows_of_parts();
    assert_eq!(parts.len() as i64, BUCKETS);
    assert!(parts.values().all(|ids| ids.len() as i64 == ROWS / BUCKETS));
    let ids: BTreeSet<_> = parts.values().flatten().copied().collect();
    assert!(ids.iter().copied().eq(0..ROWS));
    assert_eq!(site.staged().len(), 0);
    site.assert_verified();
    let query = "select count(*), count(distinct id), count(distinct kind) from 'out/x/*/*.parquet'";
    let Some(counted) = job::duckdb(&site.root, query) else { return };
    assert_eq!(counted, [[ROWS, ROWS, BUCKETS].map(Value::from)]);
}

/// C14.
fn nasty() -> Vec<Value> {
    let texts = [
        "a/b",
        "a=b",
        "100%",
        "é",
        "日本",
        " ",
        ".",
        "..",
        "...",
        "../../x",
        "/etc/passwd",
        "tab\tand\u{1}",
        "end/",
        "007",
        "7",
        "a b",
        "a%2Fb",
        "A",
        "a",
        "null",
        "NULL",
        "None",
        "nan",
        "x\\y",
        "quote'\"",
        "*",
        "?",
        "a\nb",
        "🦀",
    ];
    texts.map(Value::from).into_iter().collect()
}

#[test]
fn any_value_is_one_folder_in_the_table_and_reads_back_the_same() {
    let long = "longer ".repeat(50);
    let other_long = format!("{long}!");
    let mut values = nasty();
    values.extend([
        Value::Null,
        Value::from(""),
        Value::from(long.as_str()),
        Value::from(other_long.as_str()),
    ]);
    let site = Site::new(&format!(
        "{}\n[on_error]\nbad_record = \"dead_letter\"\ndead_letters = \"out/bad\"\n",
        pipeline("id = \"int64\"\nv = \"string\"", "partition_by = [\"v={v}\"]", "")
    ));
    let mut wanted = BTreeMap::new();
    for (id, value) in values.iter().chain(&values).enumerate() {
        site.feed("a.ndjson", format!("{}\n", serde_json::json!({"id": id, "v": value})));
        wanted.insert(id as i64, value.as_str().filter(|text| !text.is_empty()).map(str::to_owned));
    }
    site.feed("a.ndjson", "{\"id\":9999,\"v\":\"__HIVE_DEFAULT_PARTITION__\"}\n");
    site.run_well(&[]);
    site.assert_landed_once(&wanted.keys().copied().collect::<Vec<_>>());
    let letters = site.dead_letters();
    assert_eq!(letters.len(), 1);
    assert!(letters[0]["reason"].as_str().unwrap().contains("__HIVE_DEFAULT_PARTITION__"), "{letters:?}");

    // One level each, inside the table, no two values in one folder.
    let parts = site.rows_of_parts();
    let mut folders = BTreeMap::new();
    for (path, ids) in &parts {
        let folder = Path::new(path).parent().unwrap();
        assert_eq!(folder.components().count(), 1, "{path:?}");
        let told: BTreeSet<_> = ids.iter().map(|id| &wanted[id]).collect();
        assert_eq!(told.len(), 1, "{path:?} holds {told:?}");
        assert!(folders.insert(folder.to_owned(), told).is_none(), "{path:?}");
    }
    assert_eq!(parts.len(), values.len() - 1, "null and empty are one");
    let outside: Vec<_> =
        job::files(&site.root).into_iter().filter(|path| job::name_of(path).starts_with("part-")).collect();
    assert_eq!(outside.len(), parts.len() + 1, "nothing landed elsewhere");

    // The folder of a long value ends in a hash, and the file keeps the field.
    let is_long = |id: &i64| wanted[id].as_ref().is_some_and(|value| value.len() > 200);
    let Some(rows) = job::duckdb(&site.table(), "select id, v from '*/*.parquet' order by id") else {
        return;
    };
    let by_duckdb = rows.into_iter().map(|row| (row[0].as_i64().unwrap(), row[1].clone()));
    const SCRIPT: &str = "
import json, pyarrow.dataset as ds
table = ds.dataset('.', format='parquet', partitioning='hive', exclude_invalid_files=False).to_table(columns=['id', 'v'])
print(json.dumps([[row['id'], row['v']] for row in table.to_pylist()]))";
    let by_pyarrow: Vec<(i64, Value)> = job::python(&site.table(), SCRIPT, &[]).unwrap();
    for (reader, found) in
        [("DuckDB", by_duckdb.collect::<BTreeMap<_, _>>()), ("pyarrow", by_pyarrow.into_iter().collect())]
    {
        assert_eq!(found.len(), wanted.len());
        for (id, value) in &found {
            if !is_long(id) {
                assert_eq!(value.as_str().map(str::to_owned), wanted[id], "{reader} reads {id}");
            }
        }
    }
    const FIELD: &str = "
import json, pathlib, pyarrow.parquet as pq
tables = [pq.ParquetFile(path).read() for path in pathlib.Path('.').glob('*/*.parquet')]
print(json.dumps([row for table in tables if 'v' in table.column_names for row in table.to_pylist()]))";
    let kept: Vec<Value> = job::python(&site.table(), FIELD, &[]).unwrap();
    let kept: BTreeMap<i64, Option<String>> =
        kept.iter().map(|row| (row["id"].as_i64().unwrap(), row["v"].as_str().map(str::to_owned))).collect();
    let long: BTreeMap<_, _> =
        wanted.iter().filter(|(id, _)| is_long(id)).map(|(id, value)| (*id, value.clone())).collect();
    assert_eq!(kept, long);
}

/// C15.
#[test]
fn rows_that_alternate_between_two_hours_make_two_files() {
    let sink = "partition_by = [\"hour={ts:%Y-%m-%dT%H}\"]";
    let site = Site::new(&pipeline("id = \"int64\"\nts = \"timestamp(ms)\"", sink, "interval = \"100ms\""));
    let line = |id: i64| {
        let time = if id % 2 == 0 { "10:59:59.999" } else { "11:00:00.000" };
        format!("{{\"id\":{id},\"ts\":\"2026-03-01T{time}Z\"}}\n")
    };
    site.feed("a.ndjson", (0..20_000).map(line).collect::<String>());
    site.run_well(&[]);
    let parts = site.rows_of_parts();
    let sizes: Vec<_> =
        parts.iter().map(|(path, ids)| (path.split('/').next().unwrap(), ids.len())).collect();
    assert_eq!(sizes, [("hour=2026-03-01T10", 10_000), ("hour=2026-03-01T11", 10_000)]);
    site.assert_landed_once(&(0..20_000).collect::<Vec<_>>());
}

/// C12. The interval alone would make the file visible after 10 s, or never, since nothing new comes.
#[test]
fn a_bucket_that_falls_silent_becomes_visible_without_new_input() {
    let sink = "roll = { age = \"1h\", inactivity = \"2s\" }";
    let site = Site::new(&pipeline("id = \"int64\"", sink, "interval = \"10s\""));
    site.edit_pipeline("format = \"ndjson\"", "format = \"ndjson\"\nfollow = true\npoll = \"50ms\"");
    let mut running = site.start(&[]);
    running.await_message("started", 1);
    site.feed("a.ndjson", (0..10).map(|id| format!("{{\"id\":{id}}}\n")).collect::<String>());
    let fed = Instant::now();
    running.await_that("a visible file", || !job::files(&site.table()).is_empty());
    let waited = fed.elapsed();
    tell(&format!("visible after {waited:?}"));
    assert!((Duration::from_secs(2)..Duration::from_secs(6)).contains(&waited), "{waited:?}");
    assert_eq!(site.ids(), (0..10).collect::<Vec<_>>());
    running.kill();
    site.edit_pipeline("follow = true\npoll = \"50ms\"", "");
    site.run_well(&[]);
    site.assert_landed_once(&(0..10).collect::<Vec<_>>());
}
