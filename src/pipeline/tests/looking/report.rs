//! What `inspect` tells is what there is.

use super::*;
use crate::pipeline::CheckpointKind;
use crate::pipeline::inspect;

#[test]
fn a_stopped_job_shows_its_positions_open_files_and_ledger() {
    let disk = lived(&[Turn::Feed(9), Turn::Feed(14), Turn::Restart]);
    let report = inspect(&doors(&disk), Path::new(STATE)).unwrap();
    let job = report.job.unwrap();
    assert_eq!((job.name.as_str(), job.incarnation), ("looked-at", 2));
    assert_eq!(job.starts.last().unwrap().restored, report.checkpoints.last().map(|last| last.epoch));
    assert_eq!(report.checkpoints.last().unwrap().kind, CheckpointKind::Stop);
    let [split] = report.splits.as_slice() else { panic!("{:?}", report.splits) };
    assert_eq!((split.split.as_str(), split.records), ("in/a.ndjson", 23));
    assert_eq!(split.position, disk.read_file("/jobs/in/a.ndjson").unwrap().len() as u64);
    let sink = report.sinks.iter().find(|sink| sink.task == "sink").unwrap();
    assert_eq!(sink.table.as_deref(), Some(Path::new("/jobs/lake/table")));
    assert_eq!(sink.ledger.files as usize, table_files(&disk).len());
    let open: u64 = sink.in_progress.iter().map(|part| part.rows + part.rows_spilled).sum();
    assert_eq!(sink.ledger.rows + open, 19);
    let letters = report.sinks.iter().find(|sink| sink.task == "dead-letters").unwrap();
    let open: u64 = letters.in_progress.iter().map(|part| part.rows + part.rows_spilled).sum();
    assert_eq!(letters.ledger.rows + open, 4);
    assert!(report.log.segments > 0 && report.log.end > report.log.start && report.log.disk_bytes > 0);
}

/// The names of all fields in `value`.
fn names(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(name.clone());
                names(value, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn the_docs_name_every_field_of_the_json_form_and_no_other() {
    let docs = include_str!("../../../../docs/inspect.md");
    let block = docs.split("```").nth(1).unwrap();
    let documented: std::collections::BTreeSet<String> = block
        .lines()
        .skip(1)
        .flat_map(|line| line.trim_start().split("  ").next().unwrap_or_default().split(", "))
        .map(|name| name.trim().trim_end_matches("[]").to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let mut known = std::collections::BTreeSet::new();
    let disk = lived(&[Turn::Feed(9), Turn::Feed(14), Turn::Restart]);
    let report = inspect(&doors(&disk), Path::new(STATE)).unwrap();
    names(&serde_json::to_value(&report).unwrap(), &mut known);
    assert_eq!(documented, known);
}

#[test]
fn a_folder_that_is_no_state_directory_is_refused() {
    let disk = lived(LIFE);
    for path in ["/jobs/lake", "/jobs/none", "/"] {
        let error = inspect(&doors(&disk), Path::new(path)).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Usage, "{path}: {error}");
    }
}
