//! Values as folder names (D13).
//!
//! ```text
//!  value                                 folder name behind `field=`
//!  null, empty                           __HIVE_DEFAULT_PARTITION__
//!  __HIVE_DEFAULT_PARTITION__            none: the row is a bad record
//!  bytes A-Z a-z 0-9 _ . -               themselves
//!  any other byte                        %XX, upper case
//!  dots only                             %2E each
//!  more than 200 bytes so far            at most 160 bytes of whole characters, then %2D, then
//!                                        32 digits: FNV-1a (128 bits) of the value
//! ```
//!
//! `=` is escaped, as Hive does: DuckDB takes a table with a folder `v=a=b` for one without partitions.
//!
//! Two values never share a name (B2): `%2D` stands in a cut name only, since `-` itself is never
//! escaped, and readers decode it to a plain `-`. Cut names could meet only where the hash collides;
//! nothing is lost even then, since the file keeps the field (B3).

/// The folder name of null and of the empty text, as Hive, Spark, DuckDB and pyarrow know it.
pub const NULL_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// Longest escaped value that is not cut.
pub(super) const VALUE_BYTES_MAX: usize = 200;
/// What is left of a longer one.
const CUT_BYTES_MAX: usize = 160;
/// Stands before the hash of a cut value, and nowhere else.
const CUT_MARK: &str = "%2D";
const HASH_DIGITS: usize = 32;

const _: () = assert!(CUT_BYTES_MAX + CUT_MARK.len() + HASH_DIGITS <= VALUE_BYTES_MAX);

/// The name for `value`; `None` when the value is the reserved name itself.
pub(super) fn escape(value: &str) -> Option<String> {
    if value.is_empty() {
        return Some(NULL_NAME.to_owned());
    }
    if value == NULL_NAME {
        return None;
    }
    let dots_only = value.bytes().all(|byte| byte == b'.');
    let mut name = String::with_capacity(value.len());
    // Where the part that a cut keeps ends: behind a whole character, so that it decodes to UTF-8.
    let mut kept = 0;
    for character in value.chars() {
        let safe = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        if safe || (character == '.' && !dots_only) {
            name.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                name.push('%');
                name.push(DIGITS[usize::from(byte >> 4)]);
                name.push(DIGITS[usize::from(byte & 15)]);
            }
        }
        if name.len() <= CUT_BYTES_MAX {
            kept = name.len();
        } else if name.len() > VALUE_BYTES_MAX {
            name.truncate(kept);
            name.push_str(CUT_MARK);
            name.push_str(&format!("{:032x}", fnv1a(value.as_bytes())));
            break;
        }
    }
    Some(name)
}

/// The name was cut: the folder does not tell the value.
pub(super) fn is_cut(name: &str) -> bool {
    name.contains(CUT_MARK)
}

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];

/// FNV-1a of 128 bits (Fowler, Noll, Vo): stable for all time and a few lines long. It names, it
/// does not protect.
fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// What a reader makes of a name.
    fn decode(name: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = name.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            if *first == b'%' {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
                rest = &tail[2..];
            } else {
                bytes.push(*first);
                rest = tail;
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    fn values() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ab/.%=\\x00 -]{0,6}",
            "\\.{0,90}",
            "[%0-9A-F]{0,8}",
            "[é日a]{60,240}",
            "x{155,205}",
        ]
    }

    proptest! {
        #[test]
        fn a_name_is_one_folder_and_reads_back_as_its_value(value in values()) {
            let name = escape(&value).unwrap();
            prop_assert!(!name.is_empty() && name.len() <= VALUE_BYTES_MAX);
            prop_assert!(!name.contains(['/', '\0']) && name.chars().any(|c| c != '.'));
            if value.is_empty() {
                prop_assert_eq!(name, NULL_NAME);
            } else if is_cut(&name) {
                let kept = decode(&name);
                let kept = &kept[..kept.len() - HASH_DIGITS - 1];
                prop_assert!(value.starts_with(kept));
            } else {
                prop_assert_eq!(decode(&name), value);
            }
        }

        #[test]
        fn two_values_never_share_a_name(values in prop::collection::hash_set(values(), 0..40)) {
            let mut seen = HashMap::new();
            for value in values {
                let name = escape(&value).unwrap();
                let earlier = seen.insert(name, value.clone());
                prop_assert_eq!(earlier, None, "{:?}", value);
            }
        }
    }

    #[test]
    fn the_reserved_name_is_no_value() {
        assert_eq!(escape(NULL_NAME), None);
        assert_eq!(escape("").as_deref(), Some(NULL_NAME));
    }

    #[test]
    fn the_cases_of_c14_get_these_names() {
        let name = |value: &str| escape(value).unwrap();
        assert_eq!(name("a/b"), "a%2Fb");
        assert_eq!(name("a=b"), "a%3Db");
        assert_eq!(name("100%"), "100%25");
        assert_eq!(name("é"), "%C3%A9");
        assert_eq!(name("日本"), "%E6%97%A5%E6%9C%AC");
        assert_eq!(name(" "), "%20");
        assert_eq!(name("."), "%2E");
        assert_eq!(name(".."), "%2E%2E");
        assert_eq!(name("../../x"), "..%2F..%2Fx");
        assert_eq!(name("a\u{1}"), "a%01");
        assert_eq!(name("a/"), "a%2F");
        assert_eq!(name("007"), "007");
        assert!(is_cut(&name(&"x".repeat(300))));
        assert!(!is_cut(&name(&"x".repeat(200))));
        assert_ne!(name(&"x".repeat(300)), name(&"x".repeat(301)));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
