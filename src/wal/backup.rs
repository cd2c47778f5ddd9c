//! A copy of a log that is a log: it opens, verifies and replays alone.
//!
//! # Why copies, not links
//!
//! A segment that the log gives up becomes a spare under another name and is written again: a second name of
//! it would see that. So every byte is copied, and what was given up meanwhile is noticed by the manifest.
//!
//! # Order, and what a crash between two steps leaves
//!
//! The segments are copied and synced, the folder is synced, then the manifest gets its name. Before that
//! the copy is no log: an opening says that its manifest is missing.

use std::io;
use std::path::Path;

use crate::doors::Doors;
use crate::storage::Kind;
use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::Verified;
use super::WalError;
use super::WalReader;
use super::chain;
use super::chain::Chain;
use super::folder::Folder;
use super::folder::io_error;
use super::frame;
use super::judge;
use super::judge::Verdict;
use super::manifest::Manifest;
use super::manifest::State;
use super::salvage::hold;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment::Segment;
use super::walk::Point;

/// Looks before it is believed that the log gives up segments faster than they can be copied.
const ATTEMPTS: usize = 4;
/// What is copied at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// Copies the log in the folder `dir` to the folder `dest`, which is made, or is empty; its parent must be there. It
/// blocks.
///
/// The log may be open and busy. The copy then ends where it was durable when the copying began (whoever has the
/// [`crate::wal::Wal`] calls `sync` before); a hold at its start ([`crate::wal::Wal::hold`]) saves attempts. Of a log
/// that nobody uses everything is copied that an opening would accept. The copy is durable and was verified when
/// this returns; it has the same positions, and is a log of its own from its first opening on.
///
/// # Errors
///
/// [`WalError::Damage`] when the log is damaged. [`WalError::Io`] when there is no log, `dest` is not empty
/// (`AlreadyExists`), or the disk is full: what was copied is left there.
pub fn backup(dir: &Path, dest: &Path, doors: &Doors) -> Result<Verified, WalError> {
    let folder = Folder::new(dir, doors);
    let to = Folder::new(dest, doors);
    folder.list()?;
    // Nobody can open it meanwhile; where somebody has, only what is durable is copied.
    let held = match hold(&folder) {
        Err(WalError::Locked { .. }) => None,
        held => Some(held?),
    };
    make(&to)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let copied = copy_segments(&folder, &to, held.is_some());
        let start = Manifest::open(&folder, OpenMode::Read)?.state.start;
        let failure = match copied {
            // Nothing that was copied was given up before it was whole.
            Ok(state) if start <= state.start => {
                Manifest::create_as(&to, state)?;
                break;
            }
            Ok(state) => WalError::OutOfRange { at: state.start, start, end: state.end },
            // What is being written may look damaged, and what is given up be gone.
            Err(failure) => failure,
        };
        if held.is_some() || attempts == ATTEMPTS {
            return Err(failure);
        }
        clear(&to)?;
    }
    WalReader::open(dest, doors)?.verify()
}

fn make(to: &Folder) -> Result<(), WalError> {
    let path = to.path();
    match to.disk.create_dir(path, true) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = to.disk.list(path).map_err(|source| io_error("list", path, source))?;
            if !there.is_empty() {
                return Err(io_error("copy a log to it, it is not empty", path, error));
            }
        }
        Err(error) => return Err(io_error("create the folder", path, error)),
    }
    to.sync_parent()
}

/// Removes what an attempt has copied.
fn clear(to: &Folder) -> Result<(), WalError> {
    let path = to.path();
    for entry in to.disk.list(path).map_err(|source| io_error("list", path, source))? {
        if entry.kind == Kind::File {
            to.remove(&path.join(entry.name))?;
        }
    }
    Ok(())
}

/// Copies the segments; what the manifest of the copy is to say.
fn copy_segments(folder: &Folder, to: &Folder, idle: bool) -> Result<State, WalError> {
    let Chain { manifest, segments } = chain::load(folder, OpenMode::Read)?;
    let state = manifest.state;
    let Some(newest) = segments.last() else { return Ok(State { clean: false, ..state }) };
    let tail = judge::look(newest)?;
    let (end, acked) = match judge::judge(&state, &tail) {
        Verdict::Accept { end, acked, .. } => (end, acked),
        Verdict::Damage { at, to, what } => return Err(judge::lost(newest, &tail, at, to, what)),
    };
    let end = if idle { end } else { acked };
    // The segment in which the copy ends: the newest, unless nothing in it counts.
    let count = segments.iter().take_while(|segment| segment.base() < end).count().max(1);
    let mut last = None;
    for (segment, next) in segments.iter().take(count).zip(segments.iter().skip(1).map(Some).chain([None])) {
        let next = next.filter(|next| next.base() <= end).map(Segment::base);
        let point = match next {
            Some(_) => None,
            None => Some(judge::point_at(segment, end.max(segment.base()))?),
        };
        copy_segment(to, segment, next, point.as_ref())?;
        last = Some((segment, point));
    }
    to.sync()?;
    let Some((last, point)) = last else { return Ok(State { clean: false, ..state }) };
    Ok(State {
        clean: false,
        count: count as u64,
        last: (last.life().number, last.life().salt),
        end: end.max(state.start),
        frames: point.map_or(state.frames, |point| point.sequence),
        ..state
    })
}

/// Copies a segment up to the base of the next one, with its seal, or up to `point`.
fn copy_segment(
    to: &Folder,
    segment: &Segment,
    next: Option<Lsn>,
    point: Option<&Point>,
) -> Result<(), WalError> {
    let life = segment.life();
    let header = &segment.header;
    let path = to.segment(life.number);
    let failed = |what, source| io_error(what, &path, source);
    let file = to
        .disk
        .open(&path, OpenMode::CreateNew { private: true })
        .map_err(|source| failed("create", source))?;
    let end = match (next, point) {
        (Some(next), _) => life.offset(next).saturating_add(frame::SEAL_BYTES).min(header.bytes),
        (None, Some(point)) => life.offset(point.at),
        (None, None) => header.bytes,
    };
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < end {
        bytes.resize((end - at).min(PIECE_BYTES) as usize, 0);
        let count =
            segment.file.read_at(at, &mut bytes).map_err(|source| io_error("read", &segment.path, source))?;
        let short = count < bytes.len();
        let read = bytes.get(..count).unwrap_or_default();
        file.write_at(at, read).map_err(|source| failed("write", source))?;
        if short {
            break;
        }
        at += count as u64;
    }
    file.set_len(header.bytes).map_err(|source| failed("set the length of", source))?;
    if let Some(point) = point {
        // D22: what the copy holds counts as acknowledged.
        let mark = frame::mark(life, point.at, point.at, point.sequence);
        let offset = life.offset(point.at);
        if offset >= SEGMENT_HEADER_BYTES && offset + frame::ALIGN <= header.bytes {
            file.write_at(offset, &mark).map_err(|source| failed("write", source))?;
        }
    }
    file.sync().map_err(|source| failed("sync", source))
}
