//! `src/` has rooms, and a room uses only rooms that stand above it in [`ROOMS`].
//!
//! Not seen: paths through `super::super::`, macros, re-exports. Tests (`tests.rs`, `tests/`, and a
//! `mod tests` at the end of a file) may use every room.

#![expect(clippy::disallowed_methods, reason = "it reads the sources")]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// The rooms, from the ground up, and what each uses of those before it. The order is the
/// proof that there is no cycle.
const ROOMS: &[(&str, Uses)] = &[
    ("error", Uses::Only(&[])),
    ("clock", Uses::Only(&[])),
    ("pool", Uses::Only(&["error"])),
    ("stream", Uses::Only(&["error"])),
    ("codec", Uses::Only(&["error"])),
    ("storage", Uses::Only(&["error"])),
    ("doors", Uses::Only(&["clock", "pool", "storage"])),
    ("telemetry", Uses::AllBut(&[])),
    ("format", Uses::Only(&["error", "stream"])),
    ("wal", Uses::AllBut(&["format"])),
    ("state", Uses::AllBut(&["format"])),
    ("checkpoint", Uses::AllBut(&["format"])),
    ("source", Uses::AllBut(&[])),
    ("operator", Uses::AllBut(&["source"])),
    ("sink", Uses::AllBut(&["source", "operator"])),
    ("runtime", Uses::AllBut(&[])),
    ("pipeline", Uses::AllBut(&[])),
    ("dashboard", Uses::Only(&["error", "telemetry"])),
    ("testing", Uses::AllBut(&[])),
];

/// What a room uses of the rooms before it.
enum Uses {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

/// The files that may name `std::fs`.
const FILE_DOORS: &[&str] = &["storage/real.rs", "storage/mapped.rs"];

/// The file that may say `unsafe`.
const UNSAFE: &[&str] = &["storage/mapped.rs"];

const LINES_MAX: usize = 800;

/// A source file: its path below `src/`, and its lines of product code without comments.
struct Source {
    place: String,
    lines: Vec<String>,
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort_unstable();
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The product: what is compiled without tests.
fn product() -> Vec<Source> {
    let src = root().join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20, "the sources are found");
    files
        .iter()
        .map(|file| (file, file.strip_prefix(&src).unwrap()))
        .filter(|(_, place)| !place.with_extension("").iter().any(|part| part == "tests"))
        .map(|(file, place)| {
            let text = fs::read_to_string(file).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let lines = product.lines().map(|line| line.split("//").next().unwrap().to_owned()).collect();
            Source { place: place.display().to_string(), lines }
        })
        .collect()
}

/// Fails with the places at which `wrong` has something to say about a line of product code.
fn check(mut wrong: impl FnMut(&Source, &str) -> Option<String>) {
    let mut found = Vec::new();
    for source in product() {
        for (number, line) in source.lines.iter().enumerate() {
            if let Some(what) = wrong(&source, line) {
                found.push(format!("src/{}:{}: {what}", source.place, number + 1));
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn may_use(room: &str, used: &str) -> bool {
    let place = |name: &str| ROOMS.iter().position(|(room, _)| *room == name);
    let (Some(own), Some(other)) = (place(room), place(used)) else { return false };
    match ROOMS[own].1 {
        Uses::Only(list) => list.contains(&used),
        Uses::AllBut(list) => other < own && !list.contains(&used),
    }
}

#[test]
fn a_room_is_listed_below_everything_it_uses() {
    for (at, (room, uses)) in ROOMS.iter().enumerate() {
        let (Uses::Only(named) | Uses::AllBut(named)) = uses;
        for name in *named {
            let above = ROOMS[..at].iter().any(|(room, _)| room == name);
            assert!(above, "{room} names {name}, which does not stand above it");
        }
    }
    assert!(!may_use("storage", "doors") && may_use("doors", "storage") && !may_use("sink", "source"));
}

#[test]
fn no_file_uses_a_room_that_its_own_room_may_not_use() {
    check(|source, line| {
        let room = source.place.split('/').next().unwrap().trim_end_matches(".rs");
        if matches!(room, "lib" | "bin") {
            return None;
        }
        if !ROOMS.iter().any(|(name, _)| *name == room) {
            return Some(format!("the room {room} is not listed in tests/architecture.rs"));
        }
        line.split("crate::").skip(1).find_map(|after| {
            let used: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if after.starts_with('{') {
                return Some("a group import of rooms: write one line for each".to_owned());
            }
            let is_room = ROOMS.iter().any(|(name, _)| *name == used);
            (is_room && used != room && !may_use(room, &used)).then(|| format!("{room} uses {used}"))
        })
    });
}

#[test]
fn files_are_named_only_behind_the_door_to_disks() {
    check(|source, line| {
        let named = line.contains("std::fs") || line.contains("tokio::fs");
        (named && !FILE_DOORS.contains(&source.place.as_str())).then(|| "files without a Disk".to_owned())
    });
}

#[test]
fn nothing_is_unsafe_outside_the_memory_map() {
    check(|source, line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let found = words.any(|word| word == "unsafe") || line.contains("allow(unsafe_code");
        (found && !UNSAFE.contains(&source.place.as_str())).then(|| "unsafe".to_owned())
    });
}

#[test]
fn no_file_is_too_long_to_hold_in_the_head() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "examples", "benches"] {
        let folder = root().join(folder);
        if folder.exists() {
            rust_files(&folder, &mut files);
        }
    }
    let long: Vec<String> = files
        .iter()
        .map(|file| (file, fs::read_to_string(file).unwrap().lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(file, lines)| format!("{}: {lines} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines, look for the seam:\n{}", long.join("\n"));
}
