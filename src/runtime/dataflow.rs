//! One attempt at running a job: its tasks, started, driven and joined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::checkpoint::CheckpointStore;
use crate::checkpoint::CoordinatorSettings;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::runtime::channel::Sender;
use crate::runtime::channel::channel;
use crate::runtime::driver::Driver;
use crate::runtime::driver::TaskEvent;
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
use crate::stream::TaskId;
use crate::telemetry::JobMetrics;

/// How a dataflow runs.
#[derive(Debug, Clone)]
pub struct DataflowSettings {
    /// When checkpoints start, time out and give up.
    pub coordinator: CoordinatorSettings,
    /// Bytes of batches that wait in front of a sink before the source is held back.
    pub channel_bytes: usize,
    /// What the completion records say of the definition of the job (D17).
    pub fingerprint: u64,
}

/// Bytes of batches in front of a sink: enough for a few batches of 8,192 rows, so that decoding and
/// encoding overlap, and little beside the sink's own budget.
pub const CHANNEL_BYTES: usize = 16 << 20;

/// What the outside asks of a running job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StopRequest {
    /// Run on.
    #[default]
    None,
    /// Stop with a final checkpoint; in-progress files stay in progress.
    Stop,
    /// End the input: roll and commit everything, then stop.
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
#[derive(Debug)]
pub struct Dataflow {
    doors: Doors,
    settings: DataflowSettings,
    metrics: Arc<JobMetrics>,
    tasks: JoinSet<Result<()>>,
    events: mpsc::UnboundedSender<TaskEvent>,
    received: mpsc::UnboundedReceiver<TaskEvent>,
    sinks: BTreeMap<TaskId, mpsc::UnboundedSender<Arc<crate::checkpoint::Completed>>>,
    changed: Vec<Arc<AtomicBool>>,
}

impl Dataflow {
    /// A dataflow without tasks.
    pub fn new(doors: &Doors, settings: DataflowSettings, metrics: &Arc<JobMetrics>) -> Self {
        let (events, received) = mpsc::unbounded_channel();
        Self {
            doors: doors.clone(),
            settings,
            metrics: Arc::clone(metrics),
            tasks: JoinSet::new(),
            events,
            received,
            sinks: BTreeMap::new(),
            changed: Vec::new(),
        }
    }

    /// Adds a sink whose recovery has ended: nothing of a former attempt waits for a commit.
    pub fn add_sink<W, C>(&mut self, task: TaskId, writer: W, committer: C) -> SinkInput
    where
        W: SinkWriter + 'static,
        C: Committer<Committable = W::Committable> + 'static,
    {
        let (sender, input): (Sender, _) = channel(self.settings.channel_bytes);
        let (completed, notices) = mpsc::unbounded_channel();
        let ((orders, told), (ordered, done)) = commit_channels();
        let changed = Arc::new(AtomicBool::new(false));
        self.changed.push(Arc::clone(&changed));
        let writing = SinkTask {
            task: task.clone(),
            writer,
            input,
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
        self.sinks.insert(task, completed);
        SinkInput(sender)
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
        store: CheckpointStore,
        first: Epoch,
        stop: watch::Receiver<StopRequest>,
    ) -> Result<Outcome> {
        let (commands, commanded) = mpsc::unbounded_channel();
        let changed = Arc::new(AtomicBool::new(false));
        self.changed.push(Arc::clone(&changed));
        let reading = SourceTask {
            task: task.clone(),
            source,
            output: output.0,
            on_rejected,
            commands: commanded,
            events: self.events,
            changed,
            metrics: Arc::clone(&self.metrics),
        };
        self.tasks.spawn(reading.run());
        let driver = Driver::new(
            &self.doors,
            self.settings,
            self.metrics,
            store,
            first,
            (task, commands),
            self.sinks,
            self.changed,
        );
        let mut tasks = self.tasks;
        let outcome = driver.run(self.received, &mut tasks, stop).await;
        // After a good end the tasks run out by themselves, since the driver has hung up; after a
        // failure they are stopped where they stand: what they hold is void anyway.
        if outcome.is_err() {
            tasks.abort_all();
        }
        let mut late = None;
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = flatten(ended) {
                late.get_or_insert(error);
            }
        }
        self.doors.cpu.join().await;
        self.doors.io.join().await;
        match (outcome, late) {
            (Ok(outcome), None) => Ok(outcome),
            (Ok(_), Some(error)) | (Err(error), _) => Err(error),
        }
    }
}

/// The result of a task; a panic is a failure of the task, an abort is none.
pub(crate) fn flatten(ended: Result<Result<()>, tokio::task::JoinError>) -> Result<()> {
    match ended {
        Ok(result) => result,
        Err(failed) if failed.is_cancelled() => Ok(()),
        Err(failed) => Err(crate::pool::panicked(failed)),
    }
}

/// For callers outside of the crate that lost track: a task is gone without a word.
pub(crate) fn vanished() -> Error {
    Error::retry("a task of the job ended before its input did")
}
