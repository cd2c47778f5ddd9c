//! What each part of a job is made of, from the settings of its pipeline.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use crate::checkpoint::CoordinatorSettings;
use crate::checkpoint::RestartPolicy;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::format::Csv;
use crate::format::DecodeOptions;
use crate::format::InputFormat;
use crate::format::Ndjson;
use crate::format::Unknown;
use crate::format::dead_letter_schema;
use crate::format::parquet::Codec;
use crate::format::parquet::ParquetSettings;
use crate::format::parse_schema;
use crate::format::schema_text;
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
use crate::sink::file::OnUnplaced;
use crate::sink::file::PartFormat;
use crate::sink::file::RollingPolicy;
use crate::sink::file::bucket::BucketAssigner;
use crate::sink::file::bucket::BucketTemplate;
use crate::sink::file::bucket::NoBuckets;
use crate::source::file::FileSettings;
use crate::state::State;

/// Where the source's state holds the schema that was inferred.
const INFERRED: &[u8] = b"inferred-schema";
