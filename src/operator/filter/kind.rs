//! Arrow's types, as the evaluator and the user know them.

use arrow::datatypes::DataType;
use arrow::datatypes::TimeUnit;

use crate::operator::filter::expr::Kind;

/// The kind of a column, and the type it is cast to first.
pub(super) fn kind_of(data_type: &DataType) -> (Kind, Option<DataType>) {
    let (kind, wanted) = match data_type {
        DataType::Boolean => (Kind::Bool, DataType::Boolean),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => (Kind::Int, DataType::Int64),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => (Kind::Int, DataType::Int64),
        DataType::UInt64 => (Kind::Decimal { precision: 20, scale: 0 }, DataType::Decimal128(38, 0)),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => (Kind::Float, DataType::Float64),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if (0..=38).contains(scale) =>
        {
            let kind = Kind::Decimal { precision: *precision, scale: scale.unsigned_abs() };
            (kind, DataType::Decimal128(38, *scale))
        }
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => (Kind::Float, DataType::Float64),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => (Kind::Text, DataType::Utf8),
        DataType::Date32 | DataType::Date64 => {
            (Kind::Time(TimeUnit::Second), DataType::Timestamp(TimeUnit::Second, None))
        }
        DataType::Timestamp(unit, _) => (Kind::Time(*unit), data_type.clone()),
        DataType::Dictionary(_, value) => {
            let (kind, wanted) = kind_of(value);
            let wanted = wanted.unwrap_or_else(|| value.as_ref().clone());
            if kind == Kind::Opaque { (kind, data_type.clone()) } else { (kind, wanted) }
        }
        other => (Kind::Opaque, other.clone()),
    };
    let cast = (wanted != *data_type).then_some(wanted);
    (kind, cast)
}
