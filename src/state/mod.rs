//! State of tasks on the log: what a task must know again after a restart, and bytes logged only for
//! what changed.
//!
//! Owns the entries of values and lists, their restore, and the rewriting of old ones. Does not own
//! bytes on disk (`wal`, or [`MemoryJournal`] in tests), nor which checkpoint is restored (`checkpoint`).
//!
//! A task has one [`State`], a handle with keys (small values) and lists (append-only, items of any
//! size). Every change becomes an *entry* of the one log of the job; an index in memory says where the
//! newest entry of each key and item lies. A snapshot is therefore only a pair of log positions.
//!
//! # Invariants
//!
//! - **T1** The state of a task at a snapshot is what its entries from `floor` on and below `lsn` say,
//!   applied in their order, without those in a void range (P14, P15). Nothing else is read.
//! - **T2** Every entry that a state still needs lies at or above the floor of its snapshot, and the
//!   floor is the oldest of them. A restored state whose oldest entry is another one is damage.
//! - **T3** Within the life of a list its indices are consecutive and never used twice; a list that was
//!   dropped and made again has another life.
//! - **T4** A failed append changes nothing: the same snapshot may be tried again.
//! - **T5** Nothing new, nothing appended, unless old entries are being rewritten.
//!
//! Read `entry` for the bytes, `index` for what is in memory, `restore` for the way back, and `handle` for
//! what a task does with it.

mod journal;
mod logged;
mod memory;

mod entry;
mod void;

mod index;
mod restore;

mod backend;
mod handle;

mod compact;
mod reader;
mod view;

#[cfg(test)]
mod tests;

pub use backend::PlannedTask;
pub use backend::RestorePlan;
pub use backend::StateBackend;
pub use backend::StateSettings;
pub use entry::FOREIGN_KIND_MIN;
pub use entry::foreign_kind;
pub use handle::State;
pub use handle::StateStats;
pub use journal::Journal;
pub use journal::JournalError;
pub use journal::JournalReader;
pub use journal::Replay;
pub use journal::is_out_of_room;
pub use memory::MemoryJournal;
pub use reader::ItemRef;
pub use reader::StateReader;
pub use view::StateView;
pub use void::Voids;

pub(crate) use backend::StateGuard;
pub(crate) use backend::views;

use crate::stream::Lsn;

/// What a task's part of a checkpoint is: its state is what the log holds of it below `lsn` (P14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Restore reads records of the task below this position, and none above.
    pub lsn: Lsn,
    /// The oldest record that the state still needs; `lsn` when it needs none.
    pub floor: Lsn,
}
