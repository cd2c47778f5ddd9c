//! Doors whose every answer is a function of a seed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use crate::clock::ManualClock;
use crate::doors::Doors;
use crate::doors::Random;
use crate::pool::Pool;
use crate::testing::CrashDisk;

/// 2026-01-01T00:00:00Z: the moment at which each simulation starts.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Random numbers that a seed decides (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of a remainder is below 2^-32 for every bound that a test asks for.
        self.number() % bound.max(1)
    }

    /// True `of` times in `outof`.
    pub fn chance(&self, of: u64, outof: u64) -> bool {
        self.below(outof) < of
    }

    fn number(&self) -> u64 {
        const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.state.fetch_add(STRIDE, Ordering::Relaxed).wrapping_add(STRIDE);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.number().to_le_bytes()[..part.len()]);
        }
    }
}

/// Doors to `disk`, to a clock that starts at 2026-01-01T00:00:00Z and to randomness from `seed`;
/// work runs inline.
///
/// The clock follows tokio's: call it inside a current-thread runtime with paused time, and the
/// whole job is a function of the disk and the seed.
pub fn sim_doors(disk: &CrashDisk, seed: u64) -> Doors {
    Doors {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(ManualClock::starting_at(START)),
        random: Arc::new(SeededRandom::new(seed)),
        cpu: Pool::inline(),
        io: Pool::inline(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_simulation_is_the_first_moment_of_2026() {
        assert_eq!(START.to_string(), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn two_sequences_of_one_seed_are_equal_and_of_two_seeds_are_not() {
        let numbers = |seed| {
            let random = SeededRandom::new(seed);
            let mut bytes = [0; 13];
            random.fill(&mut bytes);
            (bytes, random.next_u64())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }
}
