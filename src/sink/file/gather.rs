//! Rows of one bucket on their way to a row group: many small pieces become few large ones.
//!
//! A batch leaves a few hundred rows in each of 24 buckets, and an encoder that is fed such pieces
//! takes a quarter longer. So pieces are joined, sixteen of a size at a time, until they have some
//! thousands of rows: a row is copied once or twice, and a bucket that gets a row now and then does not
//! hold many tiny arrays.

use arrow::array::Array;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::error::Result;
use crate::format::parquet::SLICE_ROWS;
use crate::sink::file::part::Rows;

/// Pieces of one size that are joined into one of the next.
const JOINED: usize = 16;

/// Memory of a piece besides its values: arrays, buffers and their counters, for each column.
const COLUMN_OVERHEAD_BYTES: u64 = 256;

/// Rows in order, at most a slice in each batch.
#[derive(Debug)]
pub(super) struct Gather {
    schema: SchemaRef,
    /// Pieces in order; the sizes, as powers of [`JOINED`], never rise from one to the next.
    pieces: Vec<(u32, RecordBatch)>,
    rows: Rows,
}

impl Gather {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self { schema, pieces: Vec::new(), rows: Rows::default() }
    }

    /// How many rows, and their memory.
    pub(super) fn rows(&self) -> Rows {
        self.rows
    }

    /// Adds rows at the end.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = SLICE_ROWS.min(batch.num_rows() - start);
            self.add(batch.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn add(&mut self, piece: RecordBatch) -> Result<()> {
        self.rows.rows += piece.num_rows() as u64;
        self.rows.bytes += memory_bytes(&piece);
        let size = piece.num_rows().max(1).ilog(JOINED);
        self.pieces.push((size, piece));
        // Smaller pieces in front of a larger one would never find sixteen of their size.
        while let Some(joined) = self.due() {
            let tail = self.pieces.split_off(self.pieces.len() - joined);
            let before: u64 = tail.iter().map(|(_, piece)| memory_bytes(piece)).sum();
            let tail: Vec<RecordBatch> = tail.into_iter().map(|(_, piece)| piece).collect();
            let piece = concat_batches(&self.schema, &tail)
                .map_err(|error| Error::fatal("rows of a bucket cannot be joined").with_source(error))?;
            self.rows.bytes = self.rows.bytes.saturating_sub(before) + memory_bytes(&piece);
            let size = piece.num_rows().max(1).ilog(JOINED);
            self.pieces.push((size, piece));
        }
        Ok(())
    }

    /// How many of the last pieces are to be joined now.
    fn due(&self) -> Option<usize> {
        let (last, piece) = self.pieces.last()?;
        let mut rows = piece.num_rows();
        let mut joined = 1;
        for (size, piece) in self.pieces.iter().rev().skip(1) {
            rows += piece.num_rows();
            if size > last || rows > SLICE_ROWS {
                break;
            }
            joined += 1;
            if size < last || joined == JOINED {
                return Some(joined);
            }
        }
        None
    }

    /// Takes all rows out.
    pub(super) fn drain(&mut self) -> Vec<RecordBatch> {
        self.rows = Rows::default();
        self.pieces.drain(..).map(|(_, piece)| piece).collect()
    }
}

/// The memory of the rows of `batch`, and of the arrays around them.
pub(super) fn memory_bytes(batch: &RecordBatch) -> u64 {
    let values: usize = batch
        .columns()
        .iter()
        .map(|column| {
            // Slices share buffers: only their own part counts.
            column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
        })
        .sum();
    values as u64 + COLUMN_OVERHEAD_BYTES * batch.num_columns() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::array::Int64Array;
    use arrow::array::StringArray;
    use arrow::datatypes::DataType;
    use arrow::datatypes::Field;
    use arrow::datatypes::Int64Type;
    use arrow::datatypes::Schema;
    use proptest::prelude::*;

    use super::*;

    fn batch(first: i64, rows: i64) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, false),
        ]);
        let ids: Int64Array = (first..first + rows).collect();
        let names: StringArray = (first..first + rows).map(|id| Some(format!("n{id}"))).collect();
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(names)]).unwrap()
    }

    proptest! {
        #[test]
        fn rows_come_out_in_order_and_in_few_pieces(
            sizes in prop::collection::vec(prop_oneof![1_i64..4, 1_i64..700, Just(8_192)], 0..200),
        ) {
            let mut gather = Gather::new(batch(0, 0).schema());
            let mut next = 0;
            for size in &sizes {
                gather.push(batch(next, *size)).unwrap();
                next += size;
                let tiers = 3 * JOINED + next as usize / JOINED.pow(3);
                prop_assert!(gather.pieces.len() <= tiers, "{} pieces", gather.pieces.len());
            }
            prop_assert_eq!(gather.rows().rows, next as u64);
            let held: u64 = gather.pieces.iter().map(|(_, piece)| memory_bytes(piece)).sum();
            prop_assert_eq!(gather.rows().bytes, held);
            let pieces = gather.drain();
            let ids = pieces.iter().flat_map(|piece| {
                piece.column(0).as_primitive::<Int64Type>().values().to_vec()
            });
            prop_assert!(ids.eq(0..next));
            prop_assert!(pieces.iter().all(|piece| piece.num_rows() <= SLICE_ROWS));
            prop_assert_eq!(gather.rows(), Rows::default());
        }
    }

    #[test]
    fn single_rows_for_long_do_not_stay_single() {
        let mut gather = Gather::new(batch(0, 0).schema());
        for id in 0..1_000 {
            gather.push(batch(id, 1)).unwrap();
        }
        assert!(gather.drain().len() < 3 * JOINED);
    }
}
