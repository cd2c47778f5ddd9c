//! Memory of rows that wait, and the log as the place for those that do not fit.
//!
//! Each row is spilled at most once: what is in the log stays there until a chunk that holds it is in
//! its file. A full log holds the stream back, for a while.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::error::Error;
use crate::error::Result;
use crate::format::spill;
use crate::sink::file::ledger;
use crate::sink::file::writer::FileWriter;
use crate::sink::file::writer::ROOM_PAUSE;
use crate::sink::file::writer::ROOM_WAIT;
use crate::state::is_out_of_room;

/// Rows of an item of the log take about this much memory at most: a fraction of a segment.
const SPILLED_BYTES: usize = 8 << 20;

impl FileWriter {
    /// Spills rows, or waits for encoders, until memory is below its limit.
    pub(super) async fn keep_memory(&mut self) -> Result<()> {
        let limit = self.table.settings.memory_bytes;
        self.finish_ready().await?;
        if self.buffered_bytes + self.encoding_bytes <= limit {
            return Ok(());
        }
        while self.encoding_bytes > limit / 2 {
            self.finish_one().await?;
        }
        // Down to half of it, so that not every batch spills a little.
        let mut left = self.buffered_bytes + self.encoding_bytes;
        let mut largest: Vec<(u64, u64)> =
            self.parts.iter().map(|(number, part)| (part.buffered().bytes, *number)).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let mut chosen = Vec::new();
        for (bytes, number) in largest {
            if left <= limit / 2 || bytes == 0 {
                break;
            }
            left = left.saturating_sub(bytes);
            chosen.push(number);
        }
        self.spill(chosen).await
    }

    /// Moves the rows of `parts` that only memory holds to the log, those in encoders first: in the list
    /// rows stand in the order in which they came.
    pub(super) async fn spill(&mut self, parts: Vec<u64>) -> Result<()> {
        let mut spilled = Vec::with_capacity(parts.len());
        for number in parts {
            let cpu = self.table.doors.cpu.clone();
            let part = self.part(number)?;
            let encode = |batches: Vec<RecordBatch>| {
                cpu.run(move || {
                    let pieces = batches.iter().flat_map(spill_pieces);
                    pieces.map(|piece| spill::encode(&piece)).collect::<Result<Vec<_>>>()
                })
            };
            if let Some(encoding) = &mut part.encoding {
                let rows = std::mem::take(&mut encoding.unspilled_rows);
                if rows.rows > 0 {
                    spilled.push((number, rows, true, encode(std::mem::take(&mut encoding.unspilled))));
                }
            }
            let rows = part.buffered();
            if rows.rows > 0 {
                spilled.push((number, rows, false, encode(part.buffer.take_all()?)));
            }
        }
        for (number, rows, in_encoder, items) in spilled {
            let items = items.await??;
            let list = ledger::rows_list(&self.part(number)?.record.name);
            for item in items {
                self.push_item(&list, &item).await?;
            }
            let items_end = self.state.list(&list).end;
            let part = self.part(number)?;
            part.record.spilled = part.record.spilled + rows;
            part.record.changed = true;
            match &mut part.encoding {
                Some(encoding) if in_encoder => {
                    encoding.spilled = encoding.spilled + rows;
                    encoding.items_end = items_end;
                }
                _ => self.buffered_bytes = self.buffered_bytes.saturating_sub(rows.bytes),
            }
        }
        Ok(())
    }

    /// Adds an item to a list of the state; a full log is waited for.
    pub(super) async fn push_item(&mut self, list: &[u8], item: &[u8]) -> Result<()> {
        let mut waited = Duration::ZERO;
        loop {
            match self.state.push(list, item) {
                Ok(_) => return Ok(()),
                Err(error) => self.wait_for_room(error, &mut waited).await?,
            }
        }
    }

    /// Waits a while if `error` is a full log, and fails otherwise.
    pub(super) fn wait_for_room(
        &self,
        error: Error,
        waited: &mut Duration,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let clock = Arc::clone(&self.table.doors.clock);
        let waits = is_out_of_room(&error) && *waited < ROOM_WAIT;
        *waited += ROOM_PAUSE;
        async move {
            if !waits {
                return Err(error);
            }
            tracing::warn!("no room in the log; waiting");
            clock.sleep(ROOM_PAUSE).await;
            Ok(())
        }
    }
}

/// A batch in pieces for the log.
fn spill_pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<> {
    let batch = batch.clone();
    let pieces = batch.get_array_memory_size().div_ceil(SPILLED_BYTES).max(1);
    let rows = batch.num_rows().div_ceil(pieces).max(1);
    (0..batch.num_rows())
        .step_by(rows)
        .map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
}
