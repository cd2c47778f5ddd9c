//! The keys of a pipeline file, as plain data, and the default of each.
//!
//! One struct for each table of the file; unknown keys are refused. Values that need more than
//! their own text (paths, zones, templates) stay text here: `validate` turns them into a
//! [`crate::pipeline::Pipeline`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::Deserializer;
use toml::Spanned;

use crate::pipeline::units::ByteSize;
use crate::pipeline::units::Count;
use crate::pipeline::units::Number;
use crate::pipeline::units::TimeSpan;

/// A checkpoint every 10 s: what is lost to readers' patience is small, and one sync of the log in
/// 10 s is not felt by any disk.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// Ten minutes: a disk that takes longer for one sync is as good as gone.
pub const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);
/// Three checkpoints are kept: the newest, and two to go back to after a mistake upstream.
pub const CHECKPOINT_RETAIN: usize = 3;
/// Three failures in a row are tolerated; the fourth means that no checkpoint will complete.
pub const CHECKPOINT_TOLERATED_FAILURES: u32 = 3;
/// 200 ms between looks for new lines and files: a new line is seen before a person wonders, and an
/// idle job costs next to nothing.
pub const SOURCE_POLL: Duration = Duration::from_millis(200);
/// 16 MB: no sane event is larger, and a file without line ends is found before it fills memory.
pub const RECORD_LIMIT: u64 = 16_000_000;
/// A record of more than 1 GB cannot be held in one column of strings.
pub const RECORD_LIMIT_MAX: u64 = 1_000_000_000;
/// More checkpoints than that would pin a log of any length.
pub const CHECKPOINT_RETAIN_MAX: u64 = 1_000;
/// 256 MB: one Parquet file that a query engine reads in one go.
pub const ROLL_SIZE: u64 = 256_000_000;
/// 15 minutes: readers see data at most that long after it arrived.
pub const ROLL_AGE: Duration = Duration::from_secs(900);
/// Five minutes without a row: the bucket's hour has passed.
pub const ROLL_INACTIVITY: Duration = Duration::from_secs(300);
/// 256 MB over all buckets: row groups of 24 open hours stay large, and it fits a small machine.
pub const SINK_MEMORY: u64 = 256_000_000;
/// Less than 8 MB would close row groups of a few hundred rows.
pub const SINK_MEMORY_MIN: u64 = 8_000_000;
/// 128 open files: an eighth of the usual limit of a process.
pub const SINK_DESCRIPTORS: usize = 128;
/// 1,048,576 rows: what the common engines write and read best.
pub const ROW_GROUP_ROWS: u64 = 1 << 20;
/// 2^27 rows: a row group is gathered in memory.
pub const ROW_GROUP_ROWS_MAX: u64 = 1 << 27;
/// ZSTD level 1: on event data it is faster than level 3 and gives files no larger.
pub const ZSTD_LEVEL: i32 = 1;
/// Gzip's own default.
pub const GZIP_LEVEL: u32 = 6;
/// One second before the first restart: most faults that pass have passed by then.
pub const RESTART_DELAY: Duration = Duration::from_secs(1);
/// No wait between two attempts is longer than a minute.
pub const RESTART_DELAY_MAX: Duration = Duration::from_secs(60);
/// Each wait is twice the one before.
pub const RESTART_MULTIPLIER: f64 = 2.0;
/// A tenth of the wait, up or down, so that many jobs do not come back at the same instant.
pub const RESTART_JITTER: f64 = 0.1;
/// Ten minutes without a failure: the next one starts from the first delay again.
pub const RESTART_RESET_AFTER: Duration = Duration::from_secs(600);
/// Ten failures in a row (some five minutes of waiting) end the job.
pub const RESTART_ATTEMPTS: u32 = 10;

/// A pipeline file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub name: Option<String>,
    pub source: Option<SourceSettings>,
    pub schema: Option<Ordered>,
    pub on_error: OnErrorSettings,
    pub transform: Vec<TransformTable>,
    pub sink: Option<SinkSettings>,
    pub checkpoint: CheckpointSettings,
    pub restart: RestartSettings,
}

/// `[source]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SourceSettings {
    #[serde(rename = "type")]
    pub kind: Option<SourceKind>,
    pub path: Option<String>,
    pub format: Option<SourceFormat>,
    pub follow: bool,
    pub poll: Option<TimeSpan>,
}

/// Sources by name; all but `file` come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourceKind {
    File,
    Kafka,
    Http,
    Socket,
    Generator,
}

/// Formats of sources by name; `parquet` comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourceFormat {
    Ndjson,
    Csv,
    Parquet,
}

/// A table of strings in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ordered(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, Spanned<String>>::deserialize(deserializer)?;
        let mut pairs: Vec<_> = map.into_iter().collect();
        pairs.sort_by_key(|(_, value)| value.span().start);
        Ok(Self(pairs.into_iter().map(|(key, value)| (key, value.into_inner())).collect()))
    }
}

/// `[on_error]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OnErrorSettings {
    pub bad_record: Option<BadRecord>,
    pub dead_letters: Option<String>,
    pub unknown_field: Option<UnknownField>,
    pub record_limit: Option<ByteSize>,
}

/// What happens to a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRecord {
    /// The job stops and names the record's place.
    #[default]
    Fail,
    /// It is landed as a dead letter, with position and reason.
    DeadLetter,
    /// It is left out and counted.
    Skip,
}

/// What happens to a field that the schema does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownField {
    /// It is left out.
    #[default]
    Ignore,
    /// The record is a bad record.
    Fail,
    /// All of them go into one column, as JSON.
    Capture,
}

/// `[[transform]]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TransformTable {
    #[serde(rename = "type")]
    pub kind: Option<TransformKind>,
    pub expression: Option<String>,
    pub fields: Option<Vec<String>>,
    pub map: Option<Ordered>,
    pub key: Option<Vec<String>>,
    pub within: Option<TimeSpan>,
}

/// Transforms by name; `dedup` comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TransformKind {
    Dedup,
    Filter,
    Select,
    Rename,
}

/// `[sink]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SinkSettings {
    #[serde(rename = "type")]
    pub kind: Option<SinkKind>,
    pub path: Option<String>,
    pub format: Option<SinkFormat>,
    pub partition_by: Vec<String>,
    pub time_zone: Option<String>,
    pub roll: RollSettings,
    pub memory: Option<ByteSize>,
    pub descriptors: Option<Count>,
    pub parquet: Option<ParquetSettings>,
    pub success_file: bool,
}

/// Sinks by name; all but `file` come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SinkKind {
    File,
    Kafka,
    Postgres,
    Redis,
    Stdout,
}

/// What part files are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkFormat {
    /// Apache Parquet.
    #[default]
    Parquet,
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated values with a header line.
    Csv,
}

/// `sink.roll`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RollSettings {
    pub size: Option<ByteSize>,
    pub rows: Option<Count>,
    pub age: Option<TimeSpan>,
    pub inactivity: Option<TimeSpan>,
}

/// `sink.parquet`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ParquetSettings {
    pub compression: Option<String>,
    pub row_group_rows: Option<Count>,
    pub dictionary: Option<bool>,
    pub bloom_filter: Vec<String>,
    /// Refused (D14), with a reason of its own; its content is never read.
    pub encryption: Option<serde::de::IgnoredAny>,
}

/// `[checkpoint]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CheckpointSettings {
    pub interval: Option<TimeSpan>,
    pub state: Option<String>,
    pub replicate: Option<String>,
    pub retain: Option<Count>,
    pub mode: Option<Mode>,
    pub timeout: Option<TimeSpan>,
    pub tolerated_failures: Option<Count>,
}

/// What the barriers guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Inputs are aligned at barriers.
    #[default]
    ExactlyOnce,
    /// They are not: after a failure records may be repeated.
    AtLeastOnce,
}

/// `[restart]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RestartSettings {
    pub strategy: Option<RestartKind>,
    pub delay: Option<TimeSpan>,
    pub delay_max: Option<TimeSpan>,
    pub multiplier: Option<Number>,
    pub jitter: Option<Number>,
    pub reset_after: Option<TimeSpan>,
    pub attempts: Option<Count>,
}

/// Restart strategies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RestartKind {
    #[default]
    Exponential,
    Fixed,
    None,
}
