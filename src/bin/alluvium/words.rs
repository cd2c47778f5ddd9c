//! Numbers as people read them.

/// `12345 rows` as `12,345 rows`, and `1 row`.
pub(crate) fn count(number: u64, what: &str) -> String {
    let number_text = thousands(number);
    match (number, what.strip_suffix("try")) {
        (1, _) => format!("{number_text} {what}"),
        (_, Some(stem)) => format!("{number_text} {stem}tries"),
        _ => format!("{number_text} {what}s"),
    }
}

/// `12345` as `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the unit that leaves few digits.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    // Three digits are shown: what a float loses is not among them.
    let mut value = number as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in UNITS.iter().skip(1) {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if value < 10.0 { format!("{value:.2} {unit}") } else { format!("{value:.1} {unit}") }
}

/// A time in the unit that leaves few digits.
pub(crate) fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_are_grouped_and_words_agree_with_them() {
        assert_eq!(count(0, "row"), "0 rows");
        assert_eq!(count(1, "row"), "1 row");
        assert_eq!(count(999, "row"), "999 rows");
        assert_eq!((count(1, "entry"), count(2, "entry")), ("1 entry".to_owned(), "2 entries".to_owned()));
        assert_eq!(count(1000, "row"), "1,000 rows");
        assert_eq!(count(u64::MAX, "row"), "18,446,744,073,709,551,615 rows");
    }

    #[test]
    fn bytes_and_times_have_few_digits() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(15 << 20), "15.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!(duration(Duration::from_millis(250)), "250 ms");
        assert_eq!(duration(Duration::from_millis(2500)), "2.5 s");
        assert_eq!(duration(Duration::from_secs(150)), "2 min 30 s");
        assert_eq!(duration(Duration::from_secs(7260)), "2 h 1 min");
    }
}
