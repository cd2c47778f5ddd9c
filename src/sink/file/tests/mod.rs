//! A small job around a file sink: rows with ids in, barriers, crashes, restarts, and three oracles.

mod cases;
mod crash;
mod faults;
mod limits;
mod random;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use bytes::Bytes;
use jiff::tz::TimeZone;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::bucket::BucketAssigner;
use super::bucket::BucketTemplate;
use super::bucket::NoBuckets;
use super::*;
use crate::doors::Doors;
use crate::error::Result;
use crate::format::parquet::ParquetSettings;
use crate::sink::SinkWriter;
use crate::state::JournalReader;
use crate::state::MemoryJournal;
use crate::state::PlannedTask;
use crate::state::RestorePlan;
use crate::state::Snapshot;
use crate::state::State;
use crate::state::StateBackend;
use crate::state::StateSettings;
use crate::state::Voids;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Batch;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Lsn;
use crate::stream::SplitId;
use crate::stream::TaskId;
use crate::testing::CrashDisk;
use crate::testing::sim_doors;

const LINEAGE: Lineage = Lineage(0x1234_abcd);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("bucket", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
    ]))
}

/// Rows `first..first + rows`; `bucket` names the bucket of each.
fn batch(first: u64, rows: u64, bucket: impl Fn(u64) -> String) -> Batch {
    let ids = first..first + rows;
    let records = RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(ids.clone().map(|id| i64::try_from(id).unwrap()).collect::<Int64Array>()),
            Arc::new(ids.clone().map(|id| Some(bucket(id))).collect::<StringArray>()),
            Arc::new(ids.clone().map(|id| Some(format!("text of row {id}"))).collect::<StringArray>()),
        ],
    )
    .unwrap();
    Batch { records, split: SplitId::new("split"), positions: ids.collect() }
}

fn settings() -> FileSinkSettings {
    FileSinkSettings {
        format: PartFormat::Parquet(ParquetSettings { row_group_rows: 16, ..ParquetSettings::default() }),
        roll: RollingPolicy::at_end(),
        ..FileSinkSettings::new("/out/t")
    }
}

fn by_bucket() -> Arc<dyn BucketAssigner> {
    Arc::new(BucketTemplate::by_fields(&["bucket"], &schema()).unwrap())
}

fn no_buckets() -> Arc<dyn BucketAssigner> {
    Arc::new(NoBuckets::new(&schema()))
}

/// The state directory of a job: a log, and what the newest completed checkpoint says.
struct Kept {
    incarnation: u64,
    epoch: u64,
    /// Rows taken below this one.
    position: u64,
    snapshot: Option<Snapshot>,
    journal: MemoryJournal,
    voids: Voids,
    /// Files that a commit has reported: they are there for ever.
    acknowledged: BTreeSet<PathBuf>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            incarnation: 0,
            epoch: 0,
            position: 0,
            snapshot: None,
            journal: MemoryJournal::new(),
            voids: Voids::default(),
            acknowledged: BTreeSet::new(),
        }
    }
}

/// One start of the job.
struct Run {
    writer: FileWriter,
    committer: FileCommitter,
    epoch: u64,
    position: u64,
    /// Committables of epochs that did not complete yet.
    carried: Vec<ClosedPart>,
}

impl Kept {
    /// The state of the newest completed checkpoint; what was appended behind it is void.
    fn state(&mut self) -> State {
        let task = TaskId::new("sink");
        self.voids.insert(self.snapshot.map_or(Lsn(0), |snapshot| snapshot.lsn), self.journal.end());
        let planned =
            PlannedTask { task: task.clone(), number: 0, snapshot: self.snapshot, voids: self.voids.clone() };
        let plan = RestorePlan { tasks: vec![planned] };
        let journal = Arc::new(self.journal.clone());
        StateBackend::open(journal, plan, StateSettings::default()).unwrap().take(&task).unwrap()
    }

    fn sink(
        &mut self,
        settings: &FileSinkSettings,
        assigner: &Arc<dyn BucketAssigner>,
        doors: &Doors,
    ) -> Result<FileSink> {
        self.incarnation += 1;
        let identity = Identity { lineage: LINEAGE, incarnation: Incarnation(self.incarnation), writer: 0 };
        FileSink::new(settings.clone(), schema(), Arc::clone(assigner), identity, doors.clone())
    }

    /// Starts the job: recovery, commit, sweep.
    async fn start(
        &mut self,
        settings: &FileSinkSettings,
        assigner: &Arc<dyn BucketAssigner>,
        doors: &Doors,
    ) -> Result<Run> {
        let sink = self.sink(settings, assigner, doors)?;
        let state = self.state();
        let plan = sink.check(&state).await?;
        let (writer, committer, pending) = sink.recover(plan, state).await?;
        let mut run = Run { writer, committer, epoch: self.epoch, position: self.position, carried: pending };
        run.commit(self).await?;
        run.writer.sweep_orphans().await?;
        Ok(run)
    }
}

impl Run {
    async fn write(&mut self, rows: u64, bucket: impl Fn(u64) -> String) -> Result<()> {
        self.writer.write(batch(self.position, rows, bucket)).await?;
        self.position += rows;
        Ok(())
    }

    async fn pre_commit(&mut self, kind: BarrierKind) -> Result<(Snapshot, usize)> {
        self.epoch += 1;
        let ended = self.writer.pre_commit(Barrier { epoch: Epoch(self.epoch), kind }).await?;
        let closed = ended.committables.len();
        self.carried.extend(ended.committables);
        ended.durable.await?;
        Ok((ended.snapshot, closed))
    }

    fn complete(&self, kept: &mut Kept, snapshot: Snapshot) {
        kept.epoch = self.epoch;
        kept.position = self.position;
        kept.snapshot = Some(snapshot);
    }

    async fn commit(&mut self, kept: &mut Kept) -> Result<usize> {
        let parts = std::mem::take(&mut self.carried);
        let done = self.committer.commit_all(parts).await?;
        let paths =
            done.iter().map(|part| part.bucket.folder(Path::new("/out/t")).join(part.name.to_string()));
        kept.acknowledged.extend(paths);
        let count = done.len();
        self.writer.committed(done)?;
        Ok(count)
    }

    /// A whole checkpoint; how many files became visible.
    async fn checkpoint(&mut self, kept: &mut Kept, kind: BarrierKind) -> Result<usize> {
        let (snapshot, _) = self.pre_commit(kind).await?;
        self.complete(kept, snapshot);
        self.commit(kept).await
    }
}

/// The part files in the table, by path.
fn visible(disk: &CrashDisk) -> Vec<PathBuf> {
    disk.list_all().into_iter().filter(|path| path.starts_with("/out/t")).collect()
}

/// What waits in staging.
fn staged(disk: &CrashDisk) -> Vec<PathBuf> {
    let staged = |path: &PathBuf| path.starts_with("/out/.t.alluvium") && !path.ends_with("lock");
    disk.list_all().into_iter().filter(staged).collect()
}

/// The ids in a part file, by the reader of the parquet crate.
fn ids_of(bytes: Vec<u8>, path: &Path) -> Vec<u64> {
    if path.extension().is_some_and(|extension| extension == "ndjson") {
        let lines = String::from_utf8(bytes).unwrap();
        let id =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap();
        return lines.lines().map(id).collect();
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap().build().unwrap();
    reader
        .flat_map(|batch| {
            let batch = batch.unwrap();
            let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
            ids.into_iter().map(|id| u64::try_from(id).unwrap())
        })
        .collect()
}

/// Ids by bucket folder; fails when one is there twice.
fn landed(disk: &CrashDisk) -> BTreeMap<PathBuf, BTreeSet<u64>> {
    let mut seen = BTreeSet::new();
    let mut landed: BTreeMap<PathBuf, BTreeSet<u64>> = BTreeMap::new();
    for path in visible(disk) {
        for id in ids_of(disk.read_file(&path).unwrap(), &path) {
            assert!(seen.insert(id), "row {id} is in the table twice; {}", disk.dump());
            landed.entry(path.parent().unwrap().to_owned()).or_default().insert(id);
        }
    }
    landed
}

fn all_landed(disk: &CrashDisk) -> BTreeSet<u64> {
    landed(disk).into_values().flatten().collect()
}

/// Every file of the ledger is there, whole, with its rows, and nothing else is.
fn check_ledger(disk: &CrashDisk, writer: &FileWriter) {
    let mut recorded = BTreeSet::new();
    for part in ledger(&writer.state) {
        let part = part.unwrap();
        let path = part.bucket.folder(Path::new("/out/t")).join(part.name.to_string());
        let bytes = disk.read_file(&path).unwrap();
        assert_eq!(bytes.len() as u64, part.content.len);
        assert_eq!(crc32fast::hash(&bytes), part.content.crc);
        let ids = ids_of(bytes, &path);
        assert_eq!(ids.len() as u64, part.content.rows);
        let span = part.spans[&SplitId::new("split")];
        assert_eq!((span.first, span.last), (*ids.first().unwrap(), *ids.last().unwrap()));
        assert!(recorded.insert(path));
    }
    assert_eq!(recorded.into_iter().collect::<Vec<_>>(), visible(disk));
}

fn disk() -> CrashDisk {
    CrashDisk::new()
}

fn doors(disk: &CrashDisk) -> Doors {
    sim_doors(disk, 1)
}
