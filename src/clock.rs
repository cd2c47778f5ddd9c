//! Time as an argument: nothing else in the crate asks the system what time it is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time and waits.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time of day, which may jump in both directions.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this process; never goes back. Timeouts and ages use it.
    fn monotonic(&self) -> Duration;

    /// Completes when `duration` has passed. Dropping the future cancels the wait.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's clock. Sleeps need a tokio runtime with time enabled.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose [`Clock::monotonic`] starts at zero now.
    #[expect(clippy::disallowed_methods, reason = "the door: the one place that asks the system")]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the door: the one place that asks the system")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the door: the one place that waits")]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock for simulations: it follows tokio's paused time, which jumps ahead when nothing can run.
///
/// The time of day starts at a fixed moment and can be moved apart from the monotonic time.
#[derive(Debug)]
pub struct ManualClock {
    start: tokio::time::Instant,
    epoch_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that says `start` now. Needs a current-thread tokio runtime with paused time.
    #[expect(clippy::disallowed_methods, reason = "the door: the twin of SystemClock")]
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start: tokio::time::Instant::now(), epoch_ms: AtomicI64::new(start.as_millisecond()) }
    }

    /// Moves the time of day by `milliseconds` in either direction; the monotonic time stays.
    pub fn jump(&self, milliseconds: i64) {
        self.epoch_ms.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        let ms = self.epoch_ms.load(Ordering::Relaxed).saturating_add(passed);
        Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the door: the twin of SystemClock")]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}
