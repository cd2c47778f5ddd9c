//! Appends, syncs and replays with Alluvium's log and with others, in one run, and prints the ratios.
//!
//! See the README beside it. The program starts itself for every cell, so that each engine has a process
//! and a folder of its own, and is checked by another process after an end without closing.

#![allow(clippy::disallowed_methods, reason = "a benchmark is all real clocks and real files")]

mod cell;
mod children;
mod cold;
mod engines;
mod options;
mod records;
mod report;
mod spread;
mod workload;

use std::process::ExitCode;

use options::Options;
use report::Case;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // What this program starts itself with.
        ["cell", phase, workload, engine, dir] => cell::main(phase, workload, engine, dir.as_ref()),
        ref words => compare(&Options::parse(words)?),
    }
}

fn compare(options: &Options) -> Result<ExitCode> {
    let mut kept = true;
    let mut cases = Vec::new();
    for workload in workload::ALL.iter().filter(|workload| workload.name.contains(&options.only)) {
        let mut case = Case::new(workload);
        for round in 0..options.rounds {
            // Who goes first changes: one may find a warmer, a fuller or a busier machine than the next.
            for place in 0..workload.engines.len() {
                let engine = workload.engines[(round + place) % workload.engines.len()];
                case.add(engine, children::measure(&options.dir, workload, engine)?);
            }
        }
        kept &= case.print();
        cases.push(case);
    }
    if cases.is_empty() {
        return Err(format!("no workload has {:?} in its name; see the README", options.only).into());
    }
    if let Some(path) = &options.json {
        report::write(path, &cases)?;
    }
    Ok(if kept || !options.limits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
