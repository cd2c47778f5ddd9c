//! `select` and `rename`: other columns, the same rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::Field;
use arrow::datatypes::Schema;
use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::operator::error::Refusal;
use crate::operator::error::Site;
use crate::operator::error::suggest_field;
use crate::stream::Batch;
use crate::stream::Stage;

/// Keeps `fields`, in this order.
pub(crate) fn select(fields: &[String], input: &SchemaRef) -> Result<(Stage, SchemaRef), Refusal> {
    if fields.is_empty() {
        return Err(Refusal::new(Site::Whole, "`fields` is empty: nothing would be left of a record"));
    }
    let mut columns: Vec<usize> = Vec::with_capacity(fields.len());
    for (at, name) in fields.iter().enumerate() {
        let Some((column, _)) = input.column_with_name(name) else {
            return Err(Refusal::new(Site::Field(at), format!("there is no field `{name}`"))
                .with_help(suggest_field(name, input.fields().iter().map(|field| field.name().as_str()))));
        };
        if columns.contains(&column) {
            return Err(Refusal::new(Site::Field(at), format!("the field `{name}` is named twice")));
        }
        columns.push(column);
    }
    let kept: Vec<Arc<Field>> =
        columns.iter().filter_map(|column| input.fields().get(*column).cloned()).collect();
    let output = Arc::new(Schema::new_with_metadata(kept, input.metadata().clone()));
    Ok((with_columns(columns, Arc::clone(&output)), output))
}

/// Gives fields other names.
pub(crate) fn rename(map: &[(String, String)], input: &SchemaRef) -> Result<(Stage, SchemaRef), Refusal> {
    if map.is_empty() {
        return Err(Refusal::new(
            Site::Whole,
            "`map` is empty: it names old and new fields, { old = \"new\" }",
        ));
    }
    let mut names: Vec<String> = input.fields().iter().map(|field| field.name().clone()).collect();
    for (old, new) in map {
        let site = || Site::Map(old.clone());
        let Some((column, _)) = input.column_with_name(old) else {
            return Err(Refusal::new(site(), format!("there is no field `{old}`"))
                .with_help(suggest_field(old, input.fields().iter().map(|field| field.name().as_str()))));
        };
        if new.is_empty() {
            return Err(Refusal::new(site(), "the new name is empty"));
        }
        if let Some(name) = names.get_mut(column) {
            name.clone_from(new);
        }
    }
    for (old, new) in map {
        if names.iter().filter(|name| *name == new).count() > 1 {
            return Err(Refusal::new(Site::Map(old.clone()), format!("two fields would be called `{new}`"))
                .with_help("choose another name, or leave the other field out with `select` first"));
        }
    }
    let fields: Vec<Field> = input
        .fields()
        .iter()
        .zip(names)
        .map(|(field, name)| field.as_ref().clone().with_name(name))
        .collect();
    let output = Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()));
    Ok((with_columns((0..input.fields().len()).collect(), Arc::clone(&output)), output))
}

fn with_columns(columns: Vec<usize>, output: SchemaRef) -> Stage {
    Arc::new(move |batch: Batch| {
        let arrays =
            columns.iter().filter_map(|column| batch.records.columns().get(*column).cloned()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.records.num_rows()));
        let records =
            RecordBatch::try_new_with_options(Arc::clone(&output), arrays, &options).map_err(|source| {
                Error::fatal("a batch does not have the schema of its pipeline").with_source(source)
            })?;
        Ok(Batch { records, ..batch })
    })
}
