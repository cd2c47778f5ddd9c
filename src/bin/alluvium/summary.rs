//! What a run has done, in words.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use alluvium::pipeline::ByteSize;
use alluvium::pipeline::Landed;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::Standing;
use alluvium::pipeline::Summary;
use alluvium::pipeline::TimeSpan;
use alluvium::runtime::Outcome;

use crate::words::bytes;
use crate::words::count;
use crate::words::duration;

/// Sources of dead letters that are named.
const NAMED_MAX: usize = 3;

/// How a run ended, in a word.
pub(crate) fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Finished) => "done",
        Some(Outcome::Stopped) => "stopped",
        None => "failed",
    }
}

/// The summary of a run of `pipeline`, which the user calls `file`; of its input it has left `unread` bytes.
pub(crate) fn told(
    pipeline: &Pipeline,
    file: &Path,
    before: &Standing,
    summary: &Summary,
    outcome: Option<Outcome>,
    took: Duration,
    unread: u64,
) -> String {
    let name = &pipeline.name;
    let mut text = format!("{name}: {} in {}\n", word(outcome), duration(took));
    let ended = outcome == Some(Outcome::Finished);
    if summary.is_nothing_new() && ended && unread > 0 {
        text = format!(
            "{name}: nothing waited to become visible; {} of the input are not read yet: run it without --drain to \
             land them\n",
            bytes(unread)
        );
    } else if summary.is_nothing_new() && ended {
        let visible = before.visible();
        text = format!(
            "{name}: nothing new: everything was landed before ({}, {})\n",
            count(visible.rows, "row"),
            count(visible.files, "file")
        );
    } else {
        // Writing to a string does not fail.
        let mut line = |what: &str, value: String| {
            let _infallible = writeln!(text, "  {what:<14}{value}");
        };
        line("read", format!("{} from {}", count(summary.records, "record"), count(summary.splits, "file")));
        line(
            "landed",
            landed(&summary.landed, pipeline.sink.path.as_path(), !pipeline.sink.partition_by.is_empty()),
        );
        if let Some(folder) = &pipeline.on_error.dead_letters {
            let letters = &summary.dead_letters;
            if letters.new.rows + letters.waiting.rows > 0 {
                line("dead letters", dead(letters, folder));
            }
        }
        if summary.left_out > 0 {
            line(
                "left out",
                format!("{}, filtered out or skipped as bad", count(summary.left_out, "record")),
            );
        }
        if ended && unread > 0 {
            line("unread", format!("{} of the input; a run without --drain lands them", bytes(unread)));
        }
        line("checkpoints", summary.checkpoints.to_string());
    }
    waiting(&mut text, pipeline, file, summary, outcome);
    text
}

fn landed(landed: &Landed, path: &Path, bucketed: bool) -> String {
    let new = &landed.new;
    let buckets = if bucketed { format!(" in {}", count(landed.buckets, "bucket")) } else { String::new() };
    format!(
        "{} in {}{buckets}, {}: {}",
        count(new.rows, "row"),
        count(new.files, "file"),
        bytes(new.bytes),
        landed.table.as_deref().unwrap_or(path).display()
    )
}

fn dead(letters: &Landed, folder: &Path) -> String {
    let mut text = format!(
        "{}: {}",
        count(letters.new.rows + letters.waiting.rows, "record"),
        letters.table.as_deref().unwrap_or(folder).display()
    );
    if !letters.splits.is_empty() {
        let named: Vec<&str> = letters.splits.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = match letters.splits.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!(" (from {}{more})", named.join(", ")));
    }
    text
}

/// What is safe and cannot be seen yet, and when it will be.
fn waiting(text: &mut String, pipeline: &Pipeline, file: &Path, summary: &Summary, outcome: Option<Outcome>) {
    let waiting = summary.landed.waiting;
    if waiting.rows == 0 {
        return;
    }
    let roll = &pipeline.sink.roll;
    let rows = roll.rows.map(|rows| format!("{}, ", count(rows, "row"))).unwrap_or_default();
    let and_then = match outcome {
        None => "once the cause of the failure is mended",
        Some(_) => "as soon as it runs",
    };
    let _infallible = writeln!(
        text,
        "  {:<14}{} in {} are safe and not visible yet\n  \
         {:<14}run it again, and they become visible {and_then} and their files roll (at {}, {rows}{} after the first row, \
         or {} without one); to have them at once: alluvium run {} --drain",
        "waiting",
        count(waiting.rows, "row"),
        count(waiting.files, "open file"),
        "",
        ByteSize(roll.size),
        TimeSpan(roll.age),
        TimeSpan(roll.inactivity),
        file.display()
    );
}
