//! Which folder a row goes to.
//!
//! Owns the names of bucket folders: the template, the escaping, and the assignment of a batch's rows.
//! Does not own files or the table's base folder.
//!
//! # Invariants
//!
//! - **B1** A bucket's path has one folder name for each level of its template, whatever the values:
//!   none is empty, `.` or `..`, holds a slash or a zero byte, starts with `.`, or is longer than 255
//!   bytes. Joined to the base it lies inside the base.
//! - **B2** Two different values never share a folder name, but null and the empty text, which Hive
//!   cannot tell apart (D13).
//! - **B3** A level `name={field}` takes the field out of the file, unless the value was too long for
//!   a name: then the folder holds a cut value and the file keeps the field.
//!
//! [`template`] parses, [`escape`] names, [`assign`] sorts the rows.

mod assign;
mod escape;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::UInt32Array;
use arrow::datatypes::Schema;
use jiff::Timestamp;

use crate::error::Error;
use crate::error::Result;

pub use escape::NULL_NAME;
pub use template::BucketTemplate;

/// Picks the bucket of each row.
///
/// It must be a function of the row and of `arrival` alone: rows that are replayed after a crash go
/// where they would have gone before it.
pub trait BucketAssigner: Send + Sync + fmt::Debug {
    /// Sorts the rows of `batch`, which arrived at `arrival`, into buckets.
    ///
    /// Each row is named exactly once, in a bucket or as unplaced; row numbers of a bucket rise.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when the batch does not have the schema that the assigner was made for.
    fn assign(&self, batch: &RecordBatch, arrival: Timestamp) -> Result<Assigned>;

    /// The columns, by number, that files of `bucket` hold: all those whose value the path does not tell.
    fn columns(&self, bucket: &BucketKey) -> Vec<usize>;

    /// The columns that files of nearly all buckets hold.
    fn usual_columns(&self) -> Vec<usize> {
        self.columns(&BucketKey::base())
    }

    /// A text that differs whenever rows might be sorted differently (D17).
    fn fingerprint(&self) -> String;
}

/// The rows of a batch, sorted into buckets.
#[derive(Debug, Default)]
pub struct Assigned {
    /// The buckets that occur, in the order of their first row.
    pub buckets: Vec<BucketRows>,
    /// Rows that no bucket can take, in order: bad records.
    pub unplaced: Vec<Unplaced>,
}

/// A bucket and its rows in a batch.
#[derive(Debug)]
pub struct BucketRows {
    /// The bucket.
    pub bucket: BucketKey,
    /// The numbers of its rows, rising.
    pub rows: UInt32Array,
}

/// A row that has no bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplaced {
    /// Its number in the batch.
    pub row: u32,
    /// Why, in words that name the field and the value.
    pub reason: String,
}

/// A bucket: its path below the table's base, with `/` between levels; empty for a table without buckets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey(Arc<str>);

impl BucketKey {
    /// The bucket whose path below the base is `path`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when a level could lead out of the base or is no folder name that readers
    /// list (B1).
    pub fn new(path: impl Into<Arc<str>>) -> Result<Self> {
        let path = path.into();
        for level in path.split('/') {
            let good = !level.starts_with('.') && !level.contains('\0') && level.len() <= LEVEL_BYTES_MAX;
            if !path.is_empty() && (level.is_empty() || !good) {
                return Err(Error::usage(format!(
                    "bucket path {path:?}: {level:?} is no folder name that stays inside the table and is read"
                )));
            }
        }
        Ok(Self(path))
    }

    /// The one bucket of a table without buckets: the base itself.
    pub fn base() -> Self {
        Self(Arc::from(""))
    }

    /// The path below the base, `/` between levels.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder names from the base down.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|level| !level.is_empty())
    }

    /// The bucket's folder in the table `base`.
    pub fn folder(&self, base: &Path) -> PathBuf {
        let mut folder = base.to_owned();
        folder.extend(self.levels());
        folder
    }
}

impl fmt::Display for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

/// Longest name of a folder on the file systems we know.
const LEVEL_BYTES_MAX: usize = 255;

/// No buckets: every row belongs to the base folder.
#[derive(Debug)]
pub struct NoBuckets {
    columns: usize,
}

impl NoBuckets {
    /// One bucket for all rows of `schema`.
    pub fn new(schema: &Schema) -> Self {
        Self { columns: schema.fields().len() }
    }
}

impl BucketAssigner for NoBuckets {
    fn assign(&self, batch: &RecordBatch, _arrival: Timestamp) -> Result<Assigned> {
        let mut assigned = Assigned::default();
        if batch.num_rows() > 0 {
            let rows = (0..assign::row_count(batch)?).collect();
            assigned.buckets.push(BucketRows { bucket: BucketKey::base(), rows });
        }
        Ok(assigned)
    }

    fn columns(&self, _bucket: &BucketKey) -> Vec<usize> {
        (0..self.columns).collect()
    }

    fn fingerprint(&self) -> String {
        "none".to_owned()
    }
}
