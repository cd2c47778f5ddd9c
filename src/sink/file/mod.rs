//! Part files in buckets on a local disk, each visible exactly once.
//!
//! Owns part files from their first row to their name in the table. Does not own what a checkpoint
//! is, nor the bytes of a format.
//!
//! A row goes to a bucket ([`bucket`]), waits there in memory or spilled to the log, until a
//! row group is full and is encoded on another thread ([`encode`]) and appended to its part file
//! ([`descriptors`]) in a staging folder beside the table ([`staging`]). At a barrier files that are due
//! ([`rolling`]) are finished; once the checkpoint is complete the committer renames them into
//! the table. [`part`] has what the state remembers of a file, [`recover`] what a start does with it.
//!
//! # States of a file
//!
//! ```text
//!               in the state       on the disk                     leaves the state
//!  in progress  part, groups, rows staging, cut to `len` at starts when it is closed
//!  pending      part               staging, or in the table        when seen in the table, synced (P4)
//!  committed    ledger             in the table                    never
//! ```
//!
//! What is promised: see the invariants P1 to P12, as far as they speak of files, and B, D, F, G, N of the
//! files here.
//!
//! # Memory
//!
//! `memory_bytes` bounds rows and what they become: when rows take half of it, those of the largest buckets are
//! spilled, each row at most once, rather than closing row groups early: row groups keep their size however many buckets there
//! are, and the log is where those rows would go at the next barrier anyway.

mod barrier;
pub mod bucket;
mod committer;
mod config;
mod descriptors;
mod durable;
mod encode;
mod ledger;
mod memory;
mod name;
mod part;
mod plan;
mod recover;
mod rolling;
mod sink;
mod staging;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use committer::FileCommitter;
pub use config::FileSinkSettings;
pub use config::Identity;
pub use config::OnUnplaced;
pub use encode::Compression;
pub use encode::LineSettings;
pub use encode::PartFormat;
pub use ledger::OpenPart;
pub use ledger::SinkState;
pub use ledger::ledger;
pub use ledger::ledger_from;
pub use ledger::losses;
pub use ledger::open_parts;
pub use ledger::table_folder;
pub use name::PartName;
pub use name::staging_root;
pub use part::ClosedPart;
pub use part::Content;
pub use plan::Plan;
pub use plan::checksum;
pub use recover::Damage;
pub use recover::Found;
pub use recover::Recorded;
pub use recover::Verdict;
pub use recover::judge;
pub use rolling::PartFacts;
pub use rolling::RollReason;
pub use rolling::RollingPolicy;
pub use sink::FileSink;
pub(crate) use staging::resolve;
pub use writer::FileWriter;
pub use writer::WriterStats;
