//! A file that is not the one that was read, or that cannot be read.

use std::io;

use super::*;
use crate::ErrorKind;
use crate::testing::StepKind;

/// A source that was stopped with `a.log` half read (by a checkpoint in the middle).
async fn half_read(content: &str) -> Stage {
    let mut stage = Stage::new("*.log");
    stage.settings.chunk_bytes = 16;
    stage.write("a.log", content);
    let mut source = stage.open().await.unwrap();
    source.next().await.unwrap();
    stage.checkpoint(&mut source);
    stage
}

async fn refusal(stage: &Stage) -> String {
    let error = stage.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damage, "{error}");
    assert!(error.to_string().contains("/in/a.log"), "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_file_that_shrank_is_refused() {
    let stage = half_read("one\ntwo\nthree\nfour\nfive\n").await;
    stage.cut("a.log", 5);
    assert!(refusal(&stage).await.contains("has 5 bytes, but was read up to position 14"));
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_file_that_was_replaced_is_refused() {
    let stage = half_read("one\ntwo\nthree\nfour\nfive\n").await;
    stage.write("a.log", "eins\nzwei\ndrei\nvier\n");
    assert!(refusal(&stage).await.contains("not the file that was read up to position 14"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_differs_only_beyond_its_first_kilobyte_is_refused() {
    let head = "the same beginning\n".repeat(100);
    let mut stage = Stage::new("*.log");
    stage.write("a.log", format!("{head}one\n"));
    stage.run().await.unwrap();
    stage.write("a.log", format!("{head}two\nthree\n"));
    refusal(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_file_that_vanished_is_refused_with_the_remedy() {
    let mut stage = half_read("one\ntwo\nthree\nfour\nfive\n").await;
    stage.remove("a.log");
    assert!(refusal(&stage).await.contains("put it back"));
    stage.write("a.log", "one\ntwo\nthree\nfour\nfive\n");
    assert_eq!(lines(&stage.run().await.unwrap()), ["four", "five"]);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_file_that_was_renamed_is_read_to_its_end() {
    let mut stage = half_read("one\ntwo\nthree\nfour\nfive\n").await;
    stage.rename("a.log", "a.log.1");
    stage.write("a.log", "six\n");
    let got = stage.run().await.unwrap();
    let got: Vec<_> = got.iter().map(|got| (got.split.as_str(), got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("a.log#2", "six"), ("a.log", "four"), ("a.log", "five")]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_file_may_vanish_and_its_name_be_used_again() {
    let mut stage = Stage::new("*.log");
    stage.write("a.log", "1\n");
    stage.run().await.unwrap();
    stage.remove("a.log");
    assert_eq!(stage.run().await.unwrap(), []);
    stage.write("a.log", "2\n");
    let got = stage.run().await.unwrap();
    assert_eq!(got, [Got { split: "a.log#2".to_owned(), position: 0, line: Ok("2".to_owned()) }]);
    assert_eq!(stage.run().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_finished_file_that_was_replaced_is_refused() {
    let mut stage = Stage::new("*.log");
    stage.write("a.log", "1\n2\n");
    stage.run().await.unwrap();
    stage.write("a.log", "8\n9\n");
    refusal(&stage).await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_lands_new_files_and_new_lines() {
    let mut stage = Stage::new("*.log");
    stage.write("a.log", "1\n");
    stage.write("b.log", "2\n");
    assert_eq!(lines(&stage.run().await.unwrap()), ["1", "2"]);
    stage.append("a.log", "3\n");
    stage.write("c.log", "4\n");
    assert_eq!(lines(&stage.run().await.unwrap()), ["3", "4"]);
    assert_eq!(stage.run().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_grew_behind_a_last_line_without_end_is_refused() {
    let mut stage = Stage::new("*.log");
    stage.write("a.log", "1\n{\"half\":");
    assert_eq!(lines(&stage.run().await.unwrap()), ["1", "{\"half\":"]);
    assert_eq!(stage.run().await.unwrap(), []);
    stage.append("a.log", "true}\n");
    assert!(refusal(&stage).await.contains("grown beyond position 10"));
    stage.settings.follow = true;
    refusal(&stage).await;
    stage.cut("a.log", 10);
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.append("a.log", "true}\n");
    assert_eq!(until_quiet(&mut source).await.unwrap_err().kind(), ErrorKind::Damage);
}

#[tokio::test(start_paused = true)]
async fn a_compressed_file_that_grew_behind_a_last_line_without_end_is_refused() {
    let mut stage = Stage::new("*.gz");
    stage.write("a.log.gz", gz(&[b"1\n2"]));
    assert_eq!(lines(&stage.run().await.unwrap()), ["1", "2"]);
    stage.write("a.log.gz", gz(&[b"1\n2", b"3\n"]));
    assert!(stage.run().await.unwrap_err().to_string().contains("grown beyond position 3"));
}

#[tokio::test(start_paused = true)]
async fn a_compressed_file_is_replaced_by_its_content_and_not_by_its_packing() {
    let mut stage = Stage::new("*.gz");
    stage.write("a.log.gz", gz(&[b"1\n2\n"]));
    stage.run().await.unwrap();
    stage.write("a.log.gz", gz(&[b"1\n", b"2\n"]));
    assert_eq!(stage.run().await.unwrap(), []);
    stage.write("a.log.gz", gz(&[b"1\n", b"2\n", b"3\n"]));
    assert_eq!(lines(&stage.run().await.unwrap()), ["3"]);
    stage.write("a.log.gz", gz(&[b"7\n2\n3\n"]));
    refusal(&stage).await;
    stage.write("a.log.gz", gz(&[b"1\n2\n4\n9\n"]));
    assert_eq!(stage.run().await.unwrap_err().kind(), ErrorKind::Damage);
}

#[tokio::test(start_paused = true)]
async fn a_compressed_file_that_is_cut_short_is_an_error_and_no_end() {
    for (name, packed) in [("a.gz", gz(&[&[b'x'; 3000], b"\nend\n"])), ("a.zst", zst(&[b"1\n", b"2\n3\n"]))] {
        let mut stage = Stage::new("a.*");
        stage.write(name, packed.get(..packed.len() - 2).unwrap());
        let error = stage.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("ends in the middle"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_compressed_file_is_an_error_that_names_it() {
    for (name, mut packed) in [("a.gz", gz(&[&[b'x'; 3000]])), ("a.zst", zst(&[b"1\n2\n3\n"]))] {
        let at = packed.len() - 6;
        packed[at] ^= 0x55;
        packed[2] ^= 0xff;
        let mut stage = Stage::new("a.*");
        stage.write(name, packed);
        let error = stage.run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal, "{error}");
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_disk_is_no_end_of_input() {
    for (name, content) in
        [("a.log", b"1\n2\n".to_vec()), ("a.gz", gz(&[b"1\n2\n"])), ("a.zst", zst(&[b"1\n"]))]
    {
        let mut stage = Stage::new("a.*");
        stage.write(name, content);
        let mut source = stage.open().await.unwrap();
        stage.disk.fail(StepKind::Read, name, 0, io::ErrorKind::TimedOut, true);
        let error = to_end(&mut source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        stage.disk.heal();
        assert!(!stage.run().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    std::fs::write(&path, "1\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    let settings = FileSettings::new(folder.path(), "*.log");
    let format = Arc::new(Lines { header: false });
    let mut source = FileSource::open(settings, format, None, state(), Doors::real()).await.unwrap();
    let error = to_end(&mut source).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    assert!(error.to_string().contains("a.log"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn positions_are_readable_without_the_source() {
    let stage = half_read("one\ntwo\nthree\nfour\nfive\n").await;
    let source = stage.open().await.unwrap();
    let found = remembered(&source);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].split.as_str(), found[0].path.as_str()), ("a.log", "a.log"));
    assert_eq!((found[0].position, found[0].records, found[0].ended), (14, 3, false));
}
