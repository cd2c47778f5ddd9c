//! Lands the same events with Alluvium and with bare arrow-rs, in one run, and prints the ratio.
//!
//! See the README beside it. The program starts itself for the bare side, so that both sides are
//! processes of their own.

#![allow(clippy::disallowed_methods, reason = "a benchmark is all real clocks and real files")]

mod alluvium_side;
mod bare;
mod costs;
mod events;
mod measure;
mod options;
mod report;
mod verify;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::ExitCode;

use events::Order;
use events::Sums;
use measure::Run;
use options::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // What this program starts itself with.
        ["bare", input, out, threads] => {
            let rows = bare::land(Path::new(input), Path::new(out), threads.parse()?)?;
            println!("{rows} rows");
            Ok(ExitCode::SUCCESS)
        }
        ["costs", ref rest @ ..] => {
            let options = Options::parse(rest)?;
            let (input, sums) = events::make(&options.dir, options.plan(Order::Mixed))?;
            costs::print(&input, &options.dir.join("log"), sums)?;
            Ok(ExitCode::SUCCESS)
        }
        ref words => compare(&Options::parse(words)?),
    }
}

fn compare(options: &Options) -> Result<ExitCode> {
    let program = match (&options.alluvium, options.bare_only) {
        (_, true) => None,
        (Some(program), false) => Some(program.clone()),
        (None, false) => Some(alluvium_side::build()?),
    };
    let mut kept = true;
    for order in &options.orders {
        let (input, sums) = events::make(&options.dir, options.plan(*order))?;
        for threads in &options.threads {
            let mut case = report::Case::new(*order, *threads, sums);
            for pair in 0..options.pairs {
                // Who goes first changes, in case the second finds a warmer or a busier machine.
                let bare_first = pair % 2 == 0;
                if bare_first {
                    case.bare(bare_side(options, &input, *threads, sums)?);
                }
                if let Some(program) = &program {
                    case.alluvium(alluvium_side::run(program, &options.dir, &input, *threads, sums)?);
                }
                if !bare_first {
                    case.bare(bare_side(options, &input, *threads, sums)?);
                }
            }
            kept &= case.print(options.limit);
        }
    }
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bare_side(options: &Options, input: &Path, threads: usize, sums: Sums) -> Result<Run> {
    let out = options.dir.join("out-bare");
    let _ = fs::remove_dir_all(&out);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").arg(input).arg(&out).arg(threads.to_string());
    let run = measure::run(&mut command, threads)?;
    let landed = verify::landed(&out, sums)?;
    // Gone before they are written back, which would disturb the other side.
    fs::remove_dir_all(&out)?;
    Ok(Run { landed, ..run })
}
