//! A disk in memory that counts its steps, crashes at one of them, and loses what was not synced.
//!
//! Owns the fault model of `storage::disk` (S1..S5), made as unkind as the promises allow. Does not
//! own what a job does about it.
//!
//! # What a crash leaves
//!
//! ```text
//!                     LoseUnsynced       AnySubset                          ProcessOnly
//!  bytes of a file    as of its last     each 512-byte sector as of its     all, still unsynced
//!                     good sync          last sync or after any later write
//!  length of a file   as of its last     any it had since then              as it was
//!                     good sync
//!  entry of a folder  as of the last     each operation or not, none        all, still unsynced
//!                     sync of it         without what it builds on
//! ```
//!
//! An operation builds on an earlier one of the same name, a link also on the making of its source,
//! the removal of a folder on all that was done in it. A rename is one operation (S3); across
//! folders it is durable once both are synced. A file without a durable name is gone, and so is
//! everything in a folder without one.
//!
//! After `ProcessOnly` the new disk still knows what is unsynced, so that a later loss of power may
//! take it away (P5: a killed process first, a loss of power later).
//!
//! # Not modelled
//!
//! Symbolic links, permissions, times, several file systems (inject `CrossesDevices`), reuse of the
//! inode number of a removed file.

mod content;
mod control;
mod disk;
mod file;
mod tree;

#[cfg(test)]
mod tests;

pub use control::Step;
pub use control::StepKind;
pub use control::is_simulated_crash;
pub use disk::CrashDisk;
pub use disk::CrashModel;
