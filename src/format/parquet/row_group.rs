//! One row group: its bytes, and the meta that is remembered until the footer is written.
//!
//! # The meta, version 1
//!
//! Integers are little-endian.
//!
//! ```text
//!   0         1        9        17       25
//!   | version | offset | length | rows   | a Parquet footer for this row group alone
//!   | u8 = 1  | u64    | u64    | u64    | column indexes, offset indexes, thrift, length, "PAR1"
//! ```
//!
//! Offsets of pages and bloom filters in the thrift part are those of the file; the offsets of the
//! indexes count from byte 25 of the meta.

use std::io;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::RecordBatch;
use arrow::datatypes::FieldRef;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::arrow::arrow_writer::ArrowColumnWriter;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::arrow::arrow_writer::compute_leaves;
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::metadata::ParquetMetaDataBuilder;
use parquet::file::metadata::ParquetMetaDataOptions;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::metadata::ParquetMetaDataWriter;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::file::writer::SerializedRowGroupWriter;

use super::place::Placed;
use super::place::placed;
use super::settings::ParquetSettings;
use super::settings::Plan;
use crate::error::Error;
use crate::error::Result;

/// Rows that are encoded at a time: what is derived from them (levels, sizes) is freed in between.
pub const SLICE_ROWS: usize = 65_536;

const META_VERSION: u8 = 1;
const META_HEADER_LEN: usize = 1 + 3 * size_of::<u64>();

/// A row group that is to be appended to its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRowGroup {
    /// What to append, at exactly the offset that the encoder was made for.
    pub bytes: Vec<u8>,
    /// How many rows it holds.
    pub rows: u64,
    /// What [`super::footer()`] needs to know of it: to be kept with the checkpoint that records the
    /// file's new length.
    pub meta: Vec<u8>,
}

/// Where a row group lies, as its meta says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroupPlace {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its rows.
    pub rows: u64,
}

impl RowGroupPlace {
    /// Reads the start of a meta.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] if these bytes are no meta that this program knows.
    pub fn of(meta: &[u8]) -> Result<Self> {
        let number = |at: usize| {
            let bytes = meta.get(at..at + size_of::<u64>()).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or_else(|| Error::damage("a row group's metadata is cut short"))
        };
        match meta.first() {
            Some(&META_VERSION) => Ok(Self { offset: number(1)?, len: number(9)?, rows: number(17)? }),
            Some(version) => Err(Error::damage(format!(
                "a row group's metadata has version {version}, this program knows {META_VERSION}"
            ))),
            None => Err(Error::damage("a row group's metadata is empty")),
        }
    }

    /// The offset behind it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] if there can be no such place.
    pub(super) fn end(self) -> Result<u64> {
        self.offset
            .checked_add(self.len)
            .ok_or_else(|| Error::damage("a row group's metadata places it behind any file's end"))
    }
}

/// Encodes the rows of one row group, in order.
///
/// Encoded pages are in memory until [`RowGroupEncoder::finish`], once; rows that were written are
/// not.
#[derive(Debug)]
pub struct RowGroupEncoder {
    plan: Plan,
    columns: Vec<ColumnEncoder>,
    offset: u64,
}

impl RowGroupEncoder {
    /// An encoder for a row group whose first byte will be byte `offset` of the file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] if the settings contradict themselves or the schema.
    pub fn new(schema: &SchemaRef, settings: &ParquetSettings, offset: u64) -> Result<Self> {
        let plan = Plan::new(schema, settings)?;
        let columns = plan.columns()?;
        Ok(Self { plan, columns, offset })
    }

    /// Encodes all rows of `batch`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] if the batch has another schema; the encoder is of no use then.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            return Err(Error::fatal(format!(
                "a batch of {} columns came to a file of {}",
                batch.num_columns(),
                self.columns.len()
            )));
        }
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = SLICE_ROWS.min(batch.num_rows() - start);
            for (column, encoder) in batch.columns().iter().zip(&mut self.columns) {
                encoder.write_slice(&column.slice(start, rows))?;
            }
            start += rows;
        }
        Ok(())
    }

    /// Memory that the encoder holds, in bytes: pages, dictionaries and rows of unfinished pages.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(ColumnEncoder::memory_bytes).sum()
    }

    /// Ends the row group.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] if there were no rows.
    pub fn finish(self) -> Result<EncodedRowGroup> {
        let columns = self.columns.into_iter().map(ColumnEncoder::finish).collect::<Result<_>>()?;
        self.plan.assemble(self.offset, columns)
    }
}

/// Encoders for each column of the schema, in its order, to be used in parallel; what they give
/// is put together by [`assemble`]. No place in the file is needed before that.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] if the settings contradict themselves or the schema.
pub fn columns(schema: &SchemaRef, settings: &ParquetSettings) -> Result<Vec<ColumnEncoder>> {
    Plan::new(schema, settings)?.columns()
}

/// Puts the columns of a row group together, to be appended at byte `offset` of the file.
///
/// # Errors
///
/// [`crate::ErrorKind::Fatal`] if columns are missing, or differ in rows, or have none.
pub fn assemble(
    schema: &SchemaRef,
    settings: &ParquetSettings,
    offset: u64,
    columns: Vec<EncodedColumn>,
) -> Result<EncodedRowGroup> {
    Plan::new(schema, settings)?.assemble(offset, columns)
}

/// Encodes one column of a row group; a nested column is several in Parquet.
#[derive(Debug)]
pub struct ColumnEncoder {
    field: FieldRef,
    leaves: Vec<ArrowColumnWriter>,
}

impl ColumnEncoder {
    /// Encodes the column's next values.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] if they are of another type, or null where the schema forbids it.
    pub fn write(&mut self, column: &ArrayRef) -> Result<()> {
        let mut start = 0;
        while start < column.len() {
            let rows = SLICE_ROWS.min(column.len() - start);
            self.write_slice(&column.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn write_slice(&mut self, column: &ArrayRef) -> Result<()> {
        let context = |error: ParquetError| {
            Error::fatal(format!("column {:?} cannot be encoded", self.field.name())).with_source(error)
        };
        if column.data_type() != self.field.data_type() {
            return Err(Error::fatal(format!(
                "column {:?} is {}, values of {} came",
                self.field.name(),
                self.field.data_type(),
                column.data_type()
            )));
        }
        let leaves = compute_leaves(&self.field, column).map_err(context)?;
        for (leaf, writer) in leaves.iter().zip(&mut self.leaves) {
            writer.write(leaf).map_err(context)?;
        }
        Ok(())
    }

    /// Memory that the encoder holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.leaves.iter().map(ArrowColumnWriter::memory_size).sum()
    }

    /// Ends the column.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`], a fault of the library.
    pub fn finish(self) -> Result<EncodedColumn> {
        let chunks = self.leaves.into_iter().map(ArrowColumnWriter::close).collect::<Result<_, _>>();
        Ok(EncodedColumn { chunks: chunks.map_err(fault)? })
    }
}

/// A column's pages, for [`assemble`].
#[derive(Debug)]
pub struct EncodedColumn {
    chunks: Vec<ArrowColumnChunk>,
}

impl Plan {
    fn columns(&self) -> Result<Vec<ColumnEncoder>> {
        // The library hands out column writers only for a file; this one is written to nowhere.
        let file = SerializedFileWriter::new(
            io::sink(),
            self.parquet_schema.root_schema_ptr(),
            Arc::clone(&self.properties),
        )
        .map_err(fault)?;
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&self.schema));
        let mut columns: Vec<_> = self
            .schema
            .fields()
            .iter()
            .map(|field| ColumnEncoder { field: Arc::clone(field), leaves: Vec::new() })
            .collect();
        for (leaf, writer) in factory.create_column_writers(0).map_err(fault)?.into_iter().enumerate() {
            let root = self.parquet_schema.get_column_root_idx(leaf);
            let column = columns.get_mut(root).ok_or_else(|| Error::fatal("a column of no field"))?;
            column.leaves.push(writer);
        }
        Ok(columns)
    }

    fn assemble(&self, offset: u64, columns: Vec<EncodedColumn>) -> Result<EncodedRowGroup> {
        let chunks: Vec<_> = columns.into_iter().flat_map(|column| column.chunks).collect();
        let len: u64 = chunks.iter().map(|chunk| chunk.close().bytes_written).sum();
        let (mut nowhere, mut bytes) = (io::sink(), Vec::with_capacity(usize::try_from(len).unwrap_or(0)));
        let mut out = placed(&mut nowhere, &mut bytes, offset)?;
        let metadata = self.write(&mut out, chunks).map_err(fault)?;
        out.into_inner().map_err(fault)?;

        let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
        if rows == 0 {
            return Err(Error::fatal("a row group needs a row"));
        }
        let place = RowGroupPlace { offset, len: bytes.len() as u64, rows };
        Ok(EncodedRowGroup { bytes, rows, meta: write_meta(place, &metadata)? })
    }

    /// Writes the pages and the bloom filters behind them, as the library's own file writer does.
    fn write(
        &self,
        out: &mut Placed<'_>,
        chunks: Vec<ArrowColumnChunk>,
    ) -> Result<ParquetMetaData, ParquetError> {
        let mut closed = None;
        let on_close =
            Box::new(|out: &mut Placed<'_>, group, blooms: Vec<_>, column_indexes, offset_indexes| {
                let mut group: RowGroupMetaData = group;
                for (column, bloom) in group.columns_mut().iter_mut().zip(blooms) {
                    let Some(bloom) = bloom else { continue };
                    let start = out.bytes_written();
                    parquet::bloom_filter::Sbbf::write(&bloom, &mut *out)?;
                    let len = out.bytes_written() - start;
                    *column = column
                        .clone()
                        .into_builder()
                        .set_bloom_filter_offset(Some(i64::try_from(start)?))
                        .set_bloom_filter_length(Some(i32::try_from(len)?))
                        .build()?;
                }
                closed = Some((group, column_indexes, offset_indexes));
                Ok(())
            });
        let mut group = SerializedRowGroupWriter::new(
            Arc::clone(&self.parquet_schema),
            Arc::clone(&self.properties),
            out,
            0,
            Some(on_close),
        );
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        let (group, column_indexes, offset_indexes): (RowGroupMetaData, Vec<_>, Vec<_>) =
            closed.ok_or_else(|| ParquetError::General("the row group was not closed".into()))?;

        let mut index = PageIndexBuilder::new(1, group.num_columns());
        for (column, column_index) in column_indexes.into_iter().enumerate() {
            if let Some(column_index) = column_index {
                index.put_column_index(column_index, 0, column);
            }
        }
        if !self.properties.offset_index_disabled() {
            for (column, offset_index) in offset_indexes.into_iter().enumerate() {
                if let Some(offset_index) = offset_index {
                    index.put_offset_index(offset_index, 0, column);
                }
            }
        }
        let file = FileMetaData::new(
            self.properties.writer_version().as_num(),
            group.num_rows(),
            None,
            None,
            Arc::clone(&self.parquet_schema),
            None,
        );
        Ok(ParquetMetaDataBuilder::new(file)
            .add_row_group(group)
            .set_page_index(Some(Arc::new(index.build())))
            .build())
    }
}

fn write_meta(place: RowGroupPlace, metadata: &ParquetMetaData) -> Result<Vec<u8>> {
    let mut meta = Vec::with_capacity(1024);
    meta.push(META_VERSION);
    for number in [place.offset, place.len, place.rows] {
        meta.extend_from_slice(&number.to_le_bytes());
    }
    let mut thrift = Vec::new();
    ParquetMetaDataWriter::new(&mut thrift, metadata)
        .with_write_path_in_schema(false)
        .finish()
        .map_err(fault)?;
    meta.append(&mut thrift);
    Ok(meta)
}

/// Reads a meta back.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] if it is not what [`RowGroupEncoder`] gave.
pub(super) fn read_meta(meta: &[u8]) -> Result<(RowGroupPlace, ParquetMetaData)> {
    let place = RowGroupPlace::of(meta)?;
    let thrift = meta.get(META_HEADER_LEN..).unwrap_or_default();
    // All that was written is kept: by default the reader makes a summary of the pages' encodings.
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let metadata = ParquetMetaDataReader::new()
        .with_metadata_options(Some(options))
        .with_page_index_policy(PageIndexPolicy::Optional)
        .parse_and_finish(&Bytes::copy_from_slice(thrift))
        .map_err(|error| Error::damage("a row group's metadata cannot be read").with_source(error))?;
    if metadata.num_row_groups() != 1 {
        return Err(Error::damage("a row group's metadata is not that of one row group"));
    }
    Ok((place, metadata))
}

/// A row group as it was before it went through its meta.
///
/// Statistics of signed columns are written twice, under an old name for old readers, and the
/// library does not say so of those it read.
pub(super) fn restored(group: &RowGroupMetaData, ordinal: i32) -> Result<RowGroupMetaData, ParquetError> {
    let mut group = group.clone().into_builder().set_ordinal(ordinal).build()?;
    for column in group.columns_mut() {
        if let Some(statistics) = column.statistics()
            && column.column_descr().sort_order().is_signed()
        {
            let statistics = with_legacy_names(statistics.clone());
            *column = column.clone().into_builder().set_statistics(statistics).build()?;
        }
    }
    Ok(group)
}

fn with_legacy_names(statistics: Statistics) -> Statistics {
    match statistics {
        Statistics::Boolean(values) => Statistics::Boolean(values.with_backwards_compatible_min_max(true)),
        Statistics::Int32(values) => Statistics::Int32(values.with_backwards_compatible_min_max(true)),
        Statistics::Int64(values) => Statistics::Int64(values.with_backwards_compatible_min_max(true)),
        Statistics::Int96(values) => Statistics::Int96(values.with_backwards_compatible_min_max(true)),
        Statistics::Float(values) => Statistics::Float(values.with_backwards_compatible_min_max(true)),
        Statistics::Double(values) => Statistics::Double(values.with_backwards_compatible_min_max(true)),
        Statistics::ByteArray(values) => {
            Statistics::ByteArray(values.with_backwards_compatible_min_max(true))
        }
        Statistics::FixedLenByteArray(values) => {
            Statistics::FixedLenByteArray(values.with_backwards_compatible_min_max(true))
        }
    }
}

/// A failure that no other attempt would mend: memory is the only thing written to.
pub(super) fn fault(error: ParquetError) -> Error {
    Error::fatal("Parquet cannot be encoded").with_source(error)
}
