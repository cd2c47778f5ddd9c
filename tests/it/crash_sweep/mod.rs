//! A whole job on a simulated disk, crashed at every I/O step in turn, under each crash model, and again
//! at every step of the recovery.
//!
//! Three oracles, since the first alone misses most missing syncs: the output equals the input; what was
//! acknowledged before the crash is still there after it; nothing is left behind.
//!
//! The job follows its input, which grows while it runs, so that checkpoints complete on the way; then it
//! is stopped, started again, and drained. Row groups are tiny, so that a restart crosses a half-full
//! row group, a spilled chunk, a pending file and a dead letter at once; the sweep asserts that it did.
//! The input lies on a disk of its own, which does not crash: it is not the job's.
//!
//! A failure prints the case: script, step, how much of the step happened, model and seed. A run is a
//! function of these.

mod disks;
mod world;

use std::collections::BTreeMap;
use std::io::Write;

use alluvium::testing::CrashModel;
use alluvium::testing::StepKind;

use self::world::Crash;
use self::world::How;
use self::world::Script;
use self::world::Turn;
use self::world::World;
use self::world::live;
use self::world::step_names;

/// The job that the sweep of single crashes runs: two buckets, a restart in the middle.
const WHOLE: Script = Script {
    name: "whole",
    turns: &[Turn::Feed(9), Turn::Feed(14), Turn::Feed(1), Turn::Restart, Turn::Feed(7), Turn::Feed(10)],
};

/// The smallest job that commits something on its way: each pair of crashes is tried on it.
const SMALLEST: Script = Script { name: "smallest", turns: &[Turn::Feed(13), Turn::Restart, Turn::Feed(2)] };

/// What survives the first crash, and how often chance is asked.
const MODELS: [(CrashModel, u64); 3] =
    [(CrashModel::LoseUnsynced, 1), (CrashModel::AnySubset, 2), (CrashModel::ProcessOnly, 1)];

/// What a sweep has seen.
#[derive(Default)]
struct Tally {
    cases: usize,
    /// Crashes inside each kind of step.
    inside: BTreeMap<&'static str, usize>,
    /// Crashes whose image holds a half-full row group, a spilled chunk, a pending file and a dead letter.
    all_at_once: usize,
    /// Crashes behind which a checkpoint was there to go on from.
    restored: usize,
}

impl Tally {
    /// Past the capture of the test runner: what was covered is to be seen in every run.
    fn print(&self, what: &str) {
        let mut lines = format!(
            "{what}: {} cases, {} of them restored a checkpoint, {} crossed the restart with a half-full row \
             group, a spilled chunk, a pending file and a dead letter at once\n",
            self.cases, self.restored, self.all_at_once
        );
        for (kind, count) in &self.inside {
            lines += &format!("  {count:6} crashes in {kind}\n");
        }
        std::io::stderr().write_all(lines.as_bytes()).unwrap();
    }
}

#[test]
fn every_record_lands_once_whatever_step_a_crash_hits() {
    let steps = undisturbed(&WHOLE);
    let mut tally = Tally::default();
    for (step, at) in steps.iter().enumerate() {
        // A crash after a step is one before the next. Only writes can be half done.
        let torn = matches!(at.kind, StepKind::Write | StepKind::RegionWrite);
        for how in [How::Before, How::Midway].into_iter().take(1 + usize::from(torn)) {
            for (model, seeds) in MODELS {
                for seed in 0..seeds {
                    one(&WHOLE, &[Crash { step, how, model, seed: seed * 7919 + step as u64 }], &mut tally);
                }
            }
        }
    }
    tally.print("single crashes");
    let kinds: Vec<_> = tally.inside.keys().copied().collect();
    assert_eq!(kinds, step_names(), "each kind of step that a job makes was crashed in");
    assert!(tally.all_at_once > 0, "no restart crossed everything at once");
}

#[test]
fn a_process_that_is_killed_and_loses_power_during_its_recovery_loses_nothing() {
    // P5: what the killed process had written is there at the next start, and not durable.
    let steps = undisturbed(&SMALLEST);
    let mut tally = Tally::default();
    for step in 0..steps.len() {
        let killed = Crash { step, how: How::Before, model: CrashModel::ProcessOnly, seed: 0 };
        for_each_recovery_step(&SMALLEST, killed, &mut |second| {
            one(
                &SMALLEST,
                &[killed, Crash { step: second, model: CrashModel::LoseUnsynced, ..killed }],
                &mut tally,
            );
        });
    }
    tally.print("killed first, lost power later");
}

#[test]
fn every_pair_of_a_crash_and_one_in_the_recovery_from_it_loses_nothing() {
    let steps = undisturbed(&SMALLEST);
    let mut tally = Tally::default();
    for step in 0..steps.len() {
        let (model, _) = MODELS[step % 2];
        let first = Crash { step, how: How::Before, model, seed: step as u64 };
        for_each_recovery_step(&SMALLEST, first, &mut |second| {
            let (model, _) = MODELS[(step + second) % 2];
            one(
                &SMALLEST,
                &[first, Crash { step: second, how: How::Before, model, seed: second as u64 }],
                &mut tally,
            );
        });
    }
    tally.print("pairs");
}

/// Runs the script without a crash; the oracles hold, and the steps come back.
fn undisturbed(script: &Script) -> Vec<alluvium::testing::Step> {
    let mut world = World::new();
    live(&mut world, script).expect("nothing disturbs the job");
    world.check_end("undisturbed");
    world.job_disk().steps()
}

/// Calls `then` with each step from a start after `crash` until its records flow.
fn for_each_recovery_step(script: &Script, crash: Crash, then: &mut dyn FnMut(usize)) {
    let mut world = World::new();
    if !world.crash_once(script, crash) {
        return;
    }
    let until = match live(&mut world, script) {
        Ok(()) => world.steps_until_running(),
        Err(error) => panic!("{}: {error:?}", repeat(script, &[crash])),
    };
    (0..until).for_each(then);
}

/// Lets the script live through `crashes`, one after the other, and then to its end.
fn one(script: &Script, crashes: &[Crash], tally: &mut Tally) {
    let case = repeat(script, crashes);
    let mut world = World::new();
    for crash in crashes {
        let hit = world.crash_once(script, *crash);
        if !hit {
            // The step lies behind the end of this life: nothing was disturbed.
            world.check_end(&case);
            return;
        }
        if let Some(kind) = world.crashed_in(*crash) {
            *tally.inside.entry(kind).or_default() += 1;
        }
        let image = world.look_at_image(&case);
        tally.restored += usize::from(image.restorable);
        tally.all_at_once += usize::from(image.everything_at_once);
        world.check_acknowledged(&case);
    }
    if let Err(error) = live(&mut world, script) {
        panic!("{case}: the job does not go on: {error:?}\n{}", world.job_disk().dump());
    }
    world.check_end(&case);
    tally.cases += 1;
}

fn repeat(script: &Script, crashes: &[Crash]) -> String {
    let crashes: Vec<_> = crashes
        .iter()
        .map(|crash| format!("{} {:?} {:?} {}", crash.step, crash.how, crash.model, crash.seed))
        .collect();
    format!("{}: {}", script.name, crashes.join(" / "))
}
