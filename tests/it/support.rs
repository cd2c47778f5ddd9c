//! What the tests share: the program, folders of their own, a reader that is not ours.

use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The program, built with this test.
pub fn alluvium() -> assert_cmd::Command {
    assert_cmd::Command::new(program())
}

/// The path of the program, for tests that stop it halfway.
pub fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("alluvium").into()
}

/// A temporary folder, removed with the value, and its path without links.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let guard = tempfile::tempdir().expect("a temporary folder can be made");
    let path = guard.path().canonicalize().expect("it is there");
    (guard, path)
}

/// A file of the repository, such as `fixtures/clicks/pipeline.toml`.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether this run has to have everything: a missing reader then is a failure.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Says aloud that the part of a test that needs `what` was skipped; in CI it is a failure.
#[track_caller]
pub fn skip(what: &str) {
    assert!(!in_ci(), "{what}, and CI=true asks for all tests");
    // Not `eprintln!`, which is shown only when the test fails.
    writeln!(std::io::stderr(), "SKIPPED at {}: {what}", std::panic::Location::caller())
        .expect("standard error takes a line");
}

/// The Python that has DuckDB and pyarrow: `$ALLUVIUM_TEST_PYTHON`, or what `scripts/setup-tests`
/// installed.
pub fn python() -> Option<PathBuf> {
    let named = std::env::var_os("ALLUVIUM_TEST_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| repository(".venv/bin/python"));
    python.exists().then_some(python)
}

/// What DuckDB and pyarrow both find in the table `folder`, told by `scripts/read_output.py`:
/// `rows`, `files`, `columns`, `parts`, and of the column `id` `distinct`, `nulls`, `min`, `max`.
///
/// Fails when they do not find the same. None, said aloud, where Python is not set up.
#[track_caller]
pub fn read_output(folder: &Path, format: &str, id: &str) -> Option<Value> {
    let Some(python) = python() else {
        skip("DuckDB and pyarrow are not set up: run scripts/setup-tests");
        return None;
    };
    let script = repository("scripts/read_output.py");
    let arguments = ["--format", format, "--id", id];
    let output = Command::new(python).arg(script).arg(folder).args(arguments).output();
    let output = output.expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} cannot be read: {said}", folder.display());
    Some(serde_json::from_slice(&output.stdout).expect("the script prints JSON"))
}
