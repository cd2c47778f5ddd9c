//! What users are promised, one module for each promise. One binary: each more costs a link.
#![expect(clippy::disallowed_methods, reason = "tests look at the machine itself, beside the doors")]

mod cli;
mod crash_sweep;
mod readers;
mod support;
