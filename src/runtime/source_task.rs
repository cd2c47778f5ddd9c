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
use crate::runtime::driver::TaskEvent;
use crate::source::Read;
use crate::source::ReplayableSource;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Rejected;
use crate::stream::TaskId;
use crate::telemetry::JobMetrics;

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
    pub(crate) output: Sender,
    pub(crate) on_rejected: OnRejected,
    pub(crate) commands: mpsc::UnboundedReceiver<SourceCommand>,
    pub(crate) events: mpsc::UnboundedSender<TaskEvent>,
    /// Records came since the last barrier.
    pub(crate) changed: Arc<AtomicBool>,
    pub(crate) metrics: Arc<JobMetrics>,
}

impl<S: ReplayableSource> SourceTask<S> {
    /// Runs until the driver hangs up.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut reading = true;
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    None => return Ok(()),
                    Some(SourceCommand::Completed(completed)) => self.source.committed(&completed)?,
                    Some(SourceCommand::Inject(barrier)) => {
                        // Behind the barrier of a stop or an end nothing may follow: records read
                        // meanwhile would be taken into an epoch that never completes.
                        reading &= barrier.kind == crate::stream::BarrierKind::Checkpoint;
                        self.pass_on(barrier)?;
                    }
                },
                read = self.source.next(), if reading => match read? {
                    Read::Records { batches, rejected } => self.hand_on(batches, rejected).await?,
                    Read::End => {
                        reading = false;
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
        if rejected.is_empty() {
            return Ok(());
        }
        self.metrics.rejected(rejected.len() as u64);
        match &self.on_rejected {
            OnRejected::Fail => Err(refused(&rejected[0])),
            OnRejected::Skip => Ok(()),
            OnRejected::DeadLetters(input) => {
                for same_split in rejected.chunk_by(|a, b| a.split == b.split) {
                    input.sender().send(dead_letters(same_split)?).await?;
                }
                Ok(())
            }
        }
    }

    fn pass_on(&mut self, barrier: Barrier) -> Result<()> {
        let snapshot = self.source.snapshot(barrier)?;
        self.changed.store(false, Ordering::Relaxed);
        self.output.send_barrier(barrier)?;
        if let OnRejected::DeadLetters(input) = &self.on_rejected {
            input.sender().send_barrier(barrier)?;
        }
        self.tell(TaskEvent::Acknowledged { task: self.task.clone(), epoch: barrier.epoch, snapshot })
    }

    fn tell(&self, event: TaskEvent) -> Result<()> {
        self.events.send(event).map_err(|_closed| Error::retry("the driver has ended"))
    }
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
