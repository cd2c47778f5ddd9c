//! Looks at one file: its bytes against its record.

use std::io;
use std::path::Path;
use std::path::PathBuf;

use parquet::file::metadata::ParquetMetaDataReader;

use crate::pipeline::tables::Record;
use crate::pipeline::tables::Table;
use crate::pipeline::verify::finding::Wrong;
use crate::sink::file::Content;
use crate::sink::file::Damage;
use crate::sink::file::Found;
use crate::sink::file::PartName;
use crate::sink::file::Recorded;
use crate::sink::file::Verdict;
use crate::sink::file::bucket::BucketKey;
use crate::sink::file::judge;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::Kind;
use crate::storage::OpenMode;

/// Bytes that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// What a Parquet file ends with: the length of the footer, then `PAR1`.
const FOOTER_TAIL_BYTES: u64 = 8;

/// What one look at a file gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    wrong: Option<Wrong>,
}

/// What is under one name.
struct Read {
    found: Found,
    /// Rows in it, where the format tells and the bytes are proved.
    rows: Option<u64>,
}

impl Look {
    /// Looks at the file called `name` and judges it by `record`. Blocks.
    pub(super) fn at(disk: &dyn Disk, table: &Table, name: &PartName, record: &Record) -> Self {
        let wrong = match record {
            Record::GivenUp => Ok(None),
            Record::Committed(part) => {
                let target = part.bucket.folder(&table.base).join(name.to_string());
                committed(disk, &target, name, &part.content)
            }
            Record::Open(part) => open(disk, table, name, &part.bucket, &part.content, part.pending),
        };
        let wrong = wrong.unwrap_or_else(|error| Some(Wrong::Unreadable(error.to_string())));
        Self { wrong }
    }

    /// What is wrong, if anything is.
    pub(super) fn wrong(&self) -> Option<&Wrong> {
        self.wrong.as_ref()
    }

    /// The path that is told with what is wrong.
    pub(super) fn place(&self, table: &Table, name: &PartName, record: &Record) -> PathBuf {
        match record {
            Record::Open(part) if self.wrong != Some(Wrong::Damaged(Damage::Foreign)) || !part.pending => {
                table.hidden(name)
            }
            _ => table.target(name, record).unwrap_or_else(|| table.hidden(name)),
        }
    }
}

impl Record {
    /// Rows in the file.
    pub(super) fn rows(&self) -> Option<u64> {
        match self {
            Self::Open(part) => Some(part.content.rows),
            Self::Committed(part) => Some(part.content.rows),
            Self::GivenUp => None,
        }
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Open(part) => part.content.len,
            Self::Committed(part) => part.content.len,
            Self::GivenUp => 0,
        }
    }

    /// The epoch whose barrier closed it.
    pub(super) fn epoch(&self) -> Option<u64> {
        match self {
            Self::Open(part) => part.epoch.map(|epoch| epoch.0),
            Self::Committed(part) => Some(part.epoch.0),
            Self::GivenUp => None,
        }
    }
}

impl Table {
    /// Where the file called `name` is to be in the table, if it may be there.
    pub(super) fn target(&self, name: &PartName, record: &Record) -> Option<PathBuf> {
        let bucket: &BucketKey = match record {
            Record::Committed(part) => &part.bucket,
            Record::Open(part) if part.pending => &part.bucket,
            Record::Open(_) | Record::GivenUp => return None,
        };
        Some(bucket.folder(&self.base).join(name.to_string()))
    }

    /// Where the file called `name` belongs, in the table or in staging.
    pub(super) fn place(&self, name: &PartName, record: &Record) -> Option<PathBuf> {
        match record {
            Record::GivenUp => None,
            _ => Some(self.target(name, record).unwrap_or_else(|| self.hidden(name))),
        }
    }

    /// The table without its records.
    pub(super) fn clone_folders(&self) -> Self {
        Self {
            task: self.task.clone(),
            base: self.base.clone(),
            root: self.root.clone(),
            staging: self.staging.clone(),
            records: Default::default(),
        }
    }
}

fn committed(
    disk: &dyn Disk,
    target: &Path,
    name: &PartName,
    content: &Content,
) -> io::Result<Option<Wrong>> {
    let Some(read) = look(disk, target, name, content, true)? else { return Ok(Some(Wrong::Removed)) };
    let recorded = Recorded::Pending { len: content.len, crc: content.crc };
    Ok(match judge(recorded, Some(read.found), None) {
        Verdict::Damage(damage) => Some(Wrong::Damaged(damage)),
        _ => rows(&read, content),
    })
}

fn open(
    disk: &dyn Disk,
    table: &Table,
    name: &PartName,
    bucket: &BucketKey,
    content: &Content,
    pending: bool,
) -> io::Result<Option<Wrong>> {
    let target = bucket.folder(&table.base).join(name.to_string());
    let (len, crc) = (content.len, content.crc);
    let recorded = if pending { Recorded::Pending { len, crc } } else { Recorded::InProgress { len, crc } };
    // The hidden name first: a rename meanwhile is then seen as both names of one file, never as none.
    let hidden = look(disk, &table.hidden(name), name, content, pending)?;
    let target = look(disk, &target, name, content, pending)?;
    let verdict =
        judge(recorded, hidden.as_ref().map(|read| read.found), target.as_ref().map(|read| read.found));
    Ok(match verdict {
        Verdict::Damage(damage) => Some(Wrong::Damaged(damage)),
        Verdict::Lost => Some(Wrong::Lost),
        _ if pending => target.or(hidden).and_then(|read| rows(&read, content)),
        _ => None,
    })
}

fn rows(read: &Read, content: &Content) -> Option<Wrong> {
    let found = read.rows?;
    (found != content.rows).then_some(Wrong::Rows { want: content.rows, found })
}

/// Reads what is at `path`; `None` when nothing is there.
fn look(
    disk: &dyn Disk,
    path: &Path,
    name: &PartName,
    content: &Content,
    whole: bool,
) -> io::Result<Option<Read>> {
    let absent =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let metadata = match disk.metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let unread = Found { len: metadata.len, prefix_crc: None, id: metadata.id };
    if metadata.kind != Kind::File || metadata.len < content.len {
        return Ok(Some(Read { found: unread, rows: None }));
    }
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some((crc, lines)) = read_all(&*file, content.len)? else {
        return Ok(Some(Read { found: unread, rows: None }));
    };
    let found = Found { prefix_crc: Some(crc), ..unread };
    let proved = whole && crc == content.crc && metadata.len == content.len;
    let rows = match name.extension.as_str() {
        "ndjson" if proved => Some(lines),
        // A footer is only given to the parser once its bytes are proved to be ours.
        "parquet" if proved => footer_rows(&*file, content.len)?,
        _ => None,
    };
    Ok(Some(Read { found, rows }))
}

/// CRC-32 of the first `len` bytes and the line ends in them; `None` when the file is shorter.
fn read_all(file: &dyn DiskFile, len: u64) -> io::Result<Option<(u32, u64)>> {
    let mut crc = crc32fast::Hasher::new();
    let mut lines = 0;
    // The length of a chunk fits any usize.
    let mut buf = vec![0; usize::try_from(len.min(CHUNK_BYTES)).unwrap_or(0)];
    let mut at = 0;
    while at < len {
        let wanted = usize::try_from((len - at).min(CHUNK_BYTES)).unwrap_or(0);
        let chunk = buf.get_mut(..wanted).unwrap_or_default();
        if file.read_at(at, chunk)? < wanted {
            return Ok(None);
        }
        crc.update(chunk);
        lines += memchr::memchr_iter(b'\n', chunk).count() as u64;
        at += wanted as u64;
    }
    Ok(Some((crc.finalize(), lines)))
}

/// Rows of a Parquet file, by its footer.
fn footer_rows(file: &dyn DiskFile, len: u64) -> io::Result<Option<u64>> {
    let short = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "no Parquet file, though its bytes are those that were written",
        )
    };
    let mut tail = [0; FOOTER_TAIL_BYTES as usize];
    let Some(end) = len.checked_sub(FOOTER_TAIL_BYTES) else { return Err(short()) };
    file.read_at(end, &mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(begin) = end.checked_sub(footer).filter(|_| magic == *b"PAR1") else { return Err(short()) };
    let mut bytes = vec![0; usize::try_from(footer).map_err(|_| short())?];
    file.read_at(begin, &mut bytes)?;
    let metadata = ParquetMetaDataReader::decode_metadata(&bytes).map_err(io::Error::other)?;
    Ok(u64::try_from(metadata.file_metadata().num_rows()).ok())
}
