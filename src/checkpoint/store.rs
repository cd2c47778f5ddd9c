//! The checkpoints of a job in its log: start, write, retain.
//!
//! All calls block; async code makes them through [`crate::pool::Pool`].
//!
//! What if the process dies?
//!
//! - Within [`CheckpointStore::start`], before its frame is durable: the next start finds what this one
//!   found. After it: the next start goes on from the copy behind it, with the same void ranges and more.
//! - Within [`CheckpointStore::write`], before the append: the checkpoint never was. Between append and
//!   sync, or when the answer of the sync is lost: it may be complete (P6); the next opening of the log
//!   decides, and makes durable what it found (P5).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use jiff::Timestamp;

use crate::checkpoint::completed::Completed;
use crate::checkpoint::history::Checkpoint;
use crate::checkpoint::history::History;
use crate::checkpoint::record::CompletionRecord;
use crate::checkpoint::record::StartRecord;
use crate::checkpoint::record::TaskRecord;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::state::Journal;
use crate::state::JournalError;
use crate::state::PlannedTask;
use crate::state::RestorePlan;
use crate::state::StateBackend;
use crate::state::StateGuard;
use crate::state::StateSettings;
use crate::state::Voids;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// A start record that alone holds back more of the log than this is written again at its head.
const START_HOLDS_BYTES_MAX: u64 = 1 << 20;

/// How checkpoints are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// How many completed checkpoints can be restored; at least 1.
    pub retain: usize,
    /// How the state treats the log.
    pub state: StateSettings,
}

impl CheckpointSettings {
    /// Three: the newest, and two to go back to.
    pub const RETAIN: usize = 3;
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self { retain: Self::RETAIN, state: StateSettings::default() }
    }
}

/// What a job says of itself when it starts.
#[derive(Debug, Clone)]
pub struct JobStart {
    /// A random number: the lineage, if the state has none yet (D1).
    pub lineage_if_new: Lineage,
    /// The job's name.
    pub job: String,
    /// The source in its one canonical form: another one than before is refused (D6).
    pub source: String,
    /// The sink in its one canonical form: another one than before is refused (D6).
    pub sink: String,
    /// All tasks that have state.
    pub tasks: Vec<TaskId>,
    /// Tasks whose state, if there is any, is given up on purpose.
    pub abandoned: Vec<TaskId>,
    /// The time of day.
    pub at: Timestamp,
}

/// A job that has started.
#[derive(Debug)]
pub struct Started {
    /// The number of this start: in the names of all that it makes.
    pub incarnation: Incarnation,
    /// The state's random id.
    pub lineage: Lineage,
    /// The checkpoint it goes on from; `None` begins at the beginning.
    pub restored: Option<Restored>,
    /// The restored states, or empty ones.
    pub states: StateBackend,
}

/// The checkpoint that a start goes on from.
#[derive(Debug, Clone)]
pub struct Restored {
    /// Its proof: what it lists is to be committed (again).
    pub completed: Completed,
    /// Its record.
    pub record: CompletionRecord,
}

/// Why a completion record was not written, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Nothing was appended: the checkpoint is not complete, and its epoch may be aborted and carried.
    #[error("the checkpoint was not written")]
    NotWritten(#[source] Error),
    /// The checkpoint may be complete (P6): the job must restart, and the opened log will tell.
    #[error("the checkpoint may or may not be complete")]
    Uncertain(#[source] Error),
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        let (kind, what) = match &error {
            WriteError::NotWritten(cause) => (cause.kind(), "the checkpoint was not written"),
            WriteError::Uncertain(_) => (ErrorKind::Retry, "the checkpoint may or may not be complete"),
        };
        match error {
            WriteError::NotWritten(cause) | WriteError::Uncertain(cause) => {
                Error::new(kind, what).with_source(cause)
            }
        }
    }
}

/// The checkpoints of one job. Its methods may be called from any thread; they block.
///
/// The states that it hands out write to the same log, so that one sync makes a checkpoint complete. After
/// an error of the log that is not a lack of room, the log is opened again, and a new store on it.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// use alluvium::checkpoint::{
///     CheckpointSettings, CheckpointStore, CompletionKind, CompletionRecord, Fingerprint, JobStart, TaskRecord,
/// };
/// use alluvium::state::MemoryJournal;
/// use alluvium::stream::{Lineage, TaskId};
/// use jiff::Timestamp;
///
/// let job = JobStart {
///     lineage_if_new: Lineage(7),
///     job: "clicks".into(),
///     source: "file in/*.ndjson".into(),
///     sink: "file out".into(),
///     tasks: vec![TaskId::new("source")],
///     abandoned: vec![],
///     at: Timestamp::UNIX_EPOCH,
/// };
/// let journal = MemoryJournal::new();
/// let store = CheckpointStore::open(Arc::new(journal.clone()), CheckpointSettings::default())?;
/// let mut started = store.start(job.clone())?;
/// let mut state = started.states.take(&TaskId::new("source"))?;
///
/// state.put(b"position", b"7");
/// let snapshot = state.snapshot()?;
/// let completed = store.write(
///     CompletionRecord {
///         epoch: started.next_epoch(),
///         incarnation: started.incarnation,
///         kind: CompletionKind::Checkpoint,
///         fingerprint: Fingerprint(1),
///         tasks: BTreeMap::from([(state.task().clone(), TaskRecord { snapshot, ended: false })]),
///     },
///     Timestamp::UNIX_EPOCH,
/// )?;
///
/// // The power fails; what was not synced is gone.
/// let store = CheckpointStore::open(Arc::new(journal.reopened(false)), CheckpointSettings::default())?;
/// let mut started = store.start(job)?;
/// assert_eq!(started.restored.as_ref().map(|restored| &restored.completed), Some(&completed));
/// let state = started.states.take(&TaskId::new("source"))?;
/// assert_eq!(state.get(b"position")?.as_deref(), Some(&b"7"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct CheckpointStore {
    journal: Arc<dyn Journal>,
    settings: CheckpointSettings,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    history: History,
    running: Option<Running>,
}

/// The start that runs.
#[derive(Debug)]
struct Running {
    incarnation: Incarnation,
    tasks: Vec<TaskId>,
    /// The states that it handed out.
    states: StateGuard,
}

impl CheckpointStore {
    /// Reads what the log says of the job. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Damage`] when a record cannot be read: never a silent step back.
    pub fn open(journal: Arc<dyn Journal>, settings: CheckpointSettings) -> Result<Self> {
        let mut history = History::read(&*journal)?;
        history.retain(settings.retain, journal.start());
        Ok(Self { journal, settings, inner: Mutex::new(Inner { history, running: None }) })
    }

    /// The newest start on record.
    pub fn newest_start(&self) -> Option<StartRecord> {
        self.lock().history.newest_start().cloned()
    }

    /// The newest completed checkpoint: what [`Self::start`] restores. Whoever starts a job compares its
    /// fingerprint before, by [`crate::checkpoint::decide_fingerprint`].
    pub fn latest(&self) -> Option<Checkpoint> {
        self.lock().history.newest().cloned()
    }

    /// The completed checkpoints that can be restored, the oldest first.
    pub fn retained(&self) -> Vec<Checkpoint> {
        self.lock().history.checkpoints.values().cloned().collect()
    }

    /// The position behind the last entry of the log.
    pub fn log_end(&self) -> Lsn {
        self.journal.end()
    }

    /// Whether the log is this job's: what [`CheckpointStore::start`] asks first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] when source or sink are others than before, or a task with state is missing.
    pub fn admit(&self, job: &JobStart) -> Result<()> {
        let inner = self.lock();
        admit(job, inner.history.newest_start(), inner.history.newest())
    }

    /// Starts the job from its newest checkpoint: fences former starts, makes void what they left above
    /// it, and restores the states (K4). The caller holds the lock of the state directory and has joined
    /// what the former attempt left running (P10).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] when source or sink are others than before, or a task with state is missing;
    /// [`ErrorKind::Damage`] when a state cannot be restored. Nothing was written then.
    /// [`ErrorKind::Retry`] when the log cannot be written.
    pub fn start(&self, job: JobStart) -> Result<Started> {
        let mut inner = self.lock();
        let newest = inner.history.newest().cloned();
        admit(&job, inner.history.newest_start(), newest.as_ref())?;
        if let Some(former) = inner.running.take() {
            former.states.supersede();
        }
        let here = self.journal.end();
        let start = next_start(&job, &inner.history, newest.as_ref(), here);
        let plan = plan(&job, &start, newest.as_ref());
        let restored_record =
            newest.map(|checkpoint| CompletionRecord { incarnation: start.incarnation, ..checkpoint.record });
        let states = StateBackend::open(Arc::clone(&self.journal), plan, self.settings.state.clone())?;

        let mut frame = vec![start.encode()];
        frame.extend(restored_record.as_ref().map(|record| record.encode(start.at_ms)));
        let entries: Vec<&[u8]> = frame.iter().map(Vec::as_slice).collect();
        let lsns = self.journal.append(&entries)?.lsns;
        // It also makes durable what was read above, if the log was not opened again since it was
        // appended (a restart within the process): nothing acts on it before (P5).
        self.journal.sync()?;

        let (incarnation, lineage, at_ms) = (start.incarnation, start.lineage, start.at_ms);
        let mut lsns = lsns.into_iter();
        if let Some(at) = lsns.next() {
            inner.history.starts.insert(incarnation, (start, at));
        }
        if let (Some(record), Some(at)) = (restored_record.clone(), lsns.next()) {
            inner.history.add(Checkpoint { record, at_ms, at })?;
        }
        inner.history.retain(self.settings.retain, self.journal.start());
        inner.running = Some(Running { incarnation, tasks: job.tasks, states: states.guard() });
        let restored =
            restored_record.map(|record| Restored { completed: Completed::new(record.epoch), record });
        Ok(Started { incarnation, lineage, restored, states })
    }

    /// Makes `record` durable: this sync is the commit point of the checkpoint. Then gives up what the
    /// retained checkpoints no longer need of the log.
    ///
    /// # Errors
    ///
    /// [`WriteError::NotWritten`] leaves everything as it was: the log is full, a newer start runs, or the
    /// record is not one of this start. After [`WriteError::Uncertain`] the log takes nothing more.
    pub fn write(&self, record: CompletionRecord, at: Timestamp) -> Result<Completed, WriteError> {
        let mut inner = self.lock();
        self.refuse_wrong(&inner, &record).map_err(WriteError::NotWritten)?;
        let epoch = record.epoch;
        let at_ms = at.as_millisecond();

        // Judged with the record already in: its floors decide what the log is kept for.
        let mut history = inner.history.clone();
        let at = self.journal.end();
        history.checkpoints.insert(epoch, Checkpoint { record: record.clone(), at_ms, at });
        history.retain(self.settings.retain, self.journal.start());
        let repeated = starts_to_repeat(&history);

        let mut frame: Vec<Vec<u8>> = repeated.iter().map(StartRecord::encode).collect();
        frame.push(record.encode(at_ms));
        let entries: Vec<&[u8]> = frame.iter().map(Vec::as_slice).collect();
        let lsns = self.journal.append(&entries).map_err(|error| match error {
            JournalError::Uncertain { .. } => WriteError::Uncertain(error.into()),
            _ => WriteError::NotWritten(error.into()),
        })?;
        // Not even a failure that looks harmless may lead to an abort now (P6).
        self.journal.sync().map_err(|error| WriteError::Uncertain(error.into()))?;

        for (start, at) in repeated.into_iter().zip(&lsns.lsns) {
            history.starts.insert(start.incarnation, (start, *at));
        }
        if let (Some(checkpoint), Some(at)) = (history.checkpoints.get_mut(&epoch), lsns.lsns.last()) {
            checkpoint.at = *at;
        }
        inner.history = history;
        self.release(&inner);
        Ok(Completed::new(epoch))
    }

    /// Gives up what nobody needs of the log (K5).
    fn release(&self, inner: &Inner) {
        let starts = inner.history.starts.values().map(|(_, at)| *at);
        let reading = inner.running.iter().filter_map(|running| running.states.oldest_read());
        let Some(floor) = inner.history.floor() else { return };
        let before = starts.chain(reading).fold(floor, Lsn::min);
        if let Err(error) = self.journal.truncate_before(before) {
            // The checkpoint is complete whatever becomes of its predecessors. A log that is broken now
            // says so at its next append.
            tracing::warn!(%before, %error, "old entries of the log could not be given up");
        }
    }

    fn refuse_wrong(&self, inner: &Inner, record: &CompletionRecord) -> Result<()> {
        let Some(Running { incarnation, tasks, .. }) = &inner.running else {
            return Err(Error::usage("a checkpoint is written by a job that has started"));
        };
        if record.incarnation != *incarnation {
            return Err(Error::new(
                ErrorKind::Fenced,
                format!(
                    "checkpoint {} is of incarnation {}, incarnation {incarnation} runs",
                    record.epoch, record.incarnation
                ),
            ));
        }
        let newest = inner.history.newest().map_or(Epoch(0), |newest| newest.record.epoch);
        if newest >= record.epoch {
            return Err(Error::usage(format!(
                "checkpoint {} cannot follow checkpoint {newest}; the first is 1",
                record.epoch
            )));
        }
        if !record.tasks.keys().eq(tasks.iter().collect::<BTreeSet<_>>()) {
            return Err(Error::usage(format!(
                "checkpoint {} names the tasks {:?}, the job has {tasks:?}",
                record.epoch,
                record.tasks.keys()
            )));
        }
        let end = self.journal.end();
        for (task, TaskRecord { snapshot, .. }) in &record.tasks {
            if snapshot.lsn > end || snapshot.floor > snapshot.lsn {
                return Err(Error::usage(format!(
                    "{task}: {snapshot:?} is none of a log that ends at {end}"
                )));
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in a job of the pool must not make the next start panic too; no method leaves the
        // history half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a job that is not the one whose state this is. Before the first checkpoint there is no state:
/// a source or sink that was mistaken at first may be mended.
pub(super) fn admit(job: &JobStart, known: Option<&StartRecord>, newest: Option<&Checkpoint>) -> Result<()> {
    let (Some(known), Some(newest)) = (known, newest) else { return Ok(()) };
    for (what, is, was) in [("source", &job.source, &known.source), ("sink", &job.sink, &known.sink)] {
        if is != was {
            return Err(Error::usage(format!(
                "the state belongs to a job with the {what} {was}, this one has {is}; \
                 use another state directory"
            )));
        }
    }
    for task in newest.record.tasks.keys() {
        if !job.tasks.contains(task) && !job.abandoned.contains(task) {
            return Err(Error::usage(format!(
                "checkpoint {} has state of the task {task}, which the job no longer has; \
                 bring it back until a stop, or give its state up",
                newest.record.epoch
            )));
        }
    }
    Ok(())
}

/// The record of the next start.
fn next_start(job: &JobStart, history: &History, newest: Option<&Checkpoint>, here: Lsn) -> StartRecord {
    let known = history.newest_start();
    let mut tasks = known.map(|known| known.tasks.clone()).unwrap_or_default();
    for task in &job.tasks {
        let next = tasks.values().max().map_or(0, |most| most + 1);
        tasks.entry(task.clone()).or_insert(next);
    }
    let mut voids = BTreeMap::new();
    if let Some(newest) = newest {
        let known = history.starts.get(&newest.record.incarnation);
        for (task, found) in &newest.record.tasks {
            let Some(number) = tasks.get(task).copied() else { continue };
            let former = known.and_then(|(known, _)| known.voids.get(&number)).cloned();
            let mut now: Voids = former.unwrap_or_default();
            // P15: a former start went on behind the snapshot, and its checkpoint never completed.
            now.insert(found.snapshot.lsn, here);
            now.prune_below(found.snapshot.floor);
            if !now.ranges().is_empty() {
                voids.insert(number, now);
            }
        }
    }
    StartRecord {
        incarnation: Incarnation(known.map_or(0, |known| known.incarnation.0) + 1),
        lineage: known.map_or(job.lineage_if_new, |known| known.lineage),
        job: job.job.clone(),
        source: job.source.clone(),
        sink: job.sink.clone(),
        at_ms: job.at.as_millisecond(),
        restored: newest.map(|newest| newest.record.epoch),
        here,
        tasks,
        voids,
    }
}

/// What the states of `job` are restored from.
fn plan(job: &JobStart, start: &StartRecord, newest: Option<&Checkpoint>) -> RestorePlan {
    let planned = job.tasks.iter().filter_map(|task| {
        let number = *start.tasks.get(task)?;
        let found = newest.and_then(|newest| newest.record.tasks.get(task));
        Some(PlannedTask {
            task: task.clone(),
            number,
            snapshot: found.map(|found| found.snapshot),
            voids: start.voids.get(&number).cloned().unwrap_or_default(),
        })
    });
    RestorePlan { tasks: planned.collect() }
}

/// Start records that hold back the log much more than the checkpoints do.
fn starts_to_repeat(history: &History) -> Vec<StartRecord> {
    let Some(floor) = history.floor() else { return Vec::new() };
    let holding = |at: Lsn| at.0.saturating_add(START_HOLDS_BYTES_MAX) < floor.0;
    history.starts.values().filter(|(_, at)| holding(*at)).map(|(start, _)| start.clone()).collect()
}

/// Where a new coordinator begins to count.
impl Started {
    /// The number of the next checkpoint.
    pub fn next_epoch(&self) -> Epoch {
        self.restored.as_ref().map_or(Epoch(1), |restored| restored.completed.epoch().next())
    }
}
