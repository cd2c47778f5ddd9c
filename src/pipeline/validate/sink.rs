//! `[sink]`.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use super::Check;
use super::LATER;
use crate::pipeline::levels;
use crate::pipeline::model::Compression;
use crate::pipeline::model::FileSink;
use crate::pipeline::model::Parquet;
use crate::pipeline::model::Roll;
use crate::pipeline::problem::nearest;
use crate::pipeline::settings;
use crate::pipeline::settings::ParquetSettings;
use crate::pipeline::settings::RollSettings;
use crate::pipeline::settings::SinkFormat;
use crate::pipeline::settings::SinkKind;
use crate::pipeline::settings::SinkSettings;
use crate::pipeline::units::ByteSize;

impl Check {
    pub(super) fn sink(&mut self, sink: Option<SinkSettings>, record_limit: u64) -> FileSink {
        let given = sink.is_some();
        let sink = sink.unwrap_or_default();
        if !given {
            self.missing("sink", "where records go: [sink] with type = \"file\", path and format");
        }
        match sink.kind {
            None if given => self.missing("sink.type", "type = \"file\""),
            None | Some(SinkKind::File) => {}
            Some(_) => self.refuse("sink.type", LATER, "the sink of this version is \"file\""),
        }
        let path = match &sink.path {
            Some(path) => self.folder_path("sink.path", path),
            None => {
                if given {
                    self.missing("sink.path", "the table's folder, for instance: path = \"out/clicks\"");
                }
                PathBuf::new()
            }
        };
        if sink.format.is_none() && given {
            self.missing("sink.format", "format = \"parquet\", \"ndjson\" or \"csv\"");
        }
        let format = sink.format.unwrap_or_default();
        for problem in levels::check_texts(&sink.partition_by) {
            self.refuse(
                &format!("sink.partition_by[{}]", problem.level),
                problem.reason,
                problem.help.unwrap_or_default(),
            );
        }
        let time_zone = self.time_zone(sink.time_zone.as_deref());
        let roll = self.roll(&sink.roll);
        let memory = sink.memory.map_or(settings::SINK_MEMORY, |size| size.0);
        if memory < settings::SINK_MEMORY_MIN {
            self.refuse(
                "sink.memory",
                format!(
                    "{} is too little to gather rows in: at least {}",
                    ByteSize(memory),
                    ByteSize(settings::SINK_MEMORY_MIN)
                ),
                format!("the default is \"{}\"", ByteSize(settings::SINK_MEMORY)),
            );
        } else if memory < record_limit {
            self.refuse(
                "sink.memory",
                format!(
                    "sink.memory ({}) is less than on_error.record_limit ({}): one record could exceed it",
                    ByteSize(memory),
                    ByteSize(record_limit)
                ),
                "raise sink.memory, or lower on_error.record_limit",
            );
        }
        let descriptors = sink.descriptors.map_or(settings::SINK_DESCRIPTORS as u64, |count| count.0);
        if !(1..=1 << 20).contains(&descriptors) {
            self.refuse("sink.descriptors", "from 1 to 1048576 files may be open", "for instance 128");
        }
        if sink.parquet.is_some() && format != SinkFormat::Parquet {
            self.refuse(
                "sink.parquet",
                "sink.parquet says how Parquet is written, but sink.format is not \"parquet\"",
                "leave one of the two out",
            );
        }
        let parquet = self.parquet(sink.parquet.unwrap_or_default());
        FileSink {
            path,
            format,
            partition_by: sink.partition_by,
            time_zone,
            roll,
            memory,
            descriptors: usize::try_from(descriptors).unwrap_or(settings::SINK_DESCRIPTORS),
            parquet,
            success_file: sink.success_file,
        }
    }

    fn time_zone(&mut self, name: Option<&str>) -> TimeZone {
        let Some(name) = name else { return TimeZone::UTC };
        let zones = jiff::tz::db();
        match zones.get(name) {
            Ok(zone) => zone,
            Err(_) => {
                let known: Vec<String> = zones.available().map(|zone| zone.to_string()).collect();
                // People write the city alone.
                let city = |zone: &&String| {
                    zone.rsplit('/')
                        .next()
                        .is_some_and(|city| city.eq_ignore_ascii_case(&name.replace(' ', "_")))
                };
                let near = known
                    .iter()
                    .find(city)
                    .map(String::as_str)
                    .or_else(|| nearest(name, known.iter().map(String::as_str)));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "names are those of the IANA database: \"UTC\", \"Europe/Berlin\"".to_owned(),
                };
                self.refuse("sink.time_zone", format!("there is no time zone `{name}`"), help);
                TimeZone::UTC
            }
        }
    }

    fn roll(&mut self, roll: &RollSettings) -> Roll {
        const EVERY_ROW: &str = "0 would give every row a file of its own";
        let result = Roll {
            size: roll.size.map_or(settings::ROLL_SIZE, |size| size.0),
            rows: roll.rows.map(|count| count.0),
            age: roll.age.map_or(settings::ROLL_AGE, |span| span.0),
            inactivity: roll.inactivity.map_or(settings::ROLL_INACTIVITY, |span| span.0),
        };
        if result.size == 0 {
            self.refuse("sink.roll.size", EVERY_ROW, "for instance \"256MB\"");
        }
        if result.rows == Some(0) {
            self.refuse("sink.roll.rows", EVERY_ROW, "leave it out for no limit");
        }
        if result.age.is_zero() {
            self.refuse("sink.roll.age", EVERY_ROW, "for instance \"15m\"");
        }
        if result.inactivity.is_zero() {
            self.refuse("sink.roll.inactivity", EVERY_ROW, "for instance \"5m\"");
        }
        // Where only the age is given, the default of the other must not be the odd one.
        if roll.inactivity.is_some()
            && roll.age.is_some()
            && result.inactivity > result.age
            && !result.age.is_zero()
        {
            self.refuse(
                "sink.roll.inactivity",
                "sink.roll.inactivity is longer than sink.roll.age: it would never close a file",
                "make it shorter, or leave it out",
            );
        }
        result
    }

    fn parquet(&mut self, parquet: ParquetSettings) -> Parquet {
        if parquet.encryption.is_some() {
            self.refuse(
                "sink.parquet.encryption",
                "Parquet encryption is not supported: its keys are bound to the place of each row group, and files that outlive checkpoints are put together from row groups later",
                "encrypt the disk or the bucket instead",
            );
        }
        let compression = match parquet.compression.as_deref().map(Compression::parse) {
            None => Compression::Zstd(settings::ZSTD_LEVEL),
            Some(Ok(compression)) => compression,
            Some(Err(help)) => {
                let text = parquet.compression.unwrap_or_default();
                self.refuse("sink.parquet.compression", format!("`{text}` is no compression"), help);
                Compression::None
            }
        };
        let row_group_rows = parquet.row_group_rows.map_or(settings::ROW_GROUP_ROWS, |count| count.0);
        if !(1..=settings::ROW_GROUP_ROWS_MAX).contains(&row_group_rows) {
            self.refuse(
                "sink.parquet.row_group_rows",
                format!("a row group holds from 1 to {} rows", settings::ROW_GROUP_ROWS_MAX),
                format!("the default is {}", settings::ROW_GROUP_ROWS),
            );
        }
        Parquet {
            compression,
            row_group_rows,
            dictionary: parquet.dictionary.unwrap_or(true),
            bloom_filter: parquet.bloom_filter,
        }
    }
}
