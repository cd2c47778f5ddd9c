//! Evaluates a checked expression on a batch, a column at a time.

use std::sync::Arc;

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::AsArray;
use arrow::array::BooleanArray;
use arrow::array::Datum;
use arrow::array::Float64Array;
use arrow::array::Int64Array;
use arrow::array::PrimitiveArray;
use arrow::array::RecordBatch;
use arrow::array::Scalar;
use arrow::array::StructArray;
use arrow::array::UInt32Array;
use arrow::array::make_array;
use arrow::buffer::NullBuffer;
use arrow::compute::and_kleene;
use arrow::compute::cast;
use arrow::compute::ilike;
use arrow::compute::is_not_null;
use arrow::compute::is_null;
use arrow::compute::kernels::cmp;
use arrow::compute::like;
use arrow::compute::nilike;
use arrow::compute::nlike;
use arrow::compute::not;
use arrow::compute::or_kleene;
use arrow::compute::take;
use arrow::datatypes::ArrowPrimitiveType;
use arrow::datatypes::Decimal128Type;
use arrow::datatypes::Float64Type;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;

use crate::error::Error;
use crate::error::Result;
use crate::operator::filter::expr::Arithmetic;
use crate::operator::filter::expr::Comparison;
use crate::operator::filter::expr::Expr;
use crate::operator::filter::expr::Kind;
use crate::operator::filter::literal::decimals;
use crate::operator::filter::literal::ns_of;

/// For each row of `records`: true, false or null.
pub(crate) fn mask(predicate: &Expr, records: &RecordBatch) -> Result<BooleanArray> {
    let failed =
        |source| Error::fatal("a batch does not fit its filter: a fault of the program").with_source(source);
    let value = eval(predicate, records).map_err(failed)?;
    boolean(&value, records.num_rows()).map_err(failed)
}

/// A column, or one value that stands for all rows.
enum Value {
    Column(ArrayRef),
    One(ArrayRef),
}

impl Value {
    fn array(&self) -> &ArrayRef {
        match self {
            Self::Column(array) | Self::One(array) => array,
        }
    }

    /// As many rows as `rows`.
    fn rows(&self, rows: usize) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Column(array) => Ok(Arc::clone(array)),
            Self::One(array) => take(array, &UInt32Array::from(vec![0; rows]), None),
        }
    }

    /// A result with the shape of the values that went in.
    fn like(inputs: &[&Value], array: ArrayRef) -> Value {
        if inputs.iter().all(|value| matches!(value, Self::One(_))) {
            Self::One(array)
        } else {
            Self::Column(array)
        }
    }
}

fn eval(expr: &Expr, records: &RecordBatch) -> Result<Value, ArrowError> {
    match expr {
        Expr::Field { path, cast: to, kind } => field(path, to.as_ref(), kind, records).map(Value::Column),
        Expr::Constant(array) => Ok(Value::One(Arc::clone(array))),
        Expr::Convert { value, from, to } => {
            let value = eval(value, records)?;
            let array = convert(value.array(), from, to)?;
            Ok(Value::like(&[&value], array))
        }
        Expr::Compare { op, left, right } => {
            let (left, right) = (eval(left, records)?, eval(right, records)?);
            let kernel = match op {
                Comparison::Eq => cmp::eq,
                Comparison::NotEq => cmp::neq,
                Comparison::Lt => cmp::lt,
                Comparison::LtEq => cmp::lt_eq,
                Comparison::Gt => cmp::gt,
                Comparison::GtEq => cmp::gt_eq,
            };
            let array = with_datums(&left, &right, kernel)?;
            Ok(Value::like(&[&left, &right], Arc::new(array)))
        }
        Expr::Compute { op, left, right, kind } => {
            let (left, right) = (eval(left, records)?, eval(right, records)?);
            let array = compute(*op, &left, &right, kind, records.num_rows())?;
            Ok(Value::like(&[&left, &right], array))
        }
        Expr::And(left, right) | Expr::Or(left, right) => {
            let rows = records.num_rows();
            let left = boolean(&eval(left, records)?, rows)?;
            let right = boolean(&eval(right, records)?, rows)?;
            let array = if matches!(expr, Expr::And(..)) {
                and_kleene(&left, &right)?
            } else {
                or_kleene(&left, &right)?
            };
            Ok(Value::Column(Arc::new(array)))
        }
        Expr::Not(value) => {
            let value = eval(value, records)?;
            let array = not(as_boolean(value.array())?)?;
            Ok(Value::like(&[&value], Arc::new(array)))
        }
        Expr::IsNull { value, negated } => {
            let value = eval(value, records)?;
            let array = if *negated { is_not_null(value.array())? } else { is_null(value.array())? };
            Ok(Value::like(&[&value], Arc::new(array)))
        }
        Expr::IsBool { value, wanted, negated } => {
            let value = eval(value, records)?;
            let array: BooleanArray = as_boolean(value.array())?
                .iter()
                .map(|found| Some((found == Some(*wanted)) != *negated))
                .collect();
            Ok(Value::like(&[&value], Arc::new(array)))
        }
        Expr::Like { value, pattern, negated, any_case } => {
            let (value, pattern) = (eval(value, records)?, eval(pattern, records)?);
            let kernel = match (negated, any_case) {
                (false, false) => like,
                (true, false) => nlike,
                (false, true) => ilike,
                (true, true) => nilike,
            };
            let array = with_datums(&value, &pattern, kernel)?;
            Ok(Value::like(&[&value, &pattern], Arc::new(array)))
        }
    }
}

fn with_datums(
    left: &Value,
    right: &Value,
    kernel: fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>,
) -> Result<BooleanArray, ArrowError> {
    match (left, right) {
        (Value::Column(left), Value::Column(right)) => kernel(left, right),
        (Value::Column(left), Value::One(right)) => kernel(left, &Scalar::new(right)),
        (Value::One(left), Value::Column(right)) => kernel(&Scalar::new(left), right),
        // Two arrays of one row.
        (Value::One(left), Value::One(right)) => kernel(left, right),
    }
}

fn field(
    path: &[usize],
    to: Option<&arrow::datatypes::DataType>,
    kind: &Kind,
    records: &RecordBatch,
) -> Result<ArrayRef, ArrowError> {
    let missing = || ArrowError::SchemaError("a field of the filter is not in the batch".to_owned());
    let (first, inner) = path.split_first().ok_or_else(missing)?;
    let mut array = Arc::clone(records.columns().get(*first).ok_or_else(missing)?);
    for index in inner {
        let outer = array.as_any().downcast_ref::<StructArray>().ok_or_else(missing)?;
        let child = outer.columns().get(*index).ok_or_else(missing)?;
        // A field of a null struct is null, whatever the child's own bytes say.
        let nulls = NullBuffer::union(outer.nulls(), child.nulls());
        array = make_array(child.to_data().into_builder().nulls(nulls).build()?);
    }
    if let Some(to) = to {
        array = cast(&array, to)?;
    }
    match kind {
        Kind::Time(_) => cast(&array, &arrow::datatypes::DataType::Int64),
        Kind::Float => {
            let positive_zero: Float64Array =
                array.as_primitive_opt::<Float64Type>().ok_or_else(missing)?.unary(|value| value + 0.0);
            Ok(Arc::new(positive_zero))
        }
        _ => Ok(array),
    }
}

fn convert(array: &ArrayRef, from: &Kind, to: &Kind) -> Result<ArrayRef, ArrowError> {
    use arrow::datatypes::DataType;
    match (from, to) {
        (Kind::Time(from), Kind::Time(to)) => {
            let factor = i64::try_from(ns_of(*from) / ns_of(*to)).unwrap_or(1);
            let counts = as_ints(array)?;
            let scaled: Int64Array = counts.iter().map(|count| count?.checked_mul(factor)).collect();
            Ok(Arc::new(scaled))
        }
        (_, Kind::Decimal { scale, .. }) => {
            let scale = i8::try_from(*scale).unwrap_or(0);
            cast(array, &DataType::Decimal128(38, scale))
        }
        (_, Kind::Float) => cast(array, &DataType::Float64),
        _ => Ok(Arc::clone(array)),
    }
}

fn compute(
    op: Arithmetic,
    left: &Value,
    right: &Value,
    kind: &Kind,
    rows: usize,
) -> Result<ArrayRef, ArrowError> {
    let rows = if matches!((left, right), (Value::One(_), Value::One(_))) { 1 } else { rows };
    match kind {
        Kind::Int => {
            let values = pairwise::<Int64Type>(left, right, rows, |a, b| match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Sub => a.checked_sub(b),
                Arithmetic::Mul => a.checked_mul(b),
                Arithmetic::Div => a.checked_div(b),
                Arithmetic::Rem => a.checked_rem(b),
            })?;
            Ok(Arc::new(Int64Array::from(values)))
        }
        Kind::Decimal { scale, .. } => {
            let values = pairwise::<Decimal128Type>(left, right, rows, |a, b| {
                let result = match op {
                    Arithmetic::Add => a.checked_add(b),
                    Arithmetic::Sub => a.checked_sub(b),
                    Arithmetic::Mul => a.checked_mul(b),
                    Arithmetic::Div => a.checked_div(b),
                    Arithmetic::Rem => a.checked_rem(b),
                };
                result.filter(|value| value.unsigned_abs() < 10_u128.pow(38))
            })?;
            Ok(Arc::new(decimals(values, *scale)))
        }
        _ => {
            let values = pairwise::<Float64Type>(left, right, rows, |a, b| {
                let result = match op {
                    Arithmetic::Add => a + b,
                    Arithmetic::Sub => a - b,
                    Arithmetic::Mul => a * b,
                    Arithmetic::Div => a / b,
                    Arithmetic::Rem => a % b,
                };
                // Infinity and NaN are what SQL leaves undefined.
                result.is_finite().then_some(result + 0.0)
            })?;
            Ok(Arc::new(Float64Array::from(values)))
        }
    }
}

fn pairwise<T: ArrowPrimitiveType>(
    left: &Value,
    right: &Value,
    rows: usize,
    op: impl Fn(T::Native, T::Native) -> Option<T::Native>,
) -> Result<Vec<Option<T::Native>>, ArrowError> {
    let (left, right) = (left.rows(rows)?, right.rows(rows)?);
    let (left, right) = (as_numbers::<T>(&left)?, as_numbers::<T>(&right)?);
    Ok(left.iter().zip(right.iter()).map(|(a, b)| op(a?, b?)).collect())
}

fn as_numbers<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<&PrimitiveArray<T>, ArrowError> {
    array.as_primitive_opt::<T>().ok_or_else(|| {
        ArrowError::SchemaError(format!("a {} where {} was checked", array.data_type(), T::DATA_TYPE))
    })
}

fn as_ints(array: &ArrayRef) -> Result<&Int64Array, ArrowError> {
    as_numbers::<Int64Type>(array)
}

fn as_boolean(array: &ArrayRef) -> Result<&BooleanArray, ArrowError> {
    array.as_boolean_opt().ok_or_else(|| {
        ArrowError::SchemaError(format!("a {} where a boolean was checked", array.data_type()))
    })
}

fn boolean(value: &Value, rows: usize) -> Result<BooleanArray, ArrowError> {
    as_boolean(&value.rows(rows)?).cloned()
}
