//! Files in the folder that are no part of the log: what unfinished work left behind.
//!
//! Owns the verdict on each, and carries it out. A file that could hold what was acknowledged is never
//! touched.

use std::path::PathBuf;

use crate::storage::OpenMode;

use super::WalError;
use super::folder::Folder;
use super::folder::Name;
use super::folder::io_error;
use super::frame::Life;
use super::judge;
use super::manifest::State;
use super::quarantine;
use super::segment::FORMAT_VERSION;
use super::segment::HeaderFlaw;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::segment::read_header_bytes;
use super::spares::Spares;
use super::walk::Walk;

/// What is to be done about the files that no manifest names.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// Spares by number.
    spares: Vec<u64>,
    /// Names to remove: unfinished files, second names of others.
    remove: Vec<PathBuf>,
    /// Segment files to use again, with their lengths.
    reuse: Vec<(PathBuf, u64)>,
    /// Segment files with bytes that a person may want to see.
    keep: Vec<(PathBuf, Life)>,
}

/// Judges the files `names` next to a log of `segments`.
pub(super) fn find(
    folder: &Folder,
    state: &State,
    segments: &[Segment],
    names: &[Name],
) -> Result<Strays, WalError> {
    let mut strays = Strays::default();
    let mut seen = Vec::new();
    let id = |path: &PathBuf| match folder.disk.metadata(path) {
        Ok(found) => Ok((found.id, found.len)),
        Err(source) => Err(io_error("look at", path, source)),
    };
    for segment in segments {
        seen.push(id(&segment.path)?.0);
    }
    let is_live = |number: &u64| segments.iter().any(|segment| segment.life().number == *number);
    for name in names {
        match name {
            Name::ManifestNew => strays.remove.push(folder.manifest_new()),
            Name::Making(number) => strays.remove.push(folder.making(*number)),
            Name::Spare(number) => {
                let path = folder.spare(*number);
                let (id, _) = id(&path)?;
                // A file system that renames by link and unlink, and a crash between.
                if seen.contains(&id) {
                    strays.remove.push(path);
                } else {
                    seen.push(id);
                    strays.spares.push(*number);
                }
            }
            Name::Segment(_) | Name::Manifest | Name::Other => {}
        }
    }
    for name in names {
        let Name::Segment(number) = name else { continue };
        if is_live(number) {
            continue;
        }
        let path = folder.segment(*number);
        let (id, len) = id(&path)?;
        if seen.contains(&id) {
            strays.remove.push(path);
            continue;
        }
        seen.push(id);
        match look(folder, state, *number)? {
            Stray::Reuse => strays.reuse.push((path, len)),
            Stray::Keep(life) => strays.keep.push((path, life)),
        }
    }
    Ok(strays)
}

/// Carries out the verdicts; what is left are the spares.
pub(super) fn settle(folder: &Folder, bytes: u64, strays: Strays) -> Result<Spares, WalError> {
    for path in &strays.remove {
        folder.remove(path)?;
    }
    for (path, life) in &strays.keep {
        quarantine::take_in(folder, path, life)?;
    }
    let spares = Spares::open(folder, bytes, &strays.spares)?;
    for (path, len) in &strays.reuse {
        spares.give(path, *len)?;
    }
    Ok(spares)
}

/// A segment file that no manifest names.
enum Stray {
    Reuse,
    Keep(Life),
}

fn look(folder: &Folder, state: &State, number: u64) -> Result<Stray, WalError> {
    if state.count > 0 && number < state.first.0 {
        // Given up (W7); perhaps a spare already when its new name was lost.
        return Ok(Stray::Reuse);
    }
    let path = folder.segment(number);
    let file = folder.disk.open(&path, OpenMode::Read).map_err(|error| io_error("open", &path, error))?;
    let bytes = read_header_bytes(&*file).map_err(|error| io_error("read", &path, error))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        // A spare that was being given a header when its name was lost.
        Err(HeaderFlaw::Broken) => return Ok(Stray::Reuse),
        Err(HeaderFlaw::Version(found)) => {
            return Err(WalError::Version { path, found, known: FORMAT_VERSION });
        }
    };
    let segment = Segment { path, header, file, region: None };
    let refuse = |what: &str| Err(judge::damage(&segment, segment.base(), segment.base(), what.to_owned()));
    if header.log != state.log {
        return refuse("a segment of another log, move it away");
    }
    if header.life.number != number {
        return Ok(Stray::Reuse);
    }
    if number >= state.next {
        // No manifest that is known ever named it: it holds copies at most (W6).
        if Walk::new(&segment, None).look_behind(false)?.published {
            return refuse("the segment was part of the log, and the manifest does not know it");
        }
        return Ok(Stray::Reuse);
    }
    // A manifest left it out. What of it was good is copied up to the end that manifest tells.
    let tail = judge::look(&segment)?;
    let rest = tail.behind.end > segment.life().offset(tail.reached.at);
    if rest || tail.reached.at > state.end {
        return Ok(Stray::Keep(header.life));
    }
    Ok(Stray::Reuse)
}
