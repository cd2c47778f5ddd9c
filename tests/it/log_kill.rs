//! A log whose process is killed at any moment holds what was acknowledged, once and in order.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use alluvium::doors::Doors;
use alluvium::wal::Wal;
use alluvium::wal::WalSettings;

use crate::job::Chance;
use crate::job::tell;
use crate::support;

const KILLS: usize = 200;
const WRITERS: u64 = 8;
/// Tells the child where the log is.
const HOME: &str = "ALLUVIUM_TEST_LOG_KILL";

fn settings() -> WalSettings {
    WalSettings { segment_bytes: 256 << 10, ..WalSettings::default() }
}

/// What `writer` appends as its `number`th entry of the round.
fn entry(round: u64, writer: u64, number: u64) -> Vec<u8> {
    let mut bytes = [round, writer, number].map(u64::to_le_bytes).concat();
    bytes.resize(24 + (number * 37 % 900) as usize, writer as u8);
    bytes
}

fn numbers(entry: &[u8]) -> (u64, u64, u64) {
    let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
    (number(0), number(8), number(16))
}

/// Not a test: the process that is killed. It appends for ever, and notes what was acknowledged.
#[test]
#[ignore = "the child of two_hundred_kills_under_eight_writers_lose_nothing_acknowledged"]
fn child() {
    let Some(home) = std::env::var_os(HOME).map(PathBuf::from) else { return };
    let round: u64 = fs::read_to_string(home.join("round")).unwrap().parse().unwrap();
    let (wal, _) = Wal::open(&home.join("log"), settings(), &Doors::real()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (wal, home) = (wal.clone(), &home);
            scope.spawn(move || {
                let mut told = fs::File::create(home.join(format!("told-{writer}"))).unwrap();
                for number in 0.. {
                    wal.append(&[&entry(round, writer, number)]).unwrap();
                    if number % 3 == 2 {
                        wal.sync().unwrap();
                        // A write of 8 bytes is there whole or not at all when the process is killed.
                        told.write_all(&(number + 1).to_le_bytes()).unwrap();
                    }
                }
            });
        }
    });
}

/// So many entries of each writer were acknowledged in the round.
fn told(home: &Path) -> Vec<u64> {
    let last = |writer| {
        let bytes = fs::read(home.join(format!("told-{writer}"))).unwrap_or_default();
        bytes.as_chunks::<8>().0.last().map_or(0, |last| u64::from_le_bytes(*last))
    };
    (0..WRITERS).map(last).collect()
}

#[test]
fn two_hundred_kills_under_eight_writers_lose_nothing_acknowledged() {
    let started = Instant::now();
    let mut chance = Chance::new("two_hundred_kills_under_eight_writers_lose_nothing_acknowledged");
    let (_guard, home) = support::folder();
    let log = home.join("log");
    let (mut acknowledged, mut cuts, mut syncless) = (0, 0, 0);
    // Entries of earlier rounds that the log still holds.
    let mut before: Vec<Vec<u8>> = Vec::new();
    for round in 0..KILLS as u64 {
        fs::write(home.join("round"), round.to_string()).unwrap();
        for writer in 0..WRITERS {
            _ = fs::remove_file(home.join(format!("told-{writer}")));
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log_kill::child", "--ignored", "--test-threads=1"])
            .env(HOME, &home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From the first acknowledgement on; every tenth at any moment at all.
        let patience = Instant::now();
        while round % 10 != 9 && !home.join("told-0").exists() {
            assert!(patience.elapsed() < Duration::from_secs(60), "the child does not start");
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_micros(chance.below(20_000)));
        assert_eq!(child.try_wait().unwrap(), None, "the child ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();

        let (wal, opened) = Wal::open(&log, settings(), &Doors::real()).unwrap();
        cuts += usize::from(opened.cut.is_some());
        let found: Vec<_> = wal.replay(wal.start()).unwrap().map(Result::unwrap).collect();
        assert!(found.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert_eq!(wal.end(), opened.end);
        let found: Vec<Vec<u8>> = found.into_iter().map(|logged| logged.entry.to_vec()).collect();
        assert!(found.starts_with(&before), "round {round}: what an earlier round left has changed");
        // Each writer's entries are there once, in order, without a hole, at least as far as it was told.
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for found in &found[before.len()..] {
            let (of, writer, number) = numbers(found);
            let next = counts.entry(writer).or_default();
            assert_eq!((of, number), (round, *next), "round {round}, writer {writer}");
            assert!(*found == entry(of, writer, number), "round {round}: other bytes");
            *next += 1;
        }
        for (writer, told) in told(&home).into_iter().enumerate() {
            let count = counts.get(&(writer as u64)).copied().unwrap_or_default();
            assert!(count >= told, "round {round}: {told} entries acknowledged, {count} there");
            acknowledged += told;
            syncless += count - told;
        }
        before = found;
        if round % 8 == 7 {
            wal.truncate_before(wal.end()).unwrap();
            let start = wal.start();
            before = wal.replay(start).unwrap().map(|logged| logged.unwrap().entry.to_vec()).collect();
        }
    }
    tell(&format!(
        "{KILLS} kills, {acknowledged} entries acknowledged, {syncless} more were there, {cuts} torn tails cut, {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    assert!(acknowledged > 1000, "{acknowledged}");
}
