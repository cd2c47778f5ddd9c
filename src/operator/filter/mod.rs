//! `filter`: a SQL expression that is checked once and then evaluated by Arrow's kernels, a column at
//! a time.
//!
//! The way of an expression: text → `parse` (`sqlparser`'s tree, within limits) → `check` (names) and
//! `coerce` (types) → [`expr::Expr`] → `eval` on each batch. The subset of SQL is in `docs/filter.md`.
//!
//! # What holds
//!
//! - An expression that passed the check never fails on data: what SQL leaves undefined (division by
//!   zero, an integer beyond 64 bits, a decimal beyond 38 digits) is null.
//! - Logic is SQL's with three values; a row is kept only where the whole is true.
//! - Comparisons are exact: integers and decimals meet as decimals, never as floats, while 38 digits
//!   suffice for both.

mod check;
mod coerce;
mod eval;
mod expr;
mod kind;
mod literal;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::filter;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::operator::error::Refusal;
use crate::stream::Batch;
use crate::stream::Stage;

pub(crate) use parse::check_alone;

/// Makes the stage that keeps the rows for which `expression` is true.
pub(crate) fn compile(expression: &str, schema: &SchemaRef) -> Result<Stage, Refusal> {
    let predicate = check::check(expression, schema)?;
    Ok(Arc::new(move |batch: Batch| {
        let mask = eval::mask(&predicate, &batch.records)?;
        if mask.null_count() == 0 && mask.true_count() == mask.len() {
            return Ok(batch);
        }
        let failed =
            |source| Error::fatal("a batch does not have the schema of its pipeline").with_source(source);
        let records = filter_record_batch(&batch.records, &mask).map_err(failed)?;
        let positions = filter(&batch.positions, &mask).map_err(failed)?;
        Ok(Batch { records, split: batch.split, positions: positions.to_data().into() })
    }))
}
