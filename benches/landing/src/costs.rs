//! What each stage costs, one after the other on one processor.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::path::Path;

use alluvium::format::Gather;
use alluvium::format::parquet::Codec;
use alluvium::format::parquet::ParquetSettings;
use alluvium::format::parquet::RowGroupEncoder;
use alluvium::format::parquet::footer;
use alluvium::format::parquet::head;
use alluvium::format::spill;
use arrow::json::ReaderBuilder;
use nix::sys::resource::UsageWho;

use crate::Result;
use crate::bare;
use crate::events::Sums;
use crate::measure::cpu_s;

/// Rows of an hour that are spilled together: about what half a second brings when all hours are open.
const SPILL_ROWS: usize = 20_000;

/// One hour of the day: rows in memory, and where those lie that were spilled.
struct Hour {
    waiting: Gather,
    spilled: Vec<(u64, usize)>,
}

/// Prints the processor time of each stage for the events in `input`; `log` is a scratch file.
pub fn print(input: &Path, log: &Path, sums: Sums) -> Result<()> {
    let (mut decode, mut gather, mut spill, mut write) = (0.0, 0.0, 0.0, 0.0);
    let (mut read, mut unspill, mut encode) = (0.0, 0.0, 0.0);
    let schema = bare::schema();
    let mut hours: Vec<_> =
        (0..24).map(|_| Hour { waiting: Gather::new(bare::schema()), spilled: Vec::new() }).collect();
    let log_file = File::options().read(true).write(true).create(true).truncate(true).open(log)?;
    let (mut bytes, mut log_end, mut waiting_max) = (Vec::new(), 0, 0);
    for file in bare::files(input)? {
        let file = BufReader::with_capacity(1 << 20, File::open(file)?);
        let mut reader = ReaderBuilder::new(bare::schema()).with_batch_size(bare::BATCH_ROWS).build(file)?;
        while let Some(batch) = timed(&mut decode, || Ok(reader.next().transpose()?))? {
            timed(&mut gather, || {
                for (rows, hour) in bare::by_hour(&batch).iter().zip(&mut hours) {
                    hour.waiting.push(&batch, rows)?;
                }
                Ok(())
            })?;
            waiting_max = waiting_max.max(hours.iter().map(|hour| hour.waiting.memory_bytes()).sum());
            for hour in hours.iter_mut().filter(|hour| hour.waiting.rows() >= SPILL_ROWS) {
                for batch in timed(&mut gather, || Ok(hour.waiting.take_all()?))? {
                    bytes.clear();
                    timed(&mut spill, || Ok(spill::encode_into(&batch, &mut bytes)?))?;
                    timed(&mut write, || Ok(log_file.write_all_at(&bytes, log_end)?))?;
                    hour.spilled.push((log_end, bytes.len()));
                    log_end += bytes.len() as u64;
                }
            }
        }
    }

    let settings =
        ParquetSettings { compression: Codec::Zstd(bare::ZSTD_LEVEL), ..ParquetSettings::default() };
    let (mut written, mut metas) = (0, 0);
    for mut hour in hours {
        let start = head().len() as u64;
        let mut encoder = RowGroupEncoder::new(&schema, &settings, start)?;
        for (at, len) in hour.spilled {
            bytes.resize(len, 0);
            timed(&mut read, || Ok(log_file.read_exact_at(&mut bytes, at)?))?;
            let batch = timed(&mut unspill, || Ok(spill::decode(&schema, &bytes)?))?;
            timed(&mut encode, || Ok(encoder.write(&batch)?))?;
        }
        for batch in hour.waiting.take_all()? {
            timed(&mut encode, || Ok(encoder.write(&batch)?))?;
        }
        let group = timed(&mut encode, || Ok(encoder.finish()?))?;
        let end = start + group.bytes.len() as u64;
        metas += group.meta.len();
        let footer = timed(&mut encode, || Ok(footer(&schema, &settings, end, &[group.meta], &[])?))?;
        written += end + footer.len() as u64;
    }
    std::fs::remove_file(log)?;

    println!("processor seconds for {} events, 24 buckets, one processor", sums.events);
    let megabytes = |bytes: u64| format!("{} MB", bytes / 1_000_000);
    for (stage, seconds, note) in [
        ("decode, arrow-json", decode, String::new()),
        ("gather", gather, format!("{} waited at most", megabytes(waiting_max as u64))),
        ("spill: encode", spill, megabytes(log_end)),
        ("spill: write", write, "not synced".to_owned()),
        ("spill: read", read, String::new()),
        ("spill: decode", unspill, String::new()),
        ("encode, zstd 3", encode, format!("{}, {metas} bytes of metadata", megabytes(written))),
        ("all", decode + gather + spill + write + read + unspill + encode, String::new()),
    ] {
        println!("{stage:<20} {seconds:>6.2}  {note}");
    }
    Ok(())
}

fn timed<T>(sum: &mut f64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = cpu_s(UsageWho::RUSAGE_THREAD)?;
    let done = work();
    *sum += cpu_s(UsageWho::RUSAGE_THREAD)? - start;
    done
}
