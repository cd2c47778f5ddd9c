//! One cell: what a process of its own does in a folder of its own.
//!
//! Three processes can be needed. `fill` writes a log that another one reads or is to be cold; `run` is
//! measured and prints a [`Measured`]; `check` reads what `run` left. None of them closes its log.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::Instant;

use nix::sys::resource::UsageWho;
use nix::sys::resource::getrusage;
use nix::sys::time::TimeValLike;
use serde_json::Value;
use serde_json::json;

use crate::Result;
use crate::cold;
use crate::engines::Engine;
use crate::engines::Log;
use crate::records::Ledger;
use crate::records::Records;
use crate::workload::FILL_BATCH;
use crate::workload::Work;
use crate::workload::Workload;

/// What a run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub seconds: f64,
    /// Processor time of all threads meanwhile.
    pub cpu_seconds: f64,
    /// Syncs of files meanwhile, where the engine counts them.
    pub syncs: Option<u64>,
    /// Bytes read from the disk meanwhile.
    pub disk_read_bytes: u64,
}

impl Measured {
    pub fn json(self) -> Value {
        let Self { seconds, cpu_seconds, syncs, disk_read_bytes } = self;
        json!({
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "syncs": syncs,
            "disk_read_bytes": disk_read_bytes,
        })
    }

    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        Ok(Self {
            seconds: value["seconds"].as_f64().ok_or("no seconds")?,
            cpu_seconds: value["cpu_seconds"].as_f64().ok_or("no cpu_seconds")?,
            syncs: value["syncs"].as_u64(),
            disk_read_bytes: value["disk_read_bytes"].as_u64().ok_or("no disk_read_bytes")?,
        })
    }
}

/// What the program does when it has started itself.
pub fn main(phase: &str, workload: &str, engine: &str, dir: &Path) -> Result<ExitCode> {
    let (workload, engine) = (Workload::find(workload)?, Engine::find(engine)?);
    match phase {
        "fill" => {
            let log = engine.open(dir, workload)?;
            fill(&*log, workload)?;
            end()
        }
        "run" => run(workload, engine, dir),
        "check" => {
            let mut ledger = ledger(workload).with_every_byte(workload.work.at_once());
            engine.replay(dir, workload, &mut |record| ledger.take(record))?;
            ledger.finish()?;
            end()
        }
        _ => Err(format!("{phase:?} is no phase of a cell").into()),
    }
}

/// Ends the process with its log open, as a signal would: nothing is closed, nothing is dropped.
fn end() -> ! {
    std::process::exit(0)
}

fn ledger(workload: &Workload) -> Ledger {
    let work = workload.work;
    Ledger::new(workload.size, work.writers(), work.each(), work.first())
}

fn run(workload: &Workload, engine: Engine, dir: &Path) -> Result<ExitCode> {
    if let Work::Replay { cold, .. } = workload.work {
        if cold {
            cold::evict(dir)?;
        }
        let mut ledger = ledger(workload);
        let before = Meters::read(None)?;
        engine.replay(dir, workload, &mut |record| ledger.take(record))?;
        let measured = Meters::read(None)?.since(&before);
        ledger.finish()?;
        let log_bytes = workload.work.each() * workload.size as u64;
        // Else the numbers would be about something else.
        let read = measured.disk_read_bytes;
        if cold != (read > log_bytes / 10 * 9) {
            return Err(format!("{read} bytes came from the disk, cold is {cold}").into());
        }
        done(measured);
    }
    let log = engine.open(dir, workload)?;
    if let Work::GiveUp { .. } = workload.work {
        fill(&*log, workload)?;
    }
    cold::settle(dir)?;
    let before = Meters::read(Some(&*log))?;
    let seconds = measure(&*log, workload)?;
    let measured = Meters::read(Some(&*log))?.since(&before);
    done(Measured { seconds, ..measured })
}

/// What the clocks and counters show.
struct Meters {
    at: Instant,
    cpu_seconds: f64,
    syncs: Option<u64>,
    disk_read_bytes: u64,
}

impl Meters {
    fn read(log: Option<&dyn Log>) -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Ok(Self {
            cpu_seconds: micros as f64 / 1e6,
            syncs: log.and_then(Log::syncs),
            disk_read_bytes: cold::disk_read_bytes()?,
            at: Instant::now(),
        })
    }

    fn since(&self, before: &Self) -> Measured {
        Measured {
            seconds: (self.at - before.at).as_secs_f64(),
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            syncs: self.syncs.zip(before.syncs).map(|(now, before)| now - before),
            disk_read_bytes: self.disk_read_bytes - before.disk_read_bytes,
        }
    }
}

fn done(measured: Measured) -> ! {
    println!("{}", measured.json());
    // What fails here is missed by the parent.
    let _flushed = std::io::stdout().flush();
    end()
}

/// Appends all records of a workload that is about reading or giving up, durable.
fn fill(log: &dyn Log, workload: &Workload) -> Result<()> {
    let mut records = Records::new(0, workload.size, workload.work.at_once());
    let mut writer = log.writer(0)?;
    let mut left = workload.work.each();
    while left > 0 {
        let count = left.min(FILL_BATCH);
        writer.commit_batch(&records.some(count))?;
        left -= count;
    }
    Ok(())
}

/// Seconds that the work takes.
fn measure(log: &dyn Log, workload: &Workload) -> Result<f64> {
    let work = workload.work;
    let records = |writer| Records::new(writer, workload.size, work.at_once());
    if let Work::Commit { writers: writers @ 2.., each } = work {
        return blocking_writers(log, writers, each, &records);
    }
    let mut records = records(0);
    let mut writer = log.writer(0)?;
    let start = Instant::now();
    match work {
        Work::Commit { each, .. } => {
            for _ in 0..each {
                writer.commit(records.one())?;
            }
        }
        Work::InFlight { flight, rounds } => {
            for _ in 0..rounds {
                writer.in_flight(&records.some(flight))?;
            }
        }
        Work::Batch { records: count, batches } => {
            for _ in 0..batches {
                writer.commit_batch(&records.some(count))?;
            }
        }
        Work::Append { records: count } => {
            for _ in 0..count {
                writer.append(records.one())?;
            }
        }
        Work::GiveUp { .. } => log.give_up(work.kept_from())?,
        Work::Replay { .. } => return Err("a replay opens its log itself".into()),
    }
    Ok(start.elapsed().as_secs_f64())
}

fn blocking_writers(
    log: &dyn Log,
    writers: u64,
    each: u64,
    records: &(dyn Fn(u64) -> Records + Sync),
) -> Result<f64> {
    let begin = Barrier::new(usize::try_from(writers)? + 1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..writers)
            .map(|number| {
                let begin = &begin;
                scope.spawn(move || -> Result<()> {
                    let mut records = records(number);
                    let writer = log.writer(number);
                    begin.wait();
                    let mut writer = writer?;
                    (0..each).try_for_each(|_| writer.commit(records.one()))
                })
            })
            .collect();
        begin.wait();
        let start = Instant::now();
        for handle in handles {
            handle.join().map_err(|_| "a writer panicked")??;
        }
        Ok(start.elapsed().as_secs_f64())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cell_prints_is_what_the_parent_reads() {
        let measured = Measured { seconds: 0.25, cpu_seconds: 0.5, syncs: Some(3), disk_read_bytes: 4096 };
        assert_eq!(Measured::parse(&measured.json().to_string()).unwrap(), measured);
        let without = Measured { syncs: None, ..measured };
        assert_eq!(Measured::parse(&without.json().to_string()).unwrap(), without);
    }
}
