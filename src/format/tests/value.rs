use arrow::datatypes::TimeUnit;
use proptest::prelude::*;

use crate::format::json::Cursor;
use crate::format::value::*;

proptest! {
    #[test]
    fn floats_are_read_as_the_standard_library_reads_them(
        text in "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?"
    ) {
        let number = Cursor::new(&text, 0).number().unwrap();
        let wanted: f64 = text.parse().unwrap();
        match float64(&number) {
            Ok(value) => prop_assert_eq!(value.to_bits(), wanted.to_bits()),
            Err(_) => prop_assert!(wanted.is_infinite()),
        }
    }

    #[test]
    fn scaled_numbers_are_exact(
        unscaled in any::<i64>(), scale in 0_i8..18, zeros in 0_usize..30, exponent in -20_i32..20
    ) {
        let mut text = String::new();
        write_decimal(i128::from(unscaled), scale, &mut text);
        if scale > 0 {
            text.push_str(&"0".repeat(zeros));
        }
        text.push_str(&format!("e{exponent}"));
        let number = Cursor::new(&text, 0).number().unwrap();
        let shift = 20 - exponent;
        // unscaled x 10^(exponent - scale) at a scale that always holds it.
        let found = scaled(&number, i32::from(scale) + shift);
        prop_assert_eq!(found, match usize::try_from(20).ok().and_then(|power| POWERS.get(power)) {
            Some(power) => i128::from(unscaled).checked_mul(*power).ok_or(Misfit::Range),
            None => Err(Misfit::Range),
        });
    }

    #[test]
    fn every_timestamp_reads_back(ticks in any::<i64>(), unit in 0..4) {
        let unit = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond][unit as usize];
        let mut text = String::new();
        if write_timestamp(ticks, unit, &mut text) {
            prop_assert_eq!(parse_timestamp(&text, unit), Ok(ticks));
        }
    }

    #[test]
    fn timestamps_agree_with_the_calendar_library(seconds in -62_167_219_200_i64..253_402_300_800, offset in -1439_i64..1440) {
        let wanted = jiff::Timestamp::from_second(seconds);
        let mut text = String::new();
        prop_assert!(write_timestamp(seconds, TimeUnit::Second, &mut text));
        if let Ok(wanted) = wanted {
            prop_assert_eq!(&text, &wanted.to_string());
        }
        // The same clock reading with an offset is that much earlier.
        let sign = if offset < 0 { '-' } else { '+' };
        let text = text.replace('Z', &format!("{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60));
        prop_assert_eq!(parse_timestamp(&text, TimeUnit::Second), Ok(seconds - offset * 60));
    }

    #[test]
    fn every_date_reads_back(days in any::<i32>()) {
        let mut text = String::new();
        write_date(days, &mut text);
        prop_assert_eq!(parse_date(&text), Some(days));
    }
}

#[test]
fn dates_and_times_that_are_none_are_refused() {
    for text in [
        "2024-13-01",
        "2024-00-01",
        "2024-01-32",
        "2023-02-29",
        "24-01-01",
        "12024-01-01",
        "2024-1-1",
        "2024-01-01Z",
        "",
        "-",
        "+24-01-01",
    ] {
        assert_eq!(parse_date(text), None, "{text}");
    }
    assert_eq!(parse_date("1900-02-28").map(|day| day + 1), parse_date("1900-03-01"));
    for text in [
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00+1:00",
        "2024-01-01T00:00:00+01",
        "2024-01-01T00:00:00+24:00",
        "2024-01-01T00:00:00Zx",
        "2024-01-01_00:00:00Z",
        "1700000000",
        "2024-01-01T23:59:60Z",
        "",
    ] {
        assert!(parse_timestamp(text, TimeUnit::Second).is_err(), "{text}");
    }
    assert_eq!(parse_timestamp("2024-01-01 00:00:00.5000z", TimeUnit::Millisecond), Ok(1_704_067_200_500));
    assert!(parse_timestamp("2300-01-01T00:00:00Z", TimeUnit::Nanosecond).unwrap_err().contains("range"));
}

#[test]
fn zeros_behind_the_last_place_are_no_digits() {
    for (text, scale, wanted) in [
        ("-2.0", 0, Ok(-2)),
        ("2.50", 0, Err(Misfit::Inexact)),
        ("-1.230", 2, Ok(-123)),
        ("1.235", 2, Err(Misfit::Inexact)),
        ("-120e-1", 0, Ok(-12)),
        ("-1200000000000000000000000e-23", 0, Ok(-12)),
        ("0.00000000000000000000000000", 2, Ok(0)),
    ] {
        assert_eq!(scaled(&Cursor::new(text, 0).number().unwrap(), scale), wanted, "{text}");
    }
}

#[test]
fn huge_numbers_cost_no_more_than_their_length() {
    let text = format!("0.{}1e{}", "0".repeat(100_000), 100_001);
    let number = Cursor::new(&text, 0).number().unwrap();
    assert_eq!(whole::<i64>(&number), Ok(1));
    for (text, wanted) in [
        ("1e2147483647", Err(Misfit::Range)),
        ("1e-2147483648", Err(Misfit::Inexact)),
        ("0e99999999999999", Ok(0)),
        ("-0", Ok(0)),
        ("170141183460469231731687303715884105728", Err(Misfit::Range)),
    ] {
        let number = Cursor::new(text, 0).number().unwrap();
        assert_eq!(whole::<i64>(&number), wanted, "{text}");
    }
}
