//! Settings of the file sink: plain data.

use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use crate::error::Error;
use crate::error::Result;
use crate::sink::file::descriptors::Descriptors;
use crate::sink::file::encode::PartFormat;
use crate::sink::file::rolling::RollingPolicy;
use crate::stream::Incarnation;
use crate::stream::Lineage;

/// What a file sink writes, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSinkSettings {
    /// The table's folder. It need not be there yet.
    pub path: PathBuf,
    /// How part files are encoded.
    #[serde(default)]
    pub format: PartFormat,
    /// When part files are closed.
    #[serde(default)]
    pub roll: RollingPolicy,
    /// Memory for the rows of all buckets and what they are encoded to, in bytes; when rows take half of
    /// it they are spilled to the log, those of the largest bucket first.
    #[serde(default = "memory_bytes")]
    pub memory_bytes: u64,
    /// A row group is full when its rows take this much memory, whatever their number.
    #[serde(default = "row_group_bytes")]
    pub row_group_bytes: u64,
    /// Part files that are open at a time.
    #[serde(default = "descriptors_max")]
    pub descriptors_max: usize,
    /// Goes on when a pending file is gone under both its names: the loss is recorded (C4).
    #[serde(default)]
    pub accept_loss: bool,
    /// What becomes of rows that no bucket can take.
    #[serde(default)]
    pub unplaced: OnUnplaced,
}

/// What becomes of rows that no bucket can take.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnplaced {
    /// The first one stops the job.
    #[default]
    Fail,
    /// They are handed out by [`super::FileWriter::take_rejected`], as bad records.
    Reject,
}

/// Whose files they are: part of every name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The state directory's.
    pub lineage: Lineage,
    /// This start's, greater than any before.
    pub incarnation: Incarnation,
    /// The writer's number within the job.
    pub writer: u32,
}

impl FileSinkSettings {
    /// 256 MiB of rows: a second or two of a fast stream between two checkpoints.
    pub const MEMORY_BYTES: u64 = 256 << 20;
    /// 512 MiB of rows in memory, some 100 MiB in the file: wide rows make smaller row groups.
    pub const ROW_GROUP_BYTES: u64 = 512 << 20;

    /// The defaults for a table in the folder `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            format: PartFormat::default(),
            roll: RollingPolicy::default(),
            memory_bytes: Self::MEMORY_BYTES,
            row_group_bytes: Self::ROW_GROUP_BYTES,
            descriptors_max: descriptors_max(),
            accept_loss: false,
            unplaced: OnUnplaced::default(),
        }
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`], naming the setting.
    pub fn validate(&self) -> Result<()> {
        self.roll.validate()?;
        if self.path.file_name().is_none() {
            return Err(Error::usage(format!(
                "path {:?} is no folder that can have a staging folder beside it",
                self.path
            )));
        }
        for (name, value) in [
            ("memory", self.memory_bytes),
            ("row_group_bytes", self.row_group_bytes),
            ("descriptors_max", self.descriptors_max as u64),
        ] {
            if value == 0 {
                return Err(Error::usage(format!("{name} must be at least 1")));
            }
        }
        Ok(())
    }
}

fn memory_bytes() -> u64 {
    FileSinkSettings::MEMORY_BYTES
}

fn row_group_bytes() -> u64 {
    FileSinkSettings::ROW_GROUP_BYTES
}

fn descriptors_max() -> usize {
    Descriptors::LIMIT
}
