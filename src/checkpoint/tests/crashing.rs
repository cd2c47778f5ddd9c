//! The store on the real log and a simulated disk, crashed at each step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::storing::Model;
use super::storing::job;
use super::storing::models_of;
use super::storing::record_of;
use super::storing::small;
use crate::checkpoint::CheckpointStore;
use crate::checkpoint::Started;
use crate::checkpoint::inspect;
use crate::error::Result;
use crate::state::JournalReader;
use crate::state::State;
use crate::state::is_out_of_room;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::testing::CrashDisk;
use crate::testing::CrashModel;
use crate::testing::sim_doors;
use crate::wal::Wal;
use crate::wal::WalReader;
use crate::wal::WalSettings;

const DIR: &str = "/home/log";

/// What a script told its caller.
#[derive(Debug, Default)]
struct Told {
    /// The states of each checkpoint that was tried last under its number.
    tried: BTreeMap<Epoch, Vec<Model>>,
    acknowledged: Option<Epoch>,
    incarnation: Option<Incarnation>,
}

fn disk() -> CrashDisk {
    let disk = CrashDisk::new();
    disk.make_dirs("/home").unwrap();
    disk
}

fn open(disk: &CrashDisk, seed: u64) -> Result<CheckpointStore> {
    let settings = WalSettings { segment_bytes: 64 << 10, ..WalSettings::default() };
    let (wal, _) = Wal::open(Path::new(DIR), settings, &sim_doors(disk, seed))?;
    CheckpointStore::open(Arc::new(wal), small())
}

fn start(store: &CheckpointStore) -> Result<(Started, Vec<State>)> {
    let mut started = store.start(job(1))?;
    let tasks: Vec<_> = started.states.waiting().cloned().collect();
    let states = tasks.iter().map(|task| started.states.take(task)).collect::<Result<_>>()?;
    Ok((started, states))
}

/// One start: checkpoints of which one is aborted, values, large and small items, clears.
fn run(store: &CheckpointStore, told: &mut Told, rounds: u8) -> Result<()> {
    let (started, mut states) = start(store)?;
    told.incarnation = Some(started.incarnation);
    let mut epoch = started.next_epoch();
    for round in 0..rounds {
        let fill = (epoch.0 as u8).wrapping_mul(16).wrapping_add(round);
        for (at, state) in states.iter_mut().enumerate() {
            for key in 0..2 {
                state.put(&[key], &vec![fill; 10 + usize::from(key) * 1500]);
                state.push(&[key], &vec![fill; if at == 0 { 30 } else { 9000 }])?;
                let range = state.list(&[key]);
                if range.end - range.start > 3 {
                    state.clear_before(&[key], range.end - 1);
                }
            }
        }
        let record = record_of(&started, &mut states, epoch)?;
        if round % 3 != 1 {
            told.tried.insert(epoch, models_of(&states));
            told.acknowledged = Some(store.write(record, Timestamp::UNIX_EPOCH)?.epoch());
        }
        epoch = epoch.next();
    }
    Ok(())
}

/// Two openings of the log, and a restart within the process.
fn script(disk: &CrashDisk, told: &mut Told) -> Result<()> {
    let store = open(disk, 1)?;
    run(&store, told, 4)?;
    run(&store, told, 3)?;
    drop(store);
    run(&open(disk, 2)?, told, 5)
}

fn check(disk: &CrashDisk, told: &mut Told, seed: u64, what: &str) -> Option<Epoch> {
    let store = open(disk, seed).unwrap_or_else(|error| panic!("{what}: {error}\n{}", disk.dump()));
    let (started, states) = start(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    let restored = started.restored.as_ref().map(|restored| restored.completed.epoch());
    assert!(restored >= told.acknowledged, "{what}: {restored:?} of {:?}", told.acknowledged);
    assert!(Some(started.incarnation) > told.incarnation, "{what}");
    told.incarnation = Some(started.incarnation);
    told.acknowledged = restored;
    let expected = restored.map_or_else(|| vec![Model::new(); 2], |epoch| told.tried[&epoch].clone());
    assert!(models_of(&states) == expected, "{what}: other states than those of checkpoint {restored:?}");
    restored
}

fn sweep(model: CrashModel, stride: usize, place: impl Fn(&CrashDisk, usize)) {
    let plain = disk();
    script(&plain, &mut Told::default()).unwrap();
    let steps = plain.step_count();
    let mut found = std::collections::BTreeSet::new();
    for step in (0..steps).step_by(stride) {
        let what = format!("{model:?}, step {step} of {steps}");
        let disk = disk();
        place(&disk, step);
        let mut told = Told::default();
        let _crashed = script(&disk, &mut told);
        let left = disk.after_crash(model, step as u64);
        let restored = check(&left, &mut told, 1000, &what);
        // P5: what was restored once, and acted on, is restored again after a loss of power now.
        let after = left.after_crash(CrashModel::LoseUnsynced, step as u64);
        assert_eq!(check(&after, &mut told, 1001, &what), restored, "{what}");
        // And the job goes on from there.
        run(&open(&after, 1002).unwrap(), &mut told, 2).unwrap();
        check(&after, &mut told, 1003, &what);
        found.insert(restored);
    }
    assert!(found.len() > 5, "{found:?}");
}

#[test]
fn a_loss_of_power_before_any_step_restores_the_newest_complete_checkpoint() {
    sweep(CrashModel::LoseUnsynced, 11, CrashDisk::crash_at);
}

#[test]
fn a_loss_of_power_with_any_sectors_kept_restores_the_newest_complete_checkpoint() {
    sweep(CrashModel::AnySubset, 11, CrashDisk::crash_midway);
}

#[test]
fn the_end_of_the_process_after_any_step_restores_the_newest_complete_checkpoint() {
    sweep(CrashModel::ProcessOnly, 11, CrashDisk::crash_after);
}

#[test]
fn a_full_disk_refuses_and_the_job_goes_on_when_there_is_room() {
    let disk = disk();
    let store = open(&disk, 1).unwrap();
    let mut told = Told::default();
    run(&store, &mut told, 1).unwrap();
    disk.set_capacity(Some(disk.used()));
    let error = loop {
        if let Err(error) = run(&store, &mut told, 3) {
            break error;
        }
    };
    assert!(is_out_of_room(&error), "{error}");
    disk.set_capacity(None);
    run(&store, &mut told, 3).unwrap();
    drop(store);
    check(&disk, &mut told, 5, "room again");
}

#[test]
fn a_running_job_is_inspected_and_not_disturbed() {
    let disk = disk();
    let store = open(&disk, 1).unwrap();
    let mut told = Told::default();
    for _ in 0..4 {
        run(&store, &mut told, 6).unwrap();
        let steps = disk.step_count();
        let reader = WalReader::open(Path::new(DIR), &sim_doors(&disk, 9)).unwrap();
        let reader: Arc<dyn JournalReader> = Arc::new(reader);
        let inspection = inspect(reader).unwrap();
        assert_eq!(inspection.newest().map(|newest| newest.record.epoch), told.acknowledged);
        let epochs: Vec<_> = inspection.checkpoints().map(|checkpoint| checkpoint.record.epoch).collect();
        assert!(epochs.len() >= 2);
        for epoch in epochs {
            assert_eq!(inspection.states(epoch).unwrap().len(), 2);
        }
        assert_eq!(disk.step_count(), steps);
    }
    let log =
        inspect(Arc::new(WalReader::open(Path::new(DIR), &sim_doors(&disk, 9)).unwrap())).unwrap().log();
    assert!(log.0.0 > 0, "nothing was given up of {log:?}");
}
