//! What the parts of one file sink share.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::doors::Doors;
use crate::sink::file::bucket::BucketAssigner;
use crate::sink::file::config::FileSinkSettings;
use crate::sink::file::config::Identity;
use crate::sink::file::name::PartName;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::staging::Folders;

/// One table, as this start of the job writes to it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) settings: FileSinkSettings,
    pub(super) schema: SchemaRef,
    pub(super) assigner: Arc<dyn BucketAssigner>,
    pub(super) identity: Identity,
    pub(super) doors: Doors,
    pub(super) folders: Folders,
}

impl Table {
    /// Where a part file waits.
    pub(super) fn hidden(&self, name: &PartName) -> PathBuf {
        self.folders.staging.join(name.to_string())
    }

    /// The folder in which it becomes visible.
    pub(super) fn target_folder(&self, part: &ClosedPart) -> PathBuf {
        part.bucket.folder(&self.folders.base)
    }

    /// The name of the `sequence`th file of this start.
    pub(super) fn part_name(&self, sequence: u64) -> PartName {
        PartName {
            lineage: self.identity.lineage,
            incarnation: self.identity.incarnation,
            writer: self.identity.writer,
            sequence,
            extension: self.settings.format.extension(),
        }
    }
}
