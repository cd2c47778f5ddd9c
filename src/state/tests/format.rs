//! The bytes of entries: stable, versioned, and safe to read whatever they are.

use proptest::prelude::*;

use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::state::Voids;
use crate::state::entry::Entry;
use crate::state::entry::Found;
use crate::state::entry::Items;
use crate::stream::Lsn;

#[test]
fn each_kind_of_entry_has_the_bytes_of_version_1() {
    let mut buffer = Vec::new();
    let several = Items::several([&b"x"[..], b"", b"yz"], &mut buffer);
    let cases: [(Entry<'_>, &[u8]); 6] = [
        (Entry::Put { key: b"k", value: b"vv" }, b"\x01\x01\x07\x01kvv"),
        (Entry::Remove { key: b"k" }, b"\x01\x02\x07k"),
        (
            Entry::Push { list: b"li", life: 3, first: 300, items: Items::one(b"x") },
            b"\x01\x03\x07\x02li\x03\xac\x02\x01x",
        ),
        (
            Entry::Push { list: b"li", life: 3, first: 300, items: several },
            b"\x01\x03\x07\x02li\x03\xac\x02\x03\x01x\x00\x02yz",
        ),
        (Entry::Clear { list: b"li", life: 3, first: 5 }, b"\x01\x04\x07\x02li\x03\x05"),
        (Entry::Drop { list: b"li", life: 3 }, b"\x01\x05\x07\x02li\x03"),
    ];
    for (entry, bytes) in cases {
        assert_eq!(entry.encode(7), bytes);
        assert_eq!(Entry::decode(bytes).unwrap(), Found::State(7, entry));
    }
}

#[test]
fn an_entry_of_a_newer_version_or_unknown_kind_is_refused() {
    assert!(Entry::decode(b"\x02\x01\x07\x01kvv").is_err());
    assert!(Entry::decode(b"\x01\x06\x07").is_err());
    assert!(Entry::decode(b"").is_err());
    assert!(Entry::decode(b"\x01\x03\x07\x02li\x03\x00\x00").is_err(), "no items");
    assert!(Entry::decode(b"\x01\x03\x07\x02li\x03\x00\x02\x01x").is_err(), "one of two items");
    assert!(Entry::decode(b"\x01\x03\x07\x02li\x03\x00\x02\x01x\x00y").is_err(), "bytes behind the items");
}

#[test]
fn an_entry_of_another_room_is_passed_over_whatever_its_version() {
    assert_eq!(Entry::decode(b"\x09\x10anything").unwrap(), Found::Foreign);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>) {
        let _ = Entry::decode(&bytes);
        let _ = Voids::decode(&mut Decoder::new(&bytes));
        let mut state = vec![1, bytes.first().copied().unwrap_or_default() % 7];
        state.extend(bytes);
        let _ = Entry::decode(&state);
    }

    #[test]
    fn void_ranges_hold_exactly_what_was_inserted(ranges in prop::collection::vec((0_u64..50, 0_u64..20), 0..12), floor in 0_u64..80) {
        let mut voids = Voids::default();
        for (from, len) in &ranges {
            voids.insert(Lsn(*from), Lsn(from + len));
        }
        for at in 0..80 {
            let within = ranges.iter().any(|(from, len)| (*from..from + len).contains(&at));
            prop_assert_eq!(voids.contains(Lsn(at)), within);
        }
        let mut e = Encoder::new();
        voids.encode(&mut e);
        let bytes = e.finish();
        prop_assert_eq!(&Voids::decode(&mut Decoder::new(&bytes)).unwrap(), &voids);
        let mut pruned = voids.clone();
        pruned.prune_below(Lsn(floor));
        for at in floor..80 {
            prop_assert_eq!(pruned.contains(Lsn(at)), voids.contains(Lsn(at)));
        }
    }
}
