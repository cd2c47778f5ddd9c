//! What a task's state holds in memory: its keys, its lists, and where in the log each part of them lies.
//!
//! Owns the meaning of each change. Does not own when changes are logged (`handle`), which old entries
//! are rewritten (`compact`), nor the way back from the log (`restore`).
//!
//! # Invariants
//!
//! - The items of a list are those of the indices from `first` on, without a gap, up to `next`.
//! - An empty list needs its last clear: it alone says where the list goes on (T3).
//! - `live` holds each entry of the log that the state needs, once, under its position (T2).

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::ops::Bound;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::error::Result;
use crate::state::entry::Entry;
use crate::state::entry::Found;
use crate::state::journal::JournalReader;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// The name of a key or a list.
pub(super) type Name = Arc<[u8]>;

/// Values up to this stay in memory beside their keys: positions, settings, the metadata of a row group.
pub(super) const INLINE_BYTES_MAX: usize = 1024;

/// An entry in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it begins.
    pub lsn: Lsn,
    /// Bytes of the whole entry.
    pub bytes: u64,
}

/// The value of a key.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Not yet in the log.
    Waiting(Arc<[u8]>),
    /// In memory and in the log.
    Small(Arc<[u8]>, Place),
    /// In the log only.
    Large(Place),
}

impl Value {
    /// The value `bytes`, whose entry is at `place`.
    pub(super) fn logged(bytes: &[u8], place: Place) -> Self {
        match bytes.len() <= INLINE_BYTES_MAX {
            true => Self::Small(Arc::from(bytes), place),
            false => Self::Large(place),
        }
    }

    /// The value, if it is in memory.
    pub(super) fn inline(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Waiting(bytes) | Self::Small(bytes, _) => Some(bytes),
            Self::Large(_) => None,
        }
    }

    /// Its entry in the log, if it has one.
    pub(super) fn place(&self) -> Option<Place> {
        match self {
            Self::Waiting(_) => None,
            Self::Small(_, place) | Self::Large(place) => Some(*place),
        }
    }
}

/// An item of a list.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// Not yet in the log.
    Waiting(Arc<[u8]>),
    /// In the log.
    Logged(Place),
}

/// An append-only list.
#[derive(Debug, Clone)]
pub(super) struct List {
    /// Tells this list from former ones of its name.
    pub life: u64,
    /// Index of the first item.
    pub first: u64,
    /// The items from `first` on.
    pub items: VecDeque<Item>,
    /// The logged clear that an empty list needs.
    pub mark: Option<Place>,
    /// The log has older entries of this life and does not say yet that the list begins later.
    pub cleared: bool,
    /// The log has some entry of this life.
    pub logged: bool,
}

impl List {
    /// An empty list that goes on at `first`.
    pub(super) fn new(life: u64, first: u64) -> Self {
        Self { life, first, items: VecDeque::new(), mark: None, cleared: false, logged: false }
    }

    /// The index of the next item.
    pub(super) fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// The item of `index`.
    pub(super) fn item(&self, index: u64) -> Option<&Item> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.items.get(at)
    }

    /// The same, to be changed.
    pub(super) fn item_mut(&mut self, index: u64) -> Option<&mut Item> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.items.get_mut(at)
    }

    /// Whether the next snapshot must log where the list begins.
    pub(super) fn needs_clear(&self) -> bool {
        self.cleared || (self.items.is_empty() && self.mark.is_none())
    }
}

/// What an entry of the log is to the state that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The value of a key.
    Value(Name),
    /// An item of a list.
    Item(Name, u64),
    /// The clear of an empty list.
    Mark(Name),
}

/// The state of one task.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Keys and their values.
    pub values: BTreeMap<Name, Value>,
    /// Lists by name.
    pub lists: BTreeMap<Name, List>,
    /// The entries that are needed, by their position.
    pub live: BTreeMap<Lsn, (u64, Target)>,
    /// Their bytes.
    pub live_bytes: u64,
    /// The life of the next list.
    pub next_life: u64,
}

impl Index {
    /// From now on the entry at `place` is needed.
    pub(super) fn keep(&mut self, place: Place, target: Target) {
        self.live.insert(place.lsn, (place.bytes, target));
        self.live_bytes += place.bytes;
    }

    /// The entry at `place` is no longer needed.
    pub(super) fn forget(&mut self, place: Place) {
        if self.live.remove(&place.lsn).is_some() {
            self.live_bytes -= place.bytes;
        }
    }

    /// The oldest entry that is needed (T2).
    pub(super) fn floor(&self) -> Option<Lsn> {
        self.live.keys().next().copied()
    }

    /// Indices of the items of `list`; empty when there is no such list.
    pub(super) fn range(&self, list: &[u8]) -> Range<u64> {
        self.lists.get(list).map_or(0..0, |list| list.first..list.next())
    }

    /// The keys that begin with `prefix`, sorted.
    pub(super) fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.values
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix))
            .map(|key| key.to_vec())
            .collect()
    }

    /// The names of the lists that begin with `prefix`, sorted.
    pub(super) fn list_names(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let names =
            self.lists.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded)).map(|(name, _)| name);
        names.take_while(|name| name.starts_with(prefix)).map(|name| name.to_vec()).collect()
    }

    /// The value of `key`.
    pub(super) fn get(&self, from: &From<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Waiting(bytes) | Value::Small(bytes, _)) => Ok(Some(bytes.to_vec())),
            Some(Value::Large(place)) => from.value(place.lsn, key).map(Some),
        }
    }

    /// The item of `list` at `index`.
    pub(super) fn item(&self, from: &From<'_>, list: &[u8], index: u64) -> Result<Vec<u8>> {
        let found = self.lists.get(list).and_then(|found| Some((found.life, found.item(index)?)));
        match found {
            Some((_, Item::Waiting(bytes))) => Ok(bytes.to_vec()),
            Some((life, Item::Logged(place))) => from.item(place.lsn, list, life, index),
            None => Err(self.no_such_item(from.task, list, index)),
        }
    }

    /// The error for an item that is not there.
    pub(super) fn no_such_item(&self, task: &TaskId, list: &[u8], index: u64) -> Error {
        let Range { start, end } = self.range(list);
        Error::fatal(format!(
            "{task}: list {} has no item {index}, its items are {start} to {end}, the last excluded",
            shown(list)
        ))
    }
}

/// Where entries of one task are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct From<'a> {
    /// The log.
    pub journal: &'a dyn JournalReader,
    /// The task.
    pub task: &'a TaskId,
    /// Its number in entries.
    pub number: u32,
}

impl From<'_> {
    /// Reads the value of `key` at `at`, and makes sure that it is the one.
    pub(super) fn value(&self, at: Lsn, key: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = self.journal.read(at)?;
        let len = match Entry::decode(&bytes)? {
            Found::State(number, Entry::Put { key: found, value })
                if number == self.number && found == key =>
            {
                value.len()
            }
            _ => return Err(self.other(at, format_args!("the value of key {}", shown(key)))),
        };
        // The value is the end of its entry: it is moved, not copied again.
        bytes.drain(..bytes.len() - len);
        Ok(bytes)
    }

    /// Reads item `index` of `list` at `at`, and makes sure that it is the one.
    pub(super) fn item(&self, at: Lsn, list: &[u8], life: u64, index: u64) -> Result<Vec<u8>> {
        let mut bytes = self.journal.read(at)?;
        let len = match Entry::decode(&bytes)? {
            Found::State(number, Entry::Push { list: name, life: of, index: at_index, item })
                if number == self.number && name == list && of == life && at_index == index =>
            {
                item.len()
            }
            _ => return Err(self.other(at, format_args!("item {index} of list {}", shown(list)))),
        };
        bytes.drain(..bytes.len() - len);
        Ok(bytes)
    }

    fn other(&self, at: Lsn, wanted: std::fmt::Arguments<'_>) -> Error {
        Error::damage(format!("{}: the log should have {wanted} at {at}, it has something else", self.task))
    }
}

/// A name as people read it.
pub(super) fn shown(name: &[u8]) -> String {
    format!("`{}`", name.escape_ascii())
}
