//! `inspect`, `verify`, `gc` and `check` beside a running job and after it, and what a run says.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::job::Running;
use crate::job::Site;
use crate::job::files;
use crate::support;

const PIPELINE: &str = r#"
name = "looked-at"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "10ms"
[schema]
id = "int64"
kind = "int64"
[on_error]
bad_record = "dead_letter"
dead_letters = "out/bad"
[sink]
type = "file"
path = "out/x"
format = "parquet"
partition_by = ["kind={kind}"]
roll = { rows = 50, age = "1h", inactivity = "1h" }
parquet = { row_group_rows = 20 }
[checkpoint]
interval = "30ms"
state = "state"
[restart]
strategy = "none"
"#;

fn lines(ids: std::ops::Range<i64>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"kind\":{}}}\n", id % 3)).collect()
}

/// Runs the program on the site: code, standard output, standard error.
fn program(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let output = support::alluvium().current_dir(&site.root).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("it ends by itself"), text(output.stdout), text(output.stderr))
}

fn inspected(site: &Site) -> Value {
    let (code, out, err) = program(site, &["inspect", "state", "--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect("it is JSON")
}

/// A job that has landed some files and goes on.
fn running(site: &Site) -> Running {
    let mut running = site.start(&[]);
    site.feed("a.ndjson", lines(0..400));
    running.await_that("committed files", || !files(&site.table()).is_empty());
    running
}

#[test]
fn verify_inspect_and_gc_go_beside_a_job_that_commits_all_the_time() {
    let site = Site::new(PIPELINE);
    let mut running = running(&site);
    let mut committed = 0;
    for round in 0..12 {
        site.feed("a.ndjson", lines(400 + round * 100..500 + round * 100));
        site.feed("a.ndjson", "broken\n");
        let (code, out, err) = program(&site, &["verify", "pipeline.toml"]);
        assert_eq!(code, 0, "round {round}: {out}{err}");
        let (code, out, err) = program(&site, &["gc", "pipeline.toml"]);
        assert_eq!((code, out.contains("removed")), (0, false), "round {round}: {out}{err}");
        let report = inspected(&site);
        let table =
            report["sinks"].as_array().unwrap().iter().find(|sink| sink["task"] == "sink").unwrap().clone();
        let rows = table["ledger"]["rows"].as_u64().unwrap();
        assert!(rows >= committed, "round {round}: {table}");
        committed = rows;
        assert!(running.is_alive(), "round {round}");
    }
    assert!(committed > 0);
    running.signal(Signal::TERM);
    running.wait(Duration::from_secs(30)).assert_told(143, &[]);
    site.assert_verified();
    let report = inspected(&site);
    assert_eq!(report["checkpoints"].as_array().unwrap().last().unwrap()["kind"], "stop");
    assert_eq!(report["splits"][0]["records"], 1612);
}

#[test]
fn what_is_wrong_is_told_with_exit_code_3_and_nothing_is_changed() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", ""));
    site.feed("a.ndjson", lines(0..200));
    site.run_well(&[]);
    let (code, out, _) = program(&site, &["verify", "pipeline.toml"]);
    assert_eq!(code, 0);
    assert!(out.contains("all is well") && out.contains("200 rows"), "{out}");
    let parts = files(&site.table());
    let bytes = fs::read(&parts[0]).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    fs::write(&parts[0], flipped).unwrap();
    fs::remove_file(&parts[1]).unwrap();
    let before: Vec<_> = files(&site.root);
    let (code, out, err) = program(&site, &["verify", "pipeline.toml"]);
    assert_eq!((code, err.as_str()), (3, ""), "{out}");
    assert!(out.contains("2 problems") && out.contains("--removed-ok"), "{out}");
    assert!(
        out.contains(&parts[0].display().to_string()) && out.contains(&parts[1].display().to_string()),
        "{out}"
    );
    let (code, out, _) = program(&site, &["verify", "pipeline.toml", "--removed-ok"]);
    assert_eq!(code, 3);
    assert!(out.contains("1 problem") && out.contains("removed by their owner"), "{out}");
    fs::write(&parts[0], bytes).unwrap();
    assert_eq!(program(&site, &["verify", "pipeline.toml", "--removed-ok"]).0, 0);
    assert_eq!(files(&site.root), before);
}

#[test]
fn without_a_state_there_is_nothing_to_look_at() {
    let site = Site::new(PIPELINE);
    for arguments in
        [["verify", "pipeline.toml"], ["gc", "pipeline.toml"], ["inspect", "state"], ["inspect", "in"]]
    {
        let (code, out, err) = program(&site, &arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
    }
    assert!(!site.root.join("state").exists());
}

#[test]
fn a_run_says_what_it_does_and_what_it_did() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", ""));
    site.feed("a.ndjson", lines(0..200) + "broken\nbroken too\n");
    let (code, out, err) = program(&site, &["run", "pipeline.toml"]);
    assert_eq!(code, 0, "{err}");
    for path in ["in/*.ndjson", "out/x", "out/bad", "state"] {
        assert!(err.contains(&site.root.join(path).display().to_string()), "{path}: {err}");
    }
    assert!(err.contains("exactly once"), "{err}");
    for words in
        ["done in", "202 records from 1 file", "200 rows in ", "3 buckets", "2 records: ", "in/a.ndjson"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (code, out, _) = program(&site, &["run", "pipeline.toml"]);
    assert_eq!(code, 0);
    assert!(out.contains("nothing new: everything was landed before (200 rows"), "{out}");
    site.feed("b.ndjson", lines(200..210));
    let (code, out, err) = program(&site, &["run", "-q", "pipeline.toml"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let (_, out, err) = program(&site, &["run", "--log", "json", "pipeline.toml"]);
    assert!(out.contains("nothing new"), "{out}");
    for line in err.lines() {
        let line: Value = serde_json::from_str(line).expect("each line on standard error is JSON");
        assert!(line["message"].is_string(), "{line}");
    }
}

#[test]
fn a_stopped_run_says_what_is_safe_and_when_it_will_be_visible() {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..140));
    let mut command = std::process::Command::new(support::program());
    command.current_dir(&site.root).args(["run", "pipeline.toml"]).stdout(std::process::Stdio::piped());
    let child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    for _ in 0..2000 {
        let (code, out, _) = program(&site, &["inspect", "state", "--json"]);
        if code == 0 && out.contains("\"records\": 140") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(143), "{out}");
    for words in ["stopped in", "140 rows in 3 open files are safe and not visible yet", "--drain"] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (code, out, _) = program(&site, &["run", "pipeline.toml", "--drain"]);
    assert_eq!(code, 0);
    assert!(out.contains("140 rows in 3 files in 3 buckets"), "{out}");
    site.assert_landed_once(&(0..140).collect::<Vec<_>>());
}

#[test]
fn metrics_are_served_while_the_job_runs() {
    let site = Site::new(PIPELINE);
    let mut running = site.start(&["--metrics", "0"]);
    site.feed("a.ndjson", lines(0..400) + "broken\n");
    running.await_that("committed files", || !files(&site.table()).is_empty());
    let address = running
        .said()
        .iter()
        .find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            Some(line["metrics"].as_str()?.strip_prefix("http://")?.strip_suffix("/metrics")?.to_owned())
        })
        .expect("the address is told");
    let mut text = String::new();
    running.await_that("counted rows", || {
        text.clear();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_string(&mut text).unwrap();
        text.contains("alluvium_source_records_total{job=\"looked-at\",source=\"source\"} 401")
            && text.contains("alluvium_sink_rows_total{job=\"looked-at\",sink=\"sink\"} 400")
            && text.contains("alluvium_sink_safe_rows{job=\"looked-at\",sink=\"sink\"} 400")
            && text.contains("alluvium_dead_letters_total{job=\"looked-at\"} 1")
    });
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
        line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert!(value("alluvium_checkpoints_completed_total") > 0.0);
    assert!(value("alluvium_log_bytes_total") > 0.0);
    assert_eq!(value("alluvium_incarnation"), 1.0);
    assert_eq!(value("alluvium_source_lag_bytes"), 0.0);
    running.signal(Signal::TERM);
    running.wait(Duration::from_secs(30)).assert_told(143, &[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    site.run(&["--metrics", &port]).assert_told(2, &["metrics cannot be served"]);
}

#[test]
fn check_asks_the_disk_and_leaves_it_alone() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", ""));
    let none = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(none.0, 2, "{none:?}");
    assert!(none.2.contains("matches no file"), "{none:?}");
    site.feed("a.ndjson", lines(0..9) + "{\"id\":1.5}\n");
    let before = files(&site.root);
    let (code, out, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for words in [
        "10: 1 cannot be taken",
        "position 162",
        "9 rows in 3 buckets: kind=0, kind=1, kind=2",
        "begins at the beginning",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_eq!(files(&site.root), before);
    site.edit_pipeline("bad_record = \"dead_letter\"\ndead_letters = \"out/bad\"\n", "");
    let (code, _, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("1 of the first 10 records") && err.contains("position 162"), "{err}");
    assert_eq!(site.run(&[]).code, Some(1), "and so it is");
}

#[test]
fn a_schema_that_check_prints_can_be_pasted() {
    let site = Site::new(&PIPELINE.replace("[schema]\nid = \"int64\"\nkind = \"int64\"\n", ""));
    site.feed("a.ndjson", "{\"id\":1,\"kind\":2,\"when\":\"2026-01-01T00:00:00Z\",\"price\":1.5}\n");
    let (code, out, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 0, "{err}");
    let (_, block) = out.split_once("paste:\n\n").expect("it is printed");
    site.edit_pipeline("[on_error]", &format!("{block}\n[on_error]"));
    let (code, out, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 0, "{block}{err}");
    assert!(out.contains("4 fields, declared") && !out.contains("paste:"), "{out}");
}

#[test]
fn check_tells_whose_state_it_is() {
    let site = Site::new(PIPELINE);
    let running = running(&site);
    running.kill();
    let before = files(&site.root);
    assert_eq!(program(&site, &["check", "pipeline.toml"]).0, 0);
    site.edit_pipeline("[sink]", "[[transform]]\ntype = \"filter\"\nexpression = \"id > 3\"\n[sink]");
    let (code, _, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("was not made by a clean stop"), "{err}");
    site.set_pipeline(&PIPELINE.replace("out/x", "out/y"));
    let (code, _, err) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("the state belongs to a job with the sink"), "{err}");
    assert_eq!(files(&site.root), before);
}

#[test]
fn a_mistake_of_the_first_run_does_not_tie_its_state() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", "").replace("in/*", "inn/*"));
    site.feed("a.ndjson", lines(0..3));
    assert_eq!(site.run(&[]).code, Some(2));
    site.edit_pipeline("inn/*", "in/*");
    site.run_well(&[]);
    site.assert_landed_once(&[0, 1, 2]);
}

#[test]
fn the_success_file_is_there_exactly_while_everything_is() {
    let site = Site::new(
        &PIPELINE
            .replace("follow = true\npoll = \"10ms\"\n", "")
            .replace("[checkpoint]", "success_file = true\n[checkpoint]"),
    );
    let mark = site.table().join("_SUCCESS");
    site.feed("a.ndjson", lines(0..90));
    site.run_well(&[]);
    assert!(mark.exists());
    site.run_well(&[]);
    assert!(mark.exists());
    site.edit_pipeline("format = \"ndjson\"", "format = \"ndjson\"\nfollow = true");
    let mut running = site.start(&[]);
    running.await_that("no mark", || !mark.exists());
    running.signal(Signal::TERM);
    running.wait(Duration::from_secs(30)).assert_told(143, &[]);
    assert!(!mark.exists(), "a stop is not the end");
    site.run_well(&["--drain"]);
    site.assert_verified();
    // It is no Parquet file, and the reader of these tests takes all there is.
    fs::remove_file(mark).unwrap();
    site.assert_landed_once(&(0..90).collect::<Vec<_>>());
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end_of_the_process() {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..10));
    let mut command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg("ulimit -f 64; exec \"$0\" run \"$1\"")
        .arg(support::program())
        .arg(site.pipeline());
    let ended = Running::start(command).wait(Duration::from_secs(60));
    ended.assert_told(1, &["too large"]);
}

#[test]
fn captured_fields_are_a_column_of_the_table() {
    let site = Site::new(
        &PIPELINE
            .replace("follow = true\npoll = \"10ms\"\n", "")
            .replace("[on_error]", "[on_error]\nunknown_field = \"capture\""),
    );
    site.feed("a.ndjson", "{\"id\":1,\"kind\":2,\"more\":[1,2]}\n{\"id\":2,\"kind\":2}\n");
    site.run_well(&[]);
    site.assert_landed_once(&[1, 2]);
    let Some(rows) = crate::job::duckdb(&site.table(), "select id, _unknown from '**/*.parquet' order by id")
    else {
        return;
    };
    assert_eq!(rows[0][1], Value::from("{\"more\":[1,2]}"));
    assert_eq!(rows[1][1], Value::Null);
}

#[test]
fn a_drain_reads_nothing_new_and_says_what_it_left() {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..40));
    for _ in 0..3 {
        let (code, out, err) = program(&site, &["run", "pipeline.toml", "--drain"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("of the input are not read yet") && !out.contains("landed before"), "{out}");
        assert_eq!(site.ids(), Vec::<i64>::new());
    }
    let mut running = site.start(&[]);
    running.await_that("a checkpoint of all rows", || {
        program(&site, &["inspect", "state"]).1.contains(", 40 records")
    });
    running.signal(Signal::TERM);
    running.wait(Duration::from_secs(30)).assert_told(143, &[]);
    // What is safe becomes visible, what is not read stays unread, every time.
    site.feed("b.ndjson", lines(40..100));
    let (code, out, err) = program(&site, &["run", "pipeline.toml", "--drain"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("40 rows in ") && out.contains("unread  "), "{out}");
    assert_eq!(site.ids(), (0..40).collect::<Vec<_>>());
    let (_, out, _) = program(&site, &["run", "pipeline.toml", "--drain"]);
    assert!(out.contains("of the input are not read yet"), "{out}");
    site.edit_pipeline("follow = true\npoll = \"10ms\"\n", "");
    site.run_well(&[]);
    site.assert_landed_once(&(0..100).collect::<Vec<_>>());
    let (_, out, _) = program(&site, &["run", "pipeline.toml", "--drain"]);
    assert!(out.contains("everything was landed before (100 rows"), "{out}");
}

#[test]
fn a_state_that_was_removed_beside_its_table_is_told() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", ""));
    site.feed("a.ndjson", lines(0..9) + "broken\n");
    let first = site.run_well(&[]);
    assert!(!first.text().contains("another state"), "{first}");
    let lineage = inspected(&site)["job"]["lineage"].as_str().unwrap().to_owned();
    fs::remove_dir_all(site.root.join("state")).unwrap();
    let (code, out, _) = program(&site, &["check", "pipeline.toml"]);
    assert_eq!(code, 0);
    let told = format!("holds 3 files of another state (lineage {lineage})");
    assert!(out.contains(&told) && out.contains("1 file of another state"), "{out}");
    let ended = site.run_well(&[]);
    assert!(ended.text().contains(&told) && ended.text().contains("remove the table as well"), "{ended}");
    assert_eq!(site.ids().len(), 18, "it is told, not refused");
    let again = site.run_well(&[]);
    assert!(!again.text().contains("another state"), "this one knows where it is: {again}");
}

#[test]
fn files_that_no_record_names_are_a_note_of_verify() {
    let site = Site::new(&PIPELINE.replace("follow = true\npoll = \"10ms\"\n", ""));
    site.feed("a.ndjson", lines(0..9));
    site.run_well(&[]);
    let (_, out, _) = program(&site, &["verify", "pipeline.toml"]);
    assert!(!out.contains("note:"), "{out}");
    let part = files(&site.table())[0].clone();
    fs::copy(&part, site.table().join("kind=1/stranger.parquet")).unwrap();
    fs::write(site.table().join("_SUCCESS"), "").unwrap();
    fs::write(site.table().join("README.txt"), "").unwrap();
    let (code, out, err) = program(&site, &["verify", "pipeline.toml"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("1 file of the table's format that no record of this job names"), "{out}");
    assert!(out.contains("(kind=1/stranger.parquet)"), "{out}");
}

#[test]
fn without_a_schema_and_a_record_check_and_run_refuse_alike_and_nothing_is_made() {
    let site = Site::new(&PIPELINE.replace("[schema]\nid = \"int64\"\nkind = \"int64\"\n", ""));
    let refused = |words: &str| {
        for command in ["check", "run"] {
            let (code, _, err) = program(&site, &[command, "pipeline.toml"]);
            assert_eq!(code, 2, "{command}: {err}");
            assert!(err.contains(words) && err.contains("[schema]"), "{command}: {err}");
            assert_eq!(err.to_lowercase().matches("nothing was changed").count(), 1, "{command}: {err}");
            assert!(!site.root.join("state").exists(), "{command}");
        }
    };
    refused("no record to guess it from");
    site.feed("a.ndjson", "{\"id\":1,\"kind\":null}\n");
    refused("the first record does not tell the type of");
    fs::write(site.input("a.ndjson"), "{\"id\":1}\n").unwrap();
    for command in ["check", "run"] {
        let (code, _, err) = program(&site, &[command, "pipeline.toml"]);
        assert_eq!((code, err.matches("pipeline.toml:").count()), (2, 1), "one place, one name: {err}");
        assert!(!site.root.join("state").exists(), "{command}");
    }
}

/// `/sys` takes no folders, whoever asks.
#[test]
fn what_is_forbidden_is_not_tried_again() {
    let site = Site::new(
        &PIPELINE
            .replace("follow = true\npoll = \"10ms\"\n", "")
            .replace("\"out/x\"", "\"/sys/alluvium/x\"")
            .replace("strategy = \"none\"", "delay = \"1h\""),
    );
    site.feed("a.ndjson", lines(0..9));
    let ended = site.run(&[]);
    ended.assert_told(1, &["/sys", "cannot be made", "another attempt would fail in the same way"]);
    assert_eq!(
        ended.count("the job failed and starts again from its last completed checkpoint"),
        0,
        "{ended}"
    );
}

/// Whichever of the tasks is joined first.
#[test]
fn a_bad_record_ends_the_job_at_once_every_time() {
    let site = Site::new(
        &PIPELINE
            .replace("follow = true\npoll = \"10ms\"\n", "")
            .replace("in/*.ndjson", "in/*.csv")
            .replace("format = \"ndjson\"", "format = \"csv\"")
            .replace("bad_record = \"dead_letter\"\ndead_letters = \"out/bad\"\n", "")
            .replace("strategy = \"none\"", "delay = \"1h\""),
    );
    site.feed("a.csv", "id,kind\n1,1\n2,\"2\"x\n");
    for _ in 0..20 {
        let ended = site.run(&[]);
        ended.assert_told(1, &["in/a.csv", "bad_record"]);
        assert_eq!(ended.count("the job failed and starts again from its last completed checkpoint"), 0);
    }
}
