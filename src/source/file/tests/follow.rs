//! Files that grow, are renamed, and go away while they are followed.

use super::*;

#[tokio::test(start_paused = true)]
async fn new_lines_and_new_files_are_found() {
    let stage = Stage::following("*.log");
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.write("a.log", "1\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["1"]);
    stage.write("b.log", "2\n");
    stage.append("a.log", "3\n4\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["3", "4", "2"]);
    assert_eq!(source.status().splits_open, 0);
}

#[tokio::test(start_paused = true)]
async fn a_line_without_its_end_is_waited_for() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\nha");
    let mut source = stage.open().await.unwrap();
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["1"]);
    assert_eq!(source.status().splits_open, 1);
    stage.append("a.log", "lf");
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.append("a.log", "\n");
    let got = until_quiet(&mut source).await.unwrap();
    assert_eq!(got, [Got { split: "a.log".to_owned(), position: 2, line: Ok("half".to_owned()) }]);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_still_being_written_is_waited_for() {
    let mut stage = Stage::following("*.log");
    stage.header = true;
    stage.write("a.log", "#a,");
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.append("a.log", "b\n1\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn new_files_are_found_while_others_are_busy() {
    let mut stage = Stage::following("*.log");
    stage.settings.chunk_bytes = 8;
    stage.settings.poll = Duration::ZERO;
    stage.write("a.log", "123456\n".repeat(200));
    let mut source = stage.open().await.unwrap();
    source.next().await.unwrap();
    stage.write("b.log", "b\n");
    let mut before = 0;
    while !lines(&records(&source.next().await.unwrap())).contains(&"b") {
        before += 1;
    }
    assert!(before < 100, "{before} reads of a.log came first");
}

#[tokio::test(start_paused = true)]
async fn a_rotated_file_is_read_to_its_end_and_its_successor_from_its_start() {
    let mut stage = Stage::following("app.log");
    stage.write("app.log", "1\n2\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.append("app.log", "3\n");
    stage.rename("app.log", "app.log.1");
    stage.write("app.log", "1\n2\n4\n");
    let got = until_quiet(&mut source).await.unwrap();
    let of = |split: &str| -> Vec<_> { got.iter().filter(|got| got.split == split).cloned().collect() };
    assert_eq!(lines(&of("app.log")), ["3"]);
    assert_eq!(lines(&of("app.log#2")), ["1", "2", "4"], "like the old one as it begins, it is another");
    // A writer that has not noticed yet goes on in the renamed file.
    stage.append("app.log.1", "late\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["late"]);
    stage.checkpoint(&mut source);

    // Both move up one name, while nobody looks.
    stage.append("app.log", "5\n");
    stage.rename("app.log.1", "app.log.2");
    stage.rename("app.log", "app.log.1");
    stage.write("app.log", "6\n");
    let mut source = stage.open().await.unwrap();
    let got = until_quiet(&mut source).await.unwrap();
    let got: Vec<_> = got.iter().map(|got| (got.split.as_str(), got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("app.log#3", "6"), ("app.log#2", "5")]);
}

#[tokio::test(start_paused = true)]
async fn a_file_rotated_and_compressed_while_nobody_looked_is_known_again() {
    let mut stage = Stage::following("app.log");
    let content: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let (now, later) = content.split_at(content.len() / 2 + 3);
    stage.write("app.log", now);
    let mut source = stage.open().await.unwrap();
    let mut got = until_quiet(&mut source).await.unwrap();
    stage.checkpoint(&mut source);
    stage.append("app.log", later);
    stage.write("app.log.1.gz", gz(&[content.as_bytes()]));
    stage.remove("app.log");
    stage.write("app.log", "next\n");
    let mut source = stage.open().await.unwrap();
    let (new, old): (Vec<_>, Vec<_>) =
        until_quiet(&mut source).await.unwrap().into_iter().partition(|got| got.split == "app.log#2");
    got.extend(old);
    assert_eq!(got, expected("app.log", content.as_bytes(), usize::MAX));
    assert_eq!(lines(&new), ["next"]);
}

#[tokio::test(start_paused = true)]
async fn rotated_files_that_the_pattern_matches_are_not_read_twice() {
    let mut stage = Stage::following("app*");
    stage.write("app.log", "1\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    for n in 2..6 {
        for old in (1..n - 1).rev() {
            stage.rename(&format!("app.log.{old}"), &format!("app.log.{}", old + 1));
        }
        stage.rename("app.log", "app.log.1");
        stage.write("app.log", format!("{n}\n"));
        assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), [n.to_string()]);
        if n == 3 {
            stage.checkpoint(&mut source);
            source = stage.open().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_deleted_while_open_is_read_to_its_end() {
    let mut stage = Stage::following("*.log");
    stage.write("a.log", "1\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.append("a.log", "2\nthe last words");
    stage.remove("a.log");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["2", "the last words"]);
    stage.checkpoint(&mut source);
    assert_eq!(source.status().splits_open, 0);
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.write("a.log", "3\n");
    let got = until_quiet(&mut source).await.unwrap();
    assert_eq!(got, [Got { split: "a.log#2".to_owned(), position: 0, line: Ok("3".to_owned()) }]);
}

#[tokio::test(start_paused = true)]
async fn a_file_saved_anew_with_more_lines_is_the_same_file() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\n2\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.remove("a.log");
    stage.write("a.log", "1\n2\n3\n");
    let got = until_quiet(&mut source).await.unwrap();
    assert_eq!(got, [Got { split: "a.log".to_owned(), position: 4, line: Ok("3".to_owned()) }]);
}

#[tokio::test(start_paused = true)]
async fn copy_and_truncate_is_an_error_that_names_the_file() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\n2\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.cut("a.log", 0);
    let error = until_quiet(&mut source).await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Damage);
    assert!(error.to_string().contains("/in/a.log"), "{error}");
    assert!(error.to_string().contains("position 4"), "{error}");
    assert!(source.next().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_truncated_and_outgrew_its_position_is_an_error() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\n2\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.cut("a.log", 0);
    stage.append("a.log", "1\n9\n10\n");
    let error = until_quiet(&mut source).await.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Damage);
}

#[tokio::test(start_paused = true)]
async fn more_files_than_are_kept_open_are_all_followed() {
    let stage = Stage::following("*.log");
    for n in 0..200 {
        stage.write(&format!("{n:03}.log"), format!("{n} a\n"));
    }
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap().len(), 200);
    let open = source.open_files();
    assert!(open <= 64, "{open} files are open");
    for n in 0..200 {
        stage.append(&format!("{n:03}.log"), "b\n");
        if n % 3 == 0 {
            stage.rename(&format!("{n:03}.log"), &format!("{n:03}.log.old"));
        }
    }
    let got = until_quiet(&mut source).await.unwrap();
    assert_eq!(got.len(), 200);
    assert!(got.iter().all(|got| got.line.as_deref() == Ok("b")));
}

#[tokio::test(start_paused = true)]
async fn a_compressed_file_that_is_still_being_written_is_waited_for() {
    let stage = Stage::following("*.gz");
    let content: String = (0..3000).map(|n| format!("line {n} {}\n", n * 7919 % 1013)).collect();
    let whole = gz(&[content.as_bytes()]);
    let (now, later) = whole.split_at(whole.len() / 2);
    stage.write("a.gz", now);
    let mut source = stage.open().await.unwrap();
    let mut got = until_quiet(&mut source).await.unwrap();
    assert!(!got.is_empty());
    let file = stage.disk.open(Path::new("/in/a.gz"), OpenMode::ReadWrite).unwrap();
    file.write_at(now.len() as u64, later).unwrap();
    got.extend(until_quiet(&mut source).await.unwrap());
    assert_eq!(got, expected("a.gz", content.as_bytes(), usize::MAX));
}

#[tokio::test(start_paused = true)]
async fn nothing_to_match_is_waited_for() {
    let stage = Stage::following("later/*.log");
    let mut source = stage.open().await.unwrap();
    assert_eq!(until_quiet(&mut source).await.unwrap(), []);
    stage.write("later/a.log", "1\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_belongs_to_its_youngest_file_even_if_an_older_one_began_alike() {
    let mut stage = Stage::following("*.log");
    stage.write("a.log", "1\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.remove("a.log");
    until_quiet(&mut source).await.unwrap();
    stage.write("a.log", "");
    until_quiet(&mut source).await.unwrap();
    stage.append("a.log", "1\n");
    assert_eq!(until_quiet(&mut source).await.unwrap()[0].split, "a.log#2");
    stage.checkpoint(&mut source);
    stage.append("a.log", "2\n");
    let mut source = stage.open().await.unwrap();
    let got = until_quiet(&mut source).await.unwrap();
    assert_eq!(got, [Got { split: "a.log#2".to_owned(), position: 2, line: Ok("2".to_owned()) }]);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_file_that_was_overwritten_by_the_next_rotation_is_done_with() {
    let mut stage = Stage::following("app.log");
    stage.write("app.log", "1\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.rename("app.log", "app.log.1");
    stage.write("app.log", "2\n");
    until_quiet(&mut source).await.unwrap();
    stage.checkpoint(&mut source);
    // Only one old file is kept, and nobody looked.
    stage.remove("app.log.1");
    stage.rename("app.log", "app.log.1");
    stage.append("app.log.1", "3\n");
    stage.write("app.log", "4\n");
    let mut source = stage.open().await.unwrap();
    let got = until_quiet(&mut source).await.unwrap();
    let got: Vec<_> = got.iter().map(|got| (got.split.as_str(), got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("app.log#3", "4"), ("app.log#2", "3")]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_deleted_and_made_anew_between_two_looks_loses_nothing() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.append("a.log", "2\n");
    stage.remove("a.log");
    stage.write("a.log", "other\n");
    let got = until_quiet(&mut source).await.unwrap();
    let got: Vec<_> = got.iter().map(|got| (got.split.as_str(), got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("a.log", "2"), ("a.log#2", "other")]);
}

#[tokio::test(start_paused = true)]
async fn a_file_saved_anew_without_its_unfinished_line_is_read_on_from_its_last_whole_one() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "1\nhalf of it");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.remove("a.log");
    stage.write("a.log", "1\n2\n");
    assert_eq!(lines(&until_quiet(&mut source).await.unwrap()), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_lines_of_a_file_are_read_before_one_that_begins_alike_takes_its_place() {
    let stage = Stage::following("*.log");
    stage.write("a.log", "start\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.append("a.log", "2\n");
    stage.remove("a.log");
    stage.write("a.log", "start\n3\n");
    let got = until_quiet(&mut source).await.unwrap();
    let got: Vec<_> = got.iter().map(|got| (got.split.as_str(), got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("a.log", "2"), ("a.log#2", "start"), ("a.log#2", "3")]);
}
