//! The only door to disks, with what is assumed of each call written down.
//!
//! Owns every call that touches a file. Does not own names, formats or the order of calls.
//!
//! Read [`disk`] for the promises, [`real`] for Linux, [`mapped`] for the memory map (the only
//! `unsafe` of the crate), [`file_system`] for how far to trust which file system. The double that
//! loses what was not synced is `testing::CrashDisk`.

mod disk;
mod file_system;
mod folders;
mod mapped;
mod real;

#[cfg(test)]
mod tests;

pub use disk::Disk;
pub use disk::DiskFile;
pub use disk::DiskLock;
pub use disk::Entry;
pub use disk::Kind;
pub use disk::Metadata;
pub use disk::OpenMode;
pub use disk::Region;
pub use file_system::FileSystem;
pub use folders::make_folders;
pub use real::RealDisk;
