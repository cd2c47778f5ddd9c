//! What the source of files promises, on a simulated disk and on a real one.
#![expect(clippy::disallowed_methods, reason = "tests set the stage on the real file system, and wait")]

mod follow;
mod formats;
mod identity;
mod resume;
mod shapes;
mod walk;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::Array;
use arrow::array::AsArray;
use arrow::array::RecordBatch;
use arrow::array::StringArray;
use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use crate::doors::Doors;
use crate::error::Result;
use crate::format::Decoded;
use crate::format::InputFormat;
use crate::format::SplitDecoder;
use crate::source::Read;
use crate::source::ReplayableSource;
use crate::source::file::FileSettings;
use crate::source::file::FileSource;
use crate::source::file::SplitPosition;
use crate::source::file::record;
use crate::state::State;
use crate::storage::Disk;
use crate::storage::OpenMode;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Batch;
use crate::stream::Epoch;
use crate::stream::Rejected;
use crate::stream::SplitId;
use crate::stream::TaskId;
use crate::testing::CrashDisk;
use crate::testing::sim_doors;

/// A line is a record; one that starts with `!` is a bad one. A byte order mark is skipped, and with
/// `header` a first line that starts with `#`.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) header: bool,
}

#[derive(Debug)]
struct LineDecoder {
    split: SplitId,
    start: u64,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8, false)]))
}

impl InputFormat for Lines {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn decoder(&self, split: &SplitId, head: &[u8]) -> Result<Arc<dyn SplitDecoder>> {
        let mut start = if head.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        if self.header {
            start = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
        }
        Ok(Arc::new(LineDecoder { split: split.clone(), start: start as u64 }))
    }
}

impl SplitDecoder for LineDecoder {
    fn start(&self) -> u64 {
        self.start
    }

    fn boundary(&self, bytes: &[u8]) -> usize {
        bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    fn decode(&self, base: u64, bytes: &[u8]) -> Result<Decoded> {
        let mut decoded = Decoded::default();
        let (mut lines, mut positions) = (Vec::new(), Vec::new());
        for (position, line) in lines_of(base, bytes) {
            if line.is_empty() {
                continue;
            }
            decoded.records += 1;
            if line.starts_with(b"!") {
                decoded.rejected.push(Rejected {
                    split: self.split.clone(),
                    position,
                    reason: "it starts with !".to_owned(),
                    raw: line.into(),
                    raw_len: line.len() as u64,
                });
            } else {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
                positions.push(position);
            }
        }
        if !lines.is_empty() {
            let records = RecordBatch::try_new(schema(), vec![Arc::new(StringArray::from(lines))]).unwrap();
            let positions = UInt64Array::from(positions);
            decoded.batches.push(Batch { records, split: self.split.clone(), positions });
        }
        Ok(decoded)
    }
}

/// Lines without their ends, each with the position of its first byte.
pub(super) fn lines_of(base: u64, bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut position = base;
    let mut lines = Vec::new();
    for whole in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = if whole.len() > line.len() { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        lines.push((position, line));
        position += whole.len() as u64;
    }
    lines
}

/// A record that came out, or should.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Got {
    pub(super) split: String,
    pub(super) position: u64,
    /// The line; of one that is too long its length.
    pub(super) line: std::result::Result<String, u64>,
}

/// What a file of `content` should give, in order.
pub(super) fn expected(split: &str, content: &[u8], limit: usize) -> Vec<Got> {
    let start = if content.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    lines_of(start, &content[usize::try_from(start).unwrap()..])
        .into_iter()
        .filter(|(_, line)| !line.is_empty())
        .map(|(position, line)| Got {
            split: split.to_owned(),
            position,
            line: if line.len() > limit {
                Err(line.len() as u64)
            } else {
                Ok(String::from_utf8_lossy(line).into_owned())
            },
        })
        .collect()
}

/// The records of what `next` returned.
pub(super) fn records(read: &Read) -> Vec<Got> {
    let Read::Records { batches, rejected } = read else { return Vec::new() };
    let mut got = Vec::new();
    for batch in batches {
        let lines = batch.records.column(0).as_string::<i32>();
        assert_eq!(lines.len(), batch.positions.len());
        for (line, position) in lines.iter().zip(batch.positions.values()) {
            let line = Ok(line.unwrap().to_owned());
            got.push(Got { split: batch.split.to_string(), position: *position, line });
        }
    }
    for bad in rejected {
        let line = if bad.reason.contains("limit") {
            assert_eq!(bad.raw.len() as u64, bad.raw_len.min(64 << 10));
            Err(bad.raw_len)
        } else {
            Ok(String::from_utf8_lossy(&bad.raw).into_owned())
        };
        got.push(Got { split: bad.split.to_string(), position: bad.position, line });
    }
    got.sort();
    got
}

pub(super) fn barrier(epoch: u64) -> Barrier {
    Barrier { epoch: Epoch(epoch), kind: BarrierKind::Checkpoint }
}

pub(super) fn state() -> State {
    State::in_memory(TaskId::new("source"))
}

/// A simulated disk, and a source on it that can be stopped and started.
pub(super) struct Stage {
    pub(super) disk: CrashDisk,
    pub(super) settings: FileSettings,
    pub(super) header: bool,
    /// What the state held at the last checkpoint.
    saved: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Stage {
    /// A source of `/in/<pattern>`.
    pub(super) fn new(pattern: &str) -> Self {
        let disk = CrashDisk::new();
        disk.make_dirs("/in").unwrap();
        let settings = FileSettings::new("/in", pattern);
        Self { disk, settings, header: false, saved: Vec::new() }
    }

    pub(super) fn following(pattern: &str) -> Self {
        let mut stage = Self::new(pattern);
        stage.settings.follow = true;
        stage
    }

    pub(super) fn doors(&self) -> Doors {
        sim_doors(&self.disk, 1)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.disk.write_file(Path::new("/in").join(name), content).unwrap();
    }

    pub(super) fn append(&self, name: &str, content: &str) {
        let file = self.disk.open(&Path::new("/in").join(name), OpenMode::ReadWrite).unwrap();
        file.write_at(file.size().unwrap(), content.as_bytes()).unwrap();
    }

    pub(super) fn cut(&self, name: &str, len: u64) {
        let file = self.disk.open(&Path::new("/in").join(name), OpenMode::ReadWrite).unwrap();
        file.set_len(len).unwrap();
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        self.disk.rename(&Path::new("/in").join(from), &Path::new("/in").join(to)).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        self.disk.remove_file(&Path::new("/in").join(name)).unwrap();
    }

    /// Opens the source as it was at the last checkpoint.
    pub(super) async fn open(&self) -> Result<FileSource> {
        self.open_with(Arc::new(Lines { header: self.header })).await
    }

    /// As [`Self::open`], with a format.
    pub(super) async fn open_with(&self, format: Arc<dyn InputFormat>) -> Result<FileSource> {
        let mut state = state();
        for (key, value) in &self.saved {
            state.put(key, value);
        }
        state.snapshot().unwrap();
        FileSource::open(self.settings.clone(), format, None, state, self.doors()).await
    }

    /// Takes a snapshot, of which the next [`Self::open`] goes on.
    pub(super) fn checkpoint(&mut self, source: &mut FileSource) {
        source.snapshot(barrier(1)).unwrap();
        let state = source.state();
        let pairs = state.keys(b"").into_iter().map(|key| (key.clone(), state.get(&key).unwrap().unwrap()));
        self.saved = pairs.collect();
    }

    /// Opens the source from the last snapshot, reads it to its end, and takes a snapshot.
    pub(super) async fn run(&mut self) -> Result<Vec<Got>> {
        let mut source = self.open().await?;
        let got = to_end(&mut source).await;
        if got.is_ok() {
            self.checkpoint(&mut source);
        }
        got
    }
}

/// What the state remembers of each split.
pub(super) fn remembered(source: &FileSource) -> Vec<SplitPosition> {
    record::all(source.state()).unwrap().into_iter().map(SplitPosition::from).collect()
}

/// Everything up to the end, in the order in which it came.
pub(super) async fn to_end(source: &mut FileSource) -> Result<Vec<Got>> {
    let mut got = Vec::new();
    loop {
        match source.next().await? {
            Read::End => {
                assert!(matches!(source.next().await?, Read::End), "an end stays an end");
                return Ok(got);
            }
            read => got.extend(records(&read)),
        }
    }
}

/// Everything that comes until nothing came for two seconds.
pub(super) async fn until_quiet(source: &mut FileSource) -> Result<Vec<Got>> {
    let mut got = Vec::new();
    while let Ok(read) = tokio::time::timeout(Duration::from_secs(2), source.next()).await {
        got.extend(records(&read?));
    }
    Ok(got)
}

/// The lines alone.
pub(super) fn lines(got: &[Got]) -> Vec<&str> {
    got.iter().map(|got| got.line.as_ref().map_or("(too long)", String::as_str)).collect()
}

/// `parts` as members of one gzip file.
pub(super) fn gz(parts: &[&[u8]]) -> Vec<u8> {
    let mut packed = Vec::new();
    for part in parts {
        let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap();
    }
    packed
}

/// `parts` as frames of one Zstandard file.
pub(super) fn zst(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| zstd::stream::encode_all(*part, 1).unwrap()).collect()
}
