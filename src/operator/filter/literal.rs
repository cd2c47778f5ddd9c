//! Numbers and times as they stand in an expression.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::Decimal128Array;
use arrow::array::Float64Array;
use arrow::array::Int64Array;
use arrow::array::StringArray;
use arrow::datatypes::TimeUnit;
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;

use crate::operator::filter::expr::Kind;

/// The most digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;

/// The number `text` (digits, point, exponent) in the narrowest kind that holds it exactly.
pub(crate) fn number(text: &str, negative: bool) -> Option<(ArrayRef, Kind)> {
    let signed = if negative { format!("-{text}") } else { text.to_owned() };
    if let Ok(int) = signed.parse::<i64>() {
        return Some((Arc::new(Int64Array::from(vec![int])), Kind::Int));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0').len().max(fraction.len()).max(1);
    if let (true, Ok(precision), Ok(scale)) = (plain, u8::try_from(significant), u8::try_from(fraction.len()))
        && precision <= DIGITS_MAX
        && let Ok(unscaled) = digits.parse::<i128>()
    {
        let unscaled = if negative { -unscaled } else { unscaled };
        let array = decimals(vec![Some(unscaled)], scale);
        return Some((Arc::new(array), Kind::Decimal { precision, scale }));
    }
    let float = signed.parse::<f64>().ok().filter(|float| float.is_finite())?;
    Some((Arc::new(Float64Array::from(vec![float + 0.0])), Kind::Float))
}

/// Decimals of 38 digits.
pub(crate) fn decimals(values: Vec<Option<i128>>, scale: u8) -> Decimal128Array {
    let scale = i8::try_from(scale.min(DIGITS_MAX)).unwrap_or(0);
    let array = Decimal128Array::from_iter(values);
    array
        .with_precision_and_scale(DIGITS_MAX, scale)
        .expect("38 digits, and a scale of at most 38, are allowed")
}

/// A string.
pub(crate) fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

/// Why a text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadTime {
    /// Not of any form that is understood.
    Form,
    /// Beyond what the unit can count.
    Range,
}

/// The instant `text` (RFC 3339, or a date, or a date and time, both in UTC) in units that hold it
/// exactly, `at_least` as fine as asked.
pub(crate) fn time(text: &str, at_least: TimeUnit) -> Result<(ArrayRef, TimeUnit), BadTime> {
    let instant = instant(text.trim()).ok_or(BadTime::Form)?;
    let ns = instant.as_nanosecond();
    let fits = |unit: TimeUnit| ns % ns_of(unit) == 0;
    let unit = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond]
        .into_iter()
        .find(|unit| ns_of(*unit) <= ns_of(at_least) && fits(*unit))
        .unwrap_or(TimeUnit::Nanosecond);
    let count = i64::try_from(ns.div_euclid(ns_of(unit))).map_err(|_| BadTime::Range)?;
    Ok((Arc::new(Int64Array::from(vec![count])), unit))
}

/// Nanoseconds in a unit.
pub(crate) fn ns_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    // jiff reads a date and time with an offset as a civil one too, and drops the offset.
    let civil = if text.len() > 10 {
        let time_of_day = text.get(10..).unwrap_or_default();
        if time_of_day.contains(['+', '-', 'Z', 'z', '[']) {
            return None;
        }
        text.parse::<civil::DateTime>().ok()?
    } else {
        text.parse::<civil::Date>().ok()?.to_datetime(civil::Time::midnight())
    };
    TimeZone::UTC.to_timestamp(civil).ok()
}
