//! A checked expression.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::datatypes::TimeUnit;

/// What a value is to the evaluator; each has one Arrow type in which it is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Boolean`
    Bool,
    /// `Int64`
    Int,
    /// `Float64`; −0 has been made 0, as Arrow compares by total order.
    Float,
    /// `Decimal128(38, scale)`. No value has more than `precision` digits.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// `Utf8`
    Text,
    /// `Int64`: units since 1970-01-01T00:00:00Z. Dates are midnights.
    Time(TimeUnit),
    /// A type that can only be asked whether it is null.
    Opaque,
}

/// A node; the types of its parts fit, so evaluating it cannot fail.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    /// A column, or a field inside of structs, brought to the Arrow type of its kind.
    Field { path: Vec<usize>, cast: Option<DataType>, kind: Kind },
    /// One value, as an array of one row in the Arrow type of its kind.
    Constant(ArrayRef),
    /// The same number in another kind.
    Convert { value: Box<Expr>, from: Kind, to: Kind },
    /// Both sides have the same kind.
    Compare { op: Comparison, left: Box<Expr>, right: Box<Expr> },
    /// Both sides have the kind `kind`, and so has the result; but a product of decimals takes any
    /// two, and its scale is the sum of theirs.
    Compute { op: Arithmetic, left: Box<Expr>, right: Box<Expr>, kind: Kind },
    /// SQL's AND.
    And(Box<Expr>, Box<Expr>),
    /// SQL's OR.
    Or(Box<Expr>, Box<Expr>),
    /// SQL's NOT: null stays null.
    Not(Box<Expr>),
    /// Null or not; itself never null.
    IsNull { value: Box<Expr>, negated: bool },
    /// `IS TRUE` and the like; itself never null.
    IsBool { value: Box<Expr>, wanted: bool, negated: bool },
    /// The pattern is a constant.
    Like { value: Box<Expr>, pattern: Box<Expr>, negated: bool, any_case: bool },
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

/// The four arithmetic operations and the remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}
