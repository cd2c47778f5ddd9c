//! State against a plain map: whatever happens, a restored state is the model of its moment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

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
use crate::state::backend::views;
use crate::stream::Lsn;
use crate::stream::TaskId;

const TASKS: [&str; 2] = ["source", "sink"];
const RETAIN: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    Put {
        task: usize,
        key: u8,
        len: usize,
    },
    Remove {
        task: usize,
        key: u8,
    },
    Push {
        task: usize,
        list: u8,
        len: usize,
    },
    Clear {
        task: usize,
        list: u8,
        keep: u64,
    },
    Drop {
        task: usize,
        list: u8,
    },
    /// Both tasks take snapshots; then the checkpoint completes or not.
    /// `ahead`: each task is in the next epoch before the others have taken theirs.
    Checkpoint {
        completes: bool,
        ahead: bool,
    },
    /// One task takes a snapshot that nobody uses.
    Snapshot {
        task: usize,
    },
    /// The process ends (`all`: what was appended is there) or the power fails.
    Restart {
        all: bool,
    },
    /// The log runs full or has room again.
    Full(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let task = 0..TASKS.len();
    let len = prop_oneof![4 => 0_usize..40, 1 => 1000_usize..1100, 1 => 4090_usize..4200];
    let step = prop_oneof![
        6 => (task.clone(), 0..4_u8, len.clone()).prop_map(|(task, key, len)| Step::Put { task, key, len }),
        2 => (task.clone(), 0..4_u8).prop_map(|(task, key)| Step::Remove { task, key }),
        8 => (task.clone(), 0..3_u8, len).prop_map(|(task, list, len)| Step::Push { task, list, len }),
        4 => (task.clone(), 0..3_u8, 0..3_u64).prop_map(|(task, list, keep)| Step::Clear { task, list, keep }),
        1 => (task.clone(), 0..3_u8).prop_map(|(task, list)| Step::Drop { task, list }),
        5 => (prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(completes, ahead)| Step::Checkpoint { completes, ahead }),
        1 => task.prop_map(|task| Step::Snapshot { task }),
        2 => any::<bool>().prop_map(|all| Step::Restart { all }),
        1 => any::<bool>().prop_map(Step::Full),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    lists: BTreeMap<Vec<u8>, (u64, Vec<Vec<u8>>)>,
}

impl Model {
    fn range(&self, list: &[u8]) -> Range<u64> {
        self.lists.get(list).map_or(0..0, |(first, items)| *first..first + items.len() as u64)
    }
}

#[derive(Debug, Clone)]
struct Checkpoint {
    snapshots: Vec<Snapshot>,
    models: Vec<Model>,
    voids: Vec<Voids>,
}

struct World {
    journal: MemoryJournal,
    states: Vec<State>,
    models: Vec<Model>,
    voids: Vec<Voids>,
    /// Completed checkpoints, the newest last.
    completed: Vec<Checkpoint>,
    counter: u8,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            journal: MemoryJournal::new(),
            states: Vec::new(),
            models: Vec::new(),
            voids: vec![Voids::default(); TASKS.len()],
            completed: Vec::new(),
            counter: 0,
        };
        world.start();
        world
    }

    fn plan(&self, checkpoint: Option<&Checkpoint>, voids: &[Voids]) -> RestorePlan {
        let tasks = TASKS.iter().enumerate().map(|(at, name)| PlannedTask {
            task: TaskId::new(*name),
            number: at as u32,
            snapshot: checkpoint.map(|checkpoint| checkpoint.snapshots[at]),
            voids: voids[at].clone(),
        });
        RestorePlan { tasks: tasks.collect() }
    }

    /// As the checkpoint store does it: what lies above the restored snapshots is void first.
    fn start(&mut self) {
        let here = self.journal.end();
        for (at, voids) in self.voids.iter_mut().enumerate() {
            let from = self.completed.last().map_or(Lsn(0), |checkpoint| checkpoint.snapshots[at].lsn);
            voids.insert(from, here);
            let floors = self.completed.iter().map(|checkpoint| checkpoint.snapshots[at].floor);
            voids.prune_below(floors.min().unwrap_or(here));
        }
        let plan = self.plan(self.completed.last(), &self.voids);
        let settings = StateSettings { rewrite_log_bytes_min: 3000, rewrite_bytes_min: 1 };
        let journal: Arc<dyn Journal> = Arc::new(self.journal.clone());
        let mut backend = StateBackend::open(journal, plan, settings).unwrap();
        self.states = TASKS.iter().map(|name| backend.take(&TaskId::new(*name)).unwrap()).collect();
        self.models = match self.completed.last() {
            Some(checkpoint) => checkpoint.models.clone(),
            None => vec![Model::default(); TASKS.len()],
        };
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.counter = self.counter.wrapping_add(1);
        vec![self.counter; len]
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put { task, key, len } => {
                let value = self.bytes(len);
                self.states[task].put(&[key], &value);
                self.models[task].values.insert(vec![key], value);
            }
            Step::Remove { task, key } => {
                self.states[task].remove(&[key]);
                self.models[task].values.remove(&[key][..]);
            }
            Step::Push { task, list, len } => {
                let item = self.bytes(len);
                let next = self.models[task].range(&[list]).end;
                if let Ok(index) = self.states[task].push(&[list], &item) {
                    assert_eq!(index, next);
                    self.models[task].lists.entry(vec![list]).or_default().1.push(item);
                }
            }
            Step::Clear { task, list, keep } => {
                let range = self.models[task].range(&[list]);
                let before = range.end.saturating_sub(keep);
                self.states[task].clear_before(&[list], before);
                if before > range.start {
                    let found = self.models[task].lists.get_mut(&[list][..]).unwrap();
                    found.1.drain(..(before - range.start) as usize);
                    found.0 = before;
                }
            }
            Step::Drop { task, list } => {
                self.states[task].drop_list(&[list]);
                self.models[task].lists.remove(&[list][..]);
            }
            Step::Snapshot { task } => {
                let _refused_when_full = self.states[task].snapshot();
            }
            Step::Checkpoint { completes, ahead } => {
                let mut snapshots = Vec::new();
                let mut models = Vec::new();
                for task in 0..TASKS.len() {
                    let Ok(snapshot) = self.states[task].snapshot() else { return };
                    snapshots.push(snapshot);
                    models.push(self.models[task].clone());
                    if ahead {
                        self.step(&Step::Push { task, list: 0, len: 5000 });
                    }
                }
                if completes {
                    self.journal.sync().unwrap();
                    let voids = self.voids.clone();
                    self.completed.push(Checkpoint { snapshots, models, voids });
                    if self.completed.len() > RETAIN {
                        self.completed.remove(0);
                    }
                    let floors = self.completed.iter().flat_map(|checkpoint| &checkpoint.snapshots);
                    let floor = floors.map(|snapshot| snapshot.floor).min().unwrap();
                    self.journal.truncate_before(floor).unwrap();
                }
            }
            Step::Restart { all } => {
                self.journal = self.journal.reopened(all);
                self.start();
            }
            Step::Full(full) => self.journal.set_full(full),
        }
    }

    fn check(&self) {
        for (state, model) in self.states.iter().zip(&self.models) {
            let keys: Vec<_> = model.values.keys().cloned().collect();
            assert_eq!(state.keys(b""), keys);
            for (key, value) in &model.values {
                assert_eq!(state.get(key).unwrap().as_ref(), Some(value));
            }
            for list in 0..3 {
                let range = model.range(&[list]);
                assert!(state.list(&[list]) == range || range.is_empty() && state.list(&[list]).is_empty());
                let read: Vec<_> = state.items(&[list], range.start + 1).collect::<Result<_, _>>().unwrap();
                let expected =
                    (range.start..).zip(model.lists.get(&[list][..]).map_or(&[][..], |list| &list.1));
                assert!(read.iter().map(|(index, item)| (*index, item)).eq(expected.skip(1)));
                for index in range.clone() {
                    let item = &model.lists[&[list][..]].1[(index - range.start) as usize];
                    assert_eq!(&state.item(&[list], index).unwrap(), item);
                    let found = state.locate(&[list], index).unwrap();
                    assert_eq!(&state.reader().read(&found).unwrap(), item);
                }
            }
        }
    }

    /// Every retained checkpoint can be read, with the voids of its time and with those of now.
    fn check_retained(&self) {
        let journal: Arc<dyn JournalReader> = Arc::new(self.journal.clone());
        for checkpoint in &self.completed {
            for voids in [&checkpoint.voids, &self.voids] {
                for view in views(&journal, self.plan(Some(checkpoint), voids)).unwrap() {
                    let at = TASKS.iter().position(|name| *name == view.task().as_str()).unwrap();
                    let model = &checkpoint.models[at];
                    assert_eq!(view.keys(b""), model.values.keys().cloned().collect::<Vec<_>>());
                    for (key, value) in &model.values {
                        assert_eq!(view.get(key).unwrap().as_ref(), Some(value));
                    }
                    assert_eq!(view.lists(b""), model.lists.keys().cloned().collect::<Vec<_>>());
                    for (list, (first, items)) in &model.lists {
                        assert_eq!(view.list(list), *first..first + items.len() as u64);
                        for (at, item) in items.iter().enumerate() {
                            assert_eq!(&view.item(list, first + at as u64).unwrap(), item);
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_state_is_the_model_of_its_snapshot(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
            if matches!(step, Step::Checkpoint { .. } | Step::Restart { .. }) {
                world.check_retained();
            }
        }
    }
}
