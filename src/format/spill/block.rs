//! A run of bytes, compressed where that pays; and the little numbers between the runs.

use arrow::buffer::Buffer;
use arrow::buffer::MutableBuffer;
use lz4_flex::block::compress_into;
use lz4_flex::block::decompress_into;
use lz4_flex::block::get_maximum_output_size;

use super::BATCH_BYTES_MAX;
use crate::error::Error;
use crate::error::Result;

const RAW: u8 = 0;
const LZ4: u8 = 1;

/// Shorter blocks are not worth the table that LZ4 sets up for each.
const COMPRESS_LEN_MIN: usize = 512;

/// So much of a block is tried first.
const SAMPLE_LEN: usize = 4096;

/// A block is compressed if its sample shrinks to one part in this many: below that the time is
/// better spent on writing the bytes as they are.
const SHRINK_MIN: usize = 2;

pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

pub(super) fn write_block(out: &mut Vec<u8>, bytes: &[u8]) {
    if shrinks(bytes) {
        let start = out.len();
        let data = start + 1 + size_of::<u32>();
        out.push(LZ4);
        out.resize(data + get_maximum_output_size(bytes.len()), 0);
        if let Ok(len) = compress_into(bytes, &mut out[data..])
            && len < bytes.len()
            && let Ok(stored) = u32::try_from(len)
        {
            out[start + 1..data].copy_from_slice(&stored.to_le_bytes());
            out.truncate(data + len);
            return;
        }
        out.truncate(start);
    }
    out.push(RAW);
    out.extend_from_slice(bytes);
}

fn shrinks(bytes: &[u8]) -> bool {
    if bytes.len() < COMPRESS_LEN_MIN {
        return false;
    }
    let sample = &bytes[..bytes.len().min(SAMPLE_LEN)];
    // LZ4 wants room for the worst case and refuses to begin with less.
    let mut room = [0; SAMPLE_LEN + SAMPLE_LEN / 4];
    compress_into(sample, &mut room).is_ok_and(|len| len <= sample.len() / SHRINK_MIN)
}

/// Reads what was written; keeps count of the memory given out (S1).
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left: BATCH_BYTES_MAX }
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        let (bytes, rest) = self.bytes.split_first_chunk().ok_or_else(short)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    pub(super) fn varint(&mut self) -> Result<usize> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|_| damage("a number beyond memory"));
            }
        }
        Err(damage("a number of more than 63 bits"))
    }

    /// A block that has `len` bytes once it is read.
    pub(super) fn block(&mut self, len: usize) -> Result<Buffer> {
        self.spend(len)?;
        match self.u8()? {
            RAW => Ok(Buffer::from(self.take(len)?)),
            LZ4 => {
                let stored = self.u32()?;
                let compressed = self.take(stored as usize)?;
                let mut buffer = MutableBuffer::from_len_zeroed(len);
                match decompress_into(compressed, buffer.as_slice_mut()) {
                    Ok(found) if found == len => Ok(buffer.into()),
                    _ => Err(damage("a compressed block that is not as long as it should be")),
                }
            }
            _ => Err(damage("a block of unknown kind")),
        }
    }

    /// Counts `len` bytes of memory.
    pub(super) fn spend(&mut self, len: usize) -> Result<()> {
        self.left = self.left.checked_sub(len).ok_or_else(|| damage("more rows than a batch can have"))?;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(damage("bytes behind the last column")) }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or_else(short)?;
        self.bytes = rest;
        Ok(taken)
    }
}

fn short() -> Error {
    damage("the bytes end within a column")
}

pub(super) fn damage(what: &str) -> Error {
    Error::damage(format!("spilled rows cannot be read: {what}"))
}
