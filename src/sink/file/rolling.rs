//! When a part file is closed: a pure rule over size, rows, age and inactivity.
//!
//! Files are closed at barriers only. Age and inactivity that fall due between two barriers make the
//! writer ask for one (`SinkWriter::roll_due_in`), so that a silent stream still becomes visible (C12).

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use crate::error::Error;
use crate::error::Result;

/// When to close a part file: at the first barrier at which any of these holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RollingPolicy {
    /// The file holds at least this many bytes, with an estimate for rows not yet written.
    pub bytes_min: Option<u64>,
    /// It holds at least this many rows.
    pub rows_min: Option<u64>,
    /// Its first row was taken at least this long ago.
    pub age: Option<Duration>,
    /// Its last row was taken at least this long ago.
    pub inactivity: Option<Duration>,
}

/// 256 MiB: large enough that footers and openings do not count, small enough for one reader's task.
pub const BYTES_MIN: u64 = 256 << 20;
/// A quarter of an hour: how long a reader waits at most for rows of a bucket that fills slowly.
pub const AGE: Duration = Duration::from_secs(15 * 60);
/// A third of the age: a bucket that nobody writes to any more (an hour gone by) is shown early.
pub const INACTIVITY: Duration = Duration::from_secs(5 * 60);

/// Row groups of a Parquet file before it is closed in any case: its footer, and what the state
/// holds of it, grow with each (D14).
pub const ROW_GROUPS_MAX: u64 = 1_000;

impl Default for RollingPolicy {
    fn default() -> Self {
        Self { bytes_min: Some(BYTES_MIN), rows_min: None, age: Some(AGE), inactivity: Some(INACTIVITY) }
    }
}

/// What the rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartFacts {
    /// Bytes written and the estimate for rows that wait.
    pub bytes: u64,
    /// Rows written and waiting.
    pub rows: u64,
    /// Row groups written.
    pub row_groups: u64,
    /// Time since the first row.
    pub age: Duration,
    /// Time since the last row.
    pub idle: Duration,
}

/// Why a file is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollReason {
    /// It is large enough.
    Size,
    /// It holds enough rows.
    Rows,
    /// It is old enough.
    Age,
    /// Nothing came for it.
    Inactivity,
    /// It holds as many row groups as a file may.
    RowGroups,
    /// The input ended.
    End,
    /// It was begun by a writer with another schema or other settings (D15).
    Changed,
}

impl RollingPolicy {
    /// Never closes a file before the end of the input.
    pub fn at_end() -> Self {
        Self { bytes_min: None, rows_min: None, age: None, inactivity: None }
    }

    /// Checks the relations between the settings.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], naming the setting.
    pub fn validate(&self) -> Result<()> {
        for (name, zero) in [
            ("size", self.bytes_min == Some(0)),
            ("rows", self.rows_min == Some(0)),
            ("age", self.age == Some(Duration::ZERO)),
            ("inactivity", self.inactivity == Some(Duration::ZERO)),
        ] {
            if zero {
                return Err(Error::usage(format!("roll.{name} is 0: every row would get a file of its own")));
            }
        }
        Ok(())
    }

    /// Whether, and why, a file with these facts is closed at a barrier now.
    pub fn due(&self, part: &PartFacts) -> Option<RollReason> {
        let reached = |least: Option<u64>, has: u64| least.is_some_and(|least| has >= least);
        let past = |limit: Option<Duration>, is: Duration| limit.is_some_and(|limit| is >= limit);
        if part.rows == 0 {
            None
        } else if reached(self.bytes_min, part.bytes) {
            Some(RollReason::Size)
        } else if reached(self.rows_min, part.rows) {
            Some(RollReason::Rows)
        } else if part.row_groups >= ROW_GROUPS_MAX {
            Some(RollReason::RowGroups)
        } else if past(self.age, part.age) {
            Some(RollReason::Age)
        } else if past(self.inactivity, part.idle) {
            Some(RollReason::Inactivity)
        } else {
            None
        }
    }

    /// How long until the part is due by age or inactivity though nothing more comes; `None`: never.
    ///
    /// Size and rows ask for no barrier of their own: the next one is soon enough.
    pub fn due_in(&self, part: &PartFacts) -> Option<Duration> {
        if part.rows == 0 {
            return None;
        }
        let left = |limit: Option<Duration>, is: Duration| limit.map(|limit| limit.saturating_sub(is));
        [left(self.age, part.age), left(self.inactivity, part.idle)].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn part() -> PartFacts {
        PartFacts { bytes: 99, rows: 9, row_groups: 1, age: S(59), idle: S(9) }
    }

    fn policy() -> RollingPolicy {
        RollingPolicy { bytes_min: Some(100), rows_min: Some(10), age: Some(S(60)), inactivity: Some(S(10)) }
    }

    #[test]
    fn a_file_is_closed_at_each_limit_and_not_before() {
        assert_eq!(policy().due(&part()), None);
        let due = |part| policy().due(&part);
        assert_eq!(due(PartFacts { bytes: 100, ..part() }), Some(RollReason::Size));
        assert_eq!(due(PartFacts { rows: 10, ..part() }), Some(RollReason::Rows));
        assert_eq!(due(PartFacts { age: S(60), ..part() }), Some(RollReason::Age));
        assert_eq!(due(PartFacts { idle: S(10), ..part() }), Some(RollReason::Inactivity));
        assert_eq!(due(PartFacts { row_groups: 999, ..part() }), None);
        assert_eq!(due(PartFacts { row_groups: 1_000, ..part() }), Some(RollReason::RowGroups));
    }

    #[test]
    fn a_part_without_rows_is_never_closed() {
        let empty = PartFacts { rows: 0, bytes: 1_000, age: S(1_000), ..part() };
        assert_eq!((policy().due(&empty), policy().due_in(&empty)), (None, None));
    }

    #[test]
    fn the_nearer_of_age_and_inactivity_is_waited_for() {
        assert_eq!(policy().due_in(&part()), Some(S(1)));
        assert_eq!(policy().due_in(&PartFacts { idle: S(4), age: S(5), ..part() }), Some(S(6)));
        assert_eq!(policy().due_in(&PartFacts { rows: 10, ..part() }), Some(S(1)));
        assert_eq!(policy().due_in(&PartFacts { idle: S(11), ..part() }), Some(S(0)));
        assert_eq!(RollingPolicy::at_end().due_in(&part()), None);
    }

    #[test]
    fn limits_of_zero_are_refused() {
        for zero in [
            RollingPolicy { bytes_min: Some(0), ..policy() },
            RollingPolicy { rows_min: Some(0), ..policy() },
            RollingPolicy { age: Some(S(0)), ..policy() },
            RollingPolicy { inactivity: Some(S(0)), ..policy() },
        ] {
            assert!(zero.validate().is_err());
        }
        assert!(RollingPolicy::default().validate().is_ok());
    }
}
