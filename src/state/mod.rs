//! State of tasks on the log.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// What a task's part of a checkpoint is: its state is what the log holds of it below `lsn` (P14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Restore reads records of the task below this position, and none above.
    pub lsn: Lsn,
    /// The oldest record that the state still needs.
    pub floor: Lsn,
}

/// STUB until the state branch is merged.
#[derive(Debug)]
pub struct State {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    history: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    changed: bool,
}

/// STUB
pub type StateView = State;

impl State {
    /// Stub.
    pub fn in_memory(_task: TaskId) -> Self {
        Self { values: BTreeMap::new(), history: vec![BTreeMap::new()], changed: false }
    }
    /// Stub.
    pub fn restarted_from(mut self, snapshot: Snapshot) -> Result<Self> {
        self.values = self.history[snapshot.lsn.0 as usize].clone();
        self.changed = false;
        Ok(self)
    }
    /// Stub.
    pub fn has_changes(&self) -> bool {
        self.changed
    }
    /// Stub.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        if self.values.insert(key.to_vec(), value.to_vec()).as_deref() != Some(value) {
            self.changed = true;
        }
    }
    /// Stub.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.values.get(key).cloned())
    }
    /// Stub.
    pub fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.values.keys().filter(|k| k.starts_with(prefix)).cloned().collect()
    }
    /// Stub.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        self.history.push(self.values.clone());
        self.changed = false;
        let lsn = Lsn(self.history.len() as u64 - 1);
        Ok(Snapshot { lsn, floor: lsn })
    }
}
