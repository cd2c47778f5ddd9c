//! What a task does with its state.
//!
//! Owns which changes wait in memory and which are in the log. Small changes wait for the snapshot, and
//! only the last change of a key is logged; large items go to the log at once, so that memory is bounded.
//!
//! What if the process dies? Before the append of a snapshot: the changes are gone, and so is everything
//! that happened since the last checkpoint. After it, before the completion record: the entries lie above
//! the restored snapshot and are void (P15). Nothing here is ever waited for: the completion record's sync
//! makes durable what its snapshots name, since it lies behind them in the same log.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::collections::btree_map::OccupiedEntry;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::state::Snapshot;
use crate::state::backend::Load;
use crate::state::backend::PlannedTask;
use crate::state::backend::RestorePlan;
use crate::state::backend::Shared;
use crate::state::backend::StateSettings;
use crate::state::backend::restore;
use crate::state::entry::Entry;
use crate::state::entry::Items;
use crate::state::index::Chunk;
use crate::state::index::EntryReader;
use crate::state::index::Index;
use crate::state::index::List;
use crate::state::index::Name;
use crate::state::index::Place;
use crate::state::index::Target;
use crate::state::index::Value;
use crate::state::index::Waiting;
use crate::state::index::nth;
use crate::state::journal::JournalError;
use crate::state::memory::MemoryJournal;
use crate::state::reader::ItemPlace;
use crate::state::reader::ItemRef;
use crate::state::reader::StateReader;
use crate::state::void::Voids;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// Items from this size on go to the log when they are pushed.
pub(super) const LARGE_ITEM_BYTES_MIN: usize = 4096;

/// Small items wait for the snapshot until they are this much together; then they go to the log too.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Small items share an entry up to this many bytes: what one of them costs to read.
pub(super) const CHUNK_BYTES_MAX: usize = 32 << 10;

/// A frame is closed once it has this many bytes. Several frames are as good as one: a snapshot covers
/// all of them or, after a crash, none.
pub(super) const FRAME_BYTES_MAX: usize = 1 << 20;

/// The state of one task: keys with values, and lists. One owner; all changes go through it.
///
/// Changes are part of the next [`Self::snapshot`], and survive a restart once the checkpoint that holds
/// it is complete.
///
/// ```
/// use alluvium::state::State;
/// use alluvium::stream::TaskId;
///
/// let mut state = State::in_memory(TaskId::new("source"));
/// state.put(b"position", b"7");
/// state.push(b"waiting", b"a row")?;
/// let snapshot = state.snapshot()?;
/// state.put(b"position", b"9");
///
/// let state = state.restarted_from(snapshot)?;
/// assert_eq!(state.get(b"position")?.as_deref(), Some(&b"7"[..]));
/// assert_eq!(state.item(b"waiting", 0)?, b"a row");
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct State {
    pub(super) shared: Arc<Shared>,
    task: TaskId,
    pub(super) number: u32,
    voids: Voids,
    pub(super) index: Index,
    /// Keys changed since the last snapshot, and whether the log has an older entry of them.
    changed: BTreeMap<Name, bool>,
    /// Lists changed since the last snapshot, and the first indices of their chunks that wait.
    changed_lists: BTreeMap<Name, VecDeque<u64>>,
    /// Lists dropped since the last snapshot that the log knows.
    dropped: VecDeque<(Name, u64)>,
    waiting_bytes: usize,
    /// End of the log at the last snapshot.
    pub(super) seen: Lsn,
    pub(super) appended_bytes: u64,
    pub(super) rewritten_bytes: u64,
}

/// A change that the log does not hold yet.
enum Change {
    Drop(Name, u64),
    Clear(Name),
    Push(Name, u64),
    Put(Name),
    Remove(Name),
}

impl State {
    pub(super) fn new(shared: Arc<Shared>, planned: PlannedTask, index: Index) -> Self {
        let seen = shared.journal.end();
        Self {
            shared,
            task: planned.task,
            number: planned.number,
            voids: planned.voids,
            index,
            changed: BTreeMap::new(),
            changed_lists: BTreeMap::new(),
            dropped: VecDeque::new(),
            waiting_bytes: 0,
            seen,
            appended_bytes: 0,
            rewritten_bytes: 0,
        }
    }

    /// An empty state on a log of its own in memory, for tests and examples.
    pub fn in_memory(task: TaskId) -> Self {
        let journal = Arc::new(MemoryJournal::new());
        let shared = Arc::new(Shared::new(journal, StateSettings::default()));
        let planned = PlannedTask { task, number: 0, snapshot: None, voids: Voids::default() };
        Self::new(shared, planned, Index::default())
    }

    /// The state as a restart from `snapshot` finds it: what this handle did since is void. For tests
    /// and examples; a job restarts all its tasks together, by its checkpoint store.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the log does not hold that snapshot in full.
    pub fn restarted_from(self, snapshot: Snapshot) -> Result<Self> {
        let mut voids = self.voids;
        voids.insert(snapshot.lsn, self.shared.journal.end());
        let planned =
            PlannedTask { task: self.task.clone(), number: self.number, snapshot: Some(snapshot), voids };
        let mut restored = restore(&*self.shared.journal, RestorePlan { tasks: vec![planned.clone()] })?;
        let (planned, index) = restored.remove(&self.task).unwrap_or((planned, Index::default()));
        Ok(Self::new(self.shared, planned, index))
    }

    /// The task.
    pub fn task(&self) -> &TaskId {
        &self.task
    }

    /// The value of `key`. One of up to 1 KiB comes from memory, a larger one from the log.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when the log does not verify there.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.index.get(&self.entries(), key)
    }

    /// Gives `key` the value; it stays in memory until the snapshot. The value it already has costs
    /// nothing.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let name = match self.index.values.get_key_value(key) {
            Some((_, old)) if old.inline().is_some_and(|same| **same == *value) => return,
            Some((name, _)) => Arc::clone(name),
            None => Name::from(key),
        };
        let old = self.index.values.insert(Arc::clone(&name), Value::Waiting(Arc::from(value)));
        self.change(name, old);
    }

    /// Takes the value of `key` away.
    pub fn remove(&mut self, key: &[u8]) {
        let Some((name, old)) = self.index.values.remove_entry(key) else { return };
        self.change(Arc::clone(&name), Some(old));
        if self.changed.get(&name) == Some(&false) {
            // The log never heard of the key.
            self.changed.remove(&name);
        }
    }

    /// The keys that begin with `prefix`, sorted.
    pub fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.index.keys(prefix)
    }

    /// The names of the lists that begin with `prefix`, sorted; empty lists that live are among them.
    pub fn lists(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.index.list_names(prefix)
    }

    /// Adds `item` at the end of `list`, which it makes if there is none, and returns the item's index.
    ///
    /// Indices begin at 0 and are never used again while the list lives (T3). An item of 4 KiB or more
    /// is in the log, not in memory, when this returns.
    ///
    /// # Errors
    ///
    /// Those of an append; the list is unchanged then. See [`crate::state::is_out_of_room`].
    pub fn push(&mut self, list: &[u8], item: &[u8]) -> Result<u64> {
        let large = item.len() >= LARGE_ITEM_BYTES_MIN;
        if !large && self.waiting_bytes + item.len() > WAITING_BYTES_MAX {
            self.log_waiting_items()?;
        }
        let name = match self.index.lists.get_key_value(list) {
            Some((name, _)) => Arc::clone(name),
            None => Name::from(list),
        };
        let (life, index) = match self.index.lists.get(list) {
            Some(found) => (found.life, found.next),
            None => (self.index.next_life, 0),
        };
        let mut logged = None;
        if large {
            let entry = Entry::Push { list, life, first: index, items: Items::one(item) }.encode(self.number);
            let lsn = self.shared.append(&[&entry])?.lsns.first().copied();
            logged = lsn.map(|lsn| Place { lsn, bytes: entry.len() as u64 });
            self.appended_bytes += entry.len() as u64;
        }
        self.index.next_life = self.index.next_life.max(life.saturating_add(1));
        let found = self.index.lists.entry(Arc::clone(&name)).or_insert_with(|| List::new(life, 0));
        found.next = index + 1;
        let waiting = self.changed_lists.entry(Arc::clone(&name)).or_default();
        match logged {
            Some(place) => self.chunk_is_logged(&name, index, 1, place),
            None => {
                match found.chunks.last_entry().map(OccupiedEntry::into_mut) {
                    Some(Chunk::Waiting(last)) if last.bytes + item.len() <= CHUNK_BYTES_MAX => {
                        last.push(item)
                    }
                    _ => {
                        let mut chunk = Waiting::default();
                        chunk.push(item);
                        found.chunks.insert(index, Chunk::Waiting(chunk));
                        waiting.push_back(index);
                    }
                }
                self.waiting_bytes += item.len();
            }
        }
        Ok(index)
    }

    /// The indices of the items of `list`; empty when there is no such list.
    pub fn list(&self, list: &[u8]) -> Range<u64> {
        self.index.range(list)
    }

    /// The item of `list` at `index`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] when there is no such item, [`crate::ErrorKind::Damage`] when the log
    /// does not verify there.
    pub fn item(&self, list: &[u8], index: u64) -> Result<Vec<u8>> {
        self.index.item(&self.entries(), list, index)
    }

    /// The items of `list` from `from` on, with their indices, in order: cheaper than one by one, since small
    /// items share entries of the log. An error stands for all items of an entry that does not verify.
    pub fn items<'s>(
        &'s self,
        list: &[u8],
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>)>> + use<'s> {
        self.index.items(self.entries(), list, from)
    }

    /// Removes the items of `list` below `index`, which is absolute (P15). At most all that there are.
    pub fn clear_before(&mut self, list: &[u8], index: u64) {
        let Some((name, _)) = self.index.lists.get_key_value(list) else { return };
        let name = Arc::clone(name);
        let Some(found) = self.index.lists.get_mut(&name) else { return };
        let index = index.min(found.next);
        if index <= found.first {
            return;
        }
        found.first = index;
        found.cleared |= found.logged;
        let waiting = self.changed_lists.entry(Arc::clone(&name)).or_default();
        waiting.retain(|first| *first >= index);
        let kept = found.chunks.split_off(&index);
        let mut gone = std::mem::replace(&mut found.chunks, kept);
        // The last of them may have items on both sides.
        if let Some((first, mut chunk)) = gone.pop_last() {
            if first + chunk.count() <= index {
                gone.insert(first, chunk);
            } else if let Chunk::Waiting(Waiting { items, bytes }) = &mut chunk {
                let below = usize::try_from(index - first).unwrap_or(usize::MAX).min(items.len());
                let less: usize = items.drain(..below).map(|item| item.len()).sum();
                *bytes -= less;
                self.waiting_bytes -= less;
                waiting.push_front(index);
                found.chunks.insert(index, chunk);
            } else {
                found.chunks.insert(first, chunk);
            }
        }
        self.forget_chunks(gone);
    }

    /// Ends the life of `list`; pushing to it again begins a new one, at index 0.
    pub fn drop_list(&mut self, list: &[u8]) {
        let Some((name, found)) = self.index.lists.remove_entry(list) else { return };
        self.changed_lists.remove(&name);
        if let Some(place) = found.mark {
            self.index.forget(place);
        }
        if found.logged {
            self.dropped.push_back((name, found.life));
        }
        self.forget_chunks(found.chunks);
    }

    /// Where item `index` of `list` is, to be read elsewhere by a [`StateReader`]; `None` when there is
    /// no such item.
    pub fn locate(&self, list: &[u8], index: u64) -> Option<ItemRef> {
        let (name, found) = self.index.lists.get_key_value(list)?;
        let place = match found.chunk(index)? {
            (first, Chunk::Waiting(waiting)) => {
                ItemPlace::Waiting(Arc::clone(nth(&waiting.items, index - first)?))
            }
            (_, Chunk::Logged(_, place)) => ItemPlace::Logged(Arc::new(self.shared.pins.pin(place.lsn))),
        };
        Some(ItemRef { list: Arc::clone(name), life: found.life, index, place })
    }

    /// Reads items on other threads.
    pub fn reader(&self) -> StateReader {
        StateReader { shared: Arc::clone(&self.shared), task: self.task.clone(), number: self.number }
    }

    /// Appends all changes since the last snapshot, and says what of the log is the state now (P14).
    ///
    /// With no changes nothing is appended (T5). A log that is large and mostly dead makes it rewrite
    /// some of the oldest entries as well: as many bytes as the log grew by since the last snapshot, or
    /// [`StateSettings::rewrite_bytes_min`].
    ///
    /// # Errors
    ///
    /// Those of an append. When [`crate::state::is_out_of_room`] says so nothing is lost: the next
    /// snapshot holds the changes of this one too (T4).
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let changes = self.changes();
        self.log(changes)?;
        self.rewrite()?;
        self.shared.set_load(self.number, Load::of(&self.index));
        let lsn = self.shared.journal.end();
        self.seen = lsn;
        Ok(Snapshot { lsn, floor: self.index.floor().unwrap_or(lsn) })
    }

    /// Whether a snapshot would have something to append.
    pub fn has_changes(&self) -> bool {
        !(self.changed.is_empty() && self.changed_lists.is_empty() && self.dropped.is_empty())
    }

    /// How much there is.
    pub fn stats(&self) -> StateStats {
        StateStats {
            keys: self.index.values.len() as u64,
            lists: self.index.lists.len() as u64,
            items: self.index.lists.values().map(|list| list.next - list.first).sum(),
            live_bytes: self.index.live_bytes,
            waiting_bytes: self.waiting_bytes as u64,
            appended_bytes: self.appended_bytes,
            rewritten_bytes: self.rewritten_bytes,
        }
    }

    pub(super) fn entries(&self) -> EntryReader<'_> {
        EntryReader { journal: &*self.shared.journal, task: &self.task, number: self.number }
    }

    /// Takes note that the value of `name`, so far `old`, has changed.
    fn change(&mut self, name: Name, old: Option<Value>) {
        let place = old.and_then(|old| old.place());
        *self.changed.entry(name).or_default() |= place.is_some();
        if let Some(place) = place {
            self.index.forget(place);
        }
    }

    fn forget_chunks(&mut self, chunks: BTreeMap<u64, Chunk>) {
        for chunk in chunks.into_values() {
            match chunk {
                Chunk::Waiting(waiting) => self.waiting_bytes -= waiting.bytes,
                Chunk::Logged(_, place) => self.index.forget(place),
            }
        }
    }

    /// Everything that the log does not say yet, drops and clears first.
    fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> =
            self.dropped.iter().map(|(name, life)| Change::Drop(Arc::clone(name), *life)).collect();
        for (name, waiting) in &self.changed_lists {
            if self.index.lists.get(name).is_some_and(List::needs_clear) {
                changes.push(Change::Clear(Arc::clone(name)));
            }
            changes.extend(waiting.iter().map(|first| Change::Push(Arc::clone(name), *first)));
        }
        changes.extend(self.changed.keys().map(|name| match self.index.values.contains_key(name) {
            true => Change::Put(Arc::clone(name)),
            false => Change::Remove(Arc::clone(name)),
        }));
        changes
    }

    /// Appends the items that wait, so that memory is bounded; the rest waits for the snapshot.
    fn log_waiting_items(&mut self) -> Result<(), JournalError> {
        let mut items = Vec::new();
        for (name, waiting) in &self.changed_lists {
            items.extend(waiting.iter().map(|first| Change::Push(Arc::clone(name), *first)));
        }
        self.append(items)
    }

    /// Appends `changes` and takes note of them, frame by frame.
    fn append(&mut self, changes: Vec<Change>) -> Result<(), JournalError> {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut frame = Vec::new();
            let mut frame_bytes = 0;
            while frame_bytes < FRAME_BYTES_MAX
                && let Some(change) = changes.next()
            {
                let entry = self.entry(&change);
                frame_bytes += entry.len();
                frame.push((change, entry));
            }
            let entries: Vec<&[u8]> = frame.iter().map(|(_, entry)| entry.as_slice()).collect();
            let appended = self.shared.append(&entries)?;
            for ((change, entry), lsn) in frame.into_iter().zip(appended.lsns) {
                self.note(change, Place { lsn, bytes: entry.len() as u64 });
            }
        }
        Ok(())
    }

    /// As [`Self::append`], and forgets that the lists had changes.
    fn log(&mut self, changes: Vec<Change>) -> Result<(), JournalError> {
        self.append(changes)?;
        self.changed_lists.clear();
        Ok(())
    }

    fn entry(&self, change: &Change) -> Vec<u8> {
        let life = |list: &Name| self.index.lists.get(list).map_or(0, |list| list.life);
        let mut buffer = Vec::new();
        let entry = match change {
            Change::Drop(list, life) => Entry::Drop { list, life: *life },
            Change::Clear(list) => {
                let first = self.index.range(list).start;
                Entry::Clear { list, life: life(list), first }
            }
            Change::Push(list, first) => {
                let chunk = self.index.lists.get(list).and_then(|list| list.chunks.get(first));
                let waiting = match chunk {
                    Some(Chunk::Waiting(waiting)) => Some(waiting.items.iter().map(|item| &**item)),
                    _ => None,
                };
                let items = Items::several(waiting.into_iter().flatten(), &mut buffer);
                Entry::Push { list, life: life(list), first: *first, items }
            }
            Change::Put(key) => {
                let value = self.index.values.get(key).and_then(Value::inline);
                Entry::Put { key, value: value.map(|bytes| &**bytes).unwrap_or_default() }
            }
            Change::Remove(key) => Entry::Remove { key },
        };
        entry.encode(self.number)
    }

    /// Takes note that the log holds `change` at `place`.
    fn note(&mut self, change: Change, place: Place) {
        self.appended_bytes += place.bytes;
        match change {
            Change::Drop(..) => {
                self.dropped.pop_front();
            }
            Change::Clear(name) => {
                let Some(list) = self.index.lists.get_mut(&name) else { return };
                list.cleared = false;
                list.logged = true;
                let empty = list.is_empty();
                let old = std::mem::replace(&mut list.mark, empty.then_some(place));
                if let Some(old) = old {
                    self.index.forget(old);
                }
                if empty {
                    self.index.keep(place, Target::Mark(name));
                }
            }
            Change::Push(name, first) => {
                if let Some(waiting) = self.changed_lists.get_mut(&name) {
                    waiting.pop_front();
                }
                let chunk = self.index.lists.get(&name).and_then(|list| list.chunks.get(&first));
                let count = chunk.map_or(0, Chunk::count);
                self.chunk_is_logged(&name, first, count, place);
            }
            Change::Put(name) => {
                self.changed.remove(&name);
                if let Some(value) = self.index.values.get_mut(&name) {
                    if let Value::Waiting(bytes) = value {
                        *value = Value::logged(bytes, place);
                    }
                    self.index.keep(place, Target::Value(name));
                }
            }
            Change::Remove(name) => {
                self.changed.remove(&name);
            }
        }
    }

    /// Takes note that `count` items of list `name` from `first` on are in the log.
    fn chunk_is_logged(&mut self, name: &Name, first: u64, count: u64, place: Place) {
        let Some(list) = self.index.lists.get_mut(name) else { return };
        list.logged = true;
        let mark = list.mark.take();
        if let Some(Chunk::Waiting(waiting)) = list.chunks.insert(first, Chunk::Logged(count, place)) {
            self.waiting_bytes -= waiting.bytes;
        }
        if let Some(mark) = mark {
            // The items say where the list goes on; the clear that did is no longer needed.
            self.index.forget(mark);
        }
        self.index.keep(place, Target::Chunk(Arc::clone(name), first));
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("task", &self.task)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// How much a state holds, and has cost since it was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateStats {
    /// Keys that have a value.
    pub keys: u64,
    /// Lists that live.
    pub lists: u64,
    /// Items of all lists.
    pub items: u64,
    /// Bytes of the log that the state needs.
    pub live_bytes: u64,
    /// Bytes of items in memory that wait for the snapshot.
    pub waiting_bytes: u64,
    /// Bytes of entries appended for changes.
    pub appended_bytes: u64,
    /// Bytes of old entries that were written again.
    pub rewritten_bytes: u64,
}
