//! Writers that prepare, committers that make visible.

pub mod file;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::checkpoint::Completed;
use crate::error::Result;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Rejected;

/// Turns batches into things that become visible together.
pub trait SinkWriter: Send {
    /// What the committer needs to make one thing visible, in any process.
    type Committable: Clone + Send + 'static;

    /// Takes `batch` into the current epoch. Nothing becomes visible.
    ///
    /// # Cancellation
    ///
    /// Not allowed: a dropped call may have taken half of the batch, and the task must fail.
    fn write(&mut self, batch: Batch) -> impl Future<Output = Result<()>> + Send;

    /// Records of the batches so far that this sink cannot take, each once.
    fn take_rejected(&mut self) -> Vec<Rejected> {
        Vec::new()
    }

    /// Ends the epoch of `barrier`; the next epoch may be written while it becomes durable.
    ///
    /// Every state record of the epoch is appended before this returns (P14). The committables of
    /// the epoch and the state a restarted writer needs come in one value, because the two must
    /// describe the same instant. Nothing becomes visible. It may wait for encoders that are at work,
    /// never for a sync.
    ///
    /// # Errors
    ///
    /// A failed write is an [`crate::ErrorKind::Retry`] of the task (P7): the job restarts from the last
    /// completed checkpoint, nothing is carried forward.
    fn pre_commit(
        &mut self,
        barrier: Barrier,
    ) -> impl Future<Output = Result<PreCommit<Self::Committable>>> + Send;

    /// How long until a roll falls due by age or inactivity; the runtime then asks for a checkpoint,
    /// at whose barrier the writer rolls. `None`: nothing waits.
    fn roll_due_in(&self) -> Option<Duration>;

    /// The job has ended well: frees what is left of the sink outside of its state. It never gives up
    /// anything that a checkpoint names (C11).
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes note of what became visible: it leaves the state with the next epoch (P4).
    fn committed(&mut self, done: Vec<Self::Committable>) -> Result<()>;

    /// How far it is, for metrics; asked several times a second.
    fn status(&self) -> SinkStatus {
        SinkStatus::default()
    }
}

/// How far a sink is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SinkStatus {
    /// Rows taken since the first start of the job, wherever they are now.
    pub rows: u64,
    /// Those that are visible.
    pub rows_visible: u64,
    /// Those in memory alone.
    pub rows_buffered: u64,
    /// Those that wait in the state.
    pub rows_spilled: u64,
    /// Memory of rows and encoders, in bytes.
    pub bytes_buffered: u64,
    /// Buckets with a file in progress.
    pub buckets_open: u64,
    /// Files in progress.
    pub files_open: u64,
    /// Closed files that are not visible yet.
    pub files_pending: u64,
    /// Visible files since the first start of the job.
    pub files_visible: u64,
    /// Their bytes.
    pub bytes_visible: u64,
}

/// The end of an epoch in a writer.
pub struct PreCommit<C> {
    /// What becomes visible when the epoch's checkpoint, or a later one, completes. Each is handed over
    /// once: whoever hosts the sink carries those of an aborted epoch on to the next (C8), and finds
    /// all of them again, in the writer's state, after a restart.
    pub committables: Vec<C>,
    /// The writer's state at the barrier.
    pub snapshot: Snapshot,
    /// Resolves when everything the snapshot names is durable; only then is it acknowledged (P3).
    pub durable: BoxFuture<'static, Result<()>>,
}

impl<C> fmt::Debug for PreCommit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreCommit")
            .field("committables", &self.committables.len())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// Makes committables visible, once each, however often it is asked.
pub trait Committer: Send {
    /// What is made visible.
    type Committable: Clone + Send + 'static;

    /// Makes `committables`, all of epochs up to the completed one, visible and durably so.
    ///
    /// One that is already visible is skipped, the rest still happen.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when one can neither be committed nor was (C4, C5).
    fn commit(
        &mut self,
        completed: &Completed,
        committables: Vec<Self::Committable>,
    ) -> impl Future<Output = Result<Vec<Self::Committable>>> + Send;
}
