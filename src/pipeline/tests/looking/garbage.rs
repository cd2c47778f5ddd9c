//! `gc` takes what is nobody's, and nothing else (C24).

use super::*;
use crate::pipeline::GarbageCollection;
use crate::pipeline::gc;
use crate::pipeline::inspect;
use crate::sink::file::PartName;
use crate::stream::Incarnation;
use crate::stream::Lineage;

fn collect(disk: &CrashDisk, dry_run: bool) -> GarbageCollection {
    gc(&pipeline(), &doors(disk), dry_run).unwrap()
}

/// A name that the job of `disk` could have given, and its staging folder.
fn a_name(disk: &CrashDisk) -> (PartName, PathBuf) {
    let job = inspect(&doors(disk), Path::new(STATE)).unwrap().job.unwrap();
    let lineage = Lineage(u32::from_str_radix(&job.lineage, 16).unwrap());
    let incarnation = Incarnation(job.incarnation);
    let name = PartName { lineage, incarnation, writer: 0, sequence: 900, extension: "parquet".to_owned() };
    (name, Path::new("/jobs/lake/.table.alluvium").join(&job.lineage))
}

#[test]
fn only_files_of_former_starts_that_no_checkpoint_has_are_removed() {
    let disk = lived(&LIFE[..7]);
    let (name, staging) = a_name(&disk);
    let before = Incarnation(name.incarnation.0 - 1);
    let orphan = staging.join(PartName { incarnation: before, ..name.clone() }.to_string());
    let letters = Path::new("/jobs/lake/.bad.alluvium").join(name.lineage.to_string());
    let letter = letters.join(
        PartName { incarnation: before, writer: 1, extension: "ndjson".into(), ..name.clone() }.to_string(),
    );
    let kept = [
        staging.join(name.to_string()),
        staging
            .join(PartName { incarnation: Incarnation(name.incarnation.0 + 1), ..name.clone() }.to_string()),
        staging.join("notes.txt"),
        staging.join(PartName { incarnation: before, lineage: Lineage(1), ..name.clone() }.to_string()),
        Path::new("/jobs/lake/.table.alluvium/00000001")
            .join(PartName { incarnation: before, lineage: Lineage(1), ..name.clone() }.to_string()),
        Path::new("/jobs/lake/table").join(PartName { incarnation: before, ..name }.to_string()),
    ];
    for path in kept.iter().chain([&orphan, &letter]) {
        disk.write_file(path, b"12345").unwrap();
    }
    let files = disk.list_all();
    let steps = disk.step_count();
    let planned = collect(&disk, true);
    assert_eq!((disk.list_all(), disk.step_count()), (files.clone(), steps), "a dry run changes nothing");
    let done = collect(&disk, false);
    assert_eq!(done, planned);
    assert_eq!(done.files, [(orphan.clone(), 5), (letter.clone(), 5)]);
    let left: Vec<PathBuf> = files.into_iter().filter(|path| ![&orphan, &letter].contains(&path)).collect();
    assert_eq!(disk.list_all(), left);
    assert_eq!(collect(&disk, false).files, []);
}

#[test]
fn what_gc_does_beside_the_job_at_any_moment_takes_nothing_that_is_needed() {
    // Each moment is also a killed job: what is missed shows at the next start.
    let mut removed = 0;
    for number in (0..steps()).step_by(5) {
        let disk = moment(number);
        let Ok(done) = gc(&pipeline(), &doors(&disk), false) else { continue };
        removed += done.files.len();
        assert_eq!(wrong(&disk), [""; 0], "step {number}");
        simulate(live(&disk, &[Turn::Feed(FED), Turn::Drain]));
        let disk = disk.after_crash(CrashModel::ProcessOnly, 0);
        let verified = verified(&disk, VerifySettings::default());
        assert!(verified.is_clean(), "step {number}: {:#?}", verified.findings);
        assert_eq!(verified.committed.rows, FED, "step {number}");
    }
    assert!(removed > 0, "no moment had garbage");
}

#[test]
fn an_empty_staging_folder_goes_unless_the_job_runs() {
    let disk = lived(LIFE);
    let (_, staging) = a_name(&disk);
    assert!(disk.list(Path::new("/jobs/lake")).unwrap().iter().all(|entry| entry.name != ".table.alluvium"));
    disk.make_dirs(&staging).unwrap();
    disk.write_file(staging.join("lock"), b"").unwrap();
    let job = disk.lock(&Path::new(STATE).join("lock")).unwrap().expect("nothing runs");
    assert_eq!(collect(&disk, false).folders, [""; 0].map(PathBuf::from));
    drop(job);
    assert_eq!(collect(&disk, false).folders, [staging]);
    assert!(disk.list(Path::new("/jobs/lake")).unwrap().iter().all(|entry| entry.name != ".table.alluvium"));
}
