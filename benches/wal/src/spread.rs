//! Medians with their extremes, and what a limit says of them.

/// The middle of some numbers, and their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// Of `values`; all are NaN when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => f64::NAN,
            len if len % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self { median, min: end(values.first()), max: end(values.last()) }
    }
}

/// What Alluvium has to reach in a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// At least this many times the rate of the best baseline of the same round.
    Ratio { must: f64, aim: f64 },
    /// At most this long.
    Millis { must: f64, aim: f64 },
}

/// How a median stands to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Aim,
    Must,
    Missed,
}

impl Limit {
    /// Judges `median`; what is no number has missed.
    pub fn judge(self, median: f64) -> Verdict {
        let reaches = |bound: f64| match self {
            Self::Ratio { .. } => median >= bound,
            Self::Millis { .. } => median <= bound,
        };
        let (Self::Ratio { must, aim } | Self::Millis { must, aim }) = self;
        match (reaches(must), reaches(aim)) {
            (true, true) => Verdict::Aim,
            (true, false) => Verdict::Must,
            (false, _) => Verdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([9.0, 1.0, 5.0]).median, 5.0);
    }

    #[test]
    fn nothing_measured_is_no_number_and_misses_every_limit() {
        let spread = Spread::of([]);
        assert!(spread.median.is_nan() && spread.min.is_nan() && spread.max.is_nan());
        assert_eq!(Limit::Ratio { must: 0.0, aim: 0.0 }.judge(spread.median), Verdict::Missed);
        assert_eq!(Limit::Millis { must: 9.0, aim: 9.0 }.judge(spread.median), Verdict::Missed);
    }

    #[test]
    fn a_ratio_is_kept_from_its_bound_upwards() {
        let limit = Limit::Ratio { must: 0.92, aim: 0.95 };
        let verdicts = [0.91, 0.92, 0.94, 0.95, 2.0].map(|median| limit.judge(median));
        assert_eq!(verdicts, [Verdict::Missed, Verdict::Must, Verdict::Must, Verdict::Aim, Verdict::Aim]);
    }

    #[test]
    fn a_duration_is_kept_from_its_bound_downwards() {
        let limit = Limit::Millis { must: 5.0, aim: 1.0 };
        let verdicts = [5.1, 5.0, 1.1, 1.0].map(|median| limit.judge(median));
        assert_eq!(verdicts, [Verdict::Missed, Verdict::Must, Verdict::Must, Verdict::Aim]);
    }
}
