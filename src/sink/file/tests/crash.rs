//! A small job, crashed at every step, and again while it recovers.
//!
//! Oracles: every row lands once; a file whose commit was reported is still there; nothing is left behind.

use std::collections::BTreeMap;

use super::*;
use crate::format::parquet::Codec;
use crate::testing::CrashModel;
use crate::testing::StepKind;
use crate::testing::is_simulated_crash;

const ROWS: u64 = 66;

/// Small row groups, rolls, and a memory limit that spills between barriers.
fn small() -> FileSinkSettings {
    FileSinkSettings {
        format: PartFormat::Parquet(ParquetSettings {
            row_group_rows: 8,
            compression: Codec::None,
            ..ParquetSettings::default()
        }),
        roll: RollingPolicy { rows_min: Some(20), ..RollingPolicy::at_end() },
        memory_bytes: 6_000,
        ..settings()
    }
}

fn bucket(id: u64) -> String {
    // One bucket fills slowly: its rows wait in the log over many epochs.
    if id.is_multiple_of(7) { "slow".to_owned() } else { format!("b{}", id % 2) }
}

/// Runs the job to its end, or to a crash.
async fn drive(kept: &mut Kept, disk: &CrashDisk, seed: u64) -> Result<()> {
    let mut run = kept.start(&small(), &by_bucket(), &sim_doors(disk, seed)).await?;
    while run.position < ROWS {
        run.write(3, bucket).await?;
        run.write(3, bucket).await?;
        // Every fifth checkpoint is never completed: its files come with the next.
        if run.epoch % 5 == 3 {
            run.pre_commit(BarrierKind::Checkpoint).await?;
        } else {
            run.checkpoint(kept, BarrierKind::Checkpoint).await?;
        }
    }
    run.checkpoint(kept, BarrierKind::End).await?;
    // The ledger's records ride on one more checkpoint.
    run.checkpoint(kept, BarrierKind::End).await?;
    check_ledger(disk, &run.writer);
    run.writer.tidy().await
}

fn check_end(disk: &CrashDisk, context: &str) {
    assert_eq!(all_landed(disk), (0..ROWS).collect(), "{context}");
    let elsewhere: Vec<_> = disk.list_all().into_iter().filter(|path| !path.starts_with("/out/t")).collect();
    assert!(elsewhere.is_empty(), "{context}: {elsewhere:?}");
}

fn check_acknowledged(kept: &Kept, disk: &CrashDisk, context: &str) {
    let there: BTreeSet<PathBuf> = visible(disk).into_iter().collect();
    let lost: Vec<_> = kept.acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{context}: {lost:?} was reported as committed; {}", disk.dump());
}

/// Runs until a crash, and gives the disk that it leaves; `None` when the job ended before.
async fn until_crash(
    kept: &mut Kept,
    disk: &CrashDisk,
    model: CrashModel,
    seed: u64,
    context: &str,
) -> Option<CrashDisk> {
    match drive(kept, disk, seed).await {
        Ok(()) => None,
        Err(error) => {
            assert!(is_simulated_crash(&error), "{context}: {error}");
            let after = disk.after_crash(model, seed);
            check_acknowledged(kept, &after, context);
            Some(after)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_loses_no_row_and_leaves_nothing() {
    let undisturbed = disk();
    drive(&mut Kept::default(), &undisturbed, 0).await.unwrap();
    check_end(&undisturbed, "undisturbed");
    let steps = undisturbed.steps();
    let mut kinds: BTreeMap<StepKind, usize> = BTreeMap::new();
    for step in &steps {
        *kinds.entry(step.kind).or_default() += 1;
    }
    use StepKind::*;
    for kind in [Create, Write, SetLen, Sync, SyncDir, Rename, CreateDir, Remove, RemoveDir] {
        assert!(kinds.contains_key(&kind), "the job has no {kind:?}: {kinds:?}");
    }
    let models = [CrashModel::LoseUnsynced, CrashModel::AnySubset, CrashModel::ProcessOnly];
    let mut crashes = 0;
    // A crash after a step leaves what one before the next step does.
    for (number, step) in steps.iter().enumerate() {
        for midway in [false, true] {
            if midway && step.kind != Write {
                continue;
            }
            for model in models {
                let context = format!("step {number} ({step:?}), midway {midway}, {model:?}");
                let seed = number as u64;
                let disk = disk();
                if midway {
                    disk.crash_midway(number)
                } else {
                    disk.crash_at(number)
                }
                let mut kept = Kept::default();
                let mut disk = until_crash(&mut kept, &disk, model, seed, &context).await.expect("a crash");
                crashes += 1;
                if model == CrashModel::ProcessOnly {
                    // P5: the process is killed first, power is lost later, wherever the next start is then.
                    disk.crash_at(number % 23);
                    let lose = CrashModel::LoseUnsynced;
                    if let Some(after) = until_crash(&mut kept, &disk, lose, seed, &context).await {
                        disk = after;
                        drive(&mut kept, &disk, seed).await.unwrap_or_else(|e| panic!("{context}: {e}"));
                    }
                } else {
                    drive(&mut kept, &disk, seed).await.unwrap_or_else(|e| panic!("{context}: {e}"));
                }
                check_end(&disk, &context);
                check_acknowledged(&kept, &disk, &context);
            }
        }
    }
    println!("{crashes} crashes over {} steps: {kinds:?}", steps.len());
}

#[tokio::test(start_paused = true)]
async fn a_second_crash_during_recovery_loses_no_row() {
    let undisturbed = disk();
    drive(&mut Kept::default(), &undisturbed, 0).await.unwrap();
    let mut crashes = 0;
    // Every fourth step; the recovery's first twelve steps: it rarely has more.
    for step in (0..undisturbed.step_count()).step_by(4) {
        for second in 0..12 {
            let model =
                if (step + second) % 2 == 0 { CrashModel::LoseUnsynced } else { CrashModel::AnySubset };
            let context = format!("steps {step} and {second}, {model:?}");
            let seed = (step * 31 + second) as u64;
            let first = disk();
            first.crash_at(step);
            let mut kept = Kept::default();
            let disk = until_crash(&mut kept, &first, model, seed, &context).await.expect("a crash");
            disk.crash_after(second);
            let Some(disk) = until_crash(&mut kept, &disk, model, seed, &context).await else { continue };
            crashes += 1;
            drive(&mut kept, &disk, seed).await.unwrap_or_else(|e| panic!("{context}: {e}"));
            check_end(&disk, &context);
        }
    }
    assert!(crashes > 100, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn twenty_renames_that_a_crash_interrupts_are_finished_and_done_once() {
    // C2: after rename 1, 7 and 19.
    for done in [1, 7, 19] {
        let disk = disk();
        let mut kept = Kept::default();
        let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
        run.write(40, |id| format!("b{}", id % 20)).await.unwrap();
        let (snapshot, closed) = run.pre_commit(BarrierKind::End).await.unwrap();
        assert_eq!(closed, 20);
        run.complete(&mut kept, snapshot);
        disk.fail(StepKind::Rename, "", done, std::io::ErrorKind::Interrupted, true);
        assert!(run.commit(&mut kept).await.is_err());
        drop(run);
        assert_eq!(visible(&disk).len() as u64, done);
        disk.crash();
        let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
        let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
        assert_eq!(all_landed(&disk), (0..40).collect());
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        check_ledger(&disk, &run.writer);
        drop(run);
        let steps = disk.step_count();
        let run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
        assert_eq!(disk.step_count(), steps, "a second recovery does nothing");
        assert!(run.carried.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_file_whether_the_crash_comes_before_the_rename_after_it_or_after_its_record() {
    // C3
    for place in 0..3 {
        let disk = disk();
        let mut kept = Kept::default();
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        run.write(10, bucket).await.unwrap();
        let (snapshot, _) = run.pre_commit(BarrierKind::End).await.unwrap();
        run.complete(&mut kept, snapshot);
        if place > 0 {
            run.commit(&mut kept).await.unwrap();
        }
        if place > 1 {
            run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        }
        drop(run);
        let disk = disk.after_crash(CrashModel::LoseUnsynced, 0);
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        check_ledger(&disk, &run.writer);
        assert_eq!(visible(&disk).len(), 1);
        assert_eq!(all_landed(&disk), (0..10).collect());
    }
}
