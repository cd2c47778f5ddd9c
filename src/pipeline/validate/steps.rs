//! `[[transform]]`, and what depends on the schema that runs through the steps.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use super::Check;
use super::LATER;
use crate::operator::CompileError;
use crate::operator::Site;
use crate::operator::TransformSettings;
use crate::operator::check_alone;
use crate::operator::compile;
use crate::pipeline::document::Places;
use crate::pipeline::document::join;
use crate::pipeline::levels;
use crate::pipeline::model::FileSink;
use crate::pipeline::problem::Problem;
use crate::pipeline::problem::suggest;
use crate::pipeline::settings::SinkFormat;
use crate::pipeline::settings::TransformKind;
use crate::pipeline::settings::TransformTable;
use crate::pipeline::wiring;
use crate::stream::Stage;

impl Check {
    pub(super) fn transforms(&mut self, tables: Vec<TransformTable>) -> Vec<TransformSettings> {
        tables.into_iter().enumerate().filter_map(|(at, table)| self.transform(at, table)).collect()
    }

    fn transform(&mut self, at: usize, table: TransformTable) -> Option<TransformSettings> {
        let path = format!("transform[{at}]");
        let Some(kind) = table.kind else {
            self.missing(&format!("{path}.type"), "type = \"filter\", \"select\" or \"rename\"");
            return None;
        };
        if kind == TransformKind::Dedup {
            self.refuse(
                &format!("{path}.type"),
                format!("dedup comes later: {LATER}"),
                "filter, select and rename are there",
            );
            return None;
        }
        let (name, own, example) = match kind {
            TransformKind::Filter => ("filter", "expression", "expression = \"price > 0\""),
            TransformKind::Select => ("select", "fields", "fields = [\"event_id\", \"ts\"]"),
            TransformKind::Rename | TransformKind::Dedup => ("rename", "map", "map = { old = \"new\" }"),
        };
        let given = [
            ("expression", table.expression.is_some(), "filter"),
            ("fields", table.fields.is_some(), "select"),
            ("map", table.map.is_some(), "rename"),
            ("key", table.key.is_some(), "dedup"),
            ("within", table.within.is_some(), "dedup"),
        ];
        for (key, is_given, owner) in given {
            if is_given && key != own {
                let reason =
                    format!("{path}.{key} belongs to type \"{owner}\", but {path}.type is \"{name}\"");
                self.refuse(&format!("{path}.{key}"), reason, format!("a {name} has: {example}"));
            }
        }
        let settings = match kind {
            TransformKind::Filter => {
                table.expression.map(|expression| TransformSettings::Filter { expression })
            }
            TransformKind::Select => table.fields.map(|fields| TransformSettings::Select { fields }),
            TransformKind::Rename | TransformKind::Dedup => {
                table.map.map(|map| TransformSettings::Rename { map: map.0 })
            }
        };
        if settings.is_none() {
            self.missing(&format!("{path}.{own}"), example);
        }
        settings
    }

    /// Checks what depends on the fields: with the declared schema, if there is one; else only the
    /// form of the expressions.
    pub(super) fn records(
        &mut self,
        schema: Option<&SchemaRef>,
        transforms: &[TransformSettings],
        sink: &FileSink,
    ) {
        // The indexes of problems count tables of the file: a step that was refused shifts them.
        if !self.problems.iter().all(|problem| !problem.key.starts_with("transform")) {
            return;
        }
        let found = match schema {
            Some(schema) => bind(&self.places, transforms, sink, schema).err(),
            None => check_alone(transforms).err().map(|error| vec![place(&self.places, error)]),
        };
        self.problems.extend(found.unwrap_or_default());
    }
}

/// Checks transforms and sink against records of `schema`; the stage between them, and the schema of
/// what reaches the sink.
pub(crate) fn bind(
    places: &Places,
    transforms: &[TransformSettings],
    sink: &FileSink,
    schema: &SchemaRef,
) -> Result<(Stage, SchemaRef), Vec<Problem>> {
    let (stage, output) =
        compile(transforms, Arc::clone(schema)).map_err(|error| vec![place(places, error)])?;
    let mut problems: Vec<Problem> = Vec::new();
    for problem in levels::check_fields(&sink.partition_by, &output) {
        let key = format!("sink.partition_by[{}]", problem.level);
        problems.push(places.problem(&key, problem.reason).with_help(problem.help.unwrap_or_default()));
    }
    if sink.format == SinkFormat::Parquet {
        problems.extend(bloom_filters(places, sink, &output));
    }
    if problems.is_empty()
        && let Err(problem) = sink_itself(places, sink, &output)
    {
        problems.push(problem);
    }
    if problems.is_empty() { Ok((stage, output)) } else { Err(problems) }
}

/// Asks the sink itself: what it would refuse at the start is refused here.
fn sink_itself(places: &Places, sink: &FileSink, output: &SchemaRef) -> Result<(), Problem> {
    let buckets = wiring::buckets(sink, output)
        .map_err(|error| places.problem("sink.partition_by", error.to_string()))?;
    let in_files = output
        .project(&buckets.usual_columns())
        .map_err(|error| places.problem("sink.partition_by", error.to_string()))?;
    if in_files.fields().is_empty() {
        let help = "leave one of the fields out of partition_by";
        return Err(places.problem("sink.partition_by", "no field is left for the files").with_help(help));
    }
    wiring::part_format(sink)
        .validate(&Arc::new(in_files))
        .map_err(|error| places.problem("sink.format", error.to_string()))
}

fn bloom_filters(places: &Places, sink: &FileSink, output: &Schema) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (at, path) in sink.parquet.bloom_filter.iter().enumerate() {
        let name = path.split('.').next().unwrap_or_default();
        let known: Vec<&str> = output.fields().iter().map(|field| field.name().as_str()).collect();
        if !known.contains(&name) && !known.contains(&path.as_str()) {
            let key = format!("sink.parquet.bloom_filter[{at}]");
            let reason = format!("no field `{path}` reaches the sink");
            problems.push(places.problem(&key, reason).with_help(suggest(path, &known)));
        }
    }
    problems
}

fn place(places: &Places, error: CompileError) -> Problem {
    let path = format!("transform[{}]", error.transform);
    let problem = match error.site {
        Site::Expression(at) => places.problem_within(&format!("{path}.expression"), at, error.reason),
        Site::Field(at) => places.problem(&format!("{path}.fields[{at}]"), error.reason),
        Site::Map(old) => places.problem_with_key(&join(&format!("{path}.map"), &old), error.reason),
        Site::Whole => places.problem(&path, error.reason),
    };
    problem.with_help(error.help.unwrap_or_default())
}
