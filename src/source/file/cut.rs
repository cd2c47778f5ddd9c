//! Cuts the bytes of a split into pieces of whole records that can be decoded apart from each other.
//!
//! Pure: bytes in, pieces out. Where a record ends is the decoder's knowledge; how long it may be is
//! decided here, and never depends on where the reads happened to end. Of a record that is too long only
//! its first 64 KiB are kept.
//!
//! ```text
//!            base                                     boundary
//!  buffer     | record | record | ... | record | record |  begun ...   next read
//!             '------------- a piece ------------------'  '- kept ----------------
//! ```

use std::sync::Arc;

use bytes::Bytes;

use crate::format::RAW_BYTES_MAX;
use crate::format::SplitDecoder;
use crate::source::file::mark::Mark;
use crate::source::file::mark::Trail;

/// Kept of a record that is too long: one byte more than its dead letter holds, which is cut between
/// characters.
const RAW_KEPT: usize = RAW_BYTES_MAX + 1;
/// A line end is up to two bytes, and does not count as the record's.
const LINE_END: usize = 2;

/// Whole records, or one that is too long.
#[derive(Debug)]
pub(super) struct Piece {
    /// What it is.
    pub(super) what: What,
    /// The position behind it.
    pub(super) end: Mark,
    /// It ends with a record that the end of the file ended, not a line end.
    pub(super) unterminated: bool,
}

/// See [`Piece`].
#[derive(Debug)]
pub(super) enum What {
    /// Bytes to decode.
    Records {
        /// Whose `decode` they are for.
        decoder: Arc<dyn SplitDecoder>,
        /// Position of the first byte.
        base: u64,
        /// Whole records.
        bytes: Bytes,
    },
    /// A record that is too long.
    TooLong {
        /// Position of its first byte.
        position: u64,
        /// Its first bytes.
        raw: Vec<u8>,
        /// Its length without the line end.
        len: u64,
        /// The length it may have.
        limit: usize,
    },
}

impl Piece {
    /// Memory that it holds.
    pub(super) fn bytes(&self) -> usize {
        match &self.what {
            What::Records { bytes, .. } => bytes.len(),
            What::TooLong { raw, .. } => raw.len(),
        }
    }
}

/// Gathers bytes until they hold whole records.
#[derive(Debug)]
pub(super) struct Cutter {
    decoder: Arc<dyn SplitDecoder>,
    record_limit: usize,
    /// Bytes from a record's start on, which are not part of a piece yet.
    buffer: Vec<u8>,
    /// What lies before the buffer.
    trail: Trail,
    skipping: Option<TooLong>,
}

/// A record that is being passed over.
#[derive(Debug)]
struct TooLong {
    position: u64,
    raw: Vec<u8>,
    len: u64,
    /// The last bytes seen, which may be a line end.
    last: [u8; LINE_END],
    /// The decoder's memory of the part that was passed.
    scan: u8,
}

impl Cutter {
    /// Starts where `trail` stands, at the start of a record.
    pub(super) fn new(decoder: Arc<dyn SplitDecoder>, record_limit: usize, trail: Trail) -> Self {
        Self { decoder, record_limit, buffer: Vec::new(), trail, skipping: None }
    }

    /// Space for `len` more bytes; [`Self::cut`] is then told how many came.
    pub(super) fn space(&mut self, len: usize) -> &mut [u8] {
        let held = self.buffer.len();
        self.buffer.resize(held + len, 0);
        self.buffer.split_at_mut(held).1
    }

    /// Takes back the last `unused` bytes of the space, and hands out what is whole now.
    pub(super) fn cut(&mut self, unused: usize) -> Vec<Piece> {
        self.buffer.truncate(self.buffer.len().saturating_sub(unused));
        let mut pieces = Vec::new();
        loop {
            if let Some(record) = self.skipping.take() {
                if !self.skip(record, &mut pieces) {
                    return pieces;
                }
                continue;
            }
            let whole = self.decoder.boundary(&self.buffer).min(self.buffer.len());
            if whole > 0 {
                self.take(whole, false, &mut pieces);
            }
            if self.buffer.len() <= self.record_limit.saturating_add(LINE_END) {
                return pieces;
            }
            self.skipping = Some(TooLong::starting_at(self.trail.position()));
        }
    }

    /// Hands out the rest at the end of the input: the last record may lack its line end.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = self.cut(0);
        if let Some(record) = self.skipping.take() {
            self.reject(record, true, &mut pieces);
        } else if !self.buffer.is_empty() {
            self.take(self.buffer.len(), true, &mut pieces);
        }
        pieces
    }

    /// Nothing is held back: the last byte passed ended a record.
    pub(super) fn is_between_records(&self) -> bool {
        self.buffer.is_empty() && self.skipping.is_none()
    }

    /// The last bytes that came in, up to a sample's length: of what was passed and what is held.
    pub(super) fn last_bytes(&self) -> Vec<u8> {
        let mut trail = self.trail.clone();
        trail.pass(&self.buffer);
        trail.tail().to_vec()
    }

    /// Makes pieces of the first `len` bytes of the buffer: one, unless a record among them is too long.
    fn take(&mut self, len: usize, unterminated: bool, pieces: &mut Vec<Piece>) {
        let rest = self.buffer.split_off(len);
        let taken = Bytes::from(std::mem::replace(&mut self.buffer, rest));
        let mut from = 0;
        if taken.len() > self.record_limit {
            let mut at = 0;
            while at < taken.len() {
                let mut scan = 0;
                let left = taken.slice(at..);
                let end = self.decoder.record_end(&mut scan, &left).filter(|end| *end > 0);
                let end = at + end.unwrap_or(left.len()).min(left.len());
                if end - at > self.record_limit && without_line_end(&taken.slice(at..end)) > self.record_limit
                {
                    self.records(taken.slice(from..at), false, pieces);
                    let mut record = TooLong::starting_at(self.trail.position());
                    let bytes = taken.slice(at..end);
                    record.pass(&bytes);
                    self.trail.pass(&bytes);
                    self.reject(record, unterminated && end == taken.len(), pieces);
                    from = end;
                }
                at = end;
            }
        }
        self.records(taken.slice(from..), unterminated, pieces);
    }

    fn records(&mut self, bytes: Bytes, unterminated: bool, pieces: &mut Vec<Piece>) {
        if bytes.is_empty() {
            return;
        }
        let base = self.trail.position();
        self.trail.pass(&bytes);
        let what = What::Records { decoder: Arc::clone(&self.decoder), base, bytes };
        pieces.push(Piece { what, end: self.trail.mark(), unterminated });
    }

    /// Passes over the buffer as part of `record`; true when the record ended in it.
    fn skip(&mut self, mut record: TooLong, pieces: &mut Vec<Piece>) -> bool {
        let end = self.decoder.record_end(&mut record.scan, &self.buffer);
        let rest = match end {
            Some(end) => self.buffer.split_off(end.min(self.buffer.len())),
            None => Vec::new(),
        };
        let passed = std::mem::replace(&mut self.buffer, rest);
        record.pass(&passed);
        self.trail.pass(&passed);
        if end.is_some() {
            self.reject(record, false, pieces);
        } else {
            self.skipping = Some(record);
        }
        end.is_some()
    }

    fn reject(&mut self, record: TooLong, unterminated: bool, pieces: &mut Vec<Piece>) {
        let what = record.into_what(self.record_limit);
        pieces.push(Piece { what, end: self.trail.mark(), unterminated });
    }
}

impl TooLong {
    fn starting_at(position: u64) -> Self {
        Self { position, raw: Vec::new(), len: 0, last: [0; LINE_END], scan: 0 }
    }

    fn pass(&mut self, bytes: &[u8]) {
        let kept = RAW_KEPT.saturating_sub(self.raw.len()).min(bytes.len());
        self.raw.extend(bytes.iter().take(kept));
        self.len += bytes.len() as u64;
        for byte in bytes.iter().skip(bytes.len().saturating_sub(LINE_END)) {
            self.last = [self.last[1], *byte];
        }
    }

    fn into_what(mut self, limit: usize) -> What {
        let len = self.len - (LINE_END - without_line_end(&self.last)) as u64;
        if let Ok(len) = usize::try_from(len) {
            self.raw.truncate(len);
        }
        What::TooLong { position: self.position, raw: self.raw, len, limit }
    }
}

/// The length of `record` without its line end.
fn without_line_end(record: &[u8]) -> usize {
    match record {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n'] => rest.len(),
        _ => record.len(),
    }
}
