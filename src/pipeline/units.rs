//! Sizes and durations as people write them.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::Deserializer;
use serde::de;

/// A number of bytes: `"256MB"` is 256 × 10⁶, `"256MiB"` is 256 × 2²⁰, `"4096B"` and 4096 are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A stretch of time: `"500ms"`, `"10s"`, `"15m"`, `"1h"`, `"2d"`, or several of them (`"1h30m"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

/// A number of things in words: `1 file`, `2 files`.
pub(super) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A number that need not be whole, also as a string, so that it can come from the environment.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Number(pub f64);

/// A whole number, also as a string, so that it can come from the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const TIME_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl ByteSize {
    /// Reads a size.
    ///
    /// # Errors
    ///
    /// Words that say what a size looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let is_broken = unit.starts_with('.');
        let unit = unit.trim();
        let refuse =
            |why: &str| Err(format!("`{text}` is no size{why}; sizes look like \"256MB\" or \"64MiB\""));
        let Ok(number) = number.replace('_', "").parse::<u64>() else {
            return refuse("");
        };
        if is_broken {
            return refuse(": sizes are whole numbers, in a smaller unit where they have to be");
        }
        let Some((_, bytes)) =
            SIZE_UNITS.iter().find(|(name, _)| *name == unit || (unit.is_empty() && *name == "B"))
        else {
            let near = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
            return match near {
                Some((name, _)) => refuse(&format!(": the unit is written `{name}`")),
                None => refuse(&format!(": `{unit}` is no unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)")),
            };
        };
        match number.checked_mul(*bytes) {
            Some(bytes) if i64::try_from(bytes).is_ok() => Ok(Self(bytes)),
            _ => refuse(": it is too large"),
        }
    }
}

impl TimeSpan {
    /// Reads a duration.
    ///
    /// # Errors
    ///
    /// Words that say what a duration looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| {
            format!("`{text}` is no duration{why}; durations look like \"10s\", \"15m\" or \"500ms\"")
        };
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(refuse(""));
        }
        let mut total: u64 = 0;
        let mut smallest = u64::MAX;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let unit = unit.trim();
            let number = number.parse::<u64>().map_err(|_| refuse(""))?;
            if unit.is_empty() {
                return Err(refuse(": the unit is missing (ms, s, m, h, d)"));
            }
            if unit.starts_with('.') {
                return Err(refuse(": durations are whole numbers (1h30m, not 1.5h)"));
            }
            let Some((_, ms)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(refuse(&format!(": `{unit}` is no unit (ms, s, m, h, d)")));
            };
            if *ms >= smallest {
                return Err(refuse(": larger units come first, each once"));
            }
            smallest = *ms;
            total = number
                .checked_mul(*ms)
                .and_then(|ms| total.checked_add(ms))
                .filter(|ms| *ms <= LONGEST_MS)
                .ok_or_else(|| refuse(": it is longer than 100 years"))?;
            rest = tail.trim_start();
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

/// 100 years: what is longer is a slip of the pen, and sums of a few such spans never overflow.
const LONGEST_MS: u64 = 100 * 366 * 86_400_000;

impl fmt::Display for ByteSize {
    /// The largest unit that divides the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, unit): &&(&str, u64)| self.0 != 0 && self.0.is_multiple_of(*unit);
        match SIZE_UNITS.iter().filter(exact).max_by_key(|(_, unit)| *unit) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if ms == 0 {
            return f.write_str("0s");
        }
        for (name, unit) in TIME_UNITS.iter().rev() {
            if ms >= *unit {
                write!(f, "{}{name}", ms / unit)?;
                ms %= unit;
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"256MB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                ByteSize::parse(text).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes)
                    .map(ByteSize)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = TimeSpan;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as \"10s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeSpan, E> {
                TimeSpan::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number such as 1.5")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
                number.map(Number).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                // What a float cannot tell apart is far beyond every limit of such a key.
                Ok(Number(number as f64))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, 0 or more")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Count, E> {
                text.replace('_', "")
                    .parse()
                    .map(Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                u64::try_from(number)
                    .map(Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::ByteSize;
    use super::TimeSpan;
    use std::time::Duration;

    #[test]
    fn decimal_and_binary_units_differ() {
        assert_eq!(ByteSize::parse("256MB").unwrap().0, 256_000_000);
        assert_eq!(ByteSize::parse("256MiB").unwrap().0, 256 << 20);
        assert_eq!(ByteSize::parse("1_000 kB").unwrap().0, 1_000_000);
        assert_eq!(ByteSize::parse("77").unwrap().0, 77);
    }

    #[test]
    fn sizes_that_are_none_are_refused_in_words() {
        for (text, phrase) in [
            ("", "no size"),
            ("MB", "no size"),
            ("1.5GB", "sizes are whole numbers"),
            ("-1MB", "no size"),
            ("256mb", "written `MB`"),
            ("1XB", "no unit"),
            ("99999999999TB", "too large"),
        ] {
            let said = ByteSize::parse(text).unwrap_err();
            assert!(said.contains(phrase), "{text}: {said}");
        }
    }

    #[test]
    fn durations_take_units_from_large_to_small() {
        let ms = |text: &str| TimeSpan::parse(text).unwrap().0;
        assert_eq!(ms("500ms"), Duration::from_millis(500));
        assert_eq!(ms("15m"), Duration::from_secs(900));
        assert_eq!(ms("1h30m"), Duration::from_secs(5400));
        assert_eq!(ms("2d 3h"), Duration::from_secs(51 * 3600));
        for (text, phrase) in [
            ("", "no duration"),
            ("10", "unit is missing"),
            ("5 min", "no unit"),
            ("1.5h", "1h30m, not 1.5h"),
            ("1m1h", "larger units"),
            ("-1s", "no duration"),
            ("1s1s", "each once"),
            ("99999999d", "100 years"),
        ] {
            let said = TimeSpan::parse(text).unwrap_err();
            assert!(said.contains(phrase), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for bytes in [0, 1, 999, 1000, 1024, 256_000_000, 256 << 20, 5 << 40] {
            assert_eq!(ByteSize::parse(&ByteSize(bytes).to_string()).unwrap().0, bytes);
        }
        for ms in [0, 1, 999, 1000, 61_000, 3_600_000, 90_061_001] {
            let span = TimeSpan(Duration::from_millis(ms));
            assert_eq!(TimeSpan::parse(&span.to_string()).unwrap(), span);
        }
    }
}
