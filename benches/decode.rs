//! NDJSON into batches: our strict decoder beside arrow-json, on the same web clicks in one run.
//!
//! `cargo bench --bench decode` prints the best of five rounds of each, in MB/s and rows/s, and the ratio.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use alluvium::format::DecodeOptions;
use alluvium::format::InputFormat;
use alluvium::format::Ndjson;
use alluvium::format::Unknown;
use alluvium::format::parse_schema;
use alluvium::stream::SplitId;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

const EVENTS: u64 = 400_000;
const CHUNK_BYTES: usize = 1 << 20;
const ROUNDS: usize = 5;

fn main() {
    let input = events();
    let schema = parse_schema([
        ("event_id", "string"),
        ("user_id", "int64"),
        ("ts", "timestamp(ms)"),
        ("url", "string"),
        ("country", "string"),
        ("price", "float64"),
        ("tags", "list<string>"),
    ])
    .expect("a schema of known types");
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        ours = ours.min(timed(|| strict(&input, &schema)));
        theirs = theirs.min(timed(|| arrow_json(&input, &schema)));
    }
    for (name, time) in [("strict", ours), ("arrow-json", theirs)] {
        let seconds = time.as_secs_f64();
        println!(
            "{name}: {:.0} MB/s, {:.2} million rows/s",
            input.len() as f64 / seconds / 1e6,
            EVENTS as f64 / seconds / 1e6
        );
    }
    println!("time of arrow-json / time of strict: {:.2}", theirs.as_secs_f64() / ours.as_secs_f64());
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
fn timed(run: impl FnOnce() -> u64) -> Duration {
    let begin = Instant::now();
    assert_eq!(run(), EVENTS);
    begin.elapsed()
}

fn strict(input: &[u8], schema: &SchemaRef) -> u64 {
    let options = DecodeOptions { schema: schema.clone(), unknown: Unknown::Ignore };
    let format = Ndjson::new(&options).expect("a schema of records");
    let decoder = format.decoder(&SplitId::new("clicks"), input).expect("NDJSON has no header");
    let (mut at, mut rows) = (0, 0);
    while at < input.len() {
        let chunk = &input[at..(at + CHUNK_BYTES).min(input.len())];
        let chunk = &chunk[..decoder.boundary(chunk)];
        let decoded = decoder.decode(at as u64, chunk).expect("no fault of the program");
        rows += decoded.records - decoded.rejected.len() as u64;
        black_box(decoded);
        at += chunk.len();
    }
    rows
}

fn arrow_json(input: &[u8], schema: &SchemaRef) -> u64 {
    // It knows zones by their offset only.
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Timestamp(unit, _) => {
            Field::new(field.name(), DataType::Timestamp(*unit, None), true).into()
        }
        _ => Arc::clone(field),
    };
    let schema = Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()));
    let mut decoder =
        arrow::json::ReaderBuilder::new(schema).with_batch_size(8192).build_decoder().expect("known types");
    let mut rows = 0;
    for chunk in input.chunks(CHUNK_BYTES) {
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = &rest[decoder.decode(rest).expect("valid lines")..];
            if decoder.len() == 8192 {
                rows += black_box(decoder.flush().expect("valid lines"))
                    .map_or(0, |batch| batch.num_rows() as u64);
            }
        }
    }
    rows + black_box(decoder.flush().expect("valid lines")).map_or(0, |batch| batch.num_rows() as u64)
}

/// Web clicks of some 200 bytes, always the same.
fn events() -> Vec<u8> {
    const TAGS: [&str; 4] = ["\"new\"", "\"mobile\"", "\"sale\"", "\"returning\""];
    let mut seed: u64 = 42;
    let mut next = move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    };
    let mut text = String::new();
    for _ in 0..EVENTS {
        let (id, user, ts, product, cents) =
            (next(), next() % 1_000_000, next() % 86_400_000, next(), next() % 50_000);
        writeln!(
            text,
            "{{\"event_id\":\"{:08x}-{:04x}-4{:03x}-9{:03x}-{:012x}\",\"user_id\":{user},\"ts\":{},\
             \"url\":\"https://shop.example.com/garden/p/{}?ref=mail\",\"country\":\"DE\",\"price\":{}.{:02},\"tags\":[{}]}}",
            id >> 32,
            id & 0xffff,
            product & 0xfff,
            product >> 52,
            product >> 16,
            1_767_225_600_000 + ts,
            product % 50_000,
            cents / 100,
            cents % 100,
            TAGS[..(id % 4) as usize].join(",")
        )
        .expect("a string takes all");
    }
    text.into_bytes()
}
