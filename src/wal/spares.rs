//! Segment files made ahead: reserved, initialised, synced, waiting for their first life or the next one.
//!
//! Owns `spare-*` and `making-*`. Does not own when a spare becomes a segment (`writer`, `open`).
//!
//! # Why so
//!
//! - Reserved: a full disk is an answer of [`DiskFile::reserve`], never a SIGBUS of a store into the map.
//! - Initialised: a sync into space that is only reserved also commits the file system's journal (194
//!   against 92 us). By 4 KiB writes: larger ones make large page-cache folios, and then a sync of 100
//!   bytes that were stored through the map writes 1 MiB.
//! - `making-*` becomes `spare-*` when it is complete; an opening removes what is still being made.
//! - A segment given up becomes a spare by its name alone. Its old frames stay in it: the next life has
//!   another salt, in a header that is synced before the file gets a segment's name (W1).
//! - One spare stays in reserve: every opening begins a new segment and must not need free space. So an
//!   append that would use the last one first makes another.

use std::collections::VecDeque;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::storage::DiskFile;
use crate::storage::OpenMode;
use crate::storage::Region;

use super::WalError;
use super::error::is_full;
use super::folder::Folder;
use super::folder::io_error;
use super::health::Health;
use super::health::lock;

/// Spares that are kept: the next segment, and the reserve.
pub(super) const SPARES: usize = 2;
/// What initialises a segment at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// The spare segments of a log.
#[derive(Debug)]
pub(super) struct Spares {
    folder: Folder,
    /// Length of the segments that the log makes.
    bytes: u64,
    state: Mutex<State>,
    /// Held while a file is made, so that nobody who takes a ready one waits for that.
    making: Mutex<()>,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<Ready>,
    /// The number of the next name.
    next: u64,
    closed: bool,
}

impl State {
    /// A number that no spare has had.
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

/// A spare that can be taken.
#[derive(Debug)]
struct Ready {
    path: PathBuf,
    /// Made by this process, and nothing else was ever written to it. Of one that was found nobody
    /// knows: an opening may have written to it and lost some of that.
    zeroed: bool,
}

/// A segment file without a header yet.
pub(super) struct Blank {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) region: Option<Box<dyn Region>>,
    pub(super) bytes: u64,
    /// Never had a life.
    pub(super) zeroed: bool,
}

impl Spares {
    /// The spares in `folder`; those in `found` of another length than `bytes` are removed.
    pub(super) fn open(folder: &Folder, bytes: u64, found: &[u64]) -> Result<Self, WalError> {
        let mut ready = VecDeque::new();
        for number in found {
            let path = folder.spare(*number);
            let len = folder.disk.metadata(&path).map_err(|source| io_error("look at", &path, source))?.len;
            if len == bytes && ready.len() < SPARES {
                ready.push_back(Ready { path, zeroed: false });
            } else {
                folder.remove(&path)?;
            }
        }
        let next = found.iter().max().map_or(1, |max| max.saturating_add(1));
        let state = Mutex::new(State { ready, next, closed: false });
        Ok(Self { folder: folder.clone(), bytes, state, making: Mutex::new(()) })
    }

    /// How many are ready.
    pub(super) fn ready(&self) -> usize {
        lock(&self.state).ready.len()
    }

    /// Makes spares until `count` are ready.
    ///
    /// # Errors
    ///
    /// [`WalError::NoSpace`] leaves everything as it was; anything else is a reason to stop.
    pub(super) fn ensure(&self, count: usize) -> Result<(), WalError> {
        let _making = lock(&self.making);
        loop {
            let number = {
                let mut state = lock(&self.state);
                if state.ready.len() >= count || state.closed {
                    break;
                }
                state.number()
            };
            let path = self.make(number, self.bytes)?;
            lock(&self.state).ready.push_back(Ready { path, zeroed: true });
        }
        Ok(())
    }

    /// Makes spares ahead of need. A full disk is left to those who need one; any other failure stops the
    /// log.
    pub(super) fn prepare(&self, health: &Health) {
        match self.ensure(SPARES) {
            Ok(()) | Err(WalError::NoSpace { .. }) => {}
            Err(failure) => drop(health.stop(&failure)),
        }
    }

    /// Makes nothing any more, and waits for what is being made: its names would get in the way of the next
    /// opening.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        drop(lock(&self.making));
    }

    /// A spare that is ready, opened; `None` when there is none.
    pub(super) fn take(&self) -> Result<Option<Blank>, WalError> {
        let Some(Ready { path, zeroed }) = lock(&self.state).ready.pop_front() else { return Ok(None) };
        open_blank(&self.folder, path, self.bytes, zeroed).map(Some)
    }

    /// A blank of `bytes`, ready or made now.
    pub(super) fn take_or_make(&self, bytes: u64) -> Result<Blank, WalError> {
        if bytes == self.bytes
            && let Some(blank) = self.take()?
        {
            return Ok(blank);
        }
        let number = lock(&self.state).number();
        let path = self.make(number, bytes)?;
        open_blank(&self.folder, path, bytes, true)
    }

    /// Takes over the file at `path`, a segment that the manifest no longer names (W7) and nobody reads, or
    /// removes it.
    pub(super) fn give(&self, path: &Path, bytes: u64) -> Result<(), WalError> {
        if self.take_over(path, bytes)? { Ok(()) } else { self.folder.remove(path) }
    }

    /// As [`Self::give`], but a file that is not needed is left to the caller: false.
    pub(super) fn take_over(&self, path: &Path, bytes: u64) -> Result<bool, WalError> {
        let mut state = lock(&self.state);
        if bytes != self.bytes || state.ready.len() >= SPARES || state.closed {
            return Ok(false);
        }
        let spare = self.folder.spare(state.number());
        self.folder.rename(path, &spare)?;
        state.ready.push_back(Ready { path: spare, zeroed: false });
        Ok(true)
    }

    /// Makes `spare-<number>`.
    fn make(&self, number: u64, bytes: u64) -> Result<PathBuf, WalError> {
        let making = self.folder.making(number);
        let spare = self.folder.spare(number);
        match self.fill(&making, bytes).and_then(|()| self.folder.rename(&making, &spare)) {
            Ok(()) => Ok(spare),
            Err(failure) => {
                // What stays behind is removed by the next opening.
                let _removed = self.folder.remove(&making);
                Err(match failure {
                    WalError::Io { path, source, .. } if is_full(&source) => {
                        WalError::NoSpace { path, bytes, source }
                    }
                    other => other,
                })
            }
        }
    }

    fn fill(&self, path: &Path, bytes: u64) -> Result<(), WalError> {
        let failed = |what, source| io_error(what, path, source);
        let file = self
            .folder
            .disk
            .open(path, OpenMode::CreateNew { private: true })
            .map_err(|source| failed("create", source))?;
        match file.reserve(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {}
            reserved => reserved.map_err(|source| failed("reserve", source))?,
        }
        for offset in (0..bytes).step_by(ZEROS.len()) {
            file.write_at(offset, &ZEROS).map_err(|source| failed("initialise", source))?;
        }
        file.sync().map_err(|source| failed("sync", source))
    }
}

/// Opens the file at `path`, of `bytes`, to be written.
pub(super) fn open_blank(
    folder: &Folder,
    path: PathBuf,
    bytes: u64,
    zeroed: bool,
) -> Result<Blank, WalError> {
    let failed = |what, source| io_error(what, &path, source);
    let file = folder.disk.open(&path, OpenMode::ReadWrite).map_err(|source| failed("open", source))?;
    // Reserved once more: the file may have been copied here, with holes, by somebody else.
    let region = match file.reserve(bytes) {
        Ok(()) => match file.map(bytes) {
            Ok(region) => Some(region),
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
            Err(error) => return Err(failed("map", error)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
        Err(error) if is_full(&error) => {
            return Err(WalError::NoSpace { path: path.clone(), bytes, source: error });
        }
        Err(error) => return Err(failed("reserve", error)),
    };
    Ok(Blank { path, file, region, bytes, zeroed })
}
