//! What a run has done, from what the state says before and after it: the durable truth, whatever was
//! counted on the way and however often the job restarted.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::doors::Doors;
use crate::error::Result;
use crate::pipeline::inspect::Totals;
use crate::pipeline::job::DEAD_LETTERS;
use crate::pipeline::job::SINK;
use crate::pipeline::job::SOURCE;
use crate::pipeline::model::Pipeline;
use crate::pipeline::seen;
use crate::pipeline::seen::Seen;
use crate::sink::file::ledger_from;
use crate::sink::file::open_parts;
use crate::sink::file::table_folder;
use crate::source::positions;

/// How far a job is at its newest checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    epoch: u64,
    records: BTreeMap<String, u64>,
    sinks: BTreeMap<String, SinkStanding>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SinkStanding {
    table: Option<PathBuf>,
    /// Items of the ledger.
    ledger: u64,
    /// Those that were asked for.
    landed: Totals,
    buckets: BTreeSet<String>,
    splits: BTreeSet<String>,
    waiting: Waiting,
}

/// Rows that are safe and not visible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Rows.
    pub rows: u64,
    /// Files that they are in or will be in.
    pub files: u64,
}

/// What was done between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records read, bad ones included.
    pub records: u64,
    /// Splits in which they were.
    pub splits: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// What became visible in the table.
    pub landed: Landed,
    /// What became visible of the dead letters.
    pub dead_letters: Landed,
    /// Records that were read and went nowhere: filtered out, or skipped as bad.
    pub left_out: u64,
}

/// What became visible of a sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Landed {
    /// The table's folder, once there is one.
    pub table: Option<PathBuf>,
    /// Files, rows and bytes.
    pub new: Totals,
    /// Buckets in which they are.
    pub buckets: u64,
    /// Splits from which they come.
    pub splits: Vec<String>,
    /// Rows that are safe and not visible yet, from whenever.
    pub waiting: Waiting,
}

impl Standing {
    /// Reads how far the job of `pipeline` is; one that has not run yet is at the beginning. It blocks.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the state cannot be read back.
    pub fn of(pipeline: &Pipeline, doors: &Doors) -> Result<Self> {
        Self::since(pipeline, doors, &Self::default())
    }

    fn since(pipeline: &Pipeline, doors: &Doors, before: &Self) -> Result<Self> {
        let state = &pipeline.checkpoint.state;
        if !seen::is_there(doors, state)? {
            return Ok(Self::default());
        }
        Seen::read(doors, state, |seen| Self::read(seen, before))
    }

    fn read(seen: &Seen, before: &Self) -> Result<Self> {
        let mut standing = Self { epoch: seen.epoch().map_or(0, |epoch| epoch.0), ..Self::default() };
        for view in &seen.newest {
            let task = view.task().as_str();
            if task == SOURCE {
                let splits = positions(view)?.into_iter();
                standing.records =
                    splits.map(|split| (split.split.as_str().to_owned(), split.records)).collect();
                continue;
            }
            let from = before.sinks.get(task).map_or(0, |before| before.ledger);
            let mut sink =
                SinkStanding { table: table_folder(view)?, ledger: from, ..SinkStanding::default() };
            for part in ledger_from(view, from) {
                let part = part?;
                sink.ledger += 1;
                sink.landed.add(&part);
                sink.buckets.insert(part.bucket.as_str().to_owned());
                sink.splits.extend(part.spans.keys().map(|split| split.as_str().to_owned()));
            }
            for part in open_parts(view)? {
                sink.waiting.files += 1;
                sink.waiting.rows += part.content.rows + part.waiting_rows;
            }
            standing.sinks.insert(task.to_owned(), sink);
        }
        Ok(standing)
    }
}

impl Summary {
    /// What the job of `pipeline` has done since it stood at `before`. It blocks.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the state cannot be read back.
    pub fn since(pipeline: &Pipeline, doors: &Doors, before: &Standing) -> Result<Self> {
        let now = Standing::since(pipeline, doors, before)?;
        let read = now
            .records
            .iter()
            .map(|(split, records)| records.saturating_sub(before.records.get(split).copied().unwrap_or(0)));
        let read: Vec<u64> = read.filter(|records| *records > 0).collect();
        let records = read.iter().sum();
        let taken = |task: &str| {
            let waiting = |standing: &Standing| standing.sinks.get(task).map_or(0, |sink| sink.waiting.rows);
            let landed = now.sinks.get(task).map_or(0, |sink| sink.landed.rows);
            (landed + waiting(&now)).saturating_sub(waiting(before))
        };
        Ok(Self {
            records,
            splits: read.len() as u64,
            checkpoints: now.epoch.saturating_sub(before.epoch),
            landed: now.landed(SINK),
            dead_letters: now.landed(DEAD_LETTERS),
            left_out: records.saturating_sub(taken(SINK) + taken(DEAD_LETTERS)),
        })
    }

    /// Nothing was there to be done.
    pub fn is_nothing_new(&self) -> bool {
        self.records == 0 && self.landed.new.files == 0 && self.dead_letters.new.files == 0
    }
}

impl Standing {
    fn landed(&self, task: &str) -> Landed {
        let Some(sink) = self.sinks.get(task) else { return Landed::default() };
        Landed {
            table: sink.table.clone(),
            new: sink.landed,
            buckets: sink.buckets.len() as u64,
            splits: sink.splits.iter().cloned().collect(),
            waiting: sink.waiting,
        }
    }

    /// Files, rows and bytes of the table that were visible.
    pub fn visible(&self) -> Totals {
        self.sinks.get(SINK).map_or_else(Totals::default, |sink| sink.landed)
    }
}
