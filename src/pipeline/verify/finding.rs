//! What can be wrong with a file, in words that start the repair.

use std::fmt;
use std::path::PathBuf;

use crate::pipeline::units::counted;
use crate::sink::file::Damage;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// Rows that the state says are in it.
    pub rows: Option<u64>,
    /// The epoch whose barrier closed it.
    pub epoch: Option<u64>,
    /// What is wrong.
    pub wrong: Wrong,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It is in the ledger and not in the table: since it was committed, somebody removed it.
    Removed,
    /// It was closed and is gone, and was never seen in the table (C4).
    Lost,
    /// It is not as it was recorded.
    Damaged(Damage),
    /// Its bytes are right and it does not hold the recorded number of rows: a fault of the writer.
    Rows {
        /// Recorded.
        want: u64,
        /// In the file.
        found: u64,
    },
    /// It has this job's lineage, lies in the table, and the state does not know it.
    Unknown,
    /// A copy of a known file, or one that was moved, or one that the state holds for unfinished: readers
    /// see rows twice, in a wrong bucket, or too early.
    Misplaced {
        /// Where it belongs, in the table or in staging; none for one that was given up as lost.
        belongs: Option<PathBuf>,
    },
    /// Nothing needs it, and it is still there.
    Leftover,
    /// The disk does not let it be read.
    Unreadable(String),
}

impl Finding {
    pub(super) fn of(path: PathBuf, wrong: Wrong) -> Self {
        Self { path, rows: None, epoch: None, wrong }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match (self.epoch, self.rows) {
            (Some(epoch), Some(rows)) => write!(f, " (epoch {epoch}, {})", counted(rows, "row"))?,
            (None, Some(rows)) => write!(f, " ({})", counted(rows, "row"))?,
            _ => {}
        }
        write!(f, ": {}", self.wrong)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str(
                "committed and gone. Removing or compacting a committed file is its owner's right: if it was you, \
                 run `alluvium verify --removed-ok`; if nobody did, its rows are missing from the table",
            ),
            Self::Lost => f.write_str(
                "closed, not yet confirmed as committed, and gone under both its names. Something moved or removed \
                 it too early: put it back",
            ),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Rows { want, found } => {
                write!(f, "holds {}, {want} were written; its bytes are those that were written", counted(*found, "row"))
            }
            Self::Unknown => f.write_str(
                "has this job's name and the state does not know it: the state is older than the table, or the file \
                 is a copy. Its rows may be in other files too",
            ),
            Self::Misplaced { belongs: Some(belongs) } => {
                write!(f, "belongs to {}: a copy, or moved, or the state is older than the table", belongs.display())
            }
            Self::Misplaced { belongs: None } => {
                f.write_str("was given up as lost, and is here after all: its rows are recorded as a loss")
            }
            Self::Leftover => f.write_str("left behind, no checkpoint needs it: `alluvium gc` removes it"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}
