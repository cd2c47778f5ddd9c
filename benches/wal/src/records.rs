//! The records that are written, and the check of those that come back.
//!
//! Their bytes are pseudo-random, so that nobody gains from compression. A writer has a ring of them and
//! stamps each with its number (first eight bytes) and a mix of it (last eight): that costs two stores, and
//! every record of a log is another one.

use std::ops::RangeInclusive;

use crate::Result;

/// Bits of a number that count the records of one writer; the writer is above.
const COUNT_BITS: u32 = 40;

/// The records of one writer.
pub struct Records {
    bytes: Vec<u8>,
    size: usize,
    ring: u64,
    writer: u64,
    next: u64,
}

impl Records {
    /// Records of `size` bytes by `writer`, `ring` of them different.
    pub fn new(writer: u64, size: usize, ring: u64) -> Self {
        let len = size * usize::try_from(ring).expect("a ring fits into memory");
        let mut state = mix(writer + 1);
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        });
        let bytes = words.flat_map(u64::to_le_bytes).take(len).collect();
        Self { bytes, size, ring, writer, next: 0 }
    }

    /// The next record.
    pub fn one(&mut self) -> &[u8] {
        let number = (self.writer << COUNT_BITS) | self.next;
        let from = usize::try_from(self.next % self.ring).expect("below the ring's length") * self.size;
        self.next += 1;
        let record = &mut self.bytes[from..from + self.size];
        record[..8].copy_from_slice(&number.to_le_bytes());
        record[self.size - 8..].copy_from_slice(&mix(number).to_le_bytes());
        record
    }

    /// The next `count` records, at most as many as the ring has.
    pub fn some(&mut self, count: u64) -> Vec<&[u8]> {
        assert!(count <= self.ring && self.next.is_multiple_of(self.ring), "a call begins a lap of the ring");
        for _ in 0..count {
            self.one();
        }
        let count = usize::try_from(count).expect("below the ring's length");
        self.bytes.chunks_exact(self.size).take(count).collect()
    }
}

/// Writer and count of a record.
pub fn number(record: &[u8]) -> (u64, u64) {
    let number = record.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
    (number >> COUNT_BITS, number & ((1 << COUNT_BITS) - 1))
}

/// Takes the records that come back.
pub struct Ledger {
    size: usize,
    each: u64,
    first: RangeInclusive<u64>,
    next: Vec<Option<u64>>,
    wrong: Option<String>,
    /// What the records must be, byte for byte; without it the two stamps must do.
    whole: Option<Vec<Records>>,
}

impl Ledger {
    /// Expects records of `size` bytes from each of `writers`: those from one in `first` on up to `each`, in
    /// order.
    pub fn new(size: usize, writers: u64, each: u64, first: RangeInclusive<u64>) -> Self {
        Self { size, each, first, next: (0..writers).map(|_| None).collect(), wrong: None, whole: None }
    }

    /// Compares every byte, with rings of length `ring`.
    pub fn with_every_byte(mut self, ring: u64) -> Self {
        let writers = 0..self.next.len() as u64;
        self.whole = Some(writers.map(|writer| Records::new(writer, self.size, ring)).collect());
        self
    }

    /// Takes `record`.
    pub fn take(&mut self, record: &[u8]) {
        if self.wrong.is_none() && !self.is_right(record) {
            let found = (record.len() >= 8).then(|| number(record));
            self.wrong = Some(format!("{} bytes, writer and count {found:?}", record.len()));
        }
    }

    fn is_right(&mut self, record: &[u8]) -> bool {
        if record.len() != self.size {
            return false;
        }
        let (writer, count) = number(record);
        let stamp = mix((writer << COUNT_BITS) | count).to_le_bytes();
        let Some(next) = usize::try_from(writer).ok().and_then(|at| self.next.get_mut(at)) else {
            return false;
        };
        let follows = next.map_or(self.first.contains(&count), |next| next == count);
        *next = Some(count + 1);
        let whole = self.whole.as_mut().and_then(|whole| whole.get_mut(usize::try_from(writer).ok()?));
        follows
            && record.ends_with(&stamp)
            && whole.is_none_or(|records| {
                records.next = count;
                records.one() == record
            })
    }

    /// Whether all were there.
    pub fn finish(self) -> Result<()> {
        if let Some(wrong) = self.wrong {
            return Err(format!("a record that was not written, or not there: {wrong}").into());
        }
        match self.next.iter().position(|next| *next != Some(self.each)) {
            None => Ok(()),
            Some(at) => {
                let next = self.next[at];
                Err(format!("writer {at} wrote {} records, the next one read would be {next:?}", self.each)
                    .into())
            }
        }
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(count: u64) -> Vec<Vec<u8>> {
        let mut records = Records::new(0, 100, 4);
        (0..count).map(|_| records.one().to_vec()).collect()
    }

    fn judge(records: &[Vec<u8>], each: u64, first: RangeInclusive<u64>) -> Result<()> {
        let mut ledger = Ledger::new(100, 1, each, first).with_every_byte(4);
        records.iter().for_each(|record| ledger.take(record));
        ledger.finish()
    }

    #[test]
    fn records_differ_and_come_back_whole() {
        let records = written(9);
        assert!(records.iter().enumerate().all(|(at, record)| !records[..at].contains(record)));
        judge(&records, 9, 0..=0).unwrap();
        let mut batch = Records::new(0, 100, 4);
        assert_eq!(batch.some(4), written(4));
    }

    #[test]
    fn a_missing_a_doubled_and_a_damaged_record_are_found() {
        let records = written(9);
        assert!(judge(&records[..8], 9, 0..=0).is_err());
        assert!(judge(&records[1..], 9, 0..=0).is_err());
        let mut doubled = records.clone();
        doubled.insert(3, records[3].clone());
        assert!(judge(&doubled, 9, 0..=0).is_err());
        let mut damaged = records;
        damaged[5][50] ^= 1;
        assert!(judge(&damaged, 9, 0..=0).is_err());
    }

    #[test]
    fn what_is_given_up_is_not_too_much_and_not_nothing() {
        let records = written(9);
        judge(&records[3..], 9, 3..=5).unwrap();
        judge(&records[5..], 9, 3..=5).unwrap();
        assert!(judge(&records[6..], 9, 3..=5).is_err());
        assert!(judge(&records, 9, 3..=5).is_err());
    }
}
