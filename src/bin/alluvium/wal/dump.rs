//! `alluvium wal dump`.

use std::fmt::Write as _;
use std::path::Path;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::stream::Lsn;
use alluvium::wal;
use alluvium::wal::Salvaged;
use alluvium::wal::WalError;
use alluvium::wal::WalReader;
use serde_json::json;

use super::gap_document;
use super::gap_line;
use super::place;
use crate::args::WalDumpArgs;
use crate::exit::Exit;
use crate::message::say;

/// Bytes of an entry that are shown.
const PREVIEW_BYTES: usize = 64;

/// Shows entries with their positions.
pub(super) fn dump(args: &WalDumpArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let dir = place::log(&*doors.disk, &args.look.dir)?;
    let from = args.from.map(Lsn);
    let mut exit = Exit::Done;
    let mut shown = 0;
    let mut text = String::new();
    for found in found(&doors, &dir, from)? {
        if shown == args.limit {
            if !args.look.json {
                text.push_str("... more follows; --from and --limit show it\n");
            }
            break;
        }
        match found? {
            Salvaged::Entry { at, entry } => {
                shown += 1;
                line(&mut text, at, &entry, args);
            }
            Salvaged::Gap(gap) => {
                exit = Exit::Damage;
                let gap = if args.look.json {
                    json!({ "gap": gap_document(&gap) }).to_string()
                } else {
                    gap_line(&gap)
                };
                let _infallible = writeln!(text, "{gap}");
            }
        }
        if text.len() > 1 << 16 {
            say(&text)?;
            text.clear();
        }
    }
    say(&text)?;
    Ok(exit)
}

/// The entries of the log: read beside a running job; where that finds damage, around it.
fn found(
    doors: &Doors,
    dir: &Path,
    from: Option<Lsn>,
) -> alluvium::Result<Box<dyn Iterator<Item = alluvium::Result<Salvaged>>>> {
    let reader = match WalReader::open(dir, doors) {
        Ok(reader) => reader,
        Err(WalError::Damage { .. }) => return salvaged(doors, dir, from.unwrap_or(Lsn(0))),
        Err(failure) => return Err(failure.into()),
    };
    let (start, end) = (reader.start(), reader.end());
    let from = from.unwrap_or(start);
    if from < start || from > end {
        return Err(Error::usage(format!(
            "--from {from} is outside of the log, which holds LSN {start} to {end}"
        )));
    }
    let (doors, dir) = (doors.clone(), dir.to_owned());
    let mut replay = Some(reader.replay(from)?);
    let mut rest: Option<Box<dyn Iterator<Item = alluvium::Result<Salvaged>>>> = None;
    let mut next = from;
    Ok(Box::new(std::iter::from_fn(move || {
        if let Some(rest) = &mut rest {
            return rest.next();
        }
        match replay.as_mut()?.next()? {
            Ok(logged) => {
                next = Lsn(logged.at.0 + 1);
                Some(Ok(Salvaged::Entry { at: logged.at, entry: logged.entry.to_vec() }))
            }
            Err(WalError::Damage { .. }) => {
                replay = None;
                match salvaged(&doors, &dir, next) {
                    Ok(around) => rest.insert(around).next(),
                    Err(failure) => Some(Err(failure)),
                }
            }
            Err(failure) => {
                replay = None;
                Some(Err(failure.into()))
            }
        }
    })))
}

fn salvaged(
    doors: &Doors,
    dir: &Path,
    from: Lsn,
) -> alluvium::Result<Box<dyn Iterator<Item = alluvium::Result<Salvaged>>>> {
    let salvage = wal::salvage(dir, doors)?;
    Ok(Box::new(
        salvage
            .filter(move |found| match found {
                Salvaged::Entry { at, .. } => *at >= from,
                Salvaged::Gap(gap) => gap.to >= from,
            })
            .map(Ok),
    ))
}

fn line(text: &mut String, at: Lsn, entry: &[u8], args: &WalDumpArgs) {
    let most = if args.full { entry.len() } else { PREVIEW_BYTES };
    let shown = entry.get(..most).unwrap_or(entry);
    let (form, shown_text) = preview(shown);
    let _infallible = if args.look.json {
        writeln!(text, "{}", json!({ "lsn": at.0, "bytes": entry.len(), form: shown_text }))
    } else {
        let more = if shown.len() < entry.len() { " ..." } else { "" };
        writeln!(text, "{at:>12} {:>9} {form:4} {shown_text}{more}", entry.len())
    };
}

/// Text where it is text, else hexadecimal digits.
fn preview(bytes: &[u8]) -> (&'static str, String) {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // Cut in the midst of a character.
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok())
        }
        Err(_) => None,
    };
    match valid {
        Some(text) if !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) => {
            ("text", text.escape_debug().to_string())
        }
        _ => ("hex", bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::preview;

    #[test]
    fn text_is_shown_as_text_and_anything_else_in_hexadecimal() {
        assert_eq!(preview(b"{\"a\":1}\n"), ("text", "{\\\"a\\\":1}\\n".to_owned()));
        assert_eq!(preview("caf\u{e9}".as_bytes()), ("text", "caf\u{e9}".to_owned()));
        assert_eq!(preview(&"caf\u{e9}".as_bytes()[..4]), ("text", "caf".to_owned()));
        assert_eq!(preview(&[0, 255, 16]), ("hex", "00ff10".to_owned()));
        assert_eq!(preview(b""), ("text", String::new()));
    }
}
