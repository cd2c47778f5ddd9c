//! A state directory, looked at without opening it: no lock, nothing is cut (D25).
//!
//! Owns the moment: what is read of a log that a job writes meanwhile belongs to one checkpoint, or it is
//! read again. Does not own what is made of it (`inspect`, `verify`, `gc`, `check`).

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::checkpoint::Inspection;
use crate::checkpoint::inspect;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::pipeline::job::LOG;
use crate::state::StateView;
use crate::stream::Epoch;
use crate::stream::Lineage;
use crate::wal::WalError;
use crate::wal::WalReader;

/// Looks before damage is believed although the log changes each time. A running job gives up old
/// segments and uses them again: what was being read there looks damaged.
const ATTEMPTS: usize = 8;

/// The log of a state directory as it was at one moment.
pub(crate) struct Seen {
    /// Starts and checkpoints.
    pub inspection: Inspection,
    /// States of all tasks at the newest checkpoint; none before the first.
    pub newest: Vec<StateView>,
}

impl Seen {
    /// Reads the state directory `state`, and hands it to `read`. Blocks.
    ///
    /// `read` is called again, with a later moment, when what it reads is given up under its hands.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] when there is no state directory, [`ErrorKind::Damage`] when it cannot be
    /// read back, and whatever `read` gives.
    pub(crate) fn read<T>(doors: &Doors, state: &Path, read: impl Fn(&Self) -> Result<T>) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (before, failure) = match Self::open(doors, state) {
                Ok(seen) => match read(&seen) {
                    Err(failure) if failure.kind() == ErrorKind::Damage => {
                        (Some(seen.inspection.log()), failure)
                    }
                    done => return done,
                },
                Err(failure) if failure.kind() == ErrorKind::Damage => (None, failure),
                Err(failure) => return Err(failure),
            };
            let after = log(doors, state).ok().map(|log| (log.start(), log.end()));
            if attempts == ATTEMPTS
                || (before.is_some() && before == after)
                || (attempts > 2 && after.is_none())
            {
                return Err(failure);
            }
        }
    }

    fn open(doors: &Doors, state: &Path) -> Result<Self> {
        let inspection = inspect(Arc::new(log(doors, state)?))?;
        let newest = match inspection.newest().map(|newest| newest.record.epoch) {
            Some(epoch) => inspection.states(epoch)?,
            None => Vec::new(),
        };
        Ok(Self { inspection, newest })
    }

    /// The state's random id; `None` before the first start.
    pub(crate) fn lineage(&self) -> Option<Lineage> {
        self.inspection.newest_start().map(|start| start.lineage)
    }

    /// The newest completed checkpoint.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        self.inspection.newest()
    }

    /// The number of the newest completed checkpoint.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.checkpoint().map(|checkpoint| checkpoint.record.epoch)
    }

    /// The state of the task called `name` at the newest checkpoint.
    pub(crate) fn task(&self, name: &str) -> Option<&StateView> {
        self.newest.iter().find(|view| view.task().as_str() == name)
    }
}

/// Whether there is a state directory at `state` that a job has used. Blocks.
///
/// # Errors
///
/// [`ErrorKind::Retry`] when that cannot be seen.
pub(crate) fn is_there(doors: &Doors, state: &Path) -> Result<bool> {
    let made = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name == "manifest" || name.ends_with(".wal"))
    };
    match doors.disk.list(&state.join(LOG)) {
        Ok(entries) => Ok(entries.iter().any(|entry| made(&entry.name))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => {
            Err(Error::retry(format!("{} cannot be looked at", state.display())).with_source(error))
        }
    }
}

/// The absolute path of `state`, without links.
///
/// # Errors
///
/// [`ErrorKind::Usage`] when nothing is there.
pub(crate) fn find(doors: &Doors, state: &Path) -> Result<PathBuf> {
    let missing = |what: &str| {
        Error::usage(format!(
            "{}: {what}; name the folder that the pipeline file calls checkpoint.state, and that a run has made",
            state.display()
        ))
    };
    match doors.disk.canonicalize(state) {
        Ok(found) if is_there(doors, &found)? => Ok(found),
        Ok(_) => Err(missing("there is no log of a job in it")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing("there is no such folder")),
        Err(error) => {
            Err(Error::retry(format!("{} cannot be looked at", state.display())).with_source(error))
        }
    }
}

fn log(doors: &Doors, state: &Path) -> Result<WalReader> {
    WalReader::open(&state.join(LOG), doors).map_err(|error| match error {
        // Its segments are there.
        WalError::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Error::damage("the manifest of the log is missing").with_source(error)
        }
        error => error.into(),
    })
}
