//! `verify`, `gc` and `inspect`: beside a running job they disturb nothing, and they tell what is wrong.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::job;
use crate::job::PATIENCE;
use crate::job::Site;
use crate::job::name_of;
use crate::support;

const PIPELINE: &str = r#"
name = "kept"
[source]
type = "file"
path = "in/*.ndjson"
format = "ndjson"
follow = true
poll = "20ms"
[schema]
id = "int64"
kind = "string"
[sink]
type = "file"
path = "out/x"
format = "parquet"
partition_by = ["kind={kind}"]
roll = { rows = 200, age = "1h", inactivity = "1h" }
parquet = { row_group_rows = 64 }
[checkpoint]
interval = "50ms"
state = "state"
"#;

fn lines(ids: std::ops::Range<i64>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"kind\":\"{}\"}}\n", ["a", "b"][id as usize % 2])).collect()
}

fn end(site: &Site) {
    site.edit_pipeline("follow = true\npoll = \"20ms\"", "");
    site.run_well(&[]);
}

#[test]
fn verify_and_inspect_beside_a_busy_job_find_nothing_wrong() {
    let site = Site::new(PIPELINE);
    let running = site.start(&[]);
    running.await_message("started", 1);
    for turn in 0..8 {
        site.feed("a.ndjson", lines(turn * 500..(turn + 1) * 500));
        let completed = running.count("checkpoint completed");
        running.await_message("checkpoint completed", completed + 1);
        site.assert_verified();
        let output =
            support::alluvium().arg("inspect").arg(site.root.join("state")).arg("--json").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert!(told.to_string().contains("a.ndjson"), "{told}");
    }
    running.signal(Signal::TERM);
    assert_eq!(running.wait(PATIENCE).code, Some(143));
    end(&site);
    site.assert_landed_once(&(0..4_000).collect::<Vec<_>>());
}

/// C24.
#[test]
fn gc_beside_a_running_job_removes_our_orphans_only() {
    let site = Site::new(PIPELINE);
    site.edit_pipeline("interval = \"50ms\"", "interval = \"1h\"");
    site.feed("a.ndjson", lines(0..1_000));
    // A run that ends before any checkpoint leaves files that none names.
    let mut running = site.start(&[]);
    running.await_that("files in staging", || site.staged().len() == 2);
    running.kill();
    let orphans = site.staged();
    let copies: Vec<_> = orphans.iter().map(|path| fs::read(path).unwrap()).collect();
    // The next start removes them; they come back as if it had not been able to.
    let mut running = site.start(&[]);
    running.await_that("files in staging", || {
        site.staged().iter().filter(|path| !orphans.contains(path)).count() == 2
    });
    assert_eq!(site.staged().len(), 2, "the start removed the orphans");
    let live = site.staged();
    for (path, bytes) in orphans.iter().zip(copies) {
        fs::write(path, bytes).unwrap();
    }
    let lineage = live[0].parent().unwrap();
    let foreign = [
        lineage.join("notes.txt"),
        lineage.join(format!("{}.bak", name_of(&orphans[0]))),
        lineage.join("part-0badcafe-1-0-1.parquet"),
        lineage.with_file_name("0badcafe").join("part-0badcafe-1-0-1.parquet"),
        site.table().join("kind=a/somebody-elses.parquet"),
    ];
    for path in &foreign {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "not ours").unwrap();
    }

    let everything = seen(&site);
    let output = support::alluvium().args(["gc", "--dry-run"]).arg(site.pipeline()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(orphans.iter().all(|path| said.contains(&name_of(path))), "{said}");
    assert!(live.iter().all(|path| !said.contains(&format!("remove {}", path.display()))), "{said}");
    assert_eq!(seen(&site), everything);
    let (code, said) = site.command("gc");
    assert_eq!(code, 0, "{said}");
    let left: Vec<PathBuf> = everything.into_iter().filter(|path| !orphans.contains(path)).collect();
    assert_eq!(seen(&site), left);

    running.signal(Signal::TERM);
    assert_eq!(running.wait(PATIENCE).code, Some(143), "the job was not disturbed");
    foreign.iter().for_each(|path| fs::remove_file(path).unwrap());
    end(&site);
    site.assert_landed_once(&(0..1_000).collect::<Vec<_>>());
}

/// What looks like garbage may be what is left of a file that the state needs.
#[test]
fn gc_removes_nothing_while_a_file_that_the_state_needs_is_gone() {
    let site = Site::new(PIPELINE);
    site.edit_pipeline("rows = 200", "rows = 100000");
    site.feed("a.ndjson", lines(0..1_000));
    let mut running = site.start(&[]);
    running.await_message("checkpoint completed", 2);
    running.await_that("files in staging", || site.staged().len() == 2);
    running.kill();
    let needed = site.staged().remove(0);
    let elsewhere = site.root.join("elsewhere");
    fs::rename(&needed, &elsewhere).unwrap();
    let orphan = needed.with_file_name(name_of(&needed).replace("-1-0-", "-0-0-"));
    fs::write(&orphan, "of a start before").unwrap();
    let everything = seen(&site);
    let (code, said) = site.command("gc");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains(&name_of(&needed)) && said.contains("nothing was removed"), "{said}");
    assert_eq!(seen(&site), everything);
    fs::rename(&elsewhere, &needed).unwrap();
    let (code, said) = site.command("gc");
    assert_eq!(code, 0, "{said}");
    assert!(!orphan.exists() && needed.exists());
    end(&site);
    site.assert_landed_once(&(0..1_000).collect::<Vec<_>>());
}

/// All files but those of the state, which is at work.
fn seen(site: &Site) -> Vec<PathBuf> {
    job::files(&site.root).into_iter().filter(|path| !path.starts_with(site.root.join("state"))).collect()
}

#[test]
fn verify_finds_what_is_changed_missing_or_unknown() {
    let site = Site::new(PIPELINE);
    site.feed("a.ndjson", lines(0..1_000));
    end(&site);
    site.assert_verified();
    let parts = job::files(&site.table());
    let whole = fs::read(&parts[0]).unwrap();
    let finds = |what: &str, path: &Path| {
        let (code, said) = site.command("verify");
        assert_eq!(code, 3, "{what}: {said}");
        assert!(said.contains(&path.display().to_string()), "{what}: {said}");
    };

    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(&parts[0], &flipped).unwrap();
    finds("a flipped bit", &parts[0]);
    fs::write(&parts[0], &whole[..whole.len() - 1]).unwrap();
    finds("a byte less", &parts[0]);
    fs::remove_file(&parts[0]).unwrap();
    finds("a file less", &parts[0]);
    fs::write(&parts[0], &whole).unwrap();
    site.assert_verified();

    // The name of a part that nobody has made.
    let name = name_of(&parts[0]);
    let (front, _) = name.rsplit_once('-').unwrap();
    let stranger = parts[0].with_file_name(format!("{front}-999.parquet"));
    fs::write(&stranger, &whole).unwrap();
    finds("a file more", &stranger);
    // The next start would land nothing twice on top of that.
    site.run(&[]).assert_told(3, &[&name_of(&stranger)]);
    fs::remove_file(&stranger).unwrap();
    site.run_well(&[]);
    site.assert_landed_once(&(0..1_000).collect::<Vec<_>>());
}
