//! Whether all events landed, each once.

use std::fs;
use std::fs::File;
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::datatypes::TimestampMillisecondType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::Result;
use crate::events::Sums;

/// What lies in the output folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Landed {
    pub files: u64,
    pub bytes: u64,
    pub rows: u64,
    user_ids: i64,
    times: i64,
}

/// Reads every Parquet file below `out`.
///
/// # Errors
///
/// The rows or their sums are not those of the events.
pub fn landed(out: &Path, sums: Sums) -> Result<Landed> {
    let mut landed = Landed::default();
    read(out, &mut landed)?;
    if (landed.rows, landed.user_ids, landed.times) != (sums.events, sums.user_ids, sums.times) {
        return Err(
            format!("{} does not hold the events: {landed:?} landed of {sums:?}", out.display()).into()
        );
    }
    Ok(landed)
}

fn read(dir: &Path, landed: &mut Landed) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, landed)?;
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "parquet") {
            return Err(format!("{} is no Parquet file", path.display()).into());
        }
        let file = File::open(&path)?;
        landed.files += 1;
        landed.bytes += file.metadata()?.len();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
        let columns = ProjectionMask::columns(reader.parquet_schema(), ["user_id", "ts"]);
        for batch in reader.with_projection(columns).with_batch_size(65_536).build()? {
            let batch = batch?;
            let column = |name| batch.column_by_name(name).ok_or_else(|| format!("no column {name}"));
            let user_ids = column("user_id")?.as_primitive_opt::<Int64Type>().ok_or("user_id is no int64")?;
            let times = column("ts")?
                .as_primitive_opt::<TimestampMillisecondType>()
                .ok_or("ts is no timestamp(ms)")?;
            landed.rows += batch.num_rows() as u64;
            landed.user_ids = user_ids.values().iter().fold(landed.user_ids, |sum, id| sum.wrapping_add(*id));
            landed.times = times.values().iter().fold(landed.times, |sum, time| sum.wrapping_add(*time));
        }
    }
    Ok(())
}
