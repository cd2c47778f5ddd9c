//! A job that is killed at random moments lands each record once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use crate::job::Chance;
use crate::job::Ended;
use crate::job::Site;
use crate::job::message;
use crate::job::tell;
use crate::support;

const PIPELINE: &str = r#"
name = "killed"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "20ms"
[schema]
id = "int64"
kind = "string"
[on_error]
bad_record = "dead_letter"
dead_letters = "out/bad"
[sink]
type = "file"
path = "out/x"
format = "parquet"
partition_by = ["kind={kind}"]
roll = { rows = 300, age = "1h", inactivity = "1h" }
parquet = { row_group_rows = 64 }
[checkpoint]
interval = "100ms"
state = "state"
"#;

const KILLS: usize = 25;
const KILLS_AFTER_A_CHECKPOINT: usize = 15;

/// What the log says last tells where the kill fell.
const PHASES: [(&str, &str); 7] = [
    ("started", "before the first barrier"),
    ("barrier injected", "barrier on its way"),
    ("acknowledged", "barrier on its way"),
    ("pre-committed", "syncing part files"),
    ("durable", "writing the completion record"),
    ("checkpoint completed", "committing"),
    ("committed", "between two checkpoints"),
];

/// The input: lines, their ids, and the positions of those that are broken.
struct Input {
    bytes: Vec<u8>,
    ids: Vec<i64>,
    broken: Vec<(u64, String)>,
}

fn input(lines: i64, chance: &mut Chance) -> Input {
    let mut input = Input { bytes: Vec::new(), ids: Vec::new(), broken: Vec::new() };
    for id in 0..lines {
        let kind = ["a", "b", "c"][chance.below(3) as usize];
        let line = match chance.below(40) {
            0 => format!("{{\"id\":{id},\"kind\":\"{kind}\""),
            1 => format!("{{\"id\":{id}.5,\"kind\":\"{kind}\"}}"),
            _ => {
                input.ids.push(id);
                format!("{{\"id\":{id},\"kind\":\"{kind}\"}}")
            }
        };
        if input.ids.last() != Some(&id) {
            input.broken.push((input.bytes.len() as u64, line.clone()));
        }
        input.bytes.extend_from_slice(line.as_bytes());
        input.bytes.push(b'\n');
    }
    input
}

fn phase(ended: &Ended) -> &'static str {
    let last = ended
        .said
        .iter()
        .rev()
        .filter_map(|line| message(line))
        .find_map(|said| PHASES.iter().find(|(message, _)| *message == said).map(|(_, phase)| *phase));
    last.unwrap_or("starting")
}

/// Starts the job and kills it: at any moment of its first 300 ms, or at or soon after an event of a random
/// kind, once the run has completed one or two checkpoints.
fn kill_once(site: &Site, early: bool, chance: &mut Chance) -> Ended {
    let running = site.start(&[]);
    if early {
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        return running.kill();
    }
    running.await_message("checkpoint completed", 1 + chance.below(2) as usize);
    if chance.below(3) > 0 {
        let kinds = ["barrier injected", "acknowledged", "pre-committed", "durable", "checkpoint completed"];
        let kind = kinds[chance.below(5) as usize];
        let until_now = running.count(kind);
        running.await_message(kind, until_now + 1);
        // Half of them at once.
        std::thread::sleep(Duration::from_micros(chance.below(6_000).saturating_sub(3_000)));
    } else {
        std::thread::sleep(Duration::from_millis(chance.below(120)));
    }
    running.kill()
}

#[test]
fn twenty_five_kills_lose_and_repeat_nothing() {
    let started = Instant::now();
    let mut chance = Chance::new("twenty_five_kills_lose_and_repeat_nothing");
    let site = Site::new(PIPELINE);
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut after_checkpoint, mut checkpoints) = (0, 0);

    // Somebody writes all the time, in portions that end in the middle of lines.
    let ended = Arc::new(AtomicBool::new(false));
    let input = input(500_000, &mut chance);
    let mut portion = chance.branch();
    let written = std::thread::scope(|scope| {
        let (site, chance, input, done) = (&site, &mut chance, &input, Arc::clone(&ended));
        let feeding = scope.spawn(move || {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) && written < input.bytes.len() {
                let end = (written + 50 + portion.below(2_000) as usize).min(input.bytes.len());
                site.feed("a.ndjson", &input.bytes[written..end]);
                written = end;
                std::thread::sleep(Duration::from_millis(4));
            }
            written
        });
        for kill in 0..KILLS {
            let killed = kill_once(site, kill % 5 == 4, chance);
            assert_eq!(killed.code, None, "it ended by itself: {killed}");
            *phases.entry(phase(&killed)).or_default() += 1;
            let completed = killed.count("checkpoint completed");
            after_checkpoint += usize::from(completed > 0);
            checkpoints += completed;
        }
        ended.store(true, Ordering::Relaxed);
        feeding.join().unwrap()
    });
    tell(&format!(
        "{KILLS} kills, {after_checkpoint} after a completed checkpoint of their run, {checkpoints} checkpoints, by phase:"
    ));
    for (phase, kills) in &phases {
        tell(&format!("  {phase:30} {kills:3} {}", "#".repeat(*kills)));
    }
    assert!(after_checkpoint >= KILLS_AFTER_A_CHECKPOINT);

    // What was read is made visible; what was not is left for the next run.
    site.run_well(&["--drain"]);
    assert_eq!(site.staged(), Vec::<std::path::PathBuf>::new());
    // That run ends with the input. The writer has finished its line.
    let rest = input.bytes[written..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    site.feed("a.ndjson", &input.bytes[written..written + rest]);
    site.edit_pipeline("follow = true\npoll = \"20ms\"", "follow = false");
    site.run_well(&[]);

    let written = (written + rest) as u64;
    let lines = input.bytes[..written as usize].iter().filter(|byte| **byte == b'\n').count() as i64;
    let ids: Vec<i64> = input.ids.iter().copied().filter(|id| *id < lines).collect();
    let broken: Vec<_> = input.broken.iter().filter(|(position, _)| *position < written).collect();
    site.assert_landed_once(&ids);
    let letters = site.dead_letters();
    let found: Vec<_> =
        letters.iter().map(|letter| (letter["position"].as_u64(), letter["raw"].as_str())).collect();
    let wanted: Vec<_> = broken.iter().map(|(position, raw)| (Some(*position), Some(raw.as_str()))).collect();
    assert_eq!(found, wanted);
    assert!(letters.iter().all(|letter| letter["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
    if let Some(read) = support::read_output(&site.letters(), "ndjson", "position") {
        assert_eq!(
            (&read["rows"], &read["distinct"]),
            (&Value::from(broken.len()), &Value::from(broken.len()))
        );
    }
    tell(&format!(
        "{} rows, {} dead letters, {:.1} s",
        ids.len(),
        broken.len(),
        started.elapsed().as_secs_f64()
    ));
}
