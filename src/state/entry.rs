//! The entries that state appends to the log.
//!
//! Owns their bytes. Does not own framing, checksums and positions (`wal`).
//!
//! # In the log, version 1
//!
//! Numbers are varints; `bytes` are a varint length and as many bytes; the last field of an entry takes
//! what is left of it.
//!
//! ```text
//!  entry  | version: u8 | kind: u8 | task's number | the kind's own fields
//!  1 put    | key: bytes  | value
//!  2 remove | key
//!  3 push   | list: bytes | life | first index | count | one: the item; more: count x item: bytes
//!  4 clear  | list: bytes | life | first index that stays
//!  5 drop   | list: bytes | life
//! ```
//!
//! Kinds from [`FOREIGN_KIND_MIN`] on belong to other rooms (`checkpoint`); they start with the same two
//! bytes, and state passes over them.

use crate::codec::DecodeError;
use crate::codec::Decoder;
use crate::codec::Encoder;

/// The version that is written.
const VERSION: u8 = 1;

/// The first kind of entry that does not belong to state.
pub const FOREIGN_KIND_MIN: u8 = 16;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const PUSH: u8 = 3;
const CLEAR: u8 = 4;
const DROP: u8 = 5;

/// One change of a task's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// The key has this value.
    Put { key: &'a [u8], value: &'a [u8] },
    /// The key has no value.
    Remove { key: &'a [u8] },
    /// The list has these items from this index on; old items are written again so too (compaction).
    Push { list: &'a [u8], life: u64, first: u64, items: Items<'a> },
    /// The list begins at this index; nothing below is ever used again.
    Clear { list: &'a [u8], life: u64, first: u64 },
    /// This life of the list is over.
    Drop { list: &'a [u8], life: u64 },
}

/// Items of a list that follow each other, in one entry; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Items<'a> {
    count: u64,
    bytes: &'a [u8],
}

impl<'a> Items<'a> {
    /// One item, which is not copied.
    pub(super) fn one(item: &'a [u8]) -> Self {
        Self { count: 1, bytes: item }
    }

    /// Several items, put one behind the other in `buffer`.
    pub(super) fn several<'i>(items: impl IntoIterator<Item = &'i [u8]>, buffer: &'a mut Vec<u8>) -> Self {
        let mut e = Encoder::new();
        let mut count = 0;
        let mut only = None;
        for item in items {
            count += 1;
            only = (count == 1).then_some(item);
            e.bytes(item);
        }
        *buffer = match only {
            Some(item) => item.to_vec(),
            None => e.finish(),
        };
        Self { count, bytes: buffer }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The items in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut d = Decoder::new(self.bytes);
        let (count, bytes) = (self.count, self.bytes);
        // Entries are decoded once as a whole before this, so that no item is missing here.
        (0..count).map_while(move |_| if count == 1 { Some(bytes) } else { d.bytes().ok() })
    }

    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let count = d.varint()?;
        let bytes = d.rest();
        match count {
            0 => return Err(DecodeError::Invalid { at: 2, what: "a push of no items" }),
            1 => {}
            _ => {
                for _ in 0..count {
                    d.bytes()?;
                }
                d.clone().finish()?;
            }
        }
        Ok(Self { count, bytes })
    }
}

/// An entry of the log as state sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A change of the state of the task of this number.
    State(u32, Entry<'a>),
    /// Another room's entry.
    Foreign,
}

impl<'a> Entry<'a> {
    /// The bytes of the entry for the task of number `task`.
    pub(super) fn encode(&self, task: u32) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        let mut head = |kind: u8| {
            e.u8(kind).varint(u64::from(task));
        };
        match *self {
            Self::Put { key, value } => {
                head(PUT);
                e.bytes(key).raw(value);
            }
            Self::Remove { key } => {
                head(REMOVE);
                e.raw(key);
            }
            Self::Push { list, life, first, items } => {
                head(PUSH);
                e.bytes(list).varint(life).varint(first).varint(items.count).raw(items.bytes);
            }
            Self::Clear { list, life, first } => {
                head(CLEAR);
                e.bytes(list).varint(life).varint(first);
            }
            Self::Drop { list, life } => {
                head(DROP);
                e.bytes(list).varint(life);
            }
        }
        e.finish()
    }

    /// Reads the bytes of an entry of any room.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Found<'a>, DecodeError> {
        if foreign_kind(bytes).is_some() {
            return Ok(Found::Foreign);
        }
        let (mut d, _version) = Decoder::versioned(bytes, VERSION)?;
        let kind = d.u8()?;
        let task = u32::try_from(d.varint()?)
            .map_err(|_| DecodeError::Invalid { at: 2, what: "a task's number of more than 32 bits" })?;
        let entry = match kind {
            PUT => Self::Put { key: d.bytes()?, value: d.rest() },
            REMOVE => Self::Remove { key: d.rest() },
            PUSH => {
                let (list, life, first) = (d.bytes()?, d.varint()?, d.varint()?);
                let items = Items::decode(&mut d)?;
                if first.checked_add(items.count).is_none() {
                    return Err(DecodeError::Invalid { at: 2, what: "an index beyond all lists" });
                }
                Self::Push { list, life, first, items }
            }
            CLEAR => {
                let entry = Self::Clear { list: d.bytes()?, life: d.varint()?, first: d.varint()? };
                d.finish()?;
                entry
            }
            DROP => {
                let entry = Self::Drop { list: d.bytes()?, life: d.varint()? };
                d.finish()?;
                entry
            }
            _ => return Err(DecodeError::Invalid { at: 1, what: "an unknown kind of entry" }),
        };
        Ok(Found::State(task, entry))
    }
}

/// The kind of an entry of another room, `None` for state's own and for those of unknown versions: their
/// reader finds out.
pub fn foreign_kind(entry: &[u8]) -> Option<u8> {
    match entry {
        [_version, kind, ..] if *kind >= FOREIGN_KIND_MIN => Some(*kind),
        _ => None,
    }
}
