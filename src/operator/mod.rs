//! Transformations between source and sink: each a pure function of a batch.
//!
//! `settings` says what a step is; [`compile`] checks a list of steps against a schema and makes of
//! it one [`crate::stream::Stage`] and the schema behind it. Everything that can be wrong is found
//! there, before the first record: a compiled stage has no settings left to disagree with.
//!
//! Rows keep their order, their split and their positions; a step drops rows or changes columns,
//! never both meanings of a row. All steps are stateless and deterministic, so a replay after a
//! crash gives the same rows (the ground on which exactly once stands).

mod chain;
mod error;
mod filter;
mod select;
mod settings;
#[cfg(test)]
mod tests;

pub use chain::check_alone;
pub use chain::compile;
pub use error::CompileError;
pub use error::Site;
pub use settings::TransformSettings;
