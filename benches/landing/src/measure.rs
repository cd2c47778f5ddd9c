//! One process from start to end: its time, its processor time, its memory.

use std::fs;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use nix::sched::CpuSet;
use nix::sched::sched_getaffinity;
use nix::sched::sched_setaffinity;
use nix::sys::resource::UsageWho;
use nix::sys::resource::getrusage;
use nix::sys::time::TimeVal;
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use crate::Result;
use crate::verify::Landed;

/// How often memory is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What a process took.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub wall_s: f64,
    pub cpu_s: f64,
    /// The most anonymous memory seen, in bytes: what a file's page cache holds is none of it.
    pub anonymous_max: u64,
    /// Completed while events came; the bare side has none.
    pub checkpoints: Option<u64>,
    pub landed: Landed,
}

/// Runs `command` on `processors` of this machine's processors.
pub fn run(command: &mut Command, processors: usize) -> Result<Run> {
    let all = sched_getaffinity(Pid::from_raw(0))?;
    let mut some = CpuSet::new();
    for processor in (0..CpuSet::count()).filter(|at| all.is_set(*at).unwrap_or(false)).take(processors) {
        some.set(processor)?;
    }
    let before = cpu_s(UsageWho::RUSAGE_CHILDREN)?;
    let start = Instant::now();
    // A child inherits the processors of the thread that starts it.
    sched_setaffinity(Pid::from_raw(0), &some)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    sched_setaffinity(Pid::from_raw(0), &all)?;
    let child = child.map_err(|error| format!("{command:?}: {error}"))?;

    let (pid, ended) = (child.id(), AtomicBool::new(false));
    let (output, wall_s, anonymous_max) = thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(anonymous(pid).unwrap_or(0));
                thread::sleep(SAMPLE_EVERY);
            }
            most
        });
        let output = child.wait_with_output();
        let wall_s = start.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        (output, wall_s, sampler.join().unwrap_or(0))
    });
    let output = output?;
    // One child at a time: what all children took grew by what this one took.
    let cpu_s = cpu_s(UsageWho::RUSAGE_CHILDREN)? - before;
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if !output.status.success() {
        return Err(format!("{command:?}: {}\n{said}", output.status).into());
    }
    Ok(Run { wall_s, cpu_s, anonymous_max, ..Run::default() })
}

/// User and system time so far, in seconds.
pub fn cpu_s(who: UsageWho) -> Result<f64> {
    let usage = getrusage(who)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn anonymous(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
