//! Reading a segment frame by frame, and looking for what is behind the last good one.
//!
//! Owns what is seen. Does not own what it means (`judge`).

use crate::stream::Lsn;

use super::WalError;
use super::frame::ALIGN;
use super::frame::CONTINUES;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Flaw;
use super::frame::Header;
use super::frame::Kind;
use super::frame::Life;
use super::frame::MORE;
use super::frame::RECOVERED;
use super::frame::SPLIT;
use super::frame::Tally;
use super::frame::sealed_tally;
use super::segment::Chunk;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::segment::Source;

/// A place between two frames, with everything that is known when one gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub at: Lsn,
    /// Of the frame that begins here.
    pub sequence: u64,
    /// Over the segment's frames before.
    pub tally: Tally,
    /// Where the append that is not at its end here began.
    pub open: Option<Lsn>,
}

impl Point {
    /// Where the append begins that goes on here, or here.
    pub(super) fn group(&self) -> Lsn {
        self.open.unwrap_or(self.at)
    }
}

/// A walk over the frames of a segment.
pub(super) struct Walk<'a> {
    source: Source<'a>,
    chunk: Chunk,
    life: Life,
    point: Point,
    acked: Lsn,
    touched: bool,
}

impl<'a> Walk<'a> {
    /// Starts at the first frame of `segment` and never goes beyond `end`.
    pub(super) fn new(segment: &'a Segment, end: Option<Lsn>) -> Self {
        let header = &segment.header;
        let end = end.map_or(header.bytes, |end| header.life.offset(end));
        Self::over(Source { file: &*segment.file, path: &segment.path, end }, header)
    }

    /// Starts at the first frame in `source`, a segment with `header`.
    pub(super) fn over(source: Source<'a>, header: &SegmentHeader) -> Self {
        let base = header.life.base;
        let open = (header.group != base).then_some(header.group);
        Self {
            source,
            chunk: Chunk::default(),
            life: header.life,
            point: Point { at: base, sequence: header.sequence, tally: Tally::default(), open },
            acked: Lsn(0),
            touched: false,
        }
    }

    pub(super) fn point(&self) -> Point {
        self.point
    }

    /// The highest acknowledged position that the frames so far tell of (W2).
    pub(super) fn acked(&self) -> Lsn {
        self.acked
    }

    /// Whether a frame so far was appended, and not copied by the opening that made the segment.
    pub(super) fn touched(&self) -> bool {
        self.touched
    }

    pub(super) fn offset(&self) -> u64 {
        self.life.offset(self.point.at)
    }

    /// The next frame with its body, if there is a good one; else the walk stays where it is.
    pub(super) fn step(&mut self) -> Result<Result<(Header, &[u8]), Flaw>, WalError> {
        let offset = self.offset();
        let (header, crc) = match header_at(&mut self.chunk, &self.source, &self.life, offset)? {
            Ok(found) => found,
            Err(flaw) => return Ok(Err(flaw)),
        };
        if header.kind != Kind::Frame {
            return Ok(Err(Flaw::NoFrame));
        }
        if header.sequence != self.point.sequence {
            return Ok(Err(Flaw::Sequence { stored: header.sequence, expected: self.point.sequence }));
        }
        if header.has(CONTINUES) != self.point.open.is_some() || header.has(SPLIT) && !header.has(CONTINUES) {
            return Ok(Err(Flaw::Append));
        }
        let Some(end) = offset.checked_add(header.stride()).filter(|end| *end <= self.source.end) else {
            return Ok(Err(Flaw::Place));
        };
        let len = header.body_bytes as usize;
        let Some(body) = self.chunk.get(&self.source, offset + ALIGN, len)? else {
            return Ok(Err(Flaw::Short));
        };
        if let Err(flaw) = header.check_body(body) {
            return Ok(Err(flaw));
        }
        self.point.open = header.has(MORE).then(|| self.point.group());
        self.point.at = self.life.lsn(end);
        self.point.sequence += 1;
        self.point.tally.add(header.count, crc);
        self.acked = self.acked.max(header.acked);
        self.touched |= !header.has(RECOVERED);
        Ok(Ok((header, body)))
    }

    /// What stands where the walk stopped, and all of the segment behind it.
    pub(super) fn look_behind(&mut self, zeroed: bool) -> Result<Behind, WalError> {
        // The walk may have read before somebody else wrote.
        self.chunk.clear();
        let start = self.offset();
        let mut behind = Behind { acked: Lsn(0), seal: None, end: start, published: false };
        let mut offset = start;
        while let Some(slot) = self.chunk.get(&self.source, offset, FRAME_HEADER_BYTES)? {
            let ours = zeroed && slot.iter().any(|byte| *byte != 0);
            let found = match <&[u8; FRAME_HEADER_BYTES]>::try_from(slot) {
                Ok(slot) => Header::decode(&self.life, offset, slot),
                Err(_) => Err(Flaw::Short),
            };
            match found {
                Ok((header, _)) => {
                    behind.acked = behind.acked.max(header.acked);
                    behind.published |= !header.has(RECOVERED);
                    let seals = header.kind == Kind::Seal && offset == start;
                    let quiet = header.kind == Kind::Mark && offset == start || seals;
                    if !quiet {
                        let end = offset.saturating_add(header.stride()).min(self.source.end);
                        behind.end = behind.end.max(end);
                    }
                    if seals {
                        let len = header.body_bytes as usize;
                        let body = self.chunk.get(&self.source, offset + ALIGN, len)?;
                        behind.seal = body
                            .filter(|body| header.check_body(body).is_ok())
                            .and_then(sealed_tally)
                            .map(|tally| (header, tally));
                        // A seal's body is no slot of its own.
                        offset += ALIGN;
                    }
                }
                // A torn header of ours.
                Err(Flaw::HeaderCrc { .. } | Flaw::Place) => behind.end = behind.end.max(offset + ALIGN),
                Err(_) if ours => behind.end = behind.end.max(offset + ALIGN),
                Err(_) => {}
            }
            offset += ALIGN;
        }
        Ok(behind)
    }
}

/// What is behind the last good frame of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Behind {
    /// The highest acknowledged position that anything there tells of (W2).
    pub acked: Lsn,
    /// The seal, when one stands right there.
    pub seal: Option<(Header, Tally)>,
    /// The end of what seems to have been written there in this life.
    pub end: u64,
    /// Something there was written when the manifest named the segment.
    pub published: bool,
}

/// The header at `offset`, with its checksum.
pub(super) fn header_at(
    chunk: &mut Chunk,
    source: &Source<'_>,
    life: &Life,
    offset: u64,
) -> Result<Result<(Header, u32), Flaw>, WalError> {
    let Some(bytes) = chunk.get(source, offset, FRAME_HEADER_BYTES)? else { return Ok(Err(Flaw::Short)) };
    match <&[u8; FRAME_HEADER_BYTES]>::try_from(bytes) {
        Ok(bytes) => Ok(Header::decode(life, offset, bytes)),
        Err(_) => Ok(Err(Flaw::Short)),
    }
}

const _: () = assert!(SEGMENT_HEADER_BYTES.is_multiple_of(ALIGN));
