//! The two ends of a file: its magic bytes, and the footer that makes it readable.

use std::io;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::encode_arrow_schema;
use parquet::file::metadata::FileMetaData;
use parquet::file::metadata::KeyValue;
use parquet::file::metadata::ParquetMetaDataBuilder;
use parquet::file::metadata::ParquetMetaDataWriter;
use parquet::file::metadata::page_index::PageIndexBuilder;

use super::place::placed;
use super::row_group::fault;
use super::row_group::read_meta;
use super::row_group::restored;
use super::settings::ParquetSettings;
use super::settings::Plan;
use crate::error::Error;
use crate::error::Result;

/// The bytes at offset 0 of every file.
pub fn head() -> &'static [u8] {
    b"PAR1"
}

/// The bytes that complete a file: column indexes, offset indexes and the footer, to be appended
/// at byte `offset`.
///
/// `metas` are those of all row groups, in the file's order; there may be none. `key_values` go into
/// the footer as they are.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] if the metas do not describe, row group by row group, a file of this
/// schema that is `offset` bytes long (R2); [`crate::ErrorKind::Usage`] if the settings contradict
/// the schema.
pub fn footer(
    schema: &SchemaRef,
    settings: &ParquetSettings,
    offset: u64,
    metas: &[Vec<u8>],
    key_values: &[(String, String)],
) -> Result<Vec<u8>> {
    let plan = Plan::new(schema, settings)?;
    let mut index = PageIndexBuilder::new(metas.len(), plan.parquet_schema.num_columns());
    let mut groups = Vec::with_capacity(metas.len());
    let (mut at, mut rows) = (head().len() as u64, 0);
    for (ordinal, meta) in metas.iter().enumerate() {
        let (place, metadata) = read_meta(meta)?;
        if place.offset != at {
            return Err(Error::damage(format!(
                "row group {ordinal} begins at byte {}, the one before it ends at {at}",
                place.offset
            )));
        }
        at = place.end()?;
        if metadata.file_metadata().schema_descr().root_schema() != plan.parquet_schema.root_schema() {
            return Err(Error::damage(format!("row group {ordinal} has another schema than its file")));
        }
        for group in metadata.row_groups() {
            rows += group.num_rows();
            let ordinal = i32::try_from(ordinal).map_err(|_| Error::fatal("too many row groups"))?;
            groups.push(restored(group, ordinal).map_err(fault)?);
        }
        if let Some(pages) = metadata.page_index() {
            for column in 0..plan.parquet_schema.num_columns() {
                if let Some(column_index) = pages.column_index(0, column) {
                    index.put_column_index(column_index.clone(), ordinal, column);
                }
                if let Some(offset_index) = pages.offset_index(0, column) {
                    index.put_offset_index(offset_index.clone(), ordinal, column);
                }
            }
        }
    }
    if at != offset {
        return Err(Error::damage(format!("the last row group ends at byte {at}, the file at {offset}")));
    }

    // The Arrow schema travels along, so that types which Parquet has no word for come back.
    let arrow = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(schema));
    let own = key_values.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let file = FileMetaData::new(
        plan.properties.writer_version().as_num(),
        rows,
        Some(plan.properties.created_by().to_owned()),
        Some(std::iter::once(arrow).chain(own).collect()),
        Arc::clone(&plan.parquet_schema),
        None,
    );
    let metadata = ParquetMetaDataBuilder::new(file)
        .set_row_groups(groups)
        .set_page_index(Some(Arc::new(index.build())))
        .build();

    let (mut nowhere, mut bytes) = (io::sink(), Vec::new());
    let out = placed(&mut nowhere, &mut bytes, offset)?;
    ParquetMetaDataWriter::new_with_tracked(out, &metadata)
        .with_preserve_page_index_locations(false)
        .finish()
        .map_err(fault)?;
    Ok(bytes)
}
