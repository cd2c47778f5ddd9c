//! The life of a job in a simulated world, and what must hold of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use alluvium::checkpoint::inspect;
use alluvium::clock::Clock;
use alluvium::doors::Doors;
use alluvium::pipeline::Job;
use alluvium::pipeline::PipelineFile;
use alluvium::runtime::Outcome;
use alluvium::runtime::RunEvent;
use alluvium::runtime::StopRequest;
use alluvium::sink::file::open_parts;
use alluvium::stream::Epoch;
use alluvium::testing::CrashDisk;
use alluvium::testing::CrashModel;
use alluvium::testing::StepKind;
use alluvium::testing::sim_doors;
use alluvium::wal::WalReader;
use alluvium::wal::WalSettings;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tokio::sync::watch;

use super::disks::Disks;
use super::disks::INPUT;

const PIPELINE: &str = r#"
name = "sweep"
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
roll = { rows = 11, age = "1h", inactivity = "1h" }
parquet = { compression = "none", row_group_rows = 4 }
[checkpoint]
interval = "100ms"
state = "state/sweep"
[restart]
strategy = "none"
"#;
const FILE: &str = "/w/pipeline.toml";
const TABLE: &str = "/w/lake/table";
const BAD: &str = "/w/lake/bad";
const LOG: &str = "/w/state/sweep/log";

/// What the outside world does, one thing after the other.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// Somebody appends these many lines.
    Feed(u64),
    /// The job is stopped, resumably, and started again.
    Restart,
}

/// The life of a job; at its end the job is drained.
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    pub turns: &'static [Turn],
}

/// How much of the step still happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Before,
    Midway,
}

/// A crash at the step of that number, counted from the start of the process, and what survives it.
#[derive(Debug, Clone, Copy)]
pub struct Crash {
    pub step: usize,
    pub how: How,
    pub model: CrashModel,
    pub seed: u64,
}

/// What a crash left.
#[derive(Debug, Default)]
pub struct Image {
    /// There is a checkpoint to go on from.
    pub restorable: bool,
    /// It has a half-full row group, a spilled chunk, a pending file and a dead letter.
    pub everything_at_once: bool,
}

/// What was promised to somebody outside.
#[derive(Debug, Default, Clone)]
struct Acknowledged {
    /// Committed files and their bytes.
    files: BTreeMap<PathBuf, Vec<u8>>,
    checkpoint: Option<Epoch>,
}

/// The disks, and what the world knows of the job.
pub struct World {
    disks: Disks,
    /// The disk that the last crash hit.
    crashed: Option<CrashDisk>,
    turn: usize,
    fed: u64,
    acknowledged: Arc<Mutex<Acknowledged>>,
    running_at: Arc<Mutex<Option<usize>>>,
    starts: Cell<u64>,
}

impl World {
    pub fn new() -> Self {
        let (job, input) = (CrashDisk::new(), CrashDisk::new());
        job.make_dirs("/w").expect("an empty disk takes a folder");
        input.make_dirs(INPUT).expect("an empty disk takes a folder");
        Self {
            disks: Disks { job, input },
            crashed: None,
            turn: 0,
            fed: 0,
            acknowledged: Arc::default(),
            running_at: Arc::default(),
            starts: Cell::new(0),
        }
    }

    pub fn job_disk(&self) -> &CrashDisk {
        &self.disks.job
    }

    /// Steps of the last start before its records flowed.
    pub fn steps_until_running(&self) -> usize {
        lock(&self.running_at).unwrap_or_default()
    }

    /// Lives until `crash`; the disk is then what survived. False when the script ended before.
    pub fn crash_once(&mut self, script: &Script, crash: Crash) -> bool {
        match crash.how {
            How::Before => self.disks.job.crash_at(crash.step),
            How::Midway => self.disks.job.crash_midway(crash.step),
        }
        let lived = live(self, script);
        if !self.disks.job.crashed() {
            lived.expect("without a crash the job ends well");
            return false;
        }
        let survived = self.disks.job.after_crash(crash.model, crash.seed);
        self.crashed = Some(std::mem::replace(&mut self.disks.job, survived));
        true
    }

    /// The kind of step that the crash hit.
    pub fn crashed_in(&self, crash: Crash) -> Option<&'static str> {
        let steps = self.crashed.as_ref()?.steps();
        steps.get(crash.step).map(|step| step_name(step.kind))
    }

    /// Looks at what a crash left, without changing it.
    pub fn look_at_image(&self, case: &str) -> Image {
        let doors = self.doors();
        let Ok(reader) = WalReader::open(Path::new(LOG), &doors) else { return Image::default() };
        let inspection = inspect(Arc::new(reader)).unwrap_or_else(|error| panic!("{case}: {error:?}"));
        let Some(newest) = inspection.newest() else { return Image::default() };
        let states =
            inspection.states(newest.record.epoch).unwrap_or_else(|error| panic!("{case}: {error:?}"));
        let mut image = Image { restorable: true, ..Image::default() };
        let (mut half, mut spilled, mut pending, mut letters) = (false, false, false, false);
        for state in &states {
            for part in open_parts(state).unwrap_or_else(|error| panic!("{case}: {error:?}")) {
                if state.task().as_str() == "dead-letters" {
                    letters = true;
                    continue;
                }
                pending |= part.pending;
                spilled |= part.waiting_rows > 0;
                half |= part.row_groups > 0 && part.waiting_rows > 0 && part.waiting_rows < 4;
            }
        }
        image.everything_at_once = half && spilled && pending && letters;
        image
    }

    /// What was acknowledged before the crash is there after it, before anybody repairs anything.
    pub fn check_acknowledged(&self, case: &str) {
        let acknowledged = lock(&self.acknowledged);
        for (path, bytes) in &acknowledged.files {
            match self.disks.job.read_file(path) {
                Ok(found) if found == *bytes => {}
                Ok(found) => {
                    panic!("{case}: {path:?} was visible with {} bytes, now {}", bytes.len(), found.len())
                }
                Err(error) => panic!("{case}: {path:?} was visible, now {error}"),
            }
        }
    }

    /// Every record is in the output once, and nothing else is anywhere.
    pub fn check_end(&self, case: &str) {
        let (mut ids, mut letters, mut strays) = (Vec::new(), Vec::new(), Vec::new());
        for path in self.disks.job.list_all() {
            let text = path.to_string_lossy().into_owned();
            let bytes = || self.disks.job.read_file(&path).unwrap_or_default();
            if path.starts_with(TABLE) && text.ends_with(".parquet") {
                read_ids(&text, bytes(), &mut ids, case);
            } else if path.starts_with(BAD) && text.ends_with(".ndjson") {
                read_letters(&bytes(), &mut letters, case);
            } else if text.contains(".alluvium") || path.starts_with("/w/lake") && text.contains("part-") {
                strays.push(text);
            }
        }
        let expected = |bad: bool| (0..self.fed).filter(|id| is_bad(*id) == bad).collect::<Vec<_>>();
        ids.sort_unstable();
        letters.sort_unstable();
        assert_eq!(ids, expected(false), "{case}: rows of the table\n{}", self.disks.job.dump());
        assert_eq!(letters, expected(true), "{case}: dead letters\n{}", self.disks.job.dump());
        assert_eq!(strays, Vec::<String>::new(), "{case}: left behind");
    }

    fn doors(&self) -> Doors {
        // A clock, randomness and threads as in any simulation; the disks are two.
        let doors = sim_doors(&self.disks.job, 77 + self.starts.get());
        Doors { disk: Arc::new(self.disks.clone()), ..doors }
    }

    fn feed(&mut self, lines: u64) {
        for id in self.fed..self.fed + lines {
            let file = format!("{INPUT}/{}.ndjson", if id % 3 == 0 { "x" } else { "y" });
            let mut text = self.disks.input.read_file(&file).unwrap_or_default();
            text.extend_from_slice(line(id).as_bytes());
            self.disks.input.write_file(&file, text).expect("the input's disk works");
        }
        self.fed += lines;
    }
}

/// Lives the script from where the world stands to its end, or to an error.
pub fn live(world: &mut World, script: &Script) -> alluvium::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        loop {
            if start(world, script).await? == Outcome::Finished {
                return Ok(());
            }
        }
    })
}

/// One process: it runs until the script stops or drains it.
async fn start(world: &mut World, script: &Script) -> alluvium::Result<Outcome> {
    world.starts.set(world.starts.get() + 1);
    *lock(&world.running_at) = None;
    let doors = world.doors();
    let clock = Arc::clone(&doors.clock);
    let pipeline = PipelineFile::from_text(FILE, PIPELINE).pipeline(&[("HOME", "/w"); 1])?;
    let log = WalSettings { segment_bytes: 64 << 10, ..WalSettings::default() };
    let job = Job::new(pipeline, doors).with_log(log).with_observer(observer(world));
    let (stop, stopping) = watch::channel(StopRequest::None);
    let outside = outside(world, script, &*clock, &stop);
    let (outcome, ()) = tokio::join!(biased; job.run(stopping), outside);
    outcome
}

/// Does what the script says until the job is to stop.
async fn outside(world: &mut World, script: &Script, clock: &dyn Clock, stop: &watch::Sender<StopRequest>) {
    while let Some(turn) = script.turns.get(world.turn) {
        if world.disks.job.crashed() {
            return;
        }
        world.turn += 1;
        match turn {
            Turn::Feed(lines) => {
                world.feed(*lines);
                clock.sleep(Duration::from_millis(330)).await;
            }
            Turn::Restart => {
                stop.send_replace(StopRequest::Stop);
                return;
            }
        }
    }
    stop.send_replace(StopRequest::Drain);
}

/// Writes down what is acknowledged, at the moment at which it is.
fn observer(world: &World) -> alluvium::runtime::Observer {
    let (disk, acknowledged) = (world.disks.job.clone(), Arc::clone(&world.acknowledged));
    let running_at = Arc::clone(&world.running_at);
    Arc::new(move |event| match event {
        RunEvent::Running => *lock(&running_at) = Some(disk.step_count()),
        RunEvent::Started { restored, .. } => {
            let before = lock(&acknowledged).checkpoint;
            assert!(*restored >= before, "checkpoint {before:?} was complete, the start found {restored:?}");
        }
        RunEvent::Completed { epoch, .. } => lock(&acknowledged).checkpoint = Some(*epoch),
        RunEvent::Committed { .. } => {
            let mut acknowledged = lock(&acknowledged);
            for path in disk.list_all() {
                let visible = path.starts_with(TABLE) || path.starts_with(BAD);
                let new = visible && !acknowledged.files.contains_key(&path);
                if new && let Ok(bytes) = disk.read_file(&path) {
                    acknowledged.files.insert(path, bytes);
                }
            }
        }
        _ => {}
    })
}

/// Every seventh line is broken.
fn is_bad(id: u64) -> bool {
    id % 7 == 3
}

fn line(id: u64) -> String {
    let mut line = format!("{{\"id\":{id},\"kind\":\"{}\"", if id.is_multiple_of(2) { "a" } else { "b" });
    line.push_str(if is_bad(id) { "\n" } else { "}\n" });
    line
}

fn read_ids(path: &str, bytes: Vec<u8>, ids: &mut Vec<u64>, case: &str) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .unwrap_or_else(|error| panic!("{case}: {path}: {error}"));
    for batch in reader {
        let batch = batch.unwrap_or_else(|error| panic!("{case}: {path}: {error}"));
        ids.extend(batch.column(0).as_primitive::<Int64Type>().values().iter().map(|id| id.cast_unsigned()));
    }
}

fn read_letters(bytes: &[u8], letters: &mut Vec<u64>, case: &str) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let letter: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{case}: {line}: {error}"));
        let raw = letter["raw"].as_str().unwrap_or_default();
        let id = raw.trim_start_matches("{\"id\":").split(',').next().and_then(|id| id.parse().ok());
        letters.push(id.unwrap_or_else(|| panic!("{case}: a dead letter without an id: {line}")));
    }
}

fn step_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Create => "create",
        StepKind::Write => "write",
        StepKind::RegionWrite => "write to a map",
        StepKind::SetLen => "set length",
        StepKind::Reserve => "reserve",
        StepKind::Sync => "sync",
        StepKind::SyncDir => "sync of a folder",
        StepKind::Rename => "rename",
        StepKind::Link => "link",
        StepKind::Remove => "remove",
        StepKind::CreateDir => "create folder",
        StepKind::RemoveDir => "remove folder",
        StepKind::Read => "read",
    }
}

/// The kinds of steps that a job makes, in the order of their names; links only where renames cannot do.
pub fn step_names() -> Vec<&'static str> {
    let kinds = [
        StepKind::Create,
        StepKind::Write,
        StepKind::RegionWrite,
        StepKind::SetLen,
        StepKind::Reserve,
        StepKind::Sync,
        StepKind::SyncDir,
        StepKind::Rename,
        StepKind::Remove,
        StepKind::CreateDir,
        StepKind::RemoveDir,
    ];
    kinds.into_iter().map(step_name).collect::<BTreeSet<_>>().into_iter().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
