//! Every order of events for a few tasks, and long random ones: the rules hold in all of them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use crate::checkpoint::Action;
use crate::checkpoint::CompletionKind;
use crate::checkpoint::Coordinator;
use crate::checkpoint::Event;
use crate::checkpoint::Refusal;
use crate::checkpoint::Request;
use crate::checkpoint::Role;
use crate::checkpoint::tests::coordinating::job;
use crate::checkpoint::tests::coordinating::ms;
use crate::checkpoint::tests::coordinating::settings;
use crate::checkpoint::tests::coordinating::task;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Epoch;
use crate::stream::Lsn;
use crate::stream::TaskId;

const MEMBERS: [(&str, Role); 3] = [("source", Role::Source), ("map", Role::Operator), ("sink", Role::Sink)];

/// A coordinator with all that a job around it would know, which checks each action.
#[derive(Debug, Clone)]
struct Walk {
    coordinator: Coordinator,
    now: Duration,
    injected: Vec<Barrier>,
    /// The epoch under way.
    open: Option<Epoch>,
    acks: BTreeMap<(TaskId, Epoch), Snapshot>,
    writing: Option<Epoch>,
    /// The record was written or may have been.
    perhaps_complete: BTreeSet<Epoch>,
    completed: Option<(Epoch, CompletionKind)>,
    committed: Option<Epoch>,
    over: bool,
    finished: Option<CompletionKind>,
}

fn snapshot(name: &str, epoch: Epoch) -> Snapshot {
    let lsn = epoch.0 * 100 + name.len() as u64;
    Snapshot { lsn: Lsn(lsn), floor: Lsn(1) }
}

impl Walk {
    fn new() -> Self {
        Self {
            coordinator: Coordinator::new(job(&MEMBERS, None), settings(), ms(0)),
            now: ms(0),
            injected: Vec::new(),
            open: None,
            acks: BTreeMap::new(),
            writing: None,
            perhaps_complete: BTreeSet::new(),
            completed: None,
            committed: None,
            over: false,
            finished: None,
        }
    }

    /// Everything that could happen now, harmless nonsense included.
    fn choices(&self) -> Vec<Event> {
        let mut choices = vec![
            Event::Tick { anything_new: true },
            Event::Tick { anything_new: false },
            Event::Requested { request: Request::Now, anything_new: false },
            Event::Requested { request: Request::Stop, anything_new: false },
            Event::SourceEnded { task: task("source"), anything_new: true },
            Event::RecordWritten { epoch: Epoch(99) },
            Event::RecordRefused { epoch: Epoch(99), refusal: Refusal::Failed("late".to_owned()) },
        ];
        for Barrier { epoch, .. } in self.injected.iter().rev().take(2) {
            choices.push(Event::Acknowledged {
                task: task("stranger"),
                epoch: *epoch,
                snapshot: snapshot("stranger", *epoch),
            });
            for (name, _) in MEMBERS {
                let (task, epoch) = (task(name), *epoch);
                choices.push(Event::Acknowledged {
                    task: task.clone(),
                    epoch,
                    snapshot: snapshot(name, epoch),
                });
                let refusal = Refusal::Failed("busy".to_owned());
                choices.push(Event::Declined { task, epoch, refusal });
            }
        }
        if let Some(epoch) = self.open.filter(|_| self.writing.is_none()) {
            choices.push(Event::RecordWritten { epoch });
        }
        if let Some(epoch) = self.writing {
            choices.push(Event::RecordWritten { epoch });
            choices.push(Event::RecordRefused { epoch, refusal: Refusal::OutOfRoom("full".to_owned()) });
            choices.push(Event::RecordUncertain { epoch, reason: "EIO".to_owned() });
        }
        if let Some((epoch, _)) = self.completed {
            choices.push(Event::Committed { task: task("sink"), epoch });
        }
        choices
    }

    fn deliver(&mut self, event: Event) {
        match &event {
            // Long enough for the interval, and a few of them for the time-out.
            Event::Tick { .. } => self.now += ms(300),
            Event::Acknowledged { task, epoch, snapshot } => {
                self.acks.insert((task.clone(), *epoch), *snapshot);
            }
            Event::RecordWritten { epoch } | Event::RecordUncertain { epoch, .. }
                if self.writing == Some(*epoch) =>
            {
                self.perhaps_complete.insert(*epoch);
            }
            Event::Committed { epoch, .. } => self.committed = Some(*epoch),
            _ => {}
        }
        for action in self.coordinator.on(event.clone(), self.now) {
            assert!(!self.over, "{action:?} after the end");
            self.check(&event, action);
        }
        if let Event::RecordRefused { epoch, .. } | Event::RecordUncertain { epoch, .. } = event {
            self.writing.take_if(|writing| *writing == epoch);
        }
    }

    fn check(&mut self, event: &Event, action: Action) {
        match action {
            Action::InjectBarrier(barrier) => {
                assert!(self.injected.last().is_none_or(|last| last.epoch < barrier.epoch), "K3");
                assert_eq!(self.open, None, "one at a time");
                assert!(
                    self.completed.is_none_or(|(_, kind)| !kind.is_final()),
                    "nothing after the final one"
                );
                self.injected.push(barrier);
                self.open = Some(barrier.epoch);
            }
            Action::WriteRecord(record) => {
                assert_eq!(self.open, Some(record.epoch));
                assert_eq!(self.writing, None);
                let names: Vec<_> = record.tasks.keys().map(TaskId::as_str).collect();
                assert_eq!(names, ["map", "sink", "source"]);
                for (task, found) in &record.tasks {
                    let acked = self.acks.get(&(task.clone(), record.epoch));
                    assert_eq!(acked, Some(&found.snapshot), "K1");
                }
                self.writing = Some(record.epoch);
            }
            Action::NotifyCompleted(epoch) => {
                assert_eq!(*event, Event::RecordWritten { epoch }, "K2");
                assert_eq!(self.writing.take(), Some(epoch));
                assert_eq!(self.open.take(), Some(epoch));
                let barrier = self.injected.iter().find(|barrier| barrier.epoch == epoch).unwrap();
                self.completed = Some((epoch, barrier.kind.into()));
            }
            Action::AbortEpoch { epoch, .. } => {
                assert_eq!(self.open.take(), Some(epoch));
                assert!(!self.perhaps_complete.contains(&epoch), "P6");
                let refused = matches!(event, Event::RecordRefused { .. });
                assert!(self.writing.is_none() || refused, "P6");
            }
            Action::Fail { .. } => self.over = true,
            Action::Finished(kind) => {
                assert!(kind.is_final());
                assert_eq!(self.completed.map(|(_, kind)| kind), Some(kind));
                assert!(self.committed >= self.completed.map(|(epoch, _)| epoch), "committed first");
                self.over = true;
                self.finished = Some(kind);
            }
        }
    }

    /// From now on everything goes well; says how the job ends.
    fn run_to_the_end(&mut self) -> Option<CompletionKind> {
        for _ in 0..100 {
            if self.over {
                break;
            }
            if let Some(epoch) = self.writing {
                self.deliver(Event::RecordWritten { epoch });
            } else if let Some(epoch) = self.open {
                for (name, _) in MEMBERS {
                    let snapshot = snapshot(name, epoch);
                    self.deliver(Event::Acknowledged { task: task(name), epoch, snapshot });
                }
            } else if let Some((epoch, _)) = self.completed.filter(|(epoch, _)| Some(*epoch) > self.committed)
            {
                self.deliver(Event::Committed { task: task("sink"), epoch });
            } else if let Some(at) = self.coordinator.wake_at() {
                self.now = self.now.max(at);
                for action in self.coordinator.on(Event::Tick { anything_new: false }, self.now) {
                    self.check(&Event::Tick { anything_new: false }, action);
                }
            }
        }
        self.finished
    }
}

#[test]
fn the_rules_hold_in_every_order_of_events() {
    let mut seen = HashSet::new();
    let mut level = vec![Walk::new()];
    let mut finished = 0;
    for _ in 0..7 {
        let mut next = Vec::new();
        for walk in &level {
            for event in walk.choices() {
                let mut walk = walk.clone();
                walk.deliver(event);
                finished += usize::from(walk.finished.is_some());
                if !walk.over && seen.insert(format!("{walk:?}")) {
                    next.push(walk);
                }
            }
        }
        // The widest levels are cut: the random walks go deeper.
        let step = next.len().div_ceil(3000).max(1);
        level = next.into_iter().step_by(step).collect();
    }
    assert!(seen.len() > 10_000, "{}", seen.len());
    assert!(finished > 0);
}

#[test]
fn acknowledgements_in_every_order_and_twice_complete_a_checkpoint_once() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        for doubled in 0..3 {
            let mut walk = Walk::new();
            walk.deliver(Event::Tick { anything_new: true });
            let epoch = Epoch(1);
            for at in order {
                assert_eq!(walk.writing, None);
                let name = MEMBERS[at].0;
                for _ in 0..=usize::from(at == doubled) {
                    let snapshot = snapshot(name, epoch);
                    walk.deliver(Event::Acknowledged { task: task(name), epoch, snapshot });
                }
            }
            assert_eq!(walk.writing, Some(epoch));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_job_that_is_told_to_stop_ends_whatever_happened_before(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..60)
    ) {
        let mut walk = Walk::new();
        for pick in picks {
            let choices = walk.choices();
            walk.deliver(choices[pick.index(choices.len())].clone());
        }
        if !walk.over {
            walk.deliver(Event::Requested { request: Request::Stop, anything_new: false });
            let last = walk.run_to_the_end();
            prop_assert!(last.is_some(), "{walk:?}");
            let injected = walk.injected.last().map(|barrier| barrier.kind);
            prop_assert_ne!(injected, Some(BarrierKind::Checkpoint));
        }
    }
}
