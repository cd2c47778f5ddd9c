//! What each part of a job is made of, from the settings of its pipeline.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::checkpoint::CoordinatorSettings;
use crate::checkpoint::RestartPolicy;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::format::Csv;
use crate::format::DecodeOptions;
use crate::format::Inference;
use crate::format::InputFormat;
use crate::format::Ndjson;
use crate::format::Unknown;
use crate::format::dead_letter_schema;
use crate::format::parquet::Codec;
use crate::format::parquet::ParquetSettings;
use crate::format::parse_schema;
use crate::format::schema_text;
use crate::format::type_text;
use crate::pipeline::model;
use crate::pipeline::model::Pipeline;
use crate::pipeline::model::Restart;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::settings::Mode;
use crate::pipeline::settings::SinkFormat;
use crate::pipeline::settings::UnknownField;
use crate::runtime::DataflowSettings;
use crate::sink::file::FileSink;
use crate::sink::file::FileSinkSettings;
use crate::sink::file::Identity;
use crate::sink::file::LineSettings;
use crate::sink::file::OnUnplaced;
use crate::sink::file::PartFormat;
use crate::sink::file::RollingPolicy;
use crate::sink::file::bucket::BucketAssigner;
use crate::sink::file::bucket::BucketTemplate;
use crate::sink::file::bucket::NoBuckets;
use crate::source::FileSettings;
use crate::source::Sample;
use crate::source::sample;
use crate::state::State;

/// Where the source's state holds the schema that was inferred.
pub(super) const INFERRED: &[u8] = b"inferred-schema";
/// Lines of the input that a guess is made from.
pub(super) const SAMPLE_LINES: usize = 10_000;

/// The schema of the records: declared, or inferred once and then fixed in the state.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when it cannot be inferred, with a `[schema]` to paste.
pub(super) async fn schema(pipeline: &Pipeline, state: &mut State, doors: &Doors) -> Result<SchemaRef> {
    if let Some(schema) = &pipeline.schema {
        return Ok(Arc::clone(schema));
    }
    if let Some(fixed) = state.get(INFERRED)? {
        return fixed_schema(&fixed);
    }
    let inferred = infer(pipeline, doors).await?;
    let lines: Vec<(String, String)> =
        inferred.fields().iter().map(|field| (field.name().clone(), type_text(field.data_type()))).collect();
    let fixed = serde_json::to_vec(&lines)
        .map_err(|error| Error::retry("the inferred schema cannot be kept").with_source(error))?;
    state.put(INFERRED, &fixed);
    tracing::info!(schema = %schema_text(&inferred), "inferred the schema from the first records");
    Ok(inferred)
}

/// The schema that an earlier run has inferred and kept as `value`.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when it is none.
pub(super) fn fixed_schema(value: &[u8]) -> Result<SchemaRef> {
    let lines: Vec<(String, String)> = serde_json::from_slice(value).map_err(|error| {
        Error::damage("the inferred schema in the state cannot be read").with_source(error)
    })?;
    Ok(parse_schema(lines)?)
}

/// Infers the schema from the first records of the input.
pub(super) async fn infer(pipeline: &Pipeline, doors: &Doors) -> Result<SchemaRef> {
    infer_from(pipeline, &sample(&source(pipeline)?, doors, SAMPLE_LINES).await?)
}

/// Infers the schema from `samples`.
///
/// # Errors
///
/// As [`schema`].
pub(super) fn infer_from(pipeline: &Pipeline, samples: &[Sample]) -> Result<SchemaRef> {
    let mut inference = match pipeline.source.format {
        model::InputFormat::Ndjson => Inference::ndjson(),
        model::InputFormat::Csv => Inference::csv(),
    };
    for part in samples {
        if inference.wants_more() {
            inference.add(&part.bytes, !part.is_cut).map_err(|error| {
                Error::from(error).context(format!("{}: the schema cannot be inferred", part.split))
            })?;
        }
    }
    Ok(inference.finish()?)
}

/// How records are decoded.
pub(super) fn input_format(pipeline: &Pipeline, schema: &SchemaRef) -> Result<Arc<dyn InputFormat>> {
    let options = DecodeOptions {
        schema: Arc::clone(schema),
        unknown: match pipeline.on_error.unknown_field {
            UnknownField::Ignore => Unknown::Ignore,
            UnknownField::Fail => Unknown::Fail,
            UnknownField::Capture => Unknown::Capture,
        },
    };
    let limit = pipeline.on_error.record_limit;
    Ok(match pipeline.source.format {
        model::InputFormat::Ndjson => Arc::new(Ndjson::new(&options)?.with_record_bytes_max(limit)?),
        model::InputFormat::Csv => Arc::new(Csv::new(&options)?.with_record_bytes_max(limit)?),
    })
}

/// Which files are read, and how.
pub(super) fn source(pipeline: &Pipeline) -> Result<FileSettings> {
    let from = &pipeline.source;
    Ok(FileSettings {
        follow: from.follow,
        poll: from.poll,
        record_limit: usize::try_from(pipeline.on_error.record_limit)
            .map_err(|_| Error::usage("on_error.record_limit is more than this machine can address"))?,
        ..FileSettings::new(&from.base, &from.path)
    })
}

/// The table, for rows of `schema`.
pub(super) fn table(
    pipeline: &Pipeline,
    schema: &SchemaRef,
    identity: Identity,
    doors: &Doors,
    accept_loss: bool,
) -> Result<FileSink> {
    let to = &pipeline.sink;
    let roll = RollingPolicy {
        bytes_min: Some(to.roll.size),
        rows_min: to.roll.rows,
        age: Some(to.roll.age),
        inactivity: Some(to.roll.inactivity),
    };
    let settings = FileSinkSettings {
        format: part_format(to),
        roll,
        memory_bytes: to.memory,
        descriptors_max: to.descriptors,
        accept_loss,
        unplaced: match pipeline.on_error.bad_record {
            BadRecord::Fail => OnUnplaced::Fail,
            BadRecord::DeadLetter | BadRecord::Skip => OnUnplaced::Reject,
        },
        ..FileSinkSettings::new(&to.path)
    };
    FileSink::new(settings, Arc::clone(schema), buckets(to, schema)?, identity, doors.clone())
}

/// Which folder of the table `to` a row of `schema` goes to.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when the levels do not fit the schema.
pub(super) fn buckets(to: &model::FileSink, schema: &SchemaRef) -> Result<Arc<dyn BucketAssigner>> {
    Ok(if to.partition_by.is_empty() {
        Arc::new(NoBuckets::new(schema))
    } else {
        Arc::new(BucketTemplate::new(&to.partition_by, &to.time_zone, schema)?)
    })
}

/// How the files of the table `to` are written.
pub(super) fn part_format(to: &model::FileSink) -> PartFormat {
    match to.format {
        SinkFormat::Parquet => PartFormat::Parquet(ParquetSettings {
            compression: match to.parquet.compression {
                model::Compression::None => Codec::None,
                model::Compression::Snappy => Codec::Snappy,
                model::Compression::Lz4 => Codec::Lz4,
                model::Compression::Gzip(level) => Codec::Gzip(level),
                model::Compression::Zstd(level) => Codec::Zstd(level),
            },
            row_group_rows: to.parquet.row_group_rows,
            dictionary: to.parquet.dictionary,
            bloom_filters: to.parquet.bloom_filter.clone(),
            ..ParquetSettings::default()
        }),
        SinkFormat::Ndjson => PartFormat::Ndjson(LineSettings::default()),
        SinkFormat::Csv => PartFormat::Csv(LineSettings::default()),
    }
}

/// How the files of dead letters are written.
pub(super) fn letters_format() -> PartFormat {
    PartFormat::Ndjson(LineSettings::default())
}

/// The table of dead letters: NDJSON without buckets, rolled as the main table is.
pub(super) fn dead_letters(
    pipeline: &Pipeline,
    folder: &std::path::Path,
    identity: Identity,
    doors: &Doors,
    accept_loss: bool,
) -> Result<FileSink> {
    let schema = dead_letter_schema();
    let settings = FileSinkSettings {
        format: letters_format(),
        roll: RollingPolicy {
            bytes_min: Some(pipeline.sink.roll.size),
            rows_min: None,
            age: Some(pipeline.sink.roll.age),
            inactivity: Some(pipeline.sink.roll.inactivity),
        },
        // Bad records are few, and cut at 64 KiB each.
        memory_bytes: pipeline.sink.memory / 16,
        accept_loss,
        ..FileSinkSettings::new(folder)
    };
    let assigner = Arc::new(NoBuckets::new(&schema));
    FileSink::new(settings, schema, assigner, identity, doors.clone())
}

/// How the dataflow runs.
pub(super) fn dataflow(pipeline: &Pipeline) -> DataflowSettings {
    let checkpoint = &pipeline.checkpoint;
    DataflowSettings {
        coordinator: CoordinatorSettings {
            interval: checkpoint.interval,
            timeout: checkpoint.timeout,
            tolerated_failures: checkpoint.tolerated_failures,
        },
        channel_bytes: DataflowSettings::CHANNEL_BYTES,
        exactly_once: checkpoint.mode == Mode::ExactlyOnce,
    }
}

/// When a failed job starts again.
pub(super) fn restart_policy(restart: &Restart) -> RestartPolicy {
    match *restart {
        Restart::Never => RestartPolicy::None,
        Restart::Fixed { delay, attempts } => {
            RestartPolicy::FixedDelay { delay, attempts_max: Some(attempts) }
        }
        Restart::Exponential { delay, delay_max, multiplier, jitter, reset_after, attempts } => {
            RestartPolicy::Exponential {
                first: delay,
                multiplier,
                max: delay_max,
                jitter_percent: (jitter * 100.0).clamp(0.0, 100.0).round() as u32,
                reset_after,
                attempts_max: Some(attempts),
            }
        }
    }
}
