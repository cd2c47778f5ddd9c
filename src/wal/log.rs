//! The log that is open: many handles, one writer at a time, one sync for many.
//!
//! # Locks, in the order in which they are taken
//!
//! `writer` (appends, roll-over, truncation), then `syncing` (one sync at a time: of two at once only one
//! would be told of a failure), then the table of segments. A leader releases `syncing` before it takes
//! `writer` for the mark.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crate::doors::Doors;
use crate::doors::Random;
use crate::pool::Pool;
use crate::storage::DiskLock;
use crate::stream::Lsn;

use super::Opened;
use super::Replay;
use super::WalError;
use super::WalSettings;
use super::entry::draft;
use super::entry::plan;
use super::entry::whole_body_bytes;
use super::folder::Folder;
use super::folder::io_error;
use super::frame::CLEAN;
use super::group::Group;
use super::health::Health;
use super::health::lock;
use super::manifest::State;
use super::open;
use super::segment::Segment;
use super::segment::capacity;
use super::spares::Spares;
use super::view::Live;
use super::view::View;
use super::writer::Writer;

/// A write-ahead log, open to append; a clone is another handle of the same one.
///
/// Dropping the last handle is like the end of the process: nothing is lost that was appended, and the
/// next opening has to look for a torn tail. [`Wal::close`] says that there is none.
#[derive(Clone)]
pub struct Wal {
    inner: Arc<Handles>,
}

/// What handles and tickets share: when the last is gone the log is free for the next opening, also when
/// a job of the pool is just ending.
struct Handles(Arc<Inner>);

impl Deref for Handles {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // In the order of the locks: whoever is writing or syncing ends first, and nobody begins.
        let writer = lock(&self.writer);
        self.health.close();
        drop(writer);
        drop(lock(&self.syncing));
        self.spares.close();
        *lock(&self.held) = None;
    }
}

/// What [`Wal::append`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The positions of the entries, in their order.
    pub lsns: Vec<Lsn>,
    /// Where the log ends now: once [`Wal::durable`] is here, the entries are durable.
    pub end: Lsn,
}

/// An append that was submitted: ask it when the append is durable.
///
/// Dropping it takes nothing back.
#[derive(Clone)]
pub struct Ticket {
    inner: Arc<Handles>,
    appended: Appended,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.appended).finish()
    }
}

impl Ticket {
    /// What was appended, and where.
    pub fn appended(&self) -> &Appended {
        &self.appended
    }

    /// Blocks until the append is durable. Of all who wait one syncs for the others.
    ///
    /// # Errors
    ///
    /// [`WalError::Poisoned`]: whether the append is there is unknown until the log is opened again.
    pub fn wait(&self) -> Result<(), WalError> {
        self.inner.sync_to(self.appended.end).map(drop)
    }

    /// As [`Self::wait`], for tasks: a thread of the pool syncs for all of them.
    ///
    /// # Errors
    ///
    /// As [`Self::wait`].
    ///
    /// # Cancellation
    ///
    /// Safe: the append stays, and becomes durable with a later sync at the latest.
    pub async fn durable(&self) -> Result<(), WalError> {
        std::future::poll_fn(|context| {
            let target = self.appended.end;
            if self.inner.reached()? >= target {
                return Poll::Ready(Ok(()));
            }
            if self.inner.group.leave(target, context.waker()) {
                let inner = Arc::clone(&self.inner.0);
                // Detached: it ends when nobody waits any more.
                drop(self.inner.io.run(move || inner.drive()));
            }
            // What became durable before the waker was left has woken nobody.
            match self.inner.reached()? >= target {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }
}

/// Numbers about a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WalStats {
    /// Bytes from the log's start to its end.
    pub live_bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Bytes of the files of the segments in use; up to two spares come on top.
    pub segment_bytes: u64,
    /// Bytes appended since the opening, with headers and padding: the sum of what each append added to
    /// [`Wal::end`].
    pub appended_bytes: u64,
    /// Syncs of segments since the opening.
    pub syncs: u64,
}

/// 1 MiB of appends that were only submitted wait in memory at most; then they are written, not synced.
const STAGED_BYTES_MAX: usize = 1 << 20;

struct Inner {
    folder: Folder,
    settings: WalSettings,
    random: Arc<dyn Random>,
    io: Pool,
    health: Arc<Health>,
    spares: Arc<Spares>,
    writer: Mutex<Writer>,
    syncing: Mutex<()>,
    table: RwLock<Arc<Vec<Live>>>,
    start: AtomicU64,
    /// Where what is in the file ends.
    end: AtomicU64,
    /// As `end`, with what is staged.
    tip: AtomicU64,
    group: Group,
    appended_bytes: AtomicU64,
    syncs: AtomicU64,
    /// Held while the log is open.
    held: Mutex<Option<Box<dyn DiskLock>>>,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Wal {:?}, LSN {} to {}, durable to {}",
            self.inner.folder,
            self.start(),
            self.end(),
            self.durable()
        )
    }
}

impl Wal {
    /// Opens the log in the folder `dir`, or makes it; the folder's parent must be there. It blocks.
    ///
    /// Everything the log holds afterwards is durable (P5). Other openings are refused until the last
    /// handle is dropped or one is closed.
    ///
    /// # Errors
    ///
    /// [`WalError::Locked`]; [`WalError::Damage`] and [`WalError::Version`] with nothing changed;
    /// [`WalError::NoSpace`] when the log is new and does not fit; [`WalError::Io`]. Another attempt finds
    /// the same log.
    pub fn open(dir: &Path, settings: WalSettings, doors: &Doors) -> Result<(Self, Opened), WalError> {
        settings.validate()?;
        let folder = Folder::new(dir, doors);
        let recovered = open::open(&folder, &settings, doors)?;
        let segments: Vec<_> = recovered.segments.into_iter().map(Arc::new).collect();
        let Some(active) = segments.last().map(Arc::clone) else {
            let none = std::io::Error::other("an opening made no segment");
            return Err(io_error("open", dir, none));
        };
        let start = segments.first().map_or(recovered.point.at, |first| first.base());
        let end = recovered.point.at;
        let writer = Writer {
            manifest: recovered.manifest,
            active,
            point: recovered.point,
            staged: Vec::new(),
            written: (end, recovered.point.sequence),
            holds: std::collections::BTreeMap::new(),
            reserve: recovered.spares.ready() > 0,
            touched: false,
        };
        let inner = Inner {
            folder,
            settings,
            random: Arc::clone(&doors.random),
            io: doors.io.clone(),
            health: Arc::new(Health::new(end)),
            spares: Arc::new(recovered.spares),
            writer: Mutex::new(writer),
            syncing: Mutex::new(()),
            table: RwLock::new(Arc::new(View::live(segments))),
            start: AtomicU64::new(start.0),
            end: AtomicU64::new(end.0),
            tip: AtomicU64::new(end.0),
            group: Group::default(),
            appended_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            held: Mutex::new(Some(recovered.lock)),
        };
        inner.prepare();
        Ok((Self { inner: Arc::new(Handles(Arc::new(inner))) }, recovered.opened))
    }

    /// Appends `entries` as one: after a crash all of them are there or none.
    ///
    /// They survive the end of the process at once, and a loss of power after [`Wal::sync`]. Where the file
    /// system maps files this makes no system call, unless a segment is full. An entry may have any length;
    /// what is larger than 16 MiB is copied a piece at a time.
    ///
    /// # Errors
    ///
    /// [`WalError::Full`] and [`WalError::NoSpace`] with nothing appended; [`WalError::Poisoned`].
    pub fn append(&self, entries: &[&[u8]]) -> Result<Appended, WalError> {
        self.append_within(entries, self.inner.settings.log_bytes_max)
    }

    /// As [`Wal::append`], but [`WalSettings::log_bytes_max`] does not count: for the few small entries that
    /// must be written for the log to be truncated at all (a completion record, what it needs).
    ///
    /// # Errors
    ///
    /// [`WalError::NoSpace`] with nothing appended; [`WalError::Poisoned`].
    pub fn append_past_limit(&self, entries: &[&[u8]]) -> Result<Appended, WalError> {
        self.append_within(entries, None)
    }

    fn append_within(&self, entries: &[&[u8]], limit: Option<u64>) -> Result<Appended, WalError> {
        self.inner.append(entries, limit, false)
    }

    /// As [`Wal::append`], but the entries may wait in memory until the ticket, or any later append or
    /// sync, has them written: the cheapest way to many durable appends at a time. Until then they do not
    /// survive the end of the process and are not read. An append is still there whole or not at all, in
    /// the order of the calls.
    ///
    /// # Errors
    ///
    /// As [`Wal::append`].
    pub fn submit(&self, entries: &[&[u8]]) -> Result<Ticket, WalError> {
        let appended = self.inner.append(entries, self.inner.settings.log_bytes_max, true)?;
        Ok(Ticket { inner: Arc::clone(&self.inner), appended })
    }

    /// Makes durable everything that was appended before the call; the answer is at least that end. It
    /// blocks.
    ///
    /// Whoever calls first syncs for all who wait; with nothing new it makes no system call.
    ///
    /// # Errors
    ///
    /// [`WalError::Poisoned`]: the outcome for what is above [`Wal::durable`] is unknown.
    pub fn sync(&self) -> Result<Lsn, WalError> {
        self.inner.sync_to(Lsn(self.inner.tip.load(Ordering::Acquire)))
    }

    /// Everything below is durable and was acknowledged.
    pub fn durable(&self) -> Lsn {
        self.inner.health.durable()
    }

    /// Where the next frame goes.
    pub fn end(&self) -> Lsn {
        Lsn(self.inner.end.load(Ordering::Acquire))
    }

    /// Where the log starts: at or below the position of the last [`Wal::truncate_before`].
    pub fn start(&self) -> Lsn {
        Lsn(self.inner.start.load(Ordering::Acquire))
    }

    /// The entry at `at`, a position that [`Wal::append`] or a [`Replay`] gave; its checksum was verified.
    /// Entries that are not durable yet can be read.
    ///
    /// # Errors
    ///
    /// [`WalError::OutOfRange`]; [`WalError::Damage`] when no entry begins there.
    pub fn read(&self, at: Lsn) -> Result<Vec<u8>, WalError> {
        self.inner.health.check()?;
        self.inner.view().read(at)
    }

    /// The entries at or behind `from`, which may be any position from [`Wal::start`] to [`Wal::end`].
    ///
    /// # Errors
    ///
    /// [`WalError::OutOfRange`]; the iterator's items are [`WalError::Damage`] or [`WalError::Io`] at most
    /// once, as the last.
    pub fn replay(&self, from: Lsn) -> Result<Replay, WalError> {
        self.inner.health.check()?;
        self.inner.view().replay(from)
    }

    /// Keeps everything from `lsn` on until `name` is released or holds another position. Holds are
    /// forgotten when the log is closed.
    pub fn hold(&self, name: &str, lsn: Lsn) {
        lock(&self.inner.writer).holds.insert(name.to_owned(), lsn);
    }

    /// Ends the hold of `name`.
    pub fn release(&self, name: &str) {
        lock(&self.inner.writer).holds.remove(name);
    }

    /// Gives up the segments that lie wholly below `lsn` and below every hold; durable when it returns.
    /// What else is below `lsn` may go too, later.
    ///
    /// # Errors
    ///
    /// [`WalError::Poisoned`]. A file that cannot be removed is none: the next opening tries again.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError> {
        let inner = &*self.inner;
        inner.health.check()?;
        let gone = {
            let mut writer = lock(&inner.writer);
            inner.health.check()?;
            inner.give_up(&mut writer, lsn)?
        };
        for segment in gone {
            let path = segment.path.clone();
            let bytes = segment.header.bytes;
            // Somebody may still read it (`Replay`): a file without a name stays as it is as long as it is
            // open.
            let unread = Arc::into_inner(segment).is_some();
            if unread
                && inner.spares.take_over(&path, bytes).map_err(|failure| inner.health.stop(&failure))?
            {
                continue;
            }
            let folder = inner.folder.clone();
            // Behind the caller's back: to free the blocks of a large file takes long. What a crash or a
            // failure leaves is removed by the next opening.
            drop(inner.io.run(move || folder.remove(&path)));
        }
        Ok(())
    }

    /// Makes everything durable and ends the log for all handles: the next opening knows that nothing is
    /// torn.
    ///
    /// # Errors
    ///
    /// [`WalError::Poisoned`]; the log is as after the end of the process.
    pub fn close(self) -> Result<(), WalError> {
        let inner = &*self.inner;
        inner.health.check()?;
        {
            let mut writer = lock(&inner.writer);
            inner.health.check()?;
            inner.seal_clean(&mut writer).map_err(|failure| inner.health.stop(&failure))?;
            inner.health.close();
        }
        inner.spares.close();
        *lock(&inner.held) = None;
        Ok(())
    }

    /// Numbers about the log.
    pub fn stats(&self) -> WalStats {
        let inner = &*self.inner;
        let table = inner.table();
        WalStats {
            live_bytes: self.end().0.saturating_sub(self.start().0),
            segments: table.len() as u64,
            segment_bytes: table.iter().map(|live| live.segment.header.bytes).sum(),
            appended_bytes: inner.appended_bytes.load(Ordering::Relaxed),
            syncs: inner.syncs.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    fn table(&self) -> Arc<Vec<Live>> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_table(&self, table: Vec<Live>) {
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    fn view(&self) -> View {
        // The end first: the table holds every segment with entries below it.
        let end = Lsn(self.end.load(Ordering::Acquire));
        let segments = self.table();
        let start = segments.first().map_or(end, |first| first.segment.base());
        View { segments, start, end: end.max(start) }
    }

    /// Makes sure of spares; a full disk harms nothing.
    fn ensure(&self, count: usize) -> Result<(), WalError> {
        self.spares.ensure(count).map_err(|failure| match failure {
            WalError::NoSpace { .. } => failure,
            failure => self.health.stop(&failure),
        })
    }

    /// Has spares made, in the background where there is one. Without, the next roll-over makes them, but in
    /// a whole job that is simulated: there they are made here.
    fn prepare(&self) {
        if !self.io.is_inline() || tokio::runtime::Handle::try_current().is_ok() {
            let (spares, health) = (Arc::clone(&self.spares), Arc::clone(&self.health));
            // Detached: the job starts whether or not it is awaited, and `Spares::close` waits for it.
            drop(self.io.run(move || spares.prepare(&health)));
        }
    }

    /// Appends `entries`; those that are `staged` stay in memory if they fit in the segment.
    fn append(&self, entries: &[&[u8]], limit: Option<u64>, staged: bool) -> Result<Appended, WalError> {
        self.health.check()?;
        if entries.is_empty() {
            return Ok(Appended { lsns: Vec::new(), end: Lsn(self.tip.load(Ordering::Acquire)) });
        }
        let whole =
            whole_body_bytes(entries).map(|_| draft(entries.iter().map(|entry| (*entry, false, false))));
        let mut writer = lock(&self.writer);
        self.health.check()?;
        if !writer.reserve {
            self.ensure(1)?;
            writer.reserve = true;
        }
        let before = writer.point.at;
        let (lsns, rolled) = match whole {
            Some(whole) if whole.bytes.len() as u64 <= writer.room() => {
                let acked = self.health.durable();
                if staged && writer.staged.len() + whole.bytes.len() <= STAGED_BYTES_MAX {
                    (writer.stage(whole, acked), false)
                } else {
                    (writer.put(whole, 0, acked).map_err(|failure| self.health.stop(&failure))?, false)
                }
            }
            _ => self.append_planned(&mut writer, entries, limit)?,
        };
        let end = writer.point.at;
        self.appended_bytes.fetch_add(end.0 - before.0, Ordering::Relaxed);
        self.tip.store(end.0, Ordering::Release);
        self.end.store(writer.written.0.0, Ordering::Release);
        drop(writer);
        if rolled {
            self.prepare();
        }
        Ok(Appended { lsns, end })
    }

    /// Writes what is staged.
    fn flush(&self) -> Result<(), WalError> {
        if self.end.load(Ordering::Acquire) < self.tip.load(Ordering::Acquire) {
            let mut writer = lock(&self.writer);
            self.health.check()?;
            writer.flush().map_err(|failure| self.health.stop(&failure))?;
            self.end.store(writer.written.0.0, Ordering::Release);
        }
        Ok(())
    }

    fn reached(&self) -> Result<Lsn, WalError> {
        self.health.check().map(|()| self.health.durable())
    }

    /// Returns when everything below `target` is durable.
    fn sync_to(&self, target: Lsn) -> Result<Lsn, WalError> {
        self.group.wait(target, || self.reached(), |covers| self.lead(covers))
    }

    /// Waits for those who left wakers, until there are none.
    fn drive(&self) {
        while let Some(target) = self.group.farthest(&self.reached()) {
            // A failure is told to each by what it finds when it is woken.
            let _reached = self.sync_to(target);
        }
    }

    /// Appends what does not fit in one frame of this segment.
    fn append_planned(
        &self,
        writer: &mut Writer,
        entries: &[&[u8]],
        limit: Option<u64>,
    ) -> Result<(Vec<Lsn>, bool), WalError> {
        let lens: Vec<_> = entries.iter().map(|entry| entry.len()).collect();
        let frames = plan(&lens, writer.room(), capacity(self.settings.segment_bytes));
        let rolls = frames.iter().filter(|frame| frame.rolls).count();
        self.check_limit(rolls as u64, limit)?;
        writer.flush().map_err(|failure| self.health.stop(&failure))?;
        self.end.store(writer.written.0.0, Ordering::Release);
        // One more: the next opening's.
        self.ensure(rolls + usize::from(rolls > 0))?;
        let group = writer.point.at;
        let mut lsns = Vec::with_capacity(entries.len());
        for (index, frame) in frames.iter().enumerate() {
            if frame.rolls {
                self.roll(writer, group).map_err(|failure| self.health.stop(&failure))?;
            }
            let place = (index == 0, index + 1 == frames.len());
            let put = writer.put_planned(entries, frame, place, self.health.durable());
            lsns.extend(put.map_err(|failure| self.health.stop(&failure))?);
        }
        Ok((lsns, rolls > 0))
    }

    fn check_limit(&self, rolls: u64, limit: Option<u64>) -> Result<(), WalError> {
        let Some(limit_bytes) = limit else { return Ok(()) };
        let live_bytes: u64 = self.table().iter().map(|live| live.segment.header.bytes).sum();
        let wanted_bytes = rolls.saturating_mul(self.settings.segment_bytes);
        if wanted_bytes > 0 && live_bytes.saturating_add(wanted_bytes) > limit_bytes {
            return Err(WalError::Full { live_bytes, wanted_bytes, limit_bytes });
        }
        Ok(())
    }

    /// Seals the segment and goes on in the next one.
    fn roll(&self, writer: &mut Writer, group: Lsn) -> Result<(), WalError> {
        writer.seal(0, self.health.durable())?;
        self.sync_segment(&writer.active)?;
        let end = Lsn(self.end.load(Ordering::Acquire));
        writer.next_segment(&self.folder, &self.spares, &*self.random, group, end)?;
        let mut table = (*self.table()).clone();
        if let Some(last) = table.last_mut() {
            last.end = Some(writer.active.base());
        }
        table.push(Live { segment: Arc::clone(&writer.active), end: None });
        self.set_table(table);
        Ok(())
    }

    /// Syncs `segment`. A failure stops the log for good (S4).
    fn sync_segment(&self, segment: &Segment) -> Result<(), WalError> {
        let alone = lock(&self.syncing);
        self.sync_alone(&alone, segment)
    }

    fn sync_alone(&self, _alone: &MutexGuard<'_, ()>, segment: &Segment) -> Result<(), WalError> {
        self.health.check()?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = segment.file.sync().map_err(|source| io_error("sync", &segment.path, source));
        // Before the next one may sync: it would be told that all is well.
        synced.map_err(|failure| self.health.stop(&failure))
    }

    /// Makes durable what is appended now; `covers` is told where that ends.
    fn lead(&self, covers: &dyn Fn(Lsn)) -> Result<(), WalError> {
        self.flush()?;
        let alone = lock(&self.syncing);
        // The end first: whatever is below it in an older segment than the newest was synced by the
        // roll-over.
        let end = Lsn(self.end.load(Ordering::Acquire));
        covers(end);
        let Some(active) = self.table().last().map(|live| Arc::clone(&live.segment)) else { return Ok(()) };
        self.sync_alone(&alone, &active)?;
        drop(alone);
        let writer = lock(&self.writer);
        self.health.check()?;
        writer.mark(&self.folder, end).map_err(|failure| self.health.stop(&failure))?;
        self.health.acknowledge(end);
        Ok(())
    }

    /// Takes the segments below `lsn` and every hold out of the log.
    fn give_up(&self, writer: &mut Writer, lsn: Lsn) -> Result<Vec<Arc<Segment>>, WalError> {
        let end = Lsn(self.end.load(Ordering::Acquire));
        let floor = writer.holds.values().copied().fold(lsn.min(end), Lsn::min);
        let table = self.table();
        let count = table.iter().take_while(|live| live.end.is_some_and(|end| end <= floor)).count();
        let (Some(gone), Some(kept)) = (table.get(..count), table.get(count..)) else {
            return Ok(Vec::new());
        };
        let Some(first) = kept.first().map(|live| &live.segment).filter(|_| count > 0) else {
            return Ok(Vec::new());
        };
        let start = first.base();
        let state = State {
            count: kept.len() as u64,
            first: (first.life().number, first.life().salt),
            start,
            end: writer.manifest.state.end.max(self.health.durable()),
            ..writer.manifest.state
        };
        let gone: Vec<_> = gone.iter().map(|live| Arc::clone(&live.segment)).collect();
        let kept = kept.to_vec();
        drop(table);
        writer.manifest.write(&self.folder, state).map_err(|failure| self.health.stop(&failure))?;
        self.set_table(kept);
        self.start.store(start.0, Ordering::Release);
        Ok(gone)
    }

    /// Seals the log for good.
    fn seal_clean(&self, writer: &mut Writer) -> Result<(), WalError> {
        // A segment without appends stays as it is: the next opening goes on in it.
        if writer.touched {
            writer.seal(CLEAN, self.health.durable())?;
            self.sync_segment(&writer.active)?;
        }
        let end = writer.point.at;
        let state = State { clean: true, end, frames: writer.point.sequence, ..writer.manifest.state };
        writer.manifest.write(&self.folder, state)?;
        self.health.acknowledge(end);
        Ok(())
    }
}
