//! The states of a job's tasks on one log: restored together, handed out one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::RwLock;

use crate::error::Error;
use crate::error::Result;
use crate::state::Snapshot;
use crate::state::entry::Entry;
use crate::state::entry::Found;
use crate::state::handle::State;
use crate::state::index::Index;
use crate::state::index::Place;
use crate::state::journal::Journal;
use crate::state::journal::JournalError;
use crate::state::journal::JournalReader;
use crate::state::reader::Pins;
use crate::state::restore::Restore;
use crate::state::view::StateView;
use crate::state::void::Voids;
use crate::stream::Lsn;
use crate::stream::TaskId;
use crate::wal::Appended;

/// How the state treats its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSettings {
    /// Old entries are rewritten, so that segments can be given up, only while the log has more bytes.
    pub rewrite_log_bytes_min: u64,
    /// While that is so, at least this much is rewritten by each snapshot of a task that holds the log back:
    /// one that logs little must not hold it back for long.
    pub rewrite_bytes_min: u64,
}

impl StateSettings {
    /// 128 MiB: two segments of the default size; below, rewriting could not give one up.
    pub const REWRITE_LOG_BYTES_MIN: u64 = 128 << 20;
    /// 1 MiB: some milliseconds of a snapshot.
    pub const REWRITE_BYTES_MIN: u64 = 1 << 20;
}

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            rewrite_log_bytes_min: Self::REWRITE_LOG_BYTES_MIN,
            rewrite_bytes_min: Self::REWRITE_BYTES_MIN,
        }
    }
}

/// Which entries of the log are the state of which task.
#[derive(Debug, Clone, Default)]
pub struct RestorePlan {
    /// Each task once, numbers and names distinct.
    pub tasks: Vec<PlannedTask>,
}

/// What is read for one task.
#[derive(Debug, Clone)]
pub struct PlannedTask {
    /// The task.
    pub task: TaskId,
    /// Its number in entries, the same in all incarnations.
    pub number: u32,
    /// What is restored; `None` begins with nothing.
    pub snapshot: Option<Snapshot>,
    /// What is passed over between floor and snapshot (P15).
    pub voids: Voids,
}

/// The restored states of a job.
#[derive(Debug)]
pub struct StateBackend {
    shared: Arc<Shared>,
    waiting: BTreeMap<TaskId, (PlannedTask, Index)>,
}

impl StateBackend {
    /// Restores what `plan` names from `journal`, in one pass over it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the log does not hold a state in full.
    pub fn open(journal: Arc<dyn Journal>, plan: RestorePlan, settings: StateSettings) -> Result<Self> {
        let waiting = restore(&*journal, plan)?;
        let shared = Arc::new(Shared::new(journal, settings));
        for (planned, index) in waiting.values() {
            shared.set_load(planned.number, Load::of(index));
        }
        Ok(Self { shared, waiting })
    }

    /// Hands out the state of `task`, which has this one owner from now on.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the plan does not name the task, or its state was taken before.
    pub fn take(&mut self, task: &TaskId) -> Result<State> {
        let Some((planned, index)) = self.waiting.remove(task) else {
            return Err(Error::usage(format!("there is no state of a task {task} to be taken")));
        };
        Ok(State::new(Arc::clone(&self.shared), planned, index))
    }

    /// Tasks whose state was not taken yet.
    pub fn waiting(&self) -> impl Iterator<Item = &TaskId> {
        self.waiting.keys()
    }

    /// A handle that can end all writing by this backend's states.
    pub(crate) fn guard(&self) -> StateGuard {
        StateGuard { shared: Arc::clone(&self.shared) }
    }
}

/// What `checkpoint` holds of a backend whose states it has handed out.
#[derive(Debug)]
pub(crate) struct StateGuard {
    shared: Arc<Shared>,
}

impl StateGuard {
    /// Refuses all appends of the states from now on; none is under way when this returns.
    pub(crate) fn supersede(&self) {
        *self.shared.superseded.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// The oldest position that somebody is reading.
    pub(crate) fn oldest_read(&self) -> Option<Lsn> {
        self.shared.pins.oldest()
    }
}

/// Reads the states that `plan` names, to look at them only.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when the log does not hold a state in full.
pub(crate) fn views(journal: &Arc<dyn JournalReader>, plan: RestorePlan) -> Result<Vec<StateView>> {
    let restored = restore(&**journal, plan)?;
    Ok(restored
        .into_values()
        .map(|(planned, index)| StateView::new(Arc::clone(journal), planned.task, planned.number, index))
        .collect())
}

/// One pass over the log from the oldest floor on; each task takes what is its own (T1).
pub(super) fn restore(
    journal: &dyn JournalReader,
    plan: RestorePlan,
) -> Result<BTreeMap<TaskId, (PlannedTask, Index)>> {
    let mut drafts: BTreeMap<u32, (PlannedTask, Restore)> = BTreeMap::new();
    for planned in plan.tasks {
        drafts.insert(planned.number, (planned, Restore::default()));
    }
    let snapshots = || drafts.values().filter_map(|(planned, _)| planned.snapshot);
    let from = snapshots().filter(|snapshot| snapshot.floor < snapshot.lsn).map(|s| s.floor).min();
    let to = snapshots().map(|snapshot| snapshot.lsn).max();
    if let (Some(from), Some(to)) = (from, to) {
        for logged in journal.replay(from)? {
            let logged = logged?;
            if logged.at >= to {
                break;
            }
            let found = Entry::decode(&logged.entry)
                .map_err(|error| Error::from(error).context(format_args!("entry at {}", logged.at)))?;
            let Found::State(number, entry) = found else { continue };
            let Some((planned, draft)) = drafts.get_mut(&number) else { continue };
            if planned.needs(logged.at) {
                let place = Place { lsn: logged.at, bytes: logged.entry.len() as u64 };
                draft.apply(place, entry).map_err(|error| error.context(&planned.task))?;
            }
        }
    }
    let mut restored = BTreeMap::new();
    for (planned, draft) in drafts.into_values() {
        let index = match planned.snapshot {
            Some(snapshot) => draft.finish(&planned.task, snapshot)?,
            None => Index::default(),
        };
        restored.insert(planned.task.clone(), (planned, index));
    }
    Ok(restored)
}

impl PlannedTask {
    /// Whether an entry of the task at `at` is part of what is restored (T1).
    fn needs(&self, at: Lsn) -> bool {
        let within = self.snapshot.is_some_and(|snapshot| snapshot.floor <= at && at < snapshot.lsn);
        within && !self.voids.contains(at)
    }
}

/// What the states of one start have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub journal: Arc<dyn Journal>,
    pub settings: StateSettings,
    pub pins: Arc<Pins>,
    /// Appends hold it for reading, so that none is under way once it was set.
    superseded: RwLock<bool>,
    loads: Mutex<BTreeMap<u32, Load>>,
}

/// What a state needs of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    floor: Option<Lsn>,
    live_bytes: u64,
}

impl Load {
    pub(super) fn of(index: &Index) -> Self {
        Self { floor: index.floor(), live_bytes: index.live_bytes }
    }
}

impl Shared {
    pub(super) fn new(journal: Arc<dyn Journal>, settings: StateSettings) -> Self {
        Self {
            journal,
            settings,
            pins: Arc::default(),
            superseded: RwLock::new(false),
            loads: Mutex::new(BTreeMap::new()),
        }
    }

    /// Appends entries, unless another start of the job took over.
    pub(super) fn append(&self, entries: &[&[u8]]) -> Result<Appended, JournalError> {
        let superseded = self.superseded.read().unwrap_or_else(PoisonError::into_inner);
        if *superseded {
            return Err(JournalError::Superseded);
        }
        self.journal.append(entries)
    }

    pub(super) fn set_load(&self, number: u32, load: Load) {
        self.loads().insert(number, load);
    }

    /// Below which position old entries are to be rewritten now; `None` while the log is small or
    /// mostly alive.
    ///
    /// Counted is the log from the oldest entry that any state needs, not from its real start: what
    /// retained checkpoints still hold was rewritten already.
    pub(super) fn rewrite_below(&self) -> Option<Lsn> {
        let loads = self.loads();
        let oldest = loads.values().filter_map(|load| load.floor).min()?;
        let live_bytes: u64 = loads.values().map(|load| load.live_bytes).sum();
        let log_bytes = self.journal.end().0.saturating_sub(oldest.0);
        let due = log_bytes > self.settings.rewrite_log_bytes_min && live_bytes < log_bytes / 3;
        due.then_some(Lsn(oldest.0 + log_bytes / 2))
    }

    fn loads(&self) -> MutexGuard<'_, BTreeMap<u32, Load>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
