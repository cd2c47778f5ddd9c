//! The interval of checkpoints does not decide the size of files, nor do crashes.

use std::time::Duration;

use crate::job::Chance;
use crate::job::Site;
use crate::job::tell;
use crate::support;

const PIPELINE: &str = r#"
name = "one-file"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "10ms"
[schema]
id = "int64"
name = "string"
price = "decimal(10,2)"
[sink]
type = "file"
path = "out/x"
format = "parquet"
roll = { age = "1h", inactivity = "1h" }
parquet = { row_group_rows = 20000 }
[checkpoint]
interval = "50ms"
state = "state"
"#;

const ROWS: i64 = 110_000;
const KILLS: usize = 6;

fn lines(ids: std::ops::Range<i64>) -> String {
    let line =
        |id| format!("{{\"id\":{id},\"name\":\"event {}\",\"price\":{}.25}}\n", id * 7919 % 1009, id % 500);
    ids.map(line).collect()
}

#[test]
fn one_bucket_stays_one_file_of_full_row_groups_over_checkpoints_and_kills() {
    let mut chance = Chance::new("one_bucket_stays_one_file");
    let site = Site::new(PIPELINE);
    let portion = ROWS / (KILLS as i64 + 1) / 5;
    let mut fed = 0;
    let mut checkpoints = 0;
    for _ in 0..KILLS {
        let running = site.start(&[]);
        for _ in 0..5 {
            // Each of the portions meets a checkpoint.
            site.feed("a.ndjson", lines(fed..fed + portion));
            fed += portion;
            let completed = running.count("checkpoint completed");
            running.await_message("checkpoint completed", completed + 1);
        }
        std::thread::sleep(Duration::from_millis(chance.below(60)));
        let killed = running.kill();
        assert_eq!(killed.code, None, "it ended by itself: {killed}");
        checkpoints += killed.count("checkpoint completed");
    }
    assert_eq!(site.rows_of_parts().len(), 0, "nothing is to be rolled yet");
    site.feed("a.ndjson", lines(fed..ROWS));
    site.edit_pipeline("follow = true\npoll = \"10ms\"", "");
    let last = site.run_well(&[]);
    checkpoints += last.count("checkpoint completed");
    tell(&format!("{KILLS} kills, {checkpoints} checkpoints"));
    assert!(checkpoints >= 30);

    site.assert_landed_once(&(0..ROWS).collect::<Vec<_>>());
    let parts = site.rows_of_parts();
    assert_eq!(parts.len(), 1, "{:?}", parts.keys());
    let Some(read) = support::read_output(&site.table(), "parquet", "id") else { return };
    let part = &read["parts"][0];
    let groups: Vec<u64> =
        part["row_groups"].as_array().unwrap().iter().map(|rows| rows.as_u64().unwrap()).collect();
    // A group that is nine tenths full at a checkpoint is encoded, which is cheaper than to spill it.
    let (_, full) = groups.split_last().unwrap();
    assert!(full.len() >= 5, "{groups:?}");
    assert!(full.iter().all(|rows| (18_000..=20_000).contains(rows)), "{groups:?}");
    assert_eq!((&part["page_index"], &part["statistics"]), (&true.into(), &true.into()), "{part}");
}
