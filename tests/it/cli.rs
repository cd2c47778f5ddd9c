//! The command line: words, exit codes, and a disk that `check` leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use assert_cmd::Command;

fn alluvium() -> Command {
    Command::cargo_bin("alluvium").expect("the program is built with the tests")
}

/// Runs the program in `folder`: exit code, standard output, standard error.
fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = alluvium().current_dir(folder).args(args).env_remove("NO_SUCH_VARIABLE").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("it ends by itself"), text(output.stdout), text(output.stderr))
}

/// All files below `folder` with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn started() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = run(folder.path(), &["new", "clicks"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    folder
}

#[test]
fn a_new_pipeline_passes_its_check() {
    let folder = started();
    let (code, out, err) = run(folder.path(), &["check", "clicks/pipeline.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("Guarantee: exactly once") && out.contains("clicks/out/clicks"), "{out}");
}

#[test]
fn new_overwrites_nothing() {
    let folder = started();
    let before = files(folder.path());
    let (code, _, err) = run(folder.path(), &["new", "clicks"]);
    assert_eq!(code, 2);
    assert!(err.contains("not empty"), "{err}");
    fs::write(folder.path().join("file"), "mine").unwrap();
    assert_eq!(run(folder.path(), &["new", "file"]).0, 2);
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"mine");
    fs::remove_file(folder.path().join("file")).unwrap();
    assert_eq!(files(folder.path()), before);
    for name in ["Clicks", "a b", "..", "/", "none/clicks"] {
        assert_eq!(run(folder.path(), &["new", name]).0, 2, "{name}");
    }
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_wrong_file_is_refused_with_its_place_and_the_disk_is_untouched() {
    let folder = started();
    let file = folder.path().join("clicks/pipeline.toml");
    let right = fs::read_to_string(&file).unwrap();
    for (line, instead, says) in [
        ("partition_by", "partiton_by", "clicks/pipeline.toml:40:1: sink.partiton_by: unknown key"),
        ("ts:%H", "time:%H", "no field `time` reaches the sink"),
        ("\"out/clicks\"", "\"${NO_SUCH_VARIABLE}\"", "NO_SUCH_VARIABLE is not set"),
        ("\"state/clicks\"", "\"out/clicks\"", "the same folder"),
    ] {
        fs::write(&file, right.replacen(line, instead, 1)).unwrap();
        let before = files(folder.path());
        for command in ["check", "run", "verify", "gc"] {
            let (code, out, err) = run(folder.path(), &[command, "clicks/pipeline.toml"]);
            assert_eq!((code, out.as_str()), (2, ""), "{command} {instead}");
            assert!(err.starts_with("error: ") && err.contains(says), "{command}: {err}");
            assert!(err.ends_with("Nothing was changed.\n"), "{command}: {err}");
        }
        assert_eq!(files(folder.path()), before, "{instead}");
    }
}

#[test]
fn what_is_no_pipeline_file_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("latin1.toml"), b"name = \"caf\xe9\"").unwrap();
    fs::write(folder.path().join("empty.toml"), b"").unwrap();
    for (file, says) in [
        ("none.toml", "there is no such file"),
        (".", "is a folder"),
        ("latin1.toml", "byte 11 is not UTF-8"),
        ("empty.toml", "name: this key is missing"),
    ] {
        let (code, _, err) = run(folder.path(), &["check", file]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn check_refuses_a_table_whose_place_is_taken_by_a_file() {
    let folder = started();
    fs::write(folder.path().join("clicks/out"), "mine").unwrap();
    let (code, _, err) = run(folder.path(), &["check", "clicks/pipeline.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("is there and is no folder"), "{err}");
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["run", "check", "inspect", "verify", "gc", "new"] {
        let (code, out, err) = run(folder.path(), &[command, "--help"]);
        assert_eq!((code, err.as_str()), (0, ""), "{command}");
        assert!(out.contains("Examples:") && out.contains(&format!("alluvium {command} ")), "{out}");
        assert_eq!(run(folder.path(), &[command]).0, 2, "{command} without its argument");
    }
    for command in ["verify", "dump", "salvage", "truncate", "bench"] {
        let (code, out, err) = run(folder.path(), &["wal", command, "--help"]);
        assert_eq!((code, err.as_str()), (0, ""), "{command}");
        assert!(out.contains("Examples:") && out.contains(&format!("alluvium wal {command} ")), "{out}");
        assert!(out.contains("Exit codes:"), "{out}");
        assert_eq!(run(folder.path(), &["wal", command]).0, 2, "{command} without its argument");
    }
    assert_eq!(run(folder.path(), &["wal"]).0, 2);
    let (_, out, _) = run(folder.path(), &["run", "--help"]);
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "130 ", "143 "] {
        assert!(out.lines().any(|line| line.trim_start().starts_with(code)), "no exit code {code}");
    }
    assert_eq!(run(folder.path(), &[]).0, 2);
    assert_eq!(run(folder.path(), &["rnu"]).0, 2);
    assert_eq!(run(folder.path(), &["--version"]).0, 0);
}

#[test]
fn the_quick_start_passes_its_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (code, out, err) = run(root, &["check", "fixtures/quickstart.toml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(&format!("{}", root.join("out/clicks").display())), "{out}");
}

#[test]
fn every_example_passes_its_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pipelines");
    let mut count = 0;
    for file in files(&folder).keys() {
        let file = file.to_str().unwrap();
        let (code, _, err) = run(&folder, &["check", file]);
        // Not every example has its input here, and that is all that may be wrong with it.
        let lacks_input = code == 2 && err.lines().count() == 2 && err.contains("matches no file");
        assert!((code, err.as_str()) == (0, "") || lacks_input, "{file}: {err}");
        count += 1;
    }
    assert!(count >= 3);
}
