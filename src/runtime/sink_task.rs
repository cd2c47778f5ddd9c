//! The tasks of a sink: one writes and pre-commits, the other makes visible.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::checkpoint::Completed;
use crate::clock::Clock;
use crate::error::Result;
use crate::runtime::channel::Inputs;
use crate::runtime::channel::Sender;
use crate::runtime::channel::gone;
use crate::runtime::driver::TaskEvent;
use crate::runtime::driver::refusal;
use crate::runtime::numbers::SinkNumbers;
use crate::runtime::source_task::OnRejected;
use crate::sink::Committer;
use crate::sink::SinkWriter;
use crate::state::is_out_of_room;
use crate::stream::Barrier;
use crate::stream::Element;
use crate::stream::Epoch;
use crate::stream::TaskId;
use crate::telemetry::Metrics;

/// The way into a sink, for the tasks in front of it.
#[derive(Debug, Clone)]
pub struct SinkInput(pub(crate) Sender);

impl SinkInput {
    pub(crate) fn sender(&self) -> &Sender {
        &self.0
    }
}

/// Commit a sink's committables of all epochs up to the completed one.
pub(crate) struct CommitOrder<C> {
    completed: Arc<Completed>,
    committables: Vec<C>,
}

/// What became visible.
pub(crate) struct CommitDone<C> {
    epoch: Epoch,
    done: Vec<C>,
}

/// Everything the writing task of a sink works with.
pub(crate) struct SinkTask<W: SinkWriter> {
    pub(crate) task: TaskId,
    pub(crate) writer: W,
    pub(crate) numbers: SinkNumbers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) input: Inputs,
    /// What becomes of records that the writer refuses.
    pub(crate) on_rejected: OnRejected,
    pub(crate) completed: mpsc::UnboundedReceiver<Arc<Completed>>,
    pub(crate) orders: mpsc::UnboundedSender<CommitOrder<W::Committable>>,
    pub(crate) done: mpsc::UnboundedReceiver<CommitDone<W::Committable>>,
    pub(crate) events: mpsc::UnboundedSender<TaskEvent>,
    /// What waits for the completion of its epoch. Aborted epochs carry theirs forward (C8).
    pub(crate) pending: Vec<(Epoch, W::Committable)>,
    /// Something became visible since the last barrier, and the ledger does not say so yet.
    pub(crate) changed: Arc<AtomicBool>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The two ends that the commit task needs.
pub(crate) struct CommitTask<C: Committer> {
    pub(crate) committer: C,
    pub(crate) orders: mpsc::UnboundedReceiver<CommitOrder<C::Committable>>,
    pub(crate) done: mpsc::UnboundedSender<CommitDone<C::Committable>>,
}

/// The channels between the two tasks of a sink.
#[expect(clippy::type_complexity, reason = "two pairs of channel ends, named where they are taken apart")]
pub(crate) fn commit_channels<C>() -> (
    (mpsc::UnboundedSender<CommitOrder<C>>, mpsc::UnboundedReceiver<CommitDone<C>>),
    (mpsc::UnboundedReceiver<CommitOrder<C>>, mpsc::UnboundedSender<CommitDone<C>>),
) {
    let (orders, ordered) = mpsc::unbounded_channel();
    let (done, told) = mpsc::unbounded_channel();
    ((orders, told), (ordered, done))
}

impl<W: SinkWriter> SinkTask<W> {
    /// Runs until its source is gone and everything it sent was dealt with.
    pub(crate) async fn run(mut self) -> Result<()> {
        // A roll that fell due is asked for once, until a barrier came.
        let mut asked = false;
        loop {
            let roll = if asked { None } else { self.writer.roll_due_in() };
            tokio::select! {
                biased;
                Some(done) = self.done.recv() => self.note(done)?,
                Some(completed) = self.completed.recv() => self.order(completed)?,
                element = self.input.recv() => match element? {
                    None => return self.writer.close().await,
                    Some((Element::Batch(batch), room)) => {
                        self.writer.write(batch).await?;
                        self.on_rejected.take(&self.writer.take_rejected(), &self.metrics).await?;
                        self.numbers.wrote(|| self.writer.status());
                        drop(room);
                    }
                    Some((Element::Barrier(barrier), _room)) => {
                        asked = false;
                        self.end_epoch(barrier).await?;
                    }
                },
                () = wait(&*self.clock, roll) => {
                    asked = true;
                    self.tell(TaskEvent::RollDue)?;
                }
            }
        }
    }

    /// Pre-commits, and acknowledges as soon as everything is durable, while records flow on.
    async fn end_epoch(&mut self, barrier: Barrier) -> Result<()> {
        let epoch = barrier.epoch;
        let prepared = self.writer.pre_commit(barrier).await;
        // The barrier goes on whatever came of it here: the sink behind must not wait for it.
        self.on_rejected.end_epoch(barrier)?;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            // A disk is full: the writer has kept everything, and the next barrier tries again (P7).
            Err(error) if is_out_of_room(&error) => {
                let refusal = refusal(&error);
                return self.tell(TaskEvent::Declined { task: self.task.clone(), epoch, refusal });
            }
            Err(error) => return Err(error),
        };
        self.numbers.ended(epoch, self.writer.status());
        self.changed.store(false, Ordering::Relaxed);
        self.pending.extend(prepared.committables.into_iter().map(|committable| (epoch, committable)));
        self.tell(TaskEvent::PreCommitted {
            task: self.task.clone(),
            epoch,
            snapshot: prepared.snapshot,
            durable: prepared.durable,
        })
    }

    /// Orders the commit of everything up to the completed epoch (R2).
    fn order(&mut self, completed: Arc<Completed>) -> Result<()> {
        let epoch = completed.epoch();
        self.numbers.completed(epoch);
        let (due, later): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|(of, _)| *of <= epoch);
        self.pending = later;
        if due.is_empty() {
            return self.tell(TaskEvent::Committed { task: self.task.clone(), epoch });
        }
        let committables = due.into_iter().map(|(_, committable)| committable).collect();
        let order = CommitOrder { completed, committables };
        self.orders.send(order).map_err(|_closed| gone("commit task"))
    }

    fn note(&mut self, done: CommitDone<W::Committable>) -> Result<()> {
        self.writer.committed(done.done)?;
        self.numbers.settle(self.writer.status());
        self.changed.store(true, Ordering::Relaxed);
        self.tell(TaskEvent::Committed { task: self.task.clone(), epoch: done.epoch })
    }

    fn tell(&self, event: TaskEvent) -> Result<()> {
        self.events.send(event).map_err(|_closed| gone("driver"))
    }
}

impl<C: Committer> CommitTask<C> {
    /// Runs until the writing task is gone.
    pub(crate) async fn run(mut self) -> Result<()> {
        while let Some(order) = self.orders.recv().await {
            let epoch = order.completed.epoch();
            let done = self.committer.commit(&order.completed, order.committables).await?;
            if self.done.send(CommitDone { epoch, done }).is_err() {
                break;
            }
        }
        Ok(())
    }
}

async fn wait(clock: &dyn Clock, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}
