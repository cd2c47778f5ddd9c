//! What the state promises beyond being a map: cost, memory, room, and readers.

use std::sync::Arc;

use crate::error::ErrorKind;
use crate::state::Journal;
use crate::state::JournalReader;
use crate::state::MemoryJournal;
use crate::state::PlannedTask;
use crate::state::RestorePlan;
use crate::state::Snapshot;
use crate::state::State;
use crate::state::StateBackend;
use crate::state::StateSettings;
use crate::state::Voids;
use crate::state::is_out_of_room;
use crate::state::reader::ItemPlace;
use crate::stream::Lsn;
use crate::stream::TaskId;

fn plan(snapshot: Option<Snapshot>, voids: Voids) -> RestorePlan {
    RestorePlan { tasks: vec![PlannedTask { task: TaskId::new("sink"), number: 0, snapshot, voids }] }
}

fn state_on(journal: &MemoryJournal, rewrite_log_bytes_min: u64) -> State {
    let journal: Arc<dyn Journal> = Arc::new(journal.clone());
    let settings = StateSettings { rewrite_log_bytes_min, ..StateSettings::default() };
    let mut backend = StateBackend::open(journal, plan(None, Voids::default()), settings).unwrap();
    backend.take(&TaskId::new("sink")).unwrap()
}

#[test]
fn a_snapshot_with_nothing_new_appends_nothing() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    state.put(b"a", b"1");
    state.push(b"l", b"item").unwrap();
    state.snapshot().unwrap();
    let before = journal.appended_bytes();
    state.put(b"a", b"1");
    state.put(b"new", b"2");
    state.remove(b"new");
    state.clear_before(b"l", 0);
    state.drop_list(b"none");
    let snapshot = state.snapshot().unwrap();
    assert_eq!(journal.appended_bytes(), before);
    assert_eq!(snapshot.lsn, journal.end());
}

#[test]
fn a_snapshot_costs_what_changed_and_not_what_there_is() {
    let costs = [1, 24].map(|buckets| {
        let journal = MemoryJournal::new();
        let mut state = state_on(&journal, 1 << 20);
        for bucket in 0..buckets {
            state.put(format!("bucket/{bucket:02}").as_bytes(), &[7; 500]);
        }
        state.snapshot().unwrap();
        let before = journal.appended_bytes();
        state.put(b"bucket/00", &[8; 500]);
        state.snapshot().unwrap();
        journal.appended_bytes() - before
    });
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0] < 600, "{costs:?}");
}

#[test]
fn a_key_changed_many_times_is_logged_once() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    for value in 0..100_u8 {
        state.put(b"position", &[value]);
    }
    state.snapshot().unwrap();
    assert_eq!(journal.entries(), 1);
}

#[test]
fn large_items_leave_memory_when_they_are_pushed() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    state.push(b"l", &[1; 4096]).unwrap();
    assert_eq!(state.stats().waiting_bytes, 0);
    assert!(journal.appended_bytes() >= 4096);
    state.push(b"l", &[2; 4095]).unwrap();
    assert_eq!(state.stats().waiting_bytes, 4095);
}

#[test]
fn small_items_that_wait_are_bounded() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 30);
    for _ in 0..3000 {
        state.push(b"l", &[3; 1000]).unwrap();
        assert!(state.stats().waiting_bytes <= 1 << 20);
    }
    let snapshot = state.snapshot().unwrap();
    let state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.list(b"l"), 0..3000);
    assert_eq!(state.item(b"l", 2999).unwrap(), vec![3; 1000]);
}

#[test]
fn an_index_is_not_used_again_after_all_items_are_gone_and_a_restart() {
    let mut state = State::in_memory(TaskId::new("sink"));
    state.push(b"l", b"0").unwrap();
    state.push(b"l", b"1").unwrap();
    state.clear_before(b"l", 2);
    let snapshot = state.snapshot().unwrap();
    let mut state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.list(b"l"), 2..2);
    assert_eq!(state.push(b"l", b"2").unwrap(), 2);
}

#[test]
fn a_list_made_again_begins_at_zero_and_keeps_nothing_of_the_old_one() {
    let mut state = State::in_memory(TaskId::new("sink"));
    for _ in 0..3 {
        state.push(b"l", &[1; 5000]).unwrap();
    }
    let before = state.snapshot().unwrap();
    state.drop_list(b"l");
    // It is in the log before the drop is.
    assert_eq!(state.push(b"l", &[2; 5000]).unwrap(), 0);
    let after = state.snapshot().unwrap();
    let state = state.restarted_from(after).unwrap();
    assert_eq!(state.list(b"l"), 0..1);
    assert_eq!(state.item(b"l", 0).unwrap(), vec![2; 5000]);
    let state = state.restarted_from(before).unwrap();
    assert_eq!(state.list(b"l"), 0..3);
}

#[test]
fn a_full_log_refuses_a_snapshot_and_the_next_one_holds_everything() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    state.put(b"a", b"1");
    state.push(b"l", b"x").unwrap();
    journal.set_full(true);
    let error = state.snapshot().unwrap_err();
    assert!(is_out_of_room(&error));
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(is_out_of_room(&state.push(b"l", &[1; 5000]).unwrap_err()));
    assert_eq!(state.list(b"l"), 0..1);
    journal.set_full(false);
    state.put(b"b", b"2");
    let snapshot = state.snapshot().unwrap();
    let state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.get(b"a").unwrap().unwrap(), b"1");
    assert_eq!(state.get(b"b").unwrap().unwrap(), b"2");
    assert_eq!(state.item(b"l", 0).unwrap(), b"x");
}

#[test]
fn a_failed_log_is_an_error_that_is_no_lack_of_room() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    journal.fail_next_sync();
    assert!(journal.sync().is_err());
    state.put(b"a", b"1");
    let error = state.snapshot().unwrap_err();
    assert!(!is_out_of_room(&error));
    assert_eq!(error.kind(), ErrorKind::Retry);
}

#[test]
fn what_lies_above_a_restored_snapshot_is_void_at_the_restart_after_the_next() {
    let mut state = State::in_memory(TaskId::new("sink"));
    state.push(b"l", b"kept").unwrap();
    let snapshot = state.snapshot().unwrap();
    // The row is spilled, its checkpoint never completes, and after the restart it comes again (B16).
    state.push(b"l", b"row").unwrap();
    state.snapshot().unwrap();
    let mut state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.push(b"l", b"row").unwrap(), 1);
    let snapshot = state.snapshot().unwrap();
    let state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.list(b"l"), 0..2);
}

#[test]
fn rewriting_lets_the_floor_pass_an_old_value_that_stays() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 10_000);
    state.put(b"old", &[1; 2000]);
    state.push(b"old-list", b"old item").unwrap();
    state.push(b"empty", b"").unwrap();
    state.clear_before(b"empty", 1);
    let first = state.snapshot().unwrap();
    let mut last = first;
    for round in 0..40_u8 {
        state.put(b"new", &[round; 1000]);
        last = state.snapshot().unwrap();
        journal.truncate_before(last.floor).unwrap();
    }
    assert!(last.floor > first.lsn, "{last:?}");
    assert!(state.stats().rewritten_bytes > 0);
    let log_bytes = journal.end().0 - journal.start().0;
    assert!(log_bytes < 15_000, "{log_bytes}");
    let state = state.restarted_from(last).unwrap();
    assert_eq!(state.get(b"old").unwrap().unwrap(), vec![1; 2000]);
    assert_eq!(state.item(b"old-list", 0).unwrap(), b"old item");
    assert_eq!(state.list(b"empty"), 1..1);
    let mut state = state;
    assert_eq!(state.push(b"empty", b"again").unwrap(), 1);
    state.remove(b"old");
    state.drop_list(b"old-list");
    let snapshot = state.snapshot().unwrap();
    let state = state.restarted_from(snapshot).unwrap();
    assert_eq!(state.list(b"empty"), 1..2);
}

#[test]
fn small_items_share_entries_and_old_ones_come_together_when_they_are_rewritten() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 20_000);
    let item = |index: u64| format!("item {index}").into_bytes();
    let (mut next, mut last) = (0, None);
    for round in 0..60_u8 {
        for _ in 0..2 {
            assert_eq!(state.push(b"ledger", &item(next)).unwrap(), next);
            next += 1;
        }
        let before = journal.entries();
        last = Some(state.snapshot().unwrap());
        // Two items are one entry; the clear of the round before is another.
        assert_eq!(journal.entries() - before, 1 + usize::from(round == 41));
        if round == 40 {
            state.clear_before(b"ledger", 3);
        }
    }
    for round in 0..60_u8 {
        state.put(b"other", &[round; 1000]);
        last = Some(state.snapshot().unwrap());
    }
    let last = last.unwrap();
    journal.truncate_before(last.floor).unwrap();
    let state = state.restarted_from(last).unwrap();
    assert_eq!(state.list(b"ledger"), 3..next);
    let read: Vec<_> = state.items(b"ledger", 0).collect::<Result<_, _>>().unwrap();
    assert!(read.into_iter().eq((3..next).map(|index| (index, item(index)))));
    let entries: std::collections::BTreeSet<_> = (3..next)
        .map(|index| match state.locate(b"ledger", index).unwrap().place {
            ItemPlace::Logged(pin) => format!("{pin:?}"),
            ItemPlace::Waiting(_) => panic!("not in the log"),
        })
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[test]
fn entries_below_the_own_floor_are_not_read_though_another_task_needs_that_part_of_the_log() {
    let journal = MemoryJournal::new();
    let dyn_journal: Arc<dyn Journal> = Arc::new(journal.clone());
    let tasks = ["source", "sink"].map(TaskId::new);
    let planned = |number: usize, snapshot, voids| PlannedTask {
        task: tasks[number].clone(),
        number: number as u32,
        snapshot,
        voids,
    };
    let first = RestorePlan { tasks: (0..2).map(|at| planned(at, None, Voids::default())).collect() };
    let mut backend = StateBackend::open(Arc::clone(&dyn_journal), first, StateSettings::default()).unwrap();
    let mut source = backend.take(&tasks[0]).unwrap();
    source.put(b"old", b"1");
    let source = source.snapshot().unwrap();
    let mut sink = backend.take(&tasks[1]).unwrap();
    sink.put(b"void", b"1");
    sink.snapshot().unwrap();
    // A restart before the first checkpoint; the void range is forgotten once the floor has passed it.
    let here = journal.end();
    let plan = RestorePlan {
        tasks: vec![planned(0, Some(source), Voids::default()), planned(1, None, Voids::default())],
    };
    let mut backend = StateBackend::open(Arc::clone(&dyn_journal), plan, StateSettings::default()).unwrap();
    let mut sink = backend.take(&tasks[1]).unwrap();
    sink.put(b"new", b"1");
    let sink = sink.snapshot().unwrap();
    assert!(sink.floor > here);
    let plan = RestorePlan {
        tasks: vec![planned(0, Some(source), Voids::default()), planned(1, Some(sink), Voids::default())],
    };
    let mut backend = StateBackend::open(dyn_journal, plan, StateSettings::default()).unwrap();
    assert_eq!(backend.take(&tasks[1]).unwrap().keys(b""), [b"new"]);
}

#[test]
fn a_log_that_is_mostly_alive_is_not_rewritten() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 10_000);
    for key in 0..100_u8 {
        state.put(&[key], &[key; 500]);
        state.snapshot().unwrap();
    }
    assert_eq!(state.stats().rewritten_bytes, 0);
}

#[test]
fn a_missing_entry_is_damage() {
    let journal = MemoryJournal::new();
    let mut state = state_on(&journal, 1 << 20);
    state.put(b"a", b"1");
    state.put(b"b", b"2");
    let snapshot = state.snapshot().unwrap();
    let open = |snapshot| {
        let journal: Arc<dyn Journal> = Arc::new(journal.clone());
        StateBackend::open(journal, plan(Some(snapshot), Voids::default()), StateSettings::default())
    };
    assert!(open(snapshot).is_ok());
    let later = Snapshot { floor: Lsn(snapshot.floor.0 + 1), ..snapshot };
    assert_eq!(open(later).unwrap_err().kind(), ErrorKind::Damage);
    journal.truncate_before(Lsn(snapshot.floor.0 + 1)).unwrap();
    assert_eq!(open(snapshot).unwrap_err().kind(), ErrorKind::Damage);
}

#[test]
fn a_located_item_is_read_on_another_thread_after_it_was_cleared() {
    let mut state = State::in_memory(TaskId::new("sink"));
    state.push(b"l", &[1; 5000]).unwrap();
    state.push(b"l", b"small").unwrap();
    let items = [0, 1].map(|index| state.locate(b"l", index).unwrap());
    let reader = state.reader();
    state.clear_before(b"l", 2);
    state.snapshot().unwrap();
    let read = std::thread::scope(|scope| {
        scope.spawn(|| items.each_ref().map(|item| reader.read(item).unwrap())).join().unwrap()
    });
    assert_eq!(read, [vec![1; 5000], b"small".to_vec()]);
    assert!(state.locate(b"l", 0).is_none());
}

#[test]
fn an_item_that_is_being_read_holds_the_log() {
    let journal = MemoryJournal::new();
    let dyn_journal: Arc<dyn Journal> = Arc::new(journal.clone());
    let mut backend =
        StateBackend::open(dyn_journal, plan(None, Voids::default()), StateSettings::default()).unwrap();
    let mut state = backend.take(&TaskId::new("sink")).unwrap();
    let guard = backend.guard();
    state.push(b"l", &[1; 5000]).unwrap();
    assert_eq!(guard.oldest_read(), None);
    let item = state.locate(b"l", 0).unwrap();
    let second = item.clone();
    drop(item);
    assert!(guard.oldest_read().is_some());
    drop(second);
    assert_eq!(guard.oldest_read(), None);
}

#[test]
fn a_state_of_a_former_start_may_not_write() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let mut backend =
        StateBackend::open(journal, plan(None, Voids::default()), StateSettings::default()).unwrap();
    let mut state = backend.take(&TaskId::new("sink")).unwrap();
    assert_eq!(backend.take(&TaskId::new("sink")).unwrap_err().kind(), ErrorKind::Usage);
    backend.guard().supersede();
    state.put(b"a", b"1");
    assert_eq!(state.snapshot().unwrap_err().kind(), ErrorKind::Fenced);
}

#[test]
fn values_of_a_kibibyte_and_more_are_read_back() {
    let mut state = State::in_memory(TaskId::new("sink"));
    for len in [0, 1, 1023, 1024, 1025, 5000] {
        state.put(format!("{len}").as_bytes(), &vec![9; len]);
    }
    let snapshot = state.snapshot().unwrap();
    let state = state.restarted_from(snapshot).unwrap();
    for len in [0, 1, 1023, 1024, 1025, 5000] {
        assert_eq!(state.get(format!("{len}").as_bytes()).unwrap().unwrap(), vec![9; len]);
    }
    assert_eq!(state.keys(b"102").len(), 3);
}

#[test]
fn an_item_that_is_not_there_is_named_in_the_error() {
    let state = State::in_memory(TaskId::new("sink"));
    let error = state.item(b"rows\x00", 3).unwrap_err();
    assert!(error.to_string().contains("sink: list `rows\\x00` has no item 3"), "{error}");
}

#[test]
fn states_move_between_threads_and_readers_are_shared_by_them() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync + Clone>() {}
    moves::<State>();
    moves::<StateBackend>();
    is_shared::<crate::state::StateReader>();
    is_shared::<crate::state::ItemRef>();
    is_shared::<crate::state::StateView>();
}
