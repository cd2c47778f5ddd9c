//! What is in a state directory, as plain data: `alluvium inspect`.
//!
//! Reads only, takes no lock, and needs no pipeline file: it works beside the running job, after a crash,
//! and on a copy. Everything belongs to the newest completed checkpoint, what lies above it in the log to
//! none. The JSON form is documented in `docs/inspect.md`; its version grows when a field changes its meaning
//! or goes away, not when one is added.

use std::path::Path;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::checkpoint::CompletionKind;
use crate::doors::Doors;
use crate::error::Result;
use crate::pipeline::job::LOG;
use crate::pipeline::job::SOURCE;
use crate::pipeline::seen;
use crate::pipeline::seen::Seen;
use crate::sink::file::ClosedPart;
use crate::sink::file::OpenPart;
use crate::sink::file::ledger;
use crate::sink::file::losses;
use crate::sink::file::open_parts;
use crate::sink::file::staging_root;
use crate::sink::file::table_folder;
use crate::source::positions;
use crate::state::StateView;

/// The version of the JSON form.
const VERSION: u32 = 1;

/// A state directory at its newest completed checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateReport {
    /// The version of this form.
    pub version: u32,
    /// The directory, absolute and without links.
    pub state: PathBuf,
    /// The job that it belongs to; none before its first start.
    pub job: Option<JobReport>,
    /// The completed checkpoints that the log still holds, the oldest first.
    pub checkpoints: Vec<CheckpointReport>,
    /// Where the source stands, by split.
    pub splits: Vec<SplitReport>,
    /// The sinks: the table, and the dead letters if there are any.
    pub sinks: Vec<SinkReport>,
    /// The log.
    pub log: LogReport,
}

/// A job, as its newest start says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// The random id of the state directory, in the names of all its files.
    pub lineage: String,
    /// The number of the newest start.
    pub incarnation: u64,
    /// The source, as it is compared at each start.
    pub source: String,
    /// The sink, as it is compared at each start.
    pub sink: String,
    /// The starts that are on record, the oldest first. Those that no checkpoint needs are forgotten.
    pub starts: Vec<StartReport>,
}

/// A start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StartReport {
    /// Its number.
    pub incarnation: u64,
    /// When it was.
    #[serde(serialize_with = "written")]
    pub at: Option<Timestamp>,
    /// The checkpoint that it went on from.
    pub restored: Option<u64>,
}

/// A completed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointReport {
    /// Its number.
    pub epoch: u64,
    /// Why it was made.
    pub kind: CheckpointKind,
    /// When it was completed; of one that a start went on from, when that was.
    #[serde(serialize_with = "written")]
    pub at: Option<Timestamp>,
    /// The start that made it, or went on from it last.
    pub incarnation: u64,
    /// Bytes of the log that a restore of it reads.
    pub log_bytes: u64,
    /// Its tasks.
    pub tasks: Vec<TaskReport>,
}

/// Why a checkpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// In the course of things.
    Checkpoint,
    /// The job was stopped: it goes on from here.
    Stop,
    /// The input had ended.
    End,
}

/// A task in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// Its name.
    pub task: String,
    /// Its input had ended.
    pub ended: bool,
    /// Bytes of the log from the oldest entry that its state needs to its snapshot.
    pub log_bytes: u64,
}

/// Where a split of the source stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    /// The split.
    pub split: String,
    /// Its file, as the pattern spells it.
    pub path: String,
    /// Behind the last record, in decompressed bytes.
    pub position: u64,
    /// Records up to there, bad ones included.
    pub records: u64,
    /// Nothing lay behind the position when it was last looked.
    pub ended: bool,
}

/// A sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SinkReport {
    /// Its task.
    pub task: String,
    /// The table's folder.
    pub table: Option<PathBuf>,
    /// Where its files wait until they are committed.
    pub staging: Option<PathBuf>,
    /// Buckets with a file in progress.
    pub buckets_open: u64,
    /// Files that are written to.
    pub in_progress: Vec<PartReport>,
    /// Files that are closed and not confirmed as committed: outsiders must not touch these yet (P11).
    pub pending: Vec<PartReport>,
    /// Rows that wait in the state for a row group.
    pub rows_spilled: u64,
    /// All committed files.
    pub ledger: Totals,
    /// Files that were lost and given up, with the operator's consent.
    pub losses: Vec<PartReport>,
}

/// A part file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// Its name, in staging as in the table.
    pub name: String,
    /// Its bucket, below the table's folder.
    pub bucket: String,
    /// Bytes in the file.
    pub bytes: u64,
    /// Rows in the file.
    pub rows: u64,
    /// Rows that belong to it and wait in the state.
    pub rows_spilled: u64,
    /// Row groups in the file; 0 once it is closed.
    pub row_groups: u64,
    /// The epoch whose barrier closed it.
    pub epoch: Option<u64>,
}

/// Files and what is in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// The log of a state directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Its first position.
    pub start: u64,
    /// The position behind its last entry.
    pub end: u64,
    /// Files of the log in use.
    pub segments: u64,
    /// Bytes on the disk, spare files included.
    pub disk_bytes: u64,
    /// Things that openings of the log cut off and kept.
    pub quarantined: u64,
}

/// Reads the state directory `state`. It blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when it is none, [`crate::ErrorKind::Damage`] when it cannot be read back,
/// [`crate::ErrorKind::Retry`] when the disk does not let it be read.
pub fn inspect(doors: &Doors, state: &Path) -> Result<StateReport> {
    let state = seen::find(doors, state)?;
    let mut report = Seen::read(doors, &state, |seen| report(seen, &state))?;
    let LogReport { start, end, .. } = report.log;
    report.log = LogReport { start, end, ..log_files(doors, &state) };
    Ok(report)
}

fn report(seen: &Seen, state: &Path) -> Result<StateReport> {
    let splits = match seen.task(SOURCE) {
        Some(source) => positions(source)?,
        None => Vec::new(),
    };
    let lineage = seen.lineage().map(|lineage| lineage.to_string());
    let sinks = seen
        .newest
        .iter()
        .filter(|view| view.task().as_str() != SOURCE)
        .map(|view| sink(view, lineage.as_deref()))
        .collect::<Result<_>>()?;
    let (start, end) = seen.inspection.log();
    Ok(StateReport {
        version: VERSION,
        state: state.to_owned(),
        job: job(seen),
        checkpoints: seen.inspection.checkpoints().map(checkpoint).collect(),
        splits: splits
            .into_iter()
            .map(|split| SplitReport {
                split: split.split.as_str().to_owned(),
                path: split.path,
                position: split.position,
                records: split.records,
                ended: split.ended,
            })
            .collect(),
        sinks,
        log: LogReport { start: start.0, end: end.0, ..LogReport::default() },
    })
}

fn job(seen: &Seen) -> Option<JobReport> {
    let newest = seen.inspection.newest_start()?;
    let starts = seen.inspection.starts().map(|start| StartReport {
        incarnation: start.incarnation.0,
        at: moment(start.at_ms),
        restored: start.restored.map(|epoch| epoch.0),
    });
    Some(JobReport {
        name: newest.job.clone(),
        lineage: newest.lineage.to_string(),
        incarnation: newest.incarnation.0,
        source: newest.source.clone(),
        sink: newest.sink.clone(),
        starts: starts.collect(),
    })
}

fn checkpoint(checkpoint: &Checkpoint) -> CheckpointReport {
    let record = &checkpoint.record;
    let tasks = record.tasks.iter().map(|(task, found)| TaskReport {
        task: task.as_str().to_owned(),
        ended: found.ended,
        log_bytes: found.snapshot.lsn.0.saturating_sub(found.snapshot.floor.0),
    });
    CheckpointReport {
        epoch: record.epoch.0,
        kind: match record.kind {
            CompletionKind::Checkpoint => CheckpointKind::Checkpoint,
            CompletionKind::Stop => CheckpointKind::Stop,
            CompletionKind::End => CheckpointKind::End,
        },
        at: moment(checkpoint.at_ms),
        incarnation: record.incarnation.0,
        log_bytes: checkpoint.at.0.saturating_sub(checkpoint.floor().0),
        tasks: tasks.collect(),
    }
}

fn sink(view: &StateView, lineage: Option<&str>) -> Result<SinkReport> {
    let table = table_folder(view)?;
    let staging =
        table.as_deref().and_then(staging_root).zip(lineage).map(|(root, lineage)| root.join(lineage));
    let (pending, in_progress): (Vec<_>, Vec<_>) =
        open_parts(view)?.into_iter().partition(|part| part.pending);
    let mut buckets: Vec<&str> = in_progress.iter().map(|part| part.bucket.as_str()).collect();
    buckets.sort_unstable();
    buckets.dedup();
    let mut totals = Totals::default();
    for part in ledger(view) {
        totals.add(&part?);
    }
    Ok(SinkReport {
        task: view.task().as_str().to_owned(),
        buckets_open: buckets.len() as u64,
        rows_spilled: in_progress.iter().map(|part| part.waiting_rows).sum(),
        in_progress: in_progress.iter().map(open).collect(),
        pending: pending.iter().map(open).collect(),
        ledger: totals,
        losses: losses(view).map(|part| Ok(closed(&part?))).collect::<Result<_>>()?,
        table,
        staging,
    })
}

impl Totals {
    /// Counts `part`.
    pub(crate) fn add(&mut self, part: &ClosedPart) {
        self.files += 1;
        self.rows += part.content.rows;
        self.bytes += part.content.len;
    }
}

fn open(part: &OpenPart) -> PartReport {
    PartReport {
        name: part.name.to_string(),
        bucket: part.bucket.as_str().to_owned(),
        bytes: part.content.len,
        rows: part.content.rows,
        rows_spilled: part.waiting_rows,
        row_groups: part.row_groups,
        epoch: part.epoch.map(|epoch| epoch.0),
    }
}

fn closed(part: &ClosedPart) -> PartReport {
    PartReport {
        name: part.name.to_string(),
        bucket: part.bucket.as_str().to_owned(),
        bytes: part.content.len,
        rows: part.content.rows,
        rows_spilled: 0,
        row_groups: 0,
        epoch: Some(part.epoch.0),
    }
}

#[expect(clippy::ref_option, reason = "what serde hands over")]
fn written<S: serde::Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(|at| at.to_string()).serialize(to)
}

fn moment(at_ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(at_ms).ok()
}

/// What the log takes on the disk. A file that vanishes meanwhile is not counted.
fn log_files(doors: &Doors, state: &Path) -> LogReport {
    let folder = state.join(LOG);
    let mut report = LogReport::default();
    for entry in doors.disk.list(&folder).unwrap_or_default() {
        let name = entry.name.to_string_lossy();
        let path = folder.join(&entry.name);
        if name == "quarantine" {
            report.quarantined = doors.disk.list(&path).map_or(0, |entries| entries.len() as u64);
            continue;
        }
        report.segments += u64::from(name.ends_with(".wal"));
        report.disk_bytes += doors.disk.metadata(&path).map_or(0, |found| found.len);
    }
    report
}
