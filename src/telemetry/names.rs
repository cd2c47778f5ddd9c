//! What the numbers are called, and what they mean: the one list that the text form and the docs follow.

use std::time::Duration;

use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::SinkMetrics;
use crate::telemetry::metrics::SourceMetrics;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// Its name; the unit comes last.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it is about, and so its labels.
    pub of: Of,
    /// What it means.
    pub help: &'static str,
}

/// Kinds of metrics, in Prometheus' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A count and a sum.
    Summary,
}

/// What a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The job: label `job`.
    Job,
    /// A source: labels `job`, `source`.
    Source,
    /// A sink: labels `job`, `sink`.
    Sink,
}

impl Kind {
    /// The word of the text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
        }
    }
}

impl Of {
    /// The labels.
    pub fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Job => &["job"],
            Self::Source => &["job", "source"],
            Self::Sink => &["job", "sink"],
        }
    }
}

/// All metrics, in the order of the text form.
pub fn descriptions() -> impl Iterator<Item = Description> {
    let job = JOB.iter().map(|(described, _)| *described);
    let source = SOURCE.iter().map(|(described, _)| *described);
    let sink = SINK.iter().map(|(described, _)| *described);
    job.chain(source).chain(sink)
}

/// What is read of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Seconds(Duration),
    Summary {
        count: u64,
        sum: Duration,
    },
    /// There is none yet.
    Absent,
}

pub(super) type Read<T> = (Description, fn(&T) -> Value);

const fn counter(of: Of, name: &'static str, help: &'static str) -> Description {
    Description { name, kind: Kind::Counter, of, help }
}

const fn gauge(of: Of, name: &'static str, help: &'static str) -> Description {
    Description { name, kind: Kind::Gauge, of, help }
}

pub(super) const JOB: &[Read<Metrics>] = &[
    (gauge(Of::Job, "alluvium_uptime_seconds", "Time since the process began to run the job."), |m| {
        Value::Seconds(m.uptime())
    }),
    (
        gauge(
            Of::Job,
            "alluvium_incarnation",
            "Fencing number of the run; grows at every start and restart.",
        ),
        |m| Value::Whole(m.incarnation.get()),
    ),
    (gauge(Of::Job, "alluvium_epoch", "The newest epoch that began."), |m| Value::Whole(m.epoch.get())),
    (counter(Of::Job, "alluvium_restarts_total", "Restarts of the job within the process."), |m| {
        Value::Whole(m.restarts.get())
    }),
    (counter(Of::Job, "alluvium_dead_letters_total", "Bad records written to the dead letters."), |m| {
        Value::Whole(m.dead_letters.get())
    }),
    (
        counter(
            Of::Job,
            "alluvium_skipped_records_total",
            "Bad records passed over (bad_record = \"skip\").",
        ),
        |m| Value::Whole(m.skipped.get()),
    ),
    (counter(Of::Job, "alluvium_log_bytes_total", "Bytes appended to the write-ahead log."), |m| {
        Value::Whole(m.log_bytes.get())
    }),
    (counter(Of::Job, "alluvium_checkpoints_completed_total", "Checkpoints that completed."), |m| {
        Value::Whole(m.checkpoints.completed.get())
    }),
    (
        counter(Of::Job, "alluvium_checkpoints_failed_total", "Checkpoints that were aborted or timed out."),
        |m| Value::Whole(m.checkpoints.failed.get()),
    ),
    (
        Description {
            name: "alluvium_checkpoint_duration_seconds",
            kind: Kind::Summary,
            of: Of::Job,
            help: "From a checkpoint's barrier to its durable completion record.",
        },
        |m| {
            let durations = &m.checkpoints.durations;
            Value::Summary { count: durations.count(), sum: durations.sum() }
        },
    ),
    (
        gauge(
            Of::Job,
            "alluvium_checkpoint_last_duration_seconds",
            "Duration of the last completed checkpoint.",
        ),
        |m| match m.checkpoints.durations.count() {
            0 => Value::Absent,
            _ => Value::Seconds(m.checkpoints.durations.last()),
        },
    ),
    (
        gauge(
            Of::Job,
            "alluvium_checkpoint_max_duration_seconds",
            "Duration of the longest completed checkpoint.",
        ),
        |m| match m.checkpoints.durations.count() {
            0 => Value::Absent,
            _ => Value::Seconds(m.checkpoints.durations.max()),
        },
    ),
    (
        gauge(
            Of::Job,
            "alluvium_checkpoint_age_seconds",
            "Time since the last completed checkpoint; absent before the first.",
        ),
        |m| m.checkpoint_age().map_or(Value::Absent, Value::Seconds),
    ),
];

pub(super) const SOURCE: &[Read<SourceMetrics>] = &[
    (
        counter(
            Of::Source,
            "alluvium_source_records_total",
            "Records read, rejected ones included; those read again after a restart count again.",
        ),
        |m| Value::Whole(m.records.get()),
    ),
    (counter(Of::Source, "alluvium_source_rejected_total", "Records that could not be taken."), |m| {
        Value::Whole(m.rejected.get())
    }),
    (
        gauge(
            Of::Source,
            "alluvium_source_read_bytes",
            "Bytes of the input that were read since the job's first start, compressed where it is.",
        ),
        |m| Value::Whole(m.bytes_read.get()),
    ),
    (gauge(Of::Source, "alluvium_source_size_bytes", "Bytes of the input as far as it is known."), |m| {
        Value::Whole(m.bytes_total.get())
    }),
    (
        gauge(Of::Source, "alluvium_source_lag_bytes", "Bytes of the input that are known and not yet read."),
        |m| Value::Whole(m.lag_bytes()),
    ),
    (gauge(Of::Source, "alluvium_source_splits_open", "Splits (files) that have more to read."), |m| {
        Value::Whole(m.splits_open.get())
    }),
    (
        gauge(
            Of::Source,
            "alluvium_source_splits_done",
            "Splits (files) that were read to their end, for now.",
        ),
        |m| Value::Whole(m.splits_done.get()),
    ),
];

pub(super) const SINK: &[Read<SinkMetrics>] = &[
    (
        counter(
            Of::Sink,
            "alluvium_sink_rows_total",
            "Rows taken by the sink; those written again after a restart count again.",
        ),
        |m| Value::Whole(m.rows.get()),
    ),
    (
        gauge(
            Of::Sink,
            "alluvium_sink_safe_rows",
            "Rows of completed checkpoints since the job's first start; they survive a crash.",
        ),
        |m| Value::Whole(m.rows_safe.get()),
    ),
    (
        gauge(
            Of::Sink,
            "alluvium_sink_visible_rows",
            "Rows in committed files since the job's first start; readers see them.",
        ),
        |m| Value::Whole(m.rows_visible.get()),
    ),
    (gauge(Of::Sink, "alluvium_sink_buffered_rows", "Rows in memory that are in no part file yet."), |m| {
        Value::Whole(m.rows_buffered.get())
    }),
    (
        gauge(
            Of::Sink,
            "alluvium_sink_spilled_rows",
            "Rows kept in the log because they do not fill a row group yet.",
        ),
        |m| Value::Whole(m.rows_spilled.get()),
    ),
    (gauge(Of::Sink, "alluvium_sink_buffered_bytes", "Memory of the sink's buffers and encoders."), |m| {
        Value::Whole(m.bytes_buffered.get())
    }),
    (gauge(Of::Sink, "alluvium_sink_open_buckets", "Buckets with a part file in progress."), |m| {
        Value::Whole(m.buckets_open.get())
    }),
    (gauge(Of::Sink, "alluvium_sink_open_files", "Part files in progress."), |m| {
        Value::Whole(m.files_open.get())
    }),
    (gauge(Of::Sink, "alluvium_sink_pending_files", "Part files that wait for their checkpoint."), |m| {
        Value::Whole(m.files_pending.get())
    }),
    (counter(Of::Sink, "alluvium_sink_committed_files_total", "Part files made visible."), |m| {
        Value::Whole(m.files_committed.get())
    }),
    (counter(Of::Sink, "alluvium_sink_committed_bytes_total", "Bytes of part files made visible."), |m| {
        Value::Whole(m.bytes_committed.get())
    }),
];
