//! The levels of `partition_by`, as far as they can be judged without rows: `name={field}`,
//! `name={field:format}`, `name={arrival:format}`.

use arrow::datatypes::DataType;
use arrow::datatypes::Schema;
use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use crate::format::type_text;
use crate::pipeline::problem::suggest;

/// The word that stands for the time at which a row was taken in.
const ARRIVAL: &str = "arrival";
/// Longest level name: with a value of at most 200 bytes a folder name stays below 255.
const NAME_BYTES_MAX: usize = 54;
/// More levels than this are a mistake.
const LEVELS_MAX: usize = 16;

/// A level's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level<'t> {
    pub name: &'t str,
    pub field: &'t str,
    pub format: Option<&'t str>,
}

/// What is wrong with which level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelProblem {
    pub level: usize,
    pub reason: String,
    pub help: Option<String>,
}

fn problem(level: usize, reason: impl Into<String>) -> LevelProblem {
    LevelProblem { level, reason: reason.into(), help: None }
}

/// Checks each level's own text, and that their names differ.
pub(crate) fn check_texts(texts: &[String]) -> Vec<LevelProblem> {
    let mut problems = Vec::new();
    if texts.len() > LEVELS_MAX {
        problems.push(problem(LEVELS_MAX, format!("there are more than {LEVELS_MAX} levels")));
    }
    let mut names: Vec<(usize, String)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match Level::parse(text) {
            Err((reason, help)) => problems.push(LevelProblem { level: at, reason, help }),
            Ok(level) => {
                let name = level.name.to_lowercase();
                if let Some((first, _)) = names.iter().find(|(_, known)| *known == name) {
                    problems.push(problem(
                        at,
                        format!(
                            "sink.partition_by[{first}] is called `{}` too; each level needs its own name",
                            level.name
                        ),
                    ));
                }
                names.push((at, name));
            }
        }
    }
    problems
}

/// Checks the levels against the rows that reach the sink.
pub(crate) fn check_fields(texts: &[String], schema: &Schema) -> Vec<LevelProblem> {
    let mut problems = Vec::new();
    let levels: Vec<(usize, Level<'_>)> =
        texts.iter().enumerate().filter_map(|(at, text)| Some((at, Level::parse(text).ok()?))).collect();
    for (at, level) in &levels {
        let Some((_, field)) = schema.column_with_name(level.field) else {
            if level.field == ARRIVAL && level.format.is_some() {
                continue;
            }
            let known: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let help = if level.field == ARRIVAL {
                "the time of arrival needs a format: {arrival:%Y-%m-%d}".to_owned()
            } else {
                suggest(level.field, &known)
            };
            let reason = format!("no field `{}` reaches the sink", level.field);
            problems.push(LevelProblem { level: *at, reason, help: Some(help) });
            continue;
        };
        let is_time =
            matches!(field.data_type(), DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
        match (level.format, field.data_type()) {
            (Some(format), data_type) if !is_time => problems.push(LevelProblem {
                level: *at,
                reason: format!(
                    "`{}` is of type {}, only timestamps and dates take a format such as `{format}` (schema.{})",
                    level.field,
                    type_text(data_type),
                    level.field
                ),
                help: Some(format!("write {{{}}}, or declare the field as \"timestamp(ms)\"", level.field)),
            }),
            (None, DataType::Timestamp(..)) => problems.push(LevelProblem {
                level: *at,
                reason: format!("`{}` is a timestamp and needs a format", level.field),
                help: Some(format!("for instance dt={{{}:%Y-%m-%d}}", level.field)),
            }),
            (
                None,
                DataType::Float16
                | DataType::Float32
                | DataType::Float64
                | DataType::List(_)
                | DataType::Struct(_)
                | DataType::Binary
                | DataType::LargeUtf8,
            ) => problems.push(LevelProblem {
                level: *at,
                reason: format!("`{}` is of type {}, which cannot name a folder", level.field, type_text(field.data_type())),
                help: Some("strings, booleans, integers, decimals and dates can".to_owned()),
            }),
            _ => {}
        }
    }
    let in_path = |name: &str| levels.iter().any(|(_, level)| level.field == name && level.format.is_none());
    for (at, level) in &levels {
        let clash = schema
            .fields()
            .iter()
            .find(|field| field.name().eq_ignore_ascii_case(level.name) && !in_path(field.name()));
        if let Some(field) = clash {
            problems.push(LevelProblem {
                level: *at,
                reason: format!(
                    "a level called `{}`, and a field `{}` that stays in the files: readers would see two columns of that name",
                    level.name,
                    field.name()
                ),
                help: Some("call the level otherwise, or rename the field".to_owned()),
            });
        }
    }
    if !schema.fields().is_empty() && schema.fields().iter().all(|field| in_path(field.name())) {
        let last = levels.len().saturating_sub(1);
        problems.push(problem(last, "every field goes into the path: none is left for the files"));
    }
    problems
}

impl<'t> Level<'t> {
    fn parse(text: &'t str) -> Result<Self, (String, Option<String>)> {
        let shape = || {
            Some("a level is name={field} or name={field:format}, for instance dt={ts:%Y-%m-%d}".to_owned())
        };
        let bad = |reason: String| (reason, shape());
        if text.contains('/') && text.matches('=').count() > 1 {
            return Err((
                format!("`{text}` holds several levels"),
                Some("write one string for each level: [\"dt={ts:%Y-%m-%d}\", \"hour={ts:%H}\"]".to_owned()),
            ));
        }
        let (name, rest) = text.split_once('=').ok_or_else(|| bad(format!("`{text}` is no level")))?;
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if name.is_empty() || !name.chars().all(good) {
            return Err(bad(format!("`{name}` is no name for a level (letters, digits, _, . and -)")));
        }
        if name.starts_with(['_', '.']) {
            return Err((format!("readers skip folders whose name starts with _ or . (`{name}`)"), None));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err((format!("`{name}` is longer than {NAME_BYTES_MAX} bytes"), None));
        }
        let inside = rest
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .filter(|inside| !inside.contains(['{', '}']) && !inside.is_empty())
            .ok_or_else(|| bad(format!("`{rest}` is not one field in braces")))?;
        let (field, format) = match inside.split_once(':') {
            Some((field, format)) => (field, Some(format)),
            None => (inside, None),
        };
        if let Some(format) = format {
            check_format(format).map_err(bad)?;
        }
        Ok(Self { name, field, format })
    }
}

fn check_format(format: &str) -> Result<(), String> {
    let zoned = Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC);
    match BrokenDownTime::from(&zoned).to_string(format) {
        Ok(sample) if sample.is_empty() => Err("the format is empty".to_owned()),
        // Without a directive every row would get the same folder.
        Ok(sample) if sample == format => Err(format!("the format `{format}` has no directive such as %Y")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the format `{format}` is not valid: {error}")),
    }
}
