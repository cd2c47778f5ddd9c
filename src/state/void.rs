//! Ranges of the log that a restart left behind: appended, but not part of what was restored (P15).

use crate::codec::DecodeError;
use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::stream::Lsn;

/// Void ranges of one task: sorted, apart from each other, none empty.
///
/// ```text
///  voids | count varint | count x ( from - end of the one before: varint | length: varint )
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Voids {
    ranges: Vec<(Lsn, Lsn)>,
}

impl Voids {
    /// Makes everything from `from` on and below `to` void.
    pub fn insert(&mut self, from: Lsn, to: Lsn) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        // Ranges that touch become one: a job that dies again and again before its first checkpoint
        // must not grow its start record.
        self.ranges.retain(|range| {
            let apart = range.1 < from || to < range.0;
            if !apart {
                from = from.min(range.0);
                to = to.max(range.1);
            }
            apart
        });
        let place = self.ranges.partition_point(|range| range.0 < from);
        self.ranges.insert(place, (from, to));
    }

    /// Whether an entry at `at` is void.
    pub fn contains(&self, at: Lsn) -> bool {
        let behind = self.ranges.partition_point(|range| range.0 <= at);
        behind > 0 && self.ranges.get(behind - 1).is_some_and(|range| at < range.1)
    }

    /// Forgets ranges that end at or below `floor`: nothing below it is read again.
    pub fn prune_below(&mut self, floor: Lsn) {
        self.ranges.retain(|range| range.1 > floor);
    }

    /// The ranges, first position and the one behind the last.
    pub fn ranges(&self) -> &[(Lsn, Lsn)] {
        &self.ranges
    }

    /// Appends the ranges to `encoder`.
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.varint(self.ranges.len() as u64);
        let mut before = 0;
        for (from, to) in &self.ranges {
            encoder.varint(from.0 - before).varint(to.0 - from.0);
            before = to.0;
        }
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut voids = Self::default();
        let mut before = 0_u64;
        for _ in 0..decoder.count(2)? {
            let (gap, len) = (decoder.varint()?, decoder.varint()?);
            let from = before.checked_add(gap);
            let Some((from, to)) = from.and_then(|from| Some((from, from.checked_add(len)?))) else {
                return Err(DecodeError::Invalid { at: 0, what: "a void range beyond the end of all logs" });
            };
            voids.insert(Lsn(from), Lsn(to));
            before = to;
        }
        Ok(voids)
    }
}
