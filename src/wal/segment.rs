//! One segment file: a header of 4 KiB, then frames, then perhaps a seal.
//!
//! Owns the bytes of the header and how the file is written and read. Does not own which segments
//! there are (`manifest`, `chain`) nor what a damaged one means (`judge`).
//!
//! # On disk, version 1
//!
//! The header is written, and synced, before the file gets its name, and never again in this life of the
//! file. Little-endian; the rest of the 4 KiB is zero.
//!
//! ```text
//!  0      4     8         12      16    24       32     40     48         56      64
//!  "ALWH" | crc | version | prev? | log | number | salt | base | sequence | bytes | group
//!  72            80          88            96             104         108
//!  prev number | prev salt | prev frames | prev entries | prev crcs | zeroed
//! ```
//!
//! - *crc*: crc32 of the 4 KiB from byte 8 on.
//! - *log*: random, born with the log: a segment of another log is refused.
//! - *base*: the LSN of the byte behind the header. Neither headers nor seals have LSNs: the first frame
//!   of a segment is at the LSN at which the segment before it ends.
//! - *sequence*: of the first frame. *bytes*: length of the file.
//! - *group*: when the append that ends the segment before goes on here, the LSN at which it begins, else
//!   *base*.
//! - *prev*: the segment before and the counts of its frames up to *base*. So the newest segment names
//!   its predecessor and so on: none can be missing, swapped or cut unnoticed.
//! - *zeroed*: 1 = the file had no life before this one: what is not zero was written in it.
//!
//! # Invariants
//!
//! - **W4** When a segment is named by the manifest, every frame of its predecessors is durable: only
//!   the newest segment may end in a hole that is no damage.
//! - **W5** A segment file is always as long as its header says, and initialised: a shorter one was cut
//!   by somebody else.

use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::storage::DiskFile;
use crate::storage::Region;
use crate::stream::Lsn;

use super::WalError;
use super::folder::io_error;
use super::frame::Life;
use super::frame::SEAL_BYTES;
use super::frame::Tally;
use super::frame::u32_at;
use super::frame::u64_at;

/// Length of a segment's header; the first frame is behind it.
pub(super) const SEGMENT_HEADER_BYTES: u64 = 4096;
const HEADER_BYTES: usize = SEGMENT_HEADER_BYTES as usize;
const MAGIC: [u8; 4] = *b"ALWH";
/// The version of the format that this program writes and reads.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The segment before, up to where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Previous {
    pub number: u64,
    pub salt: u64,
    pub tally: Tally,
}

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub log: u64,
    pub life: Life,
    pub sequence: u64,
    pub bytes: u64,
    pub group: Lsn,
    pub previous: Option<Previous>,
    pub zeroed: bool,
}

/// Why the first 4 KiB of a file are no header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderFlaw {
    /// No magic number, or a wrong checksum.
    Broken,
    /// A newer format.
    Version(u32),
}

impl SegmentHeader {
    /// The 4 KiB.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &FORMAT_VERSION.to_le_bytes());
        put(12, &u32::from(self.previous.is_some()).to_le_bytes());
        let numbers = [
            self.log,
            self.life.number,
            self.life.salt,
            self.life.base.0,
            self.sequence,
            self.bytes,
            self.group.0,
        ];
        for (index, number) in numbers.iter().enumerate() {
            put(16 + 8 * index, &number.to_le_bytes());
        }
        if let Some(previous) = self.previous {
            put(72, &previous.number.to_le_bytes());
            put(80, &previous.salt.to_le_bytes());
            put(88, &previous.tally.frames.to_le_bytes());
            put(96, &previous.tally.entries.to_le_bytes());
            put(104, &previous.tally.crcs.to_le_bytes());
        }
        put(108, &u32::from(self.zeroed).to_le_bytes());
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header back.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderFlaw> {
        let bytes: &[u8; HEADER_BYTES] = bytes.try_into().map_err(|_| HeaderFlaw::Broken)?;
        if bytes[..4] != MAGIC || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..]) {
            return Err(HeaderFlaw::Broken);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(HeaderFlaw::Version(version));
        }
        let number = |index: usize| u64_at(bytes, 16 + 8 * index);
        let previous = (u32_at(bytes, 12) != 0).then(|| Previous {
            number: u64_at(bytes, 72),
            salt: u64_at(bytes, 80),
            tally: Tally { frames: u64_at(bytes, 88), entries: u64_at(bytes, 96), crcs: u32_at(bytes, 104) },
        });
        Ok(Self {
            log: number(0),
            life: Life { number: number(1), salt: number(2), base: Lsn(number(3)) },
            sequence: number(4),
            bytes: number(5),
            group: Lsn(number(6)),
            previous,
            zeroed: u32_at(bytes, 108) != 0,
        })
    }
}

/// From here on a call is cheaper than stores into the map: since the last sync the file system has
/// write-protected the pages, and each first store into one is a fault that costs more than a call.
const PLAIN_WRITE_BYTES: usize = 4096;

/// Bytes for frames in a segment of `bytes`.
pub(super) fn capacity(bytes: u64) -> u64 {
    bytes.saturating_sub(SEGMENT_HEADER_BYTES + SEAL_BYTES)
}

/// An open segment file.
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) header: SegmentHeader,
    pub(super) file: Box<dyn DiskFile>,
    /// Present where this process writes, or wrote, the segment and the file system maps.
    pub(super) region: Option<Box<dyn Region>>,
}

impl Segment {
    pub(super) fn life(&self) -> &Life {
        &self.header.life
    }

    pub(super) fn base(&self) -> Lsn {
        self.header.life.base
    }

    /// Stores `bytes` at `offset`: no system call where the file is mapped and they are few.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.region {
            Some(region) if bytes.len() < PLAIN_WRITE_BYTES => region.write(offset, bytes),
            _ => self.file.write_at(offset, bytes),
        }
    }

    /// Fills `buf` from `offset` on; the bytes were appended before. The map is read only where this
    /// process wrote: there is a page behind it (`storage::mapped`).
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if let Some(region) = &self.region {
            return region.read(offset, buf);
        }
        if self.file.read_at(offset, buf)? < buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} from LSN {}", self.header.life.number, self.base())
    }
}

/// Reads the first 4 KiB of `file`; fewer when it is shorter.
pub(super) fn read_header_bytes(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// A file that is read in large pieces, for those who look at many small ones in order.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a dyn DiskFile,
    pub(super) path: &'a Path,
    /// Never reads from here on.
    pub(super) end: u64,
}

/// The piece of a [`Source`] that is in memory.
#[derive(Default)]
pub(super) struct Chunk {
    /// The file's bytes from `start` on.
    bytes: Vec<u8>,
    start: u64,
}

/// 256 KiB: a read costs some microseconds, so that more per read gains nothing.
const CHUNK_BYTES: u64 = 256 << 10;

impl Chunk {
    /// The `len` bytes at `offset`; `None` when the file, or what is to be read of it, ends before.
    pub(super) fn get(
        &mut self,
        source: &Source<'_>,
        offset: u64,
        len: usize,
    ) -> Result<Option<&[u8]>, WalError> {
        if self.held(offset, len).is_none() {
            let Some(most) = source.end.checked_sub(offset).filter(|most| len as u64 <= *most) else {
                return Ok(None);
            };
            let wanted = (len as u64).max(CHUNK_BYTES).min(most);
            self.bytes.resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
            self.start = offset;
            let count = source.file.read_at(offset, &mut self.bytes).map_err(|error| {
                self.bytes.clear();
                io_error("read", source.path, error)
            })?;
            self.bytes.truncate(count);
        }
        Ok(self.peek(offset, len))
    }

    /// As [`Self::get`], but only what is in memory.
    pub(super) fn peek(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.held(offset, len).and_then(|range| self.bytes.get(range))
    }

    /// Forgets what was read.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn held(&self, offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(len)?;
        (end <= self.bytes.len()).then_some(at..end)
    }
}
