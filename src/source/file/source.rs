//! Files as splits, read side by side.
//!
//! A state machine that [`FileSource::next`] turns: jobs of the pools read and cut (one at a time for a
//! split) and decode (several at a time, also of one split), and their results are handed on in turns
//! among the splits, in order within each. Everything under way lives in the source and not in the
//! future, so a dropped call loses nothing. With inline pools each job is done where it is started, and
//! the order is the same in every run.
//!
//! # Invariants
//!
//! - **F1** A split's record stands behind exactly the records that `next` has returned of it; what is
//!   read or decoded beyond is read again after a restart.
//! - **F2** No more than [`FileSettings::read_ahead_bytes`] raw bytes, plus one chunk and the record that
//!   each open split has begun, are in memory.
//! - **F3** An error of the disk is an error of the source, never the end of a file.

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::checkpoint::Completed;
use crate::doors::Doors;
use crate::error::Result;
use crate::format::InputFormat;
use crate::source::Read;
use crate::source::ReplayableSource;
use crate::source::file::content::is_compressed;
use crate::source::file::error::FileError;
use crate::source::file::reader::AtEnd;
use crate::source::file::reader::Opening;
use crate::source::file::reader::Step;
use crate::source::file::reader::open;
use crate::source::file::record;
use crate::source::file::record::SplitRecord;
use crate::source::file::resolve::Known;
use crate::source::file::resolve::Place;
use crate::source::file::resolve::Resolution;
use crate::source::file::resolve::resolve;
use crate::source::file::settings::FileSettings;
use crate::source::file::split::Job;
use crate::source::file::split::Output;
use crate::source::file::split::Split;
use crate::source::file::split::decode;
use crate::source::file::walk::Found;
use crate::source::file::walk::Pattern;
use crate::state::Snapshot;
use crate::state::State;
use crate::stream::Barrier;
use crate::stream::SplitId;
use crate::stream::Stage;

/// Files kept open when following although nothing new is in them: a rename between two looks is then
/// no loss. The rest are opened again when they grow.
const IDLE_OPEN: usize = 64;
/// A look at all files takes at most a tenth of the time.
const LOOK_SHARE: u32 = 10;

/// Reads files that match a pattern; each is a split.
///
/// With `follow` it never ends, and new lines and files are found by looking again and again.
pub struct FileSource {
    settings: FileSettings,
    pattern: Arc<Pattern>,
    format: Arc<dyn InputFormat>,
    stage: Option<Stage>,
    state: State,
    doors: Doors,
    splits: Vec<Split>,
    names: BTreeSet<SplitId>,
    /// Splits whose record changed in this epoch.
    changed: BTreeSet<usize>,
    /// Splits to read, in order, that wait for a place among the active ones.
    waiting: VecDeque<usize>,
    active: Vec<usize>,
    /// Whose turn it is to hand on, as an index of `active`.
    turn: usize,
    /// Idle splits that are open.
    idle_open: VecDeque<usize>,
    /// Pieces cut and not handed on, and their bytes.
    held: usize,
    held_bytes: usize,
    watch: Watch,
    failed: bool,
}

/// When the files are looked at again.
enum Watch {
    /// Never: the input is bounded.
    Off,
    /// After a while.
    Waiting(BoxFuture<'static, ()>),
    /// Now.
    Looking(Job<(Resolution, Duration)>),
}

/// How far a source of files is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceStatus {
    /// Bytes of files that were handed on, compressed where they are.
    pub bytes_read: u64,
    /// Bytes of all files, as far as they were seen.
    pub bytes_total: u64,
    /// Records handed on since the first start, rejected ones included.
    pub records: u64,
    /// Splits not read to their end.
    pub splits_open: u64,
    /// Splits read to their end, for now.
    pub splits_done: u64,
}

impl FileSource {
    /// Opens the source with the positions in `state`, after proving that the files are still those that
    /// were read.
    ///
    /// Batches go through `stage` where they are decoded.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] for a bad setting or pattern, and for a pattern that matches nothing while nothing was
    /// ever read (unless following); [`crate::ErrorKind::Damage`] for a file that shrank, was replaced, or
    /// vanished unfinished: what of it was not read is missing, and a person has to decide.
    pub async fn open(
        settings: FileSettings,
        format: Arc<dyn InputFormat>,
        stage: Option<Stage>,
        state: State,
        doors: Doors,
    ) -> Result<Self> {
        settings.validate()?;
        let pattern = Arc::new(Pattern::new(&settings.base, &settings.path)?);
        let splits: Vec<Split> =
            record::all(&state)?.into_iter().map(|(id, record)| Split::new(id, record)).collect();
        let watch = Watch::Off;
        let mut source = Self {
            names: splits.iter().map(|split| split.id.clone()).collect(),
            settings,
            pattern,
            format,
            stage,
            state,
            doors,
            splits,
            changed: BTreeSet::new(),
            waiting: VecDeque::new(),
            active: Vec::new(),
            turn: 0,
            idle_open: VecDeque::new(),
            held: 0,
            held_bytes: 0,
            watch,
            failed: false,
        };
        let (resolution, _) = source.look(true).await?;
        source.place(resolution)?;
        if source.settings.follow {
            source.watch = Watch::Waiting(source.doors.clock.sleep(source.settings.poll));
        } else if source.splits.is_empty() {
            let below = source.pattern.root();
            return Err(FileError::NoMatch { pattern: source.pattern.text().to_owned(), below }.into());
        }
        Ok(source)
    }

    /// How far it is.
    pub fn status(&self) -> SourceStatus {
        let mut status = SourceStatus::default();
        for split in &self.splits {
            let read = split.bytes_read(is_compressed(&split.record.path));
            status.bytes_read += read;
            status.bytes_total += split.len.max(read);
            status.records += split.record.records;
            if split.record.ended {
                status.splits_done += 1;
            } else {
                status.splits_open += 1;
            }
        }
        status
    }

    /// Looks at the files: which is which, and what is new.
    fn look(&self, first: bool) -> Job<(Resolution, Duration)> {
        let known: Vec<Known> =
            self.splits.iter().enumerate().map(|(number, split)| split.known(number)).collect();
        let pattern = Arc::clone(&self.pattern);
        let base = self.settings.base.clone();
        let settled = first && !self.settings.follow;
        let (disk, clock) = (Arc::clone(&self.doors.disk), Arc::clone(&self.doors.clock));
        let look = move || {
            let start = clock.monotonic();
            let found = pattern.walk(disk.as_ref(), settled)?;
            let resolution = resolve(disk.as_ref(), &base, known, found)?;
            Ok((resolution, clock.monotonic().saturating_sub(start)))
        };
        self.doors.io.run(look).map(|done| done.and_then(|looked| looked)).boxed()
    }

    /// Acts on what was found.
    fn place(&mut self, resolution: Resolution) -> Result<()> {
        let mut behind = BTreeSet::new();
        for (number, place) in resolution.places {
            let Some(split) = self.splits.get_mut(number) else { continue };
            match place {
                Place::Here(found) => {
                    if self.here(number, &found)? {
                        behind.insert((found.path, number));
                    }
                }
                Place::Nameless if split.reader.is_some() || split.reading.is_some() => {
                    if !split.nameless {
                        split.nameless = true;
                        split.end = None;
                        behind.insert((split.record.path.clone(), number));
                    }
                }
                // It was closed while we looked; the next look will tell.
                Place::Nameless => {}
                Place::Gone => self.gone(number),
            }
        }
        for found in resolution.new {
            let id = self.new_name(&found.path);
            let record = SplitRecord { path: found.path.clone(), ..SplitRecord::default() };
            let number = self.splits.len();
            let mut split = Split::new(id, record);
            (split.inode, split.len) = (Some(found.inode), found.len);
            self.splits.push(split);
            behind.insert((found.path, number));
        }
        // Name order, whatever the order in which they came to be known.
        for (_, number) in behind {
            self.enqueue(number);
        }
        Ok(())
    }

    /// Notes where a split's file is; true if there is more to read in it.
    fn here(&mut self, number: usize, found: &Found) -> Result<bool> {
        let Some(split) = self.splits.get_mut(number) else { return Ok(false) };
        let is_other_inode = split.inode.is_some_and(|inode| inode != found.inode);
        if is_other_inode {
            if split.busy {
                // What is under way belongs to the file of before; the next look comes back to it.
                return Ok(false);
            }
            if split.reader.is_some() && split.outgoing != Some(found.inode) {
                // What the old file got since it was read is read first; the next look compares that too.
                split.outgoing = Some(found.inode);
                split.end = None;
                return Ok(true);
            }
            split.reader = None;
            split.end = None;
        }
        split.outgoing = None;
        split.inode = Some(found.inode);
        split.len = found.len;
        split.nameless = false;
        if split.record.path != found.path || split.record.gone {
            split.record.path.clone_from(&found.path);
            split.record.gone = false;
            self.changed.insert(number);
        }
        let compressed = is_compressed(&found.path);
        if split.busy || !split.is_behind(found.len, compressed) {
            return Ok(false);
        }
        split.may_go_on(&self.settings.base, found)?;
        split.end = None;
        Ok(true)
    }

    fn gone(&mut self, number: usize) {
        let Some(split) = self.splits.get_mut(number) else { return };
        if !split.record.gone && !split.busy {
            split.record.gone = true;
            split.record.ended = true;
            split.reader = None;
            split.inode = None;
            self.changed.insert(number);
        }
    }

    /// A name for the split of a new file: its path, unless an older file of this path has it.
    fn new_name(&mut self, path: &str) -> SplitId {
        let mut id = SplitId::new(path);
        let mut life = 1_u64;
        while !self.names.insert(id.clone()) {
            life += 1;
            id = SplitId::new(format!("{path}#{life}"));
        }
        id
    }

    fn enqueue(&mut self, number: usize) {
        if let Some(split) = self.splits.get_mut(number)
            && !split.busy
        {
            split.busy = true;
            self.idle_open.retain(|idle| *idle != number);
            self.waiting.push_back(number);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Read>> {
        loop {
            let mut moved = self.poll_watch(cx)?;
            moved |= self.poll_readings(cx)?;
            moved |= self.start_readings();
            if let Some(read) = self.hand_on(cx, &mut moved)? {
                return Poll::Ready(Ok(read));
            }
            if matches!(self.watch, Watch::Off) && self.active.is_empty() && self.waiting.is_empty() {
                return Poll::Ready(Ok(Read::End));
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn poll_watch(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        match &mut self.watch {
            Watch::Off => Ok(false),
            Watch::Waiting(wait) => {
                let done = wait.poll_unpin(cx).is_ready();
                if done {
                    self.watch = Watch::Looking(self.look(false));
                }
                Ok(done)
            }
            Watch::Looking(job) => {
                let Poll::Ready(looked) = job.poll_unpin(cx) else { return Ok(false) };
                let (resolution, took) = looked?;
                let wait = self.settings.poll.max(took.saturating_mul(LOOK_SHARE));
                self.watch = Watch::Waiting(self.doors.clock.sleep(wait));
                self.place(resolution)?;
                Ok(true)
            }
        }
    }

    fn poll_readings(&mut self, cx: &mut Context<'_>) -> Result<bool> {
        let mut moved = false;
        for number in self.active.clone() {
            let Some(split) = self.splits.get_mut(number) else { continue };
            if let Poll::Ready(step) = split.poll_reading(cx) {
                self.take_step(number, step?)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Starts to decode what was read.
    fn take_step(&mut self, number: usize, step: Step) -> Result<()> {
        let Some(split) = self.splits.get_mut(number) else { return Ok(()) };
        split.reader = step.reader.map(Box::new);
        split.raw = step.raw;
        split.end = step.end;
        if split.nameless && split.at_end == AtEnd::Wait && split.reader.is_some() {
            // The file lost its name during this step: what it waits for will not come.
            split.end = None;
        }
        for piece in step.pieces {
            split.read_mark = piece.end;
            split.read_unterminated = piece.unterminated;
            let (id, stage, cpu) = (split.id.clone(), self.stage.clone(), &self.doors.cpu);
            let decoding = piece.start(|what| {
                let job = move || decode(&id, what, stage.as_ref());
                cpu.run(job).map(|done| done.and_then(|output| output)).boxed()
            });
            self.held += 1;
            self.held_bytes += decoding.bytes;
            split.pieces.push_back(decoding);
        }
        self.settle(number)
    }

    /// Fills the places of active splits and lets those read on that have the least ahead.
    fn start_readings(&mut self) -> bool {
        let mut moved = false;
        let width = self.doors.cpu.width().max(1);
        while self.active.len() < width * 2
            && let Some(number) = self.waiting.pop_front()
        {
            self.active.push(number);
        }
        loop {
            let readings = self.splits_of_active().filter(|split| split.reading.is_some()).count();
            let ahead = self.held + readings;
            let is_full = ahead >= width * 2 + 2 || self.held_bytes >= self.settings.read_ahead_bytes;
            if is_full && ahead > 0 {
                return moved;
            }
            let ready = self
                .active
                .iter()
                .filter_map(|number| Some((*number, self.splits.get(*number)?)))
                .filter(|(_, split)| split.reading.is_none() && split.end.is_none())
                .min_by_key(|(_, split)| split.pieces.len())
                .map(|(number, _)| number);
            let Some(number) = ready else { return moved };
            self.start_reading(number);
            moved = true;
        }
    }

    fn splits_of_active(&self) -> impl Iterator<Item = &Split> {
        self.active.iter().filter_map(|number| self.splits.get(*number))
    }

    fn start_reading(&mut self, number: usize) {
        let Some(split) = self.splits.get_mut(number) else { return };
        let at_end = if self.settings.follow && !split.nameless { AtEnd::Wait } else { AtEnd::Finish };
        split.at_end = at_end;
        // Decompression computes, plain reading waits.
        let pool = if is_compressed(&split.record.path) { &self.doors.cpu } else { &self.doors.io };
        let job = match split.reader.take() {
            Some(reader) => pool.run(move || reader.step(at_end)).boxed(),
            None => {
                let opening = Opening {
                    disk: Arc::clone(&self.doors.disk),
                    format: Arc::clone(&self.format),
                    split: split.id.clone(),
                    at: self.settings.base.join(&split.record.path),
                    mark: split.read_mark,
                    unterminated: split.read_unterminated,
                    record_limit: self.settings.record_limit,
                    chunk_bytes: self.settings.chunk_bytes,
                };
                pool.run(move || open(&opening, at_end)).boxed()
            }
        };
        split.reading = Some(job.map(|done| done.and_then(|step| step)).boxed());
    }

    /// The next piece that is ready, in turns among the splits.
    fn hand_on(&mut self, cx: &mut Context<'_>, moved: &mut bool) -> Result<Option<Read>> {
        let mut passed = 0;
        while passed < self.active.len() {
            let turn = self.turn % self.active.len();
            let Some(number) = self.active.get(turn).copied() else { break };
            self.turn = turn + 1;
            passed += 1;
            let Some(split) = self.splits.get_mut(number) else { continue };
            let Poll::Ready(piece) = split.poll_piece(cx) else { continue };
            let (output, bytes) = piece?;
            *moved = true;
            self.held -= 1;
            self.held_bytes -= bytes;
            self.changed.insert(number);
            let left = self.active.len();
            self.settle(number)?;
            if self.active.len() < left {
                // Its successor stands at its place now.
                self.turn = turn;
            }
            let Output { batches, rejected, .. } = output;
            if !(batches.is_empty() && rejected.is_empty()) {
                return Ok(Some(Read::Records { batches, rejected }));
            }
            passed = 0;
        }
        Ok(None)
    }

    /// Takes a split out of the active ones when nothing is left to do for it, for now.
    fn settle(&mut self, number: usize) -> Result<()> {
        let Some(split) = self.splits.get_mut(number) else { return Ok(()) };
        let Some(end) = split.end.filter(|_| split.is_idle()) else {
            if split.record.ended {
                split.record.ended = false;
                self.changed.insert(number);
            }
            return Ok(());
        };
        if !split.busy {
            return Ok(());
        }
        let ended = end.is_clean;
        let gone = split.nameless;
        if gone && !ended {
            let (path, position) = (self.settings.base.join(&split.record.path), split.record.mark.position);
            return Err(FileError::Vanished { path, position }.into());
        }
        let record = &mut split.record;
        if (record.ended, record.raw, record.gone) != (ended, end.raw, gone) {
            (record.ended, record.raw, record.gone) = (ended, end.raw, gone);
            self.changed.insert(number);
        }
        split.busy = false;
        split.nameless = false;
        if gone {
            split.inode = None;
        }
        if gone || !self.settings.follow {
            split.reader = None;
        }
        let keeps_open = split.reader.is_some() && ended;
        self.active.retain(|active| *active != number);
        if keeps_open {
            self.idle_open.push_back(number);
            if self.idle_open.len() > IDLE_OPEN
                && let Some(oldest) = self.idle_open.pop_front()
                && let Some(oldest) = self.splits.get_mut(oldest)
            {
                oldest.reader = None;
            }
        }
        Ok(())
    }
}

impl ReplayableSource for FileSource {
    async fn next(&mut self) -> Result<Read> {
        if self.failed {
            return Err(FileError::FailedBefore.into());
        }
        let read = poll_fn(|cx| self.poll_next(cx)).await;
        self.failed = read.is_err();
        read
    }

    fn snapshot(&mut self, _barrier: Barrier) -> Result<Snapshot> {
        for number in std::mem::take(&mut self.changed) {
            if let Some(split) = self.splits.get(number) {
                record::put(&mut self.state, &split.id, &split.record);
            }
        }
        self.state.snapshot()
    }

    fn committed(&mut self, _completed: &Completed) -> Result<()> {
        // Files stay where they are: there is nothing to forget.
        Ok(())
    }

    fn status(&self) -> SourceStatus {
        Self::status(self)
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("path", &self.settings.path)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// What tests look at.
#[cfg(test)]
impl FileSource {
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Pieces and bytes that were read and not handed on.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.held, self.held_bytes)
    }

    pub(super) fn open_files(&self) -> usize {
        self.splits.iter().filter(|split| split.reader.is_some()).count()
    }
}
