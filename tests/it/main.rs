//! Promises to users, one module each.
#![expect(clippy::disallowed_methods, reason = "tests look at the machine itself, beside the doors")]

mod cli;
