//! `alluvium wal salvage`.

use std::fmt::Write as _;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::wal;
use alluvium::wal::Gap;
use alluvium::wal::Salvaged;
use alluvium::wal::Wal;
use alluvium::wal::WalSettings;
use serde_json::json;

use super::document;
use super::gap_document;
use super::gap_line;
use super::place;
use crate::args::WalSalvageArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::count;

/// 1 MiB: what is appended at a time.
const APPEND_BYTES: usize = 1 << 20;

/// Copies every good entry to a new log.
pub(super) fn salvage(args: &WalSalvageArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let dir = place::log(&*doors.disk, &args.look.dir)?;
    let to = place::fresh(&*doors.disk, &args.to)?;
    if to.starts_with(&dir) {
        return Err(Error::usage(format!("{} lies in the log itself", args.to.display())));
    }
    let salvage = wal::salvage(&dir, &doors)?;
    let settings = WalSettings {
        segment_bytes: salvage.segment_bytes().unwrap_or(WalSettings::default().segment_bytes),
        ..WalSettings::default()
    };
    let (new, _) = Wal::open(&to, settings, &doors)?;
    let (mut entries, mut entry_bytes) = (0_u64, 0_u64);
    let mut gaps: Vec<Gap> = Vec::new();
    let (mut batch, mut batch_bytes) = (Vec::<Vec<u8>>::new(), 0);
    let append = |batch: &mut Vec<Vec<u8>>| -> alluvium::Result<()> {
        let slices: Vec<_> = batch.iter().map(Vec::as_slice).collect();
        new.append(&slices)?;
        batch.clear();
        Ok(())
    };
    for found in salvage {
        match found {
            Salvaged::Entry { entry, .. } => {
                entries += 1;
                entry_bytes += entry.len() as u64;
                batch_bytes += entry.len();
                batch.push(entry);
                if batch_bytes >= APPEND_BYTES {
                    append(&mut batch)?;
                    batch_bytes = 0;
                }
            }
            Salvaged::Gap(gap) => gaps.push(gap),
        }
    }
    append(&mut batch)?;
    new.sync()?;
    let (start, end) = (new.start(), new.end());
    new.close()?;
    let exit = if gaps.is_empty() { Exit::Done } else { Exit::Damage };
    if args.look.json {
        say(&document(&json!({
            "version": 1,
            "log": dir.display().to_string(),
            "to": to.display().to_string(),
            "entries": entries,
            "bytes": entry_bytes,
            "start": start.0,
            "end": end.0,
            "gaps": gaps.iter().map(gap_document).collect::<Vec<_>>(),
        }))?)?;
        return Ok(exit);
    }
    let mut text = String::new();
    for gap in &gaps {
        let _infallible = writeln!(text, "{}", gap_line(gap));
    }
    let _infallible = writeln!(
        text,
        "{} of {} and {} in {}; the entries are in {} now, in the same order and at new positions",
        count(entries, "entry"),
        bytes(entry_bytes),
        count(gaps.len() as u64, "gap"),
        dir.display(),
        to.display()
    );
    text.push_str("the damaged log was not changed\n");
    say(&text)?;
    Ok(exit)
}
