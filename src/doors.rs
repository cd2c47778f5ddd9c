//! Everything a job asks of the outside, as one argument: disk, clock, randomness, threads.
//!
//! A program passes [`Doors::real`]; a simulation passes doubles, and the whole job becomes a
//! function of its seed.

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::pool::Pool;
use crate::storage::Disk;
use crate::storage::RealDisk;

/// Random bytes: lineages, salts of log segments, jitter of restarts.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// A random number of 64 bits.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's randomness.
#[derive(Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "the door: the one place that asks for randomness")]
    fn fill(&self, bytes: &mut [u8]) {
        // On Linux this fails only before the kernel's pool was ever seeded, where nothing may run.
        getrandom::fill(bytes).expect("the operating system gives randomness");
    }
}

/// The outside world of a job.
#[derive(Debug, Clone)]
pub struct Doors {
    /// Files and folders.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Threads for long computations: decoding, encoding, compression.
    pub cpu: Pool,
    /// Threads for calls that block: syncs, renames, listings.
    pub io: Pool,
}

impl Doors {
    /// The machine itself, with one computing thread for each processor.
    pub fn real() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            disk: Arc::new(RealDisk::new()),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            cpu: Pool::threads("alluvium-cpu", processors),
            io: Pool::threads("alluvium-io", 8),
        }
    }
}
