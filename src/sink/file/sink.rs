//! A file sink before it runs: settings, and the two steps of recovery.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::doors::Doors;
use crate::error::Error;
use crate::error::Result;
use crate::sink::file::bucket::BucketAssigner;
use crate::sink::file::committer::FileCommitter;
use crate::sink::file::config::FileSinkSettings;
use crate::sink::file::config::Identity;
use crate::sink::file::encode::Definition;
use crate::sink::file::ledger;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::Now;
use crate::sink::file::plan;
use crate::sink::file::plan::Plan;
use crate::sink::file::staging::Folders;
use crate::sink::file::table::Table;
use crate::sink::file::writer::FileWriter;
use crate::state::State;

/// A table of part files in buckets.
///
/// A start is three calls, in this order: [`FileSink::check`] looks at every file that the restored
/// state names and changes nothing; [`FileSink::recover`] cuts files to their recorded length and gives
/// writer and committer; after the recovered files were committed, [`FileWriter::sweep_orphans`]
/// removes what no checkpoint names. A fresh state needs the same calls; they do nothing then.
#[derive(Debug)]
pub struct FileSink {
    table: Arc<Table>,
}

impl FileSink {
    /// A sink for rows of `schema`, sorted into buckets by `assigner`. Nothing is made on the disk.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], naming the setting, or when the table and its staging folder would lie
    /// on two file systems.
    pub fn new(
        settings: FileSinkSettings,
        schema: SchemaRef,
        assigner: Arc<dyn BucketAssigner>,
        identity: Identity,
        doors: Doors,
    ) -> Result<Self> {
        settings.validate()?;
        let columns = assigner.usual_columns();
        let columns = schema.project(&columns).map_err(|error| {
            Error::usage("the buckets were made for another schema than the table's").with_source(error)
        })?;
        settings.format.validate(&Arc::new(columns))?;
        let folders = Folders::find(Arc::clone(&doors.disk), &settings.path, identity.lineage)?;
        Ok(Self { table: Arc::new(Table { settings, schema, assigner, identity, doors, folders }) })
    }

    /// The table's folder, absolute and without links.
    pub fn base(&self) -> &Path {
        &self.table.folders.base
    }

    /// The folder in which part files of this lineage wait.
    pub fn staging(&self) -> &Path {
        &self.table.folders.staging
    }

    /// Judges every part file that `state`, restored from a checkpoint, names, by length and checksum.
    ///
    /// It reads only, but for the lock file, and only where the staging folder is there.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when a file is not as recorded, or when the table holds files of this
    /// lineage that the state does not know (D22); [`crate::ErrorKind::Usage`] when the state belongs to
    /// another table; [`crate::ErrorKind::Fatal`] when another process holds the staging folder.
    pub async fn check(&self, state: &State) -> Result<Plan> {
        let Table { folders, doors, settings, .. } = &*self.table;
        if let Some(recorded) = ledger::table_folder(state)?
            && recorded != folders.base
        {
            return Err(Error::usage(format!(
                "the state belongs to the table {recorded:?}, path names {:?}: give the path back, or use a new \
                 state directory for the new table",
                folders.base
            )));
        }
        let records = ledger::part_records(state, Now::of(&*doors.clock))?;
        let (known, sums) = plan::known_names(state, &records)?;
        let table = Arc::clone(&self.table);
        let looked = doors.io.run(move || {
            table.folders.lock_if_there()?;
            plan::check_strangers(&*table.doors.disk, &table.folders, &known, &table.part_name(0))
        });
        looked.await??;
        let plan = plan::judge_all(&doors.disk, &doors.io, folders, records, settings.accept_loss).await?;
        Ok(Plan { sums, ..plan })
    }

    /// Acts on `plan`, which [`FileSink::check`] made of the same `state`: files in progress are cut to
    /// their recorded length.
    ///
    /// The files in the result are pending: they belong to the restored checkpoint or one before it, and
    /// are to be committed at once.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Retry`] when a file cannot be cut, [`crate::ErrorKind::Damage`] when the log does
    /// not verify.
    pub async fn recover(
        self,
        plan: Plan,
        mut state: State,
    ) -> Result<(FileWriter, FileCommitter, Vec<ClosedPart>)> {
        let Plan { in_progress, pending, lost, mut sums } = plan;
        state.put(ledger::TABLE, self.table.folders.base.as_os_str().as_bytes());
        for part in lost {
            tracing::warn!(
                part = %part.name, epoch = part.epoch.0, rows = part.content.rows, "gave up a lost part file"
            );
            state.remove(&ledger::part_key(&part.name));
            state.push(ledger::LOSSES, &part.encode_ledger())?;
        }
        let needed: BTreeSet<u64> = in_progress.iter().map(|(part, _)| part.definition).collect();
        for key in state.keys(Definition::PREFIX.as_bytes()) {
            if !needed.iter().any(|id| Definition::key(*id) == key) {
                state.remove(&key);
            }
        }
        let mut definitions = Vec::new();
        for id in needed {
            let value = state.get(&Definition::key(id))?;
            let value = value.ok_or_else(|| {
                Error::damage(format!("the state does not hold the definition {id:016x} of its part files"))
            })?;
            definitions.push(Arc::new(Definition::decode(id, &value)?));
        }
        let committer = FileCommitter::new(Arc::clone(&self.table));
        in_progress.iter().for_each(|(part, _)| sums.resumed(part));
        pending.iter().for_each(|part| sums.found_pending(part));
        let writer = FileWriter::recovered(self.table, state, in_progress, &definitions, sums).await?;
        Ok((writer, committer, pending))
    }
}
