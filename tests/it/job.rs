//! A job of the real program in a folder of its own: fed, started, watched, killed, and read afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use arrow::array::Array;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;

use crate::support;

/// No step of any test takes this long, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A folder with `pipeline.toml`, the input in `in/`, the table `out/x`, dead letters in `out/bad` and the
/// state in `state/`.
pub struct Site {
    _guard: tempfile::TempDir,
    pub root: PathBuf,
}

/// A program that runs.
pub struct Running {
    child: Child,
    said: Arc<Said>,
    listening: Option<JoinHandle<()>>,
}

/// What a program said on standard error, line by line.
#[derive(Default)]
struct Said {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// None: by a signal.
    pub code: Option<i32>,
    pub said: Vec<String>,
}

impl Site {
    /// A new one with this pipeline file.
    pub fn new(pipeline: &str) -> Self {
        let (guard, root) = support::folder();
        fs::create_dir_all(root.join("in")).unwrap();
        let site = Self { _guard: guard, root };
        site.set_pipeline(pipeline);
        site
    }

    pub fn set_pipeline(&self, pipeline: &str) {
        fs::write(self.pipeline(), pipeline).unwrap();
    }

    /// Replaces text of the pipeline file.
    #[track_caller]
    pub fn edit_pipeline(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.pipeline()).unwrap();
        assert!(text.contains(from), "{text}");
        self.set_pipeline(&text.replace(from, to));
    }

    pub fn pipeline(&self) -> PathBuf {
        self.root.join("pipeline.toml")
    }

    /// A file of the input.
    pub fn input(&self, name: &str) -> PathBuf {
        self.root.join("in").join(name)
    }

    pub fn table(&self) -> PathBuf {
        self.root.join("out/x")
    }

    pub fn letters(&self) -> PathBuf {
        self.root.join("out/bad")
    }

    /// Appends to a file of the input.
    pub fn feed(&self, name: &str, text: impl AsRef<[u8]>) {
        let mut file = File::options().create(true).append(true).open(self.input(name)).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    /// Starts the job.
    pub fn start(&self, more: &[&str]) -> Running {
        let mut command = Command::new(support::program());
        command.args(["run", "--log", "json"]).args(more).arg(self.pipeline());
        Running::start(command)
    }

    /// Runs the job to its end.
    #[track_caller]
    pub fn run(&self, more: &[&str]) -> Ended {
        self.start(more).wait(PATIENCE)
    }

    /// Runs the job to its end, which has to be a good one.
    #[track_caller]
    pub fn run_well(&self, more: &[&str]) -> Ended {
        let ended = self.run(more);
        assert_eq!(ended.code, Some(0), "{ended}");
        ended
    }

    /// Another command on the pipeline file, to its end: code and everything it said.
    pub fn command(&self, name: &str) -> (i32, String) {
        let output = support::alluvium().arg(name).arg(self.pipeline()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        (output.status.code().expect("it ends by itself"), said.concat())
    }

    /// The part files that wait in the staging folders of table and dead letters.
    pub fn staged(&self) -> Vec<PathBuf> {
        let staging = ["out/.x.alluvium", "out/.bad.alluvium"].map(|folder| self.root.join(folder));
        let all = staging.iter().flat_map(|folder| files(folder));
        all.filter(|path| name_of(path).starts_with("part-")).collect()
    }

    /// The files of the table with the rows that our own reader finds in each, by their path in it.
    pub fn rows_of_parts(&self) -> BTreeMap<String, Vec<i64>> {
        let table = self.table();
        files(&table)
            .into_iter()
            .map(|path| (path.strip_prefix(&table).unwrap().display().to_string(), ids_in(&path)))
            .collect()
    }

    /// The ids in the table that our own reader finds, sorted.
    pub fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.rows_of_parts().into_values().flatten().collect();
        ids.sort_unstable();
        ids
    }

    /// The dead letters, by split and position.
    pub fn dead_letters(&self) -> Vec<Value> {
        let mut letters: Vec<Value> = files(&self.letters())
            .into_iter()
            .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
            .map(|line| serde_json::from_str(&line).expect("a dead letter is a line of JSON"))
            .collect();
        letters.sort_by_key(|letter| {
            (letter["split"].as_str().unwrap_or_default().to_owned(), letter["position"].as_u64())
        });
        letters
    }

    /// The oracles of every job that ended: each of `ids` once, to our own reader, DuckDB and pyarrow alike;
    /// nothing in staging; `verify` agrees.
    #[track_caller]
    pub fn assert_landed_once(&self, ids: &[i64]) {
        let mut wanted = ids.to_vec();
        wanted.sort_unstable();
        let found = self.ids();
        if found != wanted {
            let missing: Vec<_> = wanted.iter().filter(|id| found.binary_search(id).is_err()).collect();
            let mut counts = BTreeMap::new();
            found.iter().for_each(|id| *counts.entry(id).or_insert(0) += 1);
            let others: Vec<_> = counts
                .iter()
                .filter(|(id, count)| **count > 1 || wanted.binary_search(id).is_err())
                .collect();
            panic!(
                "{} ids of {}; missing {missing:?}; repeated or foreign {others:?}",
                found.len(),
                ids.len()
            );
        }
        assert_eq!(self.staged(), Vec::<PathBuf>::new(), "left in staging");
        if let Some(read) = support::read_output(&self.table(), "parquet", "id") {
            assert_eq!((&read["rows"], &read["distinct"]), (&ids.len().into(), &ids.len().into()), "{read}");
        }
        self.assert_verified();
    }

    /// `alluvium verify` finds nothing wrong.
    #[track_caller]
    pub fn assert_verified(&self) {
        let (code, said) = self.command("verify");
        assert_eq!(code, 0, "{said}");
    }
}

impl Said {
    fn lines(&self) -> MutexGuard<'_, (Vec<String>, bool)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Starts `command`, which logs JSON, all of it.
    pub fn start(mut command: Command) -> Self {
        command
            .env("ALLUVIUM_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let said = Arc::new(Said::default());
        let heard = Arc::clone(&said);
        let listening = std::thread::spawn(move || {
            // Bytes, since a line may quote input that is not UTF-8; an error is the end as well.
            for line in lines.split(b'\n').map_while(Result::ok) {
                heard.lines().0.push(String::from_utf8_lossy(&line).into_owned());
                heard.more.notify_all();
            }
            heard.lines().1 = true;
            heard.more.notify_all();
        });
        Self { child, said, listening: Some(listening) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Everything said so far.
    pub fn said(&self) -> Vec<String> {
        self.said.lines().0.clone()
    }

    /// How often `message` was logged so far.
    pub fn count(&self, message: &str) -> usize {
        count(&self.said(), message)
    }

    /// Waits until `message` was logged `times` times. False when the program ended before it.
    #[track_caller]
    pub fn saw(&self, message: &str, times: usize) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.said.lines();
        let (mut looked, mut seen) = (0, 0);
        loop {
            seen += count(&lines.0[looked..], message);
            looked = lines.0.len();
            if seen >= times {
                return true;
            }
            if lines.1 {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{times} times {message:?} were not logged:\n{}", tail(&lines.0));
            lines = self.said.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `message` was logged `times` times, which has to happen.
    #[track_caller]
    pub fn await_message(&self, message: &str, times: usize) {
        assert!(self.saw(message, times), "it ended before {message:?}:\n{}", tail(&self.said()));
    }

    /// Waits until `done` holds, while the program runs.
    #[track_caller]
    pub fn await_that(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before {what}:\n{}", tail(&self.said()));
            assert!(Instant::now() < deadline, "it does not come to {what}:\n{}", tail(&self.said()));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a child has a number");
        rustix::process::kill_process(pid, signal).expect("our child can be signalled");
    }

    /// Kills it where it stands.
    pub fn kill(mut self) -> Ended {
        self.child.kill().expect("our child can be killed");
        self.wait(PATIENCE)
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self, at_most: Duration) -> Ended {
        let deadline = Instant::now() + at_most;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("it does not end:\n{}", tail(&self.said()));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.listening.take().expect("it is joined once").join().unwrap();
        Ended { code: status.code(), said: self.said() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Everything it said, as one text.
    pub fn text(&self) -> String {
        self.said.join("\n")
    }

    /// How often `message` was logged.
    pub fn count(&self, message: &str) -> usize {
        count(&self.said, message)
    }

    /// It ended with `code`, and said all of `words`.
    #[track_caller]
    pub fn assert_told(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self}");
        for word in words {
            assert!(self.text().contains(word), "{word:?} is not in:\n{self}");
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}:\n{}", self.code, tail(&self.said))
    }
}

/// The `message` of a line of the log.
pub fn message(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    Some(event["message"].as_str()?.to_owned())
}

fn count(lines: &[String], wanted: &str) -> usize {
    lines.iter().filter(|line| message(line).as_deref() == Some(wanted)).count()
}

fn tail(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// All files below `folder`, sorted. None where it is not there.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        // What is moved away while we look is not there.
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect();
    found.sort();
    found
}

pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The column `id` of a Parquet file.
fn ids_in(path: &Path) -> Vec<i64> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap());
    let builder = builder.unwrap_or_else(|error| panic!("{path:?} is not whole: {error}"));
    let batches = builder.build().unwrap();
    let ids = |batch: arrow::array::RecordBatch| {
        let ids = batch.column_by_name("id").expect("there is an id").as_primitive::<Int64Type>().clone();
        assert_eq!(ids.null_count(), 0, "{path:?}");
        ids.values().to_vec()
    };
    batches.flat_map(|batch| ids(batch.unwrap())).collect()
}

/// What DuckDB answers to `query`, row by row. None, said aloud, where Python is not set up.
#[track_caller]
pub fn duckdb(folder: &Path, query: &str) -> Option<Vec<Vec<Value>>> {
    const SCRIPT: &str =
        "import duckdb, json, sys\nprint(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))";
    python(folder, SCRIPT, &[query])
}

/// What a Python script prints as JSON. None, said aloud, where Python is not set up.
#[track_caller]
pub fn python<T: serde::de::DeserializeOwned>(folder: &Path, script: &str, arguments: &[&str]) -> Option<T> {
    let Some(python) = support::python() else {
        support::skip("DuckDB and pyarrow are not set up: run scripts/setup-tests");
        return None;
    };
    let output =
        Command::new(python).current_dir(folder).arg("-c").arg(script).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    Some(serde_json::from_slice(&output.stdout).expect("the script prints JSON"))
}

/// Prints a line that is shown also when the test passes.
pub fn tell(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error takes a line");
}

/// Numbers that are the same for the same seed (SplitMix64).
pub struct Chance(u64);

impl Chance {
    /// From `$ALLUVIUM_TEST_SEED`, or the clock; printed with the name of the test.
    pub fn new(test: &str) -> Self {
        let given = std::env::var("ALLUVIUM_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(now.as_nanos() as u64 % 1_000_000);
        tell(&format!("{test}: ALLUVIUM_TEST_SEED={seed}"));
        Self(seed)
    }

    /// Another row of numbers that depends on this one's seed.
    pub fn branch(&mut self) -> Self {
        Self(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
