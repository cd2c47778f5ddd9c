//! Decides when a checkpoint is complete, makes its completion record durable, and says what a start
//! restores.
//!
//! Owns the order of a checkpoint's steps, the completion records and the start records of a job in its
//! log. Does not own the state itself (`state`), nor the tasks that take part (`runtime`).
//!
//! The life of a checkpoint: the [`Coordinator`] injects a barrier; each task acknowledges with a
//! [`crate::state::Snapshot`]; the record that lists them goes through [`CheckpointStore::write`], whose
//! sync is the one commit point of the whole distributed transaction; the [`Completed`] that it returns
//! is what lets sinks commit.
//!
//! # Invariants
//!
//! - **K1** A completion record is written only when every task that takes part has acknowledged its
//!   epoch, or its last snapshot is in a completed checkpoint (P26).
//! - **K2** Only [`CheckpointStore`] makes a [`Completed`], from a record that is durable; another engine
//!   that hosts a sink says by [`Completed::attest`] that it did the like.
//! - **K3** An epoch's number is given out once. Aborting one takes nothing back: its committables and
//!   changes belong to the next one, and once its record was appended it may be complete whatever the
//!   coordinator was told (P6).
//! - **K4** A start appends and syncs, in one frame, its start record (the incarnation, what is void) and
//!   a copy of the completion record that it restores, before anything acts on what was restored (P15).
//! - **K5** The log is kept from the oldest position that a retained checkpoint, the start record it is
//!   read by, or a reader needs.

mod coordinator;
mod restart;

mod fingerprint;
mod record;

mod completed;
mod history;
mod store;

mod inspect;

#[cfg(test)]
mod tests;

pub use completed::Completed;
pub use coordinator::Action;
pub use coordinator::Coordinator;
pub use coordinator::CoordinatorSettings;
pub use coordinator::Event;
pub use coordinator::Job;
pub use coordinator::Member;
pub use coordinator::Refusal;
pub use coordinator::Request;
pub use coordinator::Role;
pub use coordinator::Status;
pub use fingerprint::Compatibility;
pub use fingerprint::Fingerprint;
pub use fingerprint::decide_fingerprint;
pub use history::Checkpoint;
pub use inspect::Inspection;
pub use inspect::inspect;
pub use record::CompletionKind;
pub use record::CompletionRecord;
pub use record::StartRecord;
pub use record::TaskRecord;
pub use restart::RestartDecision;
pub use restart::RestartPolicy;
pub use restart::Restarts;
pub use store::CheckpointSettings;
pub use store::CheckpointStore;
pub use store::JobStart;
pub use store::Restored;
pub use store::Started;
pub use store::WriteError;
