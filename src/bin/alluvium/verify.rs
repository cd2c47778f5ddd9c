//! `alluvium verify`.

use std::fmt::Write as _;

use alluvium::doors::Doors;
use alluvium::pipeline;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::pipeline::Totals;
use alluvium::pipeline::Verification;
use alluvium::pipeline::VerifySettings;
use alluvium::pipeline::Wrong;

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::runtime::block_on;
use crate::words::bytes;
use crate::words::count;

/// Compares the tables with the state, byte by byte.
pub(crate) fn verify(args: &VerifyArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let pipeline = Pipeline::load(&*doors.disk, &args.file, &ProcessEnvironment)?;
    let settings = VerifySettings { removed_ok: args.removed_ok };
    let verified = block_on(pipeline::verify(&pipeline, &doors, settings))??;
    say(&told(&pipeline, &verified))?;
    let unreadable = |wrong: &Wrong| matches!(wrong, Wrong::Unreadable(_));
    Ok(match verified.findings.as_slice() {
        [] => Exit::Done,
        findings if findings.iter().all(|finding| unreadable(&finding.wrong)) => Exit::Failed,
        _ => Exit::Damage,
    })
}

fn told(pipeline: &Pipeline, verified: &Verification) -> String {
    let mut text = match verified.findings.len() {
        0 => String::new(),
        found => {
            let mut text = format!("{} found; nothing was changed:\n", count(found as u64, "problem"));
            for finding in &verified.findings {
                // Writing to a string does not fail.
                let _infallible = writeln!(text, "  {finding}");
            }
            text.push('\n');
            text
        }
    };
    let checkpoint = match verified.epoch {
        Some(epoch) => format!("checkpoint {epoch}"),
        None => "no checkpoint yet".to_owned(),
    };
    let clean = if verified.is_clean() { "all is well" } else { "not all is well" };
    let _infallible = writeln!(text, "{}: {clean} ({checkpoint})", pipeline.name);
    for (what, totals) in [
        ("committed, whole", verified.committed),
        ("pending, whole", verified.pending),
        ("in progress, whole", verified.in_progress),
        ("removed by their owner", verified.removed),
    ] {
        let Totals { files, rows, bytes: length, .. } = totals;
        if files > 0 || what.starts_with("committed") {
            let _infallible = writeln!(
                text,
                "  {what:<23}{}, {}, {}",
                count(files, "file"),
                count(rows, "row"),
                bytes(length)
            );
        }
    }
    for note in &verified.notes {
        let _infallible = writeln!(text, "  note: {note}");
    }
    if !verified.is_clean() {
        text.push_str("docs/recovery.md tells what each of these means and what can be done.\n");
    }
    text
}
