//! What the state remembers of a split: one value for each, written when it changed (D16).
//!
//! # The value, version 1
//!
//! ```text
//!  key    "split/" split id
//!  value  version u8 = 1
//!         path      str      where the file is, as the pattern spells it; differs from the id once rotated
//!         position  varint   behind the last record handed on, in decompressed bytes
//!         head      u32      CRC-32 of the first min(1 KiB, position) bytes
//!         tail      u32      CRC-32 of the last min(1 KiB, position) bytes before the position
//!         records   varint   handed on, rejected ones included
//!         raw       varint   bytes of the file at its end, compressed if it is; 0 before
//!         flags     u8       1 ended, 2 unterminated, 4 gone
//! ```
//!
//! A split without a value is at its start. *Ended*: at the last look nothing lay behind the position.
//! *Unterminated*: the record before the position was ended by the end of the file. *Gone*: ended, and
//! its file was removed since, so that another file of its name is another split.

use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::error::Result;
use crate::source::file::mark::Mark;
use crate::state::State;
use crate::state::StateView;
use crate::stream::SplitId;

const VERSION: u8 = 1;
const KEYS: &[u8] = b"split/";
const ENDED: u8 = 1;
const UNTERMINATED: u8 = 2;
const GONE: u8 = 4;

/// A split as the state remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SplitRecord {
    pub(super) path: String,
    pub(super) mark: Mark,
    pub(super) records: u64,
    pub(super) raw: u64,
    pub(super) ended: bool,
    pub(super) unterminated: bool,
    pub(super) gone: bool,
}

impl SplitRecord {
    fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        Encoder::versioned(VERSION)
            .str(&self.path)
            .varint(self.mark.position)
            .u32(self.mark.head)
            .u32(self.mark.tail)
            .varint(self.records)
            .varint(self.raw)
            .u8(flag(self.ended, ENDED) | flag(self.unterminated, UNTERMINATED) | flag(self.gone, GONE))
            .finish()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let (mut value, _) = Decoder::versioned(bytes, VERSION)?;
        let path = value.str()?.to_owned();
        let mark = Mark { position: value.varint()?, head: value.u32()?, tail: value.u32()? };
        let (records, raw, flags) = (value.varint()?, value.varint()?, value.u8()?);
        value.finish()?;
        Ok(Self {
            path,
            mark,
            records,
            raw,
            ended: flags & ENDED != 0,
            unterminated: flags & UNTERMINATED != 0,
            gone: flags & GONE != 0,
        })
    }
}

/// Puts what is remembered of `split` into `state`.
pub(super) fn put(state: &mut State, split: &SplitId, record: &SplitRecord) {
    state.put(&[KEYS, split.as_str().as_bytes()].concat(), &record.encode());
}

/// All splits that `state` remembers, by id.
pub(super) fn all(state: &State) -> Result<Vec<(SplitId, SplitRecord)>> {
    decode_all(state.keys(KEYS), |key| state.get(key))
}

/// As [`all`], of a state that is only looked at.
pub(super) fn all_of(state: &StateView) -> Result<Vec<(SplitId, SplitRecord)>> {
    decode_all(state.keys(KEYS), |key| state.get(key))
}

fn decode_all(
    keys: Vec<Vec<u8>>,
    get: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<(SplitId, SplitRecord)>> {
    let mut all = Vec::new();
    for key in keys {
        let name = String::from_utf8_lossy(key.get(KEYS.len()..).unwrap_or_default());
        let split = SplitId::new(name.as_ref());
        let Some(value) = get(&key)? else { continue };
        let record = SplitRecord::decode(&value)
            .map_err(|error| error.context(format!("the state of split {split}")))?;
        all.push((split, record));
    }
    Ok(all)
}

/// Where a split stands, for `inspect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPosition {
    /// The split.
    pub split: SplitId,
    /// The file's path as the pattern spells it.
    pub path: String,
    /// Behind the last record of the checkpoint, in decompressed bytes.
    pub position: u64,
    /// Records up to there, rejected ones included.
    pub records: u64,
    /// Nothing lay behind the position when it was last looked.
    pub ended: bool,
}

/// The positions that a source of files keeps in its state, by split.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] when a value cannot be understood.
pub fn positions(state: &StateView) -> Result<Vec<SplitPosition>> {
    Ok(all_of(state)?.into_iter().map(SplitPosition::from).collect())
}

impl From<(SplitId, SplitRecord)> for SplitPosition {
    fn from((split, record): (SplitId, SplitRecord)) -> Self {
        Self {
            split,
            path: record.path,
            position: record.mark.position,
            records: record.records,
            ended: record.ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn version_1_is_read_and_written_as_drawn() {
        let record = SplitRecord {
            path: "in/a.log.1".to_owned(),
            mark: Mark { position: 300, head: 0x0403_0201, tail: 0x0807_0605 },
            records: 7,
            raw: 128,
            ended: true,
            unterminated: false,
            gone: true,
        };
        let bytes = b"\x01\x0ain/a.log.1\xac\x02\x01\x02\x03\x04\x05\x06\x07\x08\x07\x80\x01\x05";
        assert_eq!(record.encode(), bytes);
        assert_eq!(SplitRecord::decode(bytes).unwrap(), record);
    }

    #[test]
    fn a_newer_version_is_refused_as_such() {
        let error = SplitRecord::decode(&[2, 0, 0]).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = SplitRecord::decode(&bytes);
        }
    }
}
