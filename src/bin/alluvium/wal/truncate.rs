//! `alluvium wal truncate`.

use std::fmt::Write as _;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::stream::Lsn;
use alluvium::wal;
use alluvium::wal::WalError;
use serde_json::json;

use super::document;
use super::gap_document;
use super::gap_line;
use super::place;
use crate::args::WalTruncateArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::count;

/// Cuts a log that is in use by nobody.
pub(super) fn truncate(args: &WalTruncateArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let dir = place::log(&*doors.disk, &args.look.dir)?;
    let cut = wal::truncate_after(&dir, Lsn(args.after), &doors).map_err(|failure| match failure {
        WalError::OutOfRange { .. } => Error::usage(failure.to_string()),
        failure => failure.into(),
    })?;
    let (start, end, loss, done) = (cut.start(), cut.end(), cut.loss().clone(), cut.is_done());
    let mut text = String::new();
    if !args.look.json {
        let _infallible = writeln!(text, "{}: keeps LSN {start} to {end}", dir.display());
        if let (Some(first), Some(last)) = (loss.first, loss.last) {
            let _infallible = writeln!(
                text,
                "  cuts {} of {}, the first at LSN {first}, the last at LSN {last}",
                count(loss.entries, "entry"),
                bytes(loss.bytes)
            );
        } else {
            text.push_str("  cuts no whole entry\n");
        }
        for gap in &loss.gaps {
            let _infallible = writeln!(text, "  cuts a {}", gap_line(gap));
        }
        // Told before anything is changed.
        say(&text)?;
        text.clear();
    }
    let (kept_in, exit) = match (done, args.yes) {
        (_, true) => (cut.carry_out()?, Exit::Done),
        (true, false) => (None, Exit::Done),
        (false, false) => (None, Exit::Usage),
    };
    if args.look.json {
        say(&document(&json!({
            "version": 1,
            "log": dir.display().to_string(),
            "start": start.0,
            "end": end.0,
            "entries": loss.entries,
            "bytes": loss.bytes,
            "first": loss.first.map(|at| at.0),
            "last": loss.last.map(|at| at.0),
            "gaps": loss.gaps.iter().map(gap_document).collect::<Vec<_>>(),
            "done": done || args.yes,
            "quarantine": kept_in.map(|kept| kept.display().to_string()),
        }))?)?;
        return Ok(exit);
    }
    match (done, kept_in) {
        (true, _) => text.push_str("nothing to do: the log ends there\n"),
        (false, None) => text.push_str("nothing was changed; --yes carries it out\n"),
        (false, Some(kept)) => {
            let _infallible = writeln!(text, "done; copies of what was cut are in {}", kept.display());
        }
    }
    say(&text)?;
    Ok(exit)
}
