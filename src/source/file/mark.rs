//! A position in a file, with enough of the bytes before it to know the file again.
//!
//! A file is known by its path and by a checksum of its first min(1 KiB, position) bytes (D8). The
//! checksum of the last min(1 KiB, position) bytes before the position is kept as well: two logs often
//! begin alike, and a rewritten file whose first lines are the same would pass for the old one. In a
//! compressed file all of this is about the decompressed bytes, so that a rotated file is also known
//! after it was compressed.

/// How many bytes of either end are checked.
pub(super) const SAMPLE: usize = 1024;

/// A position and the checksums (CRC-32) of the bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Where a reader would go on, in decompressed bytes.
    pub(super) position: u64,
    /// Checksum of the first min([`SAMPLE`], position) bytes of the file.
    pub(super) head: u32,
    /// Checksum of the last min([`SAMPLE`], position) bytes before the position.
    pub(super) tail: u32,
}

impl Mark {
    /// How many bytes each of the two checksums covers.
    pub(super) fn sample_len(&self) -> usize {
        usize::try_from(self.position).map_or(SAMPLE, |position| position.min(SAMPLE))
    }
}

/// What was passed of a file: the source of its marks.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail {
    position: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Trail {
    /// A reader that starts at `position`, before which stand the samples `head` and `tail`.
    pub(super) fn resumed(position: u64, head: Vec<u8>, tail: Vec<u8>) -> Self {
        Self { position, head, tail }
    }

    /// Moves on over `bytes`.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        let missing = SAMPLE.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend(bytes.iter().take(missing));
        let kept = bytes.len().min(SAMPLE);
        let stale = (self.tail.len() + kept).saturating_sub(SAMPLE);
        self.tail.drain(..stale.min(self.tail.len()));
        self.tail.extend(bytes.iter().skip(bytes.len() - kept));
        self.position += bytes.len() as u64;
    }

    /// The mark of where it stands.
    pub(super) fn mark(&self) -> Mark {
        Mark { position: self.position, head: crc32fast::hash(&self.head), tail: crc32fast::hash(&self.tail) }
    }

    /// The last min([`SAMPLE`], position) bytes.
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Where it stands.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}
