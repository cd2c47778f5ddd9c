//! Claims about disks that fail, and about files that somebody else touched.

use std::io;

use super::*;
use crate::ErrorKind;
use crate::testing::CrashModel;
use crate::testing::StepKind;

fn one(_: u64) -> String {
    "b".to_owned()
}

/// A job whose one file of 40 rows is pending in a completed checkpoint, and not committed.
async fn pending(kept: &mut Kept, disk: &CrashDisk) -> (PathBuf, PathBuf) {
    let mut run = kept.start(&settings(), &no_buckets(), &doors(disk)).await.unwrap();
    run.write(40, one).await.unwrap();
    let (snapshot, closed) = run.pre_commit(BarrierKind::End).await.unwrap();
    assert_eq!(closed, 1);
    run.complete(kept, snapshot);
    let [hidden] = &staged(disk)[..] else { panic!("{:?}", staged(disk)) };
    (hidden.clone(), Path::new("/out/t").join(hidden.file_name().unwrap()))
}

async fn refused(kept: &mut Kept, disk: &CrashDisk) -> crate::Error {
    let steps = disk.step_count();
    let error = kept.start(&settings(), &no_buckets(), &doors(disk)).await.err().expect("refused");
    let locks = disk.steps()[steps..].iter().filter(|step| step.path.ends_with("lock")).count();
    assert_eq!(disk.step_count() - steps, locks, "nothing but the lock was touched");
    error
}

#[tokio::test(start_paused = true)]
async fn a_pending_file_that_is_gone_is_a_loud_error_or_a_recorded_loss() {
    // C4
    let disk = disk();
    let mut kept = Kept::default();
    let (hidden, _) = pending(&mut kept, &disk).await;
    use crate::storage::Disk;
    disk.remove_file(&hidden).unwrap();
    let error = refused(&mut kept, &disk).await;
    assert_eq!(error.kind(), ErrorKind::Damage);
    let name = hidden.file_name().unwrap().to_str().unwrap();
    for word in [name, "epoch 1", "40 rows", "--accept-loss"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }

    let accept = FileSinkSettings { accept_loss: true, ..settings() };
    let mut run = kept.start(&accept, &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(5, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(all_landed(&disk), (40..45).collect());
    let lost: Vec<_> = losses(&run.writer.state).map(|part| part.unwrap()).collect();
    assert_eq!((lost.len(), lost[0].content.rows, lost[0].name.to_string().as_str()), (1, 40, name));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_file_under_the_targets_name_is_never_overwritten() {
    // C5
    let disk = disk();
    let mut kept = Kept::default();
    let (hidden, target) = pending(&mut kept, &disk).await;
    let foreign = vec![7; disk.read_file(&hidden).unwrap().len()];
    disk.write_file(&target, &foreign).unwrap();
    let error = refused(&mut kept, &disk).await;
    assert_eq!(error.kind(), ErrorKind::Damage);
    assert!(error.to_string().contains("taken by another file"), "{error}");
    assert_eq!(disk.read_file(&target).unwrap(), foreign);
    assert!(!staged(&disk).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_file_that_comes_before_the_commit_is_never_overwritten() {
    for links in [false, true] {
        let disk = disk();
        if links {
            disk.fail(StepKind::Rename, "", 0, io::ErrorKind::Unsupported, true);
        }
        let mut kept = Kept::default();
        let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
        run.write(40, |id| format!("b{}", id % 3)).await.unwrap();
        let (snapshot, _) = run.pre_commit(BarrierKind::End).await.unwrap();
        run.complete(&mut kept, snapshot);
        let taken = run.carried[1].clone();
        let target = taken.bucket.folder(Path::new("/out/t")).join(taken.name.to_string());
        disk.write_file(&target, b"foreign").unwrap();
        let error = run.commit(&mut kept).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damage, "{error}");
        assert_eq!(disk.read_file(&target).unwrap(), b"foreign");
        assert_eq!(visible(&disk).len(), 3, "the others still happen");
        assert_eq!(staged(&disk).len(), 1);
        // Once it is moved away, the next start commits the rest and finds the others done.
        use crate::storage::Disk;
        disk.remove_file(&target).unwrap();
        drop(run);
        let mut run = kept.start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        assert_eq!(all_landed(&disk), (0..40).collect());
        assert!(staged(&disk).is_empty());
        check_ledger(&disk, &run.writer);
    }
}

#[tokio::test(start_paused = true)]
async fn our_own_file_under_the_targets_name_is_done() {
    // C5, by identical content of ours: a copy that nobody synced, as a restored backup makes it.
    let disk = disk();
    let mut kept = Kept::default();
    let (hidden, target) = pending(&mut kept, &disk).await;
    use crate::storage::Disk;
    use crate::storage::OpenMode;
    disk.make_dirs("/out/t").unwrap();
    let copy = disk.open(&target, OpenMode::CreateNew { private: false }).unwrap();
    copy.write_at(0, &disk.read_file(&hidden).unwrap()).unwrap();
    disk.remove_file(&hidden).unwrap();
    let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    check_ledger(&disk, &run.writer);
    let disk = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert_eq!(all_landed(&disk), (0..40).collect(), "it was synced before it counted (P4)");
}

#[tokio::test(start_paused = true)]
async fn the_link_fallback_ends_with_one_name_wherever_it_is_interrupted() {
    // P9. The steps of a commit, one file: link, folder, unlink, folder.
    let mut crashed = 0;
    for step in 0..30 {
        for model in [CrashModel::LoseUnsynced, CrashModel::ProcessOnly, CrashModel::AnySubset] {
            let disk = disk();
            let mut kept = Kept::default();
            pending(&mut kept, &disk).await;
            disk.fail(StepKind::Rename, "", 0, io::ErrorKind::Unsupported, true);
            disk.crash_after(disk.step_count() + step);
            let first = kept.start(&settings(), &no_buckets(), &doors(&disk)).await;
            if first.is_ok() {
                continue;
            }
            crashed += 1;
            let disk = disk.after_crash(model, step as u64);
            disk.fail(StepKind::Rename, "", 0, io::ErrorKind::Unsupported, true);
            let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
            run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
            assert!(staged(&disk).is_empty(), "step {step}: {}", disk.dump());
            check_ledger(&disk, &run.writer);
            let disk = disk.after_crash(CrashModel::LoseUnsynced, 0);
            assert_eq!(all_landed(&disk), (0..40).collect());
        }
    }
    assert!(crashed >= 3 * 5, "{crashed}");
}

#[tokio::test(start_paused = true)]
async fn a_file_system_that_can_neither_rename_nor_link_is_a_clear_error() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(4, one).await.unwrap();
    disk.fail(StepKind::Rename, "", 0, io::ErrorKind::Unsupported, true);
    disk.fail(StepKind::Link, "", 0, io::ErrorKind::Unsupported, true);
    let error = run.checkpoint(&mut kept, BarrierKind::End).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_rename_whose_answer_was_lost_is_believed_only_after_looking() {
    let disk = disk();
    let mut kept = Kept::default();
    let (hidden, target) = pending(&mut kept, &disk).await;
    // It happened, and the answer is an error.
    use crate::storage::Disk;
    disk.make_dirs("/out/t").unwrap();
    disk.rename(&hidden, &target).unwrap();
    disk.fail(StepKind::Rename, "", 0, io::ErrorKind::TimedOut, false);
    let run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    assert_eq!(all_landed(&disk), (0..40).collect());
    drop(run);
    // It did not happen: the error is the caller's to retry, nothing is lost.
    let other = CrashDisk::new();
    let mut kept = Kept::default();
    pending(&mut kept, &other).await;
    other.fail(StepKind::Rename, "", 0, io::ErrorKind::TimedOut, false);
    let error = kept.start(&settings(), &no_buckets(), &doors(&other)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Retry);
    kept.start(&settings(), &no_buckets(), &doors(&other)).await.unwrap();
    assert_eq!(all_landed(&other), (0..40).collect());
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_fails_the_task_and_nothing_is_carried() {
    // P7
    for fault in [StepKind::Sync, StepKind::SyncDir] {
        let disk = disk();
        let mut kept = Kept::default();
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        run.write(20, one).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        run.write(20, one).await.unwrap();
        disk.fail(fault, "1234abcd", 0, io::ErrorKind::Other, false);
        let what = if fault == StepKind::Sync { BarrierKind::Checkpoint } else { BarrierKind::End };
        let failed = match run.pre_commit(what).await {
            Ok((snapshot, _)) => {
                // The folder's sync is part of the commit then.
                run.complete(&mut kept, snapshot);
                run.commit(&mut kept).await.map(drop)
            }
            Err(error) => Err(error),
        };
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Retry);
        if fault == StepKind::Sync {
            let later = run.write(20, one).await.unwrap_err();
            assert_eq!(later.kind(), ErrorKind::Retry, "no later barrier covers up for it");
            assert!(run.pre_commit(BarrierKind::Checkpoint).await.is_err());
        }
        drop(run);
        let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        let left = 60 - run.position;
        run.write(left, one).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
        assert_eq!(all_landed(&disk), (0..60).collect());
        // Entries of a folder whose sync failed are beyond help on this disk (S4): real ones turn read-only.
        if fault == StepKind::Sync {
            let disk = disk.after_crash(CrashModel::LoseUnsynced, 0);
            assert_eq!(all_landed(&disk), (0..60).collect());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_barrier_is_not_durable_when_an_earlier_one_is_not() {
    // P7: nobody waited for the first barrier, whose sync failed; the second one grew another file.
    let disk = disk();
    let mut run = Kept::default().start(&settings(), &by_bucket(), &doors(&disk)).await.unwrap();
    let mut barriers = Vec::new();
    for (epoch, bucket) in ["a", "b"].into_iter().enumerate() {
        run.write(16, |_| bucket.to_owned()).await.unwrap();
        if epoch == 0 {
            disk.fail(StepKind::Sync, "part-", 0, io::ErrorKind::Other, false);
        }
        let barrier = Barrier { epoch: Epoch(epoch as u64 + 1), kind: BarrierKind::Checkpoint };
        barriers.push(run.writer.pre_commit(barrier).await.unwrap());
    }
    let second = barriers.pop().unwrap();
    drop(barriers);
    assert_eq!(second.durable.await.unwrap_err().kind(), ErrorKind::Retry);
    assert!(run.write(1, one).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_fails_the_task_and_leaves_the_recorded_length() {
    // P7, P8
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(20, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    let recorded = disk.read_file(&staged(&disk)[0]).unwrap();
    disk.fail(StepKind::Write, "part-", 0, io::ErrorKind::Other, false);
    let error = run.write(40, one).await.err();
    let error = match error {
        Some(error) => error,
        None => run.pre_commit(BarrierKind::Checkpoint).await.unwrap_err(),
    };
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert_eq!(disk.read_file(&staged(&disk)[0]).unwrap(), recorded);
    assert!(run.write(1, one).await.is_err());
    drop(run);
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(40, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(all_landed(&disk), (0..60).collect());
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for() {
    // C20, the target's side.
    let disk = disk();
    let mut kept = Kept::default();
    let doors = doors(&disk);
    let mut run = kept.start(&settings(), &no_buckets(), &doors).await.unwrap();
    run.write(20, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    disk.set_capacity(Some(disk.used() + 100));
    let room = {
        let (disk, clock) = (disk.clone(), Arc::clone(&doors.clock));
        async move {
            clock.sleep(std::time::Duration::from_secs(10)).await;
            disk.set_capacity(None);
        }
    };
    let landing = async {
        run.write(40, one).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    };
    let before = doors.clock.monotonic();
    futures::join!(landing, room);
    assert!(doors.clock.monotonic() - before >= std::time::Duration::from_secs(10));
    assert_eq!(all_landed(&disk), (0..60).collect());
    check_ledger(&disk, &run.writer);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_stays_full_fails_the_attempt_and_loses_nothing() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(20, one).await.unwrap();
    disk.set_capacity(Some(disk.used()));
    let error = run.checkpoint(&mut kept, BarrierKind::End).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("no room"), "{error}");
    drop(run);
    disk.set_capacity(None);
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(20, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    assert_eq!(all_landed(&disk), (0..20).collect());
}

#[tokio::test(start_paused = true)]
async fn a_full_log_is_waited_for() {
    let disk = disk();
    let mut kept = Kept::default();
    let doors = doors(&disk);
    let mut run = kept.start(&settings(), &no_buckets(), &doors).await.unwrap();
    run.write(5, one).await.unwrap();
    kept.journal.set_full(true);
    let room = {
        let (journal, clock) = (kept.journal.clone(), Arc::clone(&doors.clock));
        async move {
            clock.sleep(std::time::Duration::from_secs(10)).await;
            journal.set_full(false);
        }
    };
    let landing = async { run.checkpoint(&mut kept, BarrierKind::End).await.unwrap() };
    assert_eq!(futures::join!(landing, room).0, 1);
    assert_eq!(all_landed(&disk), (0..5).collect());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_as_recorded_is_refused_before_anything_changes() {
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let damage: [(&str, Damage); 3] = [
        ("were acknowledged", |mut bytes| {
            bytes.truncate(bytes.len() / 2);
            bytes
        }),
        ("not those that were written", |mut bytes| {
            bytes[10] ^= 1;
            bytes
        }),
        ("not those that were written", |bytes| vec![0; bytes.len() + 100]),
    ];
    for (words, damage) in damage {
        let disk = disk();
        let mut kept = Kept::default();
        let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
        run.write(40, one).await.unwrap();
        run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
        drop(run);
        let path = staged(&disk)[0].clone();
        disk.write_file(&path, damage(disk.read_file(&path).unwrap())).unwrap();
        let error = refused(&mut kept, &disk).await;
        assert_eq!(error.kind(), ErrorKind::Damage);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_committed_file_that_the_state_does_not_know_is_damage() {
    // D22: the state lost an epoch that was acknowledged.
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(40, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    drop(run);
    let mut older = Kept { incarnation: 5, ..Kept::default() };
    let error = refused(&mut older, &disk).await;
    assert_eq!(error.kind(), ErrorKind::Damage);
    assert!(error.to_string().contains("does not know"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn files_of_others_are_left_alone() {
    let disk = disk();
    let staging = "/out/.t.alluvium/1234abcd";
    let theirs = [
        "/out/.t.alluvium/ffffffff/part-ffffffff-1-0-1.parquet".to_owned(),
        format!("{staging}/part-ffffffff-1-0-1.parquet"),
        format!("{staging}/part-1234abcd-1-7-1.parquet"),
        format!("{staging}/part-1234abcd-9-0-1.parquet"),
        format!("{staging}/notes.txt"),
        "/out/t/part-ffffffff-1-0-1.parquet".to_owned(),
        "/out/t/b/other.parquet".to_owned(),
    ];
    for path in &theirs {
        disk.write_file(path, b"x").unwrap();
    }
    let ours = format!("{staging}/part-1234abcd-2-0-1.parquet");
    disk.write_file(&ours, b"x").unwrap();
    let mut kept = Kept { incarnation: 4, ..Kept::default() };
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    assert!(disk.read_file(&ours).is_err(), "of a lower incarnation, named by no checkpoint");
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    assert!(after.read_file(&ours).is_err(), "durably so");
    run.checkpoint(&mut kept, BarrierKind::End).await.unwrap();
    run.writer.tidy().await.unwrap();
    for path in &theirs {
        assert!(disk.read_file(path).is_ok(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_of_one_lineage_notice_each_other() {
    // P10, the second lock.
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(40, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    let error = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(run);
    kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_state_of_another_table_is_refused() {
    let disk = disk();
    let mut kept = Kept::default();
    let mut run = kept.start(&settings(), &no_buckets(), &doors(&disk)).await.unwrap();
    run.write(4, one).await.unwrap();
    run.checkpoint(&mut kept, BarrierKind::Checkpoint).await.unwrap();
    drop(run);
    let other = FileSinkSettings { path: "/out/other".into(), ..settings() };
    let error = kept.start(&other, &no_buckets(), &doors(&disk)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("/out/t"), "{error}");
}
