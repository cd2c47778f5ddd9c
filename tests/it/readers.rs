//! The foreign readers themselves: what they are told to check, they check.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::Int64Array;
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::support;

fn write_part(path: &Path, ids: std::ops::Range<i64>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn foreign_readers_tell_rows_repeats_and_row_groups() {
    let (_guard, folder) = support::folder();
    write_part(&folder.join("hour=2026-01-01T00/a.parquet"), 0..250);
    write_part(&folder.join("hour=2026-01-01T01/b.parquet"), 240..300);
    let Some(found) = support::read_output(&folder, "parquet", "id") else { return };
    assert_eq!(found["rows"], 310);
    assert_eq!(found["distinct"], 300);
    assert_eq!((&found["min"], &found["max"]), (&0.into(), &299.into()));
    assert_eq!(found["parts"][0]["row_groups"], serde_json::json!([100, 100, 50]));
    assert_eq!(found["parts"][0]["page_index"], true);
    assert_eq!(found["columns"]["hour"], "VARCHAR");
}

#[test]
fn foreign_readers_read_text_formats() {
    let (_guard, folder) = support::folder();
    for (format, text) in [("ndjson", "{\"id\":1}\n{\"id\":2}\n"), ("csv", "id\n1\n2\n")] {
        let bucket = folder.join(format).join("day=2026-01-01");
        fs::create_dir_all(&bucket).unwrap();
        fs::write(bucket.join(format!("part.{format}")), text).unwrap();
        let Some(found) = support::read_output(&folder.join(format), format, "id") else { return };
        assert_eq!((&found["rows"], &found["distinct"]), (&2.into(), &2.into()));
    }
}

#[test]
fn the_program_starts() {
    support::alluvium().arg("--version").assert().success();
}

#[test]
fn a_file_that_is_no_part_of_the_table_is_found() {
    let (_guard, folder) = support::folder();
    write_part(&folder.join("hour=1/a.parquet"), 0..10);
    fs::write(folder.join("hour=1/.a.parquet.tmp"), "left behind").unwrap();
    if support::python().is_none() {
        return support::skip("DuckDB and pyarrow are not set up: run scripts/setup-tests");
    }
    let read = std::panic::catch_unwind(|| support::read_output(&folder, "parquet", "id"));
    let message = *read.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(".a.parquet.tmp"), "{message}");
}
