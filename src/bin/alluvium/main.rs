//! The command line.
//!
//! Owns words and exit codes; what a command does is the library's. One file for each command.

mod args;
mod check;
mod exit;
mod gc;
mod inspect;
mod message;
mod new;
mod progress;
mod run;
mod runtime;
mod summary;
mod verify;
mod wal;
mod words;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::args::Command;
use crate::exit::Exit;

fn main() -> ExitCode {
    message::announce_faults();
    let exit = std::panic::catch_unwind(|| {
        let args = match Args::try_parse() {
            Ok(args) => args,
            Err(error) => return message::usage(&error),
        };
        let name = args.command.name();
        match command(args.command) {
            Ok(exit) => exit,
            Err(error) => message::failed(name, &error),
        }
    });
    exit.unwrap_or(Exit::Failed).into()
}

fn command(command: Command) -> alluvium::Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Gc(args) => gc::gc(&args),
        Command::New(args) => new::new(&args),
        Command::Wal(args) => wal::wal(&args.command),
    }
}
