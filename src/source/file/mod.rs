//! Files as splits: a pattern of paths, plain or compressed, read once or followed.
//!
//! Owns which files are read, how far each was read, and the proof that a file is still the one that was
//! read. Does not own what a record is (`format`).
//!
//! In the order that bytes flow: [`settings`] says what; [`walk`] finds files; [`resolve`] says which
//! file is which split; [`content`] unpacks; [`cut`] makes pieces of whole records, and [`reader`] drives
//! the two; [`split`] keeps pieces in order while they are decoded; [`source`] turns the wheel. [`record`]
//! draws what the state remembers, with the proof of [`mark`].

mod content;
mod cut;
mod error;
mod mark;
mod reader;
mod record;
mod resolve;
mod sample;
mod settings;
mod source;
mod split;
#[cfg(test)]
mod tests;
mod walk;

pub use record::SplitPosition;
pub use record::positions;
pub use sample::Sample;
pub use sample::matching;
pub use sample::prove;
pub use sample::sample;
pub use settings::CHUNK_BYTES;
pub use settings::FileSettings;
pub use settings::POLL;
pub use settings::READ_AHEAD_BYTES;
pub use settings::RECORD_LIMIT;
pub use source::FileSource;
pub use source::SourceStatus;
