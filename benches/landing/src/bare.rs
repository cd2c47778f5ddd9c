//! The fastest bare path we know, with no guarantee at all: what a landing is compared with.
//!
//! arrow-json decodes 8,192 rows at a time, the rows are split by hour and gathered, 65,536 of an hour
//! go to the hour's `ArrowWriter`, nothing is synced. Each thread takes every n-th file and writes
//! files of its own.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use arrow::array::AsArray;
use arrow::array::RecordBatch;
use arrow::array::UInt32Array;
use arrow::compute::BatchCoalescer;
use arrow::compute::take_record_batch;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;
use arrow::datatypes::TimeUnit;
use arrow::datatypes::TimestampMillisecondType;
use arrow::json::ReaderBuilder;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::basic::ZstdLevel;
use parquet::file::properties::WriterProperties;

use crate::Result;

pub const BATCH_ROWS: usize = 8192;
pub const GATHER_ROWS: usize = 65_536;
pub const ZSTD_LEVEL: i32 = 3;

/// The events' schema, as the pipeline file of the other side gives it.
pub fn schema() -> SchemaRef {
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    Arc::new(Schema::new(vec![
        Field::new("event_id", DataType::Utf8, true),
        Field::new("user_id", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("url", DataType::Utf8, true),
        Field::new("country", DataType::Utf8, true),
        Field::new("price", DataType::Float64, true),
        Field::new("tags", DataType::List(item), true),
    ]))
}

/// Lands all files of `input` in `out` and says how many rows that were.
pub fn land(input: &Path, out: &Path, threads: usize) -> Result<u64> {
    let files = files(input)?;
    let workers: Vec<_> = (0..threads)
        .map(|worker| {
            let mine: Vec<_> = files.iter().skip(worker).step_by(threads).cloned().collect();
            let out = out.to_owned();
            thread::spawn(move || Worker::new(out, worker).land(&mine))
        })
        .collect();
    let mut rows = 0;
    for worker in workers {
        rows += worker.join().map_err(|_| "a worker panicked")??;
    }
    Ok(rows)
}

/// The input's files in the order of their names.
pub fn files(input: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(input)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The rows of each hour of the day.
pub fn by_hour(batch: &RecordBatch) -> Vec<Vec<u32>> {
    let mut hours = vec![Vec::new(); 24];
    let times = batch.column(2).as_primitive::<TimestampMillisecondType>();
    for (row, time) in times.values().iter().enumerate() {
        hours[time.div_euclid(3_600_000).rem_euclid(24) as usize].push(row as u32);
    }
    hours
}

struct Worker {
    out: PathBuf,
    number: usize,
    schema: SchemaRef,
    hours: BTreeMap<usize, Hour>,
}

struct Hour {
    gather: BatchCoalescer,
    writer: ArrowWriter<File>,
}

impl Worker {
    fn new(out: PathBuf, number: usize) -> Self {
        Self { out, number, schema: schema(), hours: BTreeMap::new() }
    }

    fn land(mut self, files: &[PathBuf]) -> Result<u64> {
        let mut rows = 0;
        for file in files {
            let reader = BufReader::with_capacity(1 << 20, File::open(file)?);
            for batch in
                ReaderBuilder::new(Arc::clone(&self.schema)).with_batch_size(BATCH_ROWS).build(reader)?
            {
                let batch = batch?;
                rows += batch.num_rows() as u64;
                self.write(batch)?;
            }
        }
        for (_, mut hour) in std::mem::take(&mut self.hours) {
            hour.gather.finish_buffered_batch()?;
            hour.drain()?;
            hour.writer.close()?;
        }
        Ok(rows)
    }

    fn write(&mut self, batch: RecordBatch) -> Result<()> {
        for (number, rows) in by_hour(&batch).into_iter().enumerate() {
            if rows.is_empty() {
                continue;
            }
            let part = if rows.len() == batch.num_rows() {
                batch.clone()
            } else {
                take_record_batch(&batch, &UInt32Array::from(rows))?
            };
            let hour = self.hour(number)?;
            hour.gather.push_batch(part)?;
            hour.drain()?;
        }
        Ok(())
    }

    fn hour(&mut self, number: usize) -> Result<&mut Hour> {
        if !self.hours.contains_key(&number) {
            let dir = self.out.join(format!("hour={number:02}"));
            fs::create_dir_all(&dir)?;
            let file = File::create(dir.join(format!("part-{:02}.parquet", self.number)))?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
                .build();
            let hour = Hour {
                gather: BatchCoalescer::new(Arc::clone(&self.schema), GATHER_ROWS),
                writer: ArrowWriter::try_new(file, Arc::clone(&self.schema), Some(properties))?,
            };
            self.hours.insert(number, hour);
        }
        Ok(self.hours.get_mut(&number).ok_or("the hour was just made")?)
    }
}

impl Hour {
    fn drain(&mut self) -> Result<()> {
        while let Some(batch) = self.gather.next_completed_batch() {
            self.writer.write(&batch)?;
        }
        Ok(())
    }
}
