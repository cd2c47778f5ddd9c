//! A checkpoint logs what changed, however many buckets are open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alluvium::pipeline::Job;
use alluvium::pipeline::PipelineFile;
use alluvium::runtime::StopRequest;
use alluvium::testing::CrashDisk;
use alluvium::testing::sim_doors;
use alluvium::wal::WalReader;
use tokio::sync::watch;

const PIPELINE: &str = r#"
name = "bytes"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "20ms"
[schema]
id = "int64"
bucket = "int64"
[sink]
type = "file"
path = "lake/table"
format = "parquet"
partition_by = ["bucket={bucket}"]
[checkpoint]
interval = "100ms"
state = "state"
[restart]
strategy = "none"
"#;

/// Bytes that the log grew by: over ten intervals with nothing new, and by the checkpoint after one row.
fn grown(buckets: u64) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let disk = CrashDisk::new();
        disk.make_dirs("/w/in").expect("an empty disk takes a folder");
        let doors = sim_doors(&disk, 1);
        let clock = Arc::clone(&doors.clock);
        let mut text = String::new();
        let mut feed = |rows: u64| {
            for id in 0..rows {
                text.push_str(&format!("{{\"id\":{id},\"bucket\":{}}}\n", id % buckets));
            }
            disk.write_file("/w/in/a.ndjson", &text).expect("room");
        };
        let end = || WalReader::open(Path::new("/w/state/log"), &doors).expect("a log").end().0;
        let pipeline = PipelineFile::from_text("/w/p.toml", PIPELINE).pipeline(&[("HOME", "/w"); 1]);
        let job = Job::new(pipeline.expect("a pipeline"), doors.clone());
        let (stop, stopping) = watch::channel(StopRequest::None);
        let outside = async {
            feed(buckets * 3);
            clock.sleep(Duration::from_secs(1)).await;
            let idle = end();
            clock.sleep(Duration::from_secs(1)).await;
            let before = end();
            feed(1);
            clock.sleep(Duration::from_millis(900)).await;
            let after = end();
            stop.send_replace(StopRequest::Drain);
            (before - idle, after - before)
        };
        let (outcome, grown) = tokio::join!(job.run(stopping), outside);
        outcome.expect("nothing disturbs the job");
        grown
    })
}

#[test]
fn a_checkpoint_logs_nothing_without_news_and_one_row_with_one_row() {
    let (idle_of_one, row_of_one) = grown(1);
    let (idle_of_many, row_of_many) = grown(24);
    assert_eq!((idle_of_one, idle_of_many), (0, 0), "ten intervals with nothing new");
    println!("bytes of a checkpoint after one row: {row_of_one} with 1 bucket, {row_of_many} with 24");
    assert!(row_of_one > 0, "the row has to be somewhere");
    assert!(row_of_one <= 2048, "{row_of_one} bytes for one row of 16 bytes");
    assert!(row_of_many <= row_of_one + 64, "{row_of_many} bytes with 24 buckets, {row_of_one} with one");
}
