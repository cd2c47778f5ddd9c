//! Rows that wait, as items of the log. (Stands in until `format::spill` is there.)

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use crate::error::Error;
use crate::error::Result;

pub(super) fn encode(batch: &RecordBatch) -> Result<Vec<u8>> {
    let fault = |error| Error::fatal("rows cannot be spilled").with_source(error);
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref()).map_err(fault)?;
    writer.write(batch).map_err(fault)?;
    writer.into_inner().map_err(fault)
}

pub(super) fn decode(_schema: &SchemaRef, bytes: &[u8]) -> Result<RecordBatch> {
    let damage = |error| Error::damage("spilled rows do not read back").with_source(error);
    let mut reader = StreamReader::try_new(bytes, None).map_err(damage)?;
    match reader.next() {
        Some(batch) => batch.map_err(damage),
        None => Err(Error::damage("spilled rows are missing")),
    }
}
