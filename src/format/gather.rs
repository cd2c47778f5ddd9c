//! Rows of one bucket, picked out of the batches that go by.
//!
//! With many buckets open a batch has few rows for each, and an encoder fed with such crumbs loses a
//! quarter of the whole landing's time. So rows are copied out and put together in large batches
//! before an encoder, or the spill, sees them.

use arrow::array::RecordBatch;
use arrow::array::UInt32Array;
use arrow::compute::concat_batches;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::error::Error;
use crate::error::Result;
use crate::format::parquet::SLICE_ROWS;

/// So many crumbs are put together at a time, lest a bucket of single rows holds as many arrays.
const CRUMBS: usize = 64;

/// A part of fewer rows is a crumb.
const CRUMB_ROWS: usize = 64;

/// Gathers rows into batches of [`SLICE_ROWS`], in the order they come.
#[derive(Debug)]
pub struct Gather {
    schema: SchemaRef,
    /// Batches of exactly [`SLICE_ROWS`].
    full: Vec<RecordBatch>,
    /// Parts of the next one.
    parts: Vec<RecordBatch>,
    part_rows: usize,
    /// How many parts at the front are no crumbs.
    settled: usize,
    bytes: usize,
}

impl Gather {
    /// Gathers rows of `schema`.
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, full: Vec::new(), parts: Vec::new(), part_rows: 0, settled: 0, bytes: 0 }
    }

    /// Adds the rows of `batch` with the numbers `rows`, in that order. They are copied, unless they
    /// are most of the batch and lie together.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] if the batch has another schema or no such rows.
    pub fn push(&mut self, batch: &RecordBatch, rows: &[u32]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        if rows.iter().any(|row| *row as usize >= batch.num_rows()) {
            return Err(Error::fatal("rows were picked that the batch does not have"));
        }
        let together = || rows.is_sorted_by(|a, b| a + 1 == *b);
        if rows.len() * 2 > batch.num_rows() && together() {
            return self.add(batch.slice(*first as usize, rows.len()));
        }
        self.add(take_record_batch(batch, &UInt32Array::from(rows.to_vec())).map_err(fault)?)
    }

    /// Rows gathered.
    pub fn rows(&self) -> usize {
        self.full.len() * SLICE_ROWS + self.part_rows
    }

    /// Memory that they hold, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all rows out: batches of [`SLICE_ROWS`], and a last one with the rest.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`], a fault of the library.
    pub fn take_all(&mut self) -> Result<Vec<RecordBatch>> {
        if !self.parts.is_empty() {
            self.complete()?;
        }
        self.bytes = 0;
        Ok(std::mem::take(&mut self.full))
    }

    fn add(&mut self, part: RecordBatch) -> Result<()> {
        let mut part = part;
        while self.part_rows + part.num_rows() >= SLICE_ROWS {
            let fits = SLICE_ROWS - self.part_rows;
            let rest = part.slice(fits, part.num_rows() - fits);
            self.keep(part.slice(0, fits))?;
            self.complete()?;
            part = rest;
        }
        if part.num_rows() > 0 {
            self.keep(part)?;
        }
        Ok(())
    }

    fn keep(&mut self, part: RecordBatch) -> Result<()> {
        self.part_rows += part.num_rows();
        self.bytes += part.get_array_memory_size();
        self.parts.push(part);
        if self.parts.len() - self.settled >= CRUMBS {
            let crumbs = self.parts.get(self.settled..).unwrap_or_default();
            if crumbs.iter().map(RecordBatch::num_rows).sum::<usize>() < CRUMBS * CRUMB_ROWS {
                let merged = self.concat(crumbs)?;
                self.bytes -= bytes(crumbs);
                self.bytes += merged.get_array_memory_size();
                self.parts.truncate(self.settled);
                self.parts.push(merged);
            }
            self.settled = self.parts.len();
        }
        Ok(())
    }

    /// Makes one batch of the parts.
    fn complete(&mut self) -> Result<()> {
        let batch = self.concat(&self.parts)?;
        self.bytes -= bytes(&self.parts);
        self.bytes += batch.get_array_memory_size();
        self.full.push(batch);
        self.parts.clear();
        (self.part_rows, self.settled) = (0, 0);
        Ok(())
    }

    fn concat(&self, parts: &[RecordBatch]) -> Result<RecordBatch> {
        concat_batches(&self.schema, parts).map_err(fault)
    }
}

fn bytes(parts: &[RecordBatch]) -> usize {
    parts.iter().map(RecordBatch::get_array_memory_size).sum()
}

fn fault(error: ArrowError) -> Error {
    Error::fatal("rows cannot be gathered").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::compute::concat_batches;

    use super::*;
    use crate::format::sample;

    /// Batches of a few rows each and which rows of each are picked.
    fn picked(batches: usize, pick: impl Fn(u32) -> bool) -> (Gather, RecordBatch) {
        let schema = Arc::new(sample::schema().project(&[0, 4, 11, 22, 25, 27]).unwrap());
        let mut gather = Gather::new(Arc::clone(&schema));
        let mut expected = Vec::new();
        for seed in 0..batches {
            let batch = sample::batch(&schema, seed as u64, 40);
            let rows: Vec<u32> = (0..40).filter(|row| pick(*row)).collect();
            gather.push(&batch, &rows).unwrap();
            expected.push(take_record_batch(&batch, &UInt32Array::from(rows)).unwrap());
        }
        (gather, concat_batches(&schema, &expected).unwrap())
    }

    #[test]
    fn picked_rows_come_out_in_order() {
        for (batches, pick) in [
            (150, (|row| row == 7) as fn(u32) -> bool),
            (100, |row| row % 3 == 0),
            (70, |row| row >= 5),
            (70, |_| true),
            (10, |_| false),
        ] {
            let (mut gather, expected) = picked(batches, pick);
            assert_eq!(gather.rows(), expected.num_rows());
            let taken = gather.take_all().unwrap();
            assert!(concat_batches(&expected.schema(), &taken).unwrap() == expected);
            assert_eq!((gather.rows(), gather.memory_bytes()), (0, 0));
        }
    }

    #[test]
    fn batches_are_full_but_the_last() {
        let schema = Arc::new(sample::schema().project(&[0, 4, 11]).unwrap());
        let batch = sample::batch(&schema, 1, 50_000);
        let mut gather = Gather::new(Arc::clone(&schema));
        let rows: Vec<u32> = (0..50_000).collect();
        for _ in 0..3 {
            gather.push(&batch, &rows).unwrap();
        }
        assert_eq!(gather.rows(), 150_000);
        let taken = gather.take_all().unwrap();
        assert_eq!(
            taken.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
            [SLICE_ROWS, SLICE_ROWS, 150_000 - 2 * SLICE_ROWS]
        );
        assert!(concat_batches(&schema, &taken).unwrap() == concat_batches(&schema, [&batch; 3]).unwrap());
    }

    #[test]
    fn memory_follows_the_rows() {
        let (gather, expected) = picked(1000, |row| row == 3);
        let bytes = expected.get_array_memory_size();
        assert!(gather.memory_bytes() >= bytes, "{} {bytes}", gather.memory_bytes());
        assert!(gather.memory_bytes() < 3 * bytes, "{} {bytes}", gather.memory_bytes());
    }

    #[test]
    fn rows_that_a_batch_has_not_are_refused() {
        let schema = sample::schema();
        let batch = sample::batch(&schema, 1, 3);
        let mut gather = Gather::new(schema);
        assert!(gather.push(&batch, &[2, 3]).is_err());
        assert!(gather.push(&batch, &[u32::MAX]).is_err());
        assert_eq!(gather.rows(), 0);
    }
}
