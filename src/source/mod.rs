//! Readers of streams that can go back to a recorded position.

mod file;

use std::future::Future;

use crate::checkpoint::Completed;
use crate::error::Result;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Rejected;

pub use file::CHUNK_BYTES;
pub use file::FileSettings;
pub use file::FileSource;
pub use file::POLL;
pub use file::READ_AHEAD_BYTES;
pub use file::RECORD_LIMIT;
pub use file::Sample;
pub use file::SourceStatus;
pub use file::SplitPosition;
pub use file::matching;
pub use file::positions;
pub use file::prove;
pub use file::sample;

/// A source that can go back: what a completed checkpoint recorded is read again from there.
///
/// It is opened with the state of its task, in which it keeps the positions of its splits.
pub trait ReplayableSource: Send {
    /// The next records, in order within each split.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: what it would have returned comes from the next call.
    fn next(&mut self) -> impl Future<Output = Result<Read>> + Send;

    /// Ends the epoch: appends to the state the position behind everything that [`Self::next`] has
    /// returned, and names the snapshot (P14).
    fn snapshot(&mut self, barrier: Barrier) -> Result<Snapshot>;

    /// A checkpoint completed: what lies before its positions may be forgotten (P24).
    fn committed(&mut self, completed: &Completed) -> Result<()>;

    /// How far it is, for metrics; asked several times a second.
    fn status(&self) -> SourceStatus {
        SourceStatus::default()
    }
}

/// What [`ReplayableSource::next`] found.
#[derive(Debug)]
pub enum Read {
    /// Records and records that could not be taken.
    Records {
        /// The valid ones.
        batches: Vec<Batch>,
        /// The others.
        rejected: Vec<Rejected>,
    },
    /// The input has ended; never before everything was returned, and again at each further call.
    End,
}
