//! Drives the coordinator: tells it what happened, does what it says.
//!
//! The coordinator decides and does no I/O; this file does the I/O and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::checkpoint::Action;
use crate::checkpoint::CheckpointStore;
use crate::checkpoint::Completed;
use crate::checkpoint::CompletionKind;
use crate::checkpoint::CompletionRecord;
use crate::checkpoint::Coordinator;
use crate::checkpoint::CoordinatorSettings;
use crate::checkpoint::Event;
use crate::checkpoint::Job;
use crate::checkpoint::Refusal;
use crate::checkpoint::Request;
use crate::checkpoint::WriteError;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::runtime::channel::ended_early;
use crate::runtime::channel::gone;
use crate::runtime::dataflow::Observer;
use crate::runtime::dataflow::Outcome;
use crate::runtime::dataflow::RunEvent;
use crate::runtime::dataflow::StopRequest;
use crate::runtime::dataflow::flatten;
use crate::runtime::source_task::SourceCommand;
use crate::state::Snapshot;
use crate::state::is_out_of_room;
use crate::stream::Epoch;
use crate::stream::Lsn;
use crate::stream::TaskId;
use crate::telemetry::Metrics;

/// What tasks tell the driver.
pub(crate) enum TaskEvent {
    /// The source has returned its last record.
    SourceEnded { task: TaskId },
    /// A task's snapshot is taken, and nothing beside the log has to become durable for it.
    Acknowledged { task: TaskId, epoch: Epoch, snapshot: Snapshot },
    /// A writer's snapshot is taken; it counts when `durable` resolves (P3).
    PreCommitted { task: TaskId, epoch: Epoch, snapshot: Snapshot, durable: BoxFuture<'static, Result<()>> },
    /// A task could not do its part, and no byte went wrong (P7).
    Declined { task: TaskId, epoch: Epoch, refusal: Refusal },
    /// Everything of a sink up to the epoch is visible.
    Committed { task: TaskId, epoch: Epoch },
    /// A roll fell due.
    RollDue,
}

/// Something that became durable, or did not.
enum Settled {
    Snapshot { task: TaskId, epoch: Epoch, snapshot: Snapshot, result: Result<()> },
    Record { epoch: Epoch, result: Result<Result<Completed, WriteError>> },
}

/// The one that drives.
pub(crate) struct Driver {
    pub(crate) doors: Doors,
    pub(crate) store: Arc<CheckpointStore>,
    pub(crate) job: Job,
    pub(crate) settings: CoordinatorSettings,
    pub(crate) source: mpsc::UnboundedSender<SourceCommand>,
    pub(crate) sinks: BTreeMap<TaskId, mpsc::UnboundedSender<Arc<Completed>>>,
    /// A flag for each task: it has something that the last barrier did not cover.
    pub(crate) changed: Vec<Arc<AtomicBool>>,
    pub(crate) observer: Observer,
    pub(crate) metrics: Arc<Metrics>,
}

impl Driver {
    /// Drives until the job is over. The tasks learn it by the driver's end of their channels.
    ///
    /// # Errors
    ///
    /// The first failure of a task, of something that had to become durable, or of the coordinator.
    pub(crate) async fn run(
        self,
        mut events: mpsc::UnboundedReceiver<TaskEvent>,
        tasks: &mut JoinSet<Result<()>>,
        mut stop: watch::Receiver<StopRequest>,
    ) -> Result<Outcome> {
        let now = self.doors.clock.monotonic();
        let logged = self.store.log_end();
        let coordinator = Coordinator::new(self.job.clone(), self.settings.clone(), now);
        let mut run = Run {
            driver: self,
            coordinator,
            settling: FuturesUnordered::new(),
            completed: BTreeMap::new(),
            injected: BTreeMap::new(),
            logged,
            newest: None,
            closing: false,
            outcome: None,
        };
        let asked = *stop.borrow_and_update();
        run.ask(asked)?;
        run.tell(Event::Tick { anything_new: run.anything_new() })?;
        while run.outcome.is_none() {
            let wake = run.coordinator.wake_at();
            let clock = Arc::clone(&run.driver.doors.clock);
            tokio::select! {
                biased;
                Some(ended) = tasks.join_next() => {
                    flatten(ended)?;
                    // The task that failed may not have been joined yet: its error tells why.
                    return Err(ended_early());
                }
                Some(settled) = run.settling.next() => run.settle(settled)?,
                Some(event) = events.recv() => run.note(event)?,
                Ok(()) = stop.changed() => {
                    let asked = *stop.borrow_and_update();
                    run.ask(asked)?;
                }
                () = sleep_until(&*clock, wake) => run.tell(Event::Tick { anything_new: run.anything_new() })?,
            }
        }
        run.outcome.ok_or_else(|| Error::retry("the job ended without an outcome"))
    }
}

/// A driver at work.
struct Run {
    driver: Driver,
    coordinator: Coordinator,
    settling: FuturesUnordered<BoxFuture<'static, Settled>>,
    /// Proofs of checkpoints whose sinks have not been told yet.
    completed: BTreeMap<Epoch, Completed>,
    injected: BTreeMap<Epoch, Duration>,
    newest: Option<Epoch>,
    /// Up to here the log is counted.
    logged: Lsn,
    /// The job is over but for one last checkpoint that puts the ledger of its last commits on record.
    closing: bool,
    outcome: Option<Outcome>,
}

impl Run {
    fn anything_new(&self) -> bool {
        self.driver.changed.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    fn ask(&mut self, asked: StopRequest) -> Result<()> {
        let request = match asked {
            StopRequest::None => return Ok(()),
            StopRequest::Stop => Request::Stop,
            StopRequest::Drain => Request::Drain,
        };
        tracing::info!(?request, "asked to end: making a final checkpoint");
        self.tell(Event::Requested { request, anything_new: self.anything_new() })
    }

    fn note(&mut self, event: TaskEvent) -> Result<()> {
        match event {
            TaskEvent::SourceEnded { task } => {
                tracing::info!(%task, "the input has ended");
                self.tell(Event::SourceEnded { task, anything_new: self.anything_new() })
            }
            TaskEvent::Acknowledged { task, epoch, snapshot } => {
                tracing::debug!(%task, %epoch, "acknowledged");
                self.tell(Event::Acknowledged { task, epoch, snapshot })
            }
            TaskEvent::PreCommitted { task, epoch, snapshot, durable } => {
                tracing::debug!(%task, %epoch, "pre-committed");
                self.settling.push(Box::pin(async move {
                    Settled::Snapshot { task, epoch, snapshot, result: durable.await }
                }));
                Ok(())
            }
            TaskEvent::Declined { task, epoch, refusal } => {
                tracing::warn!(%task, %epoch, ?refusal, "cannot take part in the checkpoint now");
                self.tell(Event::Declined { task, epoch, refusal })
            }
            TaskEvent::Committed { task, epoch } => {
                tracing::debug!(%task, %epoch, "committed");
                (self.driver.observer)(&RunEvent::Committed { task: task.clone(), epoch });
                self.tell(Event::Committed { task, epoch })
            }
            TaskEvent::RollDue => {
                self.tell(Event::Requested { request: Request::Now, anything_new: self.anything_new() })
            }
        }
    }

    fn settle(&mut self, settled: Settled) -> Result<()> {
        match settled {
            Settled::Snapshot { task, epoch, snapshot, result } => {
                // A failed sync is never carried into the next checkpoint (P7).
                result.map_err(|error| error.context(format!("{task}, epoch {epoch}")))?;
                tracing::debug!(%task, %epoch, "durable");
                self.tell(Event::Acknowledged { task, epoch, snapshot })
            }
            Settled::Record { epoch, result } => match result? {
                Ok(completed) => {
                    let now = self.driver.doors.clock.monotonic();
                    let took =
                        self.injected.get(&epoch).map(|at| now.saturating_sub(*at)).unwrap_or_default();
                    self.injected = self.injected.split_off(&epoch.next());
                    tracing::info!(%epoch, took_ms = took.as_millis(), "checkpoint completed");
                    self.driver.metrics.checkpoint_completed(took);
                    let logged = self.driver.store.log_end();
                    self.driver.metrics.log_bytes.add(logged.0.saturating_sub(self.logged.0));
                    self.logged = logged;
                    (self.driver.observer)(&RunEvent::Completed { epoch, took });
                    self.completed.insert(epoch, completed);
                    self.tell(Event::RecordWritten { epoch })
                }
                Err(WriteError::NotWritten(cause)) if cause.kind() == ErrorKind::Retry => {
                    tracing::warn!(%epoch, error = %cause, "the checkpoint could not be written");
                    let refusal = refusal(&cause);
                    self.tell(Event::RecordRefused { epoch, refusal })
                }
                Err(WriteError::NotWritten(cause)) => Err(cause),
                Err(error @ WriteError::Uncertain(_)) => {
                    let error = Error::from(error);
                    self.tell(Event::RecordUncertain { epoch, reason: error.to_string() })
                }
            },
        }
    }

    fn tell(&mut self, event: Event) -> Result<()> {
        let now = self.driver.doors.clock.monotonic();
        for action in self.coordinator.on(event, now) {
            self.act(action, now)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Action, now: Duration) -> Result<()> {
        match action {
            Action::InjectBarrier(barrier) => {
                tracing::debug!(epoch = %barrier.epoch, kind = ?barrier.kind, "barrier injected");
                self.driver.metrics.epoch.set(barrier.epoch.0);
                self.injected.insert(barrier.epoch, now);
                self.driver.source.send(SourceCommand::Inject(barrier)).map_err(|_closed| gone("source"))
            }
            Action::WriteRecord(record) => {
                self.write(record);
                Ok(())
            }
            Action::NotifyCompleted(epoch) => self.notify(epoch),
            Action::AbortEpoch { epoch, reason } => {
                tracing::warn!(%epoch, %reason, "checkpoint aborted, what it held goes into the next one");
                self.driver.metrics.checkpoints.failed.add(1);
                (self.driver.observer)(&RunEvent::Aborted { epoch, reason });
                Ok(())
            }
            Action::Fail { reason } => Err(Error::retry(reason)),
            Action::Finished(kind) => self.finish(kind, now),
        }
    }

    fn write(&mut self, record: CompletionRecord) {
        let store = Arc::clone(&self.driver.store);
        let at = self.driver.doors.clock.now();
        let epoch = record.epoch;
        let written = self.driver.doors.io.run(move || store.write(record, at));
        self.settling.push(Box::pin(async move { Settled::Record { epoch, result: written.await } }));
    }

    /// Tells everybody that a checkpoint is complete (R2).
    fn notify(&mut self, epoch: Epoch) -> Result<()> {
        let Some(completed) = self.completed.remove(&epoch) else {
            return Err(Error::retry(format!("checkpoint {epoch} is said to be complete without a proof")));
        };
        self.newest = Some(epoch);
        let completed = Arc::new(completed);
        for (task, notices) in &self.driver.sinks {
            notices.send(Arc::clone(&completed)).map_err(|_closed| gone(task.as_str()))?;
        }
        self.driver.source.send(SourceCommand::Completed(completed)).map_err(|_closed| gone("source"))
    }

    /// The final checkpoint is complete and committed. What was committed last is not in the ledger yet: one
    /// more checkpoint of the same kind records it, so that `verify` and the next start find no loose end.
    fn finish(&mut self, kind: CompletionKind, now: Duration) -> Result<()> {
        if !self.closing
            && let Some(newest) = self.newest
            && self.anything_new()
        {
            self.closing = true;
            let job = Job { next_epoch: newest.next(), restored: None, ..self.driver.job.clone() };
            self.coordinator = Coordinator::new(job, self.driver.settings.clone(), now);
            let request = if kind == CompletionKind::End { Request::Drain } else { Request::Stop };
            return self.tell(Event::Requested { request, anything_new: true });
        }
        self.outcome = Some(if kind == CompletionKind::End { Outcome::Finished } else { Outcome::Stopped });
        Ok(())
    }
}

/// Why a checkpoint cannot be made now, from an error that touched no byte.
pub(crate) fn refusal(cause: &Error) -> Refusal {
    if is_out_of_room(cause) {
        Refusal::OutOfRoom(cause.to_string())
    } else {
        Refusal::Failed(cause.to_string())
    }
}

async fn sleep_until(clock: &dyn crate::clock::Clock, at: Option<Duration>) {
    match at {
        Some(at) => clock.sleep(at.saturating_sub(clock.monotonic())).await,
        None => std::future::pending().await,
    }
}
