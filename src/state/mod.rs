//! State of tasks on the log.

use crate::stream::Lsn;

/// What a task's part of a checkpoint is: its state is what the log holds of it below `lsn` (P14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Restore reads records of the task below this position, and none above.
    pub lsn: Lsn,
    /// The oldest record that the state still needs.
    pub floor: Lsn,
}
