//! The bytes of both records: stable, versioned, and safe to read whatever they are.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::checkpoint::CompletionKind;
use crate::checkpoint::CompletionRecord;
use crate::checkpoint::Fingerprint;
use crate::checkpoint::StartRecord;
use crate::checkpoint::TaskRecord;
use crate::state::Snapshot;
use crate::state::Voids;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Lsn;
use crate::stream::TaskId;

fn completion() -> CompletionRecord {
    let snapshot = Snapshot { lsn: Lsn(300), floor: Lsn(44) };
    CompletionRecord {
        epoch: Epoch(7),
        incarnation: Incarnation(2),
        kind: CompletionKind::Stop,
        fingerprint: Fingerprint(0x0102_0304_0506_0708),
        tasks: BTreeMap::from([(TaskId::new("sink"), TaskRecord { snapshot, ended: true })]),
    }
}

fn start() -> StartRecord {
    let mut voids = Voids::default();
    voids.insert(Lsn(5), Lsn(9));
    StartRecord {
        incarnation: Incarnation(3),
        lineage: Lineage(0x0a0b_0c0d),
        job: "j".to_owned(),
        source: "in".to_owned(),
        sink: "out".to_owned(),
        at_ms: -1,
        restored: Some(Epoch(7)),
        here: Lsn(9),
        tasks: BTreeMap::from([(TaskId::new("sink"), 1)]),
        voids: BTreeMap::from([(1, voids)]),
    }
}

#[test]
fn a_completion_record_has_the_bytes_of_version_1() {
    let bytes = b"\x01\x11\x07\x02\x01\x08\x07\x06\x05\x04\x03\x02\x01\x02\x01\x04sink\xac\x02\x80\x02\x01";
    assert_eq!(completion().encode(1), bytes);
    assert_eq!(CompletionRecord::decode(bytes).unwrap(), (completion(), 1));
}

#[test]
fn a_start_record_has_the_bytes_of_version_1() {
    let bytes =
        b"\x01\x10\x03\x0d\x0c\x0b\x0a\x09\x01\x07\x01j\x02in\x03out\x01\x01\x04sink\x01\x01\x01\x05\x04";
    assert_eq!(start().encode(), bytes);
    assert_eq!(StartRecord::decode(bytes).unwrap(), start());
}

#[test]
fn a_record_of_a_newer_version_is_refused() {
    let mut bytes = completion().encode(1);
    bytes[0] = 2;
    assert!(CompletionRecord::decode(&bytes).is_err());
    let mut bytes = start().encode();
    bytes[0] = 2;
    assert!(StartRecord::decode(&bytes).is_err());
}

#[test]
fn a_cut_record_is_refused_at_every_byte() {
    let bytes = completion().encode(1);
    for len in 0..bytes.len() {
        assert!(CompletionRecord::decode(&bytes[..len]).is_err());
    }
    let bytes = start().encode();
    for len in 0..bytes.len() {
        assert!(StartRecord::decode(&bytes[..len]).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>, at in 0_usize..64, byte: u8) {
        for head in [&b""[..], b"\x01\x10", b"\x01\x11"] {
            let bytes = [head, &bytes].concat();
            let _ = CompletionRecord::decode(&bytes);
            let _ = StartRecord::decode(&bytes);
        }
        for mut whole in [completion().encode(1), start().encode()] {
            if let Some(place) = whole.get_mut(at) {
                *place = byte;
            }
            let _ = CompletionRecord::decode(&whole);
            let _ = StartRecord::decode(&whole);
        }
    }
}
