//! A job's past and state, to look at: read only, also beside the running job (D25).

use std::sync::Arc;

use crate::checkpoint::history::Checkpoint;
use crate::checkpoint::history::History;
use crate::checkpoint::record::StartRecord;
use crate::checkpoint::store::JobStart;
use crate::checkpoint::store::admit;
use crate::error::Error;
use crate::error::Result;
use crate::state::JournalReader;
use crate::state::StateView;
use crate::state::views;
use crate::stream::Epoch;
use crate::stream::Lsn;

/// What a job's log holds.
#[derive(Debug, Clone)]
pub struct Inspection {
    journal: Arc<dyn JournalReader>,
    history: History,
    start: Lsn,
    end: Lsn,
}

/// Reads what the log of a job holds, in one pass.
///
/// Beside a running job it sees one moment; a log that is given up below it meanwhile is an error to try
/// again after.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when a record cannot be read.
pub fn inspect(journal: Arc<dyn JournalReader>) -> Result<Inspection> {
    let (start, end) = (journal.start(), journal.end());
    let history = History::read(&*journal)?;
    Ok(Inspection { journal, history, start, end })
}

impl Inspection {
    /// The starts on record, the oldest first; those that no checkpoint needs are not kept for long.
    pub fn starts(&self) -> impl DoubleEndedIterator<Item = &StartRecord> {
        self.history.starts.values().map(|(start, _)| start)
    }

    /// The newest start: it names job, source, sink and lineage. `None` in a log never used.
    pub fn newest_start(&self) -> Option<&StartRecord> {
        self.history.newest_start()
    }

    /// The completed checkpoints that can be restored, the oldest first.
    pub fn checkpoints(&self) -> impl DoubleEndedIterator<Item = &Checkpoint> {
        self.history.checkpoints.values().filter(|checkpoint| {
            checkpoint.floor() >= self.start
                && self.history.starts.contains_key(&checkpoint.record.incarnation)
        })
    }

    /// The newest completed checkpoint.
    pub fn newest(&self) -> Option<&Checkpoint> {
        self.history.newest()
    }

    /// Whether [`crate::checkpoint::CheckpointStore::start`] would take `job`.
    ///
    /// # Errors
    ///
    /// Those that it would refuse the job with.
    pub fn admit(&self, job: &JobStart) -> Result<()> {
        admit(job, self.newest_start(), self.newest())
    }

    /// The states of all tasks at a checkpoint, by name.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the log has no such checkpoint, [`crate::ErrorKind::Damage`] when
    /// it does not hold a state in full.
    pub fn states(&self, epoch: Epoch) -> Result<Vec<StateView>> {
        let Some(checkpoint) = self.checkpoints().find(|checkpoint| checkpoint.record.epoch == epoch) else {
            return Err(Error::usage(format!("there is no checkpoint {epoch} that can be restored")));
        };
        views(&self.journal, self.history.plan(checkpoint)?)
    }

    /// First position of the log, and the one behind the last: what lies above the newest checkpoint's
    /// record belongs to no checkpoint.
    pub fn log(&self) -> (Lsn, Lsn) {
        (self.start, self.end)
    }
}
