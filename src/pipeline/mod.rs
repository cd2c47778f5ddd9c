//! From a pipeline file to a job, with every contradiction found before the first record.
//!
//! The way of a file: text → `document` (TOML, places, variables) → `settings` (plain data, unknown
//! keys refused) → `validate` (defaults, absolute paths, relations) → [`Pipeline`]. What needs the
//! schema of the records comes last, in [`Pipeline::bind`]. `guarantee` says what the whole promises,
//! `fingerprint` what must not change under a running state.
//!
//! The reference of all keys is `docs/pipeline.md`.

mod check;
mod document;
mod environment;
mod file;
mod fingerprint;
mod gc;
mod guarantee;
mod inspect;
mod job;
mod levels;
mod model;
mod others;
mod problem;
mod seen;
pub mod settings;
mod success;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod units;
mod validate;
mod verify;
mod wiring;

pub use check::Checkup;
pub use check::SampleCheck;
pub use check::StateCheck;
pub use check::check;
pub use environment::Environment;
pub use environment::NotText;
pub use environment::ProcessEnvironment;
pub use file::Bound;
pub use file::PipelineFile;
pub use fingerprint::Fingerprint;
pub use gc::GarbageCollection;
pub use gc::gc;
pub use guarantee::Guarantee;
pub use guarantee::Part;
pub use guarantee::Report;
pub use inspect::CheckpointKind;
pub use inspect::CheckpointReport;
pub use inspect::JobReport;
pub use inspect::LogReport;
pub use inspect::PartReport;
pub use inspect::SinkReport;
pub use inspect::SplitReport;
pub use inspect::StartReport;
pub use inspect::StateReport;
pub use inspect::TaskReport;
pub use inspect::Totals;
pub use inspect::inspect;
pub use job::Job;
pub use model::Checkpointing;
pub use model::Compression;
pub use model::FileSink;
pub use model::FileSource;
pub use model::InputFormat;
pub use model::OnError;
pub use model::Parquet;
pub use model::Pipeline;
pub use model::Restart;
pub use model::Roll;
pub use problem::Problem;
pub use problem::Problems;
pub use settings::BadRecord;
pub use settings::Mode;
pub use settings::SinkFormat;
pub use settings::UnknownField;
pub use summary::Landed;
pub use summary::Standing;
pub use summary::Summary;
pub use summary::Waiting;
pub use units::ByteSize;
pub use units::TimeSpan;
pub use verify::Finding;
pub use verify::Verification;
pub use verify::VerifySettings;
pub use verify::Wrong;
pub use verify::verify;
