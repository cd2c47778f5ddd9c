//! Takes rows, gathers them by bucket, and appends chunks to part files.
//!
//! Owns the flow between two barriers; what happens at one is in [`super::barrier`].
//!
//! Rows of a bucket wait, first those spilled to the log, then those in memory, until they are a chunk
//! (a row group). It is encoded on a computing thread, at most one for each bucket, while more rows are
//! gathered and barriers pass; what comes back is appended at the recorded length. Until then a barrier
//! spills those of its rows that only memory holds.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::hash_map;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use crate::error::Error;
use crate::error::Result;
use crate::format::Gather;
use crate::sink::PreCommit;
use crate::sink::SinkStatus;
use crate::sink::SinkWriter;
use crate::sink::file::bucket::BucketKey;
use crate::sink::file::bucket::Unplaced;
use crate::sink::file::config::OnUnplaced;
use crate::sink::file::descriptors::AppendError;
use crate::sink::file::descriptors::Descriptors;
use crate::sink::file::descriptors::PartFile;
use crate::sink::file::durable;
use crate::sink::file::durable::Rounds;
use crate::sink::file::durable::Syncing;
use crate::sink::file::encode::Chunk;
use crate::sink::file::encode::Definition;
use crate::sink::file::encode::Encoded;
use crate::sink::file::ledger;
use crate::sink::file::name::PartName;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::InProgressPart;
use crate::sink::file::part::Now;
use crate::sink::file::part::Rows;
use crate::sink::file::recover::Verdict;
use crate::sink::file::status::Sums;
use crate::sink::file::table::Table;
use crate::state::State;
use crate::storage::Kind;
use crate::stream::Barrier;
use crate::stream::Batch;
use crate::stream::Rejected;

/// Writes part files; nothing of them is visible before their commit.
///
/// Dropping it closes descriptors and forgets rows in memory; it removes nothing (C11).
pub struct FileWriter {
    pub(super) table: Arc<Table>,
    pub(super) state: State,
    /// Numbers of parts are the writer's own; they rise, so that every walk has one order.
    pub(super) parts: BTreeMap<u64, Part>,
    /// The part that takes new rows of a bucket.
    active: HashMap<BucketKey, u64>,
    next_part: u64,
    sequence: u64,
    /// What new files are begun with, by the columns they hold.
    definitions: HashMap<Arc<[usize]>, Arc<Definition>>,
    pub(super) encoders: FuturesUnordered<BoxFuture<'static, (u64, Result<Encoded>)>>,
    /// Memory of rows that wait, and of those that are being encoded.
    pub(super) buffered_bytes: u64,
    pub(super) encoding_bytes: u64,
    descriptors: Descriptors,
    staging_made: bool,
    /// Files were made since the last barrier.
    pub(super) made: bool,
    pub(super) rounds: Rounds,
    /// Syncs of files that were finished since the last barrier.
    pub(super) closing: Vec<Syncing>,
    /// Bytes of rows in memory, and of what they were encoded to: for estimates.
    pub(super) raw_bytes: u64,
    pub(super) encoded_bytes: u64,
    /// No part is due by age or inactivity before this moment of the monotonic clock.
    due_not_before: Option<Duration>,
    rejected: Vec<Rejected>,
    /// What was taken and what became of it, since the job's first start.
    pub(super) sums: Sums,
    /// A call failed, or was dropped half-way: nothing is done any more.
    broken: bool,
}

/// A part file and the rows on their way to it.
pub(super) struct Part {
    pub(super) record: InProgressPart,
    pub(super) definition: Arc<Definition>,
    /// The columns of the table that it holds.
    columns: Arc<[usize]>,
    pub(super) file: Arc<PartFile>,
    pub(super) buffer: Gather,
    /// The chunk, or the ending, that is being encoded.
    pub(super) encoding: Option<Encoding>,
    /// Bytes since the last barrier.
    pub(super) grown: bool,
    /// Takes no new rows: closed at the next barrier (D15).
    pub(super) inherited: bool,
}

/// What a chunk took.
#[derive(Default)]
pub(super) struct Encoding {
    /// Spilled rows, all below this item of the list.
    pub(super) spilled: Rows,
    pub(super) items_end: u64,
    /// Rows from memory that were not spilled: what a barrier that comes meanwhile spills, rather than
    /// wait for the encoder.
    pub(super) unspilled: Vec<RecordBatch>,
    pub(super) unspilled_rows: Rows,
    /// Memory of rows and of what they were spilled from.
    pub(super) buffered_bytes: u64,
    /// It ends the file.
    pub(super) ending: bool,
}

impl Part {
    /// Rows in memory that no chunk has.
    pub(super) fn buffered(&self) -> Rows {
        Rows { rows: self.buffer.rows() as u64, bytes: self.buffer.memory_bytes() as u64 }
    }

    /// Rows that are neither in the file nor in the state.
    pub(super) fn unspilled(&self) -> Rows {
        let taken = self.encoding.as_ref().map_or(Rows::default(), |encoding| encoding.unspilled_rows);
        self.buffered() + taken
    }

    /// Rows that no chunk has, and their memory when they were taken.
    pub(super) fn waiting(&self) -> Rows {
        let (spilled, buffered) = (self.record.spilled, self.buffered());
        let taken = self.encoding.as_ref().map_or(Rows::default(), |encoding| encoding.spilled);
        Rows {
            rows: spilled.rows - taken.rows + buffered.rows,
            bytes: spilled.bytes - taken.bytes + buffered.bytes,
        }
    }
}

/// How long a full disk is waited for before the task gives up, in all.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(60);
/// How long until it is asked again.
pub(super) const ROOM_PAUSE: Duration = Duration::from_millis(500);

impl FileWriter {
    /// The writer after a start: files in progress are cut as their verdicts say.
    pub(super) async fn recovered(
        table: Arc<Table>,
        state: State,
        in_progress: Vec<(InProgressPart, Verdict)>,
        definitions: &[Arc<Definition>],
        sums: Sums,
    ) -> Result<Self> {
        let mut writer = Self {
            descriptors: Descriptors::new(table.settings.descriptors_max),
            table,
            state,
            parts: BTreeMap::new(),
            active: HashMap::new(),
            next_part: 0,
            sequence: 1,
            definitions: HashMap::new(),
            encoders: FuturesUnordered::new(),
            buffered_bytes: 0,
            encoding_bytes: 0,
            staging_made: false,
            made: false,
            rounds: Rounds::default(),
            closing: Vec::new(),
            raw_bytes: 0,
            encoded_bytes: 0,
            due_not_before: Some(Duration::ZERO),
            rejected: Vec::new(),
            sums,
            broken: false,
        };
        for (record, verdict) in in_progress {
            let definition = definitions.iter().find(|known| known.id == record.definition).cloned();
            let Some(definition) = definition else {
                return Err(Error::fatal(format!("{} has no definition", record.name)));
            };
            let (disk, path) = (Arc::clone(&writer.table.doors.disk), writer.table.hidden(&record.name));
            let exists = matches!(verdict, Verdict::Cut { .. });
            let file = Arc::new(PartFile::new(disk, path, exists));
            if let Verdict::Cut { to } = verdict {
                // A file of which nothing is recorded may have been made by a process that was killed
                // before it synced the folder (P3).
                writer.made |= to == 0;
                let victims = writer.descriptors.used(&file);
                let cut = Arc::clone(&file);
                let job = move || {
                    close_all(&victims)?;
                    cut.cut(to)
                };
                writer.table.doors.io.run(job).await??;
            }
            let bucket = record.bucket.clone();
            let (columns, current) = writer.definition(&bucket)?;
            let inherited = current.id != definition.id;
            let buffer = Gather::new(Arc::clone(&definition.schema));
            let part =
                Part { record, definition, columns, file, buffer, encoding: None, grown: exists, inherited };
            let number = writer.add(part);
            if !inherited {
                writer.active.insert(bucket, number);
            }
        }
        Ok(writer)
    }

    /// Removes files of this lineage in staging that the state does not know and that an earlier start
    /// made: to be called once what was recovered is committed. Returns how many.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Retry`] when the folder cannot be listed or a file not be removed.
    pub async fn sweep_orphans(&mut self) -> Result<usize> {
        let known: std::collections::HashSet<Vec<u8>> = self.state.keys(b"part/").into_iter().collect();
        let table = Arc::clone(&self.table);
        let job = move || {
            let (disk, folder) = (&table.doors.disk, &table.folders.staging);
            let failed = |what: &str, error| Error::retry(what.to_owned()).with_source(error);
            let entries = match disk.list(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
                Err(error) => return Err(failed("the staging folder cannot be listed", error)),
            };
            let mut removed = 0;
            for entry in entries.into_iter().filter(|entry| entry.kind == Kind::File) {
                let Some(name) = entry.name.to_str().and_then(PartName::parse) else { continue };
                let ours_before = name.lineage == table.identity.lineage
                    && name.incarnation < table.identity.incarnation
                    && name.writer == table.identity.writer;
                if ours_before && !known.contains(&ledger::part_key(&name)) {
                    disk.remove_file(&table.hidden(&name)).map_err(|error| {
                        failed("a file that no checkpoint names cannot be removed", error)
                    })?;
                    removed += 1;
                }
            }
            if removed > 0 {
                disk.sync_dir(folder)
                    .map_err(|error| failed("the staging folder cannot be made durable", error))?;
            }
            Ok(removed)
        };
        self.table.doors.io.run(job).await?
    }

    /// Rows that no bucket could take since the last call, where the settings say
    /// [`OnUnplaced::Reject`]: bad records of the current epoch.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.rejected)
    }

    /// Removes the empty staging folder and its lock after a clean end of the input, once everything is
    /// committed. Where something waits nothing happens.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Retry`] when a folder cannot be removed.
    pub async fn tidy(&mut self) -> Result<()> {
        let table = Arc::clone(&self.table);
        self.staging_made = false;
        self.table.doors.io.run(move || table.folders.tidy()).await?
    }

    /// How much is on its way, for metrics.
    pub fn stats(&self) -> WriterStats {
        let mut stats = WriterStats {
            open_parts: self.parts.len() as u64,
            buffered_bytes: self.buffered_bytes + self.encoding_bytes,
            ..WriterStats::default()
        };
        for part in self.parts.values() {
            stats.buffered_rows += part.buffered().rows;
            stats.spilled_rows += part.record.spilled.rows;
            stats.encoding += u64::from(part.encoding.is_some());
        }
        stats
    }

    pub(super) fn now(&self) -> Now {
        Now::of(&*self.table.doors.clock)
    }

    pub(super) fn check_usable(&mut self) -> Result<()> {
        if self.broken {
            return Err(Error::retry("the file sink failed before: it goes on after a restart of the job"));
        }
        self.rounds.check()
    }

    fn add(&mut self, part: Part) -> u64 {
        let number = self.next_part;
        self.next_part += 1;
        self.parts.insert(number, part);
        number
    }

    /// What a new file of `bucket` is begun with.
    fn definition(&mut self, bucket: &BucketKey) -> Result<(Arc<[usize]>, Arc<Definition>)> {
        let columns: Arc<[usize]> = self.table.assigner.columns(bucket).into();
        match self.definitions.entry(Arc::clone(&columns)) {
            hash_map::Entry::Occupied(known) => Ok((columns, Arc::clone(known.get()))),
            hash_map::Entry::Vacant(free) => {
                let schema = self.table.schema.project(free.key()).map_err(|error| {
                    Error::fatal(format!("bucket {bucket} has no such columns")).with_source(error)
                })?;
                let definition = Definition::new(Arc::new(schema), self.table.settings.format.clone())?;
                Ok((columns, Arc::clone(free.insert(Arc::new(definition)))))
            }
        }
    }

    /// The part that takes rows of `bucket` now.
    fn active_part(&mut self, bucket: &BucketKey, now: Now) -> Result<u64> {
        if let Some(number) = self.active.get(bucket) {
            return Ok(*number);
        }
        let (columns, definition) = self.definition(bucket)?;
        let key = Definition::key(definition.id);
        if self.state.get(&key)?.is_none() {
            self.state.put(&key, &definition.encode()?);
        }
        let name = self.table.part_name(self.sequence);
        self.sequence += 1;
        let path = self.table.hidden(&name);
        let part = Part {
            record: InProgressPart::begin(name, bucket.clone(), definition.id, now),
            file: Arc::new(PartFile::new(Arc::clone(&self.table.doors.disk), path, false)),
            buffer: Gather::new(Arc::clone(&definition.schema)),
            definition,
            columns,
            encoding: None,
            grown: false,
            inherited: false,
        };
        let number = self.add(part);
        self.active.insert(bucket.clone(), number);
        let roll = &self.table.settings.roll;
        if let Some(first) = [roll.age, roll.inactivity].into_iter().flatten().min() {
            let due = now.monotonic() + first;
            self.due_not_before = Some(self.due_not_before.map_or(due, |earlier| earlier.min(due)));
        }
        Ok(number)
    }

    pub(super) fn part(&mut self, number: u64) -> Result<&mut Part> {
        self.parts.get_mut(&number).ok_or_else(|| Error::fatal(format!("part {number} is not in progress")))
    }

    /// The part takes no rows any more.
    pub(super) fn retire(&mut self, number: u64) -> Result<Part> {
        let Some(part) = self.parts.remove(&number) else {
            return Err(Error::fatal(format!("part {number} is not in progress")));
        };
        if self.active.get(&part.record.bucket) == Some(&number) {
            self.active.remove(&part.record.bucket);
        }
        Ok(part)
    }

    async fn take_batch(&mut self, batch: Batch) -> Result<()> {
        let (now, arrival) = (self.now(), self.table.doors.clock.now());
        let assigned = self.table.assigner.assign(&batch.records, arrival)?;
        self.reject(&batch, &assigned.unplaced)?;
        // Buckets nearly all hold the same columns.
        let mut projected: Option<(Arc<[usize]>, RecordBatch)> = None;
        for rows in assigned.buckets {
            let numbers = rows.rows.values();
            let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { continue };
            let positions = batch.positions.values();
            let (Some(first), Some(last)) = (positions.get(*first as usize), positions.get(*last as usize))
            else {
                return Err(Error::fatal("a batch has fewer positions than rows"));
            };
            let number = self.active_part(&rows.bucket, now)?;
            self.sums.took(numbers.len());
            let part = self.part(number)?;
            part.record.takes(&batch.split, *first, *last, now);
            let records = match &projected {
                Some((columns, records)) if *columns == part.columns => records.clone(),
                _ => project(&batch.records, &part.columns)?,
            };
            projected = Some((Arc::clone(&part.columns), records.clone()));
            self.add_rows(number, &records, numbers).await?;
        }
        if self.due_not_before.is_some_and(|due| due <= now.monotonic()) {
            self.find_due(now);
        }
        self.keep_memory().await
    }

    /// Adds rows to a part's buffer, in pieces, so that no chunk grows beyond its limit.
    async fn add_rows(&mut self, number: u64, records: &RecordBatch, rows: &[u32]) -> Result<()> {
        let settings = &self.table.settings;
        let (rows_max, bytes_max) = settings.format.chunk_limits(settings.row_group_bytes);
        let mut left = rows;
        while !left.is_empty() {
            let part = self.part(number)?;
            let room = rows_max.saturating_sub(part.waiting().rows).max(1);
            let (piece, rest) = left.split_at(usize::try_from(room).unwrap_or(usize::MAX).min(left.len()));
            left = rest;
            let before = part.buffered().bytes;
            part.buffer.push(records, piece)?;
            let (after, waiting) = (part.buffered().bytes, part.waiting());
            self.buffered_bytes = self.buffered_bytes.saturating_sub(before) + after;
            if waiting.rows >= rows_max || waiting.bytes >= bytes_max {
                self.begin_chunk(number).await?;
            }
        }
        Ok(())
    }

    fn reject(&mut self, batch: &Batch, unplaced: &[Unplaced]) -> Result<()> {
        for row in unplaced {
            let at = row.row as usize;
            let position = batch.positions.values().get(at).copied().unwrap_or_default();
            if self.table.settings.unplaced == OnUnplaced::Fail {
                return Err(Error::fatal(format!("{} at {position}: {}", batch.split, row.reason)));
            }
            let mut raw = json_line(&batch.records.slice(at, 1))?;
            let raw_len = raw.len() as u64;
            raw.truncate(REJECTED_BYTES_MAX);
            self.rejected.push(Rejected {
                split: batch.split.clone(),
                position,
                reason: row.reason.clone(),
                raw: raw.into(),
                raw_len,
            });
        }
        Ok(())
    }

    /// Hands all waiting rows of a part to an encoder.
    pub(super) async fn begin_chunk(&mut self, number: u64) -> Result<()> {
        while self.part(number)?.encoding.is_some() || self.encoders.len() >= self.table.doors.cpu.width() {
            self.finish_one().await?;
        }
        let (reader, cpu) = (self.state.reader(), self.table.doors.cpu.clone());
        let Some(part) = self.parts.get_mut(&number) else { return Ok(()) };
        let list = ledger::rows_list(&part.record.name);
        let items = self.state.list(&list);
        let spilled = items.clone().map(|index| {
            let missing = || Error::fatal(format!("{}: spilled rows are gone", part.record.name));
            self.state.locate(&list, index).ok_or_else(missing)
        });
        let chunk = Chunk {
            definition: Arc::clone(&part.definition),
            offset: part.record.content.len,
            spilled: spilled.collect::<Result<_>>()?,
            reader,
            buffered: Vec::new(),
        };
        let rows = part.buffered();
        let chunk = Chunk { buffered: part.buffer.take_all()?, ..chunk };
        part.encoding = Some(Encoding {
            spilled: part.record.spilled,
            items_end: items.end,
            unspilled: chunk.buffered.clone(),
            unspilled_rows: rows,
            buffered_bytes: rows.bytes,
            ending: false,
        });
        self.buffered_bytes = self.buffered_bytes.saturating_sub(rows.bytes);
        self.encoding_bytes += rows.bytes;
        let encoded = cpu.run(move || chunk.encode());
        self.encoders.push(async move { (number, encoded.await.flatten()) }.boxed());
        Ok(())
    }

    /// Waits for one encoder and appends what it made.
    pub(super) async fn finish_one(&mut self) -> Result<()> {
        let Some((number, encoded)) = self.encoders.next().await else { return Ok(()) };
        self.land(number, encoded?).await
    }

    /// Appends what encoders have made so far.
    pub(super) async fn finish_ready(&mut self) -> Result<()> {
        while let Some((number, encoded)) = self.encoders.next().now_or_never().flatten() {
            self.land(number, encoded?).await?;
        }
        Ok(())
    }

    /// Waits for the encoders of `parts`.
    pub(super) async fn finish_parts(&mut self, parts: impl Iterator<Item = u64>) -> Result<()> {
        for number in parts {
            while self.part(number)?.encoding.is_some() {
                self.finish_one().await?;
            }
        }
        Ok(())
    }

    /// Appends what an encoder made, and takes note of it.
    async fn land(&mut self, number: u64, encoded: Encoded) -> Result<()> {
        let Encoded { pieces, len, crc, rows, meta } = encoded;
        let part = self.part(number)?;
        let Some(encoding) = part.encoding.take() else {
            return Err(Error::fatal("an encoder ended that was not begun"));
        };
        let (file, offset) = (Arc::clone(&part.file), part.record.content.len);
        self.append(&file, offset, pieces, encoding.ending).await?;
        if encoding.ending {
            // Many files may end at one barrier: their syncs start while others are encoded.
            self.closing.push(durable::close(&self.table, file));
        }
        let part = self.part(number)?;
        let raw_bytes = encoding.unspilled_rows.bytes + encoding.spilled.bytes;
        part.grown = true;
        part.record.appended(len, &crc, rows, meta.is_some());
        part.record.spilled.rows -= encoding.spilled.rows;
        part.record.spilled.bytes -= encoding.spilled.bytes;
        let name = part.record.name.clone();
        if let Some(meta) = meta {
            self.push_item(&ledger::groups_list(&name), &meta).await?;
        }
        self.state.clear_before(&ledger::rows_list(&name), encoding.items_end);
        self.encoding_bytes = self.encoding_bytes.saturating_sub(encoding.buffered_bytes);
        if rows > 0 {
            self.raw_bytes += raw_bytes;
            self.encoded_bytes += len;
        }
        Ok(())
    }

    /// Appends to a part file; a full disk is waited for.
    async fn append(
        &mut self,
        file: &Arc<PartFile>,
        offset: u64,
        pieces: Vec<Vec<u8>>,
        roll: bool,
    ) -> Result<()> {
        if !self.staging_made {
            let table = Arc::clone(&self.table);
            self.table.doors.io.run(move || table.folders.make_staging()).await??;
            self.staging_made = true;
        }
        let pieces = Arc::new(pieces);
        let mut waited = Duration::ZERO;
        loop {
            let victims = self.descriptors.used(file);
            let (file, pieces) = (Arc::clone(file), Arc::clone(&pieces));
            let job = move || {
                close_all(&victims).map_err(AppendError::Failed)?;
                file.append(offset, &pieces, roll)
            };
            match self.table.doors.io.run(job).await? {
                Ok(made) => {
                    self.made |= made;
                    return Ok(());
                }
                Err(AppendError::Failed(error)) => return Err(error),
                Err(AppendError::Full(error)) if waited >= ROOM_WAIT => {
                    let what = format!("no room for part files below {:?}", self.table.folders.base);
                    return Err(Error::retry(what).with_source(error));
                }
                Err(AppendError::Full(_)) => {
                    tracing::warn!(table = ?self.table.folders.base, "no room for part files; waiting");
                    self.table.doors.clock.sleep(ROOM_PAUSE).await;
                    waited += ROOM_PAUSE;
                }
            }
        }
    }
}

impl SinkWriter for FileWriter {
    type Committable = ClosedPart;

    async fn write(&mut self, batch: Batch) -> Result<()> {
        self.check_usable()?;
        self.broken = true;
        self.take_batch(batch).await?;
        self.broken = false;
        Ok(())
    }

    fn take_rejected(&mut self) -> Vec<Rejected> {
        Self::take_rejected(self)
    }

    async fn close(&mut self) -> Result<()> {
        self.tidy().await
    }

    async fn pre_commit(&mut self, barrier: Barrier) -> Result<PreCommit<Self::Committable>> {
        self.check_usable()?;
        self.broken = true;
        let ended = self.end_epoch(barrier).await?;
        self.broken = false;
        Ok(ended)
    }

    fn roll_due_in(&self) -> Option<Duration> {
        let now = self.now();
        let roll = &self.table.settings.roll;
        match self.due_not_before? {
            due if due > now.monotonic() => Some(due - now.monotonic()),
            _ => self
                .parts
                .values()
                .filter_map(|part| roll.due_in(&part.record.facts(part.unspilled(), 0, now)))
                .min(),
        }
    }

    fn committed(&mut self, done: Vec<Self::Committable>) -> Result<()> {
        for part in done {
            self.sums.committed(&part);
            self.state.remove(&ledger::part_key(&part.name));
            self.state.push(ledger::LEDGER, &part.encode_ledger())?;
        }
        Ok(())
    }

    fn status(&self) -> SinkStatus {
        self.sink_status()
    }
}

impl FileWriter {
    /// Buckets whose rows go to a file in progress.
    pub(super) fn buckets_open(&self) -> u64 {
        self.active.len() as u64
    }

    /// The earliest moment at which a part may be due, found anew at each barrier.
    pub(super) fn find_due(&mut self, now: Now) {
        let roll = &self.table.settings.roll;
        let first = self
            .parts
            .values()
            .filter_map(|part| roll.due_in(&part.record.facts(part.unspilled(), 0, now)))
            .min();
        self.due_not_before = first.map(|first| now.monotonic() + first);
    }
}

impl fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWriter")
            .field("base", &self.table.folders.base)
            .field("parts", &self.parts.len())
            .field("buffered_bytes", &self.buffered_bytes)
            .finish_non_exhaustive()
    }
}

/// What is on its way in a [`FileWriter`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct WriterStats {
    /// Part files in progress.
    pub open_parts: u64,
    /// Rows in memory that no encoder has.
    pub buffered_rows: u64,
    /// Memory of all rows, those that are being encoded included.
    pub buffered_bytes: u64,
    /// Rows in the log that no part file holds.
    pub spilled_rows: u64,
    /// Row groups that are being encoded.
    pub encoding: u64,
}

/// A dead letter keeps this much of a row.
const REJECTED_BYTES_MAX: usize = 64 << 10;

fn close_all(files: &[Arc<PartFile>]) -> Result<()> {
    files.iter().try_for_each(|file| file.close())
}

/// The `columns` of a batch.
fn project(records: &RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
    if columns.len() == records.num_columns() {
        return Ok(records.clone());
    }
    records.project(columns).map_err(|error| Error::fatal("columns of a bucket").with_source(error))
}

fn json_line(row: &RecordBatch) -> Result<Vec<u8>> {
    let mut line = arrow::json::LineDelimitedWriter::new(Vec::new());
    line.write(row).map_err(|error| Error::fatal("a row as JSON").with_source(error))?;
    Ok(line.into_inner())
}
