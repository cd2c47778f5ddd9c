//! What tasks say of themselves: from the status of sources and sinks to the numbers of the job.
//!
//! Sums go on over restarts within the process, statuses begin with what was restored: only what is added
//! to a status is added to a sum.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::sink::SinkStatus;
use crate::source::SourceStatus;
use crate::stream::Epoch;
use crate::telemetry::SinkMetrics;
use crate::telemetry::SourceMetrics;

/// A status is asked for at most this often while data flows: it may have to walk over all files.
const PAUSE: Duration = Duration::from_millis(100);

/// Says when a status is to be asked for again.
struct Pace {
    clock: Arc<dyn Clock>,
    next: Duration,
}

impl Pace {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, next: Duration::ZERO }
    }

    fn is_due(&mut self) -> bool {
        let now = self.clock.monotonic();
        let due = now >= self.next;
        if due {
            self.next = now.saturating_add(PAUSE);
        }
        due
    }
}

/// The numbers of a source.
pub(crate) struct SourceNumbers {
    metrics: Arc<SourceMetrics>,
    pace: Pace,
    last: SourceStatus,
}

impl SourceNumbers {
    /// Goes on with `metrics` for a source that was restored to `status`.
    pub(crate) fn new(metrics: Arc<SourceMetrics>, clock: Arc<dyn Clock>, status: SourceStatus) -> Self {
        let mut numbers = Self { metrics, pace: Pace::new(clock), last: status };
        numbers.settle(status);
        numbers
    }

    /// Records were handed on, and so many rejected.
    pub(crate) fn handed_on(&mut self, rejected: usize, status: impl FnOnce() -> SourceStatus) {
        self.metrics.rejected.add(rejected as u64);
        if self.pace.is_due() {
            self.settle(status());
        }
    }

    /// The source has this status now.
    pub(crate) fn settle(&mut self, status: SourceStatus) {
        let metrics = &self.metrics;
        metrics.records.add(status.records.saturating_sub(self.last.records));
        metrics.bytes_read.set(status.bytes_read);
        metrics.bytes_total.set(status.bytes_total);
        metrics.splits_open.set(status.splits_open);
        metrics.splits_done.set(status.splits_done);
        self.last = status;
    }
}

/// The numbers of a sink.
pub(crate) struct SinkNumbers {
    metrics: Arc<SinkMetrics>,
    pace: Pace,
    last: SinkStatus,
    /// Rows taken up to the barrier of each epoch that is not complete yet.
    at_barrier: BTreeMap<Epoch, u64>,
}

impl SinkNumbers {
    /// Goes on with `metrics` for a sink that was restored to `status`.
    pub(crate) fn new(metrics: Arc<SinkMetrics>, clock: Arc<dyn Clock>, status: SinkStatus) -> Self {
        metrics.rows_safe.set(status.rows);
        let mut numbers = Self { metrics, pace: Pace::new(clock), last: status, at_barrier: BTreeMap::new() };
        numbers.settle(status);
        numbers
    }

    /// Rows were written.
    pub(crate) fn wrote(&mut self, status: impl FnOnce() -> SinkStatus) {
        if self.pace.is_due() {
            self.settle(status());
        }
    }

    /// The sink has this status at the barrier of `epoch`.
    pub(crate) fn ended(&mut self, epoch: Epoch, status: SinkStatus) {
        self.at_barrier.insert(epoch, status.rows);
        self.settle(status);
    }

    /// The checkpoint of `epoch` is complete.
    pub(crate) fn completed(&mut self, epoch: Epoch) {
        let later = self.at_barrier.split_off(&epoch.next());
        if let Some((_, rows)) = self.at_barrier.pop_last() {
            self.metrics.rows_safe.set(rows);
        }
        self.at_barrier = later;
    }

    /// The sink has this status now.
    pub(crate) fn settle(&mut self, status: SinkStatus) {
        let metrics = &self.metrics;
        metrics.rows.add(status.rows.saturating_sub(self.last.rows));
        metrics.files_committed.add(status.files_visible.saturating_sub(self.last.files_visible));
        metrics.bytes_committed.add(status.bytes_visible.saturating_sub(self.last.bytes_visible));
        metrics.rows_visible.set(status.rows_visible);
        metrics.rows_buffered.set(status.rows_buffered);
        metrics.rows_spilled.set(status.rows_spilled);
        metrics.bytes_buffered.set(status.bytes_buffered);
        metrics.buckets_open.set(status.buckets_open);
        metrics.files_open.set(status.files_open);
        metrics.files_pending.set(status.files_pending);
        self.last = status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    #[test]
    fn what_was_restored_is_not_counted_again_after_a_restart() {
        let metrics = Arc::new(SinkMetrics::default());
        let status = |rows, files_visible| SinkStatus { rows, files_visible, ..SinkStatus::default() };
        let mut numbers = SinkNumbers::new(Arc::clone(&metrics), clock(), status(0, 0));
        numbers.settle(status(70, 3));
        let mut numbers = SinkNumbers::new(Arc::clone(&metrics), clock(), status(50, 3));
        numbers.settle(status(60, 4));
        assert_eq!((metrics.rows.get(), metrics.files_committed.get()), (80, 4));

        let metrics = Arc::new(SourceMetrics::default());
        let status = |records| SourceStatus { records, ..SourceStatus::default() };
        SourceNumbers::new(Arc::clone(&metrics), clock(), status(10)).settle(status(25));
        SourceNumbers::new(Arc::clone(&metrics), clock(), status(10)).settle(status(12));
        assert_eq!(metrics.records.get(), 17);
    }

    #[test]
    fn rows_are_safe_once_the_checkpoint_of_their_epoch_is_complete() {
        let metrics = Arc::new(SinkMetrics::default());
        let status = |rows| SinkStatus { rows, ..SinkStatus::default() };
        let mut numbers = SinkNumbers::new(Arc::clone(&metrics), clock(), status(5));
        assert_eq!(metrics.rows_safe.get(), 5);
        numbers.ended(Epoch(4), status(8));
        numbers.ended(Epoch(5), status(9));
        numbers.ended(Epoch(6), status(20));
        assert_eq!(metrics.rows_safe.get(), 5);
        numbers.completed(Epoch(5));
        assert_eq!(metrics.rows_safe.get(), 9);
        numbers.completed(Epoch(5));
        assert_eq!(metrics.rows_safe.get(), 9);
        numbers.completed(Epoch(6));
        assert_eq!(metrics.rows_safe.get(), 20);
    }
}
