//! Looking at a log without opening it: no lock, nothing is changed (D25).
//!
//! The log may be in use meanwhile. Then its end moves, which is no damage, and files may vanish
//! between two looks: what seems wrong is looked at again as long as the manifest has changed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::doors::Doors;
use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::Replay;
use super::WalError;
use super::chain;
use super::chain::Chain;
use super::folder::Folder;
use super::judge;
use super::judge::Verdict;
use super::manifest::Manifest;
use super::open;
use super::segment::Segment;
use super::view::Live;
use super::view::View;

/// Looks before damage is believed although the manifest changes each time.
const ATTEMPTS: usize = 16;

/// A log to look at; it shows what was there when it was opened.
pub struct WalReader {
    view: View,
    torn_bytes: u64,
    folder: Folder,
    sequence: u64,
}

/// What [`WalReader::verify`] read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Segments in use.
    pub segments: u64,
    /// Frames with valid checksums.
    pub frames: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes from the log's start to its end.
    pub bytes: u64,
    /// Bytes behind the end, of appends that were not acknowledged: what an opening would cut, or
    /// what a running process is about to write.
    pub torn_bytes: u64,
}

impl fmt::Debug for WalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalReader {:?}, LSN {} to {}", self.folder, self.view.start, self.view.end)
    }
}

impl WalReader {
    /// Opens the log in the folder `dir` to look at it. It blocks.
    ///
    /// # Errors
    ///
    /// [`WalError::Damage`] as [`crate::wal::Wal::open`], but older segments are not verified: see
    /// [`WalReader::verify`]. [`WalError::Io`] with `NotFound` when there is no log.
    pub fn open(dir: &Path, doors: &Doors) -> Result<Self, WalError> {
        let folder = Folder::new(dir, doors);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let before = Manifest::open(&folder, OpenMode::Read)?.state.sequence;
            match look(&folder) {
                Ok((view, torn_bytes)) => return Ok(Self { view, torn_bytes, folder, sequence: before }),
                Err(failure) => {
                    let after = Manifest::open(&folder, OpenMode::Read)?.state.sequence;
                    if after == before || attempts == ATTEMPTS {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Where the log starts.
    pub fn start(&self) -> Lsn {
        self.view.start
    }

    /// Where the log ended when it was opened here.
    pub fn end(&self) -> Lsn {
        self.view.end
    }

    /// As [`crate::wal::Wal::read`].
    ///
    /// # Errors
    ///
    /// As [`crate::wal::Wal::read`]; also [`WalError::OutOfRange`] when the log was truncated meanwhile.
    pub fn read(&self, at: Lsn) -> Result<Vec<u8>, WalError> {
        self.view.read(at).map_err(|failure| self.explain(at, failure))
    }

    /// As [`crate::wal::Wal::replay`].
    ///
    /// # Errors
    ///
    /// As [`crate::wal::Wal::replay`]. A segment that the log gave up and used again meanwhile shows as
    /// damage.
    pub fn replay(&self, from: Lsn) -> Result<Replay, WalError> {
        self.view.replay(from)
    }

    /// Reads every byte.
    ///
    /// # Errors
    ///
    /// [`WalError::Damage`] for the first thing that is wrong.
    pub fn verify(&self) -> Result<Verified, WalError> {
        let mut sum = Verified {
            segments: self.view.segments.len() as u64,
            bytes: self.view.end.0.saturating_sub(self.view.start.0),
            torn_bytes: self.torn_bytes,
            ..Verified::default()
        };
        let mut live = self.view.segments.iter().peekable();
        while let Some(Live { segment, .. }) = live.next() {
            let point = match live.peek() {
                Some(next) => judge::verify(segment, &next.segment),
                None => judge::point_at(segment, self.view.end.max(segment.base())),
            };
            let point = point.map_err(|failure| self.explain(segment.base(), failure))?;
            sum.frames += point.tally.frames;
            sum.entries += point.tally.entries;
        }
        for logged in self.view.replay(self.view.start)? {
            logged?;
        }
        Ok(sum)
    }

    /// Looks for files beside the log's segments that would keep an opening from it: segments of another log, or
    /// newer ones than the manifest knows. Takes no lock; of a log that changes meanwhile it says nothing.
    ///
    /// # Errors
    ///
    /// [`WalError::Damage`], [`WalError::Version`].
    pub fn verify_folder(&self) -> Result<(), WalError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let failure = match open::check_strays(&self.folder) {
                Err(failure @ (WalError::Damage { .. } | WalError::Version { .. })) => failure,
                // A spare that is being made vanishes under its first name.
                Ok(()) | Err(_) => return Ok(()),
            };
            let now = Manifest::open(&self.folder, OpenMode::Read)?.state.sequence;
            match () {
                () if now != self.sequence => return Ok(()),
                () if attempts == 3 => return Err(failure),
                () => {}
            }
        }
    }

    /// Damage at `at` may be the work of a running process that has given the segment up.
    fn explain(&self, at: Lsn, failure: WalError) -> WalError {
        match Manifest::open(&self.folder, OpenMode::Read) {
            Ok(now) if now.state.sequence != self.sequence && at < now.state.start => {
                WalError::OutOfRange { at, start: now.state.start, end: self.view.end }
            }
            _ => failure,
        }
    }
}

fn look(folder: &Folder) -> Result<(View, u64), WalError> {
    let Chain { manifest, segments } = chain::load(folder, OpenMode::Read)?;
    let state = manifest.state;
    let (end, torn_bytes) = match segments.last() {
        None => (state.start, 0),
        Some(newest) => end_of(&state, newest)?,
    };
    let segments: Vec<Arc<Segment>> = segments.into_iter().map(Arc::new).collect();
    let live = View::live(segments);
    Ok((View { segments: Arc::new(live), start: state.start, end }, torn_bytes))
}

fn end_of(state: &super::manifest::State, newest: &Segment) -> Result<(Lsn, u64), WalError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let tail = judge::look(newest)?;
        match judge::judge(state, &tail) {
            Verdict::Accept { end, .. } => {
                let behind = tail.behind.end - newest.life().offset(tail.reached.at);
                return Ok((end, behind + (tail.reached.at.0 - end.0)));
            }
            // A frame that was being written when it was read is whole once something behind it was seen.
            Verdict::Damage { .. } if attempts < 3 => {}
            Verdict::Damage { at, to, what } => return Err(judge::lost(newest, &tail, at, to, what)),
        }
    }
}
