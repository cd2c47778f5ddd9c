//! Entries inside of frames, and how an append is laid out over frames and segments.
//!
//! # On disk, version 1
//!
//! ```text
//!  body    piece, piece, ...
//!  piece   varint(length * 2 + more) | crc32 of (that number as 8 bytes, then the bytes) | bytes
//! ```
//!
//! An entry is one piece, or several when it does not fit: all but the last have *more* set, each is the
//! last of its frame, and the next is the first of the next frame. An entry's LSN is that of its
//! first piece. From a piece with *more* the next one is found without reading anything else: frames lie
//! end to end, also over segments, so it is one frame header behind the next multiple of 64.

use crate::codec::Decoder;
use crate::codec::Encoder;

use super::frame::ALIGN;
use super::frame::FRAME_BODY_BYTES_MAX;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::aligned;

/// A frame is begun only where this much of a segment is left, so that pieces do not get tiny.
const FRAME_BYTES_MIN: u64 = 256;
/// A piece that is not the end of its entry has at least so many bytes of the frame.
const PIECE_BYTES_MIN: usize = 64;
/// Longest start of a piece: the number of ten bytes and the checksum.
pub(super) const PIECE_START_BYTES_MAX: usize = 14;

/// A piece as it stands in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PieceStart {
    /// Bytes of the piece.
    pub len: u64,
    /// The entry goes on in the next frame.
    pub more: bool,
    /// Checksum of the piece.
    pub crc: u32,
    /// Bytes before the piece's own.
    pub start_bytes: usize,
}

impl PieceStart {
    /// Reads the start of a piece; `None` when it is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let number = decoder.varint().ok()?;
        let crc = decoder.u32().ok()?;
        let start_bytes = bytes.len() - decoder.rest().len();
        Some(Self { len: number >> 1, more: number & 1 == 1, crc, start_bytes })
    }

    /// Whether `bytes` are those of the piece.
    pub(super) fn verifies(&self, bytes: &[u8]) -> bool {
        piece_crc(self.len << 1 | u64::from(self.more), bytes) == self.crc
    }
}

/// Bytes that a piece of `len` bytes takes.
fn piece_bytes(len: usize) -> usize {
    let number = (len as u64) << 1 | 1;
    let bits = 64 - number.leading_zeros() as usize;
    bits.div_ceil(7) + 4 + len
}

fn piece_crc(number: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// A frame to be: room for the header, then the body.
#[derive(Debug)]
pub(super) struct Draft {
    /// The header's place, the body, zeros up to a multiple of 64.
    pub bytes: Vec<u8>,
    /// Length of the body.
    pub body_bytes: u32,
    /// Checksum of the body.
    pub body_crc: u32,
    /// Offsets in the frame of the entries that begin in it.
    pub starts: Vec<u64>,
}

/// Lays out `pieces`, each (bytes, goes on an earlier piece, goes on in the next frame).
pub(super) fn draft<'a>(pieces: impl Iterator<Item = (&'a [u8], bool, bool)>) -> Draft {
    let mut out = Encoder::new();
    out.raw(&[0; FRAME_HEADER_BYTES]);
    let mut starts = Vec::with_capacity(pieces.size_hint().0);
    for (bytes, continues, more) in pieces {
        if !continues {
            starts.push(out.len() as u64);
        }
        let number = (bytes.len() as u64) << 1 | u64::from(more);
        out.varint(number).u32(piece_crc(number, bytes)).raw(bytes);
    }
    let mut bytes = out.finish();
    let body_bytes = bytes.len() - FRAME_HEADER_BYTES;
    let body_crc = crc32fast::hash(&bytes[FRAME_HEADER_BYTES..]);
    bytes.resize(aligned(bytes.len() as u64) as usize, 0);
    let body_bytes = u32::try_from(body_bytes).expect("a body is planned to at most FRAME_BODY_BYTES_MAX");
    Draft { bytes, body_bytes, body_crc, starts }
}

/// A piece of an entry in a plan: its bytes `from..to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedPiece {
    /// Which entry.
    pub entry: usize,
    /// Its first byte in the piece.
    pub from: usize,
    /// The byte behind the piece.
    pub to: usize,
}

/// A frame in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedFrame {
    /// The frame is the first of the next segment.
    pub rolls: bool,
    /// What is in it, in order.
    pub pieces: Vec<PlannedPiece>,
    /// Bytes of the body.
    pub body_bytes: usize,
}

/// The bytes of the body of `entries` as one frame, if one frame may hold them.
pub(super) fn whole_body_bytes(entries: &[&[u8]]) -> Option<usize> {
    let mut sum = 0_usize;
    for entry in entries {
        sum = sum.checked_add(piece_bytes(entry.len()))?;
    }
    (sum <= FRAME_BODY_BYTES_MAX).then_some(sum)
}

/// Decides in which frames the entries of `lens` bytes go: `room` bytes are left for frames in the
/// segment, `fresh` bytes are in each next one.
///
/// A small append (a sixteenth of a segment) is never split: reading it back is one read. A larger one
/// is split where it falls, so that no segment stays empty by more than that.
pub(super) fn plan(lens: &[usize], room: u64, fresh: u64) -> Vec<PlannedFrame> {
    let whole = |rolls| {
        let pieces = lens.iter().enumerate().map(|(entry, len)| PlannedPiece { entry, from: 0, to: *len });
        let body_bytes = lens.iter().map(|len| piece_bytes(*len)).sum();
        vec![PlannedFrame { rolls, pieces: pieces.collect(), body_bytes }]
    };
    let body = lens.iter().try_fold(0_usize, |sum, len| sum.checked_add(piece_bytes(*len)));
    if let Some(body) = body.filter(|body| *body <= FRAME_BODY_BYTES_MAX) {
        let frame = ALIGN + aligned(body as u64);
        if frame <= room {
            return whole(false);
        }
        if frame <= fresh / 16 {
            return whole(true);
        }
    }
    let mut frames = Vec::new();
    let mut left = room;
    let (mut entry, mut from) = (0, 0);
    while entry < lens.len() {
        let rolls = left < FRAME_BYTES_MIN;
        if rolls {
            left = fresh;
        }
        let most = usize::try_from(left - ALIGN).unwrap_or(usize::MAX).min(FRAME_BODY_BYTES_MAX);
        let mut frame = PlannedFrame { rolls, pieces: Vec::new(), body_bytes: 0 };
        while let Some(len) = lens.get(entry) {
            let space = most - frame.body_bytes;
            let rest = piece_bytes(len - from);
            if rest <= space {
                frame.pieces.push(PlannedPiece { entry, from, to: *len });
                frame.body_bytes += rest;
                (entry, from) = (entry + 1, 0);
                continue;
            }
            if space >= PIECE_BYTES_MIN {
                // The start of a piece of `space` bytes is at least as long as that of a shorter one.
                let to = from + (space - (piece_bytes(space) - space));
                frame.pieces.push(PlannedPiece { entry, from, to });
                frame.body_bytes += piece_bytes(to - from);
                from = to;
            }
            break;
        }
        left = left.saturating_sub(ALIGN + aligned(frame.body_bytes as u64));
        frames.push(frame);
    }
    frames
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plan_covers_every_byte_once_and_fits(
            lens in prop::collection::vec(0_usize..200_000, 1..12),
            room in 0_u64..1000,
            fresh in 950_u64..4000,
        ) {
            let (mut room, fresh) = (room * ALIGN, fresh * ALIGN);
            let (mut entry, mut from) = (0, 0);
            for frame in plan(&lens, room, fresh) {
                if frame.rolls {
                    room = fresh;
                }
                prop_assert!(!frame.pieces.is_empty());
                let sum: usize = frame.pieces.iter().map(|piece| piece_bytes(piece.to - piece.from)).sum();
                prop_assert_eq!(sum, frame.body_bytes);
                for (index, piece) in frame.pieces.iter().enumerate() {
                    prop_assert_eq!((piece.entry, piece.from), (entry, from));
                    prop_assert!(piece.to == lens[entry] || index + 1 == frame.pieces.len());
                    from = piece.to;
                    if from == lens[entry] {
                        (entry, from) = (entry + 1, 0);
                    }
                }
                let bytes = ALIGN + aligned(frame.body_bytes as u64);
                prop_assert!(bytes <= room);
                room -= bytes;
            }
            prop_assert_eq!(entry, lens.len());
        }

        #[test]
        fn any_bytes_are_read_as_a_piece_without_a_panic(bytes: Vec<u8>) {
            let _ = PieceStart::decode(&bytes);
        }
    }
}
