//! The end of an epoch in the file sink.
//!
//! In this order: files that are due are finished; a buffer that is nearly a chunk goes to an encoder; rows
//! that only memory holds, those in encoders among them, are spilled; records that changed are written;
//! the snapshot names all of it. The syncs go on behind. Only the encoders of files that are due are waited
//! for: what the others make is appended in the next epoch, and takes its spilled rows' place then.
//!
//! What if the process dies? Before the append of the snapshot: files are longer than recorded, and are
//! cut (P2). After it, before the completion record: the same, and the entries are void (P15). A file that
//! was finished in an epoch that never completed is cut back to what it was, and goes on.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use crate::error::Error;
use crate::error::Result;
use crate::sink::PreCommit;
use crate::sink::file::durable::Grown;
use crate::sink::file::encode::Ending;
use crate::sink::file::ledger;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::InProgressPart;
use crate::sink::file::part::Now;
use crate::sink::file::part::Rows;
use crate::sink::file::rolling::RollReason;
use crate::sink::file::writer::Encoding;
use crate::sink::file::writer::FileWriter;
use crate::sink::file::writer::Part;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Epoch;

/// Encoded bytes for a byte of rows in memory, before the first chunk tells: a quarter.
const GUESSED_RATIO: u64 = 4;

impl FileWriter {
    pub(super) async fn end_epoch(&mut self, barrier: Barrier) -> Result<PreCommit<ClosedPart>> {
        self.finish_ready().await?;
        let now = self.now();
        let due = self.due(barrier.kind, now);
        for (number, _) in &due {
            if self.part(*number)?.waiting().rows > 0 {
                self.begin_chunk(*number).await?;
            }
        }
        for (number, reason) in &due {
            self.begin_ending(*number, *reason).await?;
        }
        self.finish_parts(due.iter().map(|(number, _)| *number)).await?;
        let mut committables = Vec::with_capacity(due.len());
        for (number, _) in due {
            committables.push(self.close_part(number, barrier.epoch)?);
        }

        if barrier.kind == BarrierKind::Checkpoint {
            for number in self.nearly_full() {
                self.begin_chunk(number).await?;
            }
        }
        self.finish_ready().await?;
        let unspilled = |part: &Part| part.unspilled().rows > 0;
        let waiting = self.parts.iter().filter(|(_, part)| unspilled(part)).map(|(number, _)| *number);
        self.spill(waiting.collect()).await?;
        let mut grown = Vec::new();
        for part in self.parts.values_mut() {
            if std::mem::take(&mut part.record.changed) {
                self.state.put(&ledger::part_key(&part.record.name), &part.record.encode(now));
            }
            if std::mem::take(&mut part.grown) {
                grown.push(Arc::clone(&part.file));
            }
        }
        let snapshot = self.snapshot().await?;
        self.find_due(now);
        let made = std::mem::take(&mut self.made);
        let closing = std::mem::take(&mut self.closing);
        let durable = self.rounds.start(&self.table, Grown { closing, files: grown, made });
        Ok(PreCommit { committables, snapshot, durable })
    }

    /// The parts that are closed at this barrier, and why.
    fn due(&self, kind: BarrierKind, now: Now) -> Vec<(u64, RollReason)> {
        let roll = &self.table.settings.roll;
        let reason = |part: &Part| match kind {
            BarrierKind::End => Some(RollReason::End),
            _ if part.inherited => Some(RollReason::Changed),
            BarrierKind::Checkpoint => {
                let unspilled = part.unspilled();
                let estimate = self.encoded_estimate(part.record.spilled + unspilled);
                roll.due(&part.record.facts(unspilled, estimate, now))
            }
            BarrierKind::Stop => None,
        };
        self.parts.iter().filter_map(|(number, part)| Some((*number, reason(part)?))).collect()
    }

    /// What `rows` will take in a file, from what others took.
    fn encoded_estimate(&self, rows: Rows) -> u64 {
        if self.raw_bytes == 0 {
            return rows.bytes / GUESSED_RATIO;
        }
        let estimate = u128::from(rows.bytes) * u128::from(self.encoded_bytes) / u128::from(self.raw_bytes);
        u64::try_from(estimate).unwrap_or(u64::MAX)
    }

    /// Parts with rows in memory whose rows are nearly a chunk: to encode them now spares reading them
    /// back, and mostly spilling them.
    fn nearly_full(&self) -> Vec<u64> {
        let settings = &self.table.settings;
        let format = &settings.format;
        let (rows_max, bytes_max) = format.chunk_limits(settings.row_group_bytes);
        let nearly = |part: &Part| {
            let waiting = part.waiting();
            part.buffered().rows > 0
                && (format.nearly(waiting.rows, rows_max) || format.nearly(waiting.bytes, bytes_max))
        };
        self.parts.iter().filter(|(_, part)| nearly(part)).map(|(number, _)| *number).collect()
    }

    /// Hands the end of a file to an encoder, once its last chunk is in it.
    async fn begin_ending(&mut self, number: u64, reason: RollReason) -> Result<()> {
        while self.part(number)?.encoding.is_some() || self.encoders.len() >= self.table.doors.cpu.width() {
            self.finish_one().await?;
        }
        let (reader, cpu) = (self.state.reader(), self.table.doors.cpu.clone());
        let Some(part) = self.parts.get_mut(&number) else { return Ok(()) };
        let record = &part.record;
        let list = ledger::groups_list(&record.name);
        let groups: Vec<_> =
            self.state.list(&list).filter_map(|index| self.state.locate(&list, index)).collect();
        if groups.len() as u64 != record.row_groups {
            return Err(Error::damage(format!(
                "{}: the state has {} of its {} row groups",
                record.name,
                groups.len(),
                record.row_groups
            )));
        }
        tracing::debug!(part = %record.name, bucket = %record.bucket, ?reason, rows = record.content.rows, "roll");
        let ending = Ending {
            definition: Arc::clone(&part.definition),
            offset: record.content.len,
            groups,
            reader,
            key_values: key_values(record)?,
        };
        part.encoding = Some(Encoding { ending: true, ..Encoding::default() });
        let encoded = cpu.run(move || ending.encode());
        self.encoders.push(async move { (number, encoded.await.flatten()) }.boxed());
        Ok(())
    }

    /// The file is finished: it is pending from this barrier on.
    fn close_part(&mut self, number: u64, epoch: Epoch) -> Result<ClosedPart> {
        let part = self.retire(number)?;
        self.state.drop_list(&ledger::groups_list(&part.record.name));
        self.state.drop_list(&ledger::rows_list(&part.record.name));
        let closed = part.record.close(epoch);
        self.sums.closed();
        self.state.put(&ledger::part_key(&closed.name), &closed.encode());
        Ok(closed)
    }

    /// A full log is waited for: the same snapshot may be tried again.
    async fn snapshot(&mut self) -> Result<Snapshot> {
        let mut waited = Duration::ZERO;
        loop {
            match self.state.snapshot() {
                Ok(snapshot) => return Ok(snapshot),
                Err(error) => self.wait_for_room(error, &mut waited).await?,
            }
        }
    }
}

/// Where a file's rows come from and who wrote it, for its footer.
fn key_values(part: &InProgressPart) -> Result<Vec<(String, String)>> {
    let positions: serde_json::Map<String, serde_json::Value> = part
        .spans
        .iter()
        .map(|(split, span)| (split.as_str().to_owned(), serde_json::json!([span.first, span.last])))
        .collect();
    let positions = serde_json::to_string(&positions)
        .map_err(|error| Error::fatal("positions cannot be written to a footer").with_source(error))?;
    Ok(vec![
        ("alluvium.lineage".to_owned(), part.name.lineage.to_string()),
        ("alluvium.incarnation".to_owned(), part.name.incarnation.to_string()),
        ("alluvium.writer".to_owned(), part.name.writer.to_string()),
        ("alluvium.sequence".to_owned(), part.name.sequence.to_string()),
        ("alluvium.positions".to_owned(), positions),
    ])
}
