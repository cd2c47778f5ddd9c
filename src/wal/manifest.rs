//! Which segments are the log: two slots of 4 KiB, written in turn; and a witness of what was acknowledged.
//!
//! # On disk, version 1
//!
//! A slot is written in one piece and synced; the other one, with the state before, is not touched. The
//! one with the higher sequence that verifies is right. Little-endian; the rest of a slot is zero.
//!
//! ```text
//!  0      4     8         12      16    24         32       40      48     56
//!  "ALWM" | crc | version | clean | log | sequence | count  | first | last | first salt
//!  64          72      80    88     96      104             112
//!  last salt | start | end | next | frames | (reserved) 0
//! ```
//!
//! - *crc*: crc32 of the slot from byte 8 on. *clean*: 1 = the log was closed, and nothing may be damaged.
//! - *count*: number of segments, from *first* to *last* by the predecessors that their headers name.
//!   With none, *start* is where the log goes on and *frames* the sequence of its next frame.
//! - *start*: where the log starts. *end*: everything below was durable when this was written.
//! - *next*: the number of the next segment.
//!
//! Behind the two slots, at 8192, stands the *witness*. It is overwritten after each sync and never synced:
//!
//! ```text
//!  0      4     8     16              24            32      40
//!  "ALWA" | crc | log | last's number | last's salt | acked
//! ```
//!
//! The marks in a segment (W3) say the same, but a mark lies in the same sector as the frame before it: what
//! destroys an acknowledged end destroys its mark as well. Only a loss of power takes back a witness, and
//! then it says less than it might, never more.
//!
//! # Invariants
//!
//! - **W6** A segment is part of the log from the sync of a manifest that names it on, and not before: no
//!   frame is acknowledged, and none but copies (`RECOVERED`) is written to it earlier.
//! - **W7** A segment is no part of the log from the sync of a manifest on that does not name it; only
//!   then is its file renamed, used again or removed.

use std::path::Path;

use crate::storage::DiskFile;
use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::WalError;
use super::folder::Folder;
use super::folder::io_error;
use super::frame::u32_at;
use super::frame::u64_at;
use super::segment::FORMAT_VERSION;

const SLOT_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"ALWM";
const WITNESS_BYTES: usize = 40;
const WITNESS_MAGIC: [u8; 4] = *b"ALWA";
const WITNESS_AT: u64 = 2 * SLOT_BYTES as u64;

/// What a manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub log: u64,
    pub sequence: u64,
    pub clean: bool,
    pub count: u64,
    /// Number and salt of the oldest segment.
    pub first: (u64, u64),
    /// Number and salt of the newest segment.
    pub last: (u64, u64),
    pub start: Lsn,
    pub end: Lsn,
    pub next: u64,
    pub frames: u64,
}

impl State {
    /// A log that holds nothing.
    pub(super) fn new(log: u64) -> Self {
        Self {
            log,
            sequence: 1,
            clean: false,
            count: 0,
            first: (0, 0),
            last: (0, 0),
            start: Lsn(0),
            end: Lsn(0),
            next: 1,
            frames: 0,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &FORMAT_VERSION.to_le_bytes());
        put(12, &u32::from(self.clean).to_le_bytes());
        let numbers = [
            self.log,
            self.sequence,
            self.count,
            self.first.0,
            self.last.0,
            self.first.1,
            self.last.1,
            self.start.0,
            self.end.0,
            self.next,
            self.frames,
        ];
        for (index, number) in numbers.iter().enumerate() {
            put(16 + 8 * index, &number.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The state in a slot; `Ok(None)` when it holds none, `Err` with the version when it is newer.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        let Ok(bytes) = <&[u8; SLOT_BYTES]>::try_from(bytes) else { return Ok(None) };
        if bytes[..4] != MAGIC || u32_at(bytes, 4) != crc32fast::hash(&bytes[8..]) {
            return Ok(None);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(version);
        }
        let number = |index: usize| u64_at(bytes, 16 + 8 * index);
        Ok(Some(Self {
            clean: u32_at(bytes, 12) != 0,
            log: number(0),
            sequence: number(1),
            count: number(2),
            first: (number(3), number(5)),
            last: (number(4), number(6)),
            start: Lsn(number(7)),
            end: Lsn(number(8)),
            next: number(9),
            frames: number(10),
        }))
    }
}

/// The open manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    file: Box<dyn DiskFile>,
    pub(super) state: State,
    /// The slot that holds `state`.
    slot: u64,
}

impl Manifest {
    /// Makes the first manifest of a log.
    pub(super) fn create(folder: &Folder, log: u64) -> Result<Self, WalError> {
        Self::create_as(folder, State::new(log))
    }

    /// Makes a manifest that says `state`. It has its name only when it is complete.
    pub(super) fn create_as(folder: &Folder, state: State) -> Result<Self, WalError> {
        let new = folder.manifest_new();
        folder.remove(&new)?;
        let file = folder
            .disk
            .open(&new, OpenMode::CreateNew { private: true })
            .map_err(|source| io_error("create", &new, source))?;
        let mut bytes = state.encode();
        bytes.resize(3 * SLOT_BYTES, 0);
        file.write_at(0, &bytes).map_err(|source| io_error("write", &new, source))?;
        file.sync().map_err(|source| io_error("sync", &new, source))?;
        folder.rename(&new, &folder.manifest())?;
        folder.sync()?;
        Ok(Self { file, state, slot: 0 })
    }

    /// Reads the manifest.
    pub(super) fn open(folder: &Folder, mode: OpenMode) -> Result<Self, WalError> {
        let path = folder.manifest();
        let file = folder.disk.open(&path, mode).map_err(|source| io_error("open", &path, source))?;
        let mut newest = None;
        for slot in 0..2 {
            let mut bytes = vec![0; SLOT_BYTES];
            let count = file
                .read_at(slot * SLOT_BYTES as u64, &mut bytes)
                .map_err(|source| io_error("read", &path, source))?;
            bytes.truncate(count);
            let found = State::decode(&bytes).map_err(|found| WalError::Version {
                path: path.clone(),
                found,
                known: FORMAT_VERSION,
            })?;
            if let Some(state) = found
                && newest.is_none_or(|(_, newest): (u64, State)| newest.sequence < state.sequence)
            {
                newest = Some((slot, state));
            }
        }
        let Some((slot, mut state)) = newest else { return Err(broken(&path)) };
        let mut witness = [0; WITNESS_BYTES];
        file.read_at(WITNESS_AT, &mut witness).map_err(|source| io_error("read", &path, source))?;
        state.end = state.end.max(witnessed(&state, &witness));
        Ok(Self { file, state, slot })
    }

    /// Leaves word that everything below `acked` is durable; it is not synced.
    pub(super) fn witness(&self, folder: &Folder, acked: Lsn) -> Result<(), WalError> {
        let mut bytes = [0; WITNESS_BYTES];
        bytes[..4].copy_from_slice(&WITNESS_MAGIC);
        let numbers = [self.state.log, self.state.last.0, self.state.last.1, acked.0];
        for (place, number) in bytes[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        self.file.write_at(WITNESS_AT, &bytes).map_err(|source| io_error("write", &folder.manifest(), source))
    }

    /// Writes the state that was read once more to where it was read: whoever wrote it may have been
    /// told that its sync failed (P5, S4), and then the disk still has the slot's older state.
    pub(super) fn settle(&mut self, folder: &Folder) -> Result<(), WalError> {
        self.store(folder, self.slot, &self.state)
    }

    /// Makes `state` the log's, durably.
    pub(super) fn write(&mut self, folder: &Folder, mut state: State) -> Result<(), WalError> {
        state.sequence = self.state.sequence + 1;
        let slot = 1 - self.slot;
        self.store(folder, slot, &state)?;
        (self.state, self.slot) = (state, slot);
        Ok(())
    }

    fn store(&self, folder: &Folder, slot: u64, state: &State) -> Result<(), WalError> {
        let failed = |what, source| io_error(what, &folder.manifest(), source);
        self.file
            .write_at(slot * SLOT_BYTES as u64, &state.encode())
            .map_err(|source| failed("write", source))?;
        self.file.sync().map_err(|source| failed("sync", source))
    }
}

/// What the witness says of the newest segment of `state`; of an older one the next one's header says more.
fn witnessed(state: &State, bytes: &[u8; WITNESS_BYTES]) -> Lsn {
    let right = bytes[..4] == WITNESS_MAGIC
        && u32_at(bytes, 4) == crc32fast::hash(&bytes[8..])
        && u64_at(bytes, 8) == state.log
        && (u64_at(bytes, 16), u64_at(bytes, 24)) == state.last;
    if right { Lsn(u64_at(bytes, 32)) } else { Lsn(0) }
}

/// The damage of a manifest without a slot that verifies: one of the two always does (it is made whole).
fn broken(path: &Path) -> WalError {
    WalError::Damage {
        path: path.to_owned(),
        offset: 0,
        at: Lsn(0),
        to: Lsn(u64::MAX),
        what: "neither slot of the manifest verifies".to_owned(),
    }
}
