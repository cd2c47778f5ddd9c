//! How part files are encoded: plain data, and what the library makes of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::Compression;
use parquet::basic::GzipLevel;
use parquet::basic::ZstdLevel;
use parquet::file::properties::DEFAULT_CREATED_BY;
use parquet::file::properties::EnabledStatistics;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use parquet::schema::types::SchemaDescPtr;
use serde::Deserialize;
use serde::Serialize;

use crate::error::Error;
use crate::error::Result;

/// How Parquet part files are encoded.
///
/// A file is finished with the settings it was begun with: see [`fingerprint`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ParquetSettings {
    /// How pages are compressed.
    pub compression: Codec,
    /// A row group is full with this many rows.
    pub row_group_rows: u64,
    /// Encode columns by dictionary while that pays; columns of unique values fall back by themselves.
    pub dictionary: bool,
    /// Columns that get a bloom filter, by their path (`user.id`, `tags.list.item`).
    pub bloom_filters: Vec<String>,
    /// Least and greatest value and the count of nulls of each row group, and of each page if
    /// `page_index` is on.
    pub statistics: bool,
    /// The index of pages, by which readers skip pages.
    pub page_index: bool,
    /// A data page is full with about this many bytes.
    pub data_page_bytes: u64,
    /// A data page is full with this many rows.
    pub data_page_rows: u64,
}

impl ParquetSettings {
    /// 1,048,576 rows: what readers are tuned to; the sink's memory budget closes row groups earlier.
    pub const ROW_GROUP_ROWS: u64 = 1 << 20;
    /// 1 MiB, the format's own advice.
    pub const DATA_PAGE_BYTES: u64 = 1 << 20;
    /// 20,000 rows: small pages of narrow columns make the page index worth reading.
    pub const DATA_PAGE_ROWS: u64 = 20_000;
}

impl Default for ParquetSettings {
    fn default() -> Self {
        Self {
            compression: Codec::default(),
            row_group_rows: Self::ROW_GROUP_ROWS,
            dictionary: true,
            bloom_filters: Vec::new(),
            statistics: true,
            page_index: true,
            data_page_bytes: Self::DATA_PAGE_BYTES,
            data_page_rows: Self::DATA_PAGE_ROWS,
        }
    }
}

/// How pages are compressed, written `none`, `snappy`, `gzip`, `gzip(6)`, `lz4`, `zstd` or `zstd(3)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Codec {
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// Gzip with a level from 1 to 9.
    Gzip(u32),
    /// LZ4 blocks without a frame, which all readers of today know (`LZ4_RAW`).
    Lz4,
    /// Zstandard with a level from 1 to 22.
    Zstd(i32),
}

impl Codec {
    /// Gzip's own default level.
    pub const GZIP_LEVEL: u32 = 6;
    /// Level 1: a quarter faster than level 3 from record to file, and no larger on click data.
    pub const ZSTD_LEVEL: i32 = 1;
}

impl Default for Codec {
    /// Zstandard, level 1.
    fn default() -> Self {
        Self::Zstd(Self::ZSTD_LEVEL)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Snappy => f.write_str("snappy"),
            Self::Gzip(level) => write!(f, "gzip({level})"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd({level})"),
        }
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::usage(format!(
                "the compression {text:?} is none of none, snappy, lz4, gzip, gzip(1) to gzip(9), zstd, zstd(1) to zstd(22)"
            ))
        };
        let (name, level) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => {
                let digits = rest.strip_suffix(')').ok_or_else(unknown)?;
                (name, Some(digits.trim().parse::<u8>().map_err(|_| unknown())?))
            }
        };
        match (name.trim(), level) {
            ("none", None) => Ok(Self::None),
            ("snappy", None) => Ok(Self::Snappy),
            ("lz4", None) => Ok(Self::Lz4),
            ("gzip", None) => Ok(Self::Gzip(Self::GZIP_LEVEL)),
            ("gzip", Some(level @ 1..=9)) => Ok(Self::Gzip(level.into())),
            ("zstd", None) => Ok(Self::Zstd(Self::ZSTD_LEVEL)),
            ("zstd", Some(level @ 1..=22)) => Ok(Self::Zstd(level.into())),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Codec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Codec> for String {
    fn from(codec: Codec) -> Self {
        codec.to_string()
    }
}

impl TryFrom<Codec> for Compression {
    type Error = Error;

    fn try_from(codec: Codec) -> Result<Self> {
        let level =
            |error| Error::usage(format!("the compression {codec} has no such level")).with_source(error);
        Ok(match codec {
            Codec::None => Self::UNCOMPRESSED,
            Codec::Snappy => Self::SNAPPY,
            Codec::Gzip(gzip) => Self::GZIP(GzipLevel::try_new(gzip).map_err(level)?),
            Codec::Lz4 => Self::LZ4_RAW,
            Codec::Zstd(zstd) => Self::ZSTD(ZstdLevel::try_new(zstd).map_err(level)?),
        })
    }
}

/// What the library needs to encode rows of one schema.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) schema: SchemaRef,
    pub(super) parquet_schema: SchemaDescPtr,
    pub(super) properties: Arc<WriterProperties>,
}

impl Plan {
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] if the settings contradict themselves or the schema.
    pub(super) fn new(schema: &SchemaRef, settings: &ParquetSettings) -> Result<Self> {
        let parquet_schema = ArrowSchemaConverter::new()
            .convert(schema)
            .map_err(|error| Error::usage("the schema cannot be kept in Parquet").with_source(error))?;
        for (key, value) in [
            ("row_group_rows", settings.row_group_rows),
            ("data_page_bytes", settings.data_page_bytes),
            ("data_page_rows", settings.data_page_rows),
        ] {
            if value == 0 {
                return Err(Error::usage(format!("{key} must be at least 1")));
            }
        }
        let usize = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let mut properties = WriterProperties::builder()
            .set_compression(settings.compression.try_into()?)
            .set_dictionary_enabled(settings.dictionary)
            .set_statistics_enabled(match (settings.statistics, settings.page_index) {
                (false, _) => EnabledStatistics::None,
                (true, false) => EnabledStatistics::Chunk,
                (true, true) => EnabledStatistics::Page,
            })
            .set_offset_index_disabled(!settings.page_index)
            .set_data_page_size_limit(usize(settings.data_page_bytes))
            .set_data_page_row_count_limit(usize(settings.data_page_rows));
        for path in &settings.bloom_filters {
            let column =
                parquet_schema.columns().iter().find(|c| c.path().string() == *path).ok_or_else(|| {
                    let known: Vec<_> = parquet_schema.columns().iter().map(|c| c.path().string()).collect();
                    Error::usage(format!(
                        "bloom_filters names {path:?}, which is no column of the file; there are {}",
                        known.join(", ")
                    ))
                })?;
            // Naming the number of values is what switches the filter on.
            let path = ColumnPath::new(column.path().parts().to_vec());
            properties = properties.set_column_bloom_filter_max_ndv(path, settings.row_group_rows);
        }
        Ok(Self {
            schema: Arc::clone(schema),
            parquet_schema: Arc::new(parquet_schema),
            properties: Arc::new(properties.build()),
        })
    }
}

impl ParquetSettings {
    /// Checks the settings against each other and against `schema`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], with the key.
    pub fn validate(&self, schema: &SchemaRef) -> Result<()> {
        Plan::new(schema, self).map(drop)
    }
}

/// How encoders here use the library; grows when the same settings come to mean other bytes.
const ENCODER_VERSION: u32 = 1;

/// A number that changes with everything a half-written file depends on: the schema, the settings,
/// the library's version (R3).
///
/// A file that was begun under another fingerprint is rolled, not appended to.
pub fn fingerprint(schema: &SchemaRef, settings: &ParquetSettings) -> u64 {
    fnv1a(format!("{ENCODER_VERSION}\n{DEFAULT_CREATED_BY}\n{settings:?}\n{schema:?}\n").as_bytes())
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. Kept in checkpoints, so it must not
/// change with the compiler, as the standard hasher may.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
