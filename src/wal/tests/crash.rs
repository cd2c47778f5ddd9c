//! The process ends, or the power is lost, at every step.

use super::*;
use crate::testing::CrashModel;
use crate::testing::Step;
use crate::testing::StepKind;

/// What a script told its caller.
#[derive(Debug, Default, Clone)]
struct Told {
    /// Every other append is only submitted.
    submits: bool,
    /// The entries of each append that was begun, in order.
    begun: Vec<Vec<Vec<u8>>>,
    /// So many of them were acknowledged as durable.
    durable: usize,
    /// Entries below this position may be gone.
    truncated: u64,
    /// Positions of the appends that were answered.
    lsns: Vec<Vec<Lsn>>,
}

/// Appends of all kinds, syncs, truncation, three openings, one of them after a close.
fn script(disk: &CrashDisk, told: &mut Told) -> Result<(), WalError> {
    let mut number = 0;
    for round in 0..3 {
        let (wal, _) = Wal::open(dir(), small(), &sim_doors(disk, round + 10))?;
        for turn in 0..9 {
            number += 1;
            let batch = match turn % 4 {
                0 => vec![entry(number, 20), entry(number, 3000)],
                1 => vec![entry(number, 30_000)],
                2 => vec![entry(number, 1), entry(number, 90_000), entry(number, 2)],
                _ => vec![entry(number, 700)],
            };
            told.begun.push(batch.clone());
            let slices: Vec<_> = batch.iter().map(Vec::as_slice).collect();
            let ticket = if told.submits && number % 2 == 0 { Some(wal.submit(&slices)?) } else { None };
            let appended = match &ticket {
                Some(ticket) => ticket.appended().clone(),
                None => append(&wal, &batch)?,
            };
            told.lsns.push(appended.lsns);
            if turn % 3 == 1 {
                match ticket {
                    Some(ticket) => ticket.wait()?,
                    None => wal.sync().map(drop)?,
                }
                told.durable = told.begun.len();
            }
            if turn == 5 {
                let floor = told.lsns[told.lsns.len() - 4][0];
                told.truncated = floor.0;
                wal.truncate_before(floor)?;
            }
        }
        if round == 1 {
            wal.close()?;
            told.durable = told.begun.len();
        }
    }
    Ok(())
}

/// What a log may hold after `told`: whole appends, a prefix of those begun, at least the durable ones.
fn check(found: &[Logged], told: &Told, what: &str) {
    let all: Vec<(usize, &Vec<u8>)> = told
        .begun
        .iter()
        .enumerate()
        .flat_map(|(index, batch)| batch.iter().map(move |entry| (index, entry)))
        .collect();
    // Where the log starts in the sequence of all entries.
    let first = match found.first() {
        None => all.len(),
        Some(first) => all
            .iter()
            .position(|(_, entry)| **entry == first.entry)
            .unwrap_or_else(|| panic!("{what}: an entry that nobody appended at {}", first.at)),
    };
    let last = first + found.len();
    assert!(last <= all.len(), "{what}: too many entries");
    for (logged, (_, entry)) in found.iter().zip(&all[first..last]) {
        assert!(logged.entry == **entry, "{what}: another entry at {}", logged.at);
    }
    let positions: Vec<Lsn> = told.lsns.iter().flatten().copied().collect();
    for (logged, position) in found.iter().zip(positions.get(first..).unwrap_or_default()) {
        assert_eq!(logged.at, *position, "{what}: an entry has moved");
    }
    let durable: usize = told.begun[..told.durable].iter().map(Vec::len).sum();
    // Nothing found: everything was truncated, or nothing was durable.
    assert!(found.is_empty() || last >= durable, "{what}: {} durable entries are gone", durable - last);
    assert!(!found.is_empty() || durable == 0, "{what}: all entries are gone");
    assert!(
        last == all.len() || found.is_empty() || all[last - 1].0 != all[last].0,
        "{what}: half an append"
    );
    let floor = positions.iter().position(|position| position.0 >= told.truncated).unwrap_or(positions.len());
    assert!(found.is_empty() || first <= floor, "{what}: entries behind the truncation are gone");
}

fn reopened(disk: &CrashDisk, seed: u64, what: &str) -> (Vec<Logged>, Opened) {
    let (wal, opened) = Wal::open(dir(), small(), &sim_doors(disk, seed))
        .unwrap_or_else(|error| panic!("{what}: {error:?}\n{}", disk.dump()));
    assert_eq!(wal.durable(), wal.end());
    (all(&wal), opened)
}

/// Every file is a live segment, one of at most two spares, or one of the fixed ones.
fn check_files(disk: &CrashDisk, what: &str) {
    let reader = WalReader::open(dir(), &doors(disk)).unwrap();
    let segments = reader.verify().unwrap().segments as usize;
    let names = files(disk);
    assert_eq!(names.iter().filter(|name| name.ends_with(".wal")).count(), segments, "{what}: {names:?}");
    let spares = names.iter().filter(|name| name.starts_with("spare-")).count();
    assert!((1..=2).contains(&spares), "{what}: {names:?}");
    assert_eq!(names.len(), segments + spares + 2, "{what}: {names:?}");
}

/// The steps of `script` at which a crash is worth a look: of the many writes that initialise a spare, few.
fn worthwhile(disk: &CrashDisk, stride: usize, submits: bool) -> Vec<usize> {
    script(disk, &mut Told { submits, ..Told::default() }).unwrap();
    let alike = |step: &Step| step.kind == StepKind::Write && step.path.to_string_lossy().contains("making-");
    let steps = disk.steps();
    let few = steps.iter().enumerate().filter(|(number, step)| number % 16 == 3 || !alike(step));
    few.map(|(number, _)| number).step_by(stride).collect()
}

fn sweep(model: CrashModel, stride: usize, place: impl Fn(&CrashDisk, usize)) {
    let mut crashes = 0;
    let cases = [false, true].map(|submits| (submits, worthwhile(&disk(), stride, submits)));
    for (submits, step) in
        cases.into_iter().flat_map(|(submits, steps)| steps.into_iter().map(move |step| (submits, step)))
    {
        let what = format!("{model:?}, step {step}, submits: {submits}");
        let disk = disk();
        place(&disk, step);
        let mut told = Told { submits, ..Told::default() };
        let failed = script(&disk, &mut told);
        assert!(failed.is_err() || !disk.crashed(), "{what}");
        crashes += 1;
        let left = disk.after_crash(model, step as u64);
        let (found, _) = reopened(&left, 1000, &what);
        check(&found, &told, &what);
        check_files(&left, &what);
        // P5: what was found stays found, also through a loss of power now.
        let after = left.after_crash(CrashModel::LoseUnsynced, step as u64);
        let (again, opened) = reopened(&after, 1001, &what);
        assert!(again == found, "{what}: the second recovery differs");
        assert_eq!(opened.cut, None, "{what}");
        check_files(&after, &what);
    }
    assert!(crashes > 100);
}

#[test]
fn a_loss_of_power_before_any_step_keeps_what_was_acknowledged() {
    sweep(CrashModel::LoseUnsynced, 2, CrashDisk::crash_at);
}

#[test]
fn a_loss_of_power_after_any_step_keeps_what_was_acknowledged() {
    sweep(CrashModel::AnySubset, 1, CrashDisk::crash_after);
}

#[test]
fn a_loss_of_power_midway_through_any_step_keeps_what_was_acknowledged() {
    sweep(CrashModel::AnySubset, 1, CrashDisk::crash_midway);
}

#[test]
fn the_end_of_the_process_at_any_step_keeps_what_was_acknowledged() {
    sweep(CrashModel::ProcessOnly, 2, CrashDisk::crash_midway);
}

#[test]
fn the_end_of_the_process_keeps_everything_that_was_appended() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..50 {
        append(&wal, &[entry(number, 3000)]).unwrap();
    }
    let appended = all(&wal);
    let left = disk.after_crash(CrashModel::ProcessOnly, 0);
    assert_eq!(reopened(&left, 1, "killed").0, appended);
}

/// An opening after a crash, itself interrupted at every step.
fn interrupted_recovery(model: CrashModel) {
    let disk = disk();
    let mut told = Told::default();
    let (wal, _) = open(&disk);
    for number in 0..40 {
        let batch = vec![entry(number, 3000)];
        told.begun.push(batch.clone());
        told.lsns.push(append(&wal, &batch).unwrap().lsns);
        if number == 29 {
            wal.sync().unwrap();
            told.durable = told.begun.len();
        }
    }
    // An append over three segments that is torn in its last part.
    let batch = vec![entry(40, 150_000)];
    told.begun.push(batch.clone());
    let before = disk.step_count();
    disk.crash_at(usize::MAX);
    append(&wal, &batch).unwrap();
    let last_write = disk.step_count() - 1;
    assert!(last_write > before);
    drop(wal);
    for torn in [false, true] {
        let left = disk.after_crash(CrashModel::ProcessOnly, 0);
        if torn {
            let newest = segment_files(&left).pop().unwrap();
            let mut bytes = left.read_file(&newest).unwrap();
            bytes[4096 + 64..4096 + 2000].fill(0xee);
            left.write_file(&newest, bytes).unwrap();
        }
        let steps = {
            let plain = left.after_crash(CrashModel::ProcessOnly, 0);
            reopened(&plain, 1, "plain");
            plain.step_count()
        };
        let mut results = std::collections::BTreeSet::new();
        for step in 0..steps {
            let what = format!("{model:?}, torn {torn}, recovery step {step} of {steps}");
            let first = left.after_crash(CrashModel::ProcessOnly, 0);
            first.crash_midway(step);
            assert!(Wal::open(dir(), small(), &sim_doors(&first, 1)).is_err(), "{what}");
            let second = first.after_crash(model, step as u64);
            let (found, _) = reopened(&second, 2, &what);
            check(&found, &told, &what);
            check_files(&second, &what);
            results.insert(found.len());
        }
        assert!(!results.is_empty());
    }
}

#[test]
fn a_recovery_interrupted_at_any_step_is_repeated_by_the_next_one() {
    interrupted_recovery(CrashModel::ProcessOnly);
    interrupted_recovery(CrashModel::AnySubset);
    interrupted_recovery(CrashModel::LoseUnsynced);
}

#[test]
fn a_file_system_without_rename_and_reservation_keeps_the_promises() {
    use std::io::ErrorKind;
    let plain = disk();
    let limit = |disk: &CrashDisk| {
        disk.fail(StepKind::Rename, "", 0, ErrorKind::Unsupported, true);
        disk.fail(StepKind::Reserve, "", 0, ErrorKind::Unsupported, true);
    };
    limit(&plain);
    for step in worthwhile(&plain, 3, false) {
        let what = format!("limited, step {step}");
        let disk = disk();
        limit(&disk);
        disk.crash_after(step);
        let mut told = Told::default();
        _ = script(&disk, &mut told);
        let left = disk.after_crash(CrashModel::AnySubset, step as u64);
        limit(&left);
        let (found, _) = reopened(&left, 1000, &what);
        check(&found, &told, &what);
        check_files(&left, &what);
    }
}
