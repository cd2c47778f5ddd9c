//! Strict JSON text, RFC 8259, on one line.
//!
//! Owns the syntax: a [`Cursor`] that steps over values and gives the spans of strings and the parts of
//! numbers, with an error at the first byte that the grammar refuses. Does not own what a value means
//! (`value`) or which field it belongs to (`ndjson`).
//!
//! Stricter than the RFC's grammar: a line end is no white space; an escape that names half of a
//! surrogate pair is refused, because no text holds it; values nest at most [`DEPTH_MAX`] deep. Nothing
//! here recurses. UTF-8 is the caller's duty (the text is a `str`).

use crate::format::fault::Fault;

/// Objects and arrays inside each other in one record, the record itself included.
pub const DEPTH_MAX: u32 = 128;

/// A place in a text that holds JSON.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    /// Byte offset of what is read next.
    pub(super) at: usize,
}

/// A string between its quotes, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    /// Without the quotes.
    pub(super) raw: &'a str,
    /// Offset of the first escape; the length if there is none. (A `bool` here costs a tenth of the time of
    /// reading: its padding is copied in parts, and the processor waits for the parts to meet.)
    first_escape: usize,
}

/// A number, taken apart: `± mantissa x 10^(exponent - fraction)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    /// As written.
    pub(super) text: &'a str,
    /// There is a minus sign.
    pub(super) negative: bool,
    /// All digits before the exponent as one number; of no use when there are more than 19.
    pub(super) mantissa: u64,
    /// How many digits there are before the exponent, leading zeros included.
    pub(super) digits: usize,
    /// How many of them are behind the point.
    pub(super) fraction: usize,
    /// What is written behind the `e`, or 0; no further from 0 than [`EXPONENT_MAX`].
    pub(super) exponent: i32,
}

/// Exponents beyond are read as this one: every number that has one is 0 or out of any range.
pub(super) const EXPONENT_MAX: i32 = 1_000_000_000;

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// The byte at the cursor; a line end behind the last one.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        match self.text.as_bytes().get(at) {
            Some(byte) => *byte,
            None => b'\n',
        }
    }

    /// The text from `start` to the cursor.
    #[inline]
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Refuses what is at the cursor.
    #[cold]
    pub(super) fn fault(&self, expected: &str) -> Box<Fault> {
        Fault::syntax(self.text, self.at, expected)
    }

    #[cold]
    fn fault_at(&self, at: usize, expected: &str) -> Box<Fault> {
        Fault::syntax(self.text, at, expected)
    }

    /// Steps over blanks.
    #[inline]
    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Steps over `pattern` if it stands here.
    #[inline]
    pub(super) fn takes(&mut self, pattern: &[u8]) -> bool {
        let found = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(pattern));
        if found {
            self.at += pattern.len();
        }
        found
    }

    /// Steps over `null` if it stands here.
    #[inline]
    pub(super) fn takes_null(&mut self) -> bool {
        self.peek() == b'n' && self.takes(b"null")
    }

    /// The cursor is behind the line or the text.
    #[inline]
    pub(super) fn at_end(&self) -> bool {
        self.peek() == b'\n'
    }

    /// Reads the name of a field and steps over the colon and the blanks behind it.
    #[inline]
    pub(super) fn name(&mut self) -> Result<Text<'a>, Box<Fault>> {
        if self.peek() != b'"' {
            return Err(self.fault("the name of a field, in quotes"));
        }
        let name = self.string()?;
        self.blanks();
        if self.peek() != b':' {
            return Err(self.fault("`:` behind the name of the field"));
        }
        self.at += 1;
        self.blanks();
        Ok(name)
    }

    /// Reads a string, whose quote is at the cursor.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'a>, Box<Fault>> {
        let start = self.at + 1;
        let end = plain_end(self.text.as_bytes(), start);
        if self.byte(end) == b'"' {
            self.at = end + 1;
            return Ok(Text {
                raw: self.text.get(start..end).unwrap_or_default(),
                first_escape: end - start,
            });
        }
        self.string_with_escapes(start, end)
    }

    fn string_with_escapes(&mut self, start: usize, mut at: usize) -> Result<Text<'a>, Box<Fault>> {
        let first_escape = at - start;
        loop {
            match self.byte(at) {
                b'"' => {
                    self.at = at + 1;
                    return Ok(Text { raw: self.text.get(start..at).unwrap_or_default(), first_escape });
                }
                b'\\' => at = self.escape(at)?,
                _ => {
                    return Err(
                        self.fault_at(at, "the end of the string (a control character is an escape in it)")
                    );
                }
            }
            at = plain_end(self.text.as_bytes(), at);
        }
    }

    /// Checks the escape at `at` and gives the offset behind it.
    fn escape(&self, at: usize) -> Result<usize, Box<Fault>> {
        match self.byte(at + 1) {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
            b'u' => match self.unit(at)? {
                0xd800..0xdc00 => {
                    let low = self.byte(at + 6) == b'\\' && self.byte(at + 7) == b'u';
                    match low && (0xdc00..0xe000).contains(&self.unit(at + 6)?) {
                        true => Ok(at + 12),
                        false => Err(self.fault_at(at, "a whole surrogate pair")),
                    }
                }
                0xdc00..0xe000 => Err(self.fault_at(at, "a whole surrogate pair")),
                _ => Ok(at + 6),
            },
            _ => Err(self.fault_at(at + 1, "one of `\"\\/bfnrtu` behind `\\`")),
        }
    }

    /// The number of the escape `\uXXXX` at `at`.
    fn unit(&self, at: usize) -> Result<u32, Box<Fault>> {
        let mut unit = 0;
        for i in at + 2..at + 6 {
            let Some(digit) = char::from(self.byte(i)).to_digit(16) else {
                return Err(self.fault_at(i, "a hexadecimal digit"));
            };
            unit = unit << 4 | digit;
        }
        Ok(unit)
    }

    /// Reads a number, whose sign or first digit is at the cursor.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number<'a>, Box<Fault>> {
        self.number_as::<true>()
    }

    /// Reads a number as people write them outside of JSON: `007`, `.5` and `5.` are some.
    pub(super) fn loose_number(&mut self) -> Result<Number<'a>, Box<Fault>> {
        self.number_as::<false>()
    }

    #[inline]
    fn number_as<const STRICT: bool>(&mut self) -> Result<Number<'a>, Box<Fault>> {
        let start = self.at;
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let first = self.at;
        let mut mantissa = self.digits(0);
        let mut digits = self.at - first;
        if STRICT && digits == 0 {
            return Err(self.fault("a digit"));
        }
        if STRICT && digits > 1 && self.byte(first) == b'0' {
            return Err(self.fault_at(first, "a number without leading zeros"));
        }
        let (mut fraction, mut exponent) = (0, 0);
        if self.peek() == b'.' {
            self.at += 1;
            let point = self.at;
            mantissa = self.digits(mantissa);
            fraction = self.at - point;
            if STRICT && fraction == 0 {
                return Err(self.fault("a digit"));
            }
            digits += fraction;
        }
        if !STRICT && digits == 0 {
            return Err(self.fault("a digit"));
        }
        if self.peek() | 0x20 == b'e' {
            self.at += 1;
            exponent = self.exponent()?;
        }
        Ok(Number { text: self.since(start), negative, mantissa, digits, fraction, exponent })
    }

    #[inline]
    fn digits(&mut self, mut mantissa: u64) -> u64 {
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                return mantissa;
            }
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
    }

    fn exponent(&mut self) -> Result<i32, Box<Fault>> {
        let sign = self.peek();
        if matches!(sign, b'-' | b'+') {
            self.at += 1;
        }
        let start = self.at;
        self.digits(0);
        if self.at == start {
            return Err(self.fault("a digit"));
        }
        let size = self.since(start).bytes().fold(0, |size: i32, digit| {
            size.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(EXPONENT_MAX)
        });
        Ok(if sign == b'-' { -size } else { size })
    }

    /// Steps over the value at the cursor, which is `depth` objects and arrays deep.
    pub(super) fn skip(&mut self, depth: u32) -> Result<(), Box<Fault>> {
        // One bit for each open object (1) or array (0), the innermost lowest.
        let mut open: u128 = 0;
        let mut count: u32 = 0;
        loop {
            let begins = match self.peek() {
                b'"' => self.string().map(|_| false)?,
                b'-' | b'0'..=b'9' => self.number().map(|_| false)?,
                b't' if self.takes(b"true") => false,
                b'f' if self.takes(b"false") => false,
                b'n' if self.takes(b"null") => false,
                kind @ (b'{' | b'[') => {
                    if depth + count >= DEPTH_MAX {
                        return Err(self.too_deep());
                    }
                    self.at += 1;
                    open = open << 1 | u128::from(kind == b'{');
                    count += 1;
                    true
                }
                _ => return Err(self.fault("a value")),
            };
            if !self.next_value(begins, &mut open, &mut count)? {
                return Ok(());
            }
        }
    }

    /// Goes from the end of a value, or from the bracket that has just opened (`begins`), to the next
    /// value inside; false when nothing is open any more.
    #[inline]
    fn next_value(&mut self, mut begins: bool, open: &mut u128, count: &mut u32) -> Result<bool, Box<Fault>> {
        while *count > 0 {
            self.blanks();
            let object = *open & 1 == 1;
            let closing = if object { b'}' } else { b']' };
            if self.peek() == closing {
                self.at += 1;
                *open >>= 1;
                *count -= 1;
                begins = false;
                continue;
            }
            if !begins {
                if self.peek() != b',' {
                    return Err(self.fault(if object { "`,` or `}`" } else { "`,` or `]`" }));
                }
                self.at += 1;
                self.blanks();
            }
            if object {
                self.name()?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Refuses one more level.
    #[cold]
    pub(super) fn too_deep(&self) -> Box<Fault> {
        Fault::value(format!("nested deeper than {DEPTH_MAX} levels"))
    }
}

impl<'a> Text<'a> {
    /// The text it stands for, appended to `out`.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        match self.first_escape >= self.raw.len() {
            true => out.extend_from_slice(self.raw.as_bytes()),
            false => unescape(self.raw, out),
        }
    }

    /// The text it stands for; `scratch` holds it if there are escapes.
    pub(super) fn decoded<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s str
    where
        'a: 's,
    {
        if self.first_escape >= self.raw.len() {
            return self.raw;
        }
        scratch.clear();
        unescape(self.raw, scratch);
        std::str::from_utf8(scratch).unwrap_or_default()
    }
}

/// Appends what `raw`, whose escapes [`Cursor::string`] has checked, stands for.
fn unescape(raw: &str, out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let Some(kind) = escape.chars().next() else { return };
        rest = escape.get(kind.len_utf8()..).unwrap_or_default();
        match kind {
            'b' => out.push(0x08),
            'f' => out.push(0x0c),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'u' => {
                let mut code = take_unit(&mut rest, 0);
                if (0xd800..0xdc00).contains(&code) {
                    code = 0x10000 + ((code - 0xd800) << 10) + take_unit(&mut rest, 2).saturating_sub(0xdc00);
                }
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            // `"`, `\` and `/` stand for themselves.
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Takes four hexadecimal digits behind `skip` bytes.
fn take_unit(rest: &mut &str, skip: usize) -> u32 {
    let digits = rest.get(skip..skip + 4).unwrap_or_default();
    *rest = rest.get(skip + 4..).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or_default()
}

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// Offset of the first byte from `at` on that is no plain part of a string: a quote, a backslash, a
/// control character; the length of `bytes` if there is none.
#[inline]
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // The high bit of each byte that is zero (quote, backslash) or below 0x20. A borrow sets wrong
        // bits only above a right one, and the lowest is taken.
        let hits = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let hits = hits & HIGHS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)) {
        at += 1;
    }
    at
}
