//! Reading: one entry by its LSN, or all from an LSN on.
//!
//! Owns finding segments and putting entries together. Reads files with calls and verifies everything
//! it hands out; only single entries of segments that this process wrote come out of the map.

use std::sync::Arc;

use crate::stream::Lsn;

use super::WalError;
use super::entry::PIECE_START_BYTES_MAX;
use super::entry::PieceStart;
use super::frame::ALIGN;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Flaw;
use super::frame::Kind;
use super::frame::SPLIT;
use super::frame::aligned;
use super::judge::damage;
use super::segment::Chunk;
use super::segment::Segment;
use super::segment::Source;
use super::walk::header_at;

/// A segment of a log that is open, and where the next one begins.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) segment: Arc<Segment>,
    /// `None` for the newest.
    pub(super) end: Option<Lsn>,
}

/// The log as it was at some moment.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The oldest first; never empty unless the log is.
    pub(super) segments: Arc<Vec<Live>>,
    pub(super) start: Lsn,
    pub(super) end: Lsn,
}

/// An entry with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// Where it begins.
    pub at: Lsn,
    /// Its bytes.
    pub entry: Vec<u8>,
}

impl View {
    /// The segments with these files and where they begin.
    pub(super) fn live(segments: Vec<Arc<Segment>>) -> Vec<Live> {
        let ends: Vec<_> = segments.iter().skip(1).map(|next| Some(next.base())).chain([None]).collect();
        segments.into_iter().zip(ends).map(|(segment, end)| Live { segment, end }).collect()
    }

    /// The segment that holds `at`.
    fn find(&self, at: Lsn) -> Option<(usize, &Live)> {
        let index = self.segments.partition_point(|live| live.segment.base() <= at).checked_sub(1)?;
        Some((index, self.segments.get(index)?))
    }

    fn out_of_range(&self, at: Lsn) -> WalError {
        WalError::OutOfRange { at, start: self.start, end: self.end }
    }

    /// The entry that begins at `at`.
    pub(super) fn read(&self, at: Lsn) -> Result<Vec<u8>, WalError> {
        if at < self.start || at >= self.end {
            return Err(self.out_of_range(at));
        }
        let mut entry = Vec::new();
        let mut piece_at = at;
        loop {
            let (live, end) = match self.find(piece_at) {
                Some((_, live)) if piece_at < self.end => (live, live.end.unwrap_or(self.end).min(self.end)),
                _ => return Err(self.out_of_range(piece_at)),
            };
            let segment = &*live.segment;
            let no_entry = || damage(segment, piece_at, end, "no entry with a valid checksum".to_owned());
            let failed = |source| super::folder::io_error("read", &segment.path, source);
            let rest = end.0 - piece_at.0;
            let offset = segment.life().offset(piece_at);
            let mut start = [0; PIECE_START_BYTES_MAX];
            let count = usize::try_from(rest).unwrap_or(usize::MAX).min(start.len());
            let Some(start) = start.get_mut(..count) else { return Err(no_entry()) };
            segment.read(offset, start).map_err(failed)?;
            let piece = PieceStart::decode(start).ok_or_else(no_entry)?;
            let start_bytes = piece.start_bytes as u64;
            if piece.len > rest.saturating_sub(start_bytes) {
                return Err(no_entry());
            }
            let from = entry.len();
            entry.resize(from + usize::try_from(piece.len).map_err(|_| no_entry())?, 0);
            let bytes = entry.get_mut(from..).unwrap_or_default();
            segment.read(offset + start_bytes, bytes).map_err(failed)?;
            if !piece.verifies(bytes) {
                return Err(no_entry());
            }
            if !piece.more {
                return Ok(entry);
            }
            piece_at = Lsn(aligned(piece_at.0 + start_bytes + piece.len) + ALIGN);
        }
    }

    /// All entries at or behind `from`.
    pub(super) fn replay(&self, from: Lsn) -> Result<Replay, WalError> {
        if from < self.start || from > self.end {
            return Err(self.out_of_range(from));
        }
        let mut replay = Replay {
            view: self.clone(),
            from,
            at: from,
            sequence: None,
            chunk: Chunk::default(),
            index: 0,
            body: Body { at: from, offset: 0, len: 0, cursor: 0 },
            partial: None,
            assembled: false,
            done: from == self.end,
        };
        if !replay.done {
            replay.seek()?;
        }
        Ok(replay)
    }
}

/// The entries of a log from a position on, in order.
///
/// It delivers what was appended before it was made, also what is not durable yet. It keeps the files
/// it needs, also when the log gives them up meanwhile. After an error it ends.
pub struct Replay {
    view: View,
    from: Lsn,
    /// Where the next frame begins.
    at: Lsn,
    /// Its sequence, where known.
    sequence: Option<u64>,
    chunk: Chunk,
    /// The segment that `chunk` is of.
    index: usize,
    /// The body whose entries are handed out, as it lies in `chunk`.
    body: Body,
    /// An entry of several pieces, those that were found so far.
    partial: Option<Logged>,
    /// `partial` is whole and was handed out.
    assembled: bool,
    done: bool,
}

/// The verified body of a frame, and how far it was handed out.
#[derive(Clone, Copy)]
struct Body {
    /// Its position.
    at: Lsn,
    /// Where in the file it begins.
    offset: u64,
    len: usize,
    cursor: usize,
}

/// Where an entry lies.
enum Found {
    /// In `chunk`, in one piece.
    Whole { at: Lsn, offset: u64, len: usize },
    /// Put together of pieces.
    Assembled(Logged),
}

/// An entry as it lies in memory, with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedRef<'a> {
    /// Where it begins.
    pub at: Lsn,
    /// Its bytes.
    pub entry: &'a [u8],
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "replay at LSN {} of {} to {}", self.at, self.from, self.view.end)
    }
}

impl Iterator for Replay {
    type Item = Result<Logged, WalError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ref().map(|found| found.map(|entry| Logged { at: entry.at, entry: entry.entry.to_vec() }))
    }
}

impl Replay {
    /// The next entry without a copy of its own: it lies where the frame was read to. Only an entry of
    /// several pieces is put together. Otherwise as [`Iterator::next`].
    pub fn next_ref(&mut self) -> Option<Result<LoggedRef<'_>, WalError>> {
        if self.done {
            return None;
        }
        let found = self.advance();
        if !matches!(found, Ok(Some(_))) {
            self.done = true;
        }
        match found {
            Err(failure) => Some(Err(failure)),
            Ok(None) => None,
            Ok(Some(Found::Whole { at, offset, len })) => {
                Some(Ok(LoggedRef { at, entry: self.chunk.peek(offset, len).unwrap_or_default() }))
            }
            Ok(Some(Found::Assembled(logged))) => {
                let Logged { at, entry } = self.partial.insert(logged);
                Some(Ok(LoggedRef { at: *at, entry }))
            }
        }
    }

    /// Finds the frame that holds `from`.
    fn seek(&mut self) -> Result<(), WalError> {
        let Some((index, live)) = self.view.find(self.from) else { return Ok(()) };
        let live = live.clone();
        let segment = &*live.segment;
        self.index = index;
        let source = source(&live, self.view.end);
        // The frame itself, or its first entry: what callers usually have.
        for at in [self.from.0, self.from.0.saturating_sub(ALIGN)] {
            if at.is_multiple_of(ALIGN) && at >= segment.base().0 {
                let found =
                    header_at(&mut self.chunk, &source, segment.life(), segment.life().offset(Lsn(at)))?;
                if found.is_ok_and(|(header, _)| header.kind == Kind::Frame) {
                    self.at = Lsn(at);
                    return Ok(());
                }
            }
        }
        let mut at = segment.base();
        loop {
            match header_at(&mut self.chunk, &source, segment.life(), segment.life().offset(at))? {
                Ok((header, _)) if header.kind == Kind::Frame => {
                    let next = Lsn(at.0 + header.stride());
                    if next > self.from {
                        self.at = at;
                        return Ok(());
                    }
                    at = next;
                }
                Ok(_) => return Err(self.flawed(segment, at, Flaw::NoFrame)),
                Err(flaw) => return Err(self.flawed(segment, at, flaw)),
            }
        }
    }

    fn flawed(&self, segment: &Segment, at: Lsn, flaw: Flaw) -> WalError {
        damage(segment, at, self.view.end, flaw.to_string())
    }

    fn advance(&mut self) -> Result<Option<Found>, WalError> {
        if self.assembled {
            (self.partial, self.assembled) = (None, false);
        }
        loop {
            while self.body.cursor < self.body.len {
                let Body { at: body_at, offset, len, cursor } = self.body;
                let at = Lsn(body_at.0 + cursor as u64);
                let offset = offset + cursor as u64;
                let rest = self.chunk.peek(offset, len - cursor).unwrap_or_default();
                let piece = PieceStart::decode(rest);
                // The checksum of the body covers the piece's.
                let bytes = piece.and_then(|piece| {
                    let len = usize::try_from(piece.len).ok()?;
                    rest.get(piece.start_bytes..piece.start_bytes.checked_add(len)?)
                });
                let (Some(piece), Some(bytes)) = (piece, bytes) else { return Err(self.no_entry(at)) };
                let len = bytes.len();
                self.body.cursor += piece.start_bytes + len;
                match (&mut self.partial, piece.more) {
                    (None, false) if at < self.from => {}
                    (None, false) => {
                        let offset = offset + piece.start_bytes as u64;
                        return Ok(Some(Found::Whole { at, offset, len }));
                    }
                    (None, true) => self.partial = Some(Logged { at, entry: bytes.to_vec() }),
                    (Some(begun), more) => {
                        begun.entry.extend_from_slice(bytes);
                        if !more
                            && let Some(whole) = self.partial.take()
                            && whole.at >= self.from
                        {
                            self.assembled = true;
                            return Ok(Some(Found::Assembled(whole)));
                        }
                    }
                }
            }
            if self.at >= self.view.end {
                return match self.partial.take() {
                    Some(begun) => Err(self.no_entry(begun.at)),
                    None => Ok(None),
                };
            }
            self.load()?;
        }
    }

    fn no_entry(&self, at: Lsn) -> WalError {
        match self.view.find(at) {
            Some((_, live)) => self.flawed(&live.segment, at, Flaw::Entries),
            None => self.view.out_of_range(at),
        }
    }

    /// Reads the frame at `at`.
    fn load(&mut self) -> Result<(), WalError> {
        let Some((index, live)) = self.view.find(self.at) else {
            return Err(self.view.out_of_range(self.at));
        };
        let live = live.clone();
        let segment = &*live.segment;
        if index != self.index {
            self.chunk.clear();
            self.index = index;
        }
        let source = source(&live, self.view.end);
        let offset = segment.life().offset(self.at);
        let header = match header_at(&mut self.chunk, &source, segment.life(), offset)? {
            Ok((header, _)) if header.kind == Kind::Frame => header,
            Ok(_) => return Err(self.flawed(segment, self.at, Flaw::NoFrame)),
            Err(flaw) => return Err(self.flawed(segment, self.at, flaw)),
        };
        if let Some(expected) = self.sequence.filter(|expected| *expected != header.sequence) {
            let flaw = Flaw::Sequence { stored: header.sequence, expected };
            return Err(self.flawed(segment, self.at, flaw));
        }
        let Some(body) = self.chunk.get(&source, offset + ALIGN, header.body_bytes as usize)? else {
            return Err(self.flawed(segment, self.at, Flaw::Short));
        };
        if let Err(flaw) = header.check_body(body) {
            return Err(self.flawed(segment, self.at, flaw));
        }
        let at = Lsn(self.at.0 + FRAME_HEADER_BYTES as u64);
        self.body = Body { at, offset: offset + ALIGN, len: body.len(), cursor: 0 };
        if header.has(SPLIT) != self.partial.is_some() {
            if self.partial.is_some() || self.sequence.is_some() {
                return Err(self.flawed(segment, self.at, Flaw::Append));
            }
            // The replay begins inside of an entry that began before it: a position below `from`, never
            // handed out.
            self.partial = Some(Logged { at: Lsn(0), entry: Vec::new() });
        }
        self.sequence = Some(header.sequence + 1);
        self.at = Lsn(self.at.0 + header.stride());
        Ok(())
    }
}

/// What of a segment may be read: nothing that is being written.
fn source(live: &Live, end: Lsn) -> Source<'_> {
    let segment = &*live.segment;
    let end = segment.life().offset(live.end.unwrap_or(end).min(end));
    Source { file: &*segment.file, path: &segment.path, end }
}
