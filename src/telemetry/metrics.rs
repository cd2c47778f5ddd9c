//! All numbers of a job, as plain fields.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Clock;
use crate::stream::TaskId;
use crate::telemetry::value::Counter;
use crate::telemetry::value::Durations;
use crate::telemetry::value::Gauge;

/// The numbers of one job, shared by its tasks and whoever shows them.
///
/// Counters start at zero with the process and go on over restarts within it, so rows that are read or
/// written again after a restart are counted again; gauges are what the job says of itself now.
pub struct Metrics {
    job: String,
    clock: Arc<dyn Clock>,
    started: Duration,
    sources: Mutex<Vec<(TaskId, Arc<SourceMetrics>)>>,
    sinks: Mutex<Vec<(TaskId, Arc<SinkMetrics>)>>,
    /// Of the coordinator.
    pub checkpoints: CheckpointMetrics,
    /// The fencing number of the run.
    pub incarnation: Gauge,
    /// The newest epoch that began.
    pub epoch: Gauge,
    /// Restarts within the process.
    pub restarts: Counter,
    /// Bad records written to the dead letters.
    pub dead_letters: Counter,
    /// Bad records passed over because the pipeline says `skip`.
    pub skipped: Counter,
    /// Bytes appended to the job's log.
    pub log_bytes: Counter,
}

/// The numbers of a source.
#[derive(Debug, Default)]
pub struct SourceMetrics {
    /// Records handed on, rejected ones included.
    pub records: Counter,
    /// Records that could not be taken.
    pub rejected: Counter,
    /// Bytes of the input that are behind the source.
    pub bytes_read: Gauge,
    /// Bytes of the input as far as it is known; 0 where it has no size.
    pub bytes_total: Gauge,
    /// Splits that have more to read.
    pub splits_open: Gauge,
    /// Splits that were read to their end, for now.
    pub splits_done: Gauge,
}

/// The numbers of a sink.
#[derive(Debug, Default)]
pub struct SinkMetrics {
    /// Rows taken by the writer.
    pub rows: Counter,
    /// Rows of completed checkpoints since the job's first start: they survive any crash.
    pub rows_safe: Gauge,
    /// Rows in committed files since the job's first start: readers see them.
    pub rows_visible: Gauge,
    /// Rows in memory that no checkpoint holds in a part file.
    pub rows_buffered: Gauge,
    /// Rows kept in the state because they do not fill a row group yet.
    pub rows_spilled: Gauge,
    /// Memory of the writer's buffers and encoders, in bytes.
    pub bytes_buffered: Gauge,
    /// Buckets with a part file in progress.
    pub buckets_open: Gauge,
    /// Part files in progress.
    pub files_open: Gauge,
    /// Part files that wait for their checkpoint.
    pub files_pending: Gauge,
    /// Part files made visible.
    pub files_committed: Counter,
    /// Bytes of part files made visible.
    pub bytes_committed: Counter,
}

/// The numbers of the coordinator.
#[derive(Debug, Default)]
pub struct CheckpointMetrics {
    /// Checkpoints that completed.
    pub completed: Counter,
    /// Checkpoints that were aborted or timed out.
    pub failed: Counter,
    /// From the barrier to the durable completion record.
    pub durations: Durations,
    /// When the last one completed, in microseconds of the clock's monotonic time plus one; 0: none yet.
    last_us: AtomicU64,
}

impl Metrics {
    /// The numbers of the job called `job`, all zero.
    pub fn new(job: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            job: job.into(),
            started: clock.monotonic(),
            clock,
            sources: Mutex::default(),
            sinks: Mutex::default(),
            checkpoints: CheckpointMetrics::default(),
            incarnation: Gauge::default(),
            epoch: Gauge::default(),
            restarts: Counter::default(),
            dead_letters: Counter::default(),
            skipped: Counter::default(),
            log_bytes: Counter::default(),
        }
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Time since these numbers began.
    pub fn uptime(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }

    /// The numbers of the source `task`: new ones the first time, the same ones after a restart.
    pub fn source(&self, task: &TaskId) -> Arc<SourceMetrics> {
        entry(&self.sources, task)
    }

    /// The numbers of the sink `task`: new ones the first time, the same ones after a restart.
    pub fn sink(&self, task: &TaskId) -> Arc<SinkMetrics> {
        entry(&self.sinks, task)
    }

    /// All sources, in the order in which they came.
    pub fn sources(&self) -> Vec<(TaskId, Arc<SourceMetrics>)> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All sinks, in the order in which they came.
    pub fn sinks(&self) -> Vec<(TaskId, Arc<SinkMetrics>)> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A checkpoint completed now, `took` after its barrier.
    pub fn checkpoint_completed(&self, took: Duration) {
        let now = u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX - 1);
        self.checkpoints.last_us.store(now.saturating_add(1), Ordering::Relaxed);
        self.checkpoints.completed.add(1);
        self.checkpoints.durations.observe(took);
    }

    /// Time since the last completed checkpoint of this process; `None` before the first.
    pub fn checkpoint_age(&self) -> Option<Duration> {
        let last = self.checkpoints.last_us.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.clock.monotonic().saturating_sub(Duration::from_micros(last)))
    }
}

impl SourceMetrics {
    /// Bytes of the input that are known and not read.
    pub fn lag_bytes(&self) -> u64 {
        self.bytes_total.get().saturating_sub(self.bytes_read.get())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("job", &self.job).finish_non_exhaustive()
    }
}

fn entry<T: Default>(all: &Mutex<Vec<(TaskId, Arc<T>)>>, task: &TaskId) -> Arc<T> {
    // Nothing panics while it holds the lock, and a half-made entry cannot be.
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = all.iter().find(|(known, _)| known == task) {
        return Arc::clone(found);
    }
    let made = Arc::new(T::default());
    all.push((task.clone(), Arc::clone(&made)));
    made
}
