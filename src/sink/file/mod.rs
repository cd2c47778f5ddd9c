//! The file sink.

pub mod bucket;
mod name;
mod part;
mod recover;
mod rolling;
