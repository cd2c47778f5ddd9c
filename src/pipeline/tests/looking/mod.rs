//! `inspect`, `verify` and `gc` at every moment of a job's life.
//!
//! A life is a function of its script: the disk at each of its steps can be had again, as it is seen beside
//! the running job and as a killed job leaves it. What looks at it while the job goes on sees two moments,
//! one before and one after a switch.

mod asking;
mod garbage;
mod moments;
mod report;
mod wrongs;

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use crate::doors::Doors;
use crate::error::Result;
use crate::pipeline::Job;
use crate::pipeline::Pipeline;
use crate::pipeline::PipelineFile;
use crate::pipeline::Verification;
use crate::pipeline::VerifySettings;
use crate::pipeline::verify;
use crate::runtime::StopRequest;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Entry;
use crate::storage::FileSystem;
use crate::storage::Metadata;
use crate::storage::OpenMode;
use crate::testing::CrashDisk;
use crate::testing::CrashModel;
use crate::testing::sim_doors;
use crate::wal::WalSettings;

/// A job that commits on its way, and whose files cross checkpoints half full.
const LOOKED_AT: &str = r#"
name = "looked-at"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "40ms"
[schema]
id = "int64"
kind = "string"
[on_error]
bad_record = "dead_letter"
dead_letters = "lake/bad"
[sink]
type = "file"
path = "lake/table"
format = "parquet"
partition_by = ["kind={kind}"]
roll = { rows = 7, age = "1h", inactivity = "1h" }
parquet = { compression = "none", row_group_rows = 3 }
[checkpoint]
interval = "50ms"
state = "state/job"
[restart]
strategy = "none"
"#;

const STATE: &str = "/jobs/state/job";

fn pipeline() -> Pipeline {
    PipelineFile::from_text("/jobs/job.toml", LOOKED_AT).pipeline(&[("HOME", "/")]).unwrap()
}

/// What happens to the job.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// Lines appear in its input, and time passes.
    Feed(u64),
    /// It is stopped and started again.
    Restart,
    /// Lines appear in its input; it is killed as soon as it begins a file for them, and started again.
    Kill(u64),
    /// Its input ends.
    Drain,
}

/// A life with restarts of all kinds, up to the end of the input.
const LIFE: &[Turn] = &[
    Turn::Feed(9),
    Turn::Feed(14),
    Turn::Kill(12),
    Turn::Feed(2),
    Turn::Restart,
    Turn::Feed(11),
    Turn::Feed(3),
    Turn::Drain,
];

/// Records of [`LIFE`].
const FED: u64 = 51;

fn simulate<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

async fn passes(ms: u64) {
    #[expect(clippy::disallowed_methods, reason = "the test is the world, and time passes in it")]
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Lives `turns` on `disk`; ends early when the disk crashes. The job is left as the last turn leaves it:
/// killed, unless it has ended.
async fn live(disk: &CrashDisk, turns: &[Turn]) {
    disk.make_dirs("/jobs/in").unwrap();
    let mut fed = 0;
    let mut lines = String::new();
    let mut start = 0;
    let begin = |start: &mut u64| {
        *start += 1;
        let job = Job::new(pipeline(), sim_doors(disk, *start))
            .with_log(WalSettings { segment_bytes: 64 << 10, ..WalSettings::default() });
        let (stop, stopping) = watch::channel(StopRequest::None);
        (tokio::spawn(async move { job.run(stopping).await }), stop)
    };
    let mut feed = |count: u64| {
        for id in fed..fed + count {
            lines.push_str(&match id % 5 {
                4 => "broken\n".to_owned(),
                kind => format!("{{\"id\":{id},\"kind\":\"k{}\"}}\n", kind % 3),
            });
        }
        fed += count;
        if !disk.crashed() {
            disk.write_file("/jobs/in/a.ndjson", &lines).unwrap();
        }
    };
    let (mut running, mut stop) = begin(&mut start);
    for turn in turns {
        match turn {
            Turn::Feed(count) => {
                feed(*count);
                passes(200).await;
            }
            Turn::Kill(count) => {
                let before = disk.list_all().len();
                feed(*count);
                for _ in 0..200 {
                    if disk.list_all().len() > before {
                        break;
                    }
                    passes(1).await;
                }
                running.abort();
                let _cancelled = running.await;
                (running, stop) = begin(&mut start);
                passes(100).await;
            }
            Turn::Restart | Turn::Drain => {
                let drain = matches!(turn, Turn::Drain);
                let _ended = stop.send(if drain { StopRequest::Drain } else { StopRequest::Stop });
                let ended = running.await.unwrap();
                assert!(ended.is_ok() || disk.crashed(), "{ended:?}");
                if drain {
                    return;
                }
                (running, stop) = begin(&mut start);
                passes(100).await;
            }
        }
        if disk.crashed() {
            break;
        }
    }
    running.abort();
    let _cancelled = running.await;
}

/// The disk after `turns`, with nothing running.
fn lived(turns: &[Turn]) -> CrashDisk {
    let disk = CrashDisk::new();
    simulate(live(&disk, turns));
    disk.after_crash(CrashModel::ProcessOnly, 0)
}

/// The disk before the step `number` of [`LIFE`], as it is seen beside the job.
fn moment(number: usize) -> CrashDisk {
    let disk = CrashDisk::new();
    disk.crash_at(number);
    simulate(live(&disk, LIFE));
    disk.after_crash(CrashModel::ProcessOnly, 0)
}

/// Steps of [`LIFE`].
fn steps() -> usize {
    let disk = CrashDisk::new();
    simulate(live(&disk, LIFE));
    disk.step_count()
}

fn doors(disk: &CrashDisk) -> Doors {
    sim_doors(disk, 99)
}

fn verified(disk: &CrashDisk, settings: VerifySettings) -> Verification {
    simulate(async { verify(&pipeline(), &doors(disk), settings).await }).unwrap()
}

/// What is found wrong with `disk`, as text.
fn wrong(disk: &CrashDisk) -> Vec<String> {
    verified(disk, VerifySettings::default()).findings.iter().map(ToString::to_string).collect()
}

/// All part files in the table.
fn table_files(disk: &CrashDisk) -> Vec<PathBuf> {
    disk.list_all().into_iter().filter(|path| path.starts_with("/jobs/lake/table")).collect()
}

/// A disk that is one and, from the look `at` on, another: the same place, later.
#[derive(Debug)]
struct Moving {
    before: CrashDisk,
    after: CrashDisk,
    at: usize,
    looks: AtomicUsize,
    /// It is a network file system.
    network: bool,
    /// A folder that may not be written to.
    locked: Option<PathBuf>,
}

impl Moving {
    fn now(&self) -> &CrashDisk {
        if self.looks.fetch_add(1, Ordering::Relaxed) < self.at { &self.before } else { &self.after }
    }
}

impl Disk for Moving {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        assert_eq!(mode, OpenMode::Read, "{path:?}");
        self.now().open(path, mode)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.now().metadata(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.now().list(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.now().canonicalize(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        let system = self.now().file_system(path)?;
        Ok(FileSystem { network: self.network, ..system })
    }

    fn may_write(&self, path: &Path) -> io::Result<bool> {
        self.now().may_write(path).map(|may| may && self.locked.as_deref() != Some(path))
    }

    fn create_dir(&self, path: &Path, _private: bool) -> io::Result<()> {
        panic!("it makes {path:?}")
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        panic!("it syncs {path:?}")
    }

    fn rename(&self, from: &Path, _to: &Path) -> io::Result<()> {
        panic!("it renames {from:?}")
    }

    fn link(&self, from: &Path, _to: &Path) -> io::Result<()> {
        panic!("it links {from:?}")
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        panic!("it removes {path:?}")
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        panic!("it removes {path:?}")
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        panic!("it locks {path:?}")
    }
}

/// Doors to `before`, which becomes `after` at the look `at`.
fn moving(before: &CrashDisk, after: &CrashDisk, at: usize) -> Doors {
    let (before, after) = (before.clone(), after.clone());
    let disk = Moving { before, after, at, looks: AtomicUsize::new(0), network: false, locked: None };
    doors_to(disk)
}

/// Doors to `disk`.
fn doors_to(disk: Moving) -> Doors {
    Doors { disk: Arc::new(disk), ..doors(&CrashDisk::new()) }
}
