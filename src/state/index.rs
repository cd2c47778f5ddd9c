//! What a task's state holds in memory: its keys, its lists, and where in the log each part of them lies.
//!
//! Owns the meaning of each change. Does not own when changes are logged (`handle`), which old entries
//! are rewritten (`compact`), nor the way back from the log (`restore`).
//!
//! # Invariants
//!
//! - The items of a list are those of the indices from `first` on, without a gap, up to `next`. Small
//!   ones share entries (a *chunk*), so that a long list costs little memory; a chunk is needed as long as
//!   one of its items is.
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
use crate::state::entry::Items;
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

/// Items of a list that follow each other and are, or will be, in one entry.
#[derive(Debug, Clone)]
pub(super) enum Chunk {
    /// Not yet in the log.
    Waiting(Waiting),
    /// So many, in the log.
    Logged(u64, Place),
}

/// Items that wait for the next snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    /// The items.
    pub items: VecDeque<Arc<[u8]>>,
    /// Their bytes.
    pub bytes: usize,
}

impl Waiting {
    /// Adds `item` at the end.
    pub(super) fn push(&mut self, item: &[u8]) {
        self.bytes += item.len();
        self.items.push_back(Arc::from(item));
    }
}

impl Chunk {
    /// How many items it has.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Waiting(waiting) => waiting.items.len() as u64,
            Self::Logged(count, _) => *count,
        }
    }
}

/// An append-only list.
#[derive(Debug, Clone)]
pub(super) struct List {
    /// Tells this list from former ones of its name.
    pub life: u64,
    /// Index of the first item; the oldest chunk may begin earlier.
    pub first: u64,
    /// Index of the next item.
    pub next: u64,
    /// The items, by the index of the first of each chunk.
    pub chunks: BTreeMap<u64, Chunk>,
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
        Self { life, first, next: first, chunks: BTreeMap::new(), mark: None, cleared: false, logged: false }
    }

    /// Whether it has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// The chunk with the item of `index`, and the chunk's first index.
    pub(super) fn chunk(&self, index: u64) -> Option<(u64, &Chunk)> {
        if !(self.first..self.next).contains(&index) {
            return None;
        }
        self.chunks.range(..=index).next_back().map(|(first, chunk)| (*first, chunk))
    }

    /// Whether the next snapshot must log where the list begins.
    pub(super) fn needs_clear(&self) -> bool {
        self.cleared || (self.is_empty() && self.mark.is_none())
    }
}

/// What an entry of the log is to the state that needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The value of a key.
    Value(Name),
    /// The chunk of a list that begins at this index.
    Chunk(Name, u64),
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
        self.lists.get(list).map_or(0..0, |list| list.first..list.next)
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
    pub(super) fn get(&self, reader: &EntryReader<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Waiting(bytes) | Value::Small(bytes, _)) => Ok(Some(bytes.to_vec())),
            Some(Value::Large(place)) => reader.value(place.lsn, key).map(Some),
        }
    }

    /// The item of `list` at `index`.
    pub(super) fn item(&self, reader: &EntryReader<'_>, list: &[u8], index: u64) -> Result<Vec<u8>> {
        let found = self.lists.get(list).and_then(|found| Some((found.life, found.chunk(index)?)));
        match found {
            Some((_, (first, Chunk::Waiting(waiting)))) => match nth(&waiting.items, index - first) {
                Some(bytes) => Ok(bytes.to_vec()),
                None => Err(self.no_such_item(reader.task, list, index)),
            },
            Some((life, (_, Chunk::Logged(_, place)))) => reader.item(place.lsn, list, life, index),
            None => Err(self.no_such_item(reader.task, list, index)),
        }
    }

    /// The items of `list` from `least` on with their indices; each entry of the log is read once.
    pub(super) fn items<'s>(
        &'s self,
        reader: EntryReader<'s>,
        list: &[u8],
        least: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>)>> + use<'s> {
        let found = self.lists.get_key_value(list);
        let chunks = found.into_iter().flat_map(move |(name, found)| {
            let least = least.clamp(found.first, found.next);
            let begin = found.chunk(least).map_or(least, |(first, _)| first);
            found.chunks.range(begin..).map(move |(first, chunk)| (name, found.life, least, *first, chunk))
        });
        chunks.flat_map(move |(name, life, least, first, chunk)| {
            let all = match chunk {
                Chunk::Waiting(waiting) => Ok(waiting.items.iter().map(|item| item.to_vec()).collect()),
                Chunk::Logged(count, place) => reader.chunk(place.lsn, name, life, first, *count),
            };
            let (items, failed) = match all {
                Ok(items) => (items, None),
                Err(error) => (Vec::new(), Some(Err(error))),
            };
            let numbered = (first..).zip(items).filter(move |(index, _)| *index >= least);
            numbered.map(Ok).chain(failed)
        })
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
pub(super) struct EntryReader<'a> {
    /// The log.
    pub journal: &'a dyn JournalReader,
    /// The task.
    pub task: &'a TaskId,
    /// Its number in entries.
    pub number: u32,
}

impl EntryReader<'_> {
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

    /// Reads item `index` of `list` out of the entry at `at`, and makes sure that it is the one.
    pub(super) fn item(&self, at: Lsn, list: &[u8], life: u64, index: u64) -> Result<Vec<u8>> {
        let mut bytes = self.journal.read(at)?;
        let items = match self.push(&bytes, list, life)? {
            Some((first, items)) if (first..first + items.count()).contains(&index) => Some((first, items)),
            _ => None,
        };
        let wanted = || self.other(at, format_args!("item {index} of list {}", shown(list)));
        let Some((first, items)) = items else { return Err(wanted()) };
        let item = nth(items.iter(), index - first).ok_or_else(wanted)?;
        if items.count() > 1 {
            return Ok(item.to_vec());
        }
        // A large item is the end of its entry: it is moved, not copied again.
        let len = item.len();
        bytes.drain(..bytes.len() - len);
        Ok(bytes)
    }

    /// Reads the `count` items of `list` from `first` on, which are the entry at `at`.
    pub(super) fn chunk(
        &self,
        at: Lsn,
        list: &[u8],
        life: u64,
        first: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>> {
        let bytes = self.journal.read(at)?;
        match self.push(&bytes, list, life)? {
            Some((found, items)) if (found, items.count()) == (first, count) => {
                Ok(items.iter().map(<[u8]>::to_vec).collect())
            }
            _ => Err(self.other(at, format_args!("{count} items from {first} on of list {}", shown(list)))),
        }
    }

    /// First index and items of an entry, if they are of `list` in its `life`.
    fn push<'b>(&self, bytes: &'b [u8], list: &[u8], life: u64) -> Result<Option<(u64, Items<'b>)>> {
        Ok(match Entry::decode(bytes)? {
            Found::State(number, Entry::Push { list: name, life: of, first, items })
                if number == self.number && name == list && of == life =>
            {
                Some((first, items))
            }
            _ => None,
        })
    }

    fn other(&self, at: Lsn, wanted: std::fmt::Arguments<'_>) -> Error {
        Error::damage(format!("{}: the log should have {wanted} at {at}, it has something else", self.task))
    }
}

/// The item at `at` of a sequence.
pub(super) fn nth<I: IntoIterator>(items: I, at: u64) -> Option<I::Item> {
    items.into_iter().nth(usize::try_from(at).ok()?)
}

/// A name as people read it.
pub(super) fn shown(name: &[u8]) -> String {
    format!("`{}`", name.escape_ascii())
}
