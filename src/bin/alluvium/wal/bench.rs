//! `alluvium wal bench`: what this disk makes of a log.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::storage::Disk;
use alluvium::wal::Wal;
use alluvium::wal::WalError;
use alluvium::wal::WalSettings;
use serde_json::Value;
use serde_json::json;

use super::document;
use super::place;
use crate::args::WalBenchArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::thousands;

/// 64 MiB: enough that one more segment is begun.
const APPEND_BYTES: u64 = 64 << 20;
/// Entries of an append that is not synced.
const BATCH: usize = 100;

/// One measure.
struct Row {
    what: String,
    entries: u64,
    bytes: u64,
    time: Duration,
    /// Of each append with its sync, sorted.
    latencies: Vec<Duration>,
}

impl Row {
    fn per_second(&self, number: u64) -> f64 {
        number as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// The latency that `percent` of the appends did not exceed.
    fn percentile(&self, percent: f64) -> Option<Duration> {
        let last = self.latencies.len().checked_sub(1)?;
        self.latencies.get((last as f64 * percent / 100.0).round() as usize).copied()
    }
}

/// Measures, and removes what it wrote.
pub(super) fn bench(args: &WalBenchArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let parent = place::folder(&*doors.disk, &args.look.dir)?;
    let dir = parent.join(format!("alluvium-wal-bench-{}", std::process::id()));
    doors
        .disk
        .create_dir(&dir, true)
        .map_err(|error| Error::retry(format!("{} cannot be made", dir.display())).with_source(error))?;
    let measured = measure(&doors, &dir.join("log"), args);
    let removed = remove(&*doors.disk, &dir);
    let rows = measured?;
    removed.map_err(|error| {
        Error::retry(format!("{} cannot be removed, do it by hand", dir.display())).with_source(error)
    })?;
    let system = doors.disk.file_system(&parent).map(|system| format!("{system:?}")).unwrap_or_default();
    if args.look.json {
        say(&document(&json!({
            "version": 1,
            "folder": parent.display().to_string(),
            "file_system": system,
            "entry_bytes": args.entry_bytes,
            "rows": rows.iter().map(row_document).collect::<Vec<_>>(),
        }))?)?;
    } else {
        say(&told(&parent, &rows, args))?;
    }
    Ok(Exit::Done)
}

fn measure(doors: &Doors, dir: &Path, args: &WalBenchArgs) -> Result<Vec<Row>, WalError> {
    let (wal, _) = Wal::open(dir, WalSettings::default(), doors)?;
    let entry: Vec<u8> = (0..args.entry_bytes).map(|at| (at * 31 + at / 251) as u8).collect();
    let each = entry.len() as u64;
    let seconds = Duration::from_secs_f64(args.seconds);
    let clock = &doors.clock;
    let mut rows = Vec::new();

    let batch = vec![entry.as_slice(); BATCH];
    let start = clock.monotonic();
    let mut entries = 0;
    while entries * each < APPEND_BYTES && clock.monotonic() - start < seconds {
        wal.append(&batch)?;
        entries += BATCH as u64;
    }
    let time = clock.monotonic() - start;
    wal.sync()?;
    let what = format!("append, {BATCH} at a time, no sync");
    rows.push(Row { what, entries, bytes: entries * each, time, latencies: Vec::new() });

    for writers in [1, args.writers] {
        let start = clock.monotonic();
        let told: Vec<Result<Vec<Duration>, WalError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|_| {
                    let (wal, entry, clock) = (wal.clone(), entry.as_slice(), clock.clone());
                    scope.spawn(move || {
                        let mut latencies = Vec::new();
                        while clock.monotonic() - start < seconds {
                            let before = clock.monotonic();
                            wal.append(&[entry])?;
                            wal.sync()?;
                            latencies.push(clock.monotonic() - before);
                        }
                        Ok(latencies)
                    })
                })
                .collect();
            let gone = || WalError::Io {
                what: "measure with a thread that panicked",
                path: dir.to_owned(),
                source: io::ErrorKind::Other.into(),
            };
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(gone()))).collect()
        });
        let time = clock.monotonic() - start;
        let mut latencies = told.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        latencies.sort_unstable();
        let entries = latencies.len() as u64;
        let plural = if writers == 1 { "" } else { "s" };
        let what = format!("append and sync each, {writers} writer{plural}");
        rows.push(Row { what, entries, bytes: entries * each, time, latencies });
    }

    let start = clock.monotonic();
    let (mut entries, mut length) = (0, 0);
    for logged in wal.replay(wal.start())? {
        entries += 1;
        length += logged?.entry.len() as u64;
    }
    let time = clock.monotonic() - start;
    let what = "replay, from the page cache".to_owned();
    rows.push(Row { what, entries, bytes: length, time, latencies: Vec::new() });
    wal.close()?;
    Ok(rows)
}

/// Removes `dir`, which holds a folder of files.
fn remove(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for entry in disk.list(dir)? {
        let path = dir.join(&entry.name);
        match entry.kind {
            alluvium::storage::Kind::Dir => remove(disk, &path)?,
            _ => disk.remove_file(&path)?,
        }
    }
    disk.remove_dir(dir)
}

fn row_document(row: &Row) -> Value {
    let micros = |percent| row.percentile(percent).map(|time| time.as_secs_f64() * 1e6);
    json!({
        "what": row.what,
        "entries": row.entries,
        "bytes": row.bytes,
        "seconds": row.time.as_secs_f64(),
        "entries_per_second": row.per_second(row.entries),
        "bytes_per_second": row.per_second(row.bytes),
        "latency_us": { "p50": micros(50.0), "p99": micros(99.0), "p99.9": micros(99.9), "max": micros(100.0) },
    })
}

fn told(parent: &Path, rows: &[Row], args: &WalBenchArgs) -> String {
    let mut text = format!(
        "a log in {}, entries of {}\n{:<36}{:>14}{:>15}{:>10}{:>10}{:>10}{:>10}\n",
        parent.display(),
        bytes(u64::from(args.entry_bytes)),
        "",
        "entries/s",
        "bytes/s",
        "p50",
        "p99",
        "p99.9",
        "max"
    );
    for row in rows {
        let rate = thousands(row.per_second(row.entries) as u64);
        let _infallible =
            write!(text, "{:<36}{rate:>14}{:>15}", row.what, bytes(row.per_second(row.bytes) as u64));
        for percent in [50.0, 99.0, 99.9, 100.0] {
            if let Some(latency) = row.percentile(percent) {
                let _infallible = write!(text, "{:>10}", format!("{} us", latency.as_micros()));
            }
        }
        text.push('\n');
    }
    text.push_str("its files are removed\n");
    text
}
