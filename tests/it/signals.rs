//! Signals stop a job with a final checkpoint, and one state has one job.

use std::time::Duration;
use std::time::Instant;

use rustix::process::Signal;

use crate::job::Site;

/// Follows its input; eight buckets stay open.
const PIPELINE: &str = r#"
name = "stopped"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "20ms"
[schema]
id = "int64"
kind = "int64"
[sink]
type = "file"
path = "out/x"
format = "parquet"
partition_by = ["kind={kind}"]
roll = { age = "1h", inactivity = "1h" }
parquet = { row_group_rows = 100 }
[checkpoint]
interval = "1h"
state = "state"
"#;

fn lines(ids: std::ops::Range<i64>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"kind\":{}}}\n", id % 8)).collect()
}

/// A job that has taken in 8,000 rows, of which each bucket's file holds some.
fn eight_open_buckets() -> (Site, crate::job::Running) {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..8_000));
    let mut running = site.start(&[]);
    running.await_that("files of eight buckets", || site.staged().len() == 8);
    (site, running)
}

fn ends_well(site: &Site, ids: std::ops::Range<i64>) {
    site.edit_pipeline("follow = true\npoll = \"20ms\"", "");
    site.run_well(&[]);
    site.assert_landed_once(&ids.collect::<Vec<_>>());
}

#[test]
fn sigterm_ends_with_a_final_checkpoint_and_keeps_files_in_progress() {
    let (site, running) = eight_open_buckets();
    let before = running.count("checkpoint completed");
    let asked = Instant::now();
    running.signal(Signal::TERM);
    let ended = running.wait(Duration::from_secs(30));
    let took = asked.elapsed();
    ended.assert_told(143, &["checkpoint completed"]);
    assert!(ended.count("checkpoint completed") > before, "{ended}");
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    assert_eq!(site.ids(), Vec::<i64>::new(), "nothing was rolled");
    let staged = site.staged();
    assert_eq!(staged.len(), 8);

    site.feed("a.ndjson", lines(8_000..8_100));
    ends_well(&site, 0..8_100);
    assert_eq!(site.rows_of_parts().len(), 8, "each file went on");
    let committed: Vec<_> =
        crate::job::files(&site.table()).iter().map(|path| crate::job::name_of(path)).collect();
    assert!(staged.iter().all(|path| committed.contains(&crate::job::name_of(path))), "{committed:?}");
}

#[test]
fn a_second_signal_ends_the_job_at_once() {
    let (site, running) = eight_open_buckets();
    let completed = running.count("checkpoint completed");
    // Both wait until the program is looked at again: one signal of a kind only would be kept.
    running.signal(Signal::STOP);
    running.signal(Signal::TERM);
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    let ended = running.wait(Duration::from_secs(5));
    assert!(matches!(ended.code, Some(130 | 143)), "{ended}");
    assert_eq!(ended.count("checkpoint completed"), completed, "it did not wait for the final checkpoint");
    ends_well(&site, 0..8_000);
}

#[test]
fn sigint_has_its_own_exit_code() {
    let (site, running) = eight_open_buckets();
    running.signal(Signal::INT);
    let ended = running.wait(Duration::from_secs(30));
    ended.assert_told(130, &["checkpoint completed"]);
    ends_well(&site, 0..8_000);
}

/// The former run ended with its input; this one is stopped before anything new came.
#[test]
fn a_stop_with_nothing_new_is_a_stop() {
    let (site, running) = eight_open_buckets();
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(30)).code, Some(143));
    site.run_well(&["--drain"]);
    let running = site.start(&[]);
    running.await_message("started", 1);
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(30)).code, Some(143));
    site.assert_landed_once(&(0..8_000).collect::<Vec<_>>());
}

#[test]
fn a_second_process_on_the_same_state_is_refused() {
    let (site, running) = eight_open_buckets();
    let second = site.run(&[]);
    let state = site.root.join("state").display().to_string();
    second.assert_told(2, &["in use", "another process", &state, "Nothing was changed"]);
    assert_eq!(second.text().matches("Nothing was changed").count(), 1, "{second}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(30)).code, Some(143), "the first one was not disturbed");
    ends_well(&site, 0..8_000);
}

/// There is nothing to be made safe: what is acknowledged is, and the rest will be read again.
#[test]
fn a_signal_while_the_job_waits_to_start_again_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let site = Site::new(&format!("{PIPELINE}[restart]\nstrategy = \"fixed\"\ndelay = \"1h\"\n"));
        site.feed("a.ndjson", lines(0..100));
        let mut command = std::process::Command::new("sh");
        command
            .arg("-c")
            .arg("ulimit -f 64; exec \"$0\" run --log json \"$1\"")
            .arg(crate::support::program())
            .arg(site.pipeline());
        let running = crate::job::Running::start(command);
        running.await_message("the job failed and starts again from its last completed checkpoint", 1);
        let asked = Instant::now();
        running.signal(signal);
        let ended = running.wait(Duration::from_secs(30));
        let took = asked.elapsed();
        ended.assert_told(code, &["stopped while waiting to start again", "too large"]);
        assert!(!ended.text().contains("given up"), "{ended}");
        assert!(took < Duration::from_secs(5), "it took {took:?}");
        ends_well(&site, 0..100);
    }
}
