//! From a batch to bytes.

use std::ops::Range;

use arrow::array::Array;
use arrow::array::ArrayData;
use arrow::array::OffsetSizeTrait;
use arrow::array::RecordBatch;

use super::BATCH_BYTES_MAX;
use super::block::write_block;
use super::block::write_varint;
use super::shape::Shape;
use crate::error::Error;
use crate::error::Result;

pub(super) const VERSION: u8 = 1;

/// The rows of `batch` as bytes, without its schema.
///
/// # Errors
///
/// [`crate::ErrorKind::Fatal`] for columns of a type that no pipeline's schema has, and for more
/// than [`BATCH_BYTES_MAX`] of rows.
pub fn encode(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_into(batch, &mut out)?;
    Ok(out)
}

/// Appends the rows of `batch` to `out`, whose memory can so be used again: see [`encode`].
///
/// # Errors
///
/// As those of [`encode`]; `out` is as it was, then.
pub fn encode_into(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let encoded = write(batch, out);
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let columns: Vec<_> = batch.columns().iter().map(|column| column.to_data()).collect();
    // About what it will be; a block that is compressed needs some room more for a moment.
    let len: usize = columns.iter().map(|column| column.get_slice_memory_size().unwrap_or(0)).sum();
    out.reserve(len / 2 + 64);
    let mut writer = Writer { out, left: BATCH_BYTES_MAX };
    writer.out.push(VERSION);
    write_varint(writer.out, batch.num_rows() as u64);
    for column in &columns {
        writer.column(column)?;
    }
    Ok(())
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// What the decoder will still give out when it comes to the same place (S1).
    left: usize,
}

impl Writer<'_> {
    fn column(&mut self, data: &ArrayData) -> Result<()> {
        let (start, rows) = (data.offset(), data.len());
        let shape = Shape::of(data.data_type())?;
        if rows == 0 || matches!(shape, Shape::Null) {
            return Ok(());
        }
        match data.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.out.push(0),
            Some(nulls) => {
                self.out.push(1);
                self.block(part(&nulls.inner().sliced(), 0..rows.div_ceil(8))?)?;
            }
        }
        match shape {
            Shape::Null => Ok(()),
            Shape::Bits => {
                let bits = first(data)?.bit_slice(start, rows);
                self.block(part(&bits, 0..rows.div_ceil(8))?)
            }
            Shape::Fixed(width) => self.block(part(first(data)?, start * width..(start + rows) * width)?),
            Shape::Bytes { large } => {
                let range = if large { self.lengths::<i64>(data)? } else { self.lengths::<i32>(data)? };
                let values = data.buffers().get(1).ok_or_else(|| foreign(data))?;
                self.block(part(values, range)?)
            }
            Shape::List { large, .. } => {
                let range = if large { self.lengths::<i64>(data)? } else { self.lengths::<i32>(data)? };
                self.child(data, range)
            }
            Shape::Items { count, .. } => self.child(data, start * count..(start + rows) * count),
            Shape::Struct(_) => {
                for field in data.child_data() {
                    self.column(&field.slice(start, rows))?;
                }
                Ok(())
            }
        }
    }

    fn child(&mut self, data: &ArrayData, range: Range<usize>) -> Result<()> {
        let items = data.child_data().first().ok_or_else(|| foreign(data))?;
        self.column(&items.slice(range.start, range.len()))
    }

    /// Writes how long each row is, and says where in the values the rows lie.
    fn lengths<O: OffsetSizeTrait>(&mut self, data: &ArrayData) -> Result<Range<usize>> {
        let offsets = data.buffer::<O>(0).get(..=data.len()).ok_or_else(|| foreign(data))?;
        self.spend(size_of_val(offsets))?;
        let lengths =
            || offsets.iter().zip(offsets.iter().skip(1)).map(|(from, to)| (*to - *from).as_usize());
        let (mut least, mut most) = (usize::MAX, 0);
        for length in lengths() {
            (least, most) = (least.min(length), most.max(length));
        }
        if least == most {
            self.out.push(0);
            write_varint(self.out, most as u64);
        } else if u8::try_from(most).is_ok() {
            self.out.push(1);
            self.numbers(lengths().map(|length| (length as u8).to_le_bytes()))?;
        } else if u16::try_from(most).is_ok() {
            self.out.push(2);
            self.numbers(lengths().map(|length| (length as u16).to_le_bytes()))?;
        } else if u32::try_from(most).is_ok() {
            self.out.push(4);
            self.numbers(lengths().map(|length| (length as u32).to_le_bytes()))?;
        } else {
            return Err(too_large());
        }
        match offsets {
            [first, .., last] => Ok(first.as_usize()..last.as_usize()),
            _ => Ok(0..0),
        }
    }

    fn numbers<const N: usize>(&mut self, numbers: impl Iterator<Item = [u8; N]>) -> Result<()> {
        let numbers: Vec<_> = numbers.collect();
        self.block(numbers.as_flattened())
    }

    fn block(&mut self, bytes: &[u8]) -> Result<()> {
        self.spend(bytes.len())?;
        write_block(self.out, bytes);
        Ok(())
    }

    fn spend(&mut self, len: usize) -> Result<()> {
        self.left = self.left.checked_sub(len).ok_or_else(too_large)?;
        Ok(())
    }
}

fn first(data: &ArrayData) -> Result<&arrow::buffer::Buffer> {
    data.buffers().first().ok_or_else(|| foreign(data))
}

fn part(bytes: &[u8], range: Range<usize>) -> Result<&[u8]> {
    bytes.get(range).ok_or_else(|| Error::fatal("a column is shorter than it says"))
}

fn foreign(data: &ArrayData) -> Error {
    Error::fatal(format!("a column of type {} lacks a part", data.data_type()))
}

fn too_large() -> Error {
    Error::fatal(format!("rows of more than {BATCH_BYTES_MAX} bytes cannot be spilled together"))
}
