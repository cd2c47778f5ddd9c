//! One attempt at running a job: its tasks, started, driven and joined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::checkpoint::CheckpointStore;
use crate::checkpoint::Completed;
use crate::checkpoint::CompletionKind;
use crate::checkpoint::CoordinatorSettings;
use crate::checkpoint::Fingerprint;
use crate::checkpoint::Job;
use crate::checkpoint::Member;
use crate::checkpoint::Role;
use crate::doors::Doors;
use crate::error::Result;
use crate::runtime::channel::Inputs;
use crate::runtime::channel::channel;
use crate::runtime::channel::is_consequence;
use crate::runtime::channel::weightier;
use crate::runtime::driver::Driver;
use crate::runtime::driver::TaskEvent;
use crate::runtime::numbers::SinkNumbers;
use crate::runtime::numbers::SourceNumbers;
use crate::runtime::sink_task::CommitTask;
use crate::runtime::sink_task::SinkInput;
use crate::runtime::sink_task::SinkTask;
use crate::runtime::sink_task::commit_channels;
use crate::runtime::source_task::OnRejected;
use crate::runtime::source_task::SourceTask;
use crate::sink::Committer;
use crate::sink::SinkWriter;
use crate::source::ReplayableSource;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::TaskId;
use crate::telemetry::Metrics;

/// How a dataflow runs.
#[derive(Debug, Clone)]
pub struct DataflowSettings {
    /// When checkpoints start, time out and give up.
    pub coordinator: CoordinatorSettings,
    /// Bytes of batches that wait in front of a sink before the source is held back.
    pub channel_bytes: usize,
    /// Inputs are aligned at barriers; otherwise records may be repeated after a failure.
    pub exactly_once: bool,
}

impl DataflowSettings {
    /// 8 MiB in front of a sink: some batches of 8,192 rows, so that decoding and encoding overlap, and
    /// little beside the sink's own budget.
    pub const CHANNEL_BYTES: usize = 8 << 20;
}

/// Something that happened in a running job; for metrics, progress and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEvent {
    /// An attempt has read its checkpoint.
    Started {
        /// Its number.
        incarnation: Incarnation,
        /// The checkpoint that it goes on from.
        restored: Option<Epoch>,
    },
    /// The recovery has ended: what the checkpoint lists is committed, and records flow.
    Running,
    /// An attempt failed, and there will be another one.
    Restarting {
        /// The wait before it.
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// A checkpoint is complete: everything up to its epoch is safe.
    Completed {
        /// The checkpoint.
        epoch: Epoch,
        /// From its barrier to its completion.
        took: Duration,
    },
    /// A checkpoint was given up; what it held goes into the next one.
    Aborted {
        /// The checkpoint.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// Everything of a sink up to an epoch is visible, durably.
    Committed {
        /// The sink.
        task: TaskId,
        /// The epoch.
        epoch: Epoch,
    },
}

/// Told of each [`RunEvent`], in order, on the job's own thread: it must not block.
pub type Observer = Arc<dyn Fn(&RunEvent) + Send + Sync>;

/// What the outside asks of a running job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopRequest {
    /// Run on.
    #[default]
    None,
    /// Stop with a final checkpoint; in-progress files stay in progress.
    Stop,
    /// End the input where it is read to: roll and commit everything, then stop. Asked for before the job
    /// runs, nothing new is read.
    Drain,
}

/// How an attempt ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The input ended (or was drained) and everything is visible.
    Finished,
    /// A stop was asked for; the job can be resumed.
    Stopped,
}

/// The tasks of one attempt, being put together.
pub struct Dataflow {
    doors: Doors,
    settings: DataflowSettings,
    observer: Observer,
    tasks: JoinSet<Result<()>>,
    events: mpsc::UnboundedSender<TaskEvent>,
    received: mpsc::UnboundedReceiver<TaskEvent>,
    metrics: Arc<Metrics>,
    members: Vec<Member>,
    sinks: BTreeMap<TaskId, mpsc::UnboundedSender<Arc<Completed>>>,
    changed: Vec<Arc<AtomicBool>>,
}

/// What a start of the job hands to its dataflow.
#[derive(Debug)]
pub struct Start {
    /// Where completion records go.
    pub store: Arc<CheckpointStore>,
    /// The number of this start.
    pub incarnation: Incarnation,
    /// The job's definition.
    pub fingerprint: Fingerprint,
    /// The checkpoint that was restored, and how it came about.
    pub restored: Option<(Epoch, CompletionKind)>,
}

impl Dataflow {
    /// A dataflow without tasks.
    pub fn new(doors: &Doors, settings: DataflowSettings, observer: Observer) -> Self {
        let (events, received) = mpsc::unbounded_channel();
        Self {
            doors: doors.clone(),
            settings,
            observer,
            tasks: JoinSet::new(),
            events,
            received,
            metrics: Arc::new(Metrics::new("", Arc::clone(&doors.clock))),
            members: Vec::new(),
            sinks: BTreeMap::new(),
            changed: Vec::new(),
        }
    }

    /// Adds to `metrics`; without, nobody sees the numbers.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Adds a sink with `inputs` inputs, whose recovery has ended: nothing of a former attempt waits for
    /// a commit. `changed` says that its state holds something no checkpoint has yet.
    ///
    /// Records that the writer itself refuses go to `on_rejected`.
    pub fn add_sink<W, C>(
        &mut self,
        task: TaskId,
        writer: W,
        committer: C,
        inputs: usize,
        changed: bool,
        on_rejected: OnRejected,
    ) -> Vec<SinkInput>
    where
        W: SinkWriter + 'static,
        C: Committer<Committable = W::Committable> + 'static,
    {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..inputs).map(|_| channel(self.settings.channel_bytes)).unzip();
        let (completed, notices) = mpsc::unbounded_channel();
        let ((orders, told), (ordered, done)) = commit_channels();
        let changed = self.flag(changed);
        let numbers =
            SinkNumbers::new(self.metrics.sink(&task), Arc::clone(&self.doors.clock), writer.status());
        let writing = SinkTask {
            task: task.clone(),
            writer,
            numbers,
            metrics: Arc::clone(&self.metrics),
            input: Inputs::new(receivers, self.settings.exactly_once),
            on_rejected,
            completed: notices,
            orders,
            done: told,
            events: self.events.clone(),
            pending: Vec::new(),
            changed,
            clock: Arc::clone(&self.doors.clock),
        };
        self.tasks.spawn(writing.run());
        self.tasks.spawn(CommitTask { committer, orders: ordered, done }.run());
        self.members.push(Member { task: task.clone(), role: Role::Sink });
        self.sinks.insert(task, completed);
        senders.into_iter().map(SinkInput).collect()
    }

    /// Adds the source and runs everything until the input ends, a stop was asked for, or a task
    /// fails.
    ///
    /// # Errors
    ///
    /// The first failure of a task, a checkpoint or the log. All tasks have ended and the pools are
    /// empty when this returns (R3).
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts the tasks but cannot join the jobs of the pools: only a process
    /// that ends may do it.
    pub async fn run<S: ReplayableSource + 'static>(
        mut self,
        task: TaskId,
        source: S,
        output: SinkInput,
        on_rejected: OnRejected,
        start: Start,
        stop: watch::Receiver<StopRequest>,
    ) -> Result<Outcome> {
        let (commands, commanded) = mpsc::unbounded_channel();
        let changed = self.flag(false);
        self.members.push(Member { task: task.clone(), role: Role::Source });
        let numbers =
            SourceNumbers::new(self.metrics.source(&task), Arc::clone(&self.doors.clock), source.status());
        let reading = SourceTask {
            task,
            source,
            numbers,
            metrics: Arc::clone(&self.metrics),
            output: output.0,
            on_rejected,
            commands: commanded,
            events: self.events,
            changed,
            // A job that is to end before it began reads nothing new, however fast the source is.
            reading: *stop.borrow() == StopRequest::None,
        };
        self.tasks.spawn(reading.run());
        let driver = Driver {
            doors: self.doors.clone(),
            store: start.store,
            job: Job {
                members: self.members,
                incarnation: start.incarnation,
                fingerprint: start.fingerprint,
                next_epoch: start.restored.map_or(Epoch(1), |(epoch, _)| epoch.next()),
                restored: start.restored.map(|(_, kind)| kind),
            },
            settings: self.settings.coordinator,
            source: commands,
            sinks: self.sinks,
            changed: self.changed,
            observer: self.observer,
            metrics: self.metrics,
        };
        let mut tasks = self.tasks;
        let mut outcome = driver.run(self.received, &mut tasks, stop).await;
        // After a good end the tasks run out by themselves, since the driver has hung up; after a
        // failure they are stopped where they stand: what they hold is void anyway.
        if outcome.is_err() {
            tasks.abort_all();
        }
        while let Some(ended) = tasks.join_next().await {
            let Err(error) = flatten(ended) else { continue };
            // What failed first is told, not that others noticed.
            outcome = match outcome {
                Ok(outcome) if is_consequence(&error) => Ok(outcome),
                Ok(_) => Err(error),
                Err(first) => Err(weightier(first, error)),
            };
        }
        self.doors.cpu.join().await;
        self.doors.io.join().await;
        outcome
    }

    fn flag(&mut self, set: bool) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(set));
        self.changed.push(Arc::clone(&flag));
        flag
    }
}

impl std::fmt::Debug for Dataflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dataflow").field("members", &self.members).finish_non_exhaustive()
    }
}

/// The result of a task; a panic is a failure of the task, an abort is none.
pub(crate) fn flatten(ended: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    match ended {
        Ok(result) => result,
        Err(failed) if failed.is_cancelled() => Ok(()),
        Err(failed) => Err(crate::pool::panicked(&*failed.into_panic())),
    }
}
