//! From bytes to a batch, whatever the bytes are.

use std::sync::Arc;

use arrow::array::ArrayData;
use arrow::array::ArrayRef;
use arrow::array::OffsetSizeTrait;
use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::array::make_array;
use arrow::buffer::BooleanBuffer;
use arrow::buffer::Buffer;
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::block::Reader;
use super::block::damage;
use super::encode::VERSION;
use super::shape::Shape;
use crate::error::Error;
use crate::error::Result;

/// Reads back what [`super::encode()`] made of a batch of `schema`.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] if these are no such bytes; every value is checked, down to UTF-8.
pub fn decode(schema: &SchemaRef, bytes: &[u8]) -> Result<RecordBatch> {
    let mut reader = Reader::new(bytes);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(damage(&format!("they have version {version}, this program knows {VERSION}")));
    }
    let rows = reader.varint()?;
    let columns = schema
        .fields()
        .iter()
        .map(|field| {
            let column = reader.column(field.data_type(), rows);
            column.map(make_array).map_err(|error| error.context(format!("column {:?}", field.name())))
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    reader.finish()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(invalid)
}

impl Reader<'_> {
    fn column(&mut self, data_type: &DataType, rows: usize) -> Result<ArrayData> {
        let shape = Shape::of(data_type)?;
        if rows == 0 {
            return Ok(ArrayData::new_empty(data_type));
        }
        let data = ArrayData::builder(data_type.clone()).len(rows);
        if matches!(shape, Shape::Null) {
            return data.build().map_err(invalid);
        }
        let nulls = match self.u8()? {
            0 => None,
            1 => {
                let bits = self.block(rows.div_ceil(8))?;
                Some(NullBuffer::new(BooleanBuffer::new(bits, 0, rows)))
            }
            _ => return Err(damage("it neither has nulls nor has none")),
        };
        let data = data.nulls(nulls);
        let data = match shape {
            Shape::Null => data,
            Shape::Bits => data.add_buffer(self.block(rows.div_ceil(8))?),
            Shape::Fixed(width) => data.add_buffer(self.block(product(rows, width)?)?),
            Shape::Bytes { large } => {
                let (offsets, len) =
                    if large { self.offsets::<i64>(rows)? } else { self.offsets::<i32>(rows)? };
                data.add_buffer(offsets).add_buffer(self.block(len)?)
            }
            Shape::List { large, item } => {
                let (offsets, len) =
                    if large { self.offsets::<i64>(rows)? } else { self.offsets::<i32>(rows)? };
                data.add_buffer(offsets).add_child_data(self.column(item.data_type(), len)?)
            }
            Shape::Items { count, item } => {
                data.add_child_data(self.column(item.data_type(), product(rows, count)?)?)
            }
            Shape::Struct(fields) => {
                let mut data = data;
                for field in fields {
                    data = data.add_child_data(self.column(field.data_type(), rows)?);
                }
                data
            }
        };
        data.build().map_err(invalid)
    }

    /// The offsets of `rows` rows, and the sum of their lengths.
    fn offsets<O: OffsetSizeTrait>(&mut self, rows: usize) -> Result<(Buffer, usize)> {
        let count = rows.checked_add(1).ok_or_else(|| damage("more rows than there can be"))?;
        self.spend(product(count, size_of::<O>())?)?;
        let (offsets, len) = match self.u8()? {
            0 => {
                let length = self.varint()?;
                sums::<O>(std::iter::repeat_n(length, rows))
            }
            1 => sums::<O>(self.block(rows)?.iter().map(|length| usize::from(*length))),
            2 => {
                let block = self.block(product(rows, 2)?)?;
                sums::<O>(block.as_chunks().0.iter().map(|length| usize::from(u16::from_le_bytes(*length))))
            }
            4 => {
                let block = self.block(product(rows, 4)?)?;
                sums::<O>(block.as_chunks().0.iter().map(|length| u32::from_le_bytes(*length) as usize))
            }
            _ => return Err(damage("lengths of unknown width")),
        }
        .ok_or_else(|| damage("lengths that add up to more than there can be"))?;
        Ok((Buffer::from_vec(offsets), len))
    }
}

fn sums<O: OffsetSizeTrait>(lengths: impl ExactSizeIterator<Item = usize>) -> Option<(Vec<O>, usize)> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut sum = 0_usize;
    offsets.push(O::zero());
    for length in lengths {
        sum = sum.checked_add(length)?;
        offsets.push(O::from_usize(sum)?);
    }
    Some((offsets, sum))
}

fn product(a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| damage("more rows than there can be"))
}

fn invalid(error: ArrowError) -> Error {
    damage("they are not values of their types").with_source(error)
}
