//! `alluvium wal`: whatever is wrong with a log is told with its place, and what is good is saved.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use alluvium::doors::Doors;
use alluvium::stream::Lsn;
use alluvium::wal::Wal;
use alluvium::wal::WalSettings;
use serde_json::Value;

use crate::support;

const ENTRIES: usize = 300;

fn settings() -> WalSettings {
    WalSettings { segment_bytes: 64 << 10, ..WalSettings::default() }
}

/// The bytes of entry `number`.
fn entry(number: usize) -> Vec<u8> {
    format!("{{\"number\":{number},\"filling\":\"{}\"}}", "x".repeat(900)).into_bytes()
}

/// A log as in a state directory, of several segments: the state directory, the log, the entries' positions.
fn site() -> (tempfile::TempDir, PathBuf, PathBuf, Vec<Lsn>) {
    let (guard, path) = support::folder();
    let (state, log) = (path.join("state"), path.join("state/log"));
    fs::create_dir(&state).unwrap();
    let (wal, _) = Wal::open(&log, settings(), &Doors::real()).unwrap();
    let lsns = (0..ENTRIES).map(|number| wal.append(&[&entry(number)]).unwrap().lsns[0]).collect();
    wal.close().unwrap();
    (guard, state, log, lsns)
}

/// Runs `alluvium wal`: exit code, standard output, standard error.
fn wal(args: &[&str], folder: &Path) -> (i32, String, String) {
    let (command, more) = args.split_first().unwrap();
    let output = support::alluvium().arg("wal").arg(command).arg(folder).args(more).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("a fault in Alluvium"), "{err}");
    (output.status.code().expect("it ends by itself"), out, err)
}

fn json(args: &[&str], folder: &Path) -> (i32, Value) {
    let (code, out, err) = wal(args, folder);
    (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

fn contents(log: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Changes a bit of the entry at `lsns[number]`, in the second segment; the file and the frame's offset.
fn harm(log: &Path) -> (PathBuf, u64, u64) {
    let path = log.join("0000000000000002.wal");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096 + 10 * 1024 + 500] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let base = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    (path, 4096 + 10 * 1024, base + 10 * 1024)
}

fn read(log: &Path) -> Vec<Vec<u8>> {
    let (wal, _) = Wal::open(log, settings(), &Doors::real()).unwrap();
    wal.replay(wal.start()).unwrap().map(|logged| logged.unwrap().entry.to_vec()).collect()
}

#[test]
fn a_whole_log_is_verified_and_shown_by_its_folder_and_by_the_state_directory() {
    let (_guard, state, log, lsns) = site();
    for folder in [&state, &log] {
        let (code, out, err) = wal(&["verify"], folder);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("all is well") && out.contains("300 entries"), "{out}");
    }
    let (code, report) = json(&["verify", "--json"], &state);
    assert_eq!((code, &report["damaged"], &report["entries"]), (0, &Value::from(false), &Value::from(300)));
    let (code, out, _) = wal(&["dump", "--limit", "3"], &state);
    assert_eq!(code, 0);
    assert!(out.contains("\\\"number\\\":2,") && !out.contains("\\\"number\\\":3,"), "{out}");
    assert!(out.ends_with("more follows; --from and --limit show it\n"), "{out}");
    let from = lsns[250].to_string();
    let (code, out, _) = wal(&["dump", "--from", &from, "--limit", "1000", "--json", "--full"], &log);
    assert_eq!((code, out.lines().count()), (0, 50));
    let line: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(line["lsn"], Value::from(lsns[250].0));
    let whole = String::from_utf8(entry(250)).unwrap();
    assert_eq!(line["text"], Value::from(whole.escape_debug().to_string()));
    assert_eq!(wal(&["dump", "--from", "99999999"], &log).0, 2);
}

#[test]
fn a_running_log_can_be_looked_at_and_not_be_repaired() {
    let (_guard, state, log, _) = site();
    let (open, _) = Wal::open(&log, settings(), &Doors::real()).unwrap();
    open.append(&[&entry(ENTRIES)]).unwrap();
    assert_eq!(wal(&["verify"], &state).0, 0);
    assert_eq!(wal(&["dump", "--limit", "1"], &state).0, 0);
    let to = state.join("saved");
    for args in [&["salvage", "--to", to.to_str().unwrap()][..], &["truncate", "--after", "64", "--yes"]] {
        let (code, _, err) = wal(args, &state);
        assert!(code == 2 && err.contains("in use"), "{code} {err}");
    }
    assert!(!to.exists());
}

#[test]
fn where_there_is_no_log_every_command_says_so() {
    let (_guard, folder) = support::folder();
    let file = folder.join("file");
    fs::write(&file, "").unwrap();
    for place in [&folder, &folder.join("none"), &file] {
        for args in
            [&["verify"][..], &["dump"], &["salvage", "--to", "new"], &["truncate", "--after", "1", "--yes"]]
        {
            let (code, out, err) = wal(args, place);
            assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
            assert!(err.starts_with("error: "), "{err}");
        }
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was made");
}

#[test]
fn damage_is_told_with_its_place_and_everything_else_is_saved() {
    let (guard, state, log, lsns) = site();
    let (path, offset, lsn) = harm(&log);
    let before = contents(&log);
    let places =
        [path.display().to_string(), format!("byte {offset}"), format!("LSN {lsn} to {}", lsn + 1024)];
    let all = |out: &str| places.iter().all(|place| out.contains(place.as_str()));

    let (code, out, _) = wal(&["verify"], &state);
    assert!(code == 3 && all(&out) && out.contains("from a copy") && out.contains("299 entries"), "{out}");
    let (code, report) = json(&["verify", "--json"], &state);
    assert_eq!((code, report["gaps"].as_array().unwrap().len()), (3, 1));
    assert_eq!(report["gaps"][0]["from"], Value::from(lsn));
    let (code, out, _) = wal(&["dump", "--limit", "1000"], &state);
    assert!(code == 3 && all(&out) && out.lines().count() == ENTRIES, "{out}");

    let to = guard.path().canonicalize().unwrap().join("saved");
    let (code, out, _) = wal(&["salvage", "--to", to.to_str().unwrap()], &state);
    assert!(code == 3 && all(&out) && out.contains("299 entries") && out.contains("1 gap"), "{out}");
    let lost = lsns.iter().position(|at| at.0 == lsn + 64).unwrap();
    let expected: Vec<_> = (0..ENTRIES).filter(|number| *number != lost).map(entry).collect();
    assert!(read(&to) == expected);
    let (code, _, err) = wal(&["salvage", "--to", to.to_str().unwrap()], &state);
    assert!(code == 2 && err.contains("not empty"), "{err}");
    assert!(contents(&log) == before, "something was changed");
}

#[test]
fn a_cut_is_shown_first_and_carried_out_when_it_is_told_to() {
    let (_guard, state, log, lsns) = site();
    let (_, _, lsn) = harm(&log);
    let before = contents(&log);
    let lost = lsns.iter().position(|at| at.0 == lsn + 64).unwrap();
    let after = lsn.to_string();
    let (code, out, _) = wal(&["truncate", "--after", &after], &state);
    assert!(code == 2 && out.contains("nothing was changed; --yes carries it out"), "{out}");
    assert!(out.contains(&format!("cuts {} entries", ENTRIES - lost - 1)), "{out}");
    let above = (lsn + 5000).to_string();
    let (code, out, err) = wal(&["truncate", "--after", &above, "--yes"], &state);
    assert!(code == 3 && out.is_empty() && err.contains(&format!("LSN {lsn} to")), "{out}{err}");
    assert!(contents(&log) == before, "something was changed");

    let (code, out, _) = wal(&["truncate", "--after", &after, "--yes"], &state);
    assert!(code == 0 && out.contains("quarantine"), "{out}");
    assert_eq!(wal(&["verify"], &state).0, 0);
    let (code, report) = json(&["truncate", "--after", &after, "--yes", "--json"], &state);
    assert_eq!((code, &report["end"], &report["entries"]), (0, &Value::from(lsn), &Value::from(0)));
    assert!(read(&log) == (0..lost).map(entry).collect::<Vec<_>>());
}

#[test]
fn no_bytes_in_a_log_make_a_command_panic() {
    let mut noise = 1_u64;
    for round in 0..12 {
        let (_guard, state, log, _) = site();
        for path in contents(&log).keys() {
            let mut bytes = fs::read(path).unwrap();
            for _ in 0..round {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (noise >> 33) as usize % bytes.len().max(1);
                let reach = if round % 2 == 0 { 200 } else { bytes.len() };
                if let Some(byte) = bytes.get_mut(at % reach.max(1)) {
                    *byte = noise as u8;
                }
            }
            if round % 3 == 2 {
                bytes.truncate(bytes.len() / 2);
            }
            fs::write(path, bytes).unwrap();
        }
        let to = state.join("saved");
        for args in [
            &["verify"][..],
            &["dump", "--limit", "1000"],
            &["salvage", "--to", to.to_str().unwrap()],
            &["truncate", "--after", "100000", "--yes"],
        ] {
            let (code, out, err) = wal(args, &state);
            assert!((0..=3).contains(&code), "{args:?}: {code} {out}{err}");
        }
    }
}

#[test]
fn a_measure_leaves_nothing_behind() {
    let (_guard, folder) = support::folder();
    let (code, out, err) = wal(&["bench", "--seconds", "0.1", "--writers", "2"], &folder);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for word in ["entries/s", "p99.9", "1 writer ", "2 writers", "replay", "no sync"] {
        assert!(out.contains(word), "{out} lacks {word}");
    }
    let (code, report) = json(&["bench", "--seconds", "0.05", "--json"], &folder);
    assert_eq!((code, report["rows"].as_array().unwrap().len()), (0, 4));
    assert!(report["rows"][1]["latency_us"]["p99"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
