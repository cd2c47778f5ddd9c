//! What a column of some type is made of.

use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::FieldRef;

use crate::error::Error;
use crate::error::Result;

/// The parts of a column, whatever its type means.
pub(super) enum Shape<'a> {
    /// No bytes at all.
    Null,
    /// A bit a row.
    Bits,
    /// So many bytes a row.
    Fixed(usize),
    /// Bytes of any length; offsets have 64 bits if `large`.
    Bytes { large: bool },
    /// Items of any number; offsets have 64 bits if `large`.
    List { large: bool, item: &'a Field },
    /// So many items a row.
    Items { count: usize, item: &'a Field },
    /// Columns of as many rows.
    Struct(&'a [FieldRef]),
}

impl<'a> Shape<'a> {
    /// # Errors
    ///
    /// [`crate::ErrorKind::Fatal`] for types that no pipeline's schema has: dictionaries, views, unions.
    pub(super) fn of(data_type: &'a DataType) -> Result<Self> {
        if let Some(width) = data_type.primitive_width() {
            return Ok(Self::Fixed(width));
        }
        let other = || Error::fatal(format!("rows of type {data_type} cannot be spilled"));
        let size = |size: i32| usize::try_from(size).map_err(|_| other());
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bits,
            DataType::FixedSizeBinary(width) => Self::Fixed(size(*width)?),
            DataType::Utf8 | DataType::Binary => Self::Bytes { large: false },
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Bytes { large: true },
            DataType::List(item) | DataType::Map(item, _) => Self::List { large: false, item },
            DataType::LargeList(item) => Self::List { large: true, item },
            DataType::FixedSizeList(item, count) => Self::Items { count: size(*count)?, item },
            DataType::Struct(fields) => Self::Struct(fields),
            _ => return Err(other()),
        })
    }
}
