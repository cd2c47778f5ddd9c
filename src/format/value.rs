//! What a value means in a type, exactly: nothing is rounded, cut or wrapped without a word.
//!
//! Owns numbers, dates and timestamps, from text and to text. The one rounding is the one that
//! `float32` and `float64` stand for.

use std::fmt::Write as _;

use arrow::datatypes::TimeUnit;

use crate::format::json::Number;

/// `10^0` to `10^38`.
pub(super) const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// The powers of ten that a double holds exactly.
const DOUBLE_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Why a number does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There are digits behind the last place.
    Inexact,
    /// Too large or too small.
    Range,
}

/// `number` as a multiple of `10^-scale`.
pub(super) fn scaled(number: &Number<'_>, scale: i32) -> Result<i128, Misfit> {
    // Digits are counted in a line, which is shorter than an i32 can say, or the cast saturates.
    let fraction = i32::try_from(number.fraction).unwrap_or(i32::MAX);
    let shift = scale.saturating_add(number.exponent).saturating_sub(fraction);
    if number.digits <= 19 {
        // At most 10^19 x 10^18, which an i128 holds.
        if let Some(power) =
            usize::try_from(shift).ok().filter(|shift| *shift <= 18).and_then(|s| POWERS.get(s))
        {
            let size = i128::from(number.mantissa) * power;
            return Ok(if number.negative { -size } else { size });
        }
        // Whole numbers written as `12.0`.
        if let Some(power) = usize::try_from(shift.saturating_neg())
            .ok()
            .filter(|shift| *shift <= 18)
            .and_then(|s| POWERS.get(s))
        {
            let size = i128::from(number.mantissa);
            return match size % power {
                0 if number.negative => Ok(-(size / power)),
                0 => Ok(size / power),
                _ => Err(Misfit::Inexact),
            };
        }
    }
    scaled_slowly(number, shift)
}

#[cold]
fn scaled_slowly(number: &Number<'_>, shift: i32) -> Result<i128, Misfit> {
    let written = number.text.split(['e', 'E']).next().unwrap_or_default();
    let digits: Vec<u8> = written.bytes().filter(u8::is_ascii_digit).collect();
    let (kept, dropped) = match usize::try_from(-i64::from(shift)) {
        Ok(dropped) => digits.split_at(digits.len().saturating_sub(dropped)),
        Err(_) => (digits.as_slice(), [].as_slice()),
    };
    if dropped.iter().any(|digit| *digit != b'0') {
        return Err(Misfit::Inexact);
    }
    let mut size: i128 = 0;
    for digit in kept {
        size = size
            .checked_mul(10)
            .and_then(|s| s.checked_add(i128::from(digit - b'0')))
            .ok_or(Misfit::Range)?;
    }
    if size != 0 && shift > 0 {
        let power = usize::try_from(shift).ok().and_then(|shift| POWERS.get(shift)).ok_or(Misfit::Range)?;
        size = size.checked_mul(*power).ok_or(Misfit::Range)?;
    }
    Ok(if number.negative { -size } else { size })
}

/// `number` as a whole one.
#[inline]
pub(super) fn whole<T: TryFrom<i128>>(number: &Number<'_>) -> Result<T, Misfit> {
    let whole = match (number.digits, number.fraction, number.exponent) {
        (..=19, 0, 0) if number.negative => -i128::from(number.mantissa),
        (..=19, 0, 0) => i128::from(number.mantissa),
        _ => scaled(number, 0)?,
    };
    T::try_from(whole).map_err(|_| Misfit::Range)
}

/// The double nearest to `number`.
#[inline]
pub(super) fn float64(number: &Number<'_>) -> Result<f64, Misfit> {
    // Both operands are exact, so the one operation rounds once, to the nearest (Clinger 1990).
    if number.digits <= 19 && number.mantissa <= 1 << 53 {
        let fraction = i32::try_from(number.fraction).unwrap_or(i32::MAX);
        let exponent = number.exponent.saturating_sub(fraction);
        if let Some(power) = DOUBLE_POWERS.get(exponent.unsigned_abs() as usize) {
            // No more than 2^53, so the cast is exact.
            let size = number.mantissa as f64;
            let size = if exponent < 0 { size / power } else { size * power };
            return Ok(if number.negative { -size } else { size });
        }
    }
    match number.text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(Misfit::Range),
    }
}

/// The float nearest to `number`.
#[inline]
pub(super) fn float32(number: &Number<'_>) -> Result<f32, Misfit> {
    match number.text.parse::<f32>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(Misfit::Range),
    }
}

/// What no number says, as text: `NaN`, `Infinity`, `-Infinity`.
pub(super) fn float_word(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The word that [`float_word`] reads as a value that is not finite.
pub(super) fn float_name(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// Ticks of `unit` in a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    10_i64.pow(fraction_digits(unit))
}

/// Decimal places of a second that `unit` holds.
pub(super) fn fraction_digits(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar (Hinnant, `days_from_civil`).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day (Hinnant, `civil_from_days`).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads digits of a fixed number from the front.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    #[inline]
    fn number(&mut self, count: usize) -> Option<i64> {
        let (front, rest) = self.0.split_at_checked(count)?;
        let mut number = 0;
        for byte in front {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number * 10 + i64::from(digit);
        }
        self.0 = rest;
        Some(number)
    }

    #[inline]
    fn takes(&mut self, any: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        if !any.contains(first) {
            return None;
        }
        self.0 = rest;
        Some(*first)
    }

    /// `-MM-DD` of `year`, in days.
    #[inline]
    fn month_and_day(&mut self, year: i64) -> Option<i64> {
        self.takes(b"-")?;
        let month = self.number(2).filter(|month| (1..=12).contains(month))?;
        self.takes(b"-")?;
        let day = self.number(2).filter(|day| (1..=days_in_month(year, month)).contains(day))?;
        Some(days_from_civil(year, month, day))
    }
}

/// Reads `2026-11-29`; years that have not four digits carry a sign: `+12026-11-29`, `-0044-03-15`.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let mut digits = Digits(text.as_bytes());
    let sign = digits.takes(b"+-");
    let len = digits.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if if sign.is_some() { !(4..=7).contains(&len) } else { len != 4 } {
        return None;
    }
    let year = digits.number(len)?;
    let days = digits.month_and_day(if sign == Some(b'-') { -year } else { year })?;
    i32::try_from(days).ok().filter(|_| digits.0.is_empty())
}

/// The text that [`parse_date`] reads.
pub(super) fn write_date(days: i32, out: &mut String) {
    let (year, month, day) = civil_from_days(i64::from(days));
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Reads a time of RFC 3339 as ticks of `unit` since 1970 in UTC.
///
/// # Errors
///
/// What is wrong, as the end of a sentence that begins with the text.
pub(super) fn parse_timestamp(text: &str, unit: TimeUnit) -> Result<i64, String> {
    let not_a_time = || String::from("is no time of RFC 3339, as in `2026-01-31T12:00:00.5Z`");
    let mut digits = Digits(text.as_bytes());
    let year = digits.number(4).ok_or_else(not_a_time)?;
    let days = digits.month_and_day(year).ok_or_else(not_a_time)?;
    digits.takes(b"Tt ").ok_or_else(not_a_time)?;
    let clock = |digits: &mut Digits<'_>| {
        let hour = digits.number(2).filter(|hour| *hour < 24)?;
        digits.takes(b":")?;
        let minute = digits.number(2).filter(|minute| *minute < 60)?;
        Some(hour * 60 + minute)
    };
    let minutes = clock(&mut digits).ok_or_else(not_a_time)?;
    digits.takes(b":").ok_or_else(not_a_time)?;
    let second = digits.number(2).filter(|second| *second <= 60).ok_or_else(not_a_time)?;
    if second == 60 {
        return Err("is in a leap second, which a timestamp does not hold".into());
    }
    let places = fraction_digits(unit) as usize;
    let mut fraction = 0;
    if digits.takes(b".").is_some() {
        let len = digits.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (written, rest) = digits.0.split_at_checked(len).filter(|_| len > 0).ok_or_else(not_a_time)?;
        digits.0 = rest;
        let (kept, dropped) = written.split_at(places.min(len));
        if dropped.iter().any(|digit| *digit != b'0') {
            return Err(format!("has more than {places} digits of a second, which the unit would cut off"));
        }
        fraction = Digits(kept).number(kept.len()).unwrap_or_default();
        fraction *= 10_i64.pow((places - kept.len()) as u32);
    }
    let offset = match digits.takes(b"Zz+-") {
        None if digits.0.is_empty() => return Err("has no offset from UTC (`Z` or `+01:00`)".into()),
        None => return Err(not_a_time()),
        Some(b'+') => -clock(&mut digits).ok_or_else(not_a_time)?,
        Some(b'-') => clock(&mut digits).ok_or_else(not_a_time)?,
        Some(_) => 0,
    };
    if !digits.0.is_empty() {
        return Err(not_a_time());
    }
    let seconds = days * 86_400 + (minutes + offset) * 60 + second;
    let ticks = i128::from(seconds) * i128::from(per_second(unit)) + i128::from(fraction);
    i64::try_from(ticks).map_err(|_| "is out of the range of its type".into())
}

/// Writes ticks of `unit` as a time of RFC 3339 with the digits that the unit has, in UTC.
///
/// False, and nothing written, when the year has not four digits.
pub(super) fn write_timestamp(ticks: i64, unit: TimeUnit, out: &mut String) -> bool {
    let seconds = ticks.div_euclid(per_second(unit));
    let fraction = ticks.rem_euclid(per_second(unit));
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    if !(0..=9999).contains(&year) {
        return false;
    }
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    let places = fraction_digits(unit) as usize;
    if places > 0 {
        let _ = write!(out, ".{fraction:0places$}");
    }
    out.push('Z');
    true
}

/// Writes `unscaled x 10^-scale` with exactly `scale` digits behind the point.
pub(super) fn write_decimal(unscaled: i128, scale: i8, out: &mut String) {
    let Some(power) = usize::try_from(scale).ok().filter(|s| *s > 0).and_then(|s| POWERS.get(s)) else {
        let _ = write!(out, "{unscaled}");
        return;
    };
    let power = power.unsigned_abs();
    let size = unscaled.unsigned_abs();
    if unscaled < 0 {
        out.push('-');
    }
    let places = usize::from(scale.unsigned_abs());
    let _ = write!(out, "{}.{:0places$}", size / power, size % power);
}

/// Whether decimals of `precision` digits hold `unscaled`.
#[inline]
pub(super) fn fits_precision(unscaled: i128, precision: u8) -> bool {
    POWERS.get(usize::from(precision)).is_some_and(|power| unscaled.unsigned_abs() < power.unsigned_abs())
}
