//! Drives the coordinator: tells it what happened, does what it says.
//!
//! The coordinator decides and does no I/O; this file does the I/O and decides nothing.

use std::collections::BTreeMap;
use std::collections::VecDeque;
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
use crate::checkpoint::CompletionRecord;
use crate::checkpoint::Coordinator;
use crate::checkpoint::Event;
use crate::checkpoint::Request;
use crate::clock::Clock;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::pool::Pool;
use crate::runtime::dataflow::DataflowSettings;
use crate::runtime::dataflow::Outcome;
use crate::runtime::dataflow::StopRequest;
use crate::runtime::dataflow::flatten;
use crate::runtime::dataflow::vanished;
use crate::runtime::source_task::SourceCommand;
use crate::state::Snapshot;
use crate::stream::BarrierKind;
use crate::stream::Epoch;
use crate::stream::TaskId;
use crate::telemetry::JobMetrics;

/// What tasks tell the driver.
pub(crate) enum TaskEvent {
    /// The source has returned its last record.
    SourceEnded { task: TaskId },
    /// A task's snapshot is taken, and nothing beside the log has to become durable for it.
    Acknowledged { task: TaskId, epoch: Epoch, snapshot: Snapshot },
    /// A writer's snapshot is taken; it counts when `durable` resolves (P3).
    PreCommitted { task: TaskId, epoch: Epoch, snapshot: Snapshot, durable: BoxFuture<'static, Result<()>> },
    /// Everything of a sink up to the epoch is visible.
    Committed { task: TaskId, epoch: Epoch },
    /// A roll fell due.
    RollDue,
}

/// Something that became durable, or did not.
enum Settled {
    Snapshot { task: TaskId, epoch: Epoch, snapshot: Snapshot, result: Result<()> },
    Record { epoch: Epoch, store: Box<CheckpointStore>, result: Result<Completed> },
}

/// The one that drives.
pub(crate) struct Driver {
    clock: Arc<dyn Clock>,
    io: Pool,
    metrics: Arc<JobMetrics>,
    coordinator: Coordinator,
    fingerprint: u64,
    /// `None` while a completion record is being written.
    store: Option<Box<CheckpointStore>>,
    source: mpsc::UnboundedSender<SourceCommand>,
    sinks: BTreeMap<TaskId, mpsc::UnboundedSender<Arc<Completed>>>,
    changed: Vec<Arc<AtomicBool>>,
    settling: FuturesUnordered<BoxFuture<'static, Settled>>,
    started: BTreeMap<Epoch, Duration>,
}
