//! `alluvium inspect`.

use std::fmt::Write as _;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::pipeline;
use alluvium::pipeline::CheckpointKind;
use alluvium::pipeline::CheckpointReport;
use alluvium::pipeline::PartReport;
use alluvium::pipeline::SinkReport;
use alluvium::pipeline::StateReport;

use crate::args::InspectArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::count;

/// Lines of a list before the rest is only counted.
const LINES_MAX: usize = 20;

/// Shows what is in the state directory.
pub(crate) fn inspect(args: &InspectArgs) -> alluvium::Result<Exit> {
    let report = pipeline::inspect(&Doors::real(), &args.state)?;
    if args.json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::fatal("the report cannot be written as JSON").with_source(error))?;
        say(&format!("{json}\n"))?;
    } else {
        say(&told(&report))?;
    }
    Ok(Exit::Done)
}

fn told(report: &StateReport) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        // Writing to a string does not fail.
        let _infallible = writeln!(text, "{what:<13}{value}");
    };
    line("state", report.state.display().to_string());
    match &report.job {
        None => line("job", "none has started here".to_owned()),
        Some(job) => {
            line("job", format!("{} (lineage {})", job.name, job.lineage));
            line("source", job.source.clone());
            line("sink", job.sink.clone());
            for start in &job.starts {
                let from = match start.restored {
                    None => "from the beginning".to_owned(),
                    Some(epoch) => format!("from checkpoint {epoch}"),
                };
                line("incarnation", format!("{}, started {} {from}", start.incarnation, time(start.at)));
            }
        }
    }
    for checkpoint in &report.checkpoints {
        line("checkpoint", told_checkpoint(checkpoint));
    }
    if report.checkpoints.is_empty() {
        line("checkpoint", "none is complete".to_owned());
    }
    let log = &report.log;
    line(
        "log",
        format!(
            "{} in {}, {} on the disk",
            bytes(log.end.saturating_sub(log.start)),
            count(log.segments, "segment"),
            bytes(log.disk_bytes)
        ),
    );
    if log.quarantined > 0 {
        line(
            "",
            format!(
                "{} cut off by earlier starts and kept in log/quarantine",
                count(log.quarantined, "piece")
            ),
        );
    }
    splits(&mut text, report);
    for sink in &report.sinks {
        told_sink(&mut text, sink);
    }
    text
}

fn told_checkpoint(checkpoint: &CheckpointReport) -> String {
    let kind = match checkpoint.kind {
        CheckpointKind::Checkpoint => "",
        CheckpointKind::Stop => ", at a stop",
        CheckpointKind::End => ", at the end of the input",
    };
    format!(
        "{} of {} by incarnation {}{kind}; restores from {} of the log",
        checkpoint.epoch,
        time(checkpoint.at),
        checkpoint.incarnation,
        bytes(checkpoint.log_bytes)
    )
}

fn splits(text: &mut String, report: &StateReport) {
    let records: u64 = report.splits.iter().map(|split| split.records).sum();
    let ended = report.splits.iter().filter(|split| split.ended).count();
    let _infallible = writeln!(
        text,
        "\nsource: {} of {}, {ended} read to the end",
        count(records, "record"),
        count(report.splits.len() as u64, "split")
    );
    // What is not read to its end comes first: that is what one looks for.
    let mut splits: Vec<_> = report.splits.iter().collect();
    splits.sort_by_key(|split| split.ended);
    list(
        text,
        splits.len(),
        splits.into_iter().map(|split| {
            let renamed =
                if split.path == split.split { String::new() } else { format!(" (now {})", split.path) };
            let ended = if split.ended { ", to the end" } else { "" };
            format!(
                "{}{renamed}: position {}, {}{ended}",
                split.split,
                split.position,
                count(split.records, "record")
            )
        }),
    );
}

fn told_sink(text: &mut String, sink: &SinkReport) {
    let table =
        sink.table.as_ref().map_or_else(|| "no table yet".to_owned(), |table| table.display().to_string());
    let _infallible = writeln!(text, "\n{}: {table}", sink.task);
    let _infallible = writeln!(
        text,
        "  committed    {}, {}, {}",
        count(sink.ledger.files, "file"),
        count(sink.ledger.rows, "row"),
        bytes(sink.ledger.bytes)
    );
    if !sink.pending.is_empty() {
        let _infallible = writeln!(
            text,
            "  pending      {}: closed, not confirmed as committed; nobody else may touch these yet",
            count(sink.pending.len() as u64, "file")
        );
        list(text, sink.pending.len(), sink.pending.iter().map(part));
    }
    if !sink.in_progress.is_empty() {
        let rows: u64 = sink.in_progress.iter().map(|part| part.rows).sum();
        let _infallible = writeln!(
            text,
            "  in progress  {} in {}: {} in files, {} in the log",
            count(sink.in_progress.len() as u64, "file"),
            count(sink.buckets_open, "bucket"),
            count(rows, "row"),
            count(sink.rows_spilled, "row")
        );
        list(text, sink.in_progress.len(), sink.in_progress.iter().map(part));
    }
    if !sink.losses.is_empty() {
        let _infallible =
            writeln!(text, "  given up     {}, lost and accepted", count(sink.losses.len() as u64, "file"));
        list(text, sink.losses.len(), sink.losses.iter().map(part));
    }
}

fn part(part: &PartReport) -> String {
    let bucket = if part.bucket.is_empty() { String::new() } else { format!("{}/", part.bucket) };
    let spilled = match part.rows_spilled {
        0 => String::new(),
        rows => format!(", {} in the log", count(rows, "row")),
    };
    let epoch = part.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
    format!("{bucket}{}: {}, {}{spilled}{epoch}", part.name, count(part.rows, "row"), bytes(part.bytes))
}

fn list(text: &mut String, length: usize, lines: impl Iterator<Item = String>) {
    for line in lines.take(LINES_MAX) {
        let _infallible = writeln!(text, "    {line}");
    }
    if length > LINES_MAX {
        let _infallible = writeln!(text, "    and {} more; --json lists them all", length - LINES_MAX);
    }
}

fn time(at: Option<jiff::Timestamp>) -> String {
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}
