//! Appending: frames into the newest segment, and the step to the next one.
//!
//! # Roll-over, and what a crash between two steps leaves
//!
//! 1. Spares are made sure of, one more than is needed; a full disk ends here, nothing was touched.
//! 2. The seal is written and the segment synced (W4). A crash: the newest segment, sealed or not.
//! 3. A spare gets its header, is synced and renamed, the folder is synced. A crash: a file that no manifest
//!    names (W6); the next opening uses it again.
//! 4. The manifest names it. A crash: the newest segment is empty.
//!
//! A failure from step 2 on stops the log.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::doors::Random;
use crate::stream::Lsn;

use super::WalError;
use super::entry::Draft;
use super::entry::PlannedFrame;
use super::entry::draft;
use super::folder::Folder;
use super::folder::io_error;
use super::frame;
use super::frame::CONTINUES;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Header;
use super::frame::Kind;
use super::frame::Life;
use super::frame::MORE;
use super::frame::SEAL_BYTES;
use super::frame::SPLIT;
use super::frame::u32_at;
use super::manifest::Manifest;
use super::manifest::State;
use super::open::named;
use super::segment::Previous;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::spares::Spares;
use super::walk::Point;

/// What one appender at a time holds.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) manifest: Manifest,
    pub(super) active: Arc<Segment>,
    /// Where the next frame goes.
    pub(super) point: Point,
    /// Frames that are not in the file yet: those up to `point`.
    pub(super) staged: Vec<u8>,
    /// Where they go, and the sequence of the first of them.
    pub(super) written: (Lsn, u64),
    /// What must not be given up, by who says so.
    pub(super) holds: BTreeMap<String, Lsn>,
    /// Something was appended to the segment.
    pub(super) touched: bool,
    /// A spare is there for the next opening.
    pub(super) reserve: bool,
}

impl Writer {
    /// Bytes for frames that are left in the segment.
    pub(super) fn room(&self) -> u64 {
        let life = self.active.life();
        self.active.header.bytes.saturating_sub(SEAL_BYTES).saturating_sub(life.offset(self.point.at))
    }

    /// Writes `draft` as the next frame; the caller has checked that it fits.
    pub(super) fn put(&mut self, draft: Draft, flags: u16, acked: Lsn) -> Result<Vec<Lsn>, WalError> {
        let (bytes, lsns) = self.frame(draft, flags, acked);
        if self.staged.is_empty() {
            self.write_out(&bytes)?;
        } else {
            self.staged.extend_from_slice(&bytes);
            self.flush()?;
        }
        Ok(lsns)
    }

    /// As [`Self::put`], but the frame is in the file only after [`Self::flush`].
    pub(super) fn stage(&mut self, draft: Draft, acked: Lsn) -> Vec<Lsn> {
        let (bytes, lsns) = self.frame(draft, 0, acked);
        self.staged.extend_from_slice(&bytes);
        lsns
    }

    /// Writes what is staged, with one call.
    pub(super) fn flush(&mut self) -> Result<(), WalError> {
        if !self.staged.is_empty() {
            let staged = std::mem::take(&mut self.staged);
            self.write_out(&staged)?;
            self.staged = staged;
            self.staged.clear();
        }
        Ok(())
    }

    /// Writes the frames up to `point`.
    fn write_out(&mut self, bytes: &[u8]) -> Result<(), WalError> {
        self.active
            .write(self.active.life().offset(self.written.0), bytes)
            .map_err(|source| io_error("append to", &self.active.path, source))?;
        self.written = (self.point.at, self.point.sequence);
        Ok(())
    }

    /// Makes `draft` the next frame.
    fn frame(&mut self, mut draft: Draft, flags: u16, acked: Lsn) -> (Vec<u8>, Vec<Lsn>) {
        self.touched = true;
        let at = self.point.at;
        let life = self.active.life();
        let header = Header {
            kind: Kind::Frame,
            body_crc: draft.body_crc,
            body_bytes: draft.body_bytes,
            sequence: self.point.sequence,
            at,
            acked,
            // A body of at most FRAME_BODY_BYTES_MAX has fewer entries than that.
            count: draft.starts.len() as u32,
            flags,
        };
        let bytes = header.encode(life, life.offset(at));
        if let Some(place) = draft.bytes.get_mut(..FRAME_HEADER_BYTES) {
            place.copy_from_slice(&bytes);
        }
        self.point.at = Lsn(at.0 + draft.bytes.len() as u64);
        self.point.sequence += 1;
        self.point.tally.add(header.count, u32_at(&bytes, 4));
        (draft.bytes, draft.starts.iter().map(|start| Lsn(at.0 + start)).collect())
    }

    /// Writes `frame` of a plan.
    pub(super) fn put_planned(
        &mut self,
        entries: &[&[u8]],
        frame: &PlannedFrame,
        (first, last): (bool, bool),
        acked: Lsn,
    ) -> Result<Vec<Lsn>, WalError> {
        let pieces = frame.pieces.iter().map(|piece| {
            let entry = entries.get(piece.entry).copied().unwrap_or_default();
            let bytes = entry.get(piece.from..piece.to).unwrap_or_default();
            (bytes, piece.from > 0, piece.to < entry.len())
        });
        let split = frame.pieces.first().is_some_and(|piece| piece.from > 0);
        let mut flags = 0;
        for (flag, on) in [(MORE, !last), (CONTINUES, !first), (SPLIT, split)] {
            flags |= if on { flag } else { 0 };
        }
        self.put(draft(pieces), flags, acked)
    }

    /// Leaves word that everything below `acked` is durable, behind the last frame (W3, D22) and far from it.
    pub(super) fn mark(&self, folder: &Folder, acked: Lsn) -> Result<(), WalError> {
        let life = self.active.life();
        let (at, sequence) = self.written;
        let mark = frame::mark(life, at, acked, sequence);
        self.active
            .write(life.offset(at), &mark)
            .map_err(|source| io_error("mark", &self.active.path, source))?;
        self.manifest.witness(folder, acked)
    }

    /// Writes the seal behind the last frame.
    pub(super) fn seal(&mut self, flags: u16, acked: Lsn) -> Result<(), WalError> {
        self.flush()?;
        let life = self.active.life();
        let point = &self.point;
        let seal = frame::seal(life, point.at, acked, point.sequence, flags, &point.tally);
        self.active
            .write(life.offset(point.at), &seal)
            .map_err(|source| io_error("seal", &self.active.path, source))
    }

    /// Goes on in a spare; the old segment is sealed and durable. `group` is where the append in hand began,
    /// `end` where the last whole one ended.
    pub(super) fn next_segment(
        &mut self,
        folder: &Folder,
        spares: &Spares,
        random: &dyn Random,
        group: Lsn,
        end: Lsn,
    ) -> Result<(), WalError> {
        let Some(blank) = spares.take()? else {
            let gone = io::Error::new(io::ErrorKind::NotFound, "the spare that was made sure of is gone");
            return Err(io_error("take a spare from", folder.path(), gone));
        };
        let old = &self.active;
        let state = self.manifest.state;
        let header = SegmentHeader {
            log: state.log,
            life: Life { number: state.next, salt: random.next_u64(), base: self.point.at },
            sequence: self.point.sequence,
            bytes: blank.bytes,
            group,
            previous: Some(Previous {
                number: old.life().number,
                salt: old.life().salt,
                tally: self.point.tally,
            }),
            zeroed: blank.zeroed,
        };
        let next = named(folder, blank, header, |_| Ok(()))?;
        let state = State {
            count: state.count + 1,
            last: (next.life().number, next.life().salt),
            end: state.end.max(end),
            next: state.next + 1,
            frames: self.point.sequence,
            ..state
        };
        self.manifest.write(folder, state)?;
        self.active = Arc::new(next);
        self.point.tally = frame::Tally::default();
        self.written = (self.point.at, self.point.sequence);
        self.touched = false;
        Ok(())
    }
}
