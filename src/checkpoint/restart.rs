//! When a failed job is tried again: pure, so that time and chance come from outside.

use std::time::Duration;

use crate::error::ErrorKind;

/// How often, and how soon, a failed job goes on from its last completed checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum RestartPolicy {
    /// Never.
    None,
    /// After the same time each time.
    FixedDelay {
        /// The time.
        delay: Duration,
        /// Restarts in a row before the job is given up; a job that ran for [`RestartPolicy::RESET_AFTER`]
        /// begins to count again. `None`: no limit.
        attempts_max: Option<u32>,
    },
    /// After a multiple of the time before, up to a limit.
    Exponential {
        /// The first time.
        first: Duration,
        /// How many times longer each wait is than the one before; at least 1, what is less counts as 1.
        multiplier: f64,
        /// The longest.
        max: Duration,
        /// The time is longer or shorter by up to this many percent, by chance, so that jobs that failed
        /// together do not come back together.
        jitter_percent: u32,
        /// A job that ran this long begins again with the first time, and to count.
        reset_after: Duration,
        /// Restarts in a row before the job is given up. `None`: no limit.
        attempts_max: Option<u32>,
    },
}

impl RestartPolicy {
    /// A second: most causes that pass by themselves pass at once.
    pub const FIRST: Duration = Duration::from_secs(1);
    /// Twice as long each time.
    pub const MULTIPLIER: f64 = 2.0;
    /// A minute: nobody waits longer than that once the cause is gone.
    pub const MAX: Duration = Duration::from_secs(60);
    /// A tenth.
    pub const JITTER_PERCENT: u32 = 10;
    /// Ten minutes without a failure: the next one is another story.
    pub const RESET_AFTER: Duration = Duration::from_secs(600);
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self::Exponential {
            first: Self::FIRST,
            multiplier: Self::MULTIPLIER,
            max: Self::MAX,
            jitter_percent: Self::JITTER_PERCENT,
            reset_after: Self::RESET_AFTER,
            attempts_max: None,
        }
    }
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start again after this time.
    After(Duration),
    /// Let the job fail.
    GiveUp,
}

/// The restarts of one job.
#[derive(Debug, Clone)]
pub struct Restarts {
    policy: RestartPolicy,
    in_a_row: u32,
    total: u64,
    /// When the last restart fell due.
    restarted_at: Option<Duration>,
}

impl Restarts {
    /// None so far.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, in_a_row: 0, total: 0, restarted_at: None }
    }

    /// Restarts so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Decides about a failure of `kind` at `now` (of a clock that never goes back), with a `random`
    /// number. Only [`ErrorKind::Retry`] can be mended by another attempt.
    pub fn failed(&mut self, kind: ErrorKind, now: Duration, random: u64) -> RestartDecision {
        if kind != ErrorKind::Retry {
            return RestartDecision::GiveUp;
        }
        let reset_after = match &self.policy {
            RestartPolicy::Exponential { reset_after, .. } => *reset_after,
            _ => RestartPolicy::RESET_AFTER,
        };
        if self.restarted_at.is_some_and(|at| now.saturating_sub(at) >= reset_after) {
            self.in_a_row = 0;
        }
        let delay = match &self.policy {
            RestartPolicy::None => return RestartDecision::GiveUp,
            RestartPolicy::FixedDelay { attempts_max: Some(most), .. }
            | RestartPolicy::Exponential { attempts_max: Some(most), .. }
                if self.in_a_row >= *most =>
            {
                return RestartDecision::GiveUp;
            }
            RestartPolicy::FixedDelay { delay, .. } => *delay,
            RestartPolicy::Exponential { first, multiplier, max, jitter_percent, .. } => {
                let delay = grown(*first, *multiplier, self.in_a_row).min(*max);
                jittered(delay, (*jitter_percent).min(100), random)
            }
        };
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.total += 1;
        self.restarted_at = Some(now.saturating_add(delay));
        RestartDecision::After(delay)
    }
}

/// `first`, multiplied by `multiplier` as many `times`; what no duration can hold is the longest one.
fn grown(first: Duration, multiplier: f64, times: u32) -> Duration {
    // Not a number counts as 1 too.
    let multiplier = if multiplier > 1.0 { multiplier } else { 1.0 };
    let factor = multiplier.powi(i32::try_from(times).unwrap_or(i32::MAX));
    Duration::try_from_secs_f64(first.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// `delay`, longer or shorter by up to `percent`, evenly spread over `random`.
fn jittered(delay: Duration, percent: u32, random: u64) -> Duration {
    // From 0 to 2 x percent, in thousandths.
    let spread = random % (u64::from(percent) * 20 + 1);
    let thousandths = 1000 - u64::from(percent) * 10 + spread;
    // At most 2000, so it fits.
    let times = u32::try_from(thousandths).unwrap_or(1000);
    delay.checked_mul(times).map_or(delay, |scaled| scaled / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn exponential(jitter_percent: u32) -> Restarts {
        Restarts::new(RestartPolicy::Exponential {
            first: SECOND,
            multiplier: 2.0,
            max: 5 * SECOND,
            jitter_percent,
            reset_after: 100 * SECOND,
            attempts_max: None,
        })
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit_and_begins_again_after_a_long_run() {
        let mut restarts = exponential(0);
        let mut now = Duration::ZERO;
        for seconds in [1, 2, 4, 5, 5] {
            let decision = restarts.failed(ErrorKind::Retry, now, 0);
            assert_eq!(decision, RestartDecision::After(seconds * SECOND));
            now += seconds * SECOND + SECOND;
        }
        // It counts from the restart, not from the failure before it.
        now += 98 * SECOND;
        assert_eq!(restarts.failed(ErrorKind::Retry, now, 0), RestartDecision::After(5 * SECOND));
        now += 105 * SECOND;
        assert_eq!(restarts.failed(ErrorKind::Retry, now, 0), RestartDecision::After(SECOND));
        assert_eq!(restarts.total(), 7);
    }

    #[test]
    fn a_thousand_failures_in_a_row_stay_at_the_limit() {
        let mut restarts = exponential(0);
        for _ in 0..1000 {
            restarts.failed(ErrorKind::Retry, Duration::ZERO, 0);
        }
        assert_eq!(restarts.failed(ErrorKind::Retry, Duration::ZERO, 0), RestartDecision::After(5 * SECOND));
    }

    #[test]
    fn jitter_stays_within_its_share_and_reaches_both_ends() {
        let delays: Vec<_> = (0..=400).map(|random| jittered(SECOND, 20, random)).collect();
        assert_eq!(delays.iter().min(), Some(&Duration::from_millis(800)));
        assert_eq!(delays.iter().max(), Some(&Duration::from_millis(1200)));
        jittered(Duration::MAX, 100, u64::MAX);
    }

    #[test]
    fn the_delay_grows_by_its_multiplier() {
        let policy = |multiplier| RestartPolicy::Exponential {
            first: SECOND,
            multiplier,
            max: 1000 * SECOND,
            jitter_percent: 0,
            reset_after: 5000 * SECOND,
            attempts_max: None,
        };
        let delays = |multiplier: f64| {
            let mut restarts = Restarts::new(policy(multiplier));
            (0..5).map(|_| restarts.failed(ErrorKind::Retry, Duration::ZERO, 0)).collect::<Vec<_>>()
        };
        let after = |ms: [u64; 5]| ms.map(|ms| RestartDecision::After(Duration::from_millis(ms))).to_vec();
        assert_eq!(delays(1.5)[..4], after([1000, 1500, 2250, 3375, 0])[..4]);
        assert_eq!(delays(10.0), after([1000, 10_000, 100_000, 1_000_000, 1_000_000]));
        assert_eq!(delays(1.0), after([1000; 5]));
        assert_eq!(delays(f64::NAN), after([1000; 5]));
        assert_eq!(delays(f64::INFINITY)[1], RestartDecision::After(1000 * SECOND));
    }

    #[test]
    fn growing_delays_have_a_limit_in_a_row_that_a_long_run_renews() {
        let mut restarts = Restarts::new(RestartPolicy::Exponential {
            first: SECOND,
            multiplier: 2.0,
            max: 5 * SECOND,
            jitter_percent: 0,
            reset_after: 100 * SECOND,
            attempts_max: Some(2),
        });
        let retry = ErrorKind::Retry;
        assert_eq!(restarts.failed(retry, Duration::ZERO, 0), RestartDecision::After(SECOND));
        assert_eq!(restarts.failed(retry, 2 * SECOND, 0), RestartDecision::After(2 * SECOND));
        assert_eq!(restarts.failed(retry, 5 * SECOND, 0), RestartDecision::GiveUp);
        assert_eq!(restarts.failed(retry, 200 * SECOND, 0), RestartDecision::After(SECOND));
    }

    #[test]
    fn fixed_delays_have_a_limit_in_a_row() {
        let policy = RestartPolicy::FixedDelay { delay: SECOND, attempts_max: Some(2) };
        let mut restarts = Restarts::new(policy);
        let retry = ErrorKind::Retry;
        assert_eq!(restarts.failed(retry, Duration::ZERO, 0), RestartDecision::After(SECOND));
        assert_eq!(restarts.failed(retry, Duration::ZERO, 0), RestartDecision::After(SECOND));
        assert_eq!(restarts.failed(retry, Duration::ZERO, 0), RestartDecision::GiveUp);
        let later = RestartPolicy::RESET_AFTER + SECOND;
        assert_eq!(restarts.failed(retry, later, 0), RestartDecision::After(SECOND));
    }

    #[test]
    fn what_another_attempt_cannot_mend_is_not_tried_again() {
        for kind in [ErrorKind::Fatal, ErrorKind::Damage, ErrorKind::Usage, ErrorKind::Fenced] {
            assert_eq!(exponential(0).failed(kind, Duration::ZERO, 0), RestartDecision::GiveUp);
        }
        let mut never = Restarts::new(RestartPolicy::None);
        assert_eq!(never.failed(ErrorKind::Retry, Duration::ZERO, 0), RestartDecision::GiveUp);
    }
}
