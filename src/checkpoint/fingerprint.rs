//! Whether a job may go on from a checkpoint that another definition of it made (D17).

use std::fmt;

use crate::checkpoint::record::CompletionKind;

/// A hash of everything between source and sink that decides what a row becomes and where it goes:
/// source, schema, transforms, buckets, zone, and our version of them. Made by `pipeline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    /// Sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a start does about the definition that made the checkpoint it restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compatibility {
    /// Go on: it is the same.
    Go,
    /// Go on, but roll the files that are open: they hold rows of the former definition.
    RollOpenFiles,
    /// Refuse until the job was resumed, and cleanly stopped, under its former definition.
    Refuse,
}

/// Decides by how the restored checkpoint came about, and whether its fingerprint is the `same` as now.
///
/// A clean stop spills everything that waits, so that no row must be read again and land by other rules
/// (P25); a checkpoint on the way leaves such rows.
pub fn decide_fingerprint(kind: CompletionKind, same: bool) -> Compatibility {
    match (same, kind) {
        (true, _) => Compatibility::Go,
        (false, CompletionKind::Stop | CompletionKind::End) => Compatibility::RollOpenFiles,
        (false, CompletionKind::Checkpoint) => Compatibility::Refuse,
    }
}
