//! The quick start of the README does what the README says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use crate::job;
use crate::support;

/// The repository's quick start in a folder of its own.
fn copy() -> (tempfile::TempDir, std::path::PathBuf) {
    let (guard, root) = support::folder();
    let from = support::repository("fixtures");
    for path in job::files(&from) {
        let to = root.join("fixtures").join(path.strip_prefix(&from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
    (guard, root)
}

/// The arguments of the program in the README's first command.
fn first_command() -> Vec<String> {
    let readme = fs::read_to_string(support::repository("README.md")).unwrap();
    let command = readme.lines().map(str::trim).find(|line| line.starts_with("cargo run")).unwrap();
    let (_, arguments) = command.split_once(" -- ").unwrap();
    arguments.split_whitespace().map(str::to_owned).collect()
}

/// Runs that command; what it said.
fn run(root: &Path) -> String {
    let output =
        Command::new(support::program()).current_dir(root).args(first_command()).output().expect("it starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// Files with length and time of the last change.
fn seen(folder: &Path) -> BTreeMap<std::path::PathBuf, (u64, SystemTime)> {
    let look = |path: std::path::PathBuf| {
        let found = fs::metadata(&path).unwrap();
        (path, (found.len(), found.modified().unwrap()))
    };
    job::files(folder).into_iter().map(look).collect()
}

fn rows_by_bucket(table: &Path) -> BTreeMap<String, u64> {
    let mut rows = BTreeMap::new();
    for path in job::files(table) {
        let bucket = path.parent().unwrap().strip_prefix(table).unwrap().display().to_string();
        let file = fs::File::open(&path).unwrap();
        let footer = parquet::file::serialized_reader::SerializedFileReader::new(file).unwrap();
        let counted = parquet::file::reader::FileReader::metadata(&footer).file_metadata().num_rows();
        *rows.entry(bucket).or_default() += counted as u64;
    }
    rows
}

#[test]
fn the_first_command_of_the_readme_lands_the_quick_start() {
    let (_guard, root) = copy();
    run(&root);
    let table = root.join("out/clicks");
    let text = fs::read_to_string(root.join("fixtures/clicks.expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let buckets: BTreeMap<String, u64> = serde_json::from_value(expected["buckets"].clone()).unwrap();
    assert_eq!(rows_by_bucket(&table), buckets);
    assert_eq!(job::files(&table).len(), buckets.len(), "one file in each bucket");
    let broken: usize = job::files(&root.join("out/clicks-bad"))
        .iter()
        .map(|path| fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert_eq!(Value::from(broken), expected["dead_letters"]);
    assert_eq!(job::files(&root.join("out/.clicks.alluvium")).len(), 0, "nothing is left in staging");

    let Some(read) = support::read_output(&table, "parquet", "event_id") else { return };
    assert_eq!((&read["rows"], &read["distinct"]), (&expected["landed"], &expected["landed"]));
    // The README's own query, and the days as columns, with no options.
    let readme = fs::read_to_string(support::repository("README.md")).unwrap();
    let query =
        readme.lines().find_map(|line| line.trim().strip_prefix("duckdb -c ")).unwrap().trim_matches('"');
    let days = job::duckdb(&root, query).unwrap();
    let rows =
        |day: &str| buckets.iter().filter(|(key, _)| key.contains(day)).map(|(_, rows)| rows).sum::<u64>();
    let first = days.iter().find(|day| day[0] == "2026-03-01").unwrap_or_else(|| panic!("{days:?}"));
    assert_eq!(first[1], rows("dt=2026-03-01"));
    let sums = "select sum(price), count(*) filter (hour = 12 and dt = '2026-03-02'), any_value(device.os) \
                from 'out/clicks/**/*.parquet'";
    let sums = &job::duckdb(&root, sums).unwrap()[0];
    assert_eq!(sums[0], expected["price_sum"]);
    assert_eq!(sums[1], buckets["dt=2026-03-02/hour=12"]);
}

#[test]
fn a_second_run_does_nothing_and_a_third_lands_the_new_file_only() {
    let (_guard, root) = copy();
    run(&root);
    let landed = seen(&root.join("out"));
    run(&root);
    assert_eq!(seen(&root.join("out")), landed);

    let line = |id| {
        format!(
            "{{\"event_id\":\"new-{id}\",\"user_id\":1,\"ts\":\"2026-03-02T23:59:00Z\",\"action\":\"view\"}}\n"
        )
    };
    fs::write(root.join("fixtures/clicks/clicks-2026-03-03.ndjson"), (0..10).map(line).collect::<String>())
        .unwrap();
    run(&root);
    let now = seen(&root.join("out"));
    assert!(landed.iter().all(|(path, found)| now.get(path) == Some(found)), "what was landed is left alone");
    assert_eq!(now.len(), landed.len() + 1);
    let rows = rows_by_bucket(&root.join("out/clicks"));
    assert_eq!(rows.values().sum::<u64>(), 3645 + 10);
    let Some(read) = support::read_output(&root.join("out/clicks"), "parquet", "event_id") else { return };
    assert_eq!(read["rows"], read["distinct"]);
    assert_eq!(read["max"], "new-9");
}
