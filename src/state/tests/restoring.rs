//! Entries that cannot follow each other are damage, one rule each.

use crate::error::ErrorKind;
use crate::state::Snapshot;
use crate::state::entry::Entry;
use crate::state::entry::Items;
use crate::state::index::Index;
use crate::state::index::Place;
use crate::state::restore::Restore;
use crate::stream::Lsn;
use crate::stream::TaskId;

const LIST: &[u8] = b"l";

/// Applies entries at 10, 20 and so on; the floor is the first of those that `live` names.
fn restored(entries: &[Entry<'_>], floor: u64) -> Result<Index, ErrorKind> {
    let mut restore = Restore::default();
    for (at, entry) in (10..).step_by(10).zip(entries) {
        restore.apply(Place { lsn: Lsn(at), bytes: 1 }, *entry).map_err(|error| error.kind())?;
    }
    let snapshot = Snapshot { lsn: Lsn(1000), floor: Lsn(floor) };
    restore.finish(&TaskId::new("sink"), snapshot).map_err(|error| error.kind())
}

fn items(first: u64, count: usize) -> Entry<'static> {
    let buffer: &'static mut Vec<u8> = Box::leak(Box::default());
    Entry::Push { list: LIST, life: 0, first, items: Items::several(vec![&b"x"[..]; count], buffer) }
}

fn clear(first: u64) -> Entry<'static> {
    Entry::Clear { list: LIST, life: 0, first }
}

#[test]
fn old_items_that_were_written_again_replace_what_they_hold() {
    let index = restored(&[items(0, 2), items(2, 3), items(5, 1), items(0, 5)], 30).unwrap();
    assert_eq!(index.range(LIST), 0..6);
    assert_eq!(index.live.len(), 2);
    // Cleared in the middle of an entry, then written again without what was cleared.
    let index = restored(&[items(0, 4), items(4, 1), clear(2), items(2, 2)], 20).unwrap();
    assert_eq!(index.range(LIST), 2..5);
    // What lies below the floor was written again above it, out of order.
    let index = restored(&[items(4, 2), clear(1), items(1, 3)], 10).unwrap();
    assert_eq!(index.range(LIST), 1..6);
}

#[test]
fn entries_that_contradict_each_other_are_damage() {
    let other_life = |life| Entry::Push { list: LIST, life, first: 0, items: Items::one(b"x") };
    let cases: [(&str, &[Entry<'_>], u64); 7] = [
        ("part of an older entry", &[items(0, 4), items(2, 4)], 20),
        ("the first part of an older entry", &[items(0, 4), items(0, 2)], 20),
        ("an item below a clear", &[items(0, 4), clear(3), items(2, 1)], 10),
        ("a clear below a clear", &[items(0, 4), clear(3), clear(2)], 10),
        ("a life that is over", &[other_life(1), other_life(0)], 10),
        ("a gap", &[items(0, 2), items(3, 1)], 10),
        ("a gap behind a clear", &[clear(3), items(4, 1)], 20),
    ];
    for (what, entries, floor) in cases {
        assert_eq!(restored(entries, floor).err(), Some(ErrorKind::Damage), "{what}");
    }
}

#[test]
fn another_oldest_entry_than_the_snapshot_says_is_damage() {
    assert!(restored(&[items(0, 1)], 10).is_ok());
    assert_eq!(restored(&[items(0, 1)], 9).err(), Some(ErrorKind::Damage));
    assert_eq!(
        restored(&[items(0, 1), Entry::Drop { list: LIST, life: 0 }], 10).err(),
        Some(ErrorKind::Damage)
    );
    assert!(restored(&[items(0, 1), Entry::Drop { list: LIST, life: 0 }], 1000).is_ok());
}
