//! What users are promised, one module for each promise. One binary: each more costs a link.
#![expect(clippy::disallowed_methods, reason = "tests look at the machine itself, beside the doors")]

mod buckets;
mod cli;
mod crash_sweep;
mod job;
mod kill;
mod log_bytes;
mod log_kill;
mod log_tools;
mod looking;
mod one_file;
mod quickstart;
mod readers;
mod records;
mod recovery;
mod signals;
mod support;
mod upkeep;
