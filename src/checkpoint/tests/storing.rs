//! The store on a log: starts, completions, crashes between any two of them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;

use crate::checkpoint::CheckpointSettings;
use crate::checkpoint::CheckpointStore;
use crate::checkpoint::CompletionKind;
use crate::checkpoint::CompletionRecord;
use crate::checkpoint::Fingerprint;
use crate::checkpoint::JobStart;
use crate::checkpoint::Started;
use crate::checkpoint::TaskRecord;
use crate::checkpoint::WriteError;
use crate::checkpoint::inspect;
use crate::error::ErrorKind;
use crate::state::Journal;
use crate::state::JournalReader;
use crate::state::MemoryJournal;
use crate::state::State;
use crate::state::StateSettings;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Lsn;
use crate::stream::TaskId;

const TASKS: [&str; 2] = ["source", "sink"];

pub(super) fn job(lineage: u32) -> JobStart {
    JobStart {
        lineage_if_new: Lineage(lineage),
        job: "clicks".to_owned(),
        source: "file in/*.ndjson".to_owned(),
        sink: "file out".to_owned(),
        tasks: TASKS.map(TaskId::new).to_vec(),
        abandoned: Vec::new(),
        at: Timestamp::UNIX_EPOCH,
    }
}

pub(super) fn small() -> CheckpointSettings {
    CheckpointSettings {
        retain: 2,
        state: StateSettings { rewrite_log_bytes_min: 3000, rewrite_bytes_min: 1 },
    }
}

fn open(journal: &MemoryJournal) -> CheckpointStore {
    CheckpointStore::open(Arc::new(journal.clone()), small()).unwrap()
}

/// Snapshots of all tasks, as a coordinator puts them together.
pub(super) fn record_of(
    started: &Started,
    states: &mut [State],
    epoch: Epoch,
) -> crate::Result<CompletionRecord> {
    let snapshots = states.iter_mut().map(|state| {
        let snapshot = state.snapshot()?;
        Ok((state.task().clone(), TaskRecord { snapshot, ended: false }))
    });
    Ok(CompletionRecord {
        epoch,
        incarnation: started.incarnation,
        kind: CompletionKind::Checkpoint,
        fingerprint: Fingerprint(1),
        tasks: snapshots.collect::<crate::Result<_>>()?,
    })
}

/// A started job, with its states.
struct Run {
    store: CheckpointStore,
    started: Started,
    states: Vec<State>,
    next: Epoch,
}

impl Run {
    fn on(store: CheckpointStore) -> Self {
        let mut started = store.start(job(1)).unwrap();
        let states = TASKS.map(|name| started.states.take(&TaskId::new(name)).unwrap()).into();
        let next = started.next_epoch();
        Self { store, started, states, next }
    }

    fn new(journal: &MemoryJournal) -> Self {
        Self::on(open(journal))
    }

    fn restored(&self) -> Option<Epoch> {
        self.started.restored.as_ref().map(|restored| restored.completed.epoch())
    }

    fn record(&mut self) -> CompletionRecord {
        let epoch = self.next;
        self.next = epoch.next();
        record_of(&self.started, &mut self.states, epoch).unwrap()
    }

    fn checkpoint(&mut self) -> Epoch {
        let record = self.record();
        self.store.write(record, Timestamp::UNIX_EPOCH).unwrap().epoch()
    }
}

#[test]
fn a_start_goes_on_from_the_newest_checkpoint_with_a_higher_incarnation_and_the_same_lineage() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    assert_eq!(run.started.incarnation, Incarnation(1));
    assert_eq!(run.restored(), None);
    run.states[1].put(b"a", b"1");
    assert_eq!(run.checkpoint(), Epoch(1));
    run.states[1].put(b"a", b"2");
    assert_eq!(run.checkpoint(), Epoch(2));
    let store = CheckpointStore::open(Arc::new(journal.reopened(false)), small()).unwrap();
    let started = store.start(JobStart { lineage_if_new: Lineage(9), ..job(1) }).unwrap();
    assert_eq!(started.incarnation, Incarnation(2));
    assert_eq!(started.lineage, Lineage(1));
    assert_eq!(started.next_epoch(), Epoch(3));
    let restored = started.restored.unwrap();
    assert_eq!(restored.completed.epoch(), Epoch(2));
    assert_eq!(restored.record.incarnation, Incarnation(2));
    // The record is repeated behind the start that goes on from it, and both are durable.
    assert_eq!(store.latest().unwrap().record, restored.record);
    let mut states = started.states;
    let state = states.take(&TaskId::new("sink")).unwrap();
    assert_eq!(state.get(b"a").unwrap().unwrap(), b"2");
}

#[test]
fn the_restored_record_lies_behind_its_start_record_again_and_is_durable() {
    let journal = MemoryJournal::new();
    Run::new(&journal).checkpoint();
    let end = journal.end();
    Run::new(&journal);
    let latest = open(&journal.reopened(false)).latest().unwrap();
    assert!(latest.at > end);
    assert_eq!(latest.record.incarnation, Incarnation(2));
}

#[test]
fn what_an_earlier_run_gave_up_is_not_offered_by_one_that_retains_more() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    for _ in 0..6 {
        // The record of a checkpoint lies above what the next one needs, its floor below.
        let index = run.states[0].push(b"rows", &[1; 2 << 20]).unwrap();
        run.states[0].clear_before(b"rows", index.saturating_sub(1));
        run.checkpoint();
    }
    let more = CheckpointSettings { retain: 10, ..small() };
    let store = CheckpointStore::open(Arc::new(journal.clone()), more).unwrap();
    let reader: Arc<dyn JournalReader> = Arc::new(journal);
    let inspection = inspect(reader).unwrap();
    let epochs: Vec<_> = store.retained().iter().map(|checkpoint| checkpoint.record.epoch.0).collect();
    assert_eq!(epochs, [5, 6]);
    for checkpoint in store.retained() {
        inspection.states(checkpoint.record.epoch).unwrap();
    }
}

#[test]
fn incarnations_grow_though_no_checkpoint_ever_completes_and_the_start_record_does_not() {
    let journal = MemoryJournal::new();
    for incarnation in 1..=20 {
        let before = journal.appended_bytes();
        let mut run = Run::new(&journal);
        assert_eq!(run.started.incarnation, Incarnation(incarnation));
        assert!(journal.appended_bytes() - before < 200);
        run.states[0].put(b"a", b"1");
        run.record();
    }
}

#[test]
fn restarts_between_two_checkpoints_keep_one_void_range() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.states[0].put(b"a", b"1");
    run.checkpoint();
    for _ in 0..10 {
        let mut run = Run::new(&journal);
        run.states[0].put(b"a", b"2");
        run.record();
    }
    let start = open(&journal).newest_start().unwrap();
    assert!(start.voids.values().all(|voids| voids.ranges().len() == 1), "{start:?}");
}

#[test]
fn a_record_whose_sync_failed_is_complete_or_not_as_the_opened_log_says() {
    for all in [true, false] {
        let journal = MemoryJournal::new();
        let mut run = Run::new(&journal);
        run.states[1].put(b"a", b"1");
        run.checkpoint();
        run.states[1].put(b"a", b"2");
        let record = run.record();
        journal.fail_next_sync();
        let error = run.store.write(record, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(matches!(error, WriteError::Uncertain(_)), "{error:?}");
        assert_eq!(crate::Error::from(error).kind(), ErrorKind::Retry);
        // The log takes nothing more until it is opened again.
        assert_eq!(run.store.start(job(1)).unwrap_err().kind(), ErrorKind::Retry);
        let run = Run::new(&journal.reopened(all));
        assert_eq!(run.restored(), Some(Epoch(if all { 2 } else { 1 })));
        let value = if all { b"2" } else { b"1" };
        assert_eq!(run.states[1].get(b"a").unwrap().unwrap(), value);
    }
}

#[test]
fn a_full_log_refuses_a_record_and_the_epoch_after_it_completes() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.states[1].put(b"a", b"1");
    let record = run.record();
    journal.set_full(true);
    let error = run.store.write(record, Timestamp::UNIX_EPOCH).unwrap_err();
    let WriteError::NotWritten(error) = error else { panic!("{error:?}") };
    assert!(crate::state::is_out_of_room(&error));
    journal.set_full(false);
    assert_eq!(run.checkpoint(), Epoch(2));
    let run = Run::new(&journal.reopened(false));
    assert_eq!(run.restored(), Some(Epoch(2)));
}

#[test]
fn a_former_start_can_neither_write_state_nor_complete() {
    let journal = MemoryJournal::new();
    let mut former = Run::new(&journal);
    former.states[0].put(b"a", b"1");
    let record = former.record();
    let Run { store, states, .. } = former;
    let run = Run::on(store);
    let error = run.store.write(record, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(crate::Error::from(error).kind(), ErrorKind::Fenced);
    for mut state in states {
        state.put(b"b", b"1");
        assert_eq!(state.snapshot().unwrap_err().kind(), ErrorKind::Fenced);
    }
}

#[test]
fn a_job_of_another_source_or_sink_is_refused_and_nothing_is_written() {
    let journal = MemoryJournal::new();
    Run::new(&journal).checkpoint();
    let before = journal.appended_bytes();
    let store = open(&journal);
    for other in [
        JobStart { source: "file elsewhere".to_owned(), ..job(1) },
        JobStart { sink: "file elsewhere".to_owned(), ..job(1) },
        JobStart { tasks: vec![TaskId::new("source")], ..job(1) },
    ] {
        assert_eq!(store.start(other).unwrap_err().kind(), ErrorKind::Usage);
    }
    assert_eq!(journal.appended_bytes(), before);
    let given_up = JobStart {
        tasks: vec![TaskId::new("source"), TaskId::new("new")],
        abandoned: vec![TaskId::new("sink")],
        ..job(1)
    };
    let mut started = store.start(given_up).unwrap();
    assert!(started.states.take(&TaskId::new("new")).unwrap().keys(b"").is_empty());
    assert!(started.states.take(&TaskId::new("sink")).is_err());
    // Numbers never change their task.
    let tasks = store.newest_start().unwrap().tasks;
    assert_eq!(tasks[&TaskId::new("source")], 0);
    assert_eq!(tasks[&TaskId::new("sink")], 1);
    assert_eq!(tasks[&TaskId::new("new")], 2);
}

#[test]
fn a_record_that_is_not_the_next_of_this_start_is_refused() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.checkpoint();
    let good = run.record();
    let write =
        |record| crate::Error::from(run.store.write(record, Timestamp::UNIX_EPOCH).unwrap_err()).kind();
    assert_eq!(write(CompletionRecord { epoch: Epoch(1), ..good.clone() }), ErrorKind::Usage);
    assert_eq!(write(CompletionRecord { epoch: Epoch(0), ..good.clone() }), ErrorKind::Usage);
    assert_eq!(write(CompletionRecord { incarnation: Incarnation(7), ..good.clone() }), ErrorKind::Fenced);
    assert_eq!(write(CompletionRecord { tasks: BTreeMap::new(), ..good.clone() }), ErrorKind::Usage);
    let mut above = good.clone();
    above.tasks.values_mut().for_each(|found| found.snapshot.lsn = Lsn(u64::MAX));
    assert_eq!(write(above), ErrorKind::Usage);
    run.store.write(good, Timestamp::UNIX_EPOCH).unwrap();
}

#[test]
fn a_checkpoint_costs_its_record_when_little_changes_however_much_state_there_is() {
    let costs = [1, 24].map(|buckets| {
        let journal = MemoryJournal::new();
        let settings = CheckpointSettings::default();
        let mut run = Run::on(CheckpointStore::open(Arc::new(journal.clone()), settings).unwrap());
        for bucket in 0..buckets {
            run.states[1].put(format!("bucket/{bucket:02}").as_bytes(), &[1; 800]);
            run.states[1].push(format!("rows/{bucket:02}").as_bytes(), &[2; 8000]).unwrap();
        }
        run.checkpoint();
        let before = journal.appended_bytes();
        run.states[0].put(b"position", b"12345");
        run.checkpoint();
        journal.appended_bytes() - before
    });
    assert!(costs.iter().all(|bytes| *bytes < 300), "{costs:?}");
    assert!(costs[0].abs_diff(costs[1]) < 8, "{costs:?}");
}

#[test]
fn the_log_stays_small_while_a_job_runs_for_long() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.states[0].put(b"never changes", &[1; 100]);
    for round in 0..300_u32 {
        let index = run.states[1].push(b"rows", &[2; 20_000]).unwrap();
        run.states[1].clear_before(b"rows", index);
        run.states[1].put(b"round", &round.to_le_bytes());
        run.checkpoint();
        let log_bytes = journal.end().0 - journal.start().0;
        // What three checkpoints hold, and the start record for its megabyte.
        assert!(log_bytes < 1_300_000, "{log_bytes} in round {round}");
    }
    let run = Run::new(&journal.reopened(false));
    assert_eq!(run.restored(), Some(Epoch(300)));
    assert_eq!(run.states[0].get(b"never changes").unwrap().unwrap(), vec![1; 100]);
    assert_eq!(run.states[1].list(b"rows"), 299..300);
}

#[test]
fn an_item_that_is_read_elsewhere_is_still_there_when_its_checkpoints_are_gone() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.states[1].push(b"rows", &[2; 5000]).unwrap();
    let item = run.states[1].locate(b"rows", 0).unwrap();
    let reader = run.states[1].reader();
    // Enough for the start record to be written again.
    run.states[1].push(b"rows", &[3; 2 << 20]).unwrap();
    run.states[1].clear_before(b"rows", 2);
    for round in 0..10_u8 {
        run.states[1].put(b"round", &[round]);
        run.checkpoint();
    }
    assert_eq!(reader.read(&item).unwrap(), vec![2; 5000]);
    drop(item);
    run.checkpoint();
    assert!(journal.start().0 > 2 << 20);
}

#[test]
fn an_unreadable_or_missing_record_is_damage_and_never_a_step_back() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    run.states[1].put(b"a", b"1");
    run.checkpoint();
    run.checkpoint();
    let reopened = |extra: &[u8]| {
        let journal = journal.reopened(true);
        journal.append(&[extra]).unwrap();
        CheckpointStore::open(Arc::new(journal), small()).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(reopened(b"\x01\x12of a room to come"), Ok(()));
    assert_eq!(reopened(b"\x02\x11a newer version"), Err(ErrorKind::Damage));
    assert_eq!(reopened(b"\x01\x11cut"), Err(ErrorKind::Damage));
    assert_eq!(reopened(b"\x01\x10cut"), Err(ErrorKind::Damage));
    let lost = journal.reopened(true);
    let second = lost.replay(lost.start()).unwrap().nth(1).unwrap().unwrap().at;
    lost.truncate_before(second).unwrap();
    let opened = CheckpointStore::open(Arc::new(lost), small()).map(|_| ()).map_err(|error| error.kind());
    assert_eq!(opened, Err(ErrorKind::Damage));
}

#[test]
fn inspection_shows_the_retained_checkpoints_and_their_states_and_writes_nothing() {
    let journal = MemoryJournal::new();
    let mut run = Run::new(&journal);
    for round in 1..=5_u8 {
        run.states[1].put(b"round", &[round]);
        run.states[1].push(b"rows", &[round; 10]).unwrap();
        run.checkpoint();
    }
    run.states[1].put(b"round", &[99]);
    run.states[1].snapshot().unwrap();
    let before = journal.appended_bytes();
    let reader: Arc<dyn JournalReader> = Arc::new(journal.clone());
    let inspection = inspect(reader).unwrap();
    assert_eq!(inspection.newest_start().unwrap().job, "clicks");
    let epochs: Vec<_> = inspection.checkpoints().map(|checkpoint| checkpoint.record.epoch.0).collect();
    assert!(epochs.ends_with(&[4, 5]), "{epochs:?}");
    for epoch in [4, 5] {
        let states = inspection.states(Epoch(epoch)).unwrap();
        let sink = states.iter().find(|state| state.task().as_str() == "sink").unwrap();
        assert_eq!(sink.get(b"round").unwrap().unwrap(), [epoch as u8]);
        assert_eq!(sink.list(b"rows"), 0..epoch);
    }
    assert_eq!(inspection.states(Epoch(6)).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(journal.appended_bytes(), before);
    let empty: Arc<dyn JournalReader> = Arc::new(MemoryJournal::new());
    assert!(inspect(empty).unwrap().newest_start().is_none());
}

#[derive(Debug, Clone)]
enum Step {
    /// Changes of one task's state: a key, an item, a clear.
    Change { task: usize, key: u8, len: usize },
    /// A checkpoint; how it ends.
    Checkpoint(End),
    /// The end of the attempt, and the next start.
    Restart(Way),
}

#[derive(Debug, Clone, Copy)]
enum End {
    Completes,
    /// Snapshots, but no record.
    Aborted,
    /// The record is appended, the sync fails; then everything appended is found again, or nothing.
    Uncertain {
        all: bool,
    },
}

#[derive(Debug, Clone, Copy)]
enum Way {
    /// The process goes on, the log stays open.
    Within,
    /// The process ended.
    Process,
    /// The power failed.
    Power,
    /// The process ended within a start that was not yet durable, then the power failed.
    Twice,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![3 => 1_usize..60, 1 => 4096_usize..5000];
    let end = prop_oneof![
        6 => Just(End::Completes),
        2 => Just(End::Aborted),
        1 => any::<bool>().prop_map(|all| End::Uncertain { all }),
    ];
    let way = prop_oneof![Just(Way::Within), Just(Way::Process), Just(Way::Power), Just(Way::Twice)];
    let step = prop_oneof![
        10 => (0..2_usize, 0..3_u8, len).prop_map(|(task, key, len)| Step::Change { task, key, len }),
        5 => end.prop_map(Step::Checkpoint),
        2 => way.prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

pub(super) type Model = BTreeMap<u8, (Vec<u8>, u64, Vec<Vec<u8>>)>;

pub(super) fn models_of(states: &[State]) -> Vec<Model> {
    let read = |state: &State| {
        let mut model = Model::new();
        for key in 0..3 {
            let Some(value) = state.get(&[key]).unwrap() else { continue };
            let range = state.list(&[key]);
            let items = range.clone().map(|index| state.item(&[key], index).unwrap()).collect();
            model.insert(key, (value, range.start, items));
        }
        model
    };
    states.iter().map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_start_restores_the_newest_complete_checkpoint_and_its_states(steps in steps()) {
        let mut journal = MemoryJournal::new();
        let mut run = Run::new(&journal);
        let mut models = vec![Model::new(); 2];
        let mut saved: BTreeMap<Epoch, Vec<Model>> = BTreeMap::new();
        let mut acknowledged = None;
        let mut complete = BTreeSet::new();
        let mut counter = 0_u8;
        for step in steps {
            let mut way = None;
            match step {
                Step::Change { task, key, len } => {
                    counter = counter.wrapping_add(1);
                    let item = vec![counter; len];
                    run.states[task].put(&[key], &item);
                    let index = run.states[task].push(&[key], &item).unwrap();
                    let entry = models[task].entry(key).or_default();
                    entry.0 = item.clone();
                    entry.2.push(item);
                    if entry.2.len() > 3 {
                        run.states[task].clear_before(&[key], index);
                        entry.2.drain(..3);
                        entry.1 = index;
                    }
                }
                Step::Checkpoint(end) => {
                    let record = run.record();
                    let epoch = record.epoch;
                    match end {
                        End::Aborted => {}
                        End::Completes => {
                            saved.insert(epoch, models.clone());
                            run.store.write(record, Timestamp::UNIX_EPOCH).unwrap();
                            acknowledged = Some(epoch);
                            complete.insert(epoch);
                        }
                        End::Uncertain { all } => {
                            saved.insert(epoch, models.clone());
                            journal.fail_next_sync();
                            run.store.write(record, Timestamp::UNIX_EPOCH).unwrap_err();
                            way = Some(if all { Way::Process } else { Way::Power });
                        }
                    }
                }
                Step::Restart(with) => way = Some(with),
            }
            let Some(way) = way else { continue };
            let before = run.started.incarnation;
            run = match way {
                Way::Within => Run::on(run.store),
                Way::Process | Way::Power => {
                    journal = journal.reopened(matches!(way, Way::Process));
                    Run::new(&journal)
                }
                Way::Twice => {
                    journal = journal.reopened(true);
                    let unfinished = journal.reopened(true);
                    unfinished.fail_next_sync();
                    open(&unfinished).start(job(1)).unwrap_err();
                    Run::new(&journal)
                }
            };
            prop_assert!(run.started.incarnation > before);
            let restored = run.restored();
            prop_assert!(restored >= acknowledged);
            acknowledged = restored;
            complete.extend(restored);
            models = restored.map_or_else(|| vec![Model::new(); 2], |epoch| saved[&epoch].clone());
            prop_assert_eq!(models_of(&run.states), models.clone());
            saved.retain(|epoch, _| Some(*epoch) <= restored);
        }
        let reader: Arc<dyn JournalReader> = Arc::new(journal.clone());
        let inspection = inspect(reader).unwrap();
        prop_assert_eq!(run.store.retained().len(), complete.len().min(2));
        for checkpoint in run.store.retained() {
            let epoch = checkpoint.record.epoch;
            let views = inspection.states(epoch).unwrap();
            for (at, name) in TASKS.iter().enumerate() {
                let view = views.iter().find(|view| view.task().as_str() == *name).unwrap();
                let keys: Vec<_> = saved[&epoch][at].keys().map(|key| vec![*key]).collect();
                prop_assert_eq!(view.keys(b""), keys);
                for (key, (value, first, items)) in &saved[&epoch][at] {
                    prop_assert_eq!(&view.get(&[*key]).unwrap().unwrap(), value);
                    prop_assert_eq!(view.list(&[*key]), *first..*first + items.len() as u64);
                }
            }
        }
    }
}
