//! A restart from any snapshot gives each record exactly once.

use proptest::prelude::*;

use super::*;

/// How a file is packed.
#[derive(Debug, Clone, Copy)]
enum Packing {
    Plain,
    Gz,
    Zst,
}

fn packed(content: &[u8], packing: Packing) -> Vec<u8> {
    let (a, b) = content.split_at(content.len() / 3);
    match packing {
        Packing::Plain => content.to_vec(),
        Packing::Gz => gz(&[a, b]),
        Packing::Zst => zst(&[a, b]),
    }
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        5 => "[a-z]{1,12}",
        1 => "![a-z]{0,5}",
        1 => "[a-z]{30,90}",
        1 => Just(String::new()),
        1 => Just("é".to_owned()),
    ];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    let lines = prop::collection::vec((line, end), 0..40);
    (lines, any::<bool>(), any::<bool>()).prop_map(|(lines, mark, ended)| {
        let mut content = if mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
        for (line, end) in lines {
            content.extend_from_slice(line.as_bytes());
            content.extend_from_slice(end.as_bytes());
        }
        if !ended {
            content.extend_from_slice(b"last");
        }
        content
    })
}

fn packing() -> impl Strategy<Value = Packing> {
    prop_oneof![2 => Just(Packing::Plain), 1 => Just(Packing::Gz), 1 => Just(Packing::Zst)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn each_record_comes_once_whatever_is_cut_and_wherever_it_restarts(
        files in prop::collection::vec((content(), packing()), 1..5),
        chunk in 1_usize..80,
        limit in prop_oneof![Just(20_usize), Just(40), Just(1000)],
        // After how many reads: a checkpoint; a crash, back to the last checkpoint.
        plan in prop::collection::vec((0_usize..6, any::<bool>()), 0..30),
    ) {
        let runtime = paused();
        runtime.block_on(async {
            let mut stage = Stage::new("*");
            stage.settings.chunk_bytes = chunk;
            stage.settings.record_limit = limit;
            let mut wanted = Vec::new();
            for (number, (content, packing)) in files.iter().enumerate() {
                let ending = match packing {
                    Packing::Plain => "txt",
                    Packing::Gz => "txt.gz",
                    Packing::Zst => "txt.zst",
                };
                let name = format!("f{number}.{ending}");
                stage.write(&name, packed(content, *packing));
                wanted.extend(expected(&name, content, limit));
            }
            wanted.sort();

            let mut source = stage.open().await.unwrap();
            stage.checkpoint(&mut source);
            let (mut safe, mut since) = (Vec::new(), Vec::new());
            for (reads, is_crash) in plan {
                for _ in 0..reads {
                    since.extend(records(&source.next().await.unwrap()));
                }
                if is_crash {
                    since.clear();
                    source = stage.open().await.unwrap();
                } else {
                    stage.checkpoint(&mut source);
                    safe.append(&mut since);
                }
            }
            safe.append(&mut since);
            safe.extend(to_end(&mut source).await.unwrap());
            // Ordered within each split, each record once.
            for name in wanted.iter().map(|got| &got.split) {
                let of_split: Vec<u64> =
                    safe.iter().filter(|got| got.split == *name).map(|got| got.position).collect();
                assert!(of_split.is_sorted(), "{name}: {of_split:?}");
            }
            safe.sort();
            assert_eq!(safe, wanted);

            let at_end = source.status();
            assert_eq!(at_end.records, wanted.len() as u64);
            assert_eq!(at_end.bytes_read, at_end.bytes_total);
            assert_eq!((at_end.splits_open, at_end.splits_done), (0, files.len() as u64));
            stage.checkpoint(&mut source);
            assert_eq!(stage.run().await.unwrap(), Vec::new(), "a finished job has nothing to do");
        });
    }

    #[test]
    fn a_followed_file_that_grows_in_any_steps_gives_each_line_once(
        content in content(),
        packing in packing(),
        steps in prop::collection::vec((1_usize..60, 0_u8..3), 1..12),
        chunk in 1_usize..80,
    ) {
        // A compressed file grows by whole members.
        let runtime = paused();
        runtime.block_on(async {
            let name = match packing {
                Packing::Plain => "a.txt",
                Packing::Gz => "a.txt.gz",
                Packing::Zst => "a.txt.zst",
            };
            let mut stage = Stage::following("*");
            stage.settings.chunk_bytes = chunk;
            stage.write(name, b"");
            let mut source = stage.open().await.unwrap();
            stage.checkpoint(&mut source);
            let (mut safe, mut since, mut written) = (Vec::new(), Vec::new(), Vec::new());
            let mut left = content.as_slice();
            for (len, what) in steps.into_iter().chain([(usize::MAX, 0)]) {
                let (now, later) = left.split_at(len.min(left.len()));
                left = later;
                match packing {
                    Packing::Plain => written.extend_from_slice(now),
                    Packing::Gz => written.extend(gz(&[now])),
                    Packing::Zst => written.extend(zst(&[now])),
                }
                let file = stage.disk.open(&Path::new("/in").join(name), OpenMode::ReadWrite).unwrap();
                let size = file.size().unwrap();
                file.write_at(size, &written[usize::try_from(size).unwrap()..]).unwrap();
                since.extend(until_quiet(&mut source).await.unwrap());
                match what {
                    0 => {}
                    1 => {
                        stage.checkpoint(&mut source);
                        safe.append(&mut since);
                    }
                    _ => {
                        since.clear();
                            source = stage.open().await.unwrap();
                    }
                }
            }
            since.extend(until_quiet(&mut source).await.unwrap());
            safe.append(&mut since);
            let ended = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            assert_eq!(safe, expected(name, &content[..ended], usize::MAX));
        });
    }
}

pub(super) fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_with_nothing_new_changes_no_state() {
    let mut stage = Stage::following("*");
    stage.write("a", "1\n2\n");
    stage.write("b", "3\n");
    let mut source = stage.open().await.unwrap();
    until_quiet(&mut source).await.unwrap();
    stage.checkpoint(&mut source);
    until_quiet(&mut source).await.unwrap();
    stage.checkpoint(&mut source);
    stage.append("b", "4\n");
    until_quiet(&mut source).await.unwrap();
    assert_eq!(source.changed(), 1);
    stage.checkpoint(&mut source);
    let found: Vec<_> = remembered(&source)
        .into_iter()
        .map(|split| (split.split.to_string(), split.position, split.records, split.ended))
        .collect();
    assert_eq!(found, [("a".to_owned(), 4, 2, true), ("b".to_owned(), 4, 2, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_loses_nothing() {
    let mut stage = Stage::new("*");
    stage.settings.chunk_bytes = 7;
    let content: String = (0..200).map(|n| format!("{n}\n")).collect();
    stage.write("a", &content);
    let doors = Doors {
        cpu: crate::pool::Pool::threads("test", 3),
        io: crate::pool::Pool::threads("test", 2),
        ..stage.doors()
    };
    let format = Arc::new(Lines { header: false });
    let mut source = FileSource::open(stage.settings.clone(), format, None, state(), doors).await.unwrap();
    let mut got = Vec::new();
    let mut dropped = 0;
    loop {
        // Polled once, then dropped if nothing was there.
        match futures::FutureExt::now_or_never(source.next()) {
            Some(Ok(Read::End)) => break,
            Some(read) => got.extend(records(&read.unwrap())),
            None => {
                dropped += 1;
                tokio::task::yield_now().await;
            }
        }
    }
    assert!(dropped > 0);
    assert_eq!(got, expected("a", content.as_bytes(), usize::MAX));
}
