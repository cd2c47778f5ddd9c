//! Memory of rows that wait, and the log as the place for those that do not fit.
//!
//! Each row is spilled at most once: what is in the log stays there until a chunk that holds it is in
//! its file. A full log holds the stream back, for a while.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::StreamExt;

use crate::error::Error;
use crate::error::Result;
use crate::format::spill;
use crate::sink::file::ledger;
use crate::sink::file::part::Rows;
use crate::sink::file::writer::FileWriter;
use crate::sink::file::writer::ROOM_PAUSE;
use crate::sink::file::writer::ROOM_WAIT;
use crate::state::is_out_of_room;

/// Rows of an item of the log take about this much memory at most: a fraction of a segment.
const SPILLED_BYTES: usize = 8 << 20;

impl FileWriter {
    /// Spills rows, or waits for encoders, until memory is below its limit.
    pub(super) async fn keep_memory(&mut self) -> Result<()> {
        // The other half is for what rows become on their way: gathered, spilled or encoded they exist twice.
        let limit = self.table.settings.memory_bytes / 2;
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
    ///
    /// Memory falls as it goes: few pieces are on their way at a time, and rows are freed behind them.
    pub(super) async fn spill(&mut self, parts: Vec<u64>) -> Result<()> {
        let cpu = self.table.doors.cpu.clone();
        let ahead = cpu.width() + 1;
        let pieces = self.take_unspilled(parts)?;
        let encoded = pieces.into_iter().map(|piece| {
            let items = cpu.run(move || {
                spill_pieces(&piece.batch).map(|piece| spill::encode(&piece)).collect::<Result<Vec<_>>>()
            });
            async move { (piece.of, piece.ends, items.await.flatten()) }
        });
        let mut encoded = futures::stream::iter(encoded).buffered(ahead);
        while let Some((of, ends, items)) = encoded.next().await {
            let list = ledger::rows_list(&self.part(of.number)?.record.name);
            for item in items? {
                self.push_item(&list, &item).await?;
            }
            if let Some(rows) = ends {
                self.spilled(of, rows, self.state.list(&list).end)?;
            }
        }
        Ok(())
    }

    /// Takes the rows of `parts` that only memory holds out of encoders' care and out of the buffers.
    fn take_unspilled(&mut self, parts: Vec<u64>) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut take = |of: Origin, rows: Rows, batches: Vec<RecordBatch>| {
            let last = batches.len();
            pieces.extend(batches.into_iter().zip(1..).map(|(batch, number)| Piece {
                of,
                batch,
                ends: (number == last).then_some(rows),
            }));
        };
        for number in parts {
            let part = self.part(number)?;
            if let Some(encoding) = &mut part.encoding {
                let rows = std::mem::take(&mut encoding.unspilled_rows);
                take(Origin { number, in_encoder: true }, rows, std::mem::take(&mut encoding.unspilled));
            }
            take(Origin { number, in_encoder: false }, part.buffered(), part.buffer.take_all()?);
        }
        Ok(pieces)
    }

    /// All the rows that were taken from `of` are in the list of the part, below `items_end`.
    fn spilled(&mut self, of: Origin, rows: Rows, items_end: u64) -> Result<()> {
        let part = self.part(of.number)?;
        part.record.spilled = part.record.spilled + rows;
        part.record.changed = true;
        match &mut part.encoding {
            Some(encoding) if of.in_encoder => {
                encoding.spilled = encoding.spilled + rows;
                encoding.items_end = items_end;
            }
            _ => self.buffered_bytes = self.buffered_bytes.saturating_sub(rows.bytes),
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

/// Where rows wait until they are spilled.
#[derive(Clone, Copy)]
struct Origin {
    /// The number of the part.
    number: u64,
    in_encoder: bool,
}

/// A batch on its way to the log.
struct Piece {
    of: Origin,
    batch: RecordBatch,
    /// With the last batch of its origin: all the rows that were taken there.
    ends: Option<Rows>,
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
