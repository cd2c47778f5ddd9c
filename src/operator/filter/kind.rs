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

/// A type as a pipeline file writes it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match data_type {
        DataType::Utf8 | DataType::Utf8View => "string".to_owned(),
        DataType::LargeUtf8 => "json".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Timestamp(of, _) => format!("timestamp({})", unit(of)),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            format!("decimal({p},{s})")
        }
        DataType::List(item) | DataType::LargeList(item) => format!("list<{}>", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let inner: Vec<String> = fields
                .iter()
                .map(|field| format!("{}:{}", field.name(), type_name(field.data_type())))
                .collect();
            format!("struct<{}>", inner.join(","))
        }
        DataType::Dictionary(_, value) => type_name(value),
        other => format!("{other:?}").to_lowercase(),
    }
}
