//! Appends that are submitted: what a ticket promises, and to how many.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::*;
use crate::testing::CrashModel;
use crate::testing::StepKind;

fn submit(wal: &Wal, entry: &[u8]) -> Ticket {
    wal.submit(&[entry]).unwrap()
}

#[test]
fn many_submitted_appends_take_one_write_and_one_sync() {
    let disk = disk();
    let (wal, _) = open(&disk);
    let steps = disk.step_count();
    let tickets: Vec<_> = (0..40).map(|number| submit(&wal, &entry(number, 500))).collect();
    assert_eq!(disk.step_count(), steps, "nothing was written yet");
    assert_eq!(wal.end(), Lsn(0));
    tickets.last().unwrap().wait().unwrap();
    let kinds: Vec<_> = disk.steps()[steps..].iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Write, StepKind::Sync, StepKind::RegionWrite, StepKind::Write]);
    for ticket in &tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(disk.step_count(), steps + 4);
    assert_eq!(entries(&all(&wal)), (0..40).map(|number| entry(number, 500)).collect::<Vec<_>>());
    assert_eq!(wal.read(tickets[7].appended().lsns[0]).unwrap(), entry(7, 500));
}

#[test]
fn an_append_behind_submitted_ones_writes_them_first() {
    let disk = disk();
    let (wal, _) = open(&disk);
    for number in 0..3 {
        submit(&wal, &entry(number * 2, 200));
        append(&wal, &[entry(number * 2 + 1, 200)]).unwrap();
    }
    let expected: Vec<_> = (0..6).map(|number| entry(number, 200)).collect();
    assert_eq!(entries(&all(&wal)), expected);
    // The process ends: all was written. What is only submitted then may be gone.
    submit(&wal, &entry(99, 200));
    drop(wal);
    assert_eq!(entries(&all(&open(&disk).0)), expected);
}

#[test]
fn a_sync_and_a_close_cover_what_is_submitted() {
    for close in [false, true] {
        let disk = disk();
        let (wal, _) = open(&disk);
        let ticket = submit(&wal, &entry(1, 300));
        if close {
            wal.close().unwrap();
        } else {
            assert_eq!(wal.sync().unwrap(), ticket.appended().end);
            assert!(wal.durable() >= ticket.appended().end);
        }
        let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
        drop(ticket);
        assert_eq!(entries(&all(&open(&after).0)), [entry(1, 300)]);
    }
}

#[test]
fn what_waits_in_memory_is_bounded_and_rolls_over() {
    let disk = disk();
    let settings = WalSettings { segment_bytes: 4 << 20, ..WalSettings::default() };
    let (wal, _) = Wal::open(dir(), settings.clone(), &doors(&disk)).unwrap();
    let tickets: Vec<_> = (0..700).map(|number| submit(&wal, &entry(number, 20_000))).collect();
    let waiting = tickets.last().unwrap().appended().end.0 - wal.end().0;
    assert!(waiting <= 1 << 20, "{waiting} bytes wait");
    assert!(wal.stats().segments > 3);
    tickets.last().unwrap().wait().unwrap();
    drop((wal, tickets));
    let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
    let (wal, _) = Wal::open(dir(), settings, &sim_doors(&after, 5)).unwrap();
    assert_eq!(all(&wal).len(), 700);
}

#[test]
fn tasks_wait_together_and_each_finds_its_append() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("log");
    let (wal, _) = Wal::open(&dir, small(), &Doors::real()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..64_u64)
            .map(|task| {
                let wal = wal.clone();
                tokio::spawn(async move {
                    for number in 0..20 {
                        let ticket = submit(&wal, &entry(task * 100 + number, 300));
                        ticket.durable().await.unwrap();
                        assert!(wal.durable() >= ticket.appended().end);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let syncs = wal.stats().syncs;
    assert!(syncs < 64 * 20 / 2, "{syncs} syncs: they did not wait together");
    drop(wal);
    let (wal, _) = Wal::open(&dir, small(), &Doors::real()).unwrap();
    assert_eq!(all(&wal).len(), 64 * 20);
}

#[test]
fn threads_and_tasks_that_wait_together_all_come_back() {
    // The two kinds of waiting wake each other: whoever leads, nobody is forgotten.
    let home = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(&home.path().join("log"), small(), &Doors::real()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (wal, handle) = (wal.clone(), runtime.handle().clone());
            scope.spawn(move || {
                for number in 0..100 {
                    let ticket = submit(&wal, &entry(thread * 1000 + number, 100));
                    if thread % 2 == 0 {
                        ticket.wait().unwrap();
                    } else {
                        handle.block_on(ticket.durable()).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(all(&wal).len(), 800);
}

#[test]
fn a_failed_sync_is_told_to_every_ticket_and_nobody_hangs() {
    for spared in 0..3 {
        let disk = disk();
        let doors = Doors { io: crate::pool::Pool::threads("test", 2), ..doors(&disk) };
        let (wal, _) = Wal::open(dir(), small(), &doors).unwrap();
        disk.fail(StepKind::Sync, "", spared, ErrorKind::Other, false);
        let failed = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let told: Vec<Vec<u8>> = runtime.block_on(async {
            let tasks: Vec<_> = (0..64_u64)
                .map(|task| {
                    let (wal, failed) = (wal.clone(), Arc::clone(&failed));
                    tokio::spawn(async move {
                        let mut acknowledged = Vec::new();
                        for number in 0..20 {
                            let entry = entry(task * 100 + number, 100);
                            let done = match wal.submit(&[&entry]) {
                                Ok(ticket) => ticket.durable().await,
                                Err(failure) => Err(failure),
                            };
                            match done {
                                Ok(()) => acknowledged.push(entry),
                                Err(WalError::Poisoned { .. }) => {
                                    failed.store(true, Ordering::Relaxed);
                                    break;
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                        acknowledged
                    })
                })
                .collect();
            let mut told = Vec::new();
            for task in tasks {
                told.extend(task.await.unwrap());
            }
            told
        });
        assert!(failed.load(Ordering::Relaxed));
        drop(wal);
        let after = disk.after_crash(CrashModel::LoseUnsynced, 0);
        let found = entries(&all(&open(&after).0));
        for entry in &told {
            assert!(found.contains(entry), "an acknowledged entry is gone");
        }
    }
}

#[test]
fn threads_that_wait_for_one_sync_are_woken_together() {
    let home = tempfile::tempdir().unwrap();
    let (wal, _) = Wal::open(&home.path().join("log"), small(), &Doors::real()).unwrap();
    let (threads, turns) = (32_u64, 50_u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let wal = wal.clone();
            scope.spawn(move || {
                for number in 0..turns {
                    submit(&wal, &entry(thread * 1000 + number, 50)).wait().unwrap();
                }
            });
        }
    });
    // Half of those who wait are covered by the sync in hand. Woken one by one they would sync for few.
    let syncs = wal.stats().syncs;
    assert!(syncs * 6 < threads * turns, "{syncs} syncs for {} appends", threads * turns);
}
