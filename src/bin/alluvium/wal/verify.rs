//! `alluvium wal verify`.

use std::fmt::Write as _;
use std::path::Path;

use alluvium::doors::Doors;
use alluvium::wal;
use alluvium::wal::Gap;
use alluvium::wal::Salvaged;
use alluvium::wal::WalError;
use alluvium::wal::WalReader;
use serde_json::json;

use super::document;
use super::gap_document;
use super::gap_line;
use super::place;
use crate::args::WalLookArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::count;

/// Reads every byte of the log.
pub(super) fn verify(args: &WalLookArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let dir = place::log(&*doors.disk, &args.dir)?;
    let looked = WalReader::open(&dir, &doors).and_then(|reader| {
        let verified = reader.verify()?;
        reader.verify_folder()?;
        Ok((verified, reader.start(), reader.end()))
    });
    let (verified, start, end) = match looked {
        Ok(found) => found,
        Err(failure @ WalError::Damage { .. }) => return all_damage(&doors, &dir, args.json, &failure),
        Err(failure) => return Err(failure.into()),
    };
    if args.json {
        say(&document(&json!({
            "version": 1,
            "log": dir.display().to_string(),
            "damaged": false,
            "start": start.0,
            "end": end.0,
            "segments": verified.segments,
            "frames": verified.frames,
            "entries": verified.entries,
            "bytes": verified.bytes,
            "torn_bytes": verified.torn_bytes,
            "gaps": [],
        }))?)?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}: all is well\n", dir.display());
    // Writing to a string does not fail.
    let _infallible = writeln!(
        text,
        "  LSN {start} to {end}: {}, {} in {} and {}, every checksum read",
        count(verified.entries, "entry"),
        bytes(verified.bytes),
        count(verified.frames, "frame"),
        count(verified.segments, "segment"),
    );
    if verified.torn_bytes > 0 {
        let _infallible = writeln!(
            text,
            "  warning: {} behind LSN {end} were never acknowledged: a torn tail, or what a running process \
             is writing. The next start cuts it and keeps a copy in quarantine/",
            bytes(verified.torn_bytes)
        );
    }
    say(&text)?;
    Ok(Exit::Done)
}

/// What salvage says of the whole log.
#[derive(Default)]
struct Told {
    entries: u64,
    gaps: Vec<Gap>,
}

/// `None` when it cannot be asked: the log is in use.
fn told_by_salvage(doors: &Doors, dir: &Path) -> Option<Told> {
    let mut told = Told { entries: 0, gaps: Vec::new() };
    for found in wal::salvage(dir, doors).ok()? {
        match found {
            Salvaged::Entry { .. } => told.entries += 1,
            Salvaged::Gap(gap) => told.gaps.push(gap),
        }
    }
    Some(told)
}

/// Tells not only of the first damage but of all.
fn all_damage(doors: &Doors, dir: &Path, json: bool, failure: &WalError) -> alluvium::Result<Exit> {
    // Of a log that is in use only the first damage is known.
    let told = told_by_salvage(doors, dir).unwrap_or_default();
    if json {
        say(&document(&json!({
            "version": 1,
            "log": dir.display().to_string(),
            "damaged": true,
            "first": failure.to_string(),
            "entries": told.entries,
            "gaps": told.gaps.iter().map(gap_document).collect::<Vec<_>>(),
        }))?)?;
        return Ok(Exit::Damage);
    }
    let mut text = format!("{}: damaged; nothing was changed\n", dir.display());
    for line in [failure.to_string()].into_iter().chain(told.gaps.iter().map(gap_line)) {
        let _infallible = writeln!(text, "  {line}");
    }
    let _infallible = writeln!(
        text,
        "{} around it can be read. Put the named file back from a copy if there is one; else docs/wal.md tells how \
         `alluvium wal salvage` and `alluvium wal truncate` save what is good.",
        count(told.entries, "entry")
    );
    say(&text)?;
    Ok(Exit::Damage)
}
