//! Claims about the log, on the simulated disk unless a name says otherwise.

mod copies;
mod crash;
mod damage;
mod faults;
mod matrix;
mod ordinary;
mod tickets;
mod tools;
mod watching;

use std::path::Path;
use std::path::PathBuf;

use super::*;
use crate::doors::Doors;
use crate::stream::Lsn;
use crate::testing::CrashDisk;
use crate::testing::sim_doors;

const DIR: &str = "/home/log";
const SEGMENT: u64 = 64 << 10;

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn small() -> WalSettings {
    WalSettings { segment_bytes: SEGMENT, ..WalSettings::default() }
}

/// A disk with a home for the log.
fn disk() -> CrashDisk {
    let disk = CrashDisk::new();
    disk.make_dirs("/home").unwrap();
    disk
}

fn doors(disk: &CrashDisk) -> Doors {
    sim_doors(disk, 7)
}

fn open(disk: &CrashDisk) -> (Wal, Opened) {
    try_open(disk).unwrap()
}

fn try_open(disk: &CrashDisk) -> Result<(Wal, Opened), WalError> {
    // Each opening has other random numbers, as in life.
    Wal::open(dir(), small(), &sim_doors(disk, disk.step_count() as u64 + 1))
}

/// The bytes of entry `number`, `len` long, none of them zero but in the number.
fn entry(number: u64, len: usize) -> Vec<u8> {
    let pattern: [u8; 256] = std::array::from_fn(|at| (number as usize * 31 + at * 7) as u8 | 1);
    let mut bytes = pattern.repeat(len.div_ceil(256));
    bytes.truncate(len);
    let tag = number.to_le_bytes();
    let count = tag.len().min(len);
    bytes[..count].copy_from_slice(&tag[..count]);
    bytes
}

fn append(wal: &Wal, entries: &[Vec<u8>]) -> Result<Appended, WalError> {
    let entries: Vec<_> = entries.iter().map(Vec::as_slice).collect();
    wal.append(&entries)
}

/// Everything that the log holds.
fn all(wal: &Wal) -> Vec<Logged> {
    wal.replay(wal.start()).unwrap().collect::<Result<_, _>>().unwrap()
}

fn entries(logged: &[Logged]) -> Vec<Vec<u8>> {
    logged.iter().map(|logged| logged.entry.clone()).collect()
}

/// The names in the log's folder, but for the quarantine.
fn files(disk: &CrashDisk) -> Vec<String> {
    disk.list_all()
        .into_iter()
        .filter_map(|path| Some(path.strip_prefix(DIR).ok()?.display().to_string()))
        .filter(|name| !name.starts_with("quarantine"))
        .collect()
}

fn segment_files(disk: &CrashDisk) -> Vec<PathBuf> {
    files(disk).into_iter().filter(|name| name.ends_with(".wal")).map(|name| dir().join(name)).collect()
}

/// A disk with the same durable files as `disk` has now.
fn copy(disk: &CrashDisk) -> CrashDisk {
    let copy = CrashDisk::new();
    copy.make_dirs("/home").unwrap();
    for path in disk.list_all() {
        copy.write_file(&path, disk.read_file(&path).unwrap()).unwrap();
    }
    copy
}
