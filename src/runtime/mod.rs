//! Runs the tasks of a dataflow, carries barriers between them, and drives checkpoints.
//!
//! Owns the tasks, their channels and the order in which a checkpoint's steps reach them. Does not
//! own the decision when a checkpoint is complete (`checkpoint::Coordinator`, which does no I/O), nor
//! what the tasks do: sources and sinks come in as values and leave as nothing but channels.
//!
//! ```text
//!   source task --Element--> sink task --(completed, committables)--> commit task
//!        |   ^                  |   ^                                      |
//!        |   | inject,          |   | completed                            | done
//!        v   | completed        v   +--------------------------------------+
//!       driver: Coordinator, CheckpointStore
//! ```
//!
//! - **R1** Elements of one channel are never reordered, and a barrier is passed on only after the
//!   task's snapshot was appended to the log (P14).
//! - **R2** A commit starts only from a [`crate::checkpoint::Completed`].
//! - **R3** When an attempt ends, well or not, every task and every job of the pools has ended before
//!   [`Dataflow::run`] returns (P10).

mod align;
mod channel;
mod dataflow;
mod driver;
mod numbers;
mod sink_task;
mod source_task;

pub use align::Aligner;
pub use dataflow::Dataflow;
pub use dataflow::DataflowSettings;
pub use dataflow::Observer;
pub use dataflow::Outcome;
pub use dataflow::RunEvent;
pub use dataflow::Start;
pub use dataflow::StopRequest;
pub use sink_task::SinkInput;
pub use source_task::OnRejected;
