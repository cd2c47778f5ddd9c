use std::io::Read;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use proptest::prelude::*;

use super::*;
use crate::format::LineCompression;
use crate::format::LineEncoder;
use crate::format::LineFormat;

const FIELDS: [(&str, &str); 22] = [
    ("s", "string"),
    ("i8", "int8"),
    ("i16", "int16"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("u8", "uint8"),
    ("u16", "uint16"),
    ("u32", "uint32"),
    ("u64", "uint64"),
    ("f32", "float32"),
    ("f64", "float64"),
    ("b", "boolean"),
    ("d", "date"),
    ("ts", "timestamp(s)"),
    ("tm", "timestamp(ms)"),
    ("tu", "timestamp(us)"),
    ("tn", "timestamp(ns)"),
    ("m", "decimal(38,10)"),
    ("x", "binary"),
    ("j", "json"),
    ("l,\"", "list<list<string>>"),
    (" o", "struct<a:int64,`b\"`:list<struct<c:timestamp(ms),d:binary>>,f:float64>"),
];

/// Arrays of any values, made with Arrow's own builders.
fn array(data_type: &DataType, seed: &mut u64, len: usize) -> ArrayRef {
    use arrow::array::*;
    use arrow::datatypes::*;
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (*seed ^ *seed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 32
    };
    macro_rules! numbers {
        ($type:ty, $make:expr) => {{
            let values = (0..len).map(|_| (next() % 5 > 0).then(|| $make(next()))).collect::<Vec<_>>();
            Arc::new(PrimitiveArray::<$type>::from(values).with_data_type(data_type.clone()))
        }};
    }
    // Small, huge and any.
    let spread = |value: u64| (value as i64) >> (value % 61);
    let texts = [
        "",
        "a",
        "null",
        "é😀",
        "a,b",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "\t\u{0}\u{1f}",
        " x ",
        "\"\"",
        "007",
        "{\"a\":1}",
        "\u{feff}",
        "\u{2028}",
    ];
    match data_type {
        DataType::Boolean => Arc::new(
            (0..len)
                .map(|_| [None, Some(true), Some(false)][(next() % 3) as usize])
                .collect::<BooleanArray>(),
        ),
        DataType::Int8 => numbers!(Int8Type, |v| v as i8),
        DataType::Int16 => numbers!(Int16Type, |v| v as i16),
        DataType::Int32 => numbers!(Int32Type, |v| spread(v) as i32),
        DataType::Int64 => numbers!(Int64Type, spread),
        DataType::UInt8 => numbers!(UInt8Type, |v| v as u8),
        DataType::UInt16 => numbers!(UInt16Type, |v| v as u16),
        DataType::UInt32 => numbers!(UInt32Type, |v| v as u32),
        DataType::UInt64 => numbers!(UInt64Type, |v: u64| v >> (v % 61)),
        // One NaN only: no text holds a payload.
        DataType::Float32 => numbers!(Float32Type, |v| Some(f32::from_bits(v as u32))
            .filter(|f| !f.is_nan())
            .unwrap_or(f32::NAN)),
        DataType::Float64 => numbers!(Float64Type, |v| match v % 8 {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => -0.0,
            3 => (v >> 40) as f64 / 100.0,
            _ => Some(f64::from_bits(v)).filter(|f| !f.is_nan()).unwrap_or(f64::NAN),
        }),
        DataType::Date32 => numbers!(Date32Type, |v| spread(v) as i32),
        DataType::Timestamp(TimeUnit::Second, _) => numbers!(TimestampSecondType, spread),
        DataType::Timestamp(TimeUnit::Millisecond, _) => numbers!(TimestampMillisecondType, spread),
        DataType::Timestamp(TimeUnit::Microsecond, _) => numbers!(TimestampMicrosecondType, spread),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers!(TimestampNanosecondType, spread),
        DataType::Decimal128(..) => {
            numbers!(Decimal128Type, |v| i128::from(spread(v)) * i128::from(v % 1_000_000))
        }
        DataType::Utf8 => {
            let values = (0..len).map(|_| (next() % 5 > 0).then(|| texts[(next() % 16) as usize]));
            Arc::new(values.collect::<StringArray>())
        }
        DataType::LargeUtf8 => {
            let values = ["{\"a\": [1,2e400]}", "1", "\"x\"", "[ ]", "true", "{}"];
            Arc::new(
                (0..len)
                    .map(|_| (next() % 5 > 0).then(|| values[(next() % 6) as usize]))
                    .collect::<LargeStringArray>(),
            )
        }
        DataType::Binary => {
            let values = (0..len)
                .map(|_| (next() % 5 > 0).then(|| next().to_be_bytes()[..(next() % 9) as usize].to_vec()));
            Arc::new(values.collect::<Vec<_>>().iter().map(|value| value.as_deref()).collect::<BinaryArray>())
        }
        DataType::List(item) => {
            let lengths: Vec<_> = (0..len).map(|_| (next() % 4) as usize).collect();
            let valid: Vec<_> = lengths.iter().map(|len| *len > 0 || next() % 2 == 0).collect();
            let items = array(item.data_type(), seed, lengths.iter().sum());
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(item.clone(), offsets, items, Some(valid.into())))
        }
        DataType::Struct(fields) => {
            let valid: Vec<_> = (0..len).map(|_| next() % 5 > 0).collect();
            let columns = fields.iter().map(|field| array(field.data_type(), seed, len)).collect();
            Arc::new(StructArray::new(fields.clone(), columns, Some(valid.into())))
        }
        other => panic!("{other}"),
    }
}

fn batch(fields: &[(&str, &str)], mut seed: u64, rows: usize) -> RecordBatch {
    let schema = schema(fields);
    let columns = schema.fields().iter().map(|field| array(field.data_type(), &mut seed, rows)).collect();
    RecordBatch::try_new(schema, columns).unwrap()
}

fn encode(format: LineFormat, batch: &RecordBatch) -> Vec<u8> {
    let encoder = format.encoder(batch.schema()).unwrap();
    let mut out = encoder.header();
    encoder.encode(batch, &mut out).unwrap();
    out
}

fn decode(format: LineFormat, fields: &[(&str, &str)], bytes: &[u8]) -> Decoded {
    let decoded = match format {
        LineFormat::Ndjson => read_lines(fields, bytes),
        LineFormat::Csv => read_csv(fields, Unknown::Fail, bytes).unwrap(),
    };
    assert!(decoded.rejected.is_empty(), "{:?}", decoded.rejected);
    decoded
}

/// Rows of struct whose null hides other values are the same: compare what is seen.
fn seen(batch: &RecordBatch) -> Vec<u8> {
    encode(LineFormat::Ndjson, batch)
}

proptest! {
    #[test]
    fn rows_of_every_type_read_back_the_same(seed in any::<u64>(), rows_wanted in 1_usize..40) {
        let batch = batch(&FIELDS, seed, rows_wanted);
        for format in [LineFormat::Ndjson, LineFormat::Csv] {
            let decoded = decode(format, &FIELDS, &encode(format, &batch));
            let back = rows(&decoded);
            prop_assert_eq!(back.num_rows(), rows_wanted);
            for (name, _) in &FIELDS[..21] {
                prop_assert_eq!(&back[*name].to_data(), &batch[*name].to_data(), "{:?} {}", format, name);
            }
            prop_assert_eq!(String::from_utf8(seen(&back)).unwrap(), String::from_utf8(seen(&batch)).unwrap());
        }
    }

    #[test]
    fn one_column_of_any_type_reads_back_the_same(seed in any::<u64>(), column in 0_usize..21) {
        let fields = &FIELDS[column..=column];
        let batch = batch(fields, seed, 10);
        for format in [LineFormat::Ndjson, LineFormat::Csv] {
            let back = rows(&decode(format, fields, &encode(format, &batch)));
            prop_assert_eq!(back.column(0).to_data(), batch.column(0).to_data());
        }
    }
}

#[test]
fn values_are_written_as_documented() {
    let fields = [
        ("t", "timestamp(ms)"),
        ("m", "decimal(5,2)"),
        ("d", "date"),
        ("s", "string"),
        ("l", "list<int64>"),
        ("f", "float64"),
    ];
    let text = "{\"t\":1700000000120,\"m\":-0.5,\"d\":\"-0044-03-15\",\"s\":\"a\\n\\u0001,\",\"l\":[1,null],\"f\":1e100}\n{}\n{\"t\":-99999999999999999,\"s\":\"\",\"l\":[],\"f\":\"NaN\"}\n";
    let batch = rows(&read_lines(&fields, text));
    assert_eq!(
        String::from_utf8(encode(LineFormat::Ndjson, &batch)).unwrap(),
        "{\"t\":\"2023-11-14T22:13:20.120Z\",\"m\":-0.50,\"d\":\"-0044-03-15\",\"s\":\"a\\n\\u0001,\",\"l\":[1,null],\"f\":1e100}\n\
         {\"t\":null,\"m\":null,\"d\":null,\"s\":null,\"l\":null,\"f\":null}\n\
         {\"t\":-99999999999999999,\"m\":null,\"d\":null,\"s\":\"\",\"l\":[],\"f\":\"NaN\"}\n"
    );
    assert_eq!(
        String::from_utf8(encode(LineFormat::Csv, &batch)).unwrap(),
        "t,m,d,s,l,f\n2023-11-14T22:13:20.120Z,-0.50,-0044-03-15,\"a\n\u{1},\",\"[1,null]\",1e100\n,,,,,\n-99999999999999999,,,\"\",[],NaN\n"
    );
}

#[test]
fn a_json_column_that_holds_no_json_is_written_as_a_string() {
    let column = arrow::array::LargeStringArray::from(vec!["{\"a\":\n1}", "x", "1 2", "", " 5 "]);
    let batch = RecordBatch::try_from_iter([("j", Arc::new(column) as ArrayRef)]).unwrap();
    let text = String::from_utf8(encode(LineFormat::Ndjson, &batch)).unwrap();
    assert_eq!(
        text,
        "{\"j\":\"{\\\"a\\\":\\n1}\"}\n{\"j\":\"x\"}\n{\"j\":\"1 2\"}\n{\"j\":\"\"}\n{\"j\": 5 }\n"
    );
}

#[test]
fn a_type_or_a_batch_that_does_not_fit_is_refused_and_writes_nothing() {
    let strange = Arc::new(arrow::datatypes::Schema::new(vec![Field::new("a", DataType::Utf8View, true)]));
    let error = LineFormat::Csv.encoder(strange).unwrap_err();
    assert!(error.to_string().contains("field `a`"), "{error}");
    let encoder = LineFormat::Ndjson.encoder(schema(&[("a", "int64")])).unwrap();
    let mut out = b"before".to_vec();
    assert!(encoder.encode(&batch(&[("a", "int32")], 1, 1), &mut out).is_err());
    assert!(encoder.encode(&batch(&[("b", "int64")], 1, 1), &mut out).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn a_compressed_file_is_whole_behind_each_frame() {
    let fields = [("a", "int64"), ("s", "string")];
    let batches = [batch(&fields, 1, 100), batch(&fields, 2, 50), batch(&fields, 3, 70)];
    for format in [LineFormat::Ndjson, LineFormat::Csv] {
        for compression in [LineCompression::None, LineCompression::Gzip, LineCompression::Zstd] {
            let encoder: Arc<dyn LineEncoder> = format.encoder(batches[0].schema()).unwrap();
            let (mut file, mut plain, mut pending) = (Vec::new(), encoder.header(), encoder.header());
            for batch in &batches {
                encoder.encode(batch, &mut plain).unwrap();
                encoder.encode(batch, &mut pending).unwrap();
                compression.frame(&pending, &mut file).unwrap();
                pending.clear();
                compression.frame(&pending, &mut file).unwrap();
                let mut read = Vec::new();
                match compression {
                    LineCompression::None => read.clone_from(&file),
                    LineCompression::Gzip => {
                        flate2::read::MultiGzDecoder::new(file.as_slice()).read_to_end(&mut read).unwrap();
                    }
                    LineCompression::Zstd => {
                        zstd::stream::read::Decoder::new(file.as_slice())
                            .unwrap()
                            .read_to_end(&mut read)
                            .unwrap();
                    }
                }
                assert_eq!(read, plain, "{format:?} {compression:?}");
            }
        }
    }
}
