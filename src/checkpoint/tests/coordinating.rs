//! What the coordinator does about each kind of event, one story each.

use std::time::Duration;

use crate::checkpoint::Action;
use crate::checkpoint::Compatibility;
use crate::checkpoint::CompletionKind;
use crate::checkpoint::CompletionRecord;
use crate::checkpoint::Coordinator;
use crate::checkpoint::CoordinatorSettings;
use crate::checkpoint::Event;
use crate::checkpoint::Fingerprint;
use crate::checkpoint::Job;
use crate::checkpoint::Member;
use crate::checkpoint::Refusal;
use crate::checkpoint::Request;
use crate::checkpoint::Role;
use crate::checkpoint::decide_fingerprint;
use crate::state::Snapshot;
use crate::stream::Barrier;
use crate::stream::BarrierKind;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lsn;
use crate::stream::TaskId;

pub(super) fn task(name: &str) -> TaskId {
    TaskId::new(name)
}

pub(super) fn job(members: &[(&str, Role)], restored: Option<CompletionKind>) -> Job {
    Job {
        members: members.iter().map(|(name, role)| Member { task: task(name), role: *role }).collect(),
        incarnation: Incarnation(1),
        fingerprint: Fingerprint(1),
        next_epoch: Epoch(1),
        restored,
    }
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn settings() -> CoordinatorSettings {
    CoordinatorSettings { interval: ms(100), timeout: ms(1000), tolerated_failures: 2 }
}

const MEMBERS: [(&str, Role); 2] = [("source", Role::Source), ("sink", Role::Sink)];

/// A coordinator and its time.
struct Stage {
    coordinator: Coordinator,
    now: Duration,
}

impl Stage {
    fn new(restored: Option<CompletionKind>) -> Self {
        Self { coordinator: Coordinator::new(job(&MEMBERS, restored), settings(), ms(0)), now: ms(0) }
    }

    fn on(&mut self, event: Event) -> Vec<Action> {
        self.coordinator.on(event, self.now)
    }

    fn tick_at(&mut self, at: u64, anything_new: bool) -> Vec<Action> {
        self.now = ms(at);
        self.on(Event::Tick { anything_new })
    }

    fn request(&mut self, request: Request) -> Vec<Action> {
        self.on(Event::Requested { request, anything_new: true })
    }

    fn ack(&mut self, name: &str, epoch: u64) -> Vec<Action> {
        self.on(Event::Acknowledged { task: task(name), epoch: Epoch(epoch), snapshot: snapshot(epoch) })
    }

    fn ack_all(&mut self, epoch: u64) -> CompletionRecord {
        assert_eq!(self.ack("source", epoch), []);
        let actions = self.ack("sink", epoch);
        let [Action::WriteRecord(record)] = actions.as_slice() else { panic!("{actions:?}") };
        record.clone()
    }

    fn written(&mut self, epoch: u64) -> Vec<Action> {
        self.on(Event::RecordWritten { epoch: Epoch(epoch) })
    }

    fn committed(&mut self, epoch: u64) -> Vec<Action> {
        self.on(Event::Committed { task: task("sink"), epoch: Epoch(epoch) })
    }

    fn declined(&mut self, name: &str, epoch: u64, refusal: Refusal) -> Vec<Action> {
        self.on(Event::Declined { task: task(name), epoch: Epoch(epoch), refusal })
    }
}

fn snapshot(at: u64) -> Snapshot {
    Snapshot { lsn: Lsn(at * 10), floor: Lsn(at) }
}

fn barrier(epoch: u64, kind: BarrierKind) -> Vec<Action> {
    vec![Action::InjectBarrier(Barrier { epoch: Epoch(epoch), kind })]
}

fn failed() -> Refusal {
    Refusal::Failed("busy".to_owned())
}

#[test]
fn a_checkpoint_goes_from_barrier_to_notice_and_the_next_follows_the_interval() {
    let mut stage = Stage::new(None);
    assert_eq!(stage.coordinator.wake_at(), Some(ms(100)));
    assert_eq!(stage.tick_at(99, true), []);
    assert_eq!(stage.tick_at(100, true), barrier(1, BarrierKind::Checkpoint));
    assert_eq!(stage.coordinator.wake_at(), Some(ms(1100)));
    let record = stage.ack_all(1);
    assert_eq!(record.epoch, Epoch(1));
    assert_eq!(record.kind, CompletionKind::Checkpoint);
    assert!(record.tasks.values().all(|found| !found.ended && found.snapshot == snapshot(1)));
    assert_eq!(stage.coordinator.wake_at(), None);
    assert_eq!(stage.written(1), [Action::NotifyCompleted(Epoch(1))]);
    assert_eq!(stage.coordinator.status().completed, Some(Epoch(1)));
    assert_eq!(stage.coordinator.wake_at(), Some(ms(200)));
    assert_eq!(stage.tick_at(200, true), barrier(2, BarrierKind::Checkpoint));
}

#[test]
fn a_checkpoint_with_nothing_new_is_skipped() {
    let mut stage = Stage::new(None);
    assert_eq!(stage.tick_at(100, false), []);
    assert_eq!(stage.coordinator.wake_at(), Some(ms(200)));
    assert_eq!(stage.tick_at(150, true), []);
    // What was new stays new until a barrier takes it in.
    assert_eq!(stage.tick_at(200, false), barrier(1, BarrierKind::Checkpoint));
}

#[test]
fn a_roll_that_falls_due_has_a_checkpoint_at_once_or_after_the_one_under_way() {
    let mut stage = Stage::new(None);
    assert_eq!(stage.request(Request::Now), barrier(1, BarrierKind::Checkpoint));
    assert_eq!(stage.request(Request::Now), []);
    stage.ack_all(1);
    let mut actions = vec![Action::NotifyCompleted(Epoch(1))];
    actions.extend(barrier(2, BarrierKind::Checkpoint));
    assert_eq!(stage.written(1), actions);
}

#[test]
fn a_checkpoint_that_is_not_acknowledged_in_time_is_carried_into_the_next() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    stage.ack("source", 1);
    assert_eq!(stage.tick_at(1099, false), []);
    let actions = stage.tick_at(1100, false);
    let [Action::AbortEpoch { epoch: Epoch(1), reason }] = actions.as_slice() else { panic!("{actions:?}") };
    assert!(reason.contains("by sink"), "{reason}");
    // Late: the epoch is gone.
    assert_eq!(stage.ack("sink", 1), []);
    // Nothing new came, but what the aborted one held is new still.
    assert_eq!(stage.tick_at(1200, false), barrier(2, BarrierKind::Checkpoint));
    assert_eq!(stage.ack("sink", 1), []);
    assert_eq!(stage.ack_all(2).epoch, Epoch(2));
}

#[test]
fn a_record_that_is_being_written_does_not_time_out() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    stage.ack_all(1);
    assert_eq!(stage.tick_at(9999, true), []);
    assert_eq!(stage.written(1)[0], Action::NotifyCompleted(Epoch(1)));
}

#[test]
fn more_failures_in_a_row_than_tolerated_fail_the_attempt() {
    let mut stage = Stage::new(None);
    for epoch in 1..=3 {
        assert_eq!(stage.tick_at(epoch * 1000, true), barrier(epoch, BarrierKind::Checkpoint));
        let actions = stage.declined("sink", epoch, failed());
        assert_eq!(matches!(actions.last(), Some(Action::Fail { .. })), epoch == 3, "{actions:?}");
    }
    assert_eq!(stage.tick_at(9000, true), []);
}

#[test]
fn a_completed_checkpoint_forgives_earlier_failures() {
    let mut stage = Stage::new(None);
    for epoch in [1, 2, 4, 5] {
        stage.tick_at(epoch * 1000, true);
        assert!(!stage.declined("sink", epoch, failed()).iter().any(|a| matches!(a, Action::Fail { .. })));
        if epoch == 2 {
            stage.tick_at(2500, true);
            stage.ack_all(3);
            stage.written(3);
            assert_eq!(stage.coordinator.status().failures, 0);
        }
    }
}

#[test]
fn a_full_disk_is_waited_for_without_a_limit_and_without_a_busy_loop() {
    let mut stage = Stage::new(None);
    let mut now = 100;
    for epoch in 1..=50 {
        assert_eq!(stage.tick_at(now, true), barrier(epoch, BarrierKind::Checkpoint));
        let actions = stage.declined("sink", epoch, Refusal::OutOfRoom("full".to_owned()));
        assert!(matches!(actions.as_slice(), [Action::AbortEpoch { .. }]), "{actions:?}");
        assert!(matches!(stage.coordinator.status().refusal, Some(Refusal::OutOfRoom(_))));
        assert_eq!(stage.request(Request::Now), []);
        now += 100;
        assert_eq!(stage.coordinator.wake_at(), Some(ms(now)));
    }
    assert_eq!(stage.tick_at(now, true), barrier(51, BarrierKind::Checkpoint));
    stage.ack_all(51);
    let refused = Event::RecordRefused { epoch: Epoch(51), refusal: Refusal::OutOfRoom("full".to_owned()) };
    assert!(matches!(stage.on(refused).as_slice(), [Action::AbortEpoch { epoch: Epoch(51), .. }]));
}

#[test]
fn a_record_that_may_be_there_fails_the_attempt_and_aborts_nothing() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    stage.ack_all(1);
    let actions = stage.on(Event::RecordUncertain { epoch: Epoch(1), reason: "EIO".to_owned() });
    assert!(matches!(actions.as_slice(), [Action::Fail { .. }]), "{actions:?}");
}

#[test]
fn a_failed_task_fails_the_attempt() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    let actions = stage.on(Event::TaskFailed { task: task("sink"), reason: "EIO".to_owned() });
    assert_eq!(actions, [Action::Fail { reason: "sink: EIO".to_owned() }]);
    assert_eq!(stage.ack("source", 1), []);
    assert_eq!(stage.coordinator.wake_at(), None);
}

#[test]
fn the_end_of_the_input_is_one_more_checkpoint_and_the_job_ends_when_it_is_committed() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    let ended = Event::SourceEnded { task: task("source"), anything_new: true };
    assert_eq!(stage.on(ended.clone()), []);
    stage.ack_all(1);
    let mut actions = vec![Action::NotifyCompleted(Epoch(1))];
    actions.extend(barrier(2, BarrierKind::End));
    assert_eq!(stage.written(1), actions);
    assert_eq!(stage.on(ended), []);
    let record = stage.ack_all(2);
    assert_eq!(record.kind, CompletionKind::End);
    assert!(record.tasks.values().all(|found| found.ended));
    assert_eq!(stage.committed(1), []);
    assert_eq!(stage.written(2), [Action::NotifyCompleted(Epoch(2))]);
    assert_eq!(stage.coordinator.wake_at(), None);
    assert_eq!(stage.request(Request::Now), []);
    assert_eq!(stage.committed(2), [Action::Finished(CompletionKind::End)]);
    assert_eq!(stage.committed(2), []);
}

#[test]
fn the_final_checkpoint_is_tried_again_until_one_completes() {
    let mut stage = Stage::new(None);
    assert_eq!(stage.request(Request::Stop), barrier(1, BarrierKind::Stop));
    assert!(matches!(stage.declined("sink", 1, failed())[0], Action::AbortEpoch { .. }));
    assert_eq!(stage.tick_at(100, false), barrier(2, BarrierKind::Stop));
    assert!(matches!(stage.tick_at(1100, false)[0], Action::AbortEpoch { .. }));
    assert_eq!(stage.tick_at(1200, false), barrier(3, BarrierKind::Stop));
    stage.ack_all(3);
    stage.written(3);
    assert_eq!(stage.committed(3), [Action::Finished(CompletionKind::Stop)]);
}

#[test]
fn a_stop_waits_for_the_checkpoint_under_way_and_a_drain_overrules_it() {
    let mut stage = Stage::new(None);
    stage.tick_at(100, true);
    assert_eq!(stage.request(Request::Stop), []);
    assert_eq!(stage.request(Request::Drain), []);
    assert_eq!(stage.request(Request::Stop), []);
    stage.ack_all(1);
    assert_eq!(stage.written(1)[1..], barrier(2, BarrierKind::End));
}

#[test]
fn a_finished_job_started_again_with_nothing_new_is_over_at_once() {
    let mut stage = Stage::new(Some(CompletionKind::End));
    let ended = |anything_new| Event::SourceEnded { task: task("source"), anything_new };
    assert_eq!(stage.on(ended(false)), [Action::Finished(CompletionKind::End)]);
    let mut stage = Stage::new(Some(CompletionKind::End));
    assert_eq!(stage.on(ended(true)), barrier(1, BarrierKind::End));
    // A stop leaves open files: its end is one more checkpoint.
    let mut stage = Stage::new(Some(CompletionKind::Stop));
    assert_eq!(stage.on(ended(false)), barrier(1, BarrierKind::End));
    let mut stage = Stage::new(Some(CompletionKind::Checkpoint));
    assert_eq!(stage.on(ended(false)), barrier(1, BarrierKind::End));
}

#[test]
fn a_source_that_ended_is_repeated_once_a_checkpoint_holds_its_last_snapshot() {
    let members = [("a", Role::Source), ("b", Role::Source), ("sink", Role::Sink)];
    let coordinator = Coordinator::new(job(&members, None), settings(), ms(0));
    let mut stage = Stage { coordinator, now: ms(0) };
    assert_eq!(stage.on(Event::SourceEnded { task: task("a"), anything_new: true }), []);
    // It takes part until then: the first attempt fails.
    stage.tick_at(100, true);
    stage.ack("a", 1);
    stage.declined("sink", 1, failed());
    stage.tick_at(300, true);
    for name in ["b", "sink"] {
        assert_eq!(stage.ack(name, 2), []);
    }
    let actions = stage.ack("a", 2);
    let [Action::WriteRecord(record)] = actions.as_slice() else { panic!("{actions:?}") };
    assert!(record.tasks[&task("a")].ended);
    assert!(!record.tasks[&task("b")].ended);
    stage.written(2);
    stage.tick_at(500, true);
    stage.ack("b", 3);
    let actions = stage.ack("sink", 3);
    let [Action::WriteRecord(record)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(record.tasks[&task("a")].snapshot, snapshot(2));
    assert!(record.tasks[&task("a")].ended);
}

#[test]
fn of_several_checkpoints_under_way_a_later_one_that_completes_makes_the_earlier_superfluous() {
    let mut stage = Stage::new(None);
    stage.coordinator = stage.coordinator.with_in_flight_max(2);
    stage.tick_at(100, true);
    assert_eq!(stage.tick_at(200, true), barrier(2, BarrierKind::Checkpoint));
    assert_eq!(stage.tick_at(300, true), []);
    assert_eq!(stage.ack_all(2).epoch, Epoch(2));
    // One record at a time, in order.
    stage.ack("source", 1);
    assert_eq!(stage.ack("sink", 1), []);
    let mut actions = vec![Action::NotifyCompleted(Epoch(2))];
    actions.extend(barrier(3, BarrierKind::Checkpoint));
    assert_eq!(stage.on(Event::RecordWritten { epoch: Epoch(2) }), actions);
    assert_eq!(stage.ack("sink", 1), []);
    assert_eq!(stage.ack_all(3).epoch, Epoch(3));
}

#[test]
fn a_changed_definition_goes_on_only_after_a_clean_stop() {
    use Compatibility::Go;
    use Compatibility::Refuse;
    use Compatibility::RollOpenFiles;
    let rows = [
        (CompletionKind::Checkpoint, Go, Refuse),
        (CompletionKind::Stop, Go, RollOpenFiles),
        (CompletionKind::End, Go, RollOpenFiles),
    ];
    for (kind, same, changed) in rows {
        assert_eq!(decide_fingerprint(kind, true), same);
        assert_eq!(decide_fingerprint(kind, false), changed);
    }
}
