//! `alluvium wal`: looks into a log, and repairs it by hand.
//!
//! `verify`, `dump` and `salvage` change nothing; `truncate` shows what will be lost before it is told `--yes`.

mod bench;
mod dump;
mod place;
mod salvage;
mod truncate;
mod verify;

use alluvium::Error;
use alluvium::wal::Gap;
use serde_json::Value;
use serde_json::json;

use crate::args::WalCommand;
use crate::exit::Exit;

/// Carries out `command`.
pub(crate) fn wal(command: &WalCommand) -> alluvium::Result<Exit> {
    match command {
        WalCommand::Verify(args) => verify::verify(args),
        WalCommand::Dump(args) => dump::dump(args),
        WalCommand::Salvage(args) => salvage::salvage(args),
        WalCommand::Truncate(args) => truncate::truncate(args),
        WalCommand::Bench(args) => bench::bench(args),
    }
}

/// One JSON document, as the last line of the output.
fn document(value: &Value) -> alluvium::Result<String> {
    serde_json::to_string_pretty(value)
        .map(|text| format!("{text}\n"))
        .map_err(|error| Error::fatal("the report cannot be written as JSON").with_source(error))
}

fn gap_document(gap: &Gap) -> Value {
    json!({
        "from": gap.from.0,
        "to": (gap.to != Gap::UNKNOWN).then_some(gap.to.0),
        "segment": gap.segment.display().to_string(),
        "offset": gap.offset,
        "reason": gap.reason,
    })
}

/// Where a gap is, for people: the file, the place in it, the positions, the cause.
fn gap_line(gap: &Gap) -> String {
    let to = match gap.to {
        Gap::UNKNOWN => "an unknown end".to_owned(),
        to => to.to_string(),
    };
    let empty = if gap.is_empty() { ", no entry is missing" } else { "" };
    format!(
        "gap: LSN {} to {to}{empty} ({}, byte {}): {}",
        gap.from,
        gap.segment.display(),
        gap.offset,
        gap.reason
    )
}
