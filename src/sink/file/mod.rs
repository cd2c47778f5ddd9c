//! The file sink.

pub mod bucket;
