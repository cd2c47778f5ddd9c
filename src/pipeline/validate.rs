//! From settings to a [`Pipeline`]: fills in defaults, makes paths absolute and checks every relation
//! between keys, naming both.
//!
//! All that is wrong is collected, not only the first: a person mends a file in one go.

mod paths;
mod sink;
mod steps;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use crate::format::UNKNOWN_COLUMN;
use crate::format::parse_type;
use crate::pipeline::document::Places;
use crate::pipeline::document::join;
use crate::pipeline::model::Checkpointing;
use crate::pipeline::model::FileSource;
use crate::pipeline::model::InputFormat;
use crate::pipeline::model::OnError;
use crate::pipeline::model::Pipeline;
use crate::pipeline::model::Restart;
use crate::pipeline::problem::Problem;
use crate::pipeline::settings;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::settings::CheckpointSettings;
use crate::pipeline::settings::OnErrorSettings;
use crate::pipeline::settings::RestartKind;
use crate::pipeline::settings::RestartSettings;
use crate::pipeline::settings::Settings;
use crate::pipeline::settings::SourceFormat;
use crate::pipeline::settings::SourceKind;
use crate::pipeline::settings::SourceSettings;
use crate::pipeline::settings::UnknownField;

pub(crate) use steps::bind;

/// Longest name of a job: it is part of file names, and of names in other systems.
const NAME_LEN_MAX: usize = 64;
/// What a key or value is told that a later version will know.
const LATER: &str = "this is not in this version of Alluvium";

/// Checks `settings` of the pipeline file `file`, whose paths start from its folder.
pub(crate) fn validate(settings: Settings, places: Places, file: &Path) -> Result<Pipeline, Vec<Problem>> {
    let folder = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let mut check = Check { places, problems: Vec::new(), folder };
    let name = check.name(settings.name);
    let source = check.source(settings.source);
    let schema = settings.schema.map(|fields| check.schema(&fields.0));
    let on_error = check.on_error(settings.on_error);
    let transforms = check.transforms(settings.transform);
    let sink = check.sink(settings.sink, on_error.record_limit);
    let checkpoint = check.checkpoint(settings.checkpoint);
    let restart = check.restart(settings.restart);
    let read =
        schema.as_ref().and_then(Option::as_ref).map(|schema| check.captured(schema, on_error.unknown_field));
    check.records(read.as_ref(), &transforms, &sink);
    let pipeline = Pipeline {
        name,
        file: file.to_path_buf(),
        source,
        schema: schema.flatten(),
        on_error,
        transforms,
        sink,
        checkpoint,
        restart,
        places: check.places.clone(),
        shown: file.to_path_buf(),
    };
    check.places_apart(&pipeline);
    if check.problems.is_empty() { Ok(pipeline) } else { Err(check.problems) }
}

/// The problems found so far, and what is needed to describe more.
struct Check {
    places: Places,
    problems: Vec<Problem>,
    folder: PathBuf,
}

impl Check {
    fn refuse(&mut self, key: &str, reason: impl Into<String>, help: impl Into<String>) {
        let problem = self.places.problem(key, reason).with_help(help);
        self.problems.push(problem);
    }

    fn missing(&mut self, key: &str, help: &str) {
        self.refuse(key, "this key is missing", help);
    }

    fn name(&mut self, name: Option<String>) -> String {
        let Some(name) = name else {
            self.missing("name", "the name is the job's identity, for instance: name = \"clicks\"");
            return String::new();
        };
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !starts || !name.chars().all(good) || name.len() > NAME_LEN_MAX {
            let better: String = name.to_lowercase().chars().map(|c| if good(c) { c } else { '-' }).collect();
            let better = better.trim_matches(['-', '_']).chars().take(NAME_LEN_MAX).collect::<String>();
            let help = if better.is_empty() { String::new() } else { format!("for instance \"{better}\"") };
            self.refuse(
                "name",
                format!(
                    "`{name}` is no name: up to {NAME_LEN_MAX} of a-z, 0-9, - and _, a letter or digit first"
                ),
                help,
            );
        }
        name
    }

    fn source(&mut self, source: Option<SourceSettings>) -> FileSource {
        let mut result = FileSource {
            base: self.folder.clone(),
            path: String::new(),
            format: InputFormat::Ndjson,
            follow: false,
            poll: settings::SOURCE_POLL,
        };
        let Some(source) = source else {
            self.missing("source", "where records come from: [source] with type = \"file\", path and format");
            return result;
        };
        match source.kind {
            None => self.missing("source.type", "type = \"file\""),
            Some(SourceKind::File) => {}
            Some(_) => self.refuse("source.type", LATER, "the source of this version is \"file\""),
        }
        match source.format {
            None => self.missing("source.format", "format = \"ndjson\" or \"csv\""),
            Some(SourceFormat::Ndjson) => {}
            Some(SourceFormat::Csv) => result.format = InputFormat::Csv,
            Some(SourceFormat::Parquet) => {
                self.refuse("source.format", LATER, "the formats of sources are \"ndjson\" and \"csv\"");
            }
        }
        match source.path {
            None => self.missing("source.path", "a file or a pattern: path = \"data/*.ndjson\""),
            Some(path) => {
                self.local("source.path", &path);
                self.pattern(&path);
                result.path = path;
            }
        }
        result.follow = source.follow;
        if let Some(poll) = source.poll {
            if !source.follow {
                self.refuse(
                    "source.poll",
                    "source.poll is the wait between two looks for new lines, but source.follow is false",
                    "set follow = true, or leave poll out",
                );
            } else if poll.0.is_zero() {
                self.refuse(
                    "source.poll",
                    "0 would keep a processor busy with looking",
                    "for instance \"200ms\"",
                );
            }
            result.poll = poll.0;
        }
        result
    }

    fn schema(&mut self, fields: &[(String, String)]) -> Option<SchemaRef> {
        let before = self.problems.len();
        if fields.is_empty() {
            self.refuse(
                "schema",
                "the table names no field",
                "leave [schema] out to have it inferred from the first records",
            );
        }
        let mut columns = Vec::with_capacity(fields.len());
        for (name, text) in fields {
            let key = join("schema", name);
            if name.is_empty() {
                self.refuse(&key, "the name of a field is empty", "");
            }
            match parse_type(text) {
                Ok(data_type) => columns.push(Field::new(name, data_type, true)),
                Err(error) => {
                    let (reason, help) = error.message.split_once("; ").unwrap_or((&error.message, ""));
                    let problem = self.places.problem_within(&key, error.offset, reason).with_help(help);
                    self.problems.push(problem);
                }
            }
        }
        (self.problems.len() == before).then(|| Arc::new(Schema::new(columns)))
    }

    /// The schema of what is read: with one more column where unknown fields are captured.
    fn captured(&mut self, schema: &SchemaRef, unknown: UnknownField) -> SchemaRef {
        if unknown != UnknownField::Capture {
            return Arc::clone(schema);
        }
        if schema.column_with_name(UNKNOWN_COLUMN).is_some() {
            let key = join("schema", UNKNOWN_COLUMN);
            let reason = format!(
                "with on_error.unknown_field = \"capture\" the column `{UNKNOWN_COLUMN}` holds what the schema does not name"
            );
            let problem = self.places.problem_with_key(&key, reason).with_help("call the field otherwise");
            self.problems.push(problem);
            return Arc::clone(schema);
        }
        let mut fields = schema.fields().to_vec();
        fields.push(Arc::new(Field::new(UNKNOWN_COLUMN, DataType::LargeUtf8, true)));
        Arc::new(Schema::new(fields))
    }

    fn on_error(&mut self, on_error: OnErrorSettings) -> OnError {
        let bad_record = on_error.bad_record.unwrap_or_default();
        let dead_letters =
            on_error.dead_letters.as_deref().map(|path| self.folder_path("on_error.dead_letters", path));
        match (bad_record, &dead_letters) {
            (BadRecord::DeadLetter, None) => self.refuse(
                "on_error.bad_record",
                "on_error.bad_record is \"dead_letter\", but on_error.dead_letters names no folder for them",
                "add for instance: dead_letters = \"out/bad\"",
            ),
            (BadRecord::Fail | BadRecord::Skip, Some(_)) => self.refuse(
                "on_error.dead_letters",
                "on_error.dead_letters names a folder, but on_error.bad_record is not \"dead_letter\": nothing would come there",
                "add bad_record = \"dead_letter\", or leave dead_letters out",
            ),
            _ => {}
        }
        let record_limit = on_error.record_limit.map_or(settings::RECORD_LIMIT, |size| size.0);
        if record_limit == 0 || record_limit > settings::RECORD_LIMIT_MAX {
            self.refuse(
                "on_error.record_limit",
                "the longest record must have from 1 byte to 1GB",
                "for instance \"16MB\"",
            );
        }
        OnError {
            bad_record,
            dead_letters,
            unknown_field: on_error.unknown_field.unwrap_or_default(),
            record_limit,
        }
    }

    fn checkpoint(&mut self, checkpoint: CheckpointSettings) -> Checkpointing {
        let state = match checkpoint.state {
            Some(path) => self.folder_path("checkpoint.state", &path),
            None => {
                self.missing(
                    "checkpoint.state",
                    "the job's own directory, for instance: state = \"state/clicks\"",
                );
                PathBuf::new()
            }
        };
        if checkpoint.replicate.is_some() {
            self.refuse(
                "checkpoint.replicate",
                LATER,
                "leave it out: the state lives on this machine's disk",
            );
        }
        let interval = checkpoint.interval.map_or(settings::CHECKPOINT_INTERVAL, |span| span.0);
        if interval.is_zero() {
            self.refuse(
                "checkpoint.interval",
                "0 would leave no time between two checkpoints",
                "for instance \"10s\"",
            );
        }
        let timeout = checkpoint.timeout.map_or(settings::CHECKPOINT_TIMEOUT, |span| span.0);
        if timeout.is_zero() {
            self.refuse(
                "checkpoint.timeout",
                "with 0 no checkpoint would ever complete",
                "for instance \"10m\"",
            );
        }
        let retain = checkpoint.retain.map_or(settings::CHECKPOINT_RETAIN as u64, |count| count.0);
        if !(1..=settings::CHECKPOINT_RETAIN_MAX).contains(&retain) {
            self.refuse(
                "checkpoint.retain",
                format!("from 1 to {} checkpoints are kept", settings::CHECKPOINT_RETAIN_MAX),
                "a recovery needs the newest",
            );
        }
        let tolerated = checkpoint
            .tolerated_failures
            .map_or(settings::CHECKPOINT_TOLERATED_FAILURES.into(), |count| count.0);
        let tolerated_failures = self.small("checkpoint.tolerated_failures", tolerated);
        Checkpointing {
            interval,
            state,
            retain: usize::try_from(retain).unwrap_or(settings::CHECKPOINT_RETAIN),
            mode: checkpoint.mode.unwrap_or_default(),
            timeout,
            tolerated_failures,
        }
    }

    fn restart(&mut self, restart: RestartSettings) -> Restart {
        let kind = restart.strategy.unwrap_or_default();
        let given = [
            ("delay", restart.delay.is_some(), kind != RestartKind::None),
            ("attempts", restart.attempts.is_some(), kind != RestartKind::None),
            ("delay_max", restart.delay_max.is_some(), kind == RestartKind::Exponential),
            ("multiplier", restart.multiplier.is_some(), kind == RestartKind::Exponential),
            ("jitter", restart.jitter.is_some(), kind == RestartKind::Exponential),
            ("reset_after", restart.reset_after.is_some(), kind == RestartKind::Exponential),
        ];
        let strategy = match kind {
            RestartKind::Exponential => "exponential",
            RestartKind::Fixed => "fixed",
            RestartKind::None => "none",
        };
        for (key, is_given, belongs) in given {
            if is_given && !belongs {
                self.refuse(
                    &format!("restart.{key}"),
                    format!("restart.{key} has no meaning with restart.strategy = \"{strategy}\""),
                    "leave it out, or use strategy = \"exponential\"",
                );
            }
        }
        let attempts = restart.attempts.map_or(settings::RESTART_ATTEMPTS.into(), |count| count.0);
        let attempts = self.small("restart.attempts", attempts);
        if restart.attempts.is_some() && attempts == 0 && kind != RestartKind::None {
            self.refuse(
                "restart.attempts",
                "with 0 attempts nothing is ever restarted",
                "write strategy = \"none\" for that",
            );
        }
        let delay = restart.delay.map_or(settings::RESTART_DELAY, |span| span.0);
        match kind {
            RestartKind::None => Restart::Never,
            RestartKind::Fixed => Restart::Fixed { delay, attempts },
            RestartKind::Exponential => {
                let delay_max =
                    restart.delay_max.map_or(settings::RESTART_DELAY_MAX.max(delay), |span| span.0);
                if delay > delay_max {
                    self.refuse("restart.delay", "restart.delay is longer than restart.delay_max", "");
                }
                if delay.is_zero() {
                    self.refuse("restart.delay", "0 never grows", "for instance \"1s\"");
                }
                let multiplier = restart.multiplier.map_or(settings::RESTART_MULTIPLIER, |number| number.0);
                if !(1.0..=100.0).contains(&multiplier) {
                    self.refuse("restart.multiplier", "the multiplier must be from 1 to 100", "");
                }
                let jitter = restart.jitter.map_or(settings::RESTART_JITTER, |number| number.0);
                if !(0.0..=1.0).contains(&jitter) {
                    self.refuse(
                        "restart.jitter",
                        "the jitter must be from 0 to 1 (1: up to twice the wait)",
                        "",
                    );
                }
                let reset_after = restart.reset_after.map_or(settings::RESTART_RESET_AFTER, |span| span.0);
                Restart::Exponential { delay, delay_max, multiplier, jitter, reset_after, attempts }
            }
        }
    }

    fn small(&mut self, key: &str, number: u64) -> u32 {
        u32::try_from(number).unwrap_or_else(|_| {
            self.refuse(key, format!("the number must be at most {}", u32::MAX), "");
            0
        })
    }
}
