//! `check` knows what a run would meet, and changes nothing.

use super::*;
use crate::pipeline::Checkup;
use crate::pipeline::StateCheck;
use crate::pipeline::check;

const INPUT: &str = "{\"id\":1,\"kind\":\"a\"}\n{\"id\":2,\"kind\":\"b\"}\nbroken\n{\"id\":3}\n";

/// A disk with an input.
fn with_input(text: &str) -> CrashDisk {
    let disk = CrashDisk::new();
    disk.write_file("/jobs/in/a.ndjson", text).unwrap();
    disk
}

/// The pipeline with `from` replaced by `to`, for an input that ends.
fn changed(from: &str, to: &str) -> Pipeline {
    let text = LOOKED_AT.replace("follow = true\npoll = \"40ms\"\n", "");
    assert!(text.contains(from), "{from}");
    PipelineFile::from_text("/jobs/job.toml", text.replace(from, to)).pipeline(&[("HOME", "/")]).unwrap()
}

fn checked(pipeline: &Pipeline, disk: &CrashDisk) -> Checkup {
    let still = moving(disk, disk, 0);
    let checkup = simulate(async { check(pipeline, &still).await }).unwrap();
    assert_eq!(disk.step_count(), 0, "it changes nothing");
    checkup
}

#[track_caller]
fn refused(pipeline: &Pipeline, disk: &CrashDisk, words: &str) {
    let problems = checked(pipeline, disk).problems;
    assert!(problems.len() == 1 && problems[0].contains(words), "{problems:?}");
}

#[test]
fn the_first_records_go_all_the_way_to_their_buckets() {
    let checkup = checked(&changed("", ""), &with_input(INPUT));
    assert_eq!(checkup.problems, [""; 0]);
    let sample = checkup.sample.unwrap();
    assert_eq!((sample.records, sample.bad, sample.rows, sample.buckets), (4, 1, 3, 3));
    assert!(sample.reasons[0].starts_with("in/a.ndjson, position 40: "), "{:?}", sample.reasons);
    assert_eq!(checkup.input, Some((1, INPUT.len() as u64)));
    assert_eq!(checkup.state, StateCheck::Fresh);
}

#[test]
fn bad_records_are_a_problem_where_a_run_would_stop_at_them() {
    let fail = changed("bad_record = \"dead_letter\"\ndead_letters = \"lake/bad\"\n", "");
    refused(&fail, &with_input(INPUT), "1 of the first 4 records cannot be taken");
}

#[test]
fn a_pattern_without_files_is_a_problem_unless_they_may_still_come() {
    let disk = CrashDisk::new();
    disk.make_dirs("/jobs/in").unwrap();
    refused(&changed("", ""), &disk, "matches no file");
    let checkup = checked(&pipeline(), &disk);
    assert!(checkup.problems.is_empty() && checkup.notes.len() == 1, "{checkup:?}");
}

#[test]
fn a_header_that_lacks_a_column_is_a_problem() {
    let csv = changed("format = \"ndjson\"\n[schema]", "format = \"csv\"\n[schema]");
    refused(&csv, &with_input("id,sort\n1,a\n"), "lacks columns of the schema");
}

#[test]
fn a_guessed_schema_is_printed_and_one_that_cannot_be_guessed_is_a_problem() {
    let guessed = changed("[schema]\nid = \"int64\"\nkind = \"string\"\n", "");
    let checkup = checked(&guessed, &with_input("{\"id\":1,\"kind\":\"a\"}\n"));
    assert_eq!(checkup.inferred.as_deref(), Some("[schema]\nid = \"int64\"\nkind = \"string\"\n"));
    let checkup = checked(&guessed, &with_input("{\"id\":1,\"kind\":null}\n"));
    assert_eq!(checkup.problems.len(), 1, "{checkup:?}");
    let checkup = checked(&guessed, &with_input("{\"id\":1}\n"));
    assert!(checkup.problems[0].contains("no field `kind` reaches the sink"), "{checkup:?}");
}

#[test]
fn a_state_on_a_network_file_system_and_folders_that_are_locked_are_problems() {
    let disk = with_input(INPUT);
    let pipeline = changed("", "");
    let ask = |network, locked: Option<&str>| {
        let (before, after, locked) = (disk.clone(), disk.clone(), locked.map(PathBuf::from));
        let disk = Moving { before, after, at: 0, looks: AtomicUsize::new(0), network, locked };
        simulate(async { check(&pipeline, &doors_to(disk)).await }).unwrap().problems
    };
    assert_eq!(ask(false, None), [""; 0]);
    let problems = ask(true, None);
    assert!(problems.len() == 1 && problems[0].contains("network file system"), "{problems:?}");
    let problems = ask(false, Some("/jobs"));
    assert_eq!(problems.len(), 3, "table, state, dead letters: {problems:?}");
    disk.make_dirs("/jobs/lake/table").unwrap();
    let problems = ask(false, Some("/jobs/lake"));
    assert_eq!(problems.len(), 2, "files wait beside the table: {problems:?}");
}

#[test]
fn what_stands_in_the_way_of_a_folder_is_a_problem() {
    let disk = with_input(INPUT);
    disk.write_file("/jobs/lake/table", b"a file").unwrap();
    let problems = checked(&changed("", ""), &disk).problems;
    assert!(!problems.is_empty() && problems[0].contains("is there and is no folder"), "{problems:?}");
}

#[test]
fn at_any_moment_of_a_job_its_own_pipeline_is_right_and_goes_on_where_it_stands() {
    let mut resumed = 0;
    for number in (0..steps()).step_by(41) {
        let disk = moment(number);
        let checkup = checked(&pipeline(), &disk);
        assert_eq!(checkup.problems, [""; 0], "step {number}");
        if let StateCheck::Resumes { epoch, .. } = checkup.state {
            let newest = crate::pipeline::inspect(&doors(&disk), Path::new(STATE)).unwrap();
            assert_eq!(newest.checkpoints.last().unwrap().epoch, epoch, "step {number}");
            resumed += 1;
        }
    }
    assert!(resumed > 3, "{resumed}");
}
