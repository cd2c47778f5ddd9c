//! Pipeline files, right and wrong.

mod any;
mod docs;
mod looking;
mod right;
mod wrong;

use std::path::Path;

use crate::pipeline::PipelineFile;
use crate::pipeline::Problems;
use crate::pipeline::model::Pipeline;

/// A right file that uses every table; line numbers of the wrong ones count from here.
const WHOLE: &str = r#"name = "clicks"

[source]
type = "file"
path = "data/*.ndjson"
format = "ndjson"

[schema]
event_id = "string"
user_id = "int64"
ts = "timestamp(ms)"
price = "decimal(10,2)"
tags = "list<string>"
geo = "struct<country:string,city:string>"

[on_error]
bad_record = "dead_letter"
dead_letters = "out/bad"
record_limit = "16MB"

[[transform]]
type = "filter"
expression = "price > 0 AND geo.country <> 'XX'"

[[transform]]
type = "rename"
map = { user_id = "user" }

[sink]
type = "file"
path = "out/clicks"
format = "parquet"
partition_by = ["dt={ts:%Y-%m-%d}", "hour={ts:%H}"]
time_zone = "UTC"
roll = { size = "256MB", age = "15m", inactivity = "5m" }
memory = "256MB"
parquet = { compression = "zstd(3)", row_group_rows = 1048576 }

[checkpoint]
interval = "10s"
state = "state/clicks"
retain = 3

[restart]
strategy = "exponential"
"#;

const FILE: &str = "/jobs/clicks.toml";

fn parse(text: &str) -> Result<Pipeline, Problems> {
    PipelineFile::from_text(FILE, text).pipeline(&[("HOME", "/home/ada"), ("EMPTY", "")])
}

fn folder() -> &'static Path {
    Path::new("/jobs")
}
