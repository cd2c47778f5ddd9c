//! Who syncs for whom: the first to wait leads, whoever comes meanwhile follows.
//!
//! Waking is what costs where many threads wait. So there are two words to sleep on, used in turn: those
//! whom the sync in hand covers sleep on one, those who came too late for it on the other. Its end wakes all
//! of the first with one call, and one of the second, who leads next. (One condition variable for all was
//! measured at less than half of that rate.) Tasks leave a waker instead.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::task::Waker;

use rustix::thread::futex;

use crate::stream::Lsn;

use super::WalError;
use super::health::lock;

/// Wakes everybody. The kernel takes the count as a signed number: the largest unsigned one would wake one.
const ALL: u32 = i32::MAX as u32;

/// The meeting point of those who wait for durability.
#[derive(Debug, Default)]
pub(super) struct Group {
    turn: Mutex<Turn>,
    /// Changed under the lock of `turn` whenever a lead ends: who is about to sleep then does not.
    words: [AtomicU32; 2],
}

#[derive(Debug, Default)]
struct Turn {
    leading: bool,
    /// The word of those whom the sync in hand, or the next one, covers.
    word: usize,
    /// What the sync in hand covers.
    covered: Lsn,
    /// Tasks, and what they wait for.
    wakers: Vec<(Lsn, Waker)>,
    /// A job of the pool waits for all of `wakers`.
    driven: bool,
}

/// Ends a lead, also by a panic, so that followers do not wait for ever.
struct Lead<'a> {
    group: &'a Group,
    /// Everybody has to look again, not only those whom the sync covered.
    failed: bool,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut turn = lock(&self.group.turn);
        let done = turn.word;
        turn.leading = false;
        turn.word = 1 - done;
        for word in &self.group.words {
            word.fetch_add(1, Ordering::Release);
        }
        let covered = if self.failed { Lsn(u64::MAX) } else { turn.covered };
        let woken: Vec<_> = turn.wakers.extract_if(.., |(target, _)| *target <= covered).collect();
        drop(turn);
        self.group.wake(done, ALL);
        self.group.wake(1 - done, if self.failed { ALL } else { 1 });
        for (_, waker) in woken {
            waker.wake();
        }
    }
}

impl Group {
    /// Returns once `durable` answers at least `target`, or its error. Of those who wait, one at a time
    /// calls `sync`, which says first what it is going to make durable, by what it is given; the others wait
    /// for it and look again.
    pub(super) fn wait(
        &self,
        target: Lsn,
        durable: impl Fn() -> Result<Lsn, WalError>,
        sync: impl Fn(&dyn Fn(Lsn)) -> Result<(), WalError>,
    ) -> Result<Lsn, WalError> {
        loop {
            let reached = durable()?;
            if reached >= target {
                return Ok(reached);
            }
            let mut turn = lock(&self.turn);
            // A lead ends behind its acknowledgement, under this lock: whoever led meanwhile is seen.
            let reached = durable()?;
            if reached >= target {
                return Ok(reached);
            }
            if turn.leading {
                let word = if target <= turn.covered { turn.word } else { 1 - turn.word };
                let Some(slot) = self.words.get(word) else { return Ok(reached) };
                let seen = slot.load(Ordering::Acquire);
                drop(turn);
                // Whatever it returns, the loop looks again.
                let _woken = futex::wait(slot, futex::Flags::PRIVATE, seen, None);
                continue;
            }
            turn.leading = true;
            // Not known yet: who comes before it is looks again at the end.
            turn.covered = Lsn(u64::MAX);
            drop(turn);
            let mut lead = Lead { group: self, failed: true };
            sync(&|covered| lock(&self.turn).covered = covered)?;
            lead.failed = false;
        }
    }

    /// Leaves `waker` until `target` is durable; true when the caller has to see to it that somebody waits
    /// for [`Group::farthest`], until that answers `None`.
    pub(super) fn leave(&self, target: Lsn, waker: &Waker) -> bool {
        let mut turn = lock(&self.turn);
        turn.wakers.push((target, waker.clone()));
        !std::mem::replace(&mut turn.driven, true)
    }

    /// What the last of the tasks that wait needs; with `None` nobody drives any more. Tasks that wait in
    /// vain are woken: after a failure they look again.
    pub(super) fn farthest(&self, durable: &Result<Lsn, WalError>) -> Option<Lsn> {
        let mut turn = lock(&self.turn);
        let reached = durable.as_ref().map_or(Lsn(u64::MAX), |reached| *reached);
        let woken: Vec<_> = turn.wakers.extract_if(.., |(target, _)| *target <= reached).collect();
        let farthest = turn.wakers.iter().map(|(target, _)| *target).max();
        turn.driven = farthest.is_some();
        drop(turn);
        for (_, waker) in woken {
            waker.wake();
        }
        farthest
    }

    fn wake(&self, word: usize, count: u32) {
        if let Some(word) = self.words.get(word) {
            // It fails only for an address that is none.
            let _woken = futex::wake(word, futex::Flags::PRIVATE, count);
        }
    }
}
