//! Rows into the bytes of a part file, on a computing thread.
//!
//! Owns the choice of format and what a file was begun with. Does not own the formats
//! (`crate::format`) nor where bytes go.
//!
//! Every format has *chunks*: a row group of Parquet, a run of lines (a frame of its own where it is
//! compressed). Rows wait, in memory or spilled, until a chunk is full.
//!
//! # A definition in the state, version 1
//!
//! ```text
//!  value  definition/<id, 16 hex>   | version u8 = 1 | settings: str, JSON | schema: bytes, Arrow IPC |
//! ```
//!
//! A file is finished under the definition it was begun with, whatever the settings are then (D15).

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::Deserialize;
use serde::Serialize;

use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::error::Error;
use crate::error::Result;
use crate::format::LineCompression;
use crate::format::LineFormat;
use crate::format::parquet;
use crate::format::parquet::ParquetSettings;
use crate::format::parquet::RowGroupEncoder;
use crate::format::spill;
use crate::state::ItemRef;
use crate::state::StateReader;

/// How part files are encoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartFormat {
    /// Parquet.
    Parquet(ParquetSettings),
    /// One JSON object on each line.
    Ndjson(LineSettings),
    /// A header, and one line for each row.
    Csv(LineSettings),
}

/// How files of lines are written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineSettings {
    /// Compresses each run of lines as a frame of its own.
    pub compression: Compression,
}

/// How lines are compressed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Gzip members.
    Gzip,
    /// Zstandard frames.
    Zstd,
}

impl From<Compression> for LineCompression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip,
            Compression::Zstd => Self::Zstd,
        }
    }
}

impl Default for PartFormat {
    fn default() -> Self {
        Self::Parquet(ParquetSettings::default())
    }
}

/// 65,536 lines, or 8 MiB of rows in memory: a write, and a frame, that is large enough.
const CHUNK_LINES: u64 = 65_536;
const CHUNK_LINES_BYTES: u64 = 8 << 20;

impl PartFormat {
    /// What follows the dot in the names of part files.
    pub fn extension(&self) -> String {
        match self.lines() {
            None => "parquet".to_owned(),
            Some((format, compression)) => match compression.extension() {
                None => format.extension().to_owned(),
                Some(compressed) => format!("{}.{compressed}", format.extension()),
            },
        }
    }

    fn lines(&self) -> Option<(LineFormat, LineCompression)> {
        match self {
            Self::Parquet(_) => None,
            Self::Ndjson(settings) => Some((LineFormat::Ndjson, settings.compression.into())),
            Self::Csv(settings) => Some((LineFormat::Csv, settings.compression.into())),
        }
    }

    /// A chunk is full with this many rows, or with rows of this much memory.
    pub(super) fn chunk_limits(&self, row_group_bytes: u64) -> (u64, u64) {
        match self {
            Self::Parquet(settings) => (settings.row_group_rows, row_group_bytes),
            Self::Ndjson(_) | Self::Csv(_) => (CHUNK_LINES, CHUNK_LINES_BYTES.min(row_group_bytes)),
        }
    }

    /// Whether `has` of a `full` chunk are worth being written at a barrier rather than spilled.
    ///
    /// Small row groups cost every reader, so they are all but full; small runs of lines cost only
    /// a write and a sync.
    pub(super) fn nearly(&self, has: u64, full: u64) -> bool {
        match self {
            Self::Parquet(_) => has >= full - full / 10,
            Self::Ndjson(_) | Self::Csv(_) => has >= full / 16,
        }
    }

    /// Checks the format's settings against the schema of its files.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], naming the setting.
    pub fn validate(&self, schema: &SchemaRef) -> Result<()> {
        match self {
            Self::Parquet(settings) => settings.validate(schema),
            Self::Ndjson(_) => LineFormat::Ndjson.encoder(Arc::clone(schema)).map(drop),
            Self::Csv(_) => LineFormat::Csv.encoder(Arc::clone(schema)).map(drop),
        }
    }
}

/// What a file is begun with: it is the same until its end.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) id: u64,
    pub(super) schema: SchemaRef,
    pub(super) format: PartFormat,
}

const VERSION: u8 = 1;

impl Definition {
    pub(super) fn new(schema: SchemaRef, format: PartFormat) -> Result<Self> {
        let mut definition = Self { id: 0, schema, format };
        let library = match &definition.format {
            PartFormat::Parquet(settings) => parquet::fingerprint(&definition.schema, settings),
            PartFormat::Ndjson(_) | PartFormat::Csv(_) => 0,
        };
        let mut bytes = definition.encode()?;
        bytes.extend(library.to_le_bytes());
        // FNV-1a, 64 bits: stable over versions of the program.
        definition.id = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Ok(definition)
    }

    /// What the keys of definitions begin with.
    pub(super) const PREFIX: &str = "definition/";

    /// The key of a definition's value in the state.
    pub(super) fn key(id: u64) -> Vec<u8> {
        format!("{}{id:016x}", Self::PREFIX).into_bytes()
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let settings = serde_json::to_string(&self.format)
            .map_err(|error| Error::fatal("settings of a format cannot be kept").with_source(error))?;
        let schema = StreamWriter::try_new(Vec::new(), &self.schema)
            .and_then(StreamWriter::into_inner)
            .map_err(|error| Error::fatal("a schema cannot be kept").with_source(error))?;
        Ok(Encoder::versioned(VERSION).str(&settings).bytes(&schema).finish())
    }

    pub(super) fn decode(id: u64, value: &[u8]) -> Result<Self> {
        let (mut d, _version) = Decoder::versioned(value, VERSION)?;
        let format = serde_json::from_str(d.str()?).map_err(|error| {
            Error::damage("the settings of a part file do not read back").with_source(error)
        })?;
        let schema = StreamReader::try_new(d.bytes()?, None)
            .map_err(|error| {
                Error::damage("the schema of a part file does not read back").with_source(error)
            })?
            .schema();
        d.finish()?;
        Ok(Self { id, schema, format })
    }
}

/// Bytes to be appended at the offset they were made for.
#[derive(Debug)]
pub(super) struct Encoded {
    /// One behind the other.
    pub(super) pieces: Vec<Vec<u8>>,
    /// Their length and checksum together.
    pub(super) len: u64,
    pub(super) crc: crc32fast::Hasher,
    /// Rows in them.
    pub(super) rows: u64,
    /// What the footer needs of them.
    pub(super) meta: Option<Vec<u8>>,
}

impl Encoded {
    fn new(pieces: Vec<Vec<u8>>, rows: u64, meta: Option<Vec<u8>>) -> Self {
        let mut crc = crc32fast::Hasher::new();
        for piece in &pieces {
            crc.update(piece);
        }
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, len, crc, rows, meta }
    }
}

/// Rows that become a chunk: first those spilled before, then those in memory.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) definition: Arc<Definition>,
    /// Where in the file; at 0 the file's head comes first.
    pub(super) offset: u64,
    pub(super) spilled: Vec<ItemRef>,
    pub(super) reader: StateReader,
    pub(super) buffered: Vec<RecordBatch>,
}

impl Chunk {
    /// Encodes the rows. Each batch is freed once it is encoded.
    pub(super) fn encode(self) -> Result<Encoded> {
        let Self { definition, offset, spilled, reader, buffered } = self;
        let schema = Arc::clone(&definition.schema);
        let spilled = spilled.into_iter().map(|item| spill::decode(&schema, &reader.read(&item)?));
        let batches = spilled.chain(buffered.into_iter().map(Ok));
        if let PartFormat::Parquet(settings) = &definition.format {
            let head = if offset == 0 { parquet::head() } else { &[] };
            let mut encoder = RowGroupEncoder::new(&schema, settings, offset + head.len() as u64)?;
            for batch in batches {
                encoder.write(&batch?)?;
            }
            let group = encoder.finish()?;
            return Ok(Encoded::new(vec![head.to_vec(), group.bytes], group.rows, Some(group.meta)));
        }
        let Some((format, compression)) = definition.format.lines() else {
            return Err(Error::fatal("a format that is neither Parquet nor lines"));
        };
        let encoder = format.encoder(Arc::clone(&schema))?;
        let mut lines = if offset == 0 { encoder.header() } else { Vec::new() };
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            encoder.encode(&batch, &mut lines)?;
        }
        let mut frame = Vec::new();
        match compression {
            LineCompression::None => frame = lines,
            compression => compression.frame(&lines, &mut frame)?,
        }
        Ok(Encoded::new(vec![frame], rows, None))
    }
}

/// A file that is to be finished.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) definition: Arc<Definition>,
    /// The file's length.
    pub(super) offset: u64,
    /// The metas of its row groups, in order.
    pub(super) groups: Vec<ItemRef>,
    pub(super) reader: StateReader,
    /// For the footer.
    pub(super) key_values: Vec<(String, String)>,
}

impl Ending {
    /// The bytes that end the file.
    pub(super) fn encode(self) -> Result<Encoded> {
        match &self.definition.format {
            PartFormat::Parquet(settings) => {
                let metas =
                    self.groups.iter().map(|item| self.reader.read(item)).collect::<Result<Vec<_>>>()?;
                let footer = parquet::footer(
                    &self.definition.schema,
                    settings,
                    self.offset,
                    &metas,
                    &self.key_values,
                )?;
                Ok(Encoded::new(vec![footer], 0, None))
            }
            PartFormat::Ndjson(_) | PartFormat::Csv(_) => Ok(Encoded::new(Vec::new(), 0, None)),
        }
    }
}
