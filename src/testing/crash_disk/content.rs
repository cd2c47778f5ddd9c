//! The bytes of one file: as a process reads them, and as a loss of power would leave them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::testing::SeededRandom;

/// What a disk writes in one piece.
const SECTOR: u64 = 512;

/// Bytes up to a length; those after the end of `bytes` are zeros.
#[derive(Debug, Clone, Default)]
struct Image {
    bytes: Vec<u8>,
    len: u64,
}

/// A file's bytes with their history since the last good sync.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// What a process reads.
    now: Image,
    /// What is safe.
    durable: Image,
    /// What leads from `durable` to `now`, but for what a failed sync lost.
    unsynced: Vec<Change>,
    /// The bytes of `unsynced`, end to end.
    written: Vec<u8>,
    /// So many of `unsynced` took part in a failed sync: no later sync makes them durable (S4).
    lost: usize,
}

#[derive(Debug, Clone)]
enum Change {
    /// The bytes at `at` of `written` were stored at `offset`.
    Write { offset: u64, at: Range<usize> },
    /// The file grew to this length, by zeros if nothing was written there.
    Grow(u64),
    /// The file was cut to this length; what grows there again is zeros.
    Cut(u64),
}

impl Change {
    fn len(&self) -> Option<u64> {
        match self {
            Self::Write { .. } => None,
            Self::Grow(len) | Self::Cut(len) => Some(*len),
        }
    }
}

impl Image {
    fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let count = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let stored = self.bytes.get(offset as usize..).unwrap_or_default();
        let copied = stored.len().min(count);
        buf[..copied].copy_from_slice(&stored[..copied]);
        buf[copied..count].fill(0);
        count
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        let end = start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
        self.len = self.len.max(end as u64);
    }

    fn zero(&mut self, range: Range<u64>) {
        let stored = self.bytes.len();
        let start = stored.min(range.start as usize);
        self.bytes[start..stored.min(range.end as usize)].fill(0);
    }

    fn set_len(&mut self, len: u64) {
        self.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        self.len = len;
    }
}

impl Content {
    /// A file whose `bytes` are safe.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let image = Image { bytes: bytes.to_vec(), len: bytes.len() as u64 };
        Self { now: image.clone(), durable: image, ..Self::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.now.len
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        self.now.read(offset, buf)
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.now.bytes.clone();
        bytes.resize(self.now.len as usize, 0);
        bytes
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let before = self.now.len;
        self.now.write(offset, bytes);
        let at = self.written.len()..self.written.len() + bytes.len();
        self.written.extend_from_slice(bytes);
        self.unsynced.push(Change::Write { offset, at });
        if self.now.len > before {
            self.unsynced.push(Change::Grow(self.now.len));
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let change = if len < self.now.len { Change::Cut(len) } else { Change::Grow(len) };
        self.now.set_len(len);
        self.unsynced.push(change);
    }

    /// Number of 512-byte sectors that differ from what a loss of power leaves for sure, and of
    /// changes that no sync will save.
    pub(super) fn unsynced(&self) -> (usize, usize) {
        (self.sectors().len(), self.lost)
    }

    pub(super) fn sync(&mut self) {
        for change in &self.unsynced[self.lost..] {
            match change {
                Change::Write { offset, at } => self.durable.write(*offset, &self.written[at.clone()]),
                Change::Grow(len) | Change::Cut(len) => self.durable.set_len(*len),
            }
        }
        self.unsynced.clear();
        self.written.clear();
        self.lost = 0;
    }

    /// What was not synced is now called clean: it can still be read, and no sync will save it (S4).
    pub(super) fn fail_sync(&mut self) {
        self.lost = self.unsynced.len();
    }

    /// What a loss of power leaves when nothing of the unsynced survives.
    pub(super) fn lose_unsynced(&self) -> Self {
        Self { now: self.durable.clone(), durable: self.durable.clone(), ..Self::default() }
    }

    /// What a loss of power leaves when `random` decides for each sector which of its writes was the
    /// last to survive. `keep` of 8 sectors survive whole.
    pub(super) fn lose_some(&self, keep: u64, random: &SeededRandom) -> Self {
        let mut image = self.durable.clone();
        for (sector, changes) in self.sectors() {
            let surviving = if random.chance(keep, 8) {
                changes.len()
            } else {
                random.below(changes.len() as u64) as usize
            };
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            for &change in &changes[..surviving] {
                self.redo(change, range.clone(), &mut image);
            }
        }
        let lens: Vec<u64> = self.unsynced.iter().filter_map(Change::len).collect();
        let len = if random.chance(keep, 8) {
            self.now.len
        } else {
            let chosen = random.below(lens.len() as u64 + 1) as usize;
            *lens.get(chosen).unwrap_or(&self.durable.len)
        };
        image.set_len(len);
        Self { now: image.clone(), durable: image, ..Self::default() }
    }

    /// For each sector that differs from `durable`, the changes that touched it, oldest first.
    fn sectors(&self) -> BTreeMap<u64, Vec<usize>> {
        let end = self.unsynced.iter().fold(self.durable.bytes.len() as u64, |end, change| match change {
            Change::Write { offset, at } => end.max(offset + at.len() as u64),
            Change::Grow(_) | Change::Cut(_) => end,
        });
        let mut sectors = BTreeMap::<u64, Vec<usize>>::new();
        for (index, change) in self.unsynced.iter().enumerate() {
            let touched = match change {
                Change::Write { offset, at } => *offset..offset + at.len() as u64,
                Change::Grow(_) => continue,
                Change::Cut(len) => *len..end,
            };
            if !touched.is_empty() {
                for sector in touched.start / SECTOR..touched.end.div_ceil(SECTOR) {
                    sectors.entry(sector).or_default().push(index);
                }
            }
        }
        sectors
    }

    /// Does the part of a change that lies in `range` to `image`.
    fn redo(&self, change: usize, range: Range<u64>, image: &mut Image) {
        match &self.unsynced[change] {
            Change::Write { offset, at } => {
                let start = range.start.max(*offset);
                let end = range.end.min(offset + at.len() as u64);
                let from = at.start + (start - offset) as usize;
                image.write(start, &self.written[from..from + (end - start) as usize]);
            }
            Change::Grow(_) => {}
            Change::Cut(len) => image.zero(range.start.max(*len)..range.end),
        }
    }
}
