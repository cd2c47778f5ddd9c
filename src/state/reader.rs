//! Reading items of a list on another thread, while their task goes on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::error::Result;
use crate::state::backend::Shared;
use crate::state::index::EntryReader;
use crate::state::index::Name;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// Reads items that [`crate::state::State::locate`] has found. Clones are cheap.
#[derive(Debug, Clone)]
pub struct StateReader {
    pub(super) shared: Arc<Shared>,
    pub(super) task: TaskId,
    pub(super) number: u32,
}

impl StateReader {
    /// The bytes of the item.
    ///
    /// They are those of the moment it was located, also if the list was cleared since: an [`ItemRef`]
    /// keeps its part of the log.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the log does not verify there.
    pub fn read(&self, item: &ItemRef) -> Result<Vec<u8>> {
        match &item.place {
            ItemPlace::Waiting(bytes) => Ok(bytes.to_vec()),
            ItemPlace::Logged(pin) => {
                let reader =
                    EntryReader { journal: &*self.shared.journal, task: &self.task, number: self.number };
                reader.item(pin.lsn, &item.list, item.life, item.index)
            }
        }
    }
}

/// Where an item is. While it lives, the log is kept from there on: hold it as long as a read, not longer.
#[derive(Debug, Clone)]
pub struct ItemRef {
    pub(super) list: Name,
    pub(super) life: u64,
    pub(super) index: u64,
    pub(super) place: ItemPlace,
}

impl ItemRef {
    /// The item's index in its list.
    pub fn index(&self) -> u64 {
        self.index
    }
}

#[derive(Debug, Clone)]
pub(super) enum ItemPlace {
    Waiting(Arc<[u8]>),
    Logged(Arc<Pin>),
}

/// Positions of the log that somebody is about to read, and how many do.
#[derive(Debug, Default)]
pub(super) struct Pins {
    counts: Mutex<BTreeMap<Lsn, usize>>,
}

impl Pins {
    /// Keeps the log from `lsn` on until the pin is dropped.
    pub(super) fn pin(self: &Arc<Self>, lsn: Lsn) -> Pin {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(lsn).or_default() += 1;
        Pin { lsn, pins: Arc::clone(self) }
    }

    /// The oldest position that is kept.
    pub(super) fn oldest(&self) -> Option<Lsn> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).keys().next().copied()
    }
}

/// Keeps the log from a position on.
pub(super) struct Pin {
    lsn: Lsn,
    pins: Arc<Pins>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut counts = self.pins.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.lsn) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.lsn);
            }
        }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.lsn)
    }
}
