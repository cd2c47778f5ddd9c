//! Reads one split piece by piece. Everything here blocks and runs as a job of a pool.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::error::Result;
use crate::format::InputFormat;
use crate::source::file::content::Content;
use crate::source::file::cut::Cutter;
use crate::source::file::cut::Piece;
use crate::source::file::error::FileError;
use crate::source::file::mark::Mark;
use crate::source::file::mark::Trail;
use crate::storage::Disk;
use crate::stream::SplitId;

/// What a reader needs to open a split at a position.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) format: Arc<dyn InputFormat>,
    pub(super) split: SplitId,
    /// The file, as the disk knows it.
    pub(super) at: PathBuf,
    /// Where to go on.
    pub(super) mark: Mark,
    /// The record before the mark had no line end, so nothing may follow it.
    pub(super) unterminated: bool,
    pub(super) record_limit: usize,
    pub(super) chunk_bytes: usize,
}

/// What the end of a file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// The end of the input: what is left is the last record.
    Finish,
    /// More may come: what is left waits for its line end.
    Wait,
}

/// An open split.
#[derive(Debug)]
pub(super) struct Reader {
    content: Content,
    cutter: Cutter,
    chunk_bytes: usize,
    /// The end was seen, and more may have come since.
    was_at_end: bool,
    /// Position behind a record without a line end, behind which nothing may come.
    sealed: Option<u64>,
    at: PathBuf,
}

/// What a step brought.
#[derive(Debug)]
pub(super) struct Step {
    /// Goes on from here; `None` when the split has to be opened again for it.
    pub(super) reader: Option<Reader>,
    /// Whole records.
    pub(super) pieces: Vec<Piece>,
    /// Bytes of the file that were read so far, compressed if it is.
    pub(super) raw: u64,
    /// Set when the content ended, for now.
    pub(super) end: Option<End>,
}

/// Where a step found the end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Bytes of the file up to there, compressed if it is.
    pub(super) raw: u64,
    /// Nothing waits for a line end or the rest of compressed data.
    pub(super) is_clean: bool,
}

/// Opens the split and makes the first step.
pub(super) fn open(opening: &Opening, at_end: AtEnd) -> Result<Step> {
    let position = opening.mark.position;
    let mut content = match Content::open(opening.disk.as_ref(), &opening.at, position) {
        // Came and went between two looks.
        Err(FileError::Vanished { .. }) if at_end == AtEnd::Wait && position == 0 => {
            return Ok(Step::at_end(End { raw: 0, is_clean: true }));
        }
        opened => opened?,
    };
    let mut head = Vec::new();
    let ended = read_head(&mut content, &mut head, opening, at_end)?;
    if let Some(end) = ended
        && position == 0
    {
        if head.is_empty() {
            return Ok(Step::at_end(end));
        }
        // The header line, if there is one, may still be growing.
        if at_end == AtEnd::Wait && !head.contains(&b'\n') {
            return Ok(Step::at_end(End { is_clean: false, ..end }));
        }
    }
    let decoder = opening.format.decoder(&opening.split, &head)?;
    let mut trail = Trail::default();
    let mut seen = ended;
    if position == 0 {
        let start = usize::try_from(decoder.start()).map_or(head.len(), |start| start.min(head.len()));
        let records = head.split_off(start);
        trail.pass(&head);
        head = records;
    } else {
        content = Content::open(opening.disk.as_ref(), &opening.at, position)?;
        trail = content.go_to(&opening.mark)?;
        head.clear();
        seen = None;
    }
    let mut cutter = Cutter::new(decoder, opening.record_limit, trail);
    cutter.space(head.len()).copy_from_slice(&head);
    drop(head);
    let pieces = cutter.cut(0);
    let reader = Reader {
        content,
        cutter,
        chunk_bytes: opening.chunk_bytes,
        was_at_end: false,
        sealed: opening.unterminated.then_some(position),
        at: opening.at.clone(),
    };
    match seen {
        Some(end) => Ok(reader.ended(pieces, end, at_end)),
        None if pieces.is_empty() => reader.step(at_end),
        None => Ok(reader.stepped(pieces)),
    }
}

impl Step {
    fn at_end(end: End) -> Self {
        Self { reader: None, pieces: Vec::new(), raw: end.raw, end: Some(end) }
    }
}

/// Reads the start of the content, with a header line in full; says where it ended, if it did.
fn read_head(
    content: &mut Content,
    head: &mut Vec<u8>,
    opening: &Opening,
    at_end: AtEnd,
) -> Result<Option<End>, FileError> {
    loop {
        let want = content.expected(opening.chunk_bytes)?;
        let held = head.len();
        head.resize(held + want, 0);
        let got = content.read(head.split_at_mut(held).1);
        let (len, end) = match got {
            Ok(got) => (got.len, got.end.then_some(true)),
            Err(FileError::CutShort { .. }) if at_end == AtEnd::Wait => (0, Some(false)),
            Err(error) => return Err(error),
        };
        head.truncate(held + len);
        if let Some(is_clean) = end {
            return Ok(Some(End { raw: content.raw_position(), is_clean }));
        }
        if head.len() > opening.record_limit || head.split_at(held).1.contains(&b'\n') {
            return Ok(None);
        }
    }
}

impl Reader {
    /// Reads on until there are whole records, or the end.
    pub(super) fn step(mut self, at_end: AtEnd) -> Result<Step> {
        if self.was_at_end {
            self.content.still_ends_with(&self.cutter.last_bytes())?;
            self.was_at_end = false;
        }
        loop {
            let want = self.content.expected(self.chunk_bytes)?;
            let (len, end) = match self.content.read(self.cutter.space(want)) {
                Ok(got) => (got.len, got.end.then_some(true)),
                Err(FileError::CutShort { .. }) if at_end == AtEnd::Wait => (0, Some(false)),
                Err(error) => return Err(Error::from(error)),
            };
            if let Some(position) = self.sealed
                && len > 0
            {
                return Err(FileError::GrewBehindTail { path: self.at, position }.into());
            }
            let pieces = self.cutter.cut(want - len);
            if let Some(is_clean) = end {
                let end = End { raw: self.content.raw_position(), is_clean };
                return Ok(self.ended(pieces, end, at_end));
            }
            if !pieces.is_empty() {
                return Ok(self.stepped(pieces));
            }
        }
    }

    fn stepped(self, pieces: Vec<Piece>) -> Step {
        Step { raw: self.content.raw_position(), reader: Some(self), pieces, end: None }
    }

    fn ended(mut self, mut pieces: Vec<Piece>, end: End, at_end: AtEnd) -> Step {
        if at_end == AtEnd::Finish {
            pieces.extend(self.cutter.finish());
        }
        let is_clean = end.is_clean && self.cutter.is_between_records();
        self.was_at_end = true;
        // A decompressor that has seen an end cannot go on when more comes.
        let reader = (at_end == AtEnd::Wait && !self.content.is_compressed()).then_some(self);
        Step { reader, pieces, raw: end.raw, end: Some(End { is_clean, ..end }) }
    }
}
