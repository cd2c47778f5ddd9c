//! Says what is to be done next about checkpoints: pure, so that every order of events can be walked.
//!
//! Owns when a barrier is injected, when a checkpoint counts as acknowledged, when it is given up, and
//! when the job is over. Does not own clocks, channels or the log: the runtime turns what happens into
//! [`Event`]s and [`Action`]s into what it does.
//!
//! ```text
//!            Tick, Requested, SourceEnded            all Acknowledged          RecordWritten
//!   idle ──────────────────────────────▶ waiting ─────────────────▶ writing ────────────────▶ idle, or
//!    ▲            InjectBarrier             │       WriteRecord        │     NotifyCompleted    over
//!    └──────────────────────────────────────┘                          │
//!          Declined, time-out: AbortEpoch    ◀──── out of room ────────┘───▶ Fail: uncertain (P6)
//! ```
//!
//! Whatever comes late, twice, or for an epoch that is not under way changes nothing.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::checkpoint::fingerprint::Fingerprint;
use crate::checkpoint::record::CompletionKind;
use crate::checkpoint::record::CompletionRecord;
use crate::checkpoint::record::TaskRecord;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::TaskId;

/// A checkpoint that was given up is tried again after this, or after the interval if that is shorter: a
/// full disk is asked again soon, and not in a busy loop.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// When checkpoints are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// Time from one barrier to the next, when there is something new.
    pub interval: Duration,
    /// A checkpoint that is not acknowledged by then is aborted and carried into the next one.
    pub timeout: Duration,
    /// Checkpoints in a row that may fail before the job restarts. Lack of room is waited for and not
    /// counted.
    pub tolerated_failures: u32,
}

impl CoordinatorSettings {
    /// Ten seconds: what a crash makes read again, and what readers wait for at most.
    pub const INTERVAL: Duration = Duration::from_secs(10);
    /// Ten minutes: longer than any disk that still works takes.
    pub const TIMEOUT: Duration = Duration::from_secs(600);
    /// Three.
    pub const TOLERATED_FAILURES: u32 = 3;
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        Self {
            interval: Self::INTERVAL,
            timeout: Self::TIMEOUT,
            tolerated_failures: Self::TOLERATED_FAILURES,
        }
    }
}

/// A task that takes part in checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The task.
    pub task: TaskId,
    /// What it does.
    pub role: Role,
}

/// A task's place in the dataflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Barriers are injected here; its input may end.
    Source,
    /// Between.
    Operator,
    /// It commits: the job is over when it has committed the final checkpoint.
    Sink,
}

/// What a coordinator must know of the job that has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// All tasks with state, each once.
    pub members: Vec<Member>,
    /// The number of this start.
    pub incarnation: Incarnation,
    /// The job's definition.
    pub fingerprint: Fingerprint,
    /// The number of the first checkpoint: one more than the restored one's.
    pub next_epoch: Epoch,
    /// How the restored checkpoint came about; `None` when there is none.
    pub restored: Option<CompletionKind>,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time has passed: see [`Coordinator::wake_at`].
    Tick {
        /// Since the last barrier a source has read something, or a writer has something to tell.
        anything_new: bool,
    },
    /// Somebody wants a checkpoint.
    Requested {
        /// Which.
        request: Request,
        /// As for [`Event::Tick`].
        anything_new: bool,
    },
    /// A source's input has ended, and everything it read was sent on.
    SourceEnded {
        /// The source.
        task: TaskId,
        /// As for [`Event::Tick`].
        anything_new: bool,
    },
    /// A task's part of an epoch is durable, but for the log (P3).
    Acknowledged {
        /// The task.
        task: TaskId,
        /// The epoch.
        epoch: Epoch,
        /// Its state at the barrier.
        snapshot: Snapshot,
    },
    /// A task cannot do its part now, and no byte has gone wrong (P7).
    Declined {
        /// The task.
        task: TaskId,
        /// The epoch.
        epoch: Epoch,
        /// Why.
        refusal: Refusal,
    },
    /// The completion record is durable.
    RecordWritten {
        /// The epoch.
        epoch: Epoch,
    },
    /// The completion record was certainly not appended.
    RecordRefused {
        /// The epoch.
        epoch: Epoch,
        /// Why.
        refusal: Refusal,
    },
    /// The completion record may or may not be durable (P6).
    RecordUncertain {
        /// The epoch.
        epoch: Epoch,
        /// What failed.
        reason: String,
    },
    /// A sink has committed everything up to an epoch.
    Committed {
        /// The sink.
        task: TaskId,
        /// The epoch.
        epoch: Epoch,
    },
    /// A task has failed: the job restarts from the last completed checkpoint.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Why.
        reason: String,
    },
}

/// A wish for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A checkpoint as soon as possible: a roll falls due, or a user asks. Once for each such cause: one
    /// asked for while another is under way is made after it.
    Now,
    /// A clean stop, from which the job can go on.
    Stop,
    /// The end of the input, now: everything rolls and is committed.
    Drain,
}

/// Why a checkpoint cannot be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A disk is full: it is tried again until there is room.
    OutOfRoom(String),
    /// Anything else.
    Failed(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send the barrier from every source.
    InjectBarrier(Barrier),
    /// Make the record durable, and tell.
    WriteRecord(CompletionRecord),
    /// The checkpoint is complete: sinks commit everything up to it, sources may forget.
    NotifyCompleted(Epoch),
    /// The epoch's checkpoint will not complete; what it held belongs to the next one. Nothing is deleted.
    AbortEpoch {
        /// The epoch.
        epoch: Epoch,
        /// Why, for people.
        reason: String,
    },
    /// The attempt has failed.
    Fail {
        /// Why.
        reason: String,
    },
    /// The final checkpoint is complete and committed: the job is over.
    Finished(CompletionKind),
}

/// What can be told of checkpoints at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The newest checkpoint that completed in this start.
    pub completed: Option<Epoch>,
    /// The oldest one under way.
    pub in_flight: Option<Epoch>,
    /// Failures in a row, without those for lack of room.
    pub failures: u32,
    /// Why the last one failed, until one completes.
    pub refusal: Option<Refusal>,
}

/// The checkpoints of one start of a job.
#[derive(Debug, Clone)]
pub struct Coordinator {
    job: Job,
    settings: CoordinatorSettings,
    next_epoch: Epoch,
    /// Checkpoints under way at a time.
    in_flight_max: usize,
    flights: BTreeMap<Epoch, Flight>,
    ended: BTreeMap<TaskId, Ended>,
    /// The checkpoint that the job is to end with.
    wanted: Option<CompletionKind>,
    requested: bool,
    anything_new: bool,
    /// The next checkpoint by the clock.
    due_at: Duration,
    /// No checkpoint before, since one was given up.
    pause_until: Option<Duration>,
    completed: Option<(Epoch, CompletionKind)>,
    committed: BTreeMap<TaskId, Epoch>,
    failures: u32,
    refusal: Option<Refusal>,
    over: bool,
}

#[derive(Debug, Clone)]
struct Flight {
    kind: BarrierKind,
    injected_at: Duration,
    waiting: BTreeSet<TaskId>,
    tasks: BTreeMap<TaskId, TaskRecord>,
    writing: bool,
}

/// A task whose input has ended (P26).
#[derive(Debug, Clone)]
struct Ended {
    /// The first epoch whose snapshot says so.
    since: Epoch,
    /// Its last snapshot, once a completed checkpoint holds it; repeated from then on.
    last: Option<Snapshot>,
}

impl Coordinator {
    /// A coordinator whose first checkpoint falls due one interval after `now`.
    pub fn new(job: Job, settings: CoordinatorSettings, now: Duration) -> Self {
        Self {
            next_epoch: job.next_epoch,
            in_flight_max: 1,
            flights: BTreeMap::new(),
            ended: BTreeMap::new(),
            wanted: None,
            requested: false,
            anything_new: false,
            due_at: now.saturating_add(settings.interval),
            pause_until: None,
            completed: None,
            committed: BTreeMap::new(),
            failures: 0,
            refusal: None,
            over: false,
            job,
            settings,
        }
    }

    /// As [`Self::new`], with up to `in_flight_max` checkpoints under way.
    #[cfg(test)]
    pub(super) fn with_in_flight_max(self, in_flight_max: usize) -> Self {
        Self { in_flight_max, ..self }
    }

    /// Takes note of what happened at `now`, a time that never goes back, and says what to do about it,
    /// in this order.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.over {
            return actions;
        }
        match event {
            Event::Tick { anything_new } => {
                self.anything_new |= anything_new;
                self.expire(now, &mut actions);
            }
            Event::Requested { request, anything_new } => {
                self.anything_new |= anything_new;
                match request {
                    Request::Now => self.requested = true,
                    Request::Stop => self.wanted = self.wanted.or(Some(CompletionKind::Stop)),
                    Request::Drain => self.wanted = Some(CompletionKind::End),
                }
            }
            Event::SourceEnded { task, anything_new } => {
                self.anything_new |= anything_new;
                self.source_ended(task);
            }
            Event::Acknowledged { task, epoch, snapshot } => self.acknowledged(&task, epoch, snapshot),
            Event::Declined { task, epoch, refusal } => {
                let waits = self.flights.get(&epoch).is_some_and(|flight| flight.waiting.contains(&task));
                if waits {
                    self.abort(epoch, Some(&task), refusal, now, &mut actions);
                }
            }
            Event::RecordWritten { epoch } => self.record_written(epoch, &mut actions),
            Event::RecordRefused { epoch, refusal } => {
                if self.flights.get(&epoch).is_some_and(|flight| flight.writing) {
                    self.abort(epoch, None, refusal, now, &mut actions);
                }
            }
            Event::RecordUncertain { epoch, reason } => {
                // It may be complete: only the opened log can tell, so the job restarts (P6).
                self.fail(format!("checkpoint {epoch} may or may not be complete: {reason}"), &mut actions);
            }
            Event::Committed { task, epoch } => {
                let known = self.committed.entry(task).or_insert(epoch);
                *known = epoch.max(*known);
            }
            Event::TaskFailed { task, reason } => self.fail(format!("{task}: {reason}"), &mut actions),
        }
        self.begin(now, &mut actions);
        self.write_next(&mut actions);
        self.finish(&mut actions);
        actions
    }

    /// When the next [`Event::Tick`] is due; `None` while only other events can change anything.
    pub fn wake_at(&self) -> Option<Duration> {
        if self.over || self.completed.is_some_and(|(_, kind)| kind.is_final()) {
            return None;
        }
        let waiting = self.flights.values().filter(|flight| !flight.writing);
        let timeout = waiting.map(|flight| flight.injected_at.saturating_add(self.settings.timeout)).min();
        if self.may_begin() {
            let next = self.pause_until.unwrap_or(self.due_at);
            return Some(timeout.map_or(next, |timeout| timeout.min(next)));
        }
        timeout
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        Status {
            completed: self.completed.map(|(epoch, _)| epoch),
            in_flight: self.flights.keys().next().copied(),
            failures: self.failures,
            refusal: self.refusal.clone(),
        }
    }

    fn source_ended(&mut self, task: TaskId) {
        let source = |member: &&Member| member.role == Role::Source;
        if !self.job.members.iter().filter(source).any(|member| member.task == task) {
            return;
        }
        let since = self.next_epoch;
        self.ended.entry(task).or_insert(Ended { since, last: None });
        if self.job.members.iter().filter(source).all(|member| self.ended.contains_key(&member.task)) {
            self.wanted = Some(CompletionKind::End);
        }
    }

    fn acknowledged(&mut self, task: &TaskId, epoch: Epoch, snapshot: Snapshot) {
        let ended = self.ended.get(task).is_some_and(|ended| ended.since <= epoch);
        let Some(flight) = self.flights.get_mut(&epoch) else { return };
        if flight.waiting.remove(task) {
            let ended = ended || flight.kind == BarrierKind::End;
            flight.tasks.insert(task.clone(), TaskRecord { snapshot, ended });
        }
    }

    /// Has the newest acknowledged checkpoint written; one at a time, so that records stay in order.
    fn write_next(&mut self, actions: &mut Vec<Action>) {
        if self.over || self.flights.values().any(|flight| flight.writing) {
            return;
        }
        let ready = self.flights.iter_mut().rev().find(|(_, flight)| flight.waiting.is_empty());
        if let Some((epoch, flight)) = ready {
            flight.writing = true;
            actions.push(Action::WriteRecord(CompletionRecord {
                epoch: *epoch,
                incarnation: self.job.incarnation,
                kind: flight.kind.into(),
                fingerprint: self.job.fingerprint,
                tasks: flight.tasks.clone(),
            }));
        }
    }

    fn record_written(&mut self, epoch: Epoch, actions: &mut Vec<Action>) {
        let Some(flight) = self.flights.get(&epoch).filter(|flight| flight.writing) else { return };
        let kind = flight.kind.into();
        for (task, ended) in &mut self.ended {
            if ended.since <= epoch && ended.last.is_none() {
                ended.last = flight.tasks.get(task).map(|found| found.snapshot);
            }
        }
        // Later checkpoints hold all that earlier ones do, so those need no record of their own.
        self.flights = self.flights.split_off(&epoch.next());
        self.completed = Some((epoch, kind));
        self.failures = 0;
        self.refusal = None;
        self.pause_until = None;
        actions.push(Action::NotifyCompleted(epoch));
    }

    /// Gives up checkpoints that were not acknowledged in time. One whose record is being written is not:
    /// it may be complete (P6).
    fn expire(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let late: Vec<Epoch> = self
            .flights
            .iter()
            .filter(|(_, flight)| {
                !flight.writing && now >= flight.injected_at.saturating_add(self.settings.timeout)
            })
            .map(|(epoch, _)| *epoch)
            .collect();
        for epoch in late {
            let waiting = self.flights.get(&epoch).map(|flight| &flight.waiting);
            let names: Vec<_> = waiting.into_iter().flatten().map(TaskId::as_str).collect();
            let reason =
                format!("not acknowledged within {:?} by {}", self.settings.timeout, names.join(", "));
            self.abort(epoch, None, Refusal::Failed(reason), now, actions);
        }
    }

    fn abort(
        &mut self,
        epoch: Epoch,
        task: Option<&TaskId>,
        refusal: Refusal,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.flights.remove(&epoch);
        // What the epoch held is carried: the next checkpoint has something to tell.
        self.anything_new = true;
        let pause = self.settings.interval.min(RETRY_PAUSE);
        self.pause_until = Some(now.saturating_add(pause));
        let text = match &refusal {
            Refusal::OutOfRoom(text) => text.clone(),
            Refusal::Failed(text) => {
                self.failures += 1;
                text.clone()
            }
        };
        let reason = task.map_or(text.clone(), |task| format!("{task}: {text}"));
        self.refusal = Some(refusal);
        actions.push(Action::AbortEpoch { epoch, reason: reason.clone() });
        if self.failures > self.settings.tolerated_failures {
            let failures = self.failures;
            self.fail(format!("{failures} checkpoints in a row have failed, the last: {reason}"), actions);
        }
    }

    fn fail(&mut self, reason: String, actions: &mut Vec<Action>) {
        self.over = true;
        actions.push(Action::Fail { reason });
    }

    /// Whether a checkpoint could be begun, if one were due.
    fn may_begin(&self) -> bool {
        let ending = self.completed.is_some_and(|(_, kind)| kind.is_final())
            || self.flights.values().any(|flight| flight.kind != BarrierKind::Checkpoint);
        !self.over && !ending && self.flights.len() < self.in_flight_max
    }

    /// Begins the next checkpoint, if one is due.
    fn begin(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if !self.may_begin() || self.pause_until.is_some_and(|until| now < until) {
            return;
        }
        let kind = match self.wanted {
            Some(CompletionKind::End) => BarrierKind::End,
            Some(CompletionKind::Stop) => BarrierKind::Stop,
            _ if self.requested => BarrierKind::Checkpoint,
            // A time to try again after a failure comes before the interval's.
            _ if now < self.due_at && self.pause_until.is_none() => return,
            _ if self.anything_new => BarrierKind::Checkpoint,
            _ => {
                // D16: nothing new, no checkpoint.
                self.due_at = now.saturating_add(self.settings.interval);
                return;
            }
        };
        if let Some(kind) = self.already_over(kind) {
            self.over = true;
            actions.push(Action::Finished(kind));
            return;
        }
        let epoch = self.next_epoch;
        self.next_epoch = epoch.next();
        self.requested = false;
        self.anything_new = false;
        self.pause_until = None;
        self.due_at = now.saturating_add(self.settings.interval);
        let mut flight = Flight {
            kind,
            injected_at: now,
            waiting: BTreeSet::new(),
            tasks: BTreeMap::new(),
            writing: false,
        };
        for Member { task, .. } in &self.job.members {
            match self.ended.get(task).and_then(|ended| ended.last) {
                Some(snapshot) => {
                    flight.tasks.insert(task.clone(), TaskRecord { snapshot, ended: true });
                }
                None => {
                    flight.waiting.insert(task.clone());
                }
            }
        }
        self.flights.insert(epoch, flight);
        actions.push(Action::InjectBarrier(Barrier { epoch, kind }));
    }

    /// A job that is to end, has nothing new, and ended before in this way needs no further checkpoint
    /// (D9): the restored one was committed before it ran.
    fn already_over(&self, kind: BarrierKind) -> Option<CompletionKind> {
        let newest = self.completed.map(|(_, kind)| kind).or(self.job.restored)?;
        // Told is what was asked for, not how the former run ended: a stop is not the end of the input.
        let (enough, over) = match kind {
            BarrierKind::Checkpoint => return None,
            BarrierKind::Stop => (newest.is_final(), CompletionKind::Stop),
            BarrierKind::End => (newest == CompletionKind::End, CompletionKind::End),
        };
        (enough && !self.anything_new).then_some(over)
    }

    /// Ends the job once its final checkpoint is complete and committed by all sinks.
    fn finish(&mut self, actions: &mut Vec<Action>) {
        let Some((epoch, kind)) = self.completed.filter(|(_, kind)| kind.is_final()) else { return };
        let mut sinks = self.job.members.iter().filter(|member| member.role == Role::Sink);
        let committed = |task| self.committed.get(task).is_some_and(|done| *done >= epoch);
        if !self.over && sinks.all(|member| committed(&member.task)) {
            self.over = true;
            actions.push(Action::Finished(kind));
        }
    }
}
