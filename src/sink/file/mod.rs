//! The file sink.

pub mod bucket;
mod descriptors;
mod name;
mod part;
mod recover;
mod rolling;
