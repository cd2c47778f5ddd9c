//! Jobs that a seed makes up: settings, batches, barriers, restarts, crashes, changed settings.

use super::*;
use crate::format::parquet::Codec;
use crate::pool::Pool;
use crate::testing::CrashModel;
use crate::testing::SeededRandom;
use crate::testing::StepKind;
use crate::testing::is_simulated_crash;

const ROWS: u64 = 300;

fn any_settings(random: &SeededRandom) -> FileSinkSettings {
    let compression = [Codec::None, Codec::Snappy][random.below(2) as usize];
    let row_group_rows = 1 + random.below(40);
    let lines = [Compression::None, Compression::Gzip, Compression::Zstd][random.below(3) as usize];
    FileSinkSettings {
        format: match random.below(4) {
            0 if lines == Compression::None => PartFormat::Ndjson(LineSettings { compression: lines }),
            _ => PartFormat::Parquet(ParquetSettings {
                row_group_rows,
                compression,
                ..ParquetSettings::default()
            }),
        },
        roll: RollingPolicy {
            rows_min: random.chance(1, 2).then(|| 1 + random.below(80)),
            bytes_min: random.chance(1, 3).then(|| 1 + random.below(6_000)),
            ..RollingPolicy::at_end()
        },
        memory_bytes: 1 + random.below(20_000),
        row_group_bytes: 1 + random.below(30_000),
        descriptors_max: 1 + usize::try_from(random.below(4)).unwrap(),
        ..settings()
    }
}

/// Runs a start of the job; true when the input ended.
async fn drive(
    kept: &mut Kept,
    disk: &CrashDisk,
    settings: &FileSinkSettings,
    random: &SeededRandom,
    calm: bool,
) -> Result<bool> {
    let buckets = 1 + random.below(9);
    let mut doors = sim_doors(disk, random.below(1 << 40));
    if random.chance(1, 3) {
        // Encoders that are at work when a barrier comes.
        doors.cpu = Pool::threads("test", 1 + usize::try_from(random.below(2)).unwrap());
    }
    let mut run = kept.start(settings, &by_bucket(), &doors).await?;
    while run.position < ROWS {
        let rows = (1 + random.below(30)).min(ROWS - run.position);
        let skew = random.below(5);
        run.write(rows, |id| format!("b{}", (id * skew + id / 3) % buckets)).await?;
        match random.below(8) {
            0 | 1 => drop(run.checkpoint(kept, BarrierKind::Checkpoint).await?),
            2 => drop(run.pre_commit(BarrierKind::Checkpoint).await?),
            // A completed checkpoint whose commit is left to the next start.
            3 if !calm => {
                let (snapshot, _) = run.pre_commit(BarrierKind::Checkpoint).await?;
                run.complete(kept, snapshot);
                return Ok(false);
            }
            4 if !calm => {
                run.checkpoint(kept, BarrierKind::Stop).await?;
                return Ok(false);
            }
            5 if !calm && random.chance(1, 3) => return Ok(false),
            _ => {}
        }
    }
    run.checkpoint(kept, BarrierKind::End).await?;
    run.checkpoint(kept, BarrierKind::End).await?;
    check_ledger(disk, &run.writer);
    run.writer.tidy().await?;
    Ok(true)
}

#[tokio::test(start_paused = true)]
async fn any_job_lands_every_row_once() {
    let (mut crashes, mut starts) = (0, 0);
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let mut kept = Kept::default();
        let mut disk = disk();
        let mut settings = any_settings(&random);
        for start in 0.. {
            let calm = start > 6;
            starts += 1;
            if random.chance(1, 4) {
                disk.fail(StepKind::Rename, "", 0, std::io::ErrorKind::Unsupported, true);
            }
            if !calm && random.chance(2, 3) {
                disk.crash_at(disk.step_count() + random.below(70) as usize);
            }
            match drive(&mut kept, &disk, &settings, &random, calm).await {
                Ok(true) => break,
                Ok(false) => disk = disk.after_crash(CrashModel::ProcessOnly, seed),
                Err(error) => {
                    assert!(is_simulated_crash(&error), "seed {seed}: {error}");
                    crashes += 1;
                    let models = [CrashModel::LoseUnsynced, CrashModel::AnySubset, CrashModel::ProcessOnly];
                    disk = disk.after_crash(models[random.below(3) as usize], random.below(1 << 40));
                }
            }
            let there: BTreeSet<PathBuf> = visible(&disk).into_iter().collect();
            assert!(kept.acknowledged.is_subset(&there), "seed {seed}");
            if random.chance(1, 3) {
                settings = any_settings(&random);
            }
        }
        assert_eq!(all_landed(&disk), (0..ROWS).collect(), "seed {seed}");
        assert!(
            disk.list_all().iter().all(|path| path.starts_with("/out/t")),
            "seed {seed}: {}",
            disk.dump()
        );
    }
    assert!(crashes > 40, "{crashes} crashes in {starts} starts");
}
