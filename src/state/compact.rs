//! Writing old entries again at the head of the log, so that its oldest segments can be given up.
//!
//! The same values and items, under the same names and absolute indices: whoever applies all entries in
//! order comes to the same state, with or without the rewritten ones (T1). The work is spread over
//! snapshots. A crash in between costs nothing: what was rewritten since the restored snapshot is void, and
//! the originals are still there, held by the retained checkpoints.

use crate::error::Result;
use crate::state::entry::Entry;
use crate::state::handle::FRAME_BYTES_MAX;
use crate::state::handle::State;
use crate::state::index::Item;
use crate::state::index::Place;
use crate::state::index::Target;
use crate::state::index::Value;
use crate::state::journal::JournalError;
use crate::stream::Lsn;

/// Rewritten per snapshot at least, while it is due: a task that logs little must not hold back the log of
/// all others for long.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

impl State {
    /// Rewrites some of the oldest entries, if the log is large and mostly dead.
    ///
    /// Over a whole cycle at most the live third is rewritten, after which the log must grow by as much as
    /// two more before the next one begins: a byte is rewritten half a time on average.
    pub(super) fn rewrite(&mut self) -> Result<()> {
        let Some(below) = self.shared.rewrite_below() else { return Ok(()) };
        let growth = self.shared.journal.end().0.saturating_sub(self.seen.0);
        let mut budget = growth.max(REWRITE_BYTES_MIN);
        while budget > 0 {
            let mut frame = Vec::new();
            let mut frame_bytes = 0;
            let oldest = self.index.live.range(..below).map(|(lsn, (_, target))| (*lsn, target));
            for (lsn, target) in oldest {
                let Some(entry) = self.entry_again(lsn, target)? else { continue };
                frame_bytes += entry.len() as u64;
                frame.push((lsn, target.clone(), entry));
                if frame_bytes >= budget.min(FRAME_BYTES_MAX as u64) {
                    break;
                }
            }
            if frame.is_empty() {
                break;
            }
            let entries: Vec<&[u8]> = frame.iter().map(|(.., entry)| entry.as_slice()).collect();
            let appended = match self.shared.append(&entries) {
                Ok(appended) => appended,
                // It can wait; the snapshot itself is already in the log.
                Err(JournalError::NoRoom { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            for ((old, target, entry), lsn) in frame.into_iter().zip(appended.lsns) {
                self.moved(old, target, Place { lsn, bytes: entry.len() as u64 });
            }
            self.rewritten_bytes += frame_bytes;
            budget = budget.saturating_sub(frame_bytes);
        }
        Ok(())
    }

    /// The bytes of the entry for `target`, which lies at `lsn`, for another place.
    fn entry_again(&self, lsn: Lsn, target: &Target) -> Result<Option<Vec<u8>>> {
        let lists = &self.index.lists;
        let encoded = match target {
            Target::Value(key) => {
                let Some(value) = self.index.values.get(key) else { return Ok(None) };
                match value.inline() {
                    Some(value) => Entry::Put { key, value }.encode(self.number),
                    None => Entry::Put { key, value: &self.from().value(lsn, key)? }.encode(self.number),
                }
            }
            Target::Item(list, index) => {
                let Some(life) = lists.get(list).map(|list| list.life) else { return Ok(None) };
                let item = self.from().item(lsn, list, life, *index)?;
                Entry::Push { list, life, index: *index, item: &item }.encode(self.number)
            }
            Target::Mark(list) => {
                let Some(found) = lists.get(list) else { return Ok(None) };
                Entry::Clear { list, life: found.life, first: found.first }.encode(self.number)
            }
        };
        Ok(Some(encoded))
    }

    /// Takes note that the entry of `target` lies at `place` from now on.
    fn moved(&mut self, old: Lsn, target: Target, place: Place) {
        match &target {
            Target::Value(key) => {
                if let Some(value) = self.index.values.get_mut(key) {
                    match value {
                        Value::Waiting(_) => {}
                        Value::Small(_, at) | Value::Large(at) => *at = place,
                    }
                }
            }
            Target::Item(list, index) => {
                if let Some(item) = self.index.lists.get_mut(list).and_then(|list| list.item_mut(*index)) {
                    *item = Item::Logged(place);
                }
            }
            Target::Mark(list) => {
                if let Some(list) = self.index.lists.get_mut(list) {
                    list.mark = Some(place);
                }
            }
        }
        if let Some((bytes, _)) = self.index.live.get(&old) {
            self.index.forget(Place { lsn: old, bytes: *bytes });
        }
        self.index.keep(place, target);
    }
}
