//! Frames: the unit that is written at once and verifies or does not.
//!
//! Owns the bytes of a frame's header, of seals and of marks. Does not own what is in a body (`entry`)
//! nor where segments begin (`segment`).
//!
//! # On disk, version 1
//!
//! Integers are little-endian; offsets are in bytes. Everything starts at a multiple of 64 bytes of
//! the segment file, and is filled up with zeros to the next one.
//!
//! ```text
//!        0        4            8          12         16     24         32   40      48      52      54  64
//!  frame "ALWF" | header crc | body crc | body len | salt | sequence | at | acked | count | flags | 0 | body
//!  seal  "ALWS" | the same, its body is drawn below
//!  mark  "ALWK" | the same, without a body
//!
//!        0        8         16     20  24    32  64
//!  body  frames | entries | crcs | 0 | end | 0         of a seal
//! ```
//!
//! - *salt*: the 64 random bits of this life of the segment, compared as they are.
//! - *header crc*: crc32 of salt, number of the segment, offset of the frame, and the header from byte 8 on.
//!   It covers the body's checksum, which is thereby bound to this place, life and sequence as well.
//! - *sequence*: counts the frames of the log; a seal and a mark have that of the next frame.
//! - *at*: the LSN of the frame's first byte. *acked*: everything below was durable when this was written.
//! - *count*: entries that begin in this frame.
//! - *flags*: 1 = more follows: the append goes on in the next frame. 2 = continues: it began in an earlier
//!   one. 4 = split: the first piece goes on with an entry of the frame before. 8 = recovered: copied
//!   by an opening before the manifest named the segment. 16 = (seal) clean: the log was closed.
//! - *crcs*: crc32 over the header checksums of all frames, in order.
//!
//! # Invariants
//!
//! - **W1** A frame verifies only in this life of the segment, at its own place, in its own turn.
//! - **W2** *acked* is a true statement whenever its header verifies, whatever became of the body: it was
//!   written after the sync that made it true.
//! - **W3** A mark stands where the next frame will be, so that leaving it costs no further page of I/O,
//!   and the next frame overwrites it whole.

use std::fmt;

use crc32fast::Hasher;

use crate::stream::Lsn;

/// Frames, seals and marks start at multiples of this.
pub(super) const ALIGN: u64 = 64;
/// Length of the header of a frame, a seal or a mark.
pub(super) const FRAME_HEADER_BYTES: usize = 64;
/// A seal with its body; the end of each segment is kept free for one.
pub(super) const SEAL_BYTES: u64 = 128;
/// 16 MiB: what verification holds in memory at a time. A larger append takes several frames.
pub(super) const FRAME_BODY_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(FRAME_HEADER_BYTES as u64 == ALIGN);

const FRAME_MAGIC: [u8; 4] = *b"ALWF";
const SEAL_MAGIC: [u8; 4] = *b"ALWS";
const MARK_MAGIC: [u8; 4] = *b"ALWK";

/// The append goes on in the next frame.
pub(super) const MORE: u16 = 1;
/// The append began in an earlier frame.
pub(super) const CONTINUES: u16 = 2;
/// The first piece goes on with an entry of the frame before.
pub(super) const SPLIT: u16 = 4;
/// Copied by an opening before the manifest named the segment.
pub(super) const RECOVERED: u16 = 8;
/// The log was closed with this seal.
pub(super) const CLEAN: u16 = 16;

/// `bytes` rounded up to where the next frame may start.
pub(super) fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN)
}

/// One life of a segment file: what makes a frame belong to it (W1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// The segment's number, never used again.
    pub number: u64,
    /// Random for each life of the file.
    pub salt: u64,
    /// LSN of the first byte behind the segment's header.
    pub base: Lsn,
}

impl Life {
    /// The position of the byte at `offset` of the file.
    pub(super) fn lsn(&self, offset: u64) -> Lsn {
        Lsn(self.base.0.wrapping_add(offset.wrapping_sub(super::segment::SEGMENT_HEADER_BYTES)))
    }

    /// Where in the file the position `lsn` is.
    pub(super) fn offset(&self, lsn: Lsn) -> u64 {
        lsn.0.wrapping_sub(self.base.0).wrapping_add(super::segment::SEGMENT_HEADER_BYTES)
    }

    fn hasher(&self, offset: u64) -> Hasher {
        let mut hasher = Hasher::new();
        let mut place = [0; 24];
        place[..8].copy_from_slice(&self.salt.to_le_bytes());
        place[8..16].copy_from_slice(&self.number.to_le_bytes());
        place[16..].copy_from_slice(&offset.to_le_bytes());
        hasher.update(&place);
        hasher
    }
}

/// Which of the three a header heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Entries.
    Frame,
    /// The end of a full or closed segment.
    Seal,
    /// How far the log is durable, where the next frame will be (W3).
    Mark,
}

/// The header of a frame, a seal or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub body_crc: u32,
    pub body_bytes: u32,
    pub sequence: u64,
    pub at: Lsn,
    pub acked: Lsn,
    pub count: u32,
    pub flags: u16,
}

/// Why what stands at a place is no frame of this life of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// No magic number.
    NoFrame,
    /// The file ends.
    Short,
    /// Another life of the file.
    Salt,
    /// The header's checksum.
    HeaderCrc { stored: u32, found: u32 },
    /// The body's checksum.
    BodyCrc { stored: u32, found: u32 },
    /// Not the frame that comes next.
    Sequence { stored: u64, expected: u64 },
    /// The frame belongs to another position, or passes the segment's end.
    Place,
    /// It continues an append that did not begin, or the other way round.
    Append,
    /// The body is not made of entries.
    Entries,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFrame => f.write_str("no frame begins here"),
            Self::Short => f.write_str("the file ends inside of a frame"),
            Self::Salt => f.write_str("a frame of another life of the segment"),
            Self::HeaderCrc { stored, found } => {
                write!(f, "the frame's header has crc {found:#010x}, it says {stored:#010x}")
            }
            Self::BodyCrc { stored, found } => {
                write!(f, "the frame's body has crc {found:#010x}, its header says {stored:#010x}")
            }
            Self::Sequence { stored, expected } => {
                write!(f, "frame number {stored} where number {expected} belongs")
            }
            Self::Place => f.write_str("a frame of another place"),
            Self::Append => f.write_str("a frame that does not go on where the append before it ended"),
            Self::Entries => f.write_str("the frame's body is not made of entries"),
        }
    }
}

impl Header {
    /// The header's bytes at `offset` of the segment, with its checksum.
    pub(super) fn encode(&self, life: &Life, offset: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let magic = match self.kind {
            Kind::Frame => FRAME_MAGIC,
            Kind::Seal => SEAL_MAGIC,
            Kind::Mark => MARK_MAGIC,
        };
        bytes[..4].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&life.salt.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.at.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.acked.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.count.to_le_bytes());
        bytes[52..54].copy_from_slice(&self.flags.to_le_bytes());
        let mut hasher = life.hasher(offset);
        hasher.update(&bytes[8..]);
        bytes[4..8].copy_from_slice(&hasher.finalize().to_le_bytes());
        bytes
    }

    /// Reads the header at `offset` of the segment, and its checksum.
    pub(super) fn decode(
        life: &Life,
        offset: u64,
        bytes: &[u8; FRAME_HEADER_BYTES],
    ) -> Result<(Self, u32), Flaw> {
        let kind = match [bytes[0], bytes[1], bytes[2], bytes[3]] {
            FRAME_MAGIC => Kind::Frame,
            SEAL_MAGIC => Kind::Seal,
            MARK_MAGIC => Kind::Mark,
            _ => return Err(Flaw::NoFrame),
        };
        if u64_at(bytes, 16) != life.salt {
            return Err(Flaw::Salt);
        }
        let stored = u32_at(bytes, 4);
        let mut hasher = life.hasher(offset);
        hasher.update(&bytes[8..]);
        let found = hasher.finalize();
        if stored != found {
            return Err(Flaw::HeaderCrc { stored, found });
        }
        let header = Self {
            kind,
            body_crc: u32_at(bytes, 8),
            body_bytes: u32_at(bytes, 12),
            sequence: u64_at(bytes, 24),
            at: Lsn(u64_at(bytes, 32)),
            acked: Lsn(u64_at(bytes, 40)),
            count: u32_at(bytes, 48),
            flags: u16::from_le_bytes([bytes[52], bytes[53]]),
        };
        let len_fits = match kind {
            Kind::Frame => header.body_bytes as usize <= FRAME_BODY_BYTES_MAX,
            Kind::Seal => u64::from(header.body_bytes) == SEAL_BYTES - ALIGN,
            Kind::Mark => header.body_bytes == 0,
        };
        if header.at != life.lsn(offset) || !len_fits {
            return Err(Flaw::Place);
        }
        Ok((header, stored))
    }

    /// Bytes from this header to the next one.
    pub(super) fn stride(&self) -> u64 {
        ALIGN + aligned(u64::from(self.body_bytes))
    }

    /// Whether the header has `flag`.
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether `body` is the one that this header was made for.
    pub(super) fn check_body(&self, body: &[u8]) -> Result<(), Flaw> {
        let found = crc32fast::hash(body);
        if found != self.body_crc {
            return Err(Flaw::BodyCrc { stored: self.body_crc, found });
        }
        Ok(())
    }
}

/// Counts over the frames of a segment up to some point: the seal and the next segment's header say
/// what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Frames so far.
    pub frames: u64,
    /// Entries that began in them.
    pub entries: u64,
    /// Checksum over the frames' header checksums.
    pub crcs: u32,
}

impl Tally {
    /// Counts a frame.
    pub(super) fn add(&mut self, count: u32, header_crc: u32) {
        self.frames += 1;
        self.entries += u64::from(count);
        let mut hasher = Hasher::new_with_initial(self.crcs);
        hasher.update(&header_crc.to_le_bytes());
        self.crcs = hasher.finalize();
    }
}

/// The bytes of a seal at `at`, at most [`SEAL_BYTES`].
pub(super) fn seal(life: &Life, at: Lsn, acked: Lsn, sequence: u64, flags: u16, tally: &Tally) -> Vec<u8> {
    let mut body = [0; (SEAL_BYTES - ALIGN) as usize];
    body[..8].copy_from_slice(&tally.frames.to_le_bytes());
    body[8..16].copy_from_slice(&tally.entries.to_le_bytes());
    body[16..20].copy_from_slice(&tally.crcs.to_le_bytes());
    body[24..32].copy_from_slice(&at.0.to_le_bytes());
    let header = Header {
        kind: Kind::Seal,
        body_crc: crc32fast::hash(&body),
        body_bytes: body.len() as u32,
        sequence,
        at,
        acked,
        count: 0,
        flags,
    };
    let mut bytes = header.encode(life, life.offset(at)).to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

/// What a seal's body says; the header has verified it.
pub(super) fn sealed_tally(body: &[u8]) -> Option<Tally> {
    let body: &[u8; (SEAL_BYTES - ALIGN) as usize] = body.try_into().ok()?;
    Some(Tally { frames: u64_at(body, 0), entries: u64_at(body, 8), crcs: u32_at(body, 16) })
}

/// The mark that says at `at` that everything below `acked` is durable.
pub(super) fn mark(life: &Life, at: Lsn, acked: Lsn, sequence: u64) -> [u8; FRAME_HEADER_BYTES] {
    let header =
        Header { kind: Kind::Mark, body_crc: 0, body_bytes: 0, sequence, at, acked, count: 0, flags: 0 };
    header.encode(life, life.offset(at))
}

/// The number at byte `at` of a fixed layout.
pub(super) fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// The number at byte `at` of a fixed layout.
pub(super) fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}
