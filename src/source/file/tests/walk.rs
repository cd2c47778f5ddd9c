//! Which files a pattern matches.

use super::*;
use crate::ErrorKind;
use crate::source::file::walk::Pattern;

fn matches(disk: &dyn Disk, base: &Path, pattern: &str) -> Vec<String> {
    Pattern::new(base, pattern).unwrap().walk(disk, true).unwrap().into_keys().collect()
}

#[test]
fn patterns_match_as_a_shell_reader_expects() {
    let stage = Stage::new("");
    for name in
        ["a.log", "b.log", "b.txt", ".hidden.log", "x/c.log", "x/y/d.log", "x/y/.z/e.log", "w/[1].log"]
    {
        stage.write(name, "");
    }
    let on = |pattern: &str| matches(&stage.disk, Path::new("/in"), pattern);
    assert_eq!(on("*.log"), ["a.log", "b.log"]);
    assert_eq!(on("./*.log"), ["a.log", "b.log"]);
    assert_eq!(on("a.log"), ["a.log"]);
    assert_eq!(on("[ab].log"), ["a.log", "b.log"]);
    assert_eq!(on("{a.log,b.*}"), ["a.log", "b.log", "b.txt"]);
    assert_eq!(on("*/*.log"), ["w/[1].log", "x/c.log"]);
    assert_eq!(on("x//*/d.log"), ["x/y/d.log"]);
    assert_eq!(on("**/*.log"), ["a.log", "b.log", "w/[1].log", "x/c.log", "x/y/d.log"]);
    assert_eq!(on("x/**/*.log"), ["x/c.log", "x/y/d.log"]);
    assert_eq!(on("{x/y,w}/*.log"), ["w/[1].log", "x/y/d.log"]);
    assert_eq!(on(".*.log"), [".hidden.log"]);
    assert_eq!(on("x/y/.z/*"), ["x/y/.z/e.log"]);
    assert_eq!(on("w/\\[1\\].log"), ["w/[1].log"]);
    assert_eq!(on("x"), Vec::<String>::new(), "a folder is no file");
    assert_eq!(on("/in/x/*.log"), ["/in/x/c.log"]);
    assert_eq!(on("nowhere/*.log"), Vec::<String>::new());
}

#[test]
fn a_pattern_that_cannot_be_understood_is_refused() {
    for pattern in ["", "in/", "{a", "[", "."] {
        let error = crate::Error::from(Pattern::new(Path::new("/in"), pattern).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Usage, "{pattern:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_source_without_files_is_refused_before_anything_else() {
    let stage = Stage::new("sub/*.log");
    let error = stage.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("sub/*.log") && error.to_string().contains("/in/sub"), "{error}");
}

#[test]
fn links_are_followed_and_never_in_a_circle() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("in/x")).unwrap();
    std::fs::write(at("outside.log"), "1\n").unwrap();
    std::fs::write(at("in/x/a.log"), "1\n").unwrap();
    symlink(at("outside.log"), at("in/link.log")).unwrap();
    symlink(at("in"), at("in/x/round")).unwrap();
    let disk = crate::storage::RealDisk::new();
    let base = at("in");
    assert_eq!(matches(&disk, &base, "**/*.log"), ["link.log", "x/a.log"]);

    symlink(at("in/x/a.log"), at("in/x/current.log")).unwrap();
    symlink(at("in/x"), at("in/y")).unwrap();
    assert_eq!(matches(&disk, &base, "**/*.log"), ["link.log", "x/a.log"], "one file is read once");
    assert_eq!(matches(&disk, &base, "x/cur*.log"), ["x/current.log"]);
    assert_eq!(matches(&disk, &base, "y/a.log"), ["y/a.log"]);

    symlink(at("nothing"), at("in/gone.log")).unwrap();
    let pattern = Pattern::new(&base, "*.log").unwrap();
    assert!(pattern.walk(&disk, true).unwrap_err().to_string().contains("gone.log"));
    assert_eq!(pattern.walk(&disk, false).unwrap().len(), 1);
    std::fs::remove_file(at("in/gone.log")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("in/pipe.log"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(pattern.walk(&disk, true).unwrap_err().to_string().contains("no regular file"));
}

#[test]
fn a_name_that_is_not_text_is_refused_only_where_it_matters() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.log")), "").unwrap();
    std::fs::write(folder.path().join("a.txt"), "").unwrap();
    let disk = crate::storage::RealDisk::new();
    assert_eq!(matches(&disk, folder.path(), "*.txt"), ["a.txt"]);
    let error = Pattern::new(folder.path(), "*.log").unwrap().walk(&disk, true).unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}
