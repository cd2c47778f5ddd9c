//! Proves that the tables hold what the state says, byte by byte: `alluvium verify`.
//!
//! Owns the comparison. Does not own what is known (`tables`), nor the repair: nothing is changed, no lock
//! is taken, and it runs beside the job.
//!
//! # No false alarm beside a running job
//!
//! Files move while they are looked at: one in progress becomes pending, then is renamed, then is in the
//! ledger. What looks wrong by the state that was read first is judged again by the state that is read
//! after the look. That suffices, since a file is renamed only after the checkpoint that names it is
//! complete (P4): a file that is in the table is in every state that is read later. A file of the newest
//! start that no checkpoint has is one that is being written.

mod content;
mod finding;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;

use crate::doors::Doors;
use crate::error::Result;
use crate::pipeline::inspect::Totals;
use crate::pipeline::job::SINK;
use crate::pipeline::model::Pipeline;
use crate::pipeline::tables::Known;
use crate::pipeline::tables::Record;
use crate::pipeline::tables::Staging;
use crate::pipeline::tables::Table;
use crate::pipeline::tables::list;
use crate::pipeline::units::counted;
use crate::pipeline::verify::content::Look;
use crate::pipeline::wiring;
use crate::sink::file::PartName;
use crate::storage::Kind;

pub use finding::Finding;
pub use finding::Wrong;

/// Looks at what seems wrong, before it is believed: a file passes through three states at most.
const LOOKS: usize = 4;

/// What `verify` is to take for granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifySettings {
    /// A file of the ledger that is not there was removed by its owner (compaction, retention), which is
    /// his right once it is in the ledger (P11): it is counted, and not held against the table.
    pub removed_ok: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The checkpoint that the files were compared with.
    pub epoch: Option<u64>,
    /// Committed files that are there and whole.
    pub committed: Totals,
    /// Closed files that are whole and not confirmed as committed, in the table or not: outsiders must not
    /// touch these yet (P11).
    pub pending: Totals,
    /// Files in progress whose acknowledged bytes are there.
    pub in_progress: Totals,
    /// Files of the ledger that are gone, where [`VerifySettings::removed_ok`] allows it.
    pub removed: Totals,
    /// Everything that is wrong, by path.
    pub findings: Vec<Finding>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<String>,
}

impl Verification {
    /// Nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Compares all files of `pipeline` with its state; reads every byte of them.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when the job has no state, or one of other tables;
/// [`crate::ErrorKind::Damage`] when the state cannot be read back; [`crate::ErrorKind::Retry`] when a folder
/// cannot be listed. What is wrong with a file is no error but a [`Finding`].
pub async fn verify(pipeline: &Pipeline, doors: &Doors, settings: VerifySettings) -> Result<Verification> {
    let pipeline = Arc::new(pipeline.clone());
    let mut known = read(&pipeline, doors).await?;
    let mut verified = Verified::default();
    verified.look_at(doors, &known, all(&known)).await?;
    let there = walk(doors, &pipeline, &known).await?;
    for look in 1..=LOOKS {
        let suspects = verified.suspects(&known, &there);
        if suspects.is_empty() {
            break;
        }
        let later = read(&pipeline, doors).await?;
        let record = |known: &Known, name: &PartName| known.record(name).map(|(_, record)| record.clone());
        let moved: Vec<PartName> =
            suspects.into_iter().filter(|name| record(&known, name) != record(&later, name)).collect();
        known = later;
        if moved.is_empty() || look == LOOKS {
            break;
        }
        verified.look_at(doors, &known, moved).await?;
    }
    verified.told(doors, &known, &there, settings).await
}

async fn read(pipeline: &Arc<Pipeline>, doors: &Doors) -> Result<Known> {
    let (pipeline, at) = (Arc::clone(pipeline), doors.clone());
    doors.io.run(move || Known::read(&at, &pipeline)).await?
}

fn all(known: &Known) -> Vec<PartName> {
    known.tables.iter().flat_map(|table| table.records.keys().cloned()).collect()
}

/// What lies in a table's folders.
struct There {
    /// Files with this job's lineage below the table's folder.
    files: Vec<(PathBuf, PartName)>,
    /// Other files of the table's format in it: readers take them for part of the table.
    others: Vec<PathBuf>,
    staging: Staging,
}

/// Of files that are told together these are named.
const NAMED_MAX: usize = 3;

async fn walk(doors: &Doors, pipeline: &Pipeline, known: &Known) -> Result<Vec<There>> {
    let mut walked = Vec::new();
    for table in &known.tables {
        let extension = match table.task.as_str() {
            SINK => wiring::part_format(&pipeline.sink).extension(),
            _ => wiring::letters_format().extension(),
        };
        let (at, table, lineage) = (doors.clone(), table.clone_folders(), known.lineage);
        let walk = move || -> Result<There> {
            // Staging first: a file that is renamed meanwhile is then seen twice, not never.
            let staging = Staging::list(&at, &table)?;
            let (mut files, mut others) = (Vec::new(), Vec::new());
            let mut open = vec![table.base.clone()];
            while let Some(folder) = open.pop() {
                for entry in list(&*at.disk, &folder)?.unwrap_or_default() {
                    let path = folder.join(&entry.name);
                    let name = entry.name.to_string_lossy();
                    match (entry.kind, PartName::parse(&name)) {
                        (Kind::Dir, _) => open.push(path),
                        (Kind::File, Some(part)) if part.lineage == lineage => files.push((path, part)),
                        // Readers of Hive tables pass over names that begin like this.
                        _ if name.starts_with(['.', '_']) => {}
                        _ if name.strip_suffix(&extension).is_some_and(|stem| stem.ends_with('.')) => {
                            others.push(path);
                        }
                        _ => {}
                    }
                }
            }
            files.sort_unstable();
            others.sort_unstable();
            Ok(There { files, others, staging })
        };
        walked.push(doors.io.run(walk).await??);
    }
    Ok(walked)
}

/// What the looks gave, by file.
#[derive(Default)]
struct Verified {
    looks: BTreeMap<PartName, Look>,
}

impl Verified {
    /// Looks at the files called `names`, several at a time.
    async fn look_at(&mut self, doors: &Doors, known: &Known, names: Vec<PartName>) -> Result<()> {
        let jobs = names.into_iter().filter_map(|name| {
            let (table, record) = known.record(&name)?;
            let folders = table.clone_folders();
            let (at, record) = (doors.clone(), record.clone());
            let looked = doors.io.run(move || {
                let look = Look::at(&*at.disk, &folders, &name, &record);
                (name, look)
            });
            Some(looked)
        });
        let mut looked = futures::stream::iter(jobs).buffer_unordered(2 * doors.io.width());
        while let Some(done) = looked.next().await {
            let (name, look) = done?;
            self.looks.insert(name, look);
        }
        Ok(())
    }

    /// The files that are not as `known` says.
    fn suspects(&self, known: &Known, there: &[There]) -> BTreeSet<PartName> {
        let wrong = self.looks.iter().filter(|(_, look)| look.wrong().is_some()).map(|(name, _)| name);
        let unknown =
            there.iter().flat_map(|there| &there.staging.parts).filter(|name| known.record(name).is_none());
        let misplaced = there.iter().flat_map(|there| &there.files).filter(|(path, name)| {
            known.record(name).and_then(|(table, record)| table.target(name, record)).as_ref() != Some(path)
        });
        wrong.chain(unknown).chain(misplaced.map(|(_, name)| name)).cloned().collect()
    }

    async fn told(
        self,
        doors: &Doors,
        known: &Known,
        there: &[There],
        settings: VerifySettings,
    ) -> Result<Verification> {
        let mut told = Verification { epoch: known.newest.map(|(epoch, _)| epoch.0), ..Default::default() };
        for (name, look) in &self.looks {
            let Some((table, record)) = known.record(name) else { continue };
            told.count(table, name, record, look, settings);
        }
        for (table, there) in known.tables.iter().zip(there) {
            for (path, name) in &there.files {
                match known.record(name) {
                    Some((of, record)) => {
                        if of.target(name, record).as_ref() != Some(path) {
                            let belongs = of.place(name, record);
                            told.findings.push(Finding::of(path.clone(), Wrong::Misplaced { belongs }));
                        }
                    }
                    None => told.findings.push(Finding::of(path.clone(), Wrong::Unknown)),
                }
            }
            told.others(table, &there.others);
            told.staged(doors, known, table, &there.staging).await?;
        }
        told.findings.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(told)
    }
}

impl Verification {
    fn count(
        &mut self,
        table: &Table,
        name: &PartName,
        record: &Record,
        look: &Look,
        settings: VerifySettings,
    ) {
        let totals = match record {
            Record::GivenUp => return,
            Record::Committed(_) if settings.removed_ok && look.wrong() == Some(&Wrong::Removed) => {
                &mut self.removed
            }
            _ if look.wrong().is_some() => {
                let path = look.place(table, name, record);
                let wrong = look.wrong().cloned().unwrap_or(Wrong::Removed);
                self.findings.push(Finding {
                    rows: record.rows(),
                    epoch: record.epoch(),
                    ..Finding::of(path, wrong)
                });
                return;
            }
            Record::Committed(_) => &mut self.committed,
            Record::Open(part) if part.pending => &mut self.pending,
            Record::Open(_) => &mut self.in_progress,
        };
        totals.files += 1;
        totals.rows += record.rows().unwrap_or(0);
        totals.bytes += record.bytes();
    }

    /// Files that no record names, and that readers of the table read.
    fn others(&mut self, table: &Table, others: &[PathBuf]) {
        if others.is_empty() {
            return;
        }
        let named: Vec<String> = others
            .iter()
            .take(NAMED_MAX)
            .map(|path| path.strip_prefix(&table.base).unwrap_or(path).display().to_string())
            .collect();
        let more = if others.len() > NAMED_MAX { ", ..." } else { "" };
        self.notes.push(format!(
            "{}: {} of the table's format that no record of this job names ({}{more}): whoever reads the table reads \
             them too",
            table.base.display(),
            counted(others.len() as u64, "file"),
            named.join(", ")
        ));
    }

    /// What lies in staging and no checkpoint has.
    async fn staged(&mut self, doors: &Doors, known: &Known, table: &Table, staging: &Staging) -> Result<()> {
        let (mut under_way, mut waiting) = (0_u64, 0_u64);
        for name in staging.parts.iter().filter(|name| known.record(name).is_none()) {
            let left = match known.is_orphan(name) {
                true => known.recovered,
                // A retained checkpoint has it, or the newest start writes it.
                false => known.is_at_rest() && !known.named.contains(name),
            };
            if left {
                // A start that went on meanwhile has removed it.
                let (disk, path) = (Arc::clone(&doors.disk), table.hidden(name));
                let looked = path.clone();
                if doors.io.run(move || disk.metadata(&looked).is_ok()).await? {
                    self.findings.push(Finding::of(path, Wrong::Leftover));
                }
            } else if known.is_orphan(name) {
                waiting += 1;
            } else {
                under_way += 1;
            }
        }
        let staging_folder = table.staging.display();
        if under_way > 0 {
            self.notes.push(format!(
                "{staging_folder}: {} of the newest start in no checkpoint yet; if the job does not run, its next \
                 start removes what no checkpoint has and lands the rows anew",
                counted(under_way, "file")
            ));
        }
        if waiting > 0 {
            self.notes.push(format!(
                "{staging_folder}: {} of an earlier start in no checkpoint, not removed yet by the newest start: it \
                 or `alluvium gc` will",
                counted(waiting, "file")
            ));
        }
        for path in &staging.strange {
            self.notes.push(format!("{}: not a file of Alluvium's, left alone", path.display()));
        }
        if !staging.foreign.is_empty() {
            let names: Vec<String> = staging
                .foreign
                .iter()
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                .collect();
            self.notes.push(format!(
                "{}: {} of other state directories ({}), left alone: each is that of a job whose state made it",
                table.root.display(),
                names.len(),
                names.join(", ")
            ));
        }
        Ok(())
    }
}
