//! Many steps as one.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::operator::error::CompileError;
use crate::operator::filter;
use crate::operator::select;
use crate::operator::settings::TransformSettings;
use crate::stream::Stage;

/// Checks `transforms` one after the other, the first against `input`, and makes one stage of them;
/// also tells the schema of what leaves it.
///
/// The stage expects batches of the schema `input` and none other.
///
/// # Errors
///
/// The first step that does not fit what comes to it.
pub fn compile(
    transforms: &[TransformSettings],
    input: SchemaRef,
) -> Result<(Stage, SchemaRef), CompileError> {
    let mut schema = input;
    let mut steps: Vec<Stage> = Vec::with_capacity(transforms.len());
    for (at, transform) in transforms.iter().enumerate() {
        let step = match transform {
            TransformSettings::Filter { expression } => {
                filter::compile(expression, &schema).map_err(|refusal| refusal.of(at))?
            }
            TransformSettings::Select { fields } => {
                let (step, output) = select::select(fields, &schema).map_err(|refusal| refusal.of(at))?;
                schema = output;
                step
            }
            TransformSettings::Rename { map } => {
                let (step, output) = select::rename(map, &schema).map_err(|refusal| refusal.of(at))?;
                schema = output;
                step
            }
        };
        steps.push(step);
    }
    let stage: Stage = Arc::new(move |batch| steps.iter().try_fold(batch, |batch, step| step(batch)));
    Ok((stage, schema))
}

/// Checks what can be checked without a schema: that expressions are expressions.
///
/// # Errors
///
/// The first that is none.
pub fn check_alone(transforms: &[TransformSettings]) -> Result<(), CompileError> {
    for (at, transform) in transforms.iter().enumerate() {
        if let TransformSettings::Filter { expression } = transform {
            filter::check_alone(expression).map_err(|refusal| refusal.of(at))?;
        }
    }
    Ok(())
}
