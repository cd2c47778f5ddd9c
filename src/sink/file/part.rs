//! A part file from its first row to the ledger, and its record in the state.
//!
//! Owns what is remembered of a file and how it is encoded. Does not own the bytes on disk
//! (`descriptors`) nor when something is written (`writer`).
//!
//! [`InProgressPart::close`] gives a [`ClosedPart`]: nobody can append to one.
//!
//! # In the state, version 1
//!
//! Numbers are varints, `str` is a varint length and UTF-8, times are signed milliseconds since 1970.
//!
//! ```text
//!  value  part/<name>      in progress | version u8 = 1 | 1 u8 | progress | file
//!                          pending     | version u8 = 1 | 2 u8 | closed | file
//!  list   groups/<name>    the meta of each row group of a file in progress, in order
//!  list   rows/<name>      its rows that no row group holds yet, as `format::spill` writes them
//!  list   ledger           | version u8 = 1 | name: str | closed | file, of each committed file
//!  list   losses           the same, of each file that was given up as lost
//!
//!  file      bucket: str | len | rows | crc u32 | spans
//!  spans     count x (split: str | first | last - first)
//!  progress  begun: time | written: time | row groups | definition u64 | waiting rows | their bytes
//!  closed    epoch
//! ```
//!
//! A checkpoint writes the value only when the part changed, and items only for what is new.
//!
//! # Invariants
//!
//! - **F1** `crc` is that of the first `len` bytes of the file, and `rows` are in them.
//! - **F2** The list of groups has as many items as the value says, and the items of `rows` hold as
//!   many rows as it says wait. Spans cover both.

use std::time::Duration;

use crate::clock::Clock;
use crate::codec::DecodeError;
use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::error::Error;
use crate::error::Result;
use crate::sink::file::bucket::BucketKey;
use crate::sink::file::name::PartName;
use crate::sink::file::rolling::PartFacts;
use crate::stream::Epoch;
use crate::stream::Span;
use crate::stream::Spans;
use crate::stream::SplitId;

const VERSION: u8 = 1;
const IN_PROGRESS: u8 = 1;
const PENDING: u8 = 2;

/// What identifies a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub len: u64,
    /// Rows in them.
    pub rows: u64,
    /// CRC-32 of them.
    pub crc: u32,
}

/// A part file that nobody appends to any more: pending, then committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedPart {
    /// Its name.
    pub name: PartName,
    /// Where it belongs.
    pub bucket: BucketKey,
    /// Length, rows and checksum of the whole file.
    pub content: Content,
    /// Where its rows come from.
    pub spans: Spans,
    /// The epoch whose barrier closed it.
    pub epoch: Epoch,
}

/// A part file that rows are added to.
#[derive(Debug)]
pub(super) struct InProgressPart {
    pub(super) name: PartName,
    pub(super) bucket: BucketKey,
    /// What is in the file.
    pub(super) content: Content,
    pub(super) spans: Spans,
    /// Row groups in the file.
    pub(super) row_groups: u64,
    /// Names the schema and settings it was begun with (D15).
    pub(super) definition: u64,
    /// Rows in the state that are not in the file.
    pub(super) spilled: Rows,
    begun: Moment,
    written: Moment,
    /// It differs from its value in the state.
    pub(super) changed: bool,
}

/// A number of rows and what they take in memory.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl std::ops::Add for Rows {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }
}

/// A moment of the monotonic clock, or before it began.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Duration,
    /// How much earlier than `at` it was: a file may be older than its process.
    before: Duration,
}

/// Both clocks, read at one instant.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Now {
    monotonic: Duration,
    wall_ms: i64,
}

impl Now {
    pub(super) fn of(clock: &dyn Clock) -> Self {
        Self { monotonic: clock.monotonic(), wall_ms: clock.now().as_millisecond() }
    }

    pub(super) fn monotonic(self) -> Duration {
        self.monotonic
    }
}

impl Moment {
    fn now(now: Now) -> Self {
        Self { at: now.monotonic, before: Duration::ZERO }
    }

    fn ago(self, now: Now) -> Duration {
        now.monotonic.saturating_sub(self.at) + self.before
    }

    fn wall_ms(self, now: Now) -> i64 {
        now.wall_ms.saturating_sub(i64::try_from(self.ago(now).as_millis()).unwrap_or(i64::MAX))
    }

    /// A time of day that jumped ahead makes a file too old, one that jumped back makes it new.
    fn from_wall(wall_ms: i64, now: Now) -> Self {
        let ago = u64::try_from(now.wall_ms.saturating_sub(wall_ms)).unwrap_or(0);
        Self { at: now.monotonic, before: Duration::from_millis(ago) }
    }
}

impl InProgressPart {
    pub(super) fn begin(name: PartName, bucket: BucketKey, definition: u64, now: Now) -> Self {
        Self {
            name,
            bucket,
            content: Content { len: 0, rows: 0, crc: 0 },
            spans: Spans::new(),
            row_groups: 0,
            definition,
            spilled: Rows::default(),
            begun: Moment::now(now),
            written: Moment::now(now),
            changed: true,
        }
    }

    /// Rows of `split` from position `first` to `last` were taken for it.
    pub(super) fn takes(&mut self, split: &SplitId, first: u64, last: u64, now: Now) {
        match self.spans.get_mut(split) {
            Some(span) => {
                span.first = span.first.min(first);
                span.last = span.last.max(last);
            }
            None => drop(self.spans.insert(split.clone(), Span { first, last })),
        }
        self.written = Moment::now(now);
        self.changed = true;
    }

    /// `len` bytes with the checksum `crc`, which hold `rows`, are at the end of the file now.
    pub(super) fn appended(&mut self, len: u64, crc: &crc32fast::Hasher, rows: u64, row_group: bool) {
        let mut whole = crc32fast::Hasher::new_with_initial_len(self.content.crc, self.content.len);
        whole.combine(crc);
        self.content.crc = whole.finalize();
        self.content.len += len;
        self.content.rows += rows;
        self.row_groups += u64::from(row_group);
        self.changed = true;
    }

    /// What the rolling policy looks at, with `unspilled` rows in memory and `waiting_bytes` as the
    /// estimate for all rows that are not in the file.
    pub(super) fn facts(&self, unspilled: Rows, waiting_bytes: u64, now: Now) -> PartFacts {
        PartFacts {
            bytes: self.content.len + waiting_bytes,
            rows: self.content.rows + self.spilled.rows + unspilled.rows,
            row_groups: self.row_groups,
            age: self.begun.ago(now),
            idle: self.written.ago(now),
        }
    }

    /// Nobody appends to it any more.
    pub(super) fn close(self, epoch: Epoch) -> ClosedPart {
        ClosedPart { name: self.name, bucket: self.bucket, content: self.content, spans: self.spans, epoch }
    }

    pub(super) fn encode(&self, now: Now) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        e.u8(IN_PROGRESS)
            .signed(self.begun.wall_ms(now))
            .signed(self.written.wall_ms(now))
            .varint(self.row_groups)
            .u64(self.definition)
            .varint(self.spilled.rows)
            .varint(self.spilled.bytes);
        encode_file(&mut e, &self.bucket, &self.content, &self.spans);
        e.finish()
    }
}

impl ClosedPart {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        e.u8(PENDING).varint(self.epoch.0);
        encode_file(&mut e, &self.bucket, &self.content, &self.spans);
        e.finish()
    }

    /// The item of the ledger.
    pub(super) fn encode_ledger(&self) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        e.str(&self.name.to_string()).varint(self.epoch.0);
        encode_file(&mut e, &self.bucket, &self.content, &self.spans);
        e.finish()
    }

    /// Reads an item of the ledger.
    pub(super) fn decode_ledger(item: &[u8]) -> Result<Self> {
        let (mut d, _version) = Decoder::versioned(item, VERSION)?;
        let name = d.str()?;
        let name = PartName::parse(name)
            .ok_or_else(|| Error::damage(format!("the ledger names {name:?}, which is no part file")))?;
        let epoch = Epoch(d.varint()?);
        let (bucket, content, spans) = decode_file(&mut d)?;
        d.finish()?;
        Ok(Self { name, bucket, content, spans, epoch })
    }
}

/// A part file as a checkpoint records it.
#[derive(Debug)]
pub(super) enum PartRecord {
    InProgress(InProgressPart),
    Pending(ClosedPart),
}

impl PartRecord {
    /// Reads the value of the part called `name`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Damage`] when it is none.
    pub(super) fn decode(name: PartName, value: &[u8], now: Now) -> Result<Self> {
        let (mut d, _version) = Decoder::versioned(value, VERSION)?;
        let record = match d.u8()? {
            IN_PROGRESS => {
                let begun = Moment::from_wall(d.signed()?, now);
                let written = Moment::from_wall(d.signed()?, now);
                let row_groups = d.varint()?;
                let definition = d.u64()?;
                let spilled = Rows { rows: d.varint()?, bytes: d.varint()? };
                let (bucket, content, spans) = decode_file(&mut d)?;
                Self::InProgress(InProgressPart {
                    name,
                    bucket,
                    content,
                    spans,
                    row_groups,
                    definition,
                    spilled,
                    begun,
                    written,
                    changed: false,
                })
            }
            PENDING => {
                let epoch = Epoch(d.varint()?);
                let (bucket, content, spans) = decode_file(&mut d)?;
                Self::Pending(ClosedPart { name, bucket, content, spans, epoch })
            }
            _ => return Err(DecodeError::Invalid { at: 1, what: "an unknown state of a part file" }.into()),
        };
        d.finish()?;
        Ok(record)
    }
}

fn encode_file(e: &mut Encoder, bucket: &BucketKey, content: &Content, spans: &Spans) {
    e.str(bucket.as_str()).varint(content.len).varint(content.rows).u32(content.crc);
    e.varint(spans.len() as u64);
    for (split, span) in spans {
        e.str(split.as_str()).varint(span.first).varint(span.last.saturating_sub(span.first));
    }
}

fn decode_file(d: &mut Decoder<'_>) -> Result<(BucketKey, Content, Spans)> {
    let bucket = BucketKey::new(d.str()?).map_err(|error| Error::damage(error.to_string()))?;
    let content = Content { len: d.varint()?, rows: d.varint()?, crc: d.u32()? };
    let mut spans = Spans::new();
    for _ in 0..d.count(3)? {
        let split = SplitId::new(d.str()?);
        let first = d.varint()?;
        let last = first.saturating_add(d.varint()?);
        spans.insert(split, Span { first, last });
    }
    Ok((bucket, content, spans))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stream::Incarnation;
    use crate::stream::Lineage;

    fn name() -> PartName {
        PartName {
            lineage: Lineage(7),
            incarnation: Incarnation(3),
            writer: 0,
            sequence: 12,
            extension: "parquet".to_owned(),
        }
    }

    fn at(seconds: u64, wall_ms: i64) -> Now {
        Now { monotonic: Duration::from_secs(seconds), wall_ms }
    }

    proptest! {
        #[test]
        fn a_part_in_progress_reads_back(
            len: u32, rows: u32, row_groups: u64, definition: u64, waiting: u64,
            splits in prop::collection::btree_map(".{0,8}", (any::<u64>(), any::<u64>()), 0..4),
            bytes: Vec<u8>,
        ) {
            let mut part = InProgressPart::begin(name(), BucketKey::new("a=1/b=2").unwrap(), definition, at(5, 5_000));
            for (split, (a, b)) in &splits {
                part.takes(&SplitId::new(split.as_str()), *a.min(b), *a.max(b), at(9, 9_000));
            }
            let mut crc = crc32fast::Hasher::new();
            crc.update(&bytes);
            part.appended(bytes.len() as u64, &crc, u64::from(rows), false);
            part.content.len += u64::from(len);
            part.row_groups = row_groups;
            part.spilled = Rows { rows: waiting, bytes: waiting };
            let value = part.encode(at(10, 10_000));
            let PartRecord::InProgress(back) = PartRecord::decode(name(), &value, at(1, 12_000)).unwrap() else {
                panic!("another state");
            };
            prop_assert_eq!(back.encode(at(1, 12_000)), value);
            prop_assert_eq!(back.facts(Rows::default(), 0, at(1, 12_000)).age, Duration::from_secs(7));
            prop_assert_eq!(back.content, part.content);
            prop_assert_eq!(back.spans, part.spans);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = PartRecord::decode(name(), &bytes, at(0, 0));
            let _ = ClosedPart::decode_ledger(&bytes);
        }
    }

    #[test]
    fn a_closed_part_reads_back_from_the_state_and_from_the_ledger() {
        let mut part = InProgressPart::begin(name(), BucketKey::base(), 1, at(0, 0));
        part.takes(&SplitId::new("s"), 3, 9, at(0, 0));
        let closed = part.close(Epoch(4));
        let PartRecord::Pending(back) = PartRecord::decode(name(), &closed.encode(), at(0, 0)).unwrap()
        else {
            panic!("another state");
        };
        assert_eq!(back, closed);
        assert_eq!(ClosedPart::decode_ledger(&closed.encode_ledger()).unwrap(), closed);
    }

    #[test]
    fn the_bytes_of_version_1_are_these() {
        let mut part = InProgressPart::begin(name(), BucketKey::new("a=1").unwrap(), 7, at(0, 1_000));
        part.takes(&SplitId::new("s"), 300, 301, at(1, 2_000));
        part.content = Content { len: 500, rows: 2, crc: 0x0403_0201 };
        part.row_groups = 1;
        part.spilled = Rows { rows: 5, bytes: 129 };
        // Version, state, begun, written, row groups, definition, waiting; bucket, content, spans.
        let file = b"\x03a=1\xf4\x03\x02\x01\x02\x03\x04\x01\x01s\xac\x02\x01";
        let head = b"\x01\x01\xd0\x0f\xa0\x1f\x01\x07\0\0\0\0\0\0\0\x05\x81\x01";
        assert_eq!(part.encode(at(1, 2_000)), [&head[..], file].concat());
        let closed = part.close(Epoch(9));
        assert_eq!(closed.encode(), [&b"\x01\x02\x09"[..], file].concat());
        let name = b"\x01\x1cpart-00000007-3-0-12.parquet\x09";
        assert_eq!(closed.encode_ledger(), [&name[..], file].concat());
    }

    #[test]
    fn the_checksum_goes_on_over_pieces() {
        let mut part = InProgressPart::begin(name(), BucketKey::base(), 1, at(0, 0));
        for piece in [&b"PAR1"[..], b"", b"rows and rows"] {
            let mut crc = crc32fast::Hasher::new();
            crc.update(piece);
            part.appended(piece.len() as u64, &crc, 0, false);
        }
        assert_eq!(part.content.crc, crc32fast::hash(b"PAR1rows and rows"));
    }

    #[test]
    fn a_file_keeps_its_age_over_a_restart_and_a_clock_that_jumps_back_makes_it_new() {
        let part = InProgressPart::begin(name(), BucketKey::base(), 1, at(100, 1_000_000));
        let value = part.encode(at(160, 1_060_000));
        let age = |now| match PartRecord::decode(name(), &value, now).unwrap() {
            PartRecord::InProgress(part) => part.facts(Rows::default(), 0, now).age,
            PartRecord::Pending(_) => panic!("another state"),
        };
        assert_eq!(age(at(2, 1_090_000)), Duration::from_secs(90));
        assert_eq!(age(at(2, 400_000)), Duration::ZERO);
    }
}
