//! The proof that lets a sink commit.

use crate::stream::Epoch;

/// The proof that the checkpoint of an epoch is complete: its completion record is durable.
///
/// Sinks ask for it where they make things visible, so that nothing can be committed too early. It is
/// made by [`crate::checkpoint::CheckpointStore`], when it writes a record and when it restores one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    epoch: Epoch,
}

impl Completed {
    /// Says, in place of this crate's checkpoint store, that the checkpoint of `epoch` is complete: for
    /// another engine that hosts one of the sinks.
    ///
    /// The caller vouches that a restart at any later moment restores the snapshots of this epoch or of a
    /// later one, and with them the committables that belong to it. If that is not so, what is committed
    /// by this proof may be committed again under other names, or be missing.
    pub fn attest(epoch: Epoch) -> Self {
        Self { epoch }
    }

    /// As [`Self::attest`], for the store.
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch }
    }

    /// The epoch that is complete, and all before it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}
