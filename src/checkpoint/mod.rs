//! Decides when a checkpoint is complete and makes its completion record durable.

use crate::stream::Epoch;

/// The proof that the checkpoint of an epoch is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    epoch: Epoch,
}

impl Completed {
    /// The epoch that is complete, and all before it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}
