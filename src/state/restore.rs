//! From entries of the log to the state at a snapshot.
//!
//! Pure: it is given entries in their order and says what the state is. Which entries count is the
//! caller's business (T1); one that cannot follow those before it is damage.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::error::Result;
use crate::state::Snapshot;
use crate::state::entry::Entry;
use crate::state::index::Chunk;
use crate::state::index::Index;
use crate::state::index::List;
use crate::state::index::Name;
use crate::state::index::Place;
use crate::state::index::Target;
use crate::state::index::Value;
use crate::state::index::shown;
use crate::stream::TaskId;

/// A state that is being put together.
#[derive(Debug, Default)]
pub(super) struct Restore {
    values: BTreeMap<Name, Value>,
    lists: BTreeMap<Name, Draft>,
    next_life: u64,
}

/// A list some of whose items may still come: old items that were written again come out of order.
#[derive(Debug)]
struct Draft {
    life: u64,
    first: u64,
    /// Count and place of each chunk by its first index; they do not overlap.
    chunks: BTreeMap<u64, (u64, Place)>,
    clear: Option<Place>,
}

impl Draft {
    /// Makes place for items from `first` to `next`, the last excluded, that were written again: older
    /// chunks with any of them must have no others that are still needed.
    fn replace(&mut self, first: u64, next: u64) -> bool {
        let before = self.chunks.range(..first).next_back().map(|(begin, _)| *begin);
        let overlapping: Vec<_> = self
            .chunks
            .range(before.unwrap_or(first)..next)
            .filter(|(begin, (count, _))| begin.saturating_add(*count) > first)
            .map(|(begin, (count, _))| (*begin, begin.saturating_add(*count)))
            .collect();
        for (begin, end) in overlapping {
            if begin.max(self.first) < first || end > next {
                return false;
            }
            self.chunks.remove(&begin);
        }
        true
    }
}

impl Restore {
    /// Applies the entry at `place`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when it cannot follow what was applied before.
    pub(super) fn apply(&mut self, place: Place, entry: Entry<'_>) -> Result<()> {
        match entry {
            Entry::Put { key, value } => {
                self.values.insert(Arc::from(key), Value::logged(value, place));
            }
            Entry::Remove { key } => {
                self.values.remove(key);
            }
            Entry::Push { list, life, first, items } => {
                let draft = self.draft(place, list, life)?;
                if first < draft.first {
                    return Err(out_of_order(place, list, "an item that was cleared before"));
                }
                let next = first.saturating_add(items.count());
                if !draft.replace(first, next) {
                    return Err(out_of_order(place, list, "part of what an older entry has"));
                }
                draft.chunks.insert(first, (items.count(), place));
            }
            Entry::Clear { list, life, first } => {
                let draft = self.draft(place, list, life)?;
                if first < draft.first {
                    return Err(out_of_order(place, list, "a clear below an earlier one"));
                }
                draft.first = first;
                draft.chunks.retain(|begin, (count, _)| begin.saturating_add(*count) > first);
                draft.clear = Some(place);
            }
            Entry::Drop { list, life } => {
                if self.lists.get(list).is_some_and(|draft| draft.life <= life) {
                    self.lists.remove(list);
                }
                self.next_life = self.next_life.max(life.saturating_add(1));
            }
        }
        Ok(())
    }

    /// The state, once all entries below the snapshot were applied.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when entries are missing (T2).
    pub(super) fn finish(self, task: &TaskId, snapshot: Snapshot) -> Result<Index> {
        let mut index = Index { next_life: self.next_life, ..Index::default() };
        for (key, value) in self.values {
            if let Some(place) = value.place() {
                index.keep(place, Target::Value(Arc::clone(&key)));
            }
            index.values.insert(key, value);
        }
        for (name, draft) in self.lists {
            // Without a clear above the floor, the list begins with the oldest item found. With one it
            // begins where that says, and a missing item shows as a gap.
            let oldest = draft.chunks.keys().next().copied();
            let first = if draft.clear.is_some() { draft.first } else { oldest.unwrap_or(0) };
            let mut list = List::new(draft.life, first);
            list.logged = true;
            for (begin, (count, place)) in draft.chunks {
                let follows = if list.is_empty() { begin <= first } else { begin == list.next };
                if !follows {
                    return Err(Error::damage(format!(
                        "{task}: item {} of list {} is missing in the log below {}",
                        list.next,
                        shown(&name),
                        snapshot.lsn
                    )));
                }
                index.keep(place, Target::Chunk(Arc::clone(&name), begin));
                list.next = begin.saturating_add(count);
                list.chunks.insert(begin, Chunk::Logged(count, place));
            }
            if list.is_empty()
                && let Some(place) = draft.clear
            {
                index.keep(place, Target::Mark(Arc::clone(&name)));
                list.mark = Some(place);
            }
            index.lists.insert(name, list);
        }
        let floor = index.floor().unwrap_or(snapshot.lsn);
        if floor != snapshot.floor {
            return Err(Error::damage(format!(
                "{task}: the oldest entry of its state should be at {}, the log has it at {floor}",
                snapshot.floor
            )));
        }
        Ok(index)
    }

    fn draft(&mut self, place: Place, list: &[u8], life: u64) -> Result<&mut Draft> {
        self.next_life = self.next_life.max(life.saturating_add(1));
        match self.lists.get(list) {
            Some(draft) if draft.life > life => {
                return Err(out_of_order(place, list, "an entry of a life that is over"));
            }
            Some(draft) if draft.life < life => {
                self.lists.remove(list);
            }
            _ => {}
        }
        let new = || Draft { life, first: 0, chunks: BTreeMap::new(), clear: None };
        Ok(self.lists.entry(Arc::from(list)).or_insert_with(new))
    }
}

fn out_of_order(place: Place, list: &[u8], what: &str) -> Error {
    Error::damage(format!("the log has at {}, for list {}, {what}", place.lsn, shown(list)))
}
