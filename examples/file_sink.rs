//! The file sink alone, hosted by a program of one's own: rows in, Parquet in buckets out, exactly once.
//!
//! `cargo run --example file_sink -- FOLDER` lands a hundred rows at each call, and each row once, whenever
//! a call is killed. The program's "source" is a number: the position that is part of each checkpoint.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium::Result;
use alluvium::checkpoint::CheckpointSettings;
use alluvium::checkpoint::CheckpointStore;
use alluvium::checkpoint::CompletionKind;
use alluvium::checkpoint::CompletionRecord;
use alluvium::checkpoint::Fingerprint;
use alluvium::checkpoint::JobStart;
use alluvium::checkpoint::TaskRecord;
use alluvium::doors::Doors;
use alluvium::sink::Committer;
use alluvium::sink::SinkWriter;
use alluvium::sink::file::FileSink;
use alluvium::sink::file::FileSinkSettings;
use alluvium::sink::file::Identity;
use alluvium::sink::file::bucket::BucketTemplate;
use alluvium::stream::Barrier;
use alluvium::stream::BarrierKind;
use alluvium::stream::Batch;
use alluvium::stream::Lineage;
use alluvium::stream::SplitId;
use alluvium::stream::TaskId;
use alluvium::wal::Wal;
use alluvium::wal::WalSettings;
use arrow::array::Int64Array;
use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("file_sink_example"), PathBuf::from);
    let rows = land(&folder, 100).await?;
    println!("{rows} rows are in {}", folder.join("table").display());
    Ok(())
}

/// Lands `more` rows and returns how many there are by now.
async fn land(folder: &Path, more: u64) -> Result<u64> {
    let doors = Doors::real();
    for folder in [folder.to_owned(), folder.join("state")] {
        if doors.disk.metadata(&folder).is_err() {
            doors.disk.create_dir(&folder, false).map_err(|error| {
                alluvium::Error::usage(format!("{} cannot be made", folder.display())).with_source(error)
            })?;
        }
    }

    // A log, and on it the states of two tasks, restored from the newest complete checkpoint.
    let (wal, _opened) = Wal::open(&folder.join("state"), WalSettings::default(), &doors)?;
    let store = CheckpointStore::open(Arc::new(wal), CheckpointSettings::default())?;
    let (source, sink) = (TaskId::new("source"), TaskId::new("sink"));
    let mut started = store.start(JobStart {
        lineage_if_new: Lineage(u32::try_from(doors.random.next_u64() >> 32).unwrap_or(1)),
        job: "example".to_owned(),
        source: "numbers".to_owned(),
        sink: "table".to_owned(),
        tasks: vec![source.clone(), sink.clone()],
        abandoned: Vec::new(),
        at: doors.clock.now(),
    })?;
    let mut position = started.states.take(&source)?;
    let begin = match position.get(b"next")? {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().unwrap_or_default()),
        None => 0,
    };

    // The sink: a table with one folder for each colour.
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("colour", DataType::Utf8, false),
    ]));
    let buckets = Arc::new(BucketTemplate::by_fields(&["colour"], &schema)?);
    let identity = Identity { lineage: started.lineage, incarnation: started.incarnation, writer: 0 };
    let settings = FileSinkSettings::new(folder.join("table"));
    let table = FileSink::new(settings, Arc::clone(&schema), buckets, identity, doors.clone())?;
    let state = started.states.take(&sink)?;
    let plan = table.check(&state).await?;
    let (mut writer, mut committer, pending) = table.recover(plan, state).await?;
    if let Some(restored) = &started.restored {
        let done = committer.commit(&restored.completed, pending).await?;
        writer.committed(done)?;
    }
    writer.sweep_orphans().await?;

    // Rows, then a barrier: what the sink holds and where the source stands become one checkpoint.
    let ids: Int64Array = (begin..begin + more).map(|id| i64::try_from(id).unwrap_or(i64::MAX)).collect();
    let colours: StringArray =
        (begin..begin + more).map(|id| Some(["red", "green", "blue"][id as usize % 3])).collect();
    let records = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(colours)])
        .map_err(|error| alluvium::Error::fatal("rows of the example").with_source(error))?;
    let positions = (begin..begin + more).collect();
    writer.write(Batch { records, split: SplitId::new("numbers"), positions }).await?;

    // The end of the input closes all files; the second checkpoint has the ledger's record of them.
    let mut epoch = started.next_epoch();
    for kind in [BarrierKind::End, BarrierKind::End] {
        position.put(b"next", &(begin + more).to_le_bytes());
        let ended = writer.pre_commit(Barrier { epoch, kind }).await?;
        ended.durable.await?;
        let record = |snapshot| TaskRecord { snapshot, ended: true };
        let completed = store.write(
            CompletionRecord {
                epoch,
                incarnation: started.incarnation,
                kind: CompletionKind::Checkpoint,
                fingerprint: Fingerprint(1),
                tasks: BTreeMap::from([
                    (source.clone(), record(position.snapshot()?)),
                    (sink.clone(), record(ended.snapshot)),
                ]),
            },
            doors.clock.now(),
        )?;
        // Only now, with the proof that the checkpoint is complete, files become visible.
        let done = committer.commit(&completed, ended.committables).await?;
        writer.committed(done)?;
        epoch = epoch.next();
    }
    writer.close().await?;
    Ok(begin + more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_call_adds_its_rows_to_every_bucket() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(land(folder.path(), 100).await.unwrap(), 100);
        assert_eq!(land(folder.path(), 50).await.unwrap(), 150);
        let disk = Doors::real().disk;
        for colour in ["red", "green", "blue"] {
            let bucket = folder.path().join("table").join(format!("colour={colour}"));
            assert_eq!(disk.list(&bucket).unwrap().len(), 2, "a file of each call");
        }
    }
}
