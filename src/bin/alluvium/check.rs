//! `alluvium check`.

use std::fmt::Write as _;
use std::path::Path;

use alluvium::Error;
use alluvium::operator::TransformSettings;
use alluvium::pipeline::BadRecord;
use alluvium::pipeline::ByteSize;
use alluvium::pipeline::InputFormat;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::pipeline::Restart;
use alluvium::pipeline::SinkFormat;
use alluvium::pipeline::TimeSpan;
use alluvium::storage::Disk;
use alluvium::storage::Kind;
use alluvium::storage::RealDisk;

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::message::say;

/// Validates a pipeline file and prints its parts and its guarantee.
pub(crate) fn check(args: &CheckArgs) -> alluvium::Result<Exit> {
    let disk = RealDisk::new();
    let pipeline = Pipeline::load(&disk, &args.file, &ProcessEnvironment)?;
    folders(&pipeline, &disk)?;
    say(&told(&pipeline, &args.file))?;
    Ok(Exit::Done)
}

/// Refuses folders that could not be made, since something else stands in the way.
fn folders(pipeline: &Pipeline, disk: &dyn Disk) -> alluvium::Result<()> {
    let letters = pipeline.on_error.dead_letters.as_deref().map(|path| ("on_error.dead_letters", path));
    let places = [
        ("sink.path", pipeline.sink.path.as_path()),
        ("checkpoint.state", pipeline.checkpoint.state.as_path()),
    ];
    for (key, path) in places.into_iter().chain(letters) {
        let nearest = path.ancestors().find_map(|place| Some((place, disk.metadata(place).ok()?)));
        if let Some((place, found)) = nearest
            && found.kind != Kind::Dir
        {
            return Err(Error::usage(format!(
                "{key} is {}, but {} is there and is no folder; move it away, or choose another path",
                path.display(),
                place.display()
            )));
        }
    }
    Ok(())
}

fn told(pipeline: &Pipeline, file: &Path) -> String {
    let mut text = format!("{}: nothing is wrong with it\n\n", file.display());
    for (what, value) in parts(pipeline) {
        // Writing to a string does not fail.
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
    for note in &report.notes {
        let _infallible = writeln!(text, "  note: {note}");
    }
    text
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
            Some(schema) => format!("{} fields, declared", schema.fields().len()),
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
