//! A picture of a job at one moment, for a terminal line.

use std::time::Duration;

use crate::stream::TaskId;
use crate::telemetry::metrics::Metrics;

/// What a job says of itself at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The job's name.
    pub job: String,
    /// Time since the process began to run it.
    pub uptime: Duration,
    /// The fencing number of the run.
    pub incarnation: u64,
    /// The newest epoch that began.
    pub epoch: u64,
    /// Restarts within the process.
    pub restarts: u64,
    /// Bad records written to the dead letters.
    pub dead_letters: u64,
    /// Bad records passed over.
    pub skipped: u64,
    /// Checkpoints that completed.
    pub checkpoints_completed: u64,
    /// Checkpoints that did not.
    pub checkpoints_failed: u64,
    /// Time since the last one completed.
    pub checkpoint_age: Option<Duration>,
    /// How long it took.
    pub checkpoint_duration: Option<Duration>,
    /// Each source.
    pub sources: Vec<SourceLine>,
    /// Each sink.
    pub sinks: Vec<SinkLine>,
}

/// A source at one moment. The meaning of each number is that of [`crate::telemetry::SourceMetrics`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in SourceMetrics")]
pub struct SourceLine {
    pub task: TaskId,
    pub records: u64,
    pub rejected: u64,
    pub bytes_read: u64,
    pub bytes_total: u64,
    pub lag_bytes: u64,
    pub splits_open: u64,
    pub splits_done: u64,
}

/// A sink at one moment. The meaning of each number is that of [`crate::telemetry::SinkMetrics`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in SinkMetrics")]
pub struct SinkLine {
    pub task: TaskId,
    pub rows: u64,
    pub rows_safe: u64,
    pub rows_visible: u64,
    pub rows_buffered: u64,
    pub rows_spilled: u64,
    pub bytes_buffered: u64,
    pub buckets_open: u64,
    pub files_open: u64,
    pub files_pending: u64,
    pub files_committed: u64,
    pub bytes_committed: u64,
}

impl Metrics {
    /// The numbers as they are now. Each is read for itself: together they are not of one instant.
    pub fn status(&self) -> Status {
        let checkpoints = &self.checkpoints;
        let sources = self.sources().into_iter().map(|(task, metrics)| SourceLine {
            task,
            records: metrics.records.get(),
            rejected: metrics.rejected.get(),
            bytes_read: metrics.bytes_read.get(),
            bytes_total: metrics.bytes_total.get(),
            lag_bytes: metrics.lag_bytes(),
            splits_open: metrics.splits_open.get(),
            splits_done: metrics.splits_done.get(),
        });
        let sinks = self.sinks().into_iter().map(|(task, metrics)| SinkLine {
            task,
            rows: metrics.rows.get(),
            rows_safe: metrics.rows_safe.get(),
            rows_visible: metrics.rows_visible.get(),
            rows_buffered: metrics.rows_buffered.get(),
            rows_spilled: metrics.rows_spilled.get(),
            bytes_buffered: metrics.bytes_buffered.get(),
            buckets_open: metrics.buckets_open.get(),
            files_open: metrics.files_open.get(),
            files_pending: metrics.files_pending.get(),
            files_committed: metrics.files_committed.get(),
            bytes_committed: metrics.bytes_committed.get(),
        });
        Status {
            job: self.job().to_owned(),
            uptime: self.uptime(),
            incarnation: self.incarnation.get(),
            epoch: self.epoch.get(),
            restarts: self.restarts.get(),
            dead_letters: self.dead_letters.get(),
            skipped: self.skipped.get(),
            checkpoints_completed: checkpoints.completed.get(),
            checkpoints_failed: checkpoints.failed.get(),
            checkpoint_age: self.checkpoint_age(),
            checkpoint_duration: (checkpoints.durations.count() > 0).then(|| checkpoints.durations.last()),
            sources: sources.collect(),
            sinks: sinks.collect(),
        }
    }
}
