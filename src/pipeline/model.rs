//! A pipeline whose settings agree with each other: what a job is wired from.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use jiff::tz::TimeZone;

use crate::operator::TransformSettings;
use crate::pipeline::document::Places;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::settings::Mode;
use crate::pipeline::settings::SinkFormat;
use crate::pipeline::settings::UnknownField;

/// A validated pipeline: every default is filled in, every path is absolute.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The job's identity.
    pub name: String,
    /// The pipeline file.
    pub file: PathBuf,
    /// Where records come from.
    pub source: FileSource,
    /// The fields of a record; `None`: inferred from the first records, then fixed in the state.
    pub schema: Option<SchemaRef>,
    /// What happens to records that do not fit.
    pub on_error: OnError,
    /// The steps between source and sink, in order.
    pub transforms: Vec<TransformSettings>,
    /// Where records go.
    pub sink: FileSink,
    /// How the job is made safe.
    pub checkpoint: Checkpointing,
    /// What happens after a failure.
    pub restart: Restart,
    /// Where each key stands, for what is only found when the schema is known.
    pub(crate) places: Places,
    /// The pipeline file as the user wrote its path.
    pub(crate) shown: PathBuf,
}

/// Files as a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSource {
    /// The folder that a relative [`Self::path`] starts from: the pipeline file's.
    pub base: PathBuf,
    /// The path or pattern, as written.
    pub path: String,
    /// How records are written.
    pub format: InputFormat,
    /// Wait for new lines and files instead of ending.
    pub follow: bool,
    /// How long to wait between two looks for new lines and files.
    pub poll: Duration,
}

/// Formats of records that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated values with a header line.
    Csv,
}

/// `[on_error]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnError {
    /// What happens to a record that cannot be read.
    pub bad_record: BadRecord,
    /// The folder of dead letters; there exactly for [`BadRecord::DeadLetter`].
    pub dead_letters: Option<PathBuf>,
    /// What happens to a field that the schema does not name.
    pub unknown_field: UnknownField,
    /// Bytes of the longest record; a longer one is a bad record.
    pub record_limit: u64,
}

/// A table of files as a sink.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSink {
    /// The table's folder.
    pub path: PathBuf,
    /// What part files are made of.
    pub format: SinkFormat,
    /// The levels of folders, outermost first: `dt={ts:%Y-%m-%d}`.
    pub partition_by: Vec<String>,
    /// The zone that times of levels are told in.
    pub time_zone: TimeZone,
    /// When a part file is closed.
    pub roll: Roll,
    /// Bytes of rows held in memory, over all buckets.
    pub memory: u64,
    /// Open files, over all buckets.
    pub descriptors: usize,
    /// How Parquet is written; used where [`Self::format`] says so.
    pub parquet: Parquet,
    /// Leave `_SUCCESS` in the table's folder at the clean end of the input.
    pub success_file: bool,
}

/// When a part file is closed: at the first barrier at which any of these holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roll {
    /// It holds this many bytes.
    pub size: u64,
    /// It holds this many rows.
    pub rows: Option<u64>,
    /// Its first row came this long ago.
    pub age: Duration,
    /// Its last row came this long ago.
    pub inactivity: Duration,
}

/// How Parquet is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Parquet {
    /// How pages are compressed.
    pub compression: Compression,
    /// Rows of a full row group.
    pub row_group_rows: u64,
    /// Encode columns by dictionary while that pays.
    pub dictionary: bool,
    /// Fields that get a bloom filter.
    pub bloom_filter: Vec<String>,
}

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Gzip with a level from 1 to 9.
    Gzip(u32),
    /// Zstandard with a level from 1 to 22.
    Zstd(i32),
}

/// `[checkpoint]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpointing {
    /// Time between two barriers.
    pub interval: Duration,
    /// The job's directory: log and lock.
    pub state: PathBuf,
    /// How many completed checkpoints are kept.
    pub retain: usize,
    /// What the barriers guarantee.
    pub mode: Mode,
    /// How long a checkpoint may take before it is given up.
    pub timeout: Duration,
    /// How many checkpoints in a row may fail before the job does.
    pub tolerated_failures: u32,
}

/// What happens after a failure that another attempt may mend.
#[derive(Debug, Clone, PartialEq)]
pub enum Restart {
    /// The job fails at once.
    Never,
    /// Every attempt waits for the same time.
    Fixed {
        /// The wait.
        delay: Duration,
        /// Failures in a row that are answered by another attempt.
        attempts: u32,
    },
    /// Each wait is longer than the one before.
    Exponential {
        /// The first wait.
        delay: Duration,
        /// The longest wait.
        delay_max: Duration,
        /// How much longer each is.
        multiplier: f64,
        /// By how much of itself a wait is made shorter or longer at random.
        jitter: f64,
        /// After this long without a failure, the next wait is the first again.
        reset_after: Duration,
        /// Failures in a row that are answered by another attempt.
        attempts: u32,
    },
}

impl Pipeline {
    /// The folder of the pipeline file, from which its paths start.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Snappy => f.write_str("snappy"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Gzip(level) => write!(f, "gzip({level})"),
            Self::Zstd(level) => write!(f, "zstd({level})"),
        }
    }
}

impl Compression {
    /// Reads `zstd`, `zstd(3)`, `snappy` and so on; `Err` says what would have been valid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        use crate::pipeline::problem::suggest;
        use crate::pipeline::settings::GZIP_LEVEL;
        use crate::pipeline::settings::ZSTD_LEVEL;
        const KNOWN: [&str; 5] = ["zstd", "snappy", "gzip", "lz4", "none"];
        let (name, level) = match text.split_once('(') {
            Some((name, rest)) => {
                let level = rest.strip_suffix(')').and_then(|digits| digits.trim().parse::<u8>().ok());
                (name.trim(), Some(level.ok_or("a level stands in parentheses: \"zstd(3)\"")?))
            }
            None => (text.trim(), None),
        };
        match (name, level) {
            ("none", None) => Ok(Self::None),
            ("snappy", None) => Ok(Self::Snappy),
            ("lz4", None) => Ok(Self::Lz4),
            ("gzip", None) => Ok(Self::Gzip(GZIP_LEVEL)),
            ("gzip", Some(level @ 1..=9)) => Ok(Self::Gzip(level.into())),
            ("zstd", None) => Ok(Self::Zstd(ZSTD_LEVEL)),
            ("zstd", Some(level @ 1..=22)) => Ok(Self::Zstd(level.into())),
            ("zstd", Some(_)) => Err("levels of zstd go from 1 to 22".to_owned()),
            ("gzip", Some(_)) => Err("levels of gzip go from 1 to 9".to_owned()),
            ("none" | "snappy" | "lz4", Some(_)) => Err(format!("{name} has no levels")),
            _ => Err(suggest(name, &KNOWN)),
        }
    }
}
