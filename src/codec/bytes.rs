//! Writing and reading primitive values.

use crate::error::Error;

/// Appends primitive values to a byte vector.
#[derive(Debug, Default, Clone)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty value.
    pub fn new() -> Self {
        Self::default()
    }

    /// A value whose first byte is `version`.
    pub fn versioned(version: u8) -> Self {
        Self { bytes: vec![version] }
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends one to ten bytes.
    pub fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
        self
    }

    /// Appends a signed number, small ones of either sign in few bytes.
    pub fn signed(&mut self, value: i64) -> &mut Self {
        self.varint(((value << 1) ^ (value >> 63)).cast_unsigned())
    }

    /// Appends a length and the bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Appends a length and the text's bytes.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Appends bytes with no length.
    pub fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// What was appended.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing appended yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Reads primitive values back; never panics and never allocates more than there are bytes.
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("the value ends at byte {at}, {wanted} more were expected")]
    Short {
        /// Offset of the missing part.
        at: usize,
        /// Bytes missing.
        wanted: usize,
    },
    /// A number has too many bytes, a text is not UTF-8, a tag is unknown.
    #[error("byte {at}: {what}")]
    Invalid {
        /// Offset of the value.
        at: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A version that this program does not know.
    #[error("format version {found}, this program knows versions up to {known}")]
    Version {
        /// The version read.
        found: u8,
        /// The newest one known.
        known: u8,
    },
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Error::damage(error.to_string())
    }
}

impl<'a> Decoder<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads from the start of `bytes`, whose first byte must be a version from 1 to `known`.
    pub fn versioned(bytes: &'a [u8], known: u8) -> Result<(Self, u8), DecodeError> {
        let mut decoder = Self::new(bytes);
        let found = decoder.u8()?;
        if found == 0 || found > known {
            return Err(DecodeError::Version { found, known });
        }
        Ok((decoder, found))
    }

    /// The next `count` bytes.
    pub fn raw(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(DecodeError::Short { at: self.bytes.len(), wanted: count - rest.len() });
        };
        self.at += count;
        Ok(taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// One to ten bytes.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Invalid { at: start, what: "a number of more than 64 bits" })
    }

    /// A signed number.
    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.at;
        let len = usize::try_from(self.varint()?)
            .map_err(|_| DecodeError::Invalid { at: start, what: "a length beyond memory" })?;
        self.raw(len)
    }

    /// A length and that many bytes of UTF-8.
    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        let start = self.at;
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| DecodeError::Invalid { at: start, what: "a text that is not UTF-8" })
    }

    /// A varint that says how many values of at least `min_bytes` each follow.
    pub fn count(&mut self, min_bytes: usize) -> Result<usize, DecodeError> {
        let start = self.at;
        let count = self.varint()?;
        let most = self.rest().len() / min_bytes.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(DecodeError::Invalid { at: start, what: "a count beyond the bytes that follow" }),
        }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Fails unless everything was read.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        Err(DecodeError::Invalid { at: self.at, what: "bytes behind the value" })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let raw = self.raw(N)?;
        let mut array = [0; N];
        array.copy_from_slice(raw);
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back(a: u64, b: i64, c: u32, text: String, raw: Vec<u8>) {
            let bytes = Encoder::versioned(1).varint(a).signed(b).u32(c).u64(a).str(&text).bytes(&raw).finish();
            let (mut d, version) = Decoder::versioned(&bytes, 1).unwrap();
            prop_assert_eq!(version, 1);
            prop_assert_eq!(d.varint().unwrap(), a);
            prop_assert_eq!(d.signed().unwrap(), b);
            prop_assert_eq!(d.u32().unwrap(), c);
            prop_assert_eq!(d.u64().unwrap(), a);
            prop_assert_eq!(d.str().unwrap(), text);
            prop_assert_eq!(d.bytes().unwrap(), raw);
            d.finish().unwrap();
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut d = Decoder::new(&bytes);
            let _ = d.varint();
            let _ = d.count(3);
            let _ = d.str();
            let _ = d.signed();
            let _ = d.u64();
        }
    }

    #[test]
    fn a_newer_version_is_refused() {
        assert_eq!(Decoder::versioned(&[2], 1).unwrap_err(), DecodeError::Version { found: 2, known: 1 });
    }
}
