//! Doubles of the outside world and contract suites, for the tests of this crate and of programs
//! built on it.
//!
//! Owns [`CrashDisk`] (a disk that loses what was not synced), [`SeededRandom`], and the suites in
//! [`contract`] that each implementation of a trait passes. Does not own what a job promises: the
//! sweeps that crash a whole job live in `tests/`.
//!
//! Suites and helpers panic where a test would: they run in tests only.

pub mod contract;
mod crash_disk;
mod simulation;

pub use crash_disk::CrashDisk;
pub use crash_disk::CrashModel;
pub use crash_disk::Step;
pub use crash_disk::StepKind;
pub use crash_disk::is_simulated_crash;
pub use simulation::SeededRandom;
pub use simulation::sim_doors;
