//! What a running job says of itself: numbers for a scraper, a status for a terminal.
//!
//! Owns the numbers, their names and their text form. Does not own when they change: tasks add to them,
//! and a task that is restarted goes on with the same ones. To update one is an atomic addition or store;
//! to read them never holds up a task.
//!
//! `value.rs` has the three kinds of number, `metrics.rs` the numbers, `names.rs` what they are called,
//! `text.rs` the Prometheus form. `docs/metrics.md` lists them all, and a test compares.

mod metrics;
mod names;
mod status;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use metrics::CheckpointMetrics;
pub use metrics::Metrics;
pub use metrics::SinkMetrics;
pub use metrics::SourceMetrics;
pub use names::Description;
pub use names::Kind;
pub use names::Of;
pub use names::descriptions;
pub use status::SinkLine;
pub use status::SourceLine;
pub use status::Status;
pub use text::CONTENT_TYPE;
pub use value::Counter;
pub use value::Durations;
pub use value::Gauge;
