//! What a start does about files and logs that are not as they were left: it goes on, or it says why not.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::job;
use crate::job::Ended;
use crate::job::Running;
use crate::job::Site;
use crate::job::name_of;
use crate::support;

const PIPELINE: &str = r#"
name = "recovered"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
[schema]
id = "int64"
kind = "string"
[sink]
type = "file"
path = "out/x"
format = "parquet"
partition_by = ["kind={kind}"]
parquet = { row_group_rows = 64 }
[checkpoint]
interval = "100ms"
state = "state"
[restart]
strategy = "none"
"#;

fn lines(ids: std::ops::Range<i64>, kind: &str) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"kind\":\"{kind}\"}}\n")).collect()
}

fn follow(site: &Site) {
    site.edit_pipeline("format = \"ndjson\"", "format = \"ndjson\"\nfollow = true\npoll = \"20ms\"");
}

fn do_not_follow(site: &Site) {
    site.edit_pipeline("follow = true\npoll = \"20ms\"", "");
}

/// Every file and its bytes, but for the log's, to see that nothing was changed.
fn content(site: &Site) -> Vec<(PathBuf, Vec<u8>)> {
    let all = job::files(&site.root).into_iter();
    all.filter(|path| !path.starts_with(site.root.join("state")))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

/// A job whose checkpoint is complete and whose one pending file, of 500 rows, could not be committed: a
/// file stands where its bucket belongs. Returns that obstacle and the pending file.
fn pending() -> (Site, PathBuf, PathBuf) {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..500, "a"));
    let obstacle = site.table().join("kind=a");
    fs::create_dir_all(site.table()).unwrap();
    fs::write(&obstacle, "somebody's").unwrap();
    let failed = site.run(&[]);
    failed.assert_told(1, &["checkpoint completed", "kind=a"]);
    assert_eq!(fs::read(&obstacle).unwrap(), b"somebody's");
    let staged = site.staged();
    assert_eq!(staged.len(), 1, "{staged:?}");
    (site, obstacle, staged[0].clone())
}

#[test]
fn what_could_not_be_committed_is_committed_by_the_next_start() {
    let (site, obstacle, _) = pending();
    fs::remove_file(obstacle).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..500).collect::<Vec<_>>());
}

/// C4.
#[test]
fn a_pending_file_that_is_gone_under_both_names_is_an_error_that_tells_what_is_lost() {
    let (site, obstacle, staged) = pending();
    fs::remove_file(obstacle).unwrap();
    fs::remove_file(&staged).unwrap();
    let before = content(&site);
    for _ in 0..2 {
        site.run(&[]).assert_told(3, &[&name_of(&staged), "epoch 1", "500 rows", "--accept-loss"]);
        assert_eq!(content(&site), before);
    }
    // Only whoever says so goes on without the rows, once and for all, and it is on record.
    site.feed("b.ndjson", lines(500..600, "a"));
    site.run_well(&["--accept-loss"]);
    site.run_well(&[]);
    site.assert_landed_once(&(500..600).collect::<Vec<_>>());
    let output = support::alluvium().arg("inspect").arg(site.root.join("state")).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("1 file, lost and accepted"), "{shown}");
}

/// C5.
#[test]
fn a_target_that_is_taken_by_another_file_is_never_overwritten() {
    let (site, obstacle, staged) = pending();
    fs::remove_file(&obstacle).unwrap();
    fs::create_dir(&obstacle).unwrap();
    let target = obstacle.join(name_of(&staged));
    let len = fs::metadata(&staged).unwrap().len();
    fs::write(&target, vec![b'x'; len as usize]).unwrap();
    let before = content(&site);
    site.run(&[]).assert_told(3, &[&target.display().to_string(), "epoch 1", "500 rows"]);
    assert_eq!(content(&site), before);
    fs::remove_file(target).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..500).collect::<Vec<_>>());
}

/// C5: by our own file, as a crash between the rename and the record of it leaves it, or by both names of it.
#[test]
fn a_target_that_is_our_own_file_counts_as_committed() {
    for keep_both in [false, true] {
        let (site, obstacle, staged) = pending();
        fs::remove_file(&obstacle).unwrap();
        fs::create_dir(&obstacle).unwrap();
        let target = obstacle.join(name_of(&staged));
        fs::hard_link(&staged, &target).unwrap();
        if !keep_both {
            fs::remove_file(&staged).unwrap();
        }
        site.run_well(&[]);
        site.assert_landed_once(&(0..500).collect::<Vec<_>>());
    }
}

#[test]
fn a_pending_file_with_a_flipped_bit_is_not_published() {
    let (site, obstacle, staged) = pending();
    fs::remove_file(obstacle).unwrap();
    flip(&staged, fs::metadata(&staged).unwrap().len() / 2);
    site.run(&[]).assert_told(3, &[&name_of(&staged), "500 rows"]);
    assert_eq!(job::files(&site.table()), Vec::<PathBuf>::new());
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// The segments of the log, the oldest first, and how far each is written.
fn segments(site: &Site) -> Vec<(PathBuf, u64)> {
    let mut found: Vec<_> = job::files(&site.root.join("state/log"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "wal"))
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            (path, bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1))
        })
        .collect();
    found.sort();
    found
}

/// A job that was killed after some checkpoints, with files in progress.
fn killed() -> Site {
    let site = Site::new(PIPELINE);
    follow(&site);
    let running = site.start(&[]);
    for turn in 0..8 {
        site.feed("a.ndjson", lines(turn * 100..(turn + 1) * 100, "a"));
        let completed = running.count("checkpoint completed");
        running.await_message("checkpoint completed", completed + 1);
    }
    running.kill();
    do_not_follow(&site);
    site
}

/// C21.
#[test]
fn a_flipped_bit_in_the_log_is_refused_with_segment_and_offset() {
    let site = killed();
    let (newest, written) = segments(&site).pop().unwrap();
    let before = content(&site);
    for at in [written / 4, written / 2, written * 2 / 3] {
        flip(&newest, at);
        let refused = site.run(&[]);
        refused.assert_told(3, &[&newest.display().to_string(), "damage at byte "]);
        let told = number_behind(&refused, "damage at byte ");
        assert!(told <= at && at - told < 8 << 10, "byte {at} was flipped: {refused}");
        assert_eq!(content(&site), before);
        flip(&newest, at);
    }
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

fn number_behind(ended: &Ended, words: &str) -> u64 {
    let text = ended.text();
    let (_, behind) = text.split_once(words).unwrap();
    behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// C21.
#[test]
fn a_missing_segment_is_refused() {
    let site = killed();
    let all = segments(&site);
    let (oldest, _) = &all[0];
    let aside = site.root.join("aside");
    fs::rename(oldest, &aside).unwrap();
    site.run(&[]).assert_told(3, &[&name_of(oldest)]);
    fs::rename(&aside, oldest).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

/// C21: what nobody was told of may go.
#[test]
fn garbage_behind_the_end_of_the_log_is_cut() {
    let site = killed();
    let (newest, written) = segments(&site).pop().unwrap();
    let file = File::options().write(true).open(newest).unwrap();
    file.write_all_at(&[0xa5; 3_000], written.next_multiple_of(64) + 64).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

/// Two segments and two spares, however often a job starts.
fn assert_small(site: &Site, limit: u64) {
    let log = job::files(&site.root.join("state"));
    let bytes: u64 = log.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes <= limit, "{bytes} bytes: {log:?}");
}

#[test]
fn starts_and_kills_in_a_row_take_no_more_of_the_disk() {
    const LIMIT: u64 = (4 * 64 + 1) << 20;
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..100, "a"));
    for _ in 0..6 {
        site.run_well(&[]);
        assert_small(&site, LIMIT);
    }
    follow(&site);
    for turn in 0..6 {
        let running = site.start(&[]);
        site.feed("a.ndjson", lines(100 + turn * 10..110 + turn * 10, "a"));
        running.await_message("checkpoint completed", 1);
        running.kill();
        assert_small(&site, LIMIT);
    }
    do_not_follow(&site);
    site.run_well(&[]);
    site.assert_landed_once(&(0..160).collect::<Vec<_>>());
}

#[test]
fn an_input_file_that_shrank_is_an_error_that_names_it() {
    let site = killed();
    let text = fs::read(site.input("a.ndjson")).unwrap();
    fs::write(site.input("a.ndjson"), &text[..text.len() / 2]).unwrap();
    let before = content(&site);
    site.run(&[]).assert_told(3, &["a.ndjson", "was cut or written anew"]);
    assert_eq!(content(&site), before);
    fs::write(site.input("a.ndjson"), &text).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

#[test]
fn an_input_file_that_was_replaced_is_an_error_that_names_it() {
    let site = killed();
    let text = fs::read(site.input("a.ndjson")).unwrap();
    let aside = site.root.join("a.old");
    fs::rename(site.input("a.ndjson"), &aside).unwrap();
    fs::write(site.input("a.ndjson"), lines(5_000..7_000, "b")).unwrap();
    assert!(fs::metadata(site.input("a.ndjson")).unwrap().len() > text.len() as u64);
    site.run(&[]).assert_told(3, &["a.ndjson", "is not the file that was read"]);
    fs::rename(&aside, site.input("a.ndjson")).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

#[test]
fn a_rotated_file_is_read_to_its_end_and_a_new_one_takes_its_name() {
    let site = killed();
    site.feed("a.ndjson", lines(800..900, "a"));
    fs::rename(site.input("a.ndjson"), site.input("a-1.ndjson")).unwrap();
    site.feed("a.ndjson", lines(900..1_000, "b"));
    site.run_well(&[]);
    site.assert_landed_once(&(0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_finished_input_file_may_be_removed() {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..100, "a"));
    site.run_well(&[]);
    fs::remove_file(site.input("a.ndjson")).unwrap();
    site.feed("b.ndjson", lines(100..200, "a"));
    site.run_well(&[]);
    site.assert_landed_once(&(0..200).collect::<Vec<_>>());
}

/// A state that is not there any more: its files are another job's now (D1).
#[test]
fn a_new_state_leaves_the_files_of_a_former_one_alone() {
    let site = killed();
    let staged = site.staged();
    assert_eq!(staged.len(), 1);
    fs::remove_dir_all(site.root.join("state")).unwrap();
    site.run_well(&[]);
    assert_eq!(site.staged(), staged);
    assert_eq!(site.ids(), (0..800).collect::<Vec<_>>());
}

/// The right to mount is in the effective capabilities.
fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    capabilities
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & CAP_SYS_ADMIN != 0)
}

/// A small file system in memory, unmounted with the value.
struct Mount(PathBuf);

impl Mount {
    /// None, said aloud, where this process may not mount, as in most containers.
    #[track_caller]
    fn new(path: PathBuf, bytes: u64) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let size = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        match mounted {
            Ok(output) if output.status.success() => return Some(Self(path)),
            why if may_mount() => support::skip(&format!("no file system can be mounted here: {why:?}")),
            _ => job::tell(
                "SKIPPED: a full disk needs a file system of its own, and this process may not mount one",
            ),
        }
        None
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let free = rustix::fs::statvfs(&self.0).unwrap();
        let bytes = free.f_bavail * free.f_frsize;
        let ballast = File::create(self.0.join("ballast")).unwrap();
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
    }

    fn grow(&self, bytes: u64) {
        let grown =
            Command::new("mount").args(["-o", &format!("remount,size={bytes}")]).arg(&self.0).status();
        assert!(grown.unwrap().success());
    }

    fn free(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            job::tell(&format!("{:?} cannot be unmounted", self.0));
        }
    }
}

/// While there is no room nothing is acknowledged and the job lives; the log says what it waits for.
fn held_back(running: &mut Running, says: &str) {
    let completed = running.count("checkpoint completed");
    std::thread::sleep(Duration::from_secs(10));
    assert!(running.is_alive(), "{}", running.said().join("\n"));
    assert_eq!(running.count("checkpoint completed"), completed);
    assert!(running.said().iter().any(|line| line.contains(says)), "{}", running.said().join("\n"));
}

/// C20: no room for another segment when the log needs one. There is room for two: the one in use and its spare.
#[test]
fn a_full_disk_of_the_state_holds_the_job_back_until_there_is_room() {
    const LINES: i64 = 300_000;
    let site = Site::new(PIPELINE);
    let Some(mount) = Mount::new(site.root.join("small"), 150 << 20) else { return };
    site.edit_pipeline("state = \"state\"", "state = \"small/state\"");
    site.edit_pipeline("kind = \"string\"", "kind = \"string\"\ntext = \"string\"");
    site.edit_pipeline("row_group_rows = 64", "row_group_rows = 1000000");
    follow(&site);
    let mut chance = job::Chance::new("a_full_disk_of_the_state");
    let mut line = |id: i64| {
        // Nothing that could be compressed well.
        let text: String = (0..400).map(|_| char::from(b'#' + chance.below(90) as u8)).collect();
        format!("{{\"id\":{id},\"kind\":\"a\",\"text\":\"{}\"}}\n", text.replace('\\', "~"))
    };
    site.feed("a.ndjson", line(0));
    let mut running = site.start(&[]);
    running.await_message("checkpoint completed", 1);
    let mut fed = 1;
    while fed < LINES && running.count("no room in the log; waiting") == 0 {
        site.feed("a.ndjson", (fed..fed + 5_000).map(&mut line).collect::<String>());
        fed += 5_000;
    }
    running.await_message("no room in the log; waiting", 1);
    held_back(&mut running, "no room in the log");
    let completed = running.count("checkpoint completed");
    mount.grow(400 << 20);
    running.await_message("checkpoint completed", completed + 2);
    running.kill();
    do_not_follow(&site);
    site.run_well(&[]);
    site.assert_landed_once(&(0..fed).collect::<Vec<_>>());
}

/// C20: no room for part files.
#[test]
fn a_full_disk_of_the_table_holds_the_job_back_until_there_is_room() {
    let site = Site::new(PIPELINE);
    let Some(mount) = Mount::new(site.root.join("out"), 16 << 20) else { return };
    follow(&site);
    site.feed("a.ndjson", lines(0..1_000, "a"));
    let mut running = site.start(&[]);
    running.await_message("checkpoint completed", 1);
    mount.fill();
    site.feed("a.ndjson", lines(1_000..20_000, "a"));
    running.await_message("no room for part files; waiting", 1);
    held_back(&mut running, "no room for part files");
    let completed = running.count("checkpoint completed");
    mount.free();
    running.await_message("checkpoint completed", completed + 1);
    running.kill();
    do_not_follow(&site);
    site.run_well(&[]);
    site.assert_landed_once(&(0..20_000).collect::<Vec<_>>());
}

/// A full disk does not keep a job from ending: the first signal waits for room, the second does not.
#[test]
fn a_job_that_waits_for_room_ends_at_the_second_signal() {
    let site = Site::new(PIPELINE);
    let Some(mount) = Mount::new(site.root.join("out"), 16 << 20) else { return };
    follow(&site);
    site.feed("a.ndjson", lines(0..1_000, "a"));
    let mut running = site.start(&[]);
    running.await_message("checkpoint completed", 1);
    mount.fill();
    site.feed("a.ndjson", lines(1_000..20_000, "a"));
    running.await_message("no room for part files; waiting", 1);
    running.signal(Signal::TERM);
    running.await_message("asked to end: making a final checkpoint", 1);
    held_back(&mut running, "no room for part files");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(5)).code, Some(143));
    mount.free();
    do_not_follow(&site);
    site.run_well(&[]);
    site.assert_landed_once(&(0..20_000).collect::<Vec<_>>());
}

/// D17: only a clean stop leaves nothing that another definition could not go on from.
#[test]
fn a_changed_definition_is_refused_after_a_crash_and_taken_after_a_clean_stop() {
    let site = killed();
    site.edit_pipeline("partition_by = [\"kind={kind}\"]", "partition_by = []");
    let before = content(&site);
    site.run(&[]).assert_told(2, &["was not made by a clean stop", "Nothing was changed"]);
    assert_eq!(content(&site), before);
    site.edit_pipeline("partition_by = []", "partition_by = [\"kind={kind}\"]");
    follow(&site);
    let running = site.start(&[]);
    site.feed("a.ndjson", lines(800..900, "a"));
    running.await_message("checkpoint completed", 1);
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(30)).code, Some(143));
    assert!(!site.staged().is_empty(), "a file in progress outlives the stop");

    do_not_follow(&site);
    site.edit_pipeline("partition_by = [\"kind={kind}\"]", "partition_by = []");
    site.feed("a.ndjson", lines(900..1_000, "a"));
    site.run_well(&[]);
    site.assert_verified();
    assert_eq!(site.staged(), Vec::<PathBuf>::new());
    let parts = site.rows_of_parts();
    let (old, new): (Vec<_>, Vec<_>) = parts.iter().partition(|(path, _)| path.starts_with("kind=a/"));
    let ids = |parts: Vec<(&String, &Vec<i64>)>| {
        let mut ids: Vec<i64> = parts.into_iter().flat_map(|(_, ids)| ids.clone()).collect();
        ids.sort_unstable();
        ids
    };
    let (old, new) = (ids(old), ids(new));
    assert!(old.len() >= 800 && new.len() >= 100, "{} and {}", old.len(), new.len());
    assert!(old.into_iter().chain(new).eq(0..1_000));
}

#[test]
fn another_source_or_another_table_is_another_job() {
    let site = killed();
    for (from, to) in [("in/*.ndjson", "in/a*.ndjson"), ("path = \"out/x\"", "path = \"out/y\"")] {
        site.edit_pipeline(from, to);
        site.run(&[]).assert_told(2, &["state"]);
        site.edit_pipeline(to, from);
    }
    assert!(!site.root.join("out/y").exists());
    site.run_well(&[]);
    site.assert_landed_once(&(0..800).collect::<Vec<_>>());
}

#[test]
fn an_input_that_matches_nothing_is_a_usage_error() {
    let site = Site::new(PIPELINE);
    site.run(&[]).assert_told(2, &["in/*.ndjson", "matches no file"]);
}

#[test]
fn check_refuses_an_input_that_a_run_would_refuse_and_no_other() {
    let site = Site::new(PIPELINE);
    let whole = lines(0..50, "a");
    site.feed("a.ndjson", &whole);
    site.feed("b.ndjson", lines(50..60, "b"));
    site.run_well(&[]);
    let both = |code: i32, words: &str| {
        let (checked, said) = site.command("check");
        assert_eq!(checked, code, "{said}");
        assert!(said.contains(words), "{said}");
        let ran = site.run(&[]);
        assert_eq!(ran.code, Some(code), "{ran}");
    };
    fs::write(site.input("a.ndjson"), &whole[..whole.len() / 2]).unwrap();
    both(3, "was read up to position");
    fs::write(site.input("a.ndjson"), lines(100..150, "z") + &whole).unwrap();
    both(3, "is not the file that was read");
    fs::write(site.input("a.ndjson"), &whole).unwrap();
    both(0, "");
    // What is read to its end may go.
    fs::remove_file(site.input("a.ndjson")).unwrap();
    both(0, "");
    fs::remove_file(site.input("b.ndjson")).unwrap();
    both(0, "no file matches the source's path any more");
    site.assert_landed_once(&(0..60).collect::<Vec<_>>());
}
