//! What each implementation of a trait has to pass.

mod disk;

pub use disk::disk;
