//! Whatever is done to a file is found.

use super::*;
use crate::pipeline::Wrong;
use crate::sink::file::Damage;
use crate::sink::file::PartName;

fn finding(disk: &CrashDisk, path: &Path) -> Wrong {
    let verified = verified(disk, VerifySettings::default());
    let [finding] = verified.findings.as_slice() else { panic!("{path:?}: {:#?}", verified.findings) };
    assert_eq!(finding.path, path);
    finding.wrong.clone()
}

fn name(path: &Path) -> PartName {
    PartName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap()
}

#[test]
fn a_finished_job_is_found_whole_with_all_its_rows() {
    let disk = lived(LIFE);
    let verified = verified(&disk, VerifySettings::default());
    assert!(verified.is_clean(), "{:#?}", verified.findings);
    assert_eq!(verified.committed.rows, FED, "rows and dead letters");
    assert_eq!(verified.committed.files as usize, table_files(&disk).len() + 1);
    assert_eq!((verified.pending, verified.in_progress), Default::default());
    assert!(verified.notes.is_empty(), "{:?}", verified.notes);
}

#[test]
fn every_change_of_any_committed_file_is_found() {
    let disk = lived(LIFE);
    let copy = || disk.after_crash(CrashModel::ProcessOnly, 0);
    let letters = disk.list_all().into_iter().filter(|path| path.starts_with("/jobs/lake/bad"));
    for path in table_files(&disk).into_iter().chain(letters) {
        let bytes = disk.read_file(&path).unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let changed = copy();
            let mut other = bytes.clone();
            other[at] ^= 1;
            changed.write_file(&path, other).unwrap();
            assert_eq!(finding(&changed, &path), Wrong::Damaged(Damage::Changed), "byte {at}");
        }
        let changed = copy();
        changed.write_file(&path, &bytes[1..]).unwrap();
        let found = bytes.len() as u64 - 1;
        assert_eq!(finding(&changed, &path), Wrong::Damaged(Damage::Short { want: found + 1, found }));
        changed.write_file(&path, [bytes.as_slice(), b"x"].concat()).unwrap();
        let want = bytes.len() as u64;
        assert_eq!(finding(&changed, &path), Wrong::Damaged(Damage::Long { want, found: want + 1 }));
        changed.remove_file(&path).unwrap();
        assert_eq!(finding(&changed, &path), Wrong::Removed);
        changed.create_dir(&path, false).unwrap();
        assert!(matches!(finding(&changed, &path), Wrong::Damaged(_)));
    }
}

#[test]
fn what_the_owner_removed_is_counted_where_that_is_allowed_and_nothing_else_is() {
    let disk = lived(LIFE);
    let files = table_files(&disk);
    disk.remove_file(&files[0]).unwrap();
    disk.write_file(&files[1], b"other").unwrap();
    let verified = verified(&disk, VerifySettings { removed_ok: true });
    assert_eq!(verified.removed.files, 1);
    let paths: Vec<&Path> = verified.findings.iter().map(|finding| finding.path.as_path()).collect();
    assert_eq!(paths, [files[1].as_path()]);
}

#[test]
fn a_file_of_this_job_that_its_state_does_not_know_is_found_and_a_foreign_one_is_not() {
    let disk = lived(LIFE);
    let file = table_files(&disk).remove(0);
    let bytes = disk.read_file(&file).unwrap();
    let unknown = PartName { sequence: 999, ..name(&file) };
    let path = file.with_file_name(unknown.to_string());
    disk.write_file(&path, &bytes).unwrap();
    assert_eq!(finding(&disk, &path), Wrong::Unknown);
    disk.remove_file(&path).unwrap();
    let foreign = PartName { lineage: crate::stream::Lineage(unknown.lineage.0 ^ 1), ..unknown };
    disk.write_file(file.with_file_name(foreign.to_string()), &bytes).unwrap();
    disk.write_file(file.with_file_name("compacted.parquet"), &bytes).unwrap();
    assert_eq!(wrong(&disk), [""; 0]);
}

#[test]
fn a_copy_of_a_committed_file_is_found_since_its_rows_are_read_twice() {
    let disk = lived(LIFE);
    let file = table_files(&disk).remove(0);
    let copy = Path::new("/jobs/lake/table/kind=other").join(file.file_name().unwrap());
    disk.write_file(&copy, disk.read_file(&file).unwrap()).unwrap();
    assert_eq!(finding(&disk, &copy), Wrong::Misplaced { belongs: Some(file) });
}

#[test]
fn a_closed_file_that_is_gone_before_it_was_confirmed_is_a_loss() {
    let (disk, pending) = a_pending_file();
    disk.remove_file(&pending).unwrap();
    assert_eq!(finding(&disk, &pending), Wrong::Lost);
    let verified = verified(&disk, VerifySettings { removed_ok: true });
    assert_eq!(verified.findings.len(), 1, "removing it was nobody's right");
}

/// A disk with a closed file that waits in staging, and the file.
fn a_pending_file() -> (CrashDisk, PathBuf) {
    // The first moment at which a closed file waits in staging, its checkpoint complete.
    (0..steps())
        .step_by(3)
        .map(moment)
        .find_map(|disk| {
            let report = crate::pipeline::inspect(&doors(&disk), Path::new(STATE)).ok()?;
            let sink = report.sinks.into_iter().find(|sink| sink.task == "sink")?;
            let hidden = sink.staging?.join(&sink.pending.first()?.name);
            disk.metadata(&hidden).is_ok().then_some((disk, hidden))
        })
        .expect("a file waits at some moment")
}

#[test]
fn a_loss_that_is_accepted_is_on_record_and_the_job_goes_on_without_it() {
    let (disk, pending) = a_pending_file();
    let pipeline = pipeline();
    let rows =
        disk.remove_file(&pending).map(|()| verified(&disk, VerifySettings::default()).findings[0].rows);
    let run = |accept| {
        simulate(async {
            let job = Job::new(pipeline.clone(), sim_doors(&disk, 7)).with_accept_loss(accept);
            let (_stop, stopping) = watch::channel(StopRequest::Drain);
            job.run(stopping).await
        })
    };
    assert_eq!(run(false).unwrap_err().kind(), crate::error::ErrorKind::Damage);
    assert!(run(true).is_ok());
    assert_eq!(wrong(&disk), [""; 0]);
    let report = crate::pipeline::inspect(&doors(&disk), Path::new(STATE)).unwrap();
    let sink = report.sinks.iter().find(|sink| sink.task == "sink").unwrap();
    assert_eq!(sink.losses.len(), 1);
    assert_eq!(Some(sink.losses[0].rows), rows.unwrap());
    assert!(pending.ends_with(&sink.losses[0].name));
    assert!(run(false).is_ok(), "it is asked about once");
}

/// The steps of docs/recovery.md, "Going back to a backup of the state".
#[test]
fn an_older_state_goes_on_after_the_steps_that_the_docs_tell() {
    let disk = lived(&[Turn::Feed(9), Turn::Feed(14), Turn::Restart]);
    let state = |disk: &CrashDisk| -> Vec<PathBuf> {
        disk.list_all().into_iter().filter(|path| path.starts_with("/jobs/state")).collect()
    };
    let backup: Vec<_> =
        state(&disk).into_iter().map(|path| (path.clone(), disk.read_file(path).unwrap())).collect();
    simulate(live(&disk, &[Turn::Feed(40), Turn::Drain]));
    let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
    for path in state(&disk) {
        disk.remove_file(&path).unwrap();
    }
    for (path, bytes) in backup {
        disk.write_file(path, bytes).unwrap();
    }

    let run = simulate(async {
        let (_stop, stopping) = watch::channel(StopRequest::Drain);
        Job::new(pipeline(), sim_doors(&disk, 8)).run(stopping).await
    });
    let error = run.unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Damage, "{error}");
    let (mut away, mut back) = (0, 0);
    for finding in verified(&disk, VerifySettings::default()).findings {
        match finding.wrong {
            Wrong::Unknown => {
                disk.remove_file(&finding.path).unwrap();
                away += 1;
            }
            Wrong::Misplaced { belongs: Some(belongs) } => {
                disk.make_dirs(belongs.parent().unwrap()).unwrap();
                disk.rename(&finding.path, &belongs).unwrap();
                back += 1;
            }
            // The same file, missed where it was moved from.
            Wrong::Damaged(Damage::Missing | Damage::Foreign) => {}
            other => panic!("{:?}: {other}", finding.path),
        }
    }
    assert!(away > 0 && back > 0, "{away} {back}");
    assert_eq!(wrong(&disk), [""; 0]);
    simulate(live(&disk, &[Turn::Feed(40), Turn::Drain]));
    let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
    let verified = verified(&disk, VerifySettings::default());
    assert!(verified.is_clean(), "{:#?}", verified.findings);
    assert_eq!(verified.committed.rows, 40);
}

#[test]
fn a_file_in_progress_that_lost_acknowledged_bytes_is_found() {
    let disk = lived(&[Turn::Feed(9), Turn::Feed(14)]);
    let hidden: Vec<PathBuf> =
        disk.list_all().into_iter().filter(|path| path.starts_with("/jobs/lake/.table.alluvium")).collect();
    let part =
        hidden.iter().find(|path| disk.read_file(path).unwrap().len() > 50).expect("a row group is written");
    let bytes = disk.read_file(part).unwrap();
    disk.write_file(part, [bytes.as_slice(), b"and a tail that no checkpoint has"].concat()).unwrap();
    assert_eq!(wrong(&disk), [""; 0], "a tail is cut at the next start");
    disk.write_file(part, &bytes[..20]).unwrap();
    assert!(matches!(finding(&disk, part), Wrong::Damaged(Damage::Short { .. })));
    disk.remove_file(part).unwrap();
    assert_eq!(finding(&disk, part), Wrong::Damaged(Damage::Missing));
}

#[test]
fn a_job_without_state_cannot_be_verified() {
    let disk = CrashDisk::new();
    disk.make_dirs("/jobs").unwrap();
    let error =
        simulate(async { verify(&pipeline(), &doors(&disk), VerifySettings::default()).await }).unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Usage);
}

#[test]
fn damage_of_the_log_is_told_as_damage_and_nothing_is_verified_or_removed() {
    let disk = lived(LIFE);
    let segment =
        disk.list_all().into_iter().find(|path| path.extension().is_some_and(|e| e == "wal")).unwrap();
    let mut bytes = disk.read_file(&segment).unwrap();
    bytes[4096 + 200] ^= 1;
    disk.write_file(&segment, bytes).unwrap();
    let verified = simulate(async { verify(&pipeline(), &doors(&disk), VerifySettings::default()).await });
    let inspected = crate::pipeline::inspect(&doors(&disk), Path::new(STATE));
    let collected = crate::pipeline::gc(&pipeline(), &doors(&disk), false);
    for error in [verified.unwrap_err(), inspected.unwrap_err(), collected.unwrap_err()] {
        assert_eq!(error.kind(), crate::error::ErrorKind::Damage, "{error}");
    }
}

/// A run would refuse these, and check does.
#[test]
fn check_misses_a_pending_file_that_is_gone_and_one_that_was_cut() {
    let (disk, pending) = a_pending_file();
    let check = |disk: &CrashDisk| {
        let asked = simulate(async { crate::pipeline::check(&pipeline(), &doors(disk)).await });
        asked.map(|checkup| checkup.problems)
    };
    assert_eq!(check(&disk).unwrap(), [""; 0]);
    let bytes = disk.read_file(&pending).unwrap();
    for cut in [Some(bytes.len() / 2), None] {
        disk.remove_file(&pending).unwrap();
        if let Some(len) = cut {
            disk.write_file(&pending, &bytes[..len]).unwrap();
        }
        let error = check(&disk).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Damage, "{error}");
        assert!(error.to_string().contains(&pending.display().to_string()), "{error}");
    }
}
