use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::metadata::ParquetMetaData;

use super::*;
use crate::error::ErrorKind;
use crate::format::sample;

fn small() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]))
}

fn key_values() -> Vec<(String, String)> {
    vec![("alluvium.spans".to_owned(), "{\"a.ndjson\":[0,17]}".to_owned())]
}

/// Writes each group by an encoder of its own, as if a crash lay between any two of them.
fn with_crashes(schema: &SchemaRef, settings: &ParquetSettings, groups: &[Vec<RecordBatch>]) -> Vec<u8> {
    let mut file = head().to_vec();
    let mut metas = Vec::new();
    for group in groups {
        let kept = file.len();
        file.extend_from_slice(b"what a crash left behind the last remembered row group");
        file.truncate(kept);
        let mut encoder = RowGroupEncoder::new(schema, settings, file.len() as u64).unwrap();
        for batch in group {
            encoder.write(batch).unwrap();
        }
        let encoded = encoder.finish().unwrap();
        assert_eq!(encoded.rows, group.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
        let place = RowGroupPlace::of(&encoded.meta).unwrap();
        assert_eq!((place.offset, place.len), (file.len() as u64, encoded.bytes.len() as u64));
        file.extend_from_slice(&encoded.bytes);
        metas.push(encoded.meta);
    }
    file.extend(footer(schema, settings, file.len() as u64, &metas, &key_values()).unwrap());
    file
}

/// Writes the same by the library's own writer, in one go.
fn in_one_go(schema: &SchemaRef, settings: &ParquetSettings, groups: &[Vec<RecordBatch>]) -> Vec<u8> {
    let mut file = Vec::new();
    let properties = settings::Plan::new(schema, settings).unwrap().properties;
    let properties = properties.as_ref().clone().into_builder().set_max_row_group_row_count(None).build();
    let mut writer = ArrowWriter::try_new(&mut file, Arc::clone(schema), Some(properties)).unwrap();
    for group in groups {
        for batch in group {
            writer.write(batch).unwrap();
        }
        writer.flush().unwrap();
    }
    for (key, value) in key_values() {
        writer.append_key_value_metadata(KeyValue::new(key, value));
    }
    writer.close().unwrap();
    file
}

fn read(file: Vec<u8>) -> (Arc<ParquetMetaData>, RecordBatch) {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::from(file), options).unwrap();
    let (metadata, schema) = (Arc::clone(reader.metadata()), Arc::clone(reader.schema()));
    let batches = reader.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    (metadata, concat_batches(&schema, &batches).unwrap())
}

#[test]
fn a_file_written_across_crashes_is_the_file_that_one_writer_would_write() {
    let schema = sample::schema();
    let groups: Vec<Vec<_>> = [[3000, 1], [1, 1], [17, 2500], [700, 700]]
        .iter()
        .enumerate()
        .map(|(i, rows)| vec![sample::batch(&schema, i as u64, rows[0]), sample::batch(&schema, 9, rows[1])])
        .collect();
    let blooms = vec!["id".to_owned(), "f27.c.name".to_owned(), "f24.list.item".to_owned()];
    let defaults = ParquetSettings::default();
    for settings in [
        ParquetSettings { bloom_filters: blooms.clone(), data_page_rows: 1000, ..defaults.clone() },
        ParquetSettings {
            compression: Codec::None,
            dictionary: false,
            data_page_bytes: 2000,
            ..defaults.clone()
        },
        ParquetSettings {
            compression: Codec::Snappy,
            page_index: false,
            bloom_filters: blooms,
            ..defaults.clone()
        },
        ParquetSettings { compression: Codec::Lz4, statistics: false, ..defaults.clone() },
        ParquetSettings { compression: Codec::Gzip(1), ..defaults.clone() },
    ] {
        let ours = with_crashes(&schema, &settings, &groups);
        assert_same(&ours, &in_one_go(&schema, &settings, &groups), &format!("{settings:?}"));
    }
}

/// R1, with the differing part of the footer when it fails.
fn assert_same(ours: &[u8], theirs: &[u8], what: &str) {
    if let Some(at) = ours.iter().zip(theirs).position(|(a, b)| a != b) {
        let footer = |file: &[u8]| {
            let metadata = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(file)).unwrap();
            format!("{:#?}", metadata.metadata())
        };
        let (a, b) = (footer(ours), footer(theirs));
        let line = a.lines().zip(b.lines()).find(|(a, b)| a != b);
        panic!("{what}: byte {at} of {} and {} differs, {line:?}", ours.len(), theirs.len());
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
}

#[test]
fn every_type_comes_back_as_it_was_written() {
    let schema = sample::schema();
    let groups = [vec![sample::batch(&schema, 1, 1500)], vec![sample::batch(&schema, 2, 900)]];
    let (metadata, read) = read(with_crashes(&schema, &ParquetSettings::default(), &groups));
    assert_eq!(read.schema().fields(), schema.fields());
    assert_eq!(read.columns(), concat_batches(&schema, groups.iter().flatten()).unwrap().columns());

    assert_eq!(metadata.file_metadata().num_rows(), 2400);
    let pages = metadata.page_index().unwrap();
    for (i, group) in metadata.row_groups().iter().enumerate() {
        assert_eq!(group.ordinal(), Some(i as i32));
        for (c, column) in group.columns().iter().enumerate() {
            assert!(column.statistics().is_some(), "{}", column.column_path());
            assert!(pages.column_index(i, c).is_some(), "{}", column.column_path());
            assert!(pages.offset_index(i, c).is_some(), "{}", column.column_path());
        }
    }
}

#[test]
fn only_the_named_columns_have_a_bloom_filter() {
    let schema = small();
    let groups = [vec![sample::batch(&schema, 1, 100)]];
    for (names, expected) in [(vec![], [false, false]), (vec!["name".to_owned()], [false, true])] {
        let settings = ParquetSettings { bloom_filters: names, ..ParquetSettings::default() };
        let (metadata, _) = read(with_crashes(&schema, &settings, &groups));
        let columns = metadata.row_group(0).columns();
        assert_eq!(columns.iter().map(|c| c.bloom_filter_offset().is_some()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_thousand_row_groups_make_one_file() {
    let schema = small();
    let settings =
        ParquetSettings { bloom_filters: vec!["name".to_owned()], row_group_rows: 8, ..Default::default() };
    let groups: Vec<_> = (0..1000).map(|i| vec![sample::batch(&schema, i, 3)]).collect();
    let file = with_crashes(&schema, &settings, &groups);
    assert_same(&file, &in_one_go(&schema, &settings, &groups), "a thousand");
    let (metadata, rows) = read(file);
    assert_eq!((metadata.num_row_groups(), rows.num_rows()), (1000, 3000));
    assert_eq!(metadata.row_group(999).ordinal(), Some(999));
}

#[test]
fn a_file_without_rows_is_a_valid_file() {
    let schema = sample::schema();
    let file = with_crashes(&schema, &ParquetSettings::default(), &[]);
    assert_same(&file, &in_one_go(&schema, &ParquetSettings::default(), &[]), "no rows");
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    assert_eq!(reader.schema().fields(), schema.fields());
}

#[test]
fn columns_encoded_apart_give_the_same_row_group() {
    let schema = Arc::new(sample::schema().project(&[4, 11, 24, 27]).unwrap());
    let settings = ParquetSettings::default();
    let batch = sample::batch(&schema, 5, SLICE_ROWS + 1000);
    let mut encoder = RowGroupEncoder::new(&schema, &settings, 77).unwrap();
    encoder.write(&batch).unwrap();
    let apart = columns(&schema, &settings).unwrap().into_iter().zip(batch.columns()).rev();
    let mut encoded: Vec<_> = apart
        .map(|(mut encoder, column)| {
            encoder.write(column).unwrap();
            encoder.finish().unwrap()
        })
        .collect();
    encoded.reverse();
    assert!(assemble(&schema, &settings, 77, encoded).unwrap() == encoder.finish().unwrap());
}

#[test]
fn an_offset_of_many_gigabytes_is_kept_exactly() {
    let (schema, settings) = (small(), ParquetSettings::default());
    let offset = 40 << 30;
    let mut encoder = RowGroupEncoder::new(&schema, &settings, offset).unwrap();
    encoder.write(&sample::batch(&schema, 1, 10)).unwrap();
    let group = encoder.finish().unwrap();
    let (place, metadata) = row_group::read_meta(&group.meta).unwrap();
    assert_eq!(place.offset, offset);
    assert_eq!(metadata.row_group(0).file_offset(), Some(offset as i64));
    assert_eq!(metadata.row_group(0).column(0).byte_range().0, offset);
}

#[test]
fn a_meta_of_two_columns_is_about_a_kilobyte() {
    let (schema, settings) = (small(), ParquetSettings::default());
    let mut encoder = RowGroupEncoder::new(&schema, &settings, 4).unwrap();
    for i in 0..5 {
        encoder.write(&sample::batch(&schema, i, 20_000)).unwrap();
    }
    let meta = encoder.finish().unwrap().meta;
    assert!(meta.len() < 1500, "{}", meta.len());
}

#[test]
fn metas_that_do_not_cover_the_file_are_refused() {
    let (schema, settings) = (small(), ParquetSettings::default());
    let group = |offset| {
        let mut encoder = RowGroupEncoder::new(&schema, &settings, offset).unwrap();
        encoder.write(&sample::batch(&schema, 1, 10)).unwrap();
        encoder.finish().unwrap()
    };
    let first = group(4);
    let second = group(4 + first.bytes.len() as u64);
    let end = 4 + (first.bytes.len() + second.bytes.len()) as u64;
    let (first, second) = (first.meta, second.meta);
    let complete = |offset, metas: &[Vec<u8>]| footer(&schema, &settings, offset, metas, &[]);
    assert!(complete(end, &[first.clone(), second.clone()]).is_ok());
    for (offset, metas) in [
        (end, vec![second.clone()]),
        (end, vec![first.clone()]),
        (end, vec![second.clone(), first.clone()]),
        (end, vec![first.clone(), first.clone()]),
        (end, vec![]),
        (end - 1, vec![first.clone(), second.clone()]),
        (end + 1, vec![first.clone(), second.clone()]),
        (end, vec![first.clone(), second[..20].to_vec()]),
        (end, vec![first.clone(), second[..second.len() - 1].to_vec()]),
        (end, vec![first.clone(), Vec::new()]),
        (end, vec![first.clone(), [&[2], &second[1..]].concat()]),
    ] {
        assert_eq!(complete(offset, &metas).unwrap_err().kind(), ErrorKind::Damage, "R2");
    }
}

#[test]
fn a_row_group_of_another_schema_is_refused() {
    let (schema, settings) = (small(), ParquetSettings::default());
    let mut encoder = RowGroupEncoder::new(&schema, &settings, 4).unwrap();
    encoder.write(&sample::batch(&schema, 1, 10)).unwrap();
    let group = encoder.finish().unwrap();
    let other = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let end = 4 + group.bytes.len() as u64;
    assert_eq!(footer(&other, &settings, end, &[group.meta], &[]).unwrap_err().kind(), ErrorKind::Damage);

    let mut encoder = RowGroupEncoder::new(&other, &settings, 4).unwrap();
    assert!(encoder.write(&sample::batch(&sample::schema(), 1, 10)).is_err());
    let swapped = Arc::new(Schema::new(vec![schema.field(1).clone(), schema.field(0).clone()]));
    assert!(encoder.write(&sample::batch(&swapped, 1, 10)).is_err());
}

#[test]
fn a_row_group_without_rows_is_refused() {
    let encoder = RowGroupEncoder::new(&small(), &ParquetSettings::default(), 4).unwrap();
    assert_eq!(encoder.finish().unwrap_err().kind(), ErrorKind::Fatal);
}

#[test]
fn the_fingerprint_changes_with_schema_and_settings_and_with_nothing_else() {
    let (schema, settings) = (small(), ParquetSettings::default());
    let print = fingerprint(&schema, &settings);
    assert_eq!(print, fingerprint(&small(), &ParquetSettings::default()));
    let named = Arc::new(schema.as_ref().clone().with_metadata([("a".to_owned(), "b".to_owned())]));
    let required = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ]));
    for other in [sample::schema(), named, required] {
        assert_ne!(print, fingerprint(&other, &settings));
    }
    for other in [
        ParquetSettings { compression: Codec::Zstd(3), ..settings.clone() },
        ParquetSettings { dictionary: false, ..settings.clone() },
        ParquetSettings { bloom_filters: vec!["id".to_owned()], ..settings.clone() },
    ] {
        assert_ne!(print, fingerprint(&schema, &other));
    }
}

#[test]
fn settings_are_read_as_a_pipeline_file_writes_them() {
    let read = |text| toml::from_str::<ParquetSettings>(text);
    assert_eq!(read("").unwrap(), ParquetSettings::default());
    let settings = read("compression = \"zstd(3)\"\nrow_group_rows = 1000\n").unwrap();
    assert_eq!((settings.compression, settings.row_group_rows), (Codec::Zstd(3), 1000));
    for (text, codec) in [
        ("none", Codec::None),
        ("snappy", Codec::Snappy),
        ("lz4", Codec::Lz4),
        ("gzip", Codec::Gzip(6)),
        ("gzip(9)", Codec::Gzip(9)),
        ("zstd", Codec::Zstd(1)),
        ("zstd(22)", Codec::Zstd(22)),
    ] {
        assert_eq!(text.parse::<Codec>().unwrap(), codec);
        assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
    }
    for wrong in
        ["zstd(0)", "zstd(23)", "gzip(0)", "gzip(10)", "snappy(1)", "zstd(", "zstd(3", "ZSTD", "", "brotli"]
    {
        assert_eq!(wrong.parse::<Codec>().unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
    }
    assert!(read("compresion = \"zstd\"").is_err());
}

#[test]
fn settings_that_do_not_fit_the_schema_are_a_usage_error() {
    let wrong = [
        ParquetSettings { bloom_filters: vec!["nam".to_owned()], ..Default::default() },
        ParquetSettings { row_group_rows: 0, ..Default::default() },
        ParquetSettings { data_page_rows: 0, ..Default::default() },
        ParquetSettings { data_page_bytes: 0, ..Default::default() },
        ParquetSettings { compression: Codec::Zstd(40), ..Default::default() },
    ];
    for settings in wrong {
        assert_eq!(settings.validate(&small()).unwrap_err().kind(), ErrorKind::Usage, "{settings:?}");
    }
    assert!(ParquetSettings::default().validate(&small()).is_ok());
}
