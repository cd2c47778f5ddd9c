//! At no moment is something found wrong that is not, beside the job and after it was killed.

use super::*;
use crate::error::ErrorKind;
use crate::pipeline::inspect;
use crate::testing::SeededRandom;

/// Every so many steps a moment is looked at: a prime, so that all kinds of steps come.
const STRIDE: usize = 7;

fn moments() -> Vec<CrashDisk> {
    (0..steps()).step_by(STRIDE).map(moment).collect()
}

/// Fails unless `done` is what is found at a moment when nothing is wrong.
fn expect_nothing_wrong(done: &Result<Verification>, what: &str) -> bool {
    match done {
        Ok(verified) => {
            assert!(verified.is_clean(), "{what}: {:#?}", verified.findings);
            true
        }
        // Before the first start of the job.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Usage, "{what}: {error}");
            false
        }
    }
}

#[test]
fn a_job_that_was_killed_at_any_step_is_found_whole_and_nothing_is_changed() {
    let mut found = 0;
    for (number, disk) in moments().iter().enumerate() {
        let what = format!("step {}", number * STRIDE);
        let still = moving(disk, disk, 0);
        let verified = simulate(async { verify(&pipeline(), &still, VerifySettings::default()).await });
        found += usize::from(expect_nothing_wrong(&verified, &what));
        let inspected = inspect(&still, Path::new(STATE));
        assert_eq!(
            inspected.is_ok(),
            verified.is_ok() || inspected.is_ok_and(|report| report.job.is_none()),
            "{what}"
        );
        assert_eq!(disk.step_count(), 0, "{what}");
    }
    assert!(found > 20, "only {found} moments of a job that has started");
}

#[test]
fn verify_beside_a_running_job_raises_no_false_alarm() {
    let moments = moments();
    let random = SeededRandom::new(7);
    let mut looked = 0;
    for _ in 0..400 {
        let first = random.below(moments.len() as u64 - 1) as usize;
        let distance = 1 + random.below(if random.chance(1, 2) { 4 } else { moments.len() as u64 }) as usize;
        let second = (first + distance).min(moments.len() - 1);
        let at = random.below(120) as usize;
        let doors = moving(&moments[first], &moments[second], at);
        let done = simulate(async { verify(&pipeline(), &doors, VerifySettings::default()).await });
        let what = format!("from step {} to {} at look {at}", first * STRIDE, second * STRIDE);
        looked += usize::from(expect_nothing_wrong(&done, &what));
        let report = inspect(&moving(&moments[first], &moments[second], at / 4), Path::new(STATE));
        assert!(
            report.is_ok() || report.as_ref().is_err_and(|error| error.kind() == ErrorKind::Usage),
            "{what}: {report:?}"
        );
    }
    assert!(looked > 200, "only {looked} looks at a job that has started");
}
