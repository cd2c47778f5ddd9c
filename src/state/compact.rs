//! Writing old entries again at the head of the log, so that its oldest segments can be given up.
//!
//! The same values and items, under the same names and absolute indices: whoever applies all entries in
//! order comes to the same state, with or without the rewritten ones (T1). The work is spread over
//! snapshots. A crash in between costs nothing: what was rewritten since the restored snapshot is void, and
//! the originals are still there, held by the retained checkpoints.
//!
//! Small items that were logged a few at a time come together in larger entries here: a list that only
//! grows, as a ledger does, costs memory by the chunk and not by the item.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::state::entry::Entry;
use crate::state::entry::Items;
use crate::state::handle::CHUNK_BYTES_MAX;
use crate::state::handle::FRAME_BYTES_MAX;
use crate::state::handle::LARGE_ITEM_BYTES_MIN;
use crate::state::handle::State;
use crate::state::index::Chunk;
use crate::state::index::Name;
use crate::state::index::Place;
use crate::state::index::Target;
use crate::state::index::Value;
use crate::state::journal::JournalError;
use crate::stream::Lsn;

/// An entry that takes the place of older ones.
struct Again {
    /// The older ones.
    old: Vec<Lsn>,
    /// What it is to the state.
    target: Target,
    /// Items in it, for a chunk.
    count: u64,
    bytes: Vec<u8>,
}

impl State {
    /// Rewrites some of the oldest entries, if the log is large and mostly dead.
    ///
    /// Over a whole cycle at most the live third is rewritten, after which the log must grow by as much as
    /// two more before the next one begins: a byte is rewritten half a time on average.
    pub(super) fn rewrite(&mut self) -> Result<()> {
        let Some(below) = self.shared.rewrite_below() else { return Ok(()) };
        let growth = self.shared.journal.end().0.saturating_sub(self.seen.0);
        let mut budget = growth.max(self.shared.settings.rewrite_bytes_min);
        while budget > 0 {
            let frame = self.oldest_again(below, budget.min(FRAME_BYTES_MAX as u64))?;
            if frame.is_empty() {
                break;
            }
            let entries: Vec<&[u8]> = frame.iter().map(|again| again.bytes.as_slice()).collect();
            let appended = match self.shared.append(&entries) {
                Ok(appended) => appended,
                // It can wait; the snapshot itself is already in the log.
                Err(JournalError::NoRoom { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            for (again, lsn) in frame.into_iter().zip(appended.lsns) {
                let bytes = again.bytes.len() as u64;
                self.rewritten_bytes += bytes;
                budget = budget.saturating_sub(bytes);
                self.moved(again, Place { lsn, bytes });
            }
        }
        Ok(())
    }

    /// The oldest entries below `below`, to be written again, of some `bytes` together.
    fn oldest_again(&self, below: Lsn, bytes: u64) -> Result<Vec<Again>> {
        let mut frame = Vec::new();
        let mut frame_bytes = 0;
        let mut taken = BTreeSet::<Lsn>::new();
        for (lsn, (_, target)) in self.index.live.range(..below) {
            if taken.contains(lsn) {
                continue;
            }
            let Some(again) =
                self.again(*lsn, target, |place| place.lsn < below && !taken.contains(&place.lsn))?
            else {
                continue;
            };
            taken.extend(&again.old);
            frame_bytes += again.bytes.len() as u64;
            frame.push(again);
            if frame_bytes >= bytes {
                break;
            }
        }
        Ok(frame)
    }

    /// The entry for `target`, which lies at `lsn`, for another place; chunks behind it join it if they
    /// `may`.
    fn again(&self, lsn: Lsn, target: &Target, may: impl Fn(&Place) -> bool) -> Result<Option<Again>> {
        let bytes = match target {
            Target::Value(key) => {
                let Some(value) = self.index.values.get(key) else { return Ok(None) };
                match value.inline() {
                    Some(value) => Entry::Put { key, value }.encode(self.number),
                    None => Entry::Put { key, value: &self.entries().value(lsn, key)? }.encode(self.number),
                }
            }
            Target::Chunk(list, first) => return self.chunk_again(list, *first, may),
            Target::Mark(list) => {
                let Some(found) = self.index.lists.get(list) else { return Ok(None) };
                Entry::Clear { list, life: found.life, first: found.first }.encode(self.number)
            }
        };
        Ok(Some(Again { old: vec![lsn], target: target.clone(), count: 0, bytes }))
    }

    /// The chunk of `list` that begins at `first`, without what was cleared, and with those behind it that
    /// `may` join, as long as they are small together.
    fn chunk_again(&self, list: &Name, first: u64, may: impl Fn(&Place) -> bool) -> Result<Option<Again>> {
        let Some(found) = self.index.lists.get(list) else { return Ok(None) };
        let begin = first.max(found.first);
        let mut next = begin;
        let mut sum = 0;
        let mut old = Vec::new();
        let mut items = Vec::new();
        for (at, chunk) in found.chunks.range(first..) {
            let Chunk::Logged(count, place) = chunk else { break };
            sum += place.bytes;
            // A large item stays alone: it is read alone, and often.
            let large = *count == 1 && place.bytes >= LARGE_ITEM_BYTES_MIN as u64;
            if !old.is_empty() && (large || sum > CHUNK_BYTES_MAX as u64 || !may(place)) {
                break;
            }
            let all = self.entries().chunk(place.lsn, list, found.life, *at, *count)?;
            let live = (*at..).zip(all).filter(|(index, _)| *index >= begin);
            items.extend(live.map(|(_, item)| item));
            old.push(place.lsn);
            next = at + count;
        }
        let mut buffer = Vec::new();
        let items = Items::several(items.iter().map(Vec::as_slice), &mut buffer);
        let count = items.count();
        if old.is_empty() || begin + count != next {
            return Ok(None);
        }
        let bytes = Entry::Push { list, life: found.life, first: begin, items }.encode(self.number);
        Ok(Some(Again { old, target: Target::Chunk(list.clone(), begin), count, bytes }))
    }

    /// Takes note that an entry lies at `place` from now on, instead of older ones.
    fn moved(&mut self, again: Again, place: Place) {
        match &again.target {
            Target::Value(key) => {
                if let Some(Value::Small(_, at) | Value::Large(at)) = self.index.values.get_mut(key) {
                    *at = place;
                }
            }
            Target::Chunk(list, _) => {
                let old = again.old.iter().filter_map(|old| match self.index.live.get(old) {
                    Some((_, Target::Chunk(_, first))) => Some(*first),
                    _ => None,
                });
                if let Some(list) = self.index.lists.get_mut(list) {
                    for first in old {
                        list.chunks.remove(&first);
                    }
                }
            }
            Target::Mark(list) => {
                if let Some(list) = self.index.lists.get_mut(list) {
                    list.mark = Some(place);
                }
            }
        }
        for old in again.old {
            if let Some((bytes, _)) = self.index.live.get(&old) {
                self.index.forget(Place { lsn: old, bytes: *bytes });
            }
        }
        if let Target::Chunk(list, first) = &again.target
            && let Some(list) = self.index.lists.get_mut(list)
        {
            list.chunks.insert(*first, Chunk::Logged(again.count, place));
        }
        self.index.keep(place, again.target);
    }
}
