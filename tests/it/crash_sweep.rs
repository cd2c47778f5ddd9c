//! A whole job on a simulated disk, crashed at every I/O step in turn, under each crash model, and again
//! during the recovery.
//!
//! Three oracles, since the first alone misses most missing syncs: the output equals the input; what was
//! acknowledged before the crash is still there after it; nothing is left behind.
//!
//! The job follows its input, which grows while it runs, so that checkpoints complete on the way; then it
//! is stopped, started again, and drained. Row groups are tiny, so that a restart crosses a half-full
//! row group, a spilled chunk, a pending file and a dead letter at once; the sweep asserts that it did.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use alluvium::pipeline::Job;
use alluvium::pipeline::JobEvent;
use alluvium::pipeline::Pipeline;
use alluvium::runtime::Outcome;
use alluvium::runtime::StopRequest;
use alluvium::testing::CrashDisk;
use alluvium::testing::CrashModel;
use alluvium::testing::StepKind;
use alluvium::testing::is_simulated_crash;
use alluvium::testing::sim_doors;

use crate::support::table;

const PIPELINE: &str = r#"
name = "sweep"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "40ms"
[schema]
id = "int64"
kind = "string"
[on_error]
bad_record = "dead_letter"
dead_letters = "lake/bad"
[sink]
type = "file"
path = "lake/table"
partition_by = ["kind={kind}"]
roll = { rows = 11, age = "1h", inactivity = "1h" }
parquet = { compression = "none", row_group_rows = 4 }
[checkpoint]
interval = "100ms"
state = "state/sweep"
[restart]
strategy = "none"
"#;

/// What the outside world does between two looks at the clock.
#[derive(Clone, Copy)]
enum Turn {
    /// Somebody appends these many lines.
    Feed(u64),
    /// The job is stopped, resumably, and started again.
    Restart,
}

/// The life of a job.
struct Script {
    turns: &'static [Turn],
}

/// The job that the sweep of single crashes runs.
const WHOLE: Script = Script {
    turns: &[
        Turn::Feed(9),
        Turn::Feed(14),
        Turn::Feed(1),
        Turn::Restart,
        Turn::Feed(7),
        Turn::Feed(10),
    ],
};

/// The smallest job that still commits something on its way: each pair of crashes is tried on it.
const SMALLEST: Script = Script { turns: &[Turn::Feed(13), Turn::Restart, Turn::Feed(2)] };
