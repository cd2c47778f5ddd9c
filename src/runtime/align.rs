//! Alignment: which inputs of a task are held back while a barrier is awaited from the others.
//!
//! A pure function of the barriers seen. In exactly-once mode an input whose barrier came is held back
//! until the same barrier has come on all of them; in at-least-once mode nothing is held back, and the
//! barrier counts once it has come everywhere (design after Carbone et al., "Lightweight Asynchronous
//! Snapshots for Distributed Dataflows", 2015).

use crate::error::Error;
use crate::error::Result;
use crate::stream::Barrier;

/// The barriers that the inputs of a task have seen.
#[derive(Debug, Clone)]
pub struct Aligner {
    /// The newest barrier of each input that others have not seen yet.
    waiting: Vec<Option<Barrier>>,
    holds: bool,
}

impl Aligner {
    /// Aligns `inputs` inputs; `exactly_once` holds inputs back.
    pub fn new(inputs: usize, exactly_once: bool) -> Self {
        Self { waiting: vec![None; inputs], holds: exactly_once }
    }

    /// Whether nothing may be taken from `input` for now.
    pub fn is_held(&self, input: usize) -> bool {
        self.holds && self.waiting.get(input).is_some_and(Option::is_some)
    }

    /// Notes a barrier of `input`; returns it when it has now come on all of them.
    ///
    /// An older barrier still awaited on other inputs is dropped by a newer one: its checkpoint was
    /// given up. The kind of the newest barrier counts, as all inputs see the same one.
    ///
    /// # Errors
    ///
    /// Barriers that go back, or an input that is not there: faults of the program.
    pub fn barrier(&mut self, input: usize, barrier: Barrier) -> Result<Option<Barrier>> {
        let Some(slot) = self.waiting.get_mut(input) else {
            return Err(Error::retry(format!("a barrier came on input {input}, which is not there")));
        };
        if let Some(before) = slot.filter(|before| before.epoch >= barrier.epoch) {
            return Err(Error::retry(format!(
                "barrier {} came on input {input} behind barrier {}",
                barrier.epoch, before.epoch
            )));
        }
        *slot = Some(barrier);
        // Inputs that wait with an older barrier will see this one too.
        for waiting in &mut self.waiting {
            if waiting.is_some_and(|other| other.epoch < barrier.epoch) {
                *waiting = None;
            }
        }
        if self.waiting.iter().all(|waiting| waiting.is_some_and(|other| other.epoch == barrier.epoch)) {
            self.waiting.fill(None);
            return Ok(Some(barrier));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::BarrierKind;
    use crate::stream::Epoch;

    fn barrier(epoch: u64) -> Barrier {
        Barrier { epoch: Epoch(epoch), kind: BarrierKind::Checkpoint }
    }

    #[test]
    fn one_input_is_never_held_back() {
        let mut aligner = Aligner::new(1, true);
        assert_eq!(aligner.barrier(0, barrier(1)).unwrap(), Some(barrier(1)));
        assert!(!aligner.is_held(0));
    }

    #[test]
    fn the_faster_of_two_inputs_is_held_back_until_the_other_has_the_barrier() {
        let mut aligner = Aligner::new(2, true);
        assert_eq!(aligner.barrier(1, barrier(1)).unwrap(), None);
        assert!(aligner.is_held(1) && !aligner.is_held(0));
        assert_eq!(aligner.barrier(0, barrier(1)).unwrap(), Some(barrier(1)));
        assert!(!aligner.is_held(0) && !aligner.is_held(1));
    }

    #[test]
    fn at_least_once_holds_nothing_back() {
        let mut aligner = Aligner::new(2, false);
        assert_eq!(aligner.barrier(0, barrier(1)).unwrap(), None);
        assert!(!aligner.is_held(0));
        assert_eq!(aligner.barrier(1, barrier(1)).unwrap(), Some(barrier(1)));
    }

    #[test]
    fn a_newer_barrier_replaces_one_that_was_given_up() {
        let mut aligner = Aligner::new(3, true);
        assert_eq!(aligner.barrier(0, barrier(1)).unwrap(), None);
        assert_eq!(aligner.barrier(1, barrier(2)).unwrap(), None);
        assert!(!aligner.is_held(0), "its barrier 1 is void, it has to bring barrier 2");
        assert_eq!(aligner.barrier(0, barrier(2)).unwrap(), None);
        assert_eq!(aligner.barrier(2, barrier(2)).unwrap(), Some(barrier(2)));
    }

    #[test]
    fn every_order_of_three_inputs_and_two_barriers_aligns_both_once() {
        // Each input brings 1 then 2; an order is a merge of the three sequences.
        fn walk(aligner: &Aligner, next: [u64; 3], seen: &[u64], orders: &mut usize) {
            let mut moved = false;
            for input in 0..3 {
                if next[input] > 2 || aligner.is_held(input) {
                    continue;
                }
                moved = true;
                let mut aligner = aligner.clone();
                let mut next = next;
                let mut seen = seen.to_vec();
                if let Some(aligned) = aligner.barrier(input, barrier(next[input])).unwrap() {
                    seen.push(aligned.epoch.0);
                }
                next[input] += 1;
                walk(&aligner, next, &seen, orders);
            }
            if !moved {
                assert_eq!(next, [3; 3], "nothing may be held back for ever");
                assert_eq!(seen, [1, 2]);
                *orders += 1;
            }
        }
        let mut orders = 0;
        walk(&Aligner::new(3, true), [1; 3], &[], &mut orders);
        assert_eq!(orders, 36);
    }

    #[test]
    fn a_barrier_that_goes_back_is_an_error() {
        let mut aligner = Aligner::new(2, true);
        aligner.barrier(0, barrier(3)).unwrap();
        assert!(aligner.barrier(0, barrier(3)).is_err());
    }
}
