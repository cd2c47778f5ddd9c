//! Everything that is good in a damaged log, in order, and between it each gap by name.
//!
//! Owns reading on behind damage. Does not own finding segments (`survey`). Changes no file.
//!
//! # The rule
//!
//! - Damage ends nothing: behind a frame that does not verify the next one is looked for at each multiple of
//!   64 bytes, by magic number, salt, header checksum and body checksum. No length that is not covered by a
//!   checksum that verifies is believed.
//! - A frame of an append that has lost another frame still counts: its entries are whole. An entry that
//!   has lost a piece is part of the gap.
//! - The log ends where an opening would let it end, or, where that refuses, behind the last position that
//!   is proven to have been acknowledged: a tail that nobody was promised is no gap.
//! - Whatever keeps an opening from opening the log is told as a gap, an empty one when nothing is missing.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::doors::Doors;
use crate::storage::DiskLock;
use crate::stream::Lsn;

use super::WalError;
use super::entry::PieceStart;
use super::error::end_of_range;
use super::folder::Folder;
use super::folder::io_error;
use super::frame::ALIGN;
use super::frame::CONTINUES;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Flaw;
use super::frame::Header;
use super::frame::Kind;
use super::frame::MORE;
use super::frame::SPLIT;
use super::health::lock;
use super::judge;
use super::judge::Verdict;
use super::open;
use super::segment::Chunk;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment::Source;
use super::survey::Link;
use super::survey::Piece;
use super::survey::Survey;
use super::walk::header_at;

/// What [`Salvage`] hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Salvaged {
    /// A whole entry; its checksums were verified.
    Entry {
        /// Where it begins.
        at: Lsn,
        /// Its bytes.
        entry: Vec<u8>,
    },
    /// Something is wrong here.
    Gap(Gap),
}

/// A place at which a log is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Every good entry that begins below was handed out before.
    pub from: Lsn,
    /// Good entries begin here again. At the end of the log, the highest position that is known to have been
    /// acknowledged, or [`Gap::UNKNOWN`] when nothing tells it. The same as `from` when no entry is missing.
    pub to: Lsn,
    /// The file in which the damage begins.
    pub segment: PathBuf,
    /// Where in that file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

impl Gap {
    /// The end of a gap of which nothing tells how far the log went.
    pub const UNKNOWN: Lsn = Lsn(u64::MAX);

    /// Whether no entry is missing, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, segment, offset, reason, .. } = self;
        let to = end_of_range(self.to);
        write!(f, "{segment:?}: damage at byte {offset} (LSN {from} to {to}): {reason}")?;
        if self.is_empty() { f.write_str("; no entry is missing") } else { Ok(()) }
    }
}

/// Hands out every good entry of the log in the folder `dir`, in order, and between them each gap, however
/// damaged the log is. Changes nothing. It blocks.
///
/// Of a log that is whole it gives what [`crate::wal::Wal::replay`] gives, and no gap.
///
/// # Errors
///
/// [`WalError::Locked`] while the log is open: it is not damaged then, and what is being written would look
/// so. [`WalError::Io`] when there is no log, or a file may not be opened; [`WalError::Version`].
pub fn salvage(dir: &Path, doors: &Doors) -> Result<Salvage, WalError> {
    let folder = Folder::new(dir, doors);
    let held = hold(&folder)?;
    let mut salvage = Salvage::of(folder)?;
    salvage.held = held;
    Ok(salvage)
}

/// The lock of the log, where there is one and it can be had: a log on a disk that is mounted to read only is
/// in use by nobody.
pub(super) fn hold(folder: &Folder) -> Result<Option<Box<dyn DiskLock>>, WalError> {
    let path = folder.lock();
    match folder.disk.metadata(&path) {
        Ok(_) => match folder.disk.lock(&path) {
            Ok(None) => Err(WalError::Locked { dir: folder.path().to_owned() }),
            Ok(held) => Ok(held),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(io_error("lock", &path, source)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io_error("look at", &path, source)),
    }
}

/// The good entries of a damaged log, and the gaps between them; see [`salvage`].
pub struct Salvage {
    folder: Folder,
    links: VecDeque<Link>,
    /// What is read now.
    current: Option<Scan>,
    ready: VecDeque<Salvaged>,
    /// Everything that begins below was handed out or is in a gap.
    position: Lsn,
    start: Lsn,
    end: Lsn,
    /// Sequence of the next frame, where known.
    sequence: Option<u64>,
    /// An entry that goes on in the next frame.
    partial: Option<(Lsn, Vec<u8>)>,
    /// A gap whose end is not known yet.
    gap: Option<Gap>,
    /// A gap was told.
    told: bool,
    /// What is wrong with the segment that is read, until a gap says so.
    flaw: Option<(PathBuf, String)>,
    /// It is too short, which is told where it ends.
    flaw_is_at_end: bool,
    /// The newest segment, or an unknown part of it, is not there.
    open_end: bool,
    segment_bytes: Option<u64>,
    done: bool,
    held: Option<Box<dyn DiskLock>>,
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = if self.held.is_some() { ", locked" } else { "" };
        write!(f, "salvage of {:?} at LSN {} of {}{lock}", self.folder, self.position, self.end)
    }
}

impl Iterator for Salvage {
    type Item = Salvaged;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.done {
            self.advance();
        }
        self.ready.pop_front()
    }
}

impl Salvage {
    pub(super) fn of(folder: Folder) -> Result<Self, WalError> {
        let survey = Survey::of(&folder)?;
        let bases: Vec<_> = survey
            .links
            .iter()
            .filter_map(|link| match link {
                Link::Here(piece) => Some(piece.segment.base()),
                Link::Missing { .. } => None,
            })
            .collect();
        let oldest = bases.first().copied();
        let start = survey.state.map(|state| state.start).or(oldest).unwrap_or(Lsn(0));
        let segment_bytes = survey.links.iter().rev().find_map(|link| match link {
            Link::Here(piece) if piece.headed => Some(piece.segment.header.bytes),
            _ => None,
        });
        let end = end_of(&survey, start);
        let open_end = match survey.links.last() {
            Some(Link::Here(piece)) => piece.bytes < piece.segment.header.bytes,
            Some(Link::Missing { .. }) => true,
            None => false,
        };
        let mut salvage = Self {
            links: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
            position: start,
            start,
            end,
            sequence: None,
            partial: None,
            gap: None,
            told: false,
            flaw: None,
            flaw_is_at_end: false,
            open_end,
            segment_bytes,
            done: false,
            held: None,
            folder,
        };
        if let Some(flaw) = survey.manifest_flaw {
            let manifest = salvage.folder.manifest();
            salvage.note(manifest, 0, flaw);
        }
        let first_is_here = matches!(survey.links.first(), Some(Link::Here(_)));
        salvage.links = survey.links.into();
        if first_is_here && oldest.is_some_and(|oldest| oldest > start) {
            let manifest = salvage.folder.manifest();
            let reason = "the segments at the start of the log are missing".to_owned();
            salvage.lost(manifest, 0, reason);
        }
        Ok(salvage)
    }

    /// Where the log starts.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Where what is handed out ends.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Length of the log's newest segment that could be read.
    pub fn segment_bytes(&self) -> Option<u64> {
        self.segment_bytes
    }

    /// Something is wrong that costs no entry, as far as is known.
    fn note(&mut self, segment: PathBuf, offset: u64, reason: String) {
        match &mut self.gap {
            Some(gap) => {
                gap.reason.push_str("; ");
                gap.reason.push_str(&reason);
            }
            None => {
                let at = self.partial.as_ref().map_or(self.position, |(begun, _)| *begun);
                self.tell(Gap { from: at, to: at, segment, offset, reason });
            }
        }
    }

    fn tell(&mut self, gap: Gap) {
        self.told = true;
        self.ready.push_back(Salvaged::Gap(gap));
    }

    /// What comes next cannot be read. It goes on until a good frame is found.
    fn lost(&mut self, segment: PathBuf, offset: u64, mut reason: String) {
        if let Some((_, flaw)) = self.flaw.take_if(|(path, _)| *path == segment)
            && flaw != reason
        {
            reason = format!("{flaw}; {reason}");
        }
        let from = self.partial.take().map_or(self.position, |(at, _)| at);
        self.sequence = None;
        let position = self.position;
        self.gap.get_or_insert(Gap { from, to: position, segment, offset, reason });
    }

    /// Ends the gap at `to`.
    fn found(&mut self, to: Lsn) {
        if let Some(gap) = self.gap.take() {
            let to = to.max(gap.from);
            self.tell(Gap { to, ..gap });
        }
    }

    fn advance(&mut self) {
        let Some(mut scan) = self.current.take() else { return self.next_link() };
        let at = scan.at();
        if at >= self.end {
            return self.finish();
        }
        if scan.limit.is_some_and(|limit| at >= limit) {
            self.position = self.position.max(scan.limit.unwrap_or(at));
            return;
        }
        match scan.look(self.sequence) {
            Ok(header) => {
                self.take(&header, &scan);
                scan.offset += header.stride();
                self.current = Some(scan);
            }
            Err(flaw) => {
                // Where the next segment is missing, the seal tells where this one ends.
                if scan.limit.is_none() && flaw.is_none() {
                    self.position = self.position.max(at);
                    return;
                }
                let reason = scan.reason(flaw.unwrap_or(Flaw::NoFrame));
                self.lost(scan.piece.segment.path.clone(), scan.offset, reason);
                if scan.resync() {
                    self.current = Some(scan);
                } else if let Some(limit) = scan.limit {
                    self.position = self.position.max(limit);
                }
            }
        }
    }

    fn next_link(&mut self) {
        if let Some((path, flaw)) = self.flaw.take() {
            self.note(path, 0, flaw);
        }
        match self.links.pop_front() {
            None => self.finish(),
            Some(Link::Missing { path, reason }) => {
                self.lost(path, 0, reason);
            }
            Some(Link::Here(piece)) => {
                let base = piece.segment.base();
                if base > self.position && self.gap.is_none() && self.sequence.is_some() {
                    let reason = format!("the segment begins at LSN {base}, the one before ends elsewhere");
                    self.lost(piece.segment.path.clone(), 0, reason);
                }
                self.flaw = piece.flaw.clone().map(|flaw| (piece.segment.path.clone(), flaw));
                self.flaw_is_at_end = piece.bytes < piece.segment.header.bytes;
                let limit = match self.links.front() {
                    Some(Link::Here(next)) => Some(next.segment.base()),
                    _ => None,
                };
                self.current = Some(Scan::new(piece, limit));
            }
        }
    }

    /// Hands out what a good frame holds.
    fn take(&mut self, header: &Header, scan: &Scan) {
        let end = Lsn(header.at.0.saturating_add(header.stride()));
        // Segments overlap when one was copied to the next and is still there.
        if header.at < self.position {
            return;
        }
        if !self.flaw_is_at_end
            && let Some((path, flaw)) = self.flaw.take()
        {
            self.note(path, 0, flaw);
        }
        let offset = scan.offset + ALIGN;
        let mut at = Lsn(header.at.0.saturating_add(FRAME_HEADER_BYTES as u64));
        let first = self.sequence.is_none();
        self.position = end;
        self.sequence = Some(header.sequence.wrapping_add(1));
        // It goes on with an entry whose beginning is lost, or was given up.
        let mut headless = header.has(SPLIT) && self.partial.is_none();
        if headless && self.gap.is_none() && !(first && header.at == self.start) {
            let reason = Flaw::Append.to_string();
            self.lost(scan.piece.segment.path.clone(), scan.offset, reason);
        }
        if !header.has(SPLIT) && self.partial.is_some() {
            self.position = header.at;
            self.lost(scan.piece.segment.path.clone(), scan.offset, Flaw::Append.to_string());
            self.position = end;
        }
        if !headless {
            self.found(header.at);
        }
        let mut rest = scan.body.as_slice();
        while !rest.is_empty() {
            let piece = PieceStart::decode(rest);
            let split = piece.and_then(|piece| {
                let len = usize::try_from(piece.len).ok()?;
                let bytes = rest.get(piece.start_bytes..)?;
                Some((piece, bytes.get(..len)?, bytes.get(len..)?))
            });
            let Some((piece, bytes, behind)) = split.filter(|(piece, bytes, _)| piece.verifies(bytes)) else {
                let offset = offset + (scan.body.len() - rest.len()) as u64;
                self.position = at;
                self.lost(scan.piece.segment.path.clone(), offset, Flaw::Entries.to_string());
                self.position = end;
                return;
            };
            let next = Lsn(at.0 + (rest.len() - behind.len()) as u64);
            if headless {
                if !piece.more {
                    headless = false;
                    self.found(next);
                }
            } else {
                let (begun, mut entry) = self.partial.take().unwrap_or((at, Vec::new()));
                entry.extend_from_slice(bytes);
                if piece.more {
                    self.partial = Some((begun, entry));
                } else {
                    self.ready.push_back(Salvaged::Entry { at: begun, entry });
                }
            }
            (at, rest) = (next, behind);
        }
    }

    fn finish(&mut self) {
        self.done = true;
        let end = self.end;
        match self.flaw.take() {
            Some((path, flaw)) if self.open_end && self.links.is_empty() => self.lost(path, 0, flaw),
            Some((path, flaw)) => self.note(path, 0, flaw),
            None => {}
        }
        for link in std::mem::take(&mut self.links) {
            if let Link::Missing { path, reason } = link {
                self.lost(path, 0, reason);
            }
        }
        if let Some((begun, _)) = self.partial.take() {
            let reason = "an entry goes on in a frame that is not there".to_owned();
            let manifest = self.folder.manifest();
            self.gap.get_or_insert(Gap { from: begun, to: end, segment: manifest, offset: 0, reason });
        }
        if self.position < end && self.gap.is_none() {
            let reason = "the log was acknowledged up to a higher position".to_owned();
            let manifest = self.folder.manifest();
            self.lost(manifest, 0, reason);
        }
        self.found(if self.open_end { Gap::UNKNOWN } else { end });
        if self.told {
            return;
        }
        // What an opening checks besides.
        match open::check(&self.folder) {
            Err(WalError::Damage { path, offset, at, what, .. }) => {
                self.position = at.clamp(self.start, end);
                self.note(path, offset, what);
            }
            Ok(()) => {}
            Err(failure) => self.note(self.folder.path().to_owned(), 0, failure.to_string()),
        }
    }
}

/// Where the log ends: what an opening accepts, or what is proven to have been acknowledged.
fn end_of(survey: &Survey, start: Lsn) -> Lsn {
    let told = survey.state.map_or(start, |state| state.end);
    let newest = survey.links.iter().enumerate().rev().find_map(|(at, link)| match link {
        Link::Here(piece) => Some((piece, at + 1 == survey.links.len())),
        Link::Missing { .. } => None,
    });
    let Some((piece, is_newest)) = newest else { return told };
    let segment = &piece.segment;
    let mut proven = told;
    if piece.headed && is_newest {
        let Ok(tail) = judge::look(segment) else { return told };
        proven = proven.max(tail.acked).max(tail.behind.acked);
        if let Some(Verdict::Accept { end, .. }) = survey.state.map(|state| judge::judge(&state, &tail)) {
            return end;
        }
    }
    let mut scan = Scan::borrowed(piece);
    let (acked, sealed) = scan.acked();
    proven = proven.max(acked);
    // Behind a segment that another one follows, everything is durable (W4).
    proven = if is_newest { proven } else { proven.max(sealed.unwrap_or(Lsn(0))) };
    let mut whole = if piece.headed { segment.header.group } else { segment.base() };
    let mut sequence = piece.headed.then_some(segment.header.sequence);
    loop {
        match scan.look(sequence) {
            Ok(header) => {
                scan.offset += header.stride();
                sequence = Some(header.sequence.wrapping_add(1));
                if !header.has(MORE) {
                    whole = scan.at();
                }
            }
            Err(_) => {
                sequence = None;
                if proven <= whole || !scan.resync() {
                    break;
                }
            }
        }
    }
    whole.max(proven)
}

/// The frames of one segment, also those behind damage.
struct Scan<P = Piece> {
    piece: P,
    chunk: Chunk,
    offset: u64,
    /// Where the next segment begins, if it is known.
    limit: Option<Lsn>,
    /// What was found at `offset`: its body, and how far to go before looking for the next one.
    body: Vec<u8>,
    skip: u64,
    /// Lowest sequence that may follow.
    least: u64,
    /// An append goes on; `None` when that is not known.
    open: Option<bool>,
}

impl Scan {
    fn new(piece: Piece, limit: Option<Lsn>) -> Self {
        Scan::over(piece, limit)
    }
}

impl<'a> Scan<&'a Piece> {
    fn borrowed(piece: &'a Piece) -> Self {
        Scan::over(piece, None)
    }
}

impl<P: std::borrow::Borrow<Piece>> Scan<P> {
    fn over(piece: P, limit: Option<Lsn>) -> Self {
        let here: &Piece = piece.borrow();
        let header = here.segment.header;
        let open = here.headed.then(|| header.group != header.life.base);
        let least = if here.headed { header.sequence } else { 0 };
        Self {
            chunk: Chunk::default(),
            offset: SEGMENT_HEADER_BYTES,
            limit,
            body: Vec::new(),
            skip: ALIGN,
            least,
            open,
            piece,
        }
    }

    fn at(&self) -> Lsn {
        self.piece.borrow().segment.life().lsn(self.offset)
    }

    fn reason(&self, flaw: Flaw) -> String {
        let piece: &Piece = self.piece.borrow();
        match &*lock(&piece.unreadable) {
            Some(failure) => format!("{flaw}; the disk cannot read all of the file: {failure}"),
            None if self.offset + ALIGN > piece.bytes => {
                format!("the file has {} bytes, its header says {}", piece.bytes, piece.segment.header.bytes)
            }
            None => flaw.to_string(),
        }
    }

    /// The good frame at this place, whose body is in `body` then. `Err(None)` is a good seal.
    fn look(&mut self, sequence: Option<u64>) -> Result<Header, Option<Flaw>> {
        self.skip = ALIGN;
        let header = self.frame(true)?;
        if let Some(expected) = sequence.filter(|expected| *expected != header.sequence) {
            return Err(Some(Flaw::Sequence { stored: header.sequence, expected }));
        }
        if self.open.is_some_and(|open| open != header.has(CONTINUES)) {
            return Err(Some(Flaw::Append));
        }
        self.open = Some(header.has(MORE));
        self.least = header.sequence.saturating_add(1);
        Ok(header)
    }

    fn frame(&mut self, told: bool) -> Result<Header, Option<Flaw>> {
        let piece: &Piece = self.piece.borrow();
        let segment = &piece.segment;
        // The header's length binds, unless the header is made up or the file shorter.
        let source =
            Source { file: &*segment.file, path: &segment.path, end: segment.header.bytes.min(piece.bytes) };
        let found = header_at(&mut self.chunk, &source, segment.life(), self.offset);
        let header = match found {
            Ok(Ok((header, _))) => header,
            Ok(Err(flaw)) => return Err(Some(flaw)),
            Err(_) => return Err(Some(Flaw::Short)),
        };
        match header.kind {
            Kind::Frame => {}
            Kind::Seal if told => return Err(None),
            Kind::Seal | Kind::Mark => return Err(Some(Flaw::NoFrame)),
        }
        let len = header.body_bytes as usize;
        if self.offset.checked_add(header.stride()).is_none_or(|end| end > segment.header.bytes) {
            return Err(Some(Flaw::Place));
        }
        let Ok(Some(body)) = self.chunk.get(&source, self.offset + ALIGN, len) else {
            return Err(Some(Flaw::Short));
        };
        // The header verifies, and with it the length.
        self.skip = header.stride();
        if let Err(flaw) = header.check_body(body) {
            return Err(Some(flaw));
        }
        self.body.clear();
        self.body.extend_from_slice(body);
        Ok(header)
    }

    /// Goes to the next good frame behind this place, if there is one.
    fn resync(&mut self) -> bool {
        self.open = None;
        loop {
            self.offset = self.offset.saturating_add(self.skip);
            self.skip = ALIGN;
            let piece: &Piece = self.piece.borrow();
            if self.offset.saturating_add(ALIGN) > piece.bytes.min(piece.segment.header.bytes) {
                return false;
            }
            if self.limit.is_some_and(|limit| self.at() >= limit) {
                return false;
            }
            if self.frame(false).is_ok_and(|header| header.sequence >= self.least) {
                self.skip = ALIGN;
                return true;
            }
        }
    }

    /// The highest position that anything in the segment proves to be acknowledged (W2), and where it was
    /// sealed.
    fn acked(&mut self) -> (Lsn, Option<Lsn>) {
        let piece: &Piece = self.piece.borrow();
        let segment = &piece.segment;
        let source =
            Source { file: &*segment.file, path: &segment.path, end: segment.header.bytes.min(piece.bytes) };
        let (mut acked, mut sealed) = (Lsn(0), None);
        let mut offset = SEGMENT_HEADER_BYTES;
        while let Ok(found) = header_at(&mut self.chunk, &source, segment.life(), offset) {
            match found {
                Ok((header, _)) => {
                    acked = acked.max(header.acked);
                    if header.kind == Kind::Seal {
                        sealed = sealed.max(Some(header.at));
                    }
                }
                Err(Flaw::Short) => break,
                Err(_) => {}
            }
            offset += ALIGN;
        }
        self.chunk.clear();
        (acked, sealed)
    }
}
