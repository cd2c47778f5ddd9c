//! The tables of a job, as its state and the pipeline file name them together, and what the newest
//! checkpoint says of each of their files.
//!
//! Owns the answer to "which files are known": `verify` and `gc` must give the same one.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::checkpoint::CompletionKind;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::pipeline::job::DEAD_LETTERS;
use crate::pipeline::job::SINK;
use crate::pipeline::job::SOURCE;
use crate::pipeline::model::Pipeline;
use crate::pipeline::seen;
use crate::pipeline::seen::Seen;
use crate::sink::file::ClosedPart;
use crate::sink::file::OpenPart;
use crate::sink::file::PartName;
use crate::sink::file::ledger;
use crate::sink::file::losses;
use crate::sink::file::open_parts;
use crate::sink::file::resolve;
use crate::sink::file::staging_root;
use crate::sink::file::table_folder;
use crate::storage::Disk;
use crate::storage::Kind;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;

/// The files of a job at one moment.
pub(super) struct Known {
    /// The state's random id.
    pub lineage: Lineage,
    /// The number of the newest start.
    pub incarnation: Incarnation,
    /// The newest completed checkpoint, and why it was made.
    pub newest: Option<(Epoch, CompletionKind)>,
    /// The newest start has completed a checkpoint of its own: its recovery is over.
    pub recovered: bool,
    /// The tables.
    pub tables: Vec<Table>,
    /// The names that any checkpoint has which the log still holds.
    pub named: HashSet<PartName>,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its task.
    pub task: String,
    /// Its folder.
    pub base: PathBuf,
    /// The folder in which the files of all lineages wait.
    pub root: PathBuf,
    /// The folder in which those of this job wait.
    pub staging: PathBuf,
    /// What the newest checkpoint says of its files.
    pub records: BTreeMap<PartName, Record>,
}

/// What a checkpoint says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// It is in progress or pending.
    Open(OpenPart),
    /// It is in the ledger.
    Committed(ClosedPart),
    /// It was lost and given up.
    GivenUp,
}

impl Known {
    /// Reads what is known of the files of `pipeline`. Blocks.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the job has no state or the state is that of other tables;
    /// [`crate::ErrorKind::Damage`] when it cannot be read back.
    pub(super) fn read(doors: &Doors, pipeline: &Pipeline) -> Result<Self> {
        let state = &pipeline.checkpoint.state;
        if !seen::is_there(doors, state)? {
            return Err(Error::usage(format!(
                "{} holds no state: the job has not run yet, or its state directory was moved away. Nothing is on \
                 record that files could be compared with",
                state.display()
            )));
        }
        Seen::read(doors, state, |seen| Self::of(doors, pipeline, seen))
    }

    fn of(doors: &Doors, pipeline: &Pipeline, seen: &Seen) -> Result<Self> {
        let Some(start) = seen.inspection.newest_start() else {
            return Err(Error::usage(format!(
                "{}: no start is on record, so no file can be one of this job",
                pipeline.checkpoint.state.display()
            )));
        };
        let newest = seen.checkpoint().map(|newest| (newest.record.epoch, newest.record.kind));
        let mut named = HashSet::new();
        for checkpoint in
            seen.inspection.checkpoints().filter(|found| Some(found.record.epoch) != seen.epoch())
        {
            for view in seen.inspection.states(checkpoint.record.epoch)? {
                if view.task().as_str() != SOURCE {
                    named.extend(open_parts(&view)?.into_iter().map(|part| part.name));
                }
            }
        }
        let mut tables = Vec::new();
        let letters = pipeline.on_error.dead_letters.as_deref();
        let mut planned = vec![(SINK, Some(pipeline.sink.path.as_path())), (DEAD_LETTERS, letters)];
        let others = seen.newest.iter().map(|view| view.task().as_str());
        planned.extend(
            others.filter(|task| ![SOURCE, SINK, DEAD_LETTERS].contains(task)).map(|task| (task, None)),
        );
        for (task, path) in planned {
            let view = seen.task(task);
            let recorded = view.map(table_folder).transpose()?.flatten();
            let path = path.map(|path| found(doors, path)).transpose()?;
            let base = match (recorded, path) {
                (Some(recorded), Some(path)) if recorded != path => {
                    return Err(Error::usage(format!(
                        "the state in {} is that of the table {}, the pipeline file names {}",
                        pipeline.checkpoint.state.display(),
                        recorded.display(),
                        path.display()
                    )));
                }
                (Some(base), _) | (None, Some(base)) => base,
                (None, None) => continue,
            };
            let Some(root) = staging_root(&base) else { continue };
            let mut records = BTreeMap::new();
            if let Some(view) = view {
                for part in losses(view) {
                    records.insert(part?.name, Record::GivenUp);
                }
                for part in ledger(view) {
                    let part = part?;
                    records.insert(part.name.clone(), Record::Committed(part));
                }
                for part in open_parts(view)? {
                    records.insert(part.name.clone(), Record::Open(part));
                }
            }
            named.extend(records.keys().cloned());
            let staging = root.join(start.lineage.to_string());
            tables.push(Table { task: task.to_owned(), base, root, staging, records });
        }
        Ok(Self {
            lineage: start.lineage,
            incarnation: start.incarnation,
            newest,
            recovered: newest.map(|(epoch, _)| epoch) > start.restored,
            tables,
            named,
        })
    }

    /// What the newest checkpoint says of the file called `name`.
    pub(super) fn record(&self, name: &PartName) -> Option<(&Table, &Record)> {
        self.tables.iter().find_map(|table| Some((table, table.records.get(name)?)))
    }

    /// A file of a former start that no checkpoint has: nobody will ever need it (P1, P6).
    pub(super) fn is_orphan(&self, name: &PartName) -> bool {
        name.lineage == self.lineage && name.incarnation < self.incarnation && !self.named.contains(name)
    }

    /// The newest start has ended by a clean stop or the end of its input: it has nothing under way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.recovered && self.newest.is_some_and(|(_, kind)| kind != CompletionKind::Checkpoint)
    }
}

impl Table {
    /// Where the file called `name` waits.
    pub(super) fn hidden(&self, name: &PartName) -> PathBuf {
        self.staging.join(name.to_string())
    }
}

/// What lies in the staging folders beside a table.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// Part files in this job's folder.
    pub parts: Vec<PartName>,
    /// Other things in it, but for the lock.
    pub strange: Vec<PathBuf>,
    /// Its lock file is there.
    pub lock: bool,
    /// The folder is there.
    pub there: bool,
    /// The folders of other lineages.
    pub foreign: Vec<PathBuf>,
}

impl Staging {
    /// Lists the folders. Blocks.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Retry`] when one cannot be listed.
    pub(super) fn list(doors: &Doors, table: &Table) -> Result<Self> {
        let mut staging = Self::default();
        for entry in list(&*doors.disk, &table.root)?.unwrap_or_default() {
            let path = table.root.join(&entry.name);
            if path != table.staging {
                staging.foreign.push(path);
            }
        }
        let Some(entries) = list(&*doors.disk, &table.staging)? else { return Ok(staging) };
        staging.there = true;
        for entry in entries {
            let name = entry.name.to_str();
            match name.and_then(PartName::parse) {
                Some(part) if entry.kind == Kind::File => staging.parts.push(part),
                _ if name == Some("lock") => staging.lock = true,
                _ => staging.strange.push(table.staging.join(&entry.name)),
            }
        }
        Ok(staging)
    }
}

/// The entries of `folder`; `None` when it is not there.
pub(super) fn list(disk: &dyn Disk, folder: &Path) -> Result<Option<Vec<crate::storage::Entry>>> {
    match disk.list(folder) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Error::retry(format!("{} cannot be listed", folder.display())).with_source(error)),
    }
}

fn found(doors: &Doors, path: &Path) -> Result<PathBuf> {
    resolve(&*doors.disk, path)
        .map_err(|error| Error::usage(format!("{} cannot be resolved", path.display())).with_source(error))
}
