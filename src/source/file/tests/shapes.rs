//! Files of every shape, and the order and memory of reading them.

use super::*;
use crate::pool::Pool;
use crate::source::file::sample;

#[tokio::test(start_paused = true)]
async fn empty_files_marks_line_ends_and_blank_lines_are_no_records() {
    let mut stage = Stage::new("*");
    stage.write("empty", b"");
    stage.write("empty.gz", b"");
    stage.write("empty.zst", zst(&[b""]));
    stage.write("mark", b"\xef\xbb\xbf");
    stage.write("mark.gz", gz(&[b"\xef\xbb\xbfa\r\n\r\n\n", b"b\r\n"]));
    stage.write("blank", b"\n\r\n\n");
    stage.write("crlf", b"a\r\nb\r\n");
    let got = stage.run().await.unwrap();
    let got: Vec<_> =
        got.iter().map(|got| (got.split.as_str(), got.position, got.line.as_deref().unwrap())).collect();
    assert_eq!(got, [("crlf", 0, "a"), ("crlf", 3, "b"), ("mark.gz", 3, "a"), ("mark.gz", 9, "b")]);
    assert_eq!(stage.run().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_header_line_is_not_read_as_a_record_after_a_restart_either() {
    let mut stage = Stage::new("*");
    stage.header = true;
    stage.settings.chunk_bytes = 2;
    stage.write("a", "#a long header line\n1\n2\n");
    stage.write("b", "#only a header\n");
    stage.write("c", "#without an end");
    let mut source = stage.open().await.unwrap();
    assert_eq!(lines(&records(&source.next().await.unwrap())), ["1"]);
    stage.checkpoint(&mut source);
    assert_eq!(lines(&stage.run().await.unwrap()), ["2"]);
    stage.append("b", "3\n");
    assert_eq!(lines(&stage.run().await.unwrap()), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_of_64_mebibytes_is_rejected_in_flat_memory() {
    let long = 64 << 20;
    let mut content = b"before\n".to_vec();
    content.resize(content.len() + long, b'x');
    content.extend_from_slice(b"\r\nbehind\n");
    let mut stage = Stage::new("*");
    stage.settings.record_limit = 3_000_000;
    stage.write("a.zst", zst(&[&content]));
    stage.write("b", &content);
    let mut source = stage.open().await.unwrap();
    let mut got = Vec::new();
    loop {
        let read = source.next().await.unwrap();
        let held: usize = source.held().1;
        assert!(held <= 6_000_000, "{held} bytes are held");
        if matches!(read, Read::End) {
            break;
        }
        if let Read::Records { rejected, .. } = &read {
            for bad in rejected {
                assert!(bad.reason.contains("67108864 bytes, the limit is 3000000"), "{}", bad.reason);
                assert_eq!(bad.raw.len(), 64 << 10);
            }
        }
        got.extend(records(&read));
    }
    got.sort();
    assert_eq!(got, [expected("a.zst", &content, 3_000_000), expected("b", &content, 3_000_000)].concat(),);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_record_does_not_depend_on_where_reads_end() {
    let content = b"12345\n123456\r\n1234\n1234567\n12345\r\n1234567".to_vec();
    for chunk in 1..60 {
        let mut stage = Stage::new("*");
        stage.settings.chunk_bytes = chunk;
        stage.settings.record_limit = 5;
        stage.write("a", &content);
        assert_eq!(stage.run().await.unwrap(), expected("a", &content, 5), "reads of {chunk} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn with_inline_pools_files_are_read_in_turns_and_always_the_same_way() {
    let order = |_: usize| async {
        let mut stage = Stage::new("*");
        stage.settings.chunk_bytes = 2;
        for name in ["a", "b", "c"] {
            stage.write(name, "1\n2\n3\n");
        }
        let got = stage.run().await.unwrap();
        got.iter().map(|got| format!("{}{}", got.split, got.line.as_deref().unwrap())).collect::<Vec<_>>()
    };
    let first = order(0).await;
    assert_eq!(first, ["a1", "b1", "a2", "b2", "a3", "b3", "c1", "c2", "c3"]);
    assert_eq!(first, order(1).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_read_ahead_is_bounded() {
    let mut stage = Stage::new("*");
    stage.settings.chunk_bytes = 1000;
    stage.settings.read_ahead_bytes = 2500;
    for n in 0..4 {
        stage.write(&format!("{n}"), "123456789\n".repeat(1000));
    }
    let doors = Doors { cpu: Pool::threads("test", 8), io: Pool::threads("test", 8), ..stage.doors() };
    let format = Arc::new(Lines { header: false });
    let mut source = FileSource::open(stage.settings.clone(), format, None, state(), doors).await.unwrap();
    let mut rows = 0;
    loop {
        let read = source.next().await.unwrap();
        // Reads that were under way when the limit was reached: at most one for each active split.
        assert!(source.held().1 <= 2500 + 4 * 1000, "{}", source.held().1);
        if matches!(read, Read::End) {
            break;
        }
        rows += records(&read).len();
    }
    assert_eq!(rows, 4000);
    assert_eq!(source.held(), (0, 0));
}

#[tokio::test]
async fn a_thousand_small_files_and_a_large_one_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut wanted = Vec::new();
    for n in 0..1000 {
        let name = format!("d{}/f{n}.txt", n % 7);
        std::fs::create_dir_all(folder.path().join(format!("d{}", n % 7))).unwrap();
        let content = format!("{n} a\n{n} b\n");
        std::fs::write(folder.path().join(&name), &content).unwrap();
        wanted.extend(expected(&name, content.as_bytes(), usize::MAX));
    }
    let large: String = (0..200_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(folder.path().join("d0/large.txt"), &large).unwrap();
    wanted.extend(expected("d0/large.txt", large.as_bytes(), usize::MAX));
    wanted.sort();
    let mut settings = FileSettings::new(folder.path(), "**/*.txt");
    settings.chunk_bytes = 64 << 10;
    let format = Arc::new(Lines { header: false });
    let mut source = FileSource::open(settings, format, None, state(), Doors::real()).await.unwrap();
    let mut got = to_end(&mut source).await.unwrap();
    let large: Vec<u64> =
        got.iter().filter(|got| got.split == "d0/large.txt").map(|got| got.position).collect();
    assert!(large.is_sorted());
    got.sort();
    assert_eq!(got, wanted);
}

#[tokio::test(start_paused = true)]
async fn the_stage_sees_each_batch_and_what_it_empties_is_not_handed_on() {
    let mut stage = Stage::new("*");
    stage.settings.chunk_bytes = 4;
    stage.write("a", "1\n2\n3\n4\n5\n");
    let only_three: crate::stream::Stage = Arc::new(|batch: Batch| {
        let lines = batch.records.column(0).as_string::<i32>();
        let keep: arrow::array::BooleanArray = lines.iter().map(|line| Some(line == Some("3"))).collect();
        let positions = arrow::compute::filter(&batch.positions, &keep).unwrap();
        Ok(Batch {
            records: arrow::compute::filter_record_batch(&batch.records, &keep).unwrap(),
            positions: positions.as_primitive().clone(),
            split: batch.split,
        })
    });
    let format = Arc::new(Lines { header: false });
    let mut source =
        FileSource::open(stage.settings.clone(), format, Some(only_three), state(), stage.doors())
            .await
            .unwrap();
    assert_eq!(lines(&to_end(&mut source).await.unwrap()), ["3"]);
    assert_eq!(source.status().records, 5);
}

#[tokio::test(start_paused = true)]
async fn a_sample_is_the_first_lines_in_name_order() {
    let stage = Stage::new("*");
    stage.write("a", "1\n\n2\n");
    stage.write("b.gz", gz(&[b"3\n4\n5\n"]));
    stage.write("c", "6");
    let of = |count| {
        let (settings, doors) = (stage.settings.clone(), stage.doors());
        async move {
            let samples = sample(&settings, &doors, count).await.unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            samples.into_iter().map(|s| (s.split.to_string(), text(s.bytes), s.is_cut)).collect::<Vec<_>>()
        }
    };
    let a = ("a".to_owned(), "1\n\n2\n".to_owned(), false);
    let b = ("b.gz".to_owned(), "3\n4\n5\n".to_owned(), false);
    let c = ("c".to_owned(), "6".to_owned(), false);
    assert_eq!(of(100).await, [a.clone(), b, c]);
    assert_eq!(of(4).await, [a, ("b.gz".to_owned(), "3\n4\n".to_owned(), true)]);
    assert_eq!(of(1).await, [("a".to_owned(), "1\n".to_owned(), true)]);
    let none = sample(&FileSettings::new("/in", "x*"), &stage.doors(), 10).await.unwrap_err();
    assert_eq!(none.kind(), crate::ErrorKind::Usage);
}
