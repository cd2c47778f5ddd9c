//! `alluvium check`.

use std::fmt::Write as _;
use std::path::Path;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::operator::TransformSettings;
use alluvium::pipeline;
use alluvium::pipeline::BadRecord;
use alluvium::pipeline::ByteSize;
use alluvium::pipeline::Checkup;
use alluvium::pipeline::InputFormat;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::pipeline::Restart;
use alluvium::pipeline::SinkFormat;
use alluvium::pipeline::StateCheck;
use alluvium::pipeline::TimeSpan;

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::runtime::block_on;
use crate::words::bytes;
use crate::words::count;
use crate::words::thousands;

/// Asks everything that can be asked before a run, and prints the parts and their guarantee.
pub(crate) fn check(args: &CheckArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let pipeline = Pipeline::load(&*doors.disk, &args.file, &ProcessEnvironment)?;
    let checkup = block_on(pipeline::check(&pipeline, &doors))??;
    if !checkup.problems.is_empty() {
        // What has a place in the file names the file itself.
        let file = args.file.display();
        let named = |problem: &String| match problem.starts_with(&format!("{file}:")) {
            true => problem.clone(),
            false => format!("{file}: {problem}"),
        };
        let problems: Vec<String> = checkup.problems.iter().map(named).collect();
        return Err(Error::usage(problems.join("\n")));
    }
    say(&told(&pipeline, &args.file, &checkup))?;
    Ok(Exit::Done)
}

fn told(pipeline: &Pipeline, file: &Path, checkup: &Checkup) -> String {
    let mut text = format!("{}: nothing is wrong with it\n\n", file.display());
    for (what, value) in parts(pipeline) {
        // Writing to a string does not fail.
        let _infallible = writeln!(text, "  {what:<15}{value}");
    }
    text.push('\n');
    for (what, value) in found(checkup) {
        let _infallible = writeln!(text, "  {what:<15}{value}");
    }
    let report = pipeline.guarantees();
    let _infallible = writeln!(text, "\nGuarantee: {}\n", report.whole());
    for part in &report.parts {
        let _infallible = writeln!(text, "  {:<15}{}: {}", part.name, part.guarantee, part.reason);
        if let Some(raise) = &part.raise {
            let _infallible = writeln!(text, "  {:<15}to raise it: {raise}", "");
        }
    }
    for note in report.notes.iter().chain(&checkup.notes) {
        let _infallible = writeln!(text, "  note: {note}");
    }
    if let Some(inferred) = &checkup.inferred {
        let _infallible =
            writeln!(text, "\nNo schema is declared; this one is used. To declare it, paste:\n\n{inferred}");
    }
    text
}

/// What was found on the disk.
fn found(checkup: &Checkup) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Some((files, length)) = checkup.input {
        found.push(("input", format!("{}, {}", count(files, "file"), bytes(length))));
    }
    if let Some(sample) = &checkup.sample {
        let bad = match sample.bad {
            0 => "all can be taken".to_owned(),
            bad => format!("{} cannot be taken", thousands(bad)),
        };
        found.push(("first records", format!("{}: {bad}", thousands(sample.records))));
        found.extend(sample.reasons.iter().map(|reason| ("", reason.clone())));
        let more = if sample.bucket_names.len() as u64 == sample.buckets { "" } else { ", ..." };
        let named = match sample.bucket_names.join(", ") {
            names if names.is_empty() => String::new(),
            names => format!(": {names}{more}"),
        };
        found.push((
            "they make",
            format!("{} in {}{named}", count(sample.rows, "row"), count(sample.buckets, "bucket")),
        ));
    }
    found.push((
        "next run",
        match checkup.state {
            StateCheck::Resumes { epoch, records } => {
                format!("goes on from checkpoint {epoch}, behind {}", count(records, "record"))
            }
            _ => "begins at the beginning".to_owned(),
        },
    ));
    found
}

fn parts(pipeline: &Pipeline) -> Vec<(&'static str, String)> {
    let mut parts = vec![("job", pipeline.name.clone())];
    let source = &pipeline.source;
    let format = match source.format {
        InputFormat::Ndjson => "ndjson",
        InputFormat::Csv => "csv",
    };
    let end = if source.follow { "followed: waits for new lines and files" } else { "read to the end" };
    parts.push(("source", format!("{} ({format}, {end})", source.base.join(&source.path).display())));
    parts.push((
        "schema",
        match &pipeline.schema {
            Some(schema) => format!("{}, declared", count(schema.fields().len() as u64, "field")),
            None => "inferred from the first records, then fixed in the state".to_owned(),
        },
    ));
    for transform in &pipeline.transforms {
        parts.push((
            "transform",
            match transform {
                TransformSettings::Filter { expression } => format!("filter: {expression}"),
                TransformSettings::Select { fields } => format!("select: {}", fields.join(", ")),
                TransformSettings::Rename { map } => {
                    let pairs: Vec<String> = map.iter().map(|(old, new)| format!("{old} -> {new}")).collect();
                    format!("rename: {}", pairs.join(", "))
                }
            },
        ));
    }
    let sink = &pipeline.sink;
    let format = match sink.format {
        SinkFormat::Parquet => format!("parquet, {}", sink.parquet.compression),
        SinkFormat::Ndjson => "ndjson".to_owned(),
        SinkFormat::Csv => "csv".to_owned(),
    };
    parts.push(("sink", format!("{} ({format})", sink.path.display())));
    if !sink.partition_by.is_empty() {
        let zone = sink.time_zone.iana_name().unwrap_or("UTC");
        parts.push(("buckets", format!("{} (times in {zone})", sink.partition_by.join("/"))));
    }
    let rows = sink.roll.rows.map(|rows| format!("{rows} rows, ")).unwrap_or_default();
    parts.push((
        "rolled at",
        format!(
            "{}, {rows}an age of {}, or {} without a row",
            ByteSize(sink.roll.size),
            TimeSpan(sink.roll.age),
            TimeSpan(sink.roll.inactivity)
        ),
    ));
    parts.push((
        "bad records",
        match (pipeline.on_error.bad_record, &pipeline.on_error.dead_letters) {
            (BadRecord::Skip, _) => "left out and counted".to_owned(),
            (_, Some(path)) => format!("to {}", path.display()),
            (_, None) => "stop the job".to_owned(),
        },
    ));
    parts.push(("state", pipeline.checkpoint.state.display().to_string()));
    parts.push((
        "checkpoints",
        format!("every {}, {} kept", TimeSpan(pipeline.checkpoint.interval), pipeline.checkpoint.retain),
    ));
    parts.push((
        "restarts",
        match &pipeline.restart {
            Restart::Never => "none".to_owned(),
            Restart::Fixed { delay, attempts } => format!("{attempts} in a row, {} apart", TimeSpan(*delay)),
            Restart::Exponential { delay, delay_max, attempts, .. } => {
                format!("{attempts} in a row, after {} to {}", TimeSpan(*delay), TimeSpan(*delay_max))
            }
        },
    ));
    parts
}
