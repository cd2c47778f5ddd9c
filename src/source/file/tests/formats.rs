//! The source with the formats that users have.

use arrow::datatypes::Fields;
use proptest::prelude::*;

use super::*;
use crate::format::Csv;
use crate::format::DecodeOptions;
use crate::format::Ndjson;
use crate::format::Unknown;
use crate::source::file::tests::resume::paused;

fn options() -> DecodeOptions {
    let fields: Fields = [Field::new("id", DataType::Int64, true), Field::new("text", DataType::Utf8, true)]
        .into_iter()
        .collect();
    DecodeOptions { schema: Arc::new(Schema::new(fields)), unknown: Unknown::Ignore }
}

/// Rows as text with their positions, and dead letters with the front of their reasons.
fn outcome(read: &Read) -> Vec<(u64, String)> {
    let Read::Records { batches, rejected } = read else { return Vec::new() };
    let mut outcome = Vec::new();
    for batch in batches {
        let rows = batch.positions.values().iter().enumerate();
        outcome.extend(rows.map(|(row, position)| {
            let id = batch.records.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            let text = batch.records.column(1).as_string::<i32>();
            (*position, format!("{:?} {:?}", id.is_valid(row).then(|| id.value(row)), text.value(row)))
        }));
    }
    outcome.extend(rejected.iter().map(|bad| (bad.position, format!("{} {}", bad.raw_len, bad.reason))));
    outcome
}

/// Everything that comes out of `content`, with a restart after every `restart` reads.
async fn read_all(
    content: &[u8],
    format: Arc<dyn InputFormat>,
    chunk: usize,
    limit: usize,
    restart: usize,
) -> Vec<(u64, String)> {
    let mut stage = Stage::new("*");
    stage.settings.chunk_bytes = chunk;
    stage.settings.record_limit = limit;
    stage.write("a", content);
    let mut all = Vec::new();
    loop {
        let mut source = stage.open_with(Arc::clone(&format)).await.unwrap();
        for _ in 0..restart {
            let read = source.next().await.unwrap();
            if matches!(read, Read::End) {
                all.sort();
                return all;
            }
            all.extend(outcome(&read));
        }
        stage.checkpoint(&mut source);
    }
}

fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{0,6}",
        1 => "[a-z]{20,40}",
        1 => Just("\"a \"\"quoted\"\" one\"".to_owned()),
        1 => Just("\"two\nlines, and\r\nthree\"".to_owned()),
        1 => Just("\"a quote that never ends".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_becomes_of_csv_does_not_depend_on_reads_and_restarts(
        cells in prop::collection::vec((cell(), any::<bool>()), 0..25),
        chunk in 1_usize..50,
        limit in prop_oneof![Just(15_usize), Just(30), Just(10_000)],
        restart in 1_usize..5,
    ) {
        let mut content = b"id,text\n".to_vec();
        for (number, (cell, crlf)) in cells.iter().enumerate() {
            content.extend_from_slice(format!("{number},{cell}").as_bytes());
            content.extend_from_slice(if *crlf { b"\r\n" } else { b"\n" });
        }
        paused().block_on(async {
            let format: Arc<dyn InputFormat> = Arc::new(Csv::new(&options()).unwrap());
            let whole = read_all(&content, Arc::clone(&format), 1 << 20, limit, usize::MAX).await;
            assert_eq!(read_all(&content, format, chunk, limit, restart).await, whole);
        });
    }

    #[test]
    fn what_becomes_of_ndjson_does_not_depend_on_reads_and_restarts(
        lines in prop::collection::vec(prop_oneof![
            4 => (any::<i32>(), "[a-z]{0,30}").prop_map(|(id, text)| format!("{{\"id\": {id}, \"text\": \"{text}\"}}")),
            1 => Just("{\"id\": 1.9}".to_owned()),
            1 => Just("{\"id\": 007, \"text\": \"x\"}".to_owned()),
            1 => Just("{} {}".to_owned()),
            1 => Just("{\"id\": 1,".to_owned()),
            1 => Just(String::new()),
        ], 0..40),
        chunk in 1_usize..80,
        limit in prop_oneof![Just(20_usize), Just(10_000)],
        restart in 1_usize..5,
    ) {
        let content = lines.join("\n");
        paused().block_on(async {
            let format: Arc<dyn InputFormat> = Arc::new(Ndjson::new(&options()).unwrap());
            let whole = read_all(content.as_bytes(), Arc::clone(&format), 1 << 20, limit, usize::MAX).await;
            assert_eq!(whole.len(), lines.iter().filter(|line| !line.is_empty()).count());
            assert_eq!(read_all(content.as_bytes(), format, chunk, limit, restart).await, whole);
        });
    }
}
