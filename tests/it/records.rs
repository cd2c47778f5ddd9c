//! Records: every one that was accepted is landed or is a dead letter, whatever it came in and goes out as.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use serde_json::Value;
use serde_json::json;

use crate::job;
use crate::job::Chance;
use crate::job::Site;
use crate::support;

fn pipeline(source: &str, schema: &str, more: &str, format: &str) -> String {
    format!(
        r#"
name = "records"
[source]
type = "file"
{source}
[schema]
{schema}
{more}
[sink]
type = "file"
path = "out/x"
format = "{format}"
[checkpoint]
interval = "200ms"
state = "state"
"#
    )
}

const NDJSON: &str = "path = \"in/*.ndjson\"\nformat = \"ndjson\"";
const DEAD_LETTERS: &str = "[on_error]\nbad_record = \"dead_letter\"\ndead_letters = \"out/bad\"";

/// One bad record; two lines where an object is cut in two.
fn bad_lines(kind: usize, id: i64) -> Vec<Vec<u8>> {
    let text = |line: String| vec![line.into_bytes()];
    match kind {
        0 => text(format!("{{\"id\":{id},\"n\":")),
        1 => text(format!("{{\"id\":{id} \"n\":1}}")),
        2 => text(format!("{{\"id\":{id},\"n\":007}}")),
        3 => text(format!("{{\"id\":{id},\"n\":1}} {{\"id\":{id},\"n\":2}}")),
        4 => vec![format!("{{\"id\":{id},").into_bytes(), b"\"n\":1}".to_vec()],
        5 => text(format!("{{\"id\":{id},\"n\":\"one\"}}")),
        6 => text(format!("{{\"id\":{id},\"n\":1.9}}")),
        7 => text(format!("{{\"id\":{id},\"f\":1e400}}")),
        8 => vec![[format!("{{\"id\":{id},\"s\":\"").as_bytes(), b"\xff\xfe\"}"].concat()],
        9 => text(format!("{{\"id\":{id},\"other\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000))),
        _ => text(format!("{{\"id\":{id},\"s\":\"{}\"}}", "x".repeat(64 << 20))),
    }
}

/// Bad records by their position.
type BadLines = BTreeMap<u64, Vec<u8>>;

/// C18: 100,000 lines, 137 of them bad, in all ways, in random places.
fn mixed(site: &Site, chance: &mut Chance) -> (Vec<i64>, BadLines) {
    const LINES: i64 = 100_000;
    const BAD: usize = 137;
    let mut bad: Vec<Vec<Vec<u8>>> = vec![bad_lines(10, 0)];
    while bad.iter().map(Vec::len).sum::<usize>() < BAD {
        let left = BAD - bad.iter().map(Vec::len).sum::<usize>();
        let kind = bad.len() % 10;
        bad.push(bad_lines(if left == 1 { 0 } else { kind }, -(bad.len() as i64)));
    }
    let mut places: BTreeMap<i64, Vec<Vec<u8>>> = BTreeMap::new();
    for lines in bad {
        let mut place = chance.below(LINES as u64) as i64;
        while places.contains_key(&place) {
            place = chance.below(LINES as u64) as i64;
        }
        places.insert(place, lines);
    }
    let (mut bytes, mut ids, mut found) = (Vec::new(), Vec::new(), BTreeMap::new());
    for id in 0..LINES - BAD as i64 {
        for line in places.remove(&id).unwrap_or_default() {
            found.insert(bytes.len() as u64, line.clone());
            bytes.extend_from_slice(&line);
            bytes.push(b'\n');
        }
        ids.push(id);
        bytes.extend_from_slice(
            format!("{{\"id\":{id},\"n\":{},\"f\":{id}e-3,\"s\":\"text {id}\",\"other\":[{id}]}}\n", id % 7)
                .as_bytes(),
        );
    }
    for line in places.into_values().flatten() {
        found.insert(bytes.len() as u64, line.clone());
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
    }
    assert_eq!(found.len(), BAD);
    fs::write(site.input("a.ndjson"), bytes).unwrap();
    (ids, found)
}

const SCHEMA: &str = "id = \"int64\"\nn = \"int64\"\nf = \"float64\"\ns = \"string\"";

#[test]
fn landed_and_dead_letters_are_what_was_accepted() {
    let site = Site::new(&pipeline(NDJSON, SCHEMA, DEAD_LETTERS, "parquet"));
    let (ids, bad) = mixed(&site, &mut Chance::new("landed_and_dead_letters"));
    site.run_well(&[]);
    site.assert_landed_once(&ids);

    let letters = site.dead_letters();
    let found: Vec<u64> = letters.iter().map(|letter| letter["position"].as_u64().unwrap()).collect();
    assert_eq!(found, bad.keys().copied().collect::<Vec<_>>());
    for (letter, raw) in letters.iter().zip(bad.values()) {
        assert_eq!(letter["split"], "in/a.ndjson");
        let reason = letter["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.len() < 1_000, "{reason}");
        assert_eq!(letter["raw_bytes"], raw.len());
        let kept = &raw[..raw.len().min(64 << 10)];
        match std::str::from_utf8(kept) {
            Ok(text) => assert_eq!((&letter["raw"], &letter["raw_encoding"]), (&json!(text), &json!("utf8"))),
            Err(_) => {
                assert_eq!(letter["raw_encoding"], "base64");
                use base64::Engine;
                let kept = base64::engine::general_purpose::STANDARD.encode(kept);
                assert_eq!(letter["raw"], kept);
            }
        }
    }
    if let Some(read) = support::read_output(&site.letters(), "ndjson", "position") {
        assert_eq!((&read["rows"], &read["distinct"]), (&137.into(), &137.into()));
    }
}

#[test]
fn without_dead_letters_the_first_bad_record_stops_the_job_and_is_named() {
    let site = Site::new(&pipeline(NDJSON, SCHEMA, "", "parquet"));
    let good = |id: i64| format!("{{\"id\":{id}}}\n");
    let before: String = (0..30_000).map(good).collect();
    site.feed("a.ndjson", &before);
    site.feed("a.ndjson", "{\"id\":1.9}\n{\"id\":broken}\n");
    site.feed("a.ndjson", (30_000..31_000).map(good).collect::<String>());
    let place = before.len().to_string();
    let ended = site.run(&[]);
    ended.assert_told(1, &["in/a.ndjson", &place, "{\\\"id\\\":1.9}"]);
    // Mended, it goes on from where it was.
    let text = fs::read_to_string(site.input("a.ndjson")).unwrap();
    fs::write(site.input("a.ndjson"), text.replace("1.9}", "-1}").replace("broken}", "-20002}")).unwrap();
    site.run_well(&[]);
    let ids: Vec<i64> = (0..31_000).chain([-1, -20002]).collect();
    site.assert_landed_once(&ids);
}

#[test]
fn a_skipped_record_is_left_out() {
    let site = Site::new(&pipeline(NDJSON, "id = \"int64\"", "[on_error]\nbad_record = \"skip\"", "parquet"));
    site.feed("a.ndjson", "{\"id\":1}\n{\"id\":\n{\"id\":2}\n");
    site.run_well(&[]);
    site.assert_landed_once(&[1, 2]);
}

/// The same records, as CSV and NDJSON, plain and compressed.
#[test]
fn csv_and_compressed_files_land_like_plain_ones() {
    let csv = "extra,name,id,ts\n\
               x,\"Doe, \"\"Jo\"\"\",1,2026-03-01T10:00:00Z\n\
               ,\"two\nlines\",2,1772359200000\n\
               y,,3,\n\
               z,\"\",4,2026-03-01T11:00:00+01:00\n";
    let schema = "id = \"int64\"\nname = \"string\"\nts = \"timestamp(ms)\"";
    let source = "path = \"in/*.csv*\"\nformat = \"csv\"";
    let site = Site::new(&pipeline(source, schema, "", "parquet"));
    let moved = |add: i64| {
        let mut text = csv.to_owned();
        for id in 1..=4 {
            text = text.replace(&format!(",{id},"), &format!(",{},", id + add));
        }
        text
    };
    fs::write(site.input("a.csv"), csv).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(moved(4).as_bytes()).unwrap();
    fs::write(site.input("b.csv.gz"), gzip.finish().unwrap()).unwrap();
    fs::write(site.input("c.csv.zst"), zstd::encode_all(moved(8).as_bytes(), 3).unwrap()).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(1..=12).collect::<Vec<_>>());
    let query = "select id, name, epoch_ms(ts) from 'out/x/*.parquet' order by id";
    let Some(rows) = job::duckdb(&site.root, query) else { return };
    let wanted: Vec<_> = (0..3)
        .flat_map(|turn| {
            [
                (json!("Doe, \"Jo\""), json!(1_772_359_200_000_i64)),
                (json!("two\nlines"), json!(1_772_359_200_000_i64)),
                (Value::Null, Value::Null),
                (json!(""), json!(1_772_359_200_000_i64)),
            ]
            .into_iter()
            .zip(1..)
            .map(move |((name, at), id)| vec![json!(id + turn * 4), name, at])
        })
        .collect();
    assert_eq!(rows, wanted);
}

#[test]
fn compressed_ndjson_is_resumed_after_kills() {
    let site =
        Site::new(&pipeline("path = \"in/*.ndjson*\"\nformat = \"ndjson\"", "id = \"int64\"", "", "parquet"));
    site.edit_pipeline("200ms", "20ms");
    let lines = |ids: std::ops::Range<i64>| ids.map(|id| format!("{{\"id\":{id}}}\n")).collect::<String>();
    // Two members, one behind the other, as `cat a.gz b.gz` makes them.
    let mut members = Vec::new();
    for ids in [0..60_000, 60_000..150_000] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(lines(ids).as_bytes()).unwrap();
        members.extend(gzip.finish().unwrap());
    }
    fs::write(site.input("a.ndjson.gz"), members).unwrap();
    fs::write(site.input("b.ndjson.zst"), zstd::encode_all(lines(150_000..300_000).as_bytes(), 1).unwrap())
        .unwrap();
    for _ in 0..3 {
        let running = site.start(&[]);
        if running.saw("checkpoint completed", 1) {
            running.kill();
        }
    }
    site.run_well(&[]);
    site.assert_landed_once(&(0..300_000).collect::<Vec<_>>());
}

#[test]
fn ndjson_and_csv_files_read_back_the_same() {
    let schema = "id = \"int64\"\ns = \"string\"\nprice = \"decimal(10,2)\"\nts = \"timestamp(ms)\"\ntags = \"list<string>\"";
    for format in ["ndjson", "csv"] {
        let site = Site::new(&pipeline(NDJSON, schema, "", format));
        let line = |id: i64| {
            let s = if id % 3 == 0 { json!(null) } else { json!(format!("a \"quoted\", text\nof {id} é")) };
            let at = format!("2026-03-01T10:00:{:02}Z", id % 60);
            format!(
                "{}\n",
                json!({"id": id, "s": s, "price": (id as f64) / 4.0, "ts": at, "tags": ["x", id.to_string()]})
            )
        };
        site.feed("a.ndjson", (0..5_000).map(line).collect::<String>());
        site.run_well(&[]);
        assert_eq!(site.staged().len(), 0);
        let Some(read) = support::read_output(&site.table(), format, "id") else { return };
        assert_eq!((&read["rows"], &read["distinct"]), (&5_000.into(), &5_000.into()), "{format}");
        assert_eq!((&read["min"], &read["max"]), (&0.into(), &4_999.into()), "{format}");
        let query = format!(
            "select count(*) filter (s is null), count(distinct s), sum(price)::decimal(20,2), max(epoch_ms(ts::timestamp)), \
             count(distinct tags::varchar) from 'out/x/*.{format}'"
        );
        let sums = &job::duckdb(&site.root, &query).unwrap()[0];
        let wanted = json!([1_667, 3_333, "3124375.00", 1_772_359_259_000_i64, 5_000]);
        assert_eq!(&json!(sums), &wanted, "{format}");
        site.assert_verified();
    }
}

#[test]
fn a_schema_that_is_not_given_is_inferred_and_kept() {
    let text = pipeline(NDJSON, "", "", "parquet").replace("[schema]\n", "");
    let site = Site::new(&text);
    let line = |id: i64| {
        format!(
            "{{\"id\":{id},\"price\":{id}.25,\"ok\":true,\"ts\":\"2026-03-01T10:00:00Z\",\"tags\":[\"a\"],\"geo\":{{\"lat\":1.5}}}}\n"
        )
    };
    site.feed("a.ndjson", (0..100).map(line).collect::<String>());
    site.run_well(&[]);
    // What comes later does not change it.
    site.feed("b.ndjson", "{\"id\":100,\"price\":null,\"new\":\"field\"}\n");
    site.run_well(&[]);
    site.assert_landed_once(&(0..=100).collect::<Vec<_>>());
    let Some(read) = support::read_output(&site.table(), "parquet", "id") else { return };
    let columns: Vec<_> = read["columns"].as_object().unwrap().iter().collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["id", "price", "ok", "ts", "tags", "geo"]);
    let types: Vec<_> = columns.iter().map(|(_, kind)| kind.as_str().unwrap()).collect();
    assert_eq!(types, ["BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR", "VARCHAR[]", "STRUCT(lat DOUBLE)"]);
}

#[test]
fn records_are_filtered_renamed_and_selected() {
    let steps = r#"
[[transform]]
type = "filter"
expression = "n >= 10 AND geo.country <> 'DE'"
[[transform]]
type = "rename"
map = { n = "amount" }
[[transform]]
type = "select"
fields = ["amount", "id"]
"#;
    let schema = "id = \"int64\"\nn = \"int64\"\ngeo = \"struct<country:string>\"";
    let site = Site::new(&pipeline(NDJSON, schema, steps, "parquet"));
    let line = |id: i64| {
        let country = ["\"DE\"", "\"FR\"", "null"][id as usize % 3];
        format!("{{\"id\":{id},\"n\":{},\"geo\":{{\"country\":{country}}}}}\n", id % 20)
    };
    site.feed("a.ndjson", (0..6_000).map(line).collect::<String>());
    site.run_well(&[]);
    let kept: Vec<i64> = (0..6_000).filter(|id| id % 20 >= 10 && id % 3 == 1).collect();
    site.assert_landed_once(&kept);
    let Some(rows) = job::duckdb(&site.root, "select * from 'out/x/*.parquet' order by id limit 1") else {
        return;
    };
    assert_eq!(rows, [vec![json!(kept[0] % 20), json!(kept[0])]]);
}

/// Files of text are appended to and cut as Parquet files are.
#[test]
fn ndjson_and_csv_tables_outlive_kills() {
    for format in ["ndjson", "csv"] {
        let site = Site::new(&pipeline(NDJSON, "id = \"int64\"\ns = \"string\"", "", format));
        site.edit_pipeline(
            "format = \"ndjson\"\n[schema]",
            "format = \"ndjson\"\nfollow = true\npoll = \"10ms\"\n[schema]",
        );
        site.edit_pipeline("200ms", "50ms");
        let line = |id: i64| format!("{{\"id\":{id},\"s\":\"line {}\"}}\n", "x".repeat(id as usize % 40));
        for turn in 0..5 {
            let running = site.start(&[]);
            for part in 0..4 {
                let from = turn * 4_000 + part * 1_000;
                site.feed("a.ndjson", (from..from + 1_000).map(line).collect::<String>());
                let completed = running.count("checkpoint completed");
                running.await_message("checkpoint completed", completed + 1);
            }
            running.kill();
        }
        site.edit_pipeline("follow = true\npoll = \"10ms\"\n", "");
        site.run_well(&[]);
        let files = job::files(&site.table());
        assert_eq!(files.len(), 1, "{files:?}");
        let text = fs::read_to_string(&files[0]).unwrap();
        let id = |line: &str| match format {
            "csv" => line.split(',').next().unwrap().parse().ok(),
            _ => serde_json::from_str::<Value>(line).unwrap()["id"].as_i64(),
        };
        let mut ids: Vec<i64> = text.lines().filter_map(id).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..20_000), "{format}");
        assert_eq!(text.lines().count(), 20_000 + usize::from(format == "csv"));
        site.assert_verified();
    }
}
