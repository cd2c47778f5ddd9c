//! What the log says of starts and completed checkpoints.
//!
//! Pure but for reading: `start`, `write` and `inspect` all see the job's past through it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::checkpoint::record::COMPLETION;
use crate::checkpoint::record::CompletionRecord;
use crate::checkpoint::record::START;
use crate::checkpoint::record::StartRecord;
use crate::error::Error;
use crate::error::Result;
use crate::state::JournalReader;
use crate::state::PlannedTask;
use crate::state::RestorePlan;
use crate::state::foreign_kind;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lsn;

/// A completed checkpoint in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its completion record, the newest copy.
    pub record: CompletionRecord,
    /// When the record was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// Where the record is.
    pub at: Lsn,
}

impl Checkpoint {
    /// The oldest position that a restore of it needs.
    pub fn floor(&self) -> Lsn {
        self.record.floor().map_or(self.at, |floor| floor.min(self.at))
    }
}

/// Starts and checkpoints, the newest record of each.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// Starts and where their newest record is.
    pub starts: BTreeMap<Incarnation, (StartRecord, Lsn)>,
    /// Checkpoints by number.
    pub checkpoints: BTreeMap<Epoch, Checkpoint>,
}

impl History {
    /// Reads a log.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when a record cannot be read or the records contradict each other:
    /// never a silent step back to an older checkpoint.
    pub(super) fn read(journal: &dyn JournalReader) -> Result<Self> {
        let start = journal.start();
        let mut history = Self::default();
        let mut empty = true;
        for logged in journal.replay(start)? {
            let logged = logged?;
            empty = false;
            let at = logged.at;
            let unreadable = |what, error| {
                Error::from(error).context(format_args!("the {what} record at {at} of the log"))
            };
            match foreign_kind(&logged.entry) {
                Some(START) => {
                    let start =
                        StartRecord::decode(&logged.entry).map_err(|error| unreadable("start", error))?;
                    history.starts.insert(start.incarnation, (start, at));
                }
                Some(COMPLETION) => {
                    let (record, at_ms) = CompletionRecord::decode(&logged.entry)
                        .map_err(|error| unreadable("completion", error))?;
                    history.add(Checkpoint { record, at_ms, at })?;
                }
                _ => {}
            }
        }
        history.check(empty, start)?;
        Ok(history)
    }

    /// The newest start.
    pub(super) fn newest_start(&self) -> Option<&StartRecord> {
        self.starts.last_key_value().map(|(_, (start, _))| start)
    }

    /// The newest checkpoint.
    pub(super) fn newest(&self) -> Option<&Checkpoint> {
        self.checkpoints.last_key_value().map(|(_, checkpoint)| checkpoint)
    }

    /// Takes note of a completion record.
    pub(super) fn add(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let above = checkpoint.record.tasks.values().find(|task| task.snapshot.lsn > checkpoint.at);
        if above.is_some() {
            return Err(Error::damage(format!(
                "the completion record of checkpoint {} at {} of the log names a snapshot behind itself",
                checkpoint.record.epoch, checkpoint.at
            )));
        }
        self.checkpoints.insert(checkpoint.record.epoch, checkpoint);
        Ok(())
    }

    /// Forgets all but the `retain` newest checkpoints, and the starts that nobody needs.
    pub(super) fn retain(&mut self, retain: usize, start: Lsn) {
        while self.checkpoints.len() > retain.max(1) {
            self.checkpoints.pop_first();
        }
        let (starts, newest) = (&self.starts, self.checkpoints.keys().next_back().copied());
        // What fell below the start of the log was let go by an earlier run that retained fewer.
        self.checkpoints.retain(|epoch, checkpoint| {
            Some(*epoch) == newest
                || (checkpoint.floor() >= start && starts.contains_key(&checkpoint.record.incarnation))
        });
        let needed = self.needed_starts();
        self.starts.retain(|incarnation, _| needed.contains(incarnation));
    }

    /// The starts by whose void ranges retained checkpoints are read, and the newest.
    fn needed_starts(&self) -> BTreeSet<Incarnation> {
        let newest = self.starts.keys().next_back().copied();
        let readers = self.checkpoints.values().map(|checkpoint| checkpoint.record.incarnation);
        readers.chain(newest).collect()
    }

    /// The oldest position that the retained checkpoints need, `None` when there are none.
    pub(super) fn floor(&self) -> Option<Lsn> {
        self.checkpoints.values().map(Checkpoint::floor).min()
    }

    /// What a restore of `checkpoint` reads.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the start it is read by is missing.
    pub(super) fn plan(&self, checkpoint: &Checkpoint) -> Result<RestorePlan> {
        let record = &checkpoint.record;
        let Some((start, _)) = self.starts.get(&record.incarnation) else {
            return Err(missing_start(record));
        };
        let mut tasks = Vec::new();
        for (task, found) in &record.tasks {
            let Some(number) = start.tasks.get(task).copied() else {
                return Err(Error::damage(format!(
                    "checkpoint {} has state of a task {task} that incarnation {} does not know",
                    record.epoch, record.incarnation
                )));
            };
            let voids = start.voids.get(&number).cloned().unwrap_or_default();
            tasks.push(PlannedTask { task: task.clone(), number, snapshot: Some(found.snapshot), voids });
        }
        Ok(RestorePlan { tasks })
    }

    fn check(&self, empty: bool, start: Lsn) -> Result<()> {
        let Some(newest_start) = self.newest_start() else {
            if empty {
                return Ok(());
            }
            return Err(Error::damage(format!("the log from {start} on has entries but no start record")));
        };
        let newest = self.newest();
        if newest_start.restored > newest.map(|checkpoint| checkpoint.record.epoch) {
            return Err(Error::damage(format!(
                "incarnation {} went on from checkpoint {}, which the log does not have",
                newest_start.incarnation,
                newest_start.restored.unwrap_or(Epoch(0))
            )));
        }
        let Some(newest) = newest else { return Ok(()) };
        if !self.starts.contains_key(&newest.record.incarnation) {
            return Err(missing_start(&newest.record));
        }
        if newest.floor() < start {
            return Err(Error::damage(format!(
                "the newest checkpoint, {}, needs the log from {} on; it begins at {start}",
                newest.record.epoch,
                newest.floor()
            )));
        }
        Ok(())
    }
}

fn missing_start(record: &CompletionRecord) -> Error {
    Error::damage(format!(
        "checkpoint {} is to be read by incarnation {}, whose start record the log does not have",
        record.epoch, record.incarnation
    ))
}
