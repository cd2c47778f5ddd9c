//! The task that reads a source, injects barriers and hands records on.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use crate::checkpoint::Completed;
use crate::error::Error;
use crate::error::Result;
use crate::format::dead_letters;
use crate::runtime::channel::Sender;
use crate::runtime::channel::gone;
use crate::runtime::driver::TaskEvent;
use crate::runtime::driver::refusal;
use crate::runtime::numbers::SourceNumbers;
use crate::source::Read;
use crate::source::ReplayableSource;
use crate::state::is_out_of_room;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Rejected;
use crate::stream::TaskId;
use crate::telemetry::Metrics;

/// What the driver asks of a source.
#[derive(Debug)]
pub(crate) enum SourceCommand {
    /// End the epoch here.
    Inject(Barrier),
    /// A checkpoint is complete.
    Completed(Arc<Completed>),
}

/// What becomes of records that could not be taken.
#[derive(Debug)]
pub enum OnRejected {
    /// The job stops at the first, naming its place.
    Fail,
    /// They are counted and left out.
    Skip,
    /// They are landed by a sink of their own, in the epoch they belong to.
    DeadLetters(crate::runtime::SinkInput),
}

/// Everything the source task works with.
pub(crate) struct SourceTask<S> {
    pub(crate) task: TaskId,
    pub(crate) source: S,
    pub(crate) numbers: SourceNumbers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) output: Sender,
    pub(crate) on_rejected: OnRejected,
    pub(crate) commands: mpsc::UnboundedReceiver<SourceCommand>,
    pub(crate) events: mpsc::UnboundedSender<TaskEvent>,
    /// Records came since the last barrier.
    pub(crate) changed: Arc<AtomicBool>,
    /// Records are wanted; not behind the barrier of a stop or an end.
    pub(crate) reading: bool,
}

impl<S: ReplayableSource> SourceTask<S> {
    /// Runs until the driver hangs up.
    pub(crate) async fn run(mut self) -> Result<()> {
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    None => return Ok(()),
                    Some(SourceCommand::Completed(completed)) => self.source.committed(&completed)?,
                    Some(SourceCommand::Inject(barrier)) => {
                        // Behind the barrier of a stop or an end nothing may follow: records read
                        // meanwhile would be taken into an epoch that never completes.
                        self.reading &= barrier.kind == crate::stream::BarrierKind::Checkpoint;
                        self.pass_on(barrier)?;
                    }
                },
                read = self.source.next(), if self.reading => match read? {
                    Read::Records { batches, rejected } => self.hand_on(batches, rejected).await?,
                    Read::End => {
                        self.reading = false;
                        self.numbers.settle(self.source.status());
                        self.tell(TaskEvent::SourceEnded { task: self.task.clone() })?;
                    }
                },
            }
        }
    }

    async fn hand_on(&mut self, batches: Vec<Batch>, rejected: Vec<Rejected>) -> Result<()> {
        self.changed.store(true, Ordering::Relaxed);
        for batch in batches {
            if batch.records.num_rows() > 0 {
                self.output.send(batch).await?;
            }
        }
        self.on_rejected.take(&rejected, &self.metrics).await?;
        self.numbers.handed_on(rejected.len(), || self.source.status());
        Ok(())
    }

    fn pass_on(&mut self, barrier: Barrier) -> Result<()> {
        let snapshot = match self.source.snapshot(barrier) {
            Ok(snapshot) => snapshot,
            // The log has no room: nothing was appended, and the next barrier tries again (P7).
            Err(error) if is_out_of_room(&error) => {
                return self.tell(TaskEvent::Declined {
                    task: self.task.clone(),
                    epoch: barrier.epoch,
                    refusal: refusal(&error),
                });
            }
            Err(error) => return Err(error),
        };
        self.numbers.settle(self.source.status());
        self.changed.store(false, Ordering::Relaxed);
        self.output.send_barrier(barrier)?;
        self.on_rejected.end_epoch(barrier)?;
        self.tell(TaskEvent::Acknowledged { task: self.task.clone(), epoch: barrier.epoch, snapshot })
    }

    fn tell(&self, event: TaskEvent) -> Result<()> {
        self.events.send(event).map_err(|_closed| gone("driver"))
    }
}

impl OnRejected {
    /// Deals with records that could not be taken, of any splits, and counts them in `metrics`.
    pub(crate) async fn take(&self, rejected: &[Rejected], metrics: &Metrics) -> Result<()> {
        let Some(first) = rejected.first() else { return Ok(()) };
        match self {
            Self::Fail => Err(refused(first)),
            Self::Skip => {
                metrics.skipped.add(rejected.len() as u64);
                Ok(())
            }
            Self::DeadLetters(input) => {
                metrics.dead_letters.add(rejected.len() as u64);
                for same_split in rejected.chunk_by(|a, b| a.split == b.split) {
                    input.sender().send(letters(same_split)?).await?;
                }
                Ok(())
            }
        }
    }

    /// Sends the barrier on to the sink of dead letters, if there is one.
    pub(crate) fn end_epoch(&self, barrier: Barrier) -> Result<()> {
        match self {
            Self::DeadLetters(input) => input.sender().send_barrier(barrier),
            Self::Fail | Self::Skip => Ok(()),
        }
    }
}

/// Rejected records of one split as a batch of dead letters.
fn letters(rejected: &[Rejected]) -> Result<Batch> {
    let split = rejected[0].split.clone();
    let positions = rejected.iter().map(|record| record.position).collect::<Vec<_>>().into();
    Ok(Batch { records: dead_letters(rejected)?, split, positions })
}

/// The error of a record under `bad_record = "fail"`.
fn refused(rejected: &Rejected) -> Error {
    let raw = String::from_utf8_lossy(&rejected.raw[..rejected.raw.len().min(200)]);
    Error::fatal(format!(
        "{}, position {}: {}; the record is `{}`. Nothing of it was landed. Mend the input, or set \
         on_error.bad_record to \"dead_letter\" or \"skip\"",
        rejected.split,
        rejected.position,
        rejected.reason,
        raw.escape_debug(),
    ))
}
