//! Claims about whole, undisturbed lives of files.

use super::*;
use crate::pool::Pool;
use crate::testing::CrashModel;
use std::task::Context;
use std::task::Poll;

fn two(id: u64) -> String {
    format!("b{}", id % 2)
}

#[tokio::test(start_paused = true)]
async fn rows_land_in_one_file_for_each_bucket() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    for _ in 0..5 {
        run.write(21, two).await.unwrap();
        assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 0);
        assert!(visible(&disk).is_empty());
    }
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 2);
    let landed = landed(&disk);
    assert_eq!(
        landed.keys().collect::<Vec<_>>(),
        [Path::new("/out/t/bucket=b0"), Path::new("/out/t/bucket=b1")]
    );
    assert_eq!(all_landed(&disk), (0..105).collect());
    check_ledger(&disk, &run.writer);
    run.writer.tidy().await.unwrap();
    use crate::storage::Disk;
    for disk in [disk.clone(), disk.after_crash(CrashModel::LoseUnsynced, 0)] {
        assert_eq!(disk.list(Path::new("/out")).unwrap().len(), 1, "{}", disk.dump());
    }
}

#[tokio::test(start_paused = true)]
async fn row_groups_are_full_however_many_checkpoints_there_are() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    for _ in 0..40 {
        run.write(1, two).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    }
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    let [path] = &visible(&disk)[..] else { panic!("{:?}", visible(&disk)) };
    let bytes = Bytes::from(disk.read_file(path).unwrap());
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    // A nearly full one is encoded at a barrier rather than spilled: 15 of 16 are 90 percent.
    assert_eq!(groups, [15, 15, 10]);
    let keys: Vec<&str> = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    assert!(keys.contains(&"alluvium.positions"), "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_goes_on_over_restarts_and_its_footer_is_at_its_end() {
    // C1: killed while a file is appended to after its third checkpoint.
    let disk = disk();
    let mut kept = Kept::default();
    for start in 0..4 {
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        assert_eq!(run.position, start * 60);
        for part in open_parts(&run.writer.state).unwrap() {
            let file = disk.read_file(run.writer.table.hidden(&part.name)).unwrap();
            assert_eq!(file.len() as u64, part.content.len, "cut to what was recorded");
        }
        for _ in 0..3 {
            run.write(20, two).await.unwrap();
            run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
        run.write(37, two).await.unwrap();
    }
    assert_eq!(staged(&disk).len(), 1);
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 1);
    assert_eq!(all_landed(&disk), (0..240).collect());
    assert_eq!(visible(&disk).len(), 1);
    check_ledger(&disk, &run.writer);
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_files_in_progress_and_spills_what_waits() {
    // C22: a clean stop with open buckets; a restart completes.
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    run.write(50, |id| format!("b{}", id % 8)).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Stop).await.unwrap(), 0);
    let stats = run.writer.stats();
    assert_eq!((stats.open_parts, stats.buffered_rows, stats.spilled_rows), (8, 0, 50));
    drop(run);
    assert!(visible(&disk).is_empty() && staged(&disk).is_empty(), "nothing was full enough for a file");
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    assert_eq!(run.position, 50);
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 8);
    assert_eq!(all_landed(&disk), (0..50).collect());
}

#[tokio::test]
async fn a_barrier_does_not_wait_for_encoders_and_their_rows_are_safe() {
    // The one thread is held until the barrier has decided: no encoder can be done before.
    let disk = disk();
    let doors = Doors { cpu: Pool::threads("test", 1), ..doors(&disk) };
    for restart in [false, true] {
        let mut kept = Kept::default();
        let table = FileSinkSettings { path: format!("/out/t{restart}").into(), ..settings() };
        let mut run = kept.start(&table, &no_buckets(), &doors).await.unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        drop(doors.cpu.run(move || held.recv()));
        run.write(20, two).await.unwrap();
        assert_eq!(run.writer.stats().encoding, 1);
        let (snapshot, _) = {
            let mut barrier = std::pin::pin!(run.pre_commit(BarrierKind::Checkpoint));
            let once = |context: &mut Context<'_>| Poll::Ready(barrier.as_mut().poll(context).is_pending());
            assert!(std::future::poll_fn(once).await, "the rows wait to be spilled");
            release.send(()).unwrap();
            barrier.await.unwrap()
        };
        let stats = run.writer.stats();
        assert_eq!((stats.buffered_rows, stats.spilled_rows), (0, 20), "16 of them are in the encoder");
        run.complete(&mut kept, snapshot);
        if restart {
            drop(run);
            doors.cpu.join().await;
            run = kept.start(&table, &no_buckets(), &doors).await.unwrap();
        }
        run.write(20, two).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 1);
        let part =
            ledger(&run.writer.state).chain(run.carried.iter().cloned().map(Ok)).next().unwrap().unwrap();
        let path = Path::new(&table.path).join(part.name.to_string());
        let ids = ids_of(disk.read_file(&path).unwrap(), &path);
        assert_eq!(ids, (0..40).collect::<Vec<_>>(), "each once, in their order");
    }
}

#[tokio::test(start_paused = true)]
async fn no_rows_make_no_file_and_no_folder() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 0);
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 0);
    run.writer.tidy().await.unwrap();
    assert_eq!(disk.step_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_name_is_ever_used_twice() {
    // C7: over idle buckets and restarts.
    let disk = disk();
    let mut kept = Kept::default();
    let mut names = BTreeSet::new();
    let rolling = FileSinkSettings {
        roll: RollingPolicy { rows_min: Some(1), ..RollingPolicy::at_end() },
        ..settings()
    };
    let mut files = 0;
    for start in 0..5 {
        let mut run = kept.start(&rolling, &by_bucket(), &doors(&disk)).await.unwrap();
        for round in 0..3 {
            run.write(2, |id| format!("b{}", (id + start + round) % 3)).await.unwrap();
            files += run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
        run.write(2, two).await.unwrap();
        run.pre_commit(BarrierKind::Checkpoint).await.unwrap();
    }
    for path in visible(&disk) {
        assert!(names.insert(path.file_name().unwrap().to_owned()), "{path:?}");
    }
    assert_eq!(names.len(), files);
    assert_eq!(all_landed(&disk), (0..30).collect());
}

#[tokio::test(start_paused = true)]
async fn files_of_a_failed_checkpoint_are_published_once_with_the_next() {
    // C8
    let disk = disk();
    let mut kept = Kept::default();
    let rolling = FileSinkSettings {
        roll: RollingPolicy { rows_min: Some(1), ..RollingPolicy::at_end() },
        ..settings()
    };
    let mut run = kept.start(&rolling, &by_bucket(), &doors(&disk)).await.unwrap();
    run.write(4, two).await.unwrap();
    run.pre_commit(BarrierKind::Checkpoint).await.unwrap();
    run.write(4, two).await.unwrap();
    run.pre_commit(BarrierKind::Checkpoint).await.unwrap();
    assert!(visible(&disk).is_empty());
    run.write(4, two).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 6);
    assert_eq!(all_landed(&disk), (0..12).collect());
    assert_eq!(run.commit(&mut kept).await.unwrap(), 0);
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 0);
    check_ledger(&disk, &run.writer);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_writer_removes_nothing() {
    // C11
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(40, two).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    let before = (disk.list_all(), disk.step_count());
    drop(run);
    assert_eq!((disk.list_all(), disk.step_count()), before);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_nobody_writes_to_asks_for_a_barrier_and_is_shown() {
    // C12: ten rows, then silence; inactivity two seconds.
    let disk = disk();
    let mut kept = Kept::default();
    let inactive = FileSinkSettings {
        roll: RollingPolicy {
            inactivity: Some(std::time::Duration::from_secs(2)),
            age: Some(std::time::Duration::from_secs(60)),
            ..RollingPolicy::at_end()
        },
        ..settings()
    };
    let doors = doors(&disk);
    let mut run = kept.start(&inactive, &no_buckets(), &doors).await.unwrap();
    assert_eq!(run.writer.roll_due_in(), None);
    run.write(10, two).await.unwrap();
    doors.clock.sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(run.writer.roll_due_in(), Some(std::time::Duration::from_millis(1_500)));
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 0);
    assert_eq!(run.writer.roll_due_in(), Some(std::time::Duration::from_millis(1_500)));
    drop(run);
    // The age of a file goes on over a restart.
    let mut run = kept.start(&inactive, &no_buckets(), &doors).await.unwrap();
    let due = run.writer.roll_due_in().unwrap();
    assert_eq!(due, std::time::Duration::from_millis(1_500));
    doors.clock.sleep(due).await;
    assert_eq!(run.writer.roll_due_in(), Some(std::time::Duration::ZERO));
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 1);
    assert_eq!(run.writer.roll_due_in(), None);
    assert_eq!(all_landed(&disk), (0..10).collect());
}

#[tokio::test(start_paused = true)]
async fn odd_values_make_one_folder_each_inside_the_table() {
    // C14
    let long = "x".repeat(300);
    let values =
        ["a/b", "a=b", "100%", "é", "日本", " ", "", ".", "..", "../../x", &long, "a\u{1}", "a/", "007", "7"];
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    run.write(values.len() as u64, |id| values[id as usize].to_owned()).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), values.len());
    let landed = landed(&disk);
    assert_eq!(landed.len(), values.len());
    for folder in landed.keys() {
        assert_eq!(folder.parent(), Some(Path::new("/out/t")), "{folder:?}");
    }
    for path in visible(&disk) {
        let bytes = Bytes::from(disk.read_file(&path).unwrap());
        let schema = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().schema().clone();
        let cut = path.to_string_lossy().contains("%2D");
        assert_eq!(schema.field_with_name("bucket").is_ok(), cut, "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn alternating_buckets_make_one_file_each() {
    // C15
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    for _ in 0..100 {
        run.write(2, two).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    }
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 2);
    assert_eq!(all_landed(&disk), (0..200).collect());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_checkpoint_holds_stays_in_its_bucket_of_arrival() {
    // C16: arrival by hour, the restart an hour later.
    let disk = disk();
    let mut kept = Kept::default();
    let doors = doors(&disk);
    let arrival: Arc<dyn BucketAssigner> =
        Arc::new(BucketTemplate::new(&["in={arrival:%H}"], &TimeZone::UTC, &schema()).unwrap());
    let mut run = kept.start(&settings(), &arrival, &doors).await.unwrap();
    run.write(5, two).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    drop(run);
    doors.clock.sleep(std::time::Duration::from_secs(3_600)).await;
    let mut run = kept.start(&settings(), &arrival, &doors).await.unwrap();
    run.write(5, two).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(
        landed(&disk),
        BTreeMap::from([
            (PathBuf::from("/out/t/in=00"), (0..5).collect()),
            (PathBuf::from("/out/t/in=01"), (5..10).collect()),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_begun_under_other_settings_is_finished_under_them() {
    // D15, and C19 between two starts.
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(40, two).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Stop).await.unwrap();
    drop(run);
    let changed = FileSinkSettings {
        format: PartFormat::Parquet(ParquetSettings {
            row_group_rows: 16,
            compression: crate::format::parquet::Codec::Snappy,
            ..ParquetSettings::default()
        }),
        ..settings()
    };
    let mut run = kept.start(&changed, &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(20, two).await.unwrap();
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap(), 1);
    assert_eq!(all_landed(&disk), (0..40).collect());
    assert_eq!(run.checkpoint(&mut kept, BarrierKind::End).await.unwrap(), 1);
    assert_eq!(all_landed(&disk), (0..60).collect());
    check_ledger(&disk, &run.writer);
}

#[tokio::test(start_paused = true)]
async fn lines_land_too() {
    let disk = disk();
    let mut kept = Kept::default();
    let lines = FileSinkSettings { format: PartFormat::Ndjson(LineSettings::default()), ..settings() };
    for _ in 0..3 {
        let mut run = kept.start(&lines, &no_buckets(), &doors(&disk)).await.unwrap();
        run.write(5_000, two).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        run.write(5_000, two).await.unwrap();
    }
    let mut run = kept.start(&lines, &no_buckets(), &doors(&disk)).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(visible(&disk).len(), 1);
    assert_eq!(all_landed(&disk), (0..15_000).collect());
    check_ledger(&disk, &run.writer);
}

#[tokio::test(start_paused = true)]
async fn compressed_lines_are_whole_files_of_several_frames() {
    use std::io::Read;
    for compression in [Compression::Gzip, Compression::Zstd] {
        let disk = disk();
        let mut kept = Kept::default();
        let lines = FileSinkSettings { format: PartFormat::Csv(LineSettings { compression }), ..settings() };
        for _ in 0..2 {
            let mut run = kept.start(&lines, &no_buckets(), &doors(&disk)).await.unwrap();
            run.write(5_000, two).await.unwrap();
            run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        }
        let mut run = kept.start(&lines, &no_buckets(), &doors(&disk)).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        let [path] = &visible(&disk)[..] else { panic!("{:?}", visible(&disk)) };
        let bytes = disk.read_file(path).unwrap();
        let mut text = String::new();
        if compression == Compression::Gzip {
            assert!(path.to_str().unwrap().ends_with(".csv.gz"));
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        } else {
            assert!(path.to_str().unwrap().ends_with(".csv.zst"));
            zstd::Decoder::new(&bytes[..]).unwrap().read_to_string(&mut text).unwrap();
        }
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("id,bucket,text"));
        assert!(lines.eq((0..10_000).map(|id| format!("{id},b{},text of row {id}", id % 2))));
    }
}

#[tokio::test(start_paused = true)]
async fn rows_without_a_bucket_stop_the_job_or_are_handed_out() {
    let disk = disk();
    let null = |id| if id == 1 { "__HIVE_DEFAULT_PARTITION__".to_owned() } else { "b".to_owned() };
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    let error = run.write(3, null).await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Fatal);
    assert!(error.to_string().contains("split at 1: field bucket"), "{error}");
    assert!(run.write(1, null).await.is_err(), "nothing is taken after a failure");

    let reject = FileSinkSettings { unplaced: OnUnplaced::Reject, ..settings() };
    let mut kept = Kept::default();
    let mut run = kept.start(&reject, &by_bucket(), &doors(&disk)).await.unwrap();
    run.write(3, null).await.unwrap();
    let rejected = run.writer.take_rejected();
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].position, 1);
    assert!(String::from_utf8_lossy(&rejected[0].raw).contains("text of row 1"));
    assert!(run.writer.take_rejected().is_empty());
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(all_landed(&disk), BTreeSet::from([0, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_with_nothing_new_appends_nothing_to_the_log() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    run.write(48, |id| format!("b{}", id % 24)).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    let before = run.writer.state.stats().appended_bytes;
    let steps = disk.step_count();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    assert_eq!(run.writer.state.stats().appended_bytes, before);
    assert_eq!(disk.step_count(), steps);
    run.write(1, |_| "b7".to_owned()).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    let one_row = run.writer.state.stats().appended_bytes - before;
    assert!(one_row < 1_500, "{one_row} bytes for one row of one of 24 buckets");
}
