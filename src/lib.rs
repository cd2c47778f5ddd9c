//! Alluvium lands event streams as well-sized, bucketed Parquet, end-to-end exactly once, in one
//! process.
//!
//! It is a program (`alluvium run pipeline.toml`) and this crate. From Rust one can run a whole
//! [`pipeline::Job`], or use a room alone: the write-ahead log ([`wal`]), the state on it ([`state`]), the
//! checkpoints ([`checkpoint`]), the file sink ([`sink::file`]).
//!
//! # The rooms, in the order of the stream
//!
//! ```text
//!  source  ==batch, barrier==>  operator  ==batch, barrier==>  sink
//!    |  ^                                                     |    |
//!    |  | position, snapshot                      pre-commit  |    | committables
//!    v  |                                                     v    v
//!    +--+---------------> checkpoint <------------------------+   sink's committer: make visible
//!                             |   completed(epoch) ----------------^
//!                             v
//!                    state on the log (wal), on storage
//! ```
//!
//! Data goes left to right, durability goes down, and permission to commit comes back up as a value
//! ([`checkpoint::Completed`]), never as a flag. A room uses only rooms below it; a test keeps the order.
//!
//! # Three walks through the code
//!
//! **One record.** [`pipeline::Job`] wires the rooms. [`source::FileSource`] cuts a file at record boundaries
//! and decodes the pieces on the computing threads ([`mod@format`]); a [`stream::Batch`] knows the position of
//! each of its rows. [`runtime`] hands it through a channel bounded in bytes to
//! [`sink::file::FileWriter`], which asks a [`sink::file::bucket::BucketAssigner`] for each row's bucket,
//! gathers rows, and encodes full row groups ([`format::parquet`]) into a part file in staging.
//!
//! **One epoch.** The [`checkpoint::Coordinator`] says *inject*; the source appends its positions to the log
//! and sends the barrier on; the writer appends what changed (lengths, row groups, rows that wait) and
//! gives a future that resolves when its files are synced; when all have acknowledged,
//! [`checkpoint::CheckpointStore::write`] makes the completion record durable, the one commit point;
//! the [`checkpoint::Completed`] it returns lets [`sink::file::FileCommitter`] rename the files that
//! were pending into the table and sync the folders.
//!
//! **One restart.** The lock, then [`wal::Wal::open`], which cuts a torn tail, refuses damage, and makes
//! durable what it accepts; [`checkpoint::CheckpointStore::start`] takes the next incarnation and declares
//! void what lies above the newest checkpoint; [`sink::file::FileSink::check`] looks at every file that the
//! checkpoint names before [`sink::file::FileSink::recover`] changes any; pending files are committed
//! (again), files that no record names are deleted, the source goes back to its positions.
//!
//! # Doors
//!
//! Disk, clock, randomness and threads come in as one argument, [`doors::Doors`]. With
//! [`testing::sim_doors`] a whole job runs on a simulated disk that loses what was not synced, and is a
//! function of its seed.

pub mod checkpoint;
pub mod clock;
pub mod codec;
#[cfg(feature = "cli")]
pub mod dashboard;
pub mod doors;
mod error;
pub mod format;
pub mod operator;
pub mod pipeline;
pub mod pool;
pub mod runtime;
pub mod sink;
pub mod source;
pub mod state;
pub mod storage;
pub mod stream;
pub mod telemetry;
pub mod testing;
pub mod wal;

pub use error::Error;
pub use error::ErrorKind;
pub use error::Result;
