//! A task's state to look at, for `inspect`.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::state::index::EntryReader;
use crate::state::index::Index;
use crate::state::journal::JournalReader;
use crate::stream::TaskId;

/// The state of a task at a checkpoint, read from a log that is not written to.
#[derive(Debug, Clone)]
pub struct StateView {
    journal: Arc<dyn JournalReader>,
    task: TaskId,
    number: u32,
    index: Index,
}

impl StateView {
    pub(super) fn new(journal: Arc<dyn JournalReader>, task: TaskId, number: u32, index: Index) -> Self {
        Self { journal, task, number, index }
    }

    /// The task.
    pub fn task(&self) -> &TaskId {
        &self.task
    }

    /// As [`crate::state::State::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.index.get(&self.entries(), key)
    }

    /// As [`crate::state::State::keys`].
    pub fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.index.keys(prefix)
    }

    /// As [`crate::state::State::lists`].
    pub fn lists(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.index.list_names(prefix)
    }

    /// As [`crate::state::State::list`].
    pub fn list(&self, list: &[u8]) -> Range<u64> {
        self.index.range(list)
    }

    /// As [`crate::state::State::item`].
    pub fn item(&self, list: &[u8], index: u64) -> Result<Vec<u8>> {
        self.index.item(&self.entries(), list, index)
    }

    /// As [`crate::state::State::items`].
    pub fn items<'s>(
        &'s self,
        list: &[u8],
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>)>> + use<'s> {
        self.index.items(self.entries(), list, from)
    }

    /// Bytes of the log that the state needs.
    pub fn live_bytes(&self) -> u64 {
        self.index.live_bytes
    }

    fn entries(&self) -> EntryReader<'_> {
        EntryReader { journal: &*self.journal, task: &self.task, number: self.number }
    }
}
