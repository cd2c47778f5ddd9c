//! Brings the sides of a comparison or a computation to one kind, without loss where there is one
//! that holds both.

use arrow::array::ArrayRef;
use arrow::datatypes::TimeUnit;

use crate::operator::filter::expr::Arithmetic;
use crate::operator::filter::expr::Comparison;
use crate::operator::filter::expr::Expr;
use crate::operator::filter::expr::Kind;
use crate::operator::filter::literal;
use crate::operator::filter::literal::BadTime;
use crate::operator::filter::literal::DIGITS_MAX;
use crate::operator::filter::literal::ns_of;
use crate::operator::filter::parse::Checked;
use crate::operator::filter::parse::SUBSET;
use crate::operator::filter::parse::at;

/// An expression with its type and place.
pub(super) struct Typed {
    pub expr: Expr,
    pub kind: Kind,
    /// The type as a user knows it.
    pub name: String,
    /// Set for a string literal, which may become a time.
    pub string: Option<String>,
    /// Its first character in the text, from 0.
    pub at: usize,
}

/// `left op right`, both brought to one kind.
pub(super) fn compare(left: Typed, op: Comparison, right: Typed) -> Checked<Typed> {
    let place = left.at;
    let (left, right, _) = unify(left, right, "compare")?;
    Ok(bool_at(Expr::Compare { op, left: Box::new(left.expr), right: Box::new(right.expr) }, place))
}

/// Arithmetic on numbers.
pub(super) fn compute(left: Typed, op: Arithmetic, right: Typed) -> Checked<Typed> {
    let place = left.at;
    for side in [&left, &right] {
        if !matches!(side.kind, Kind::Int | Kind::Float | Kind::Decimal { .. }) {
            return Err(at(side.at, format!("arithmetic needs numbers, this is of type {}", side.name)));
        }
    }
    let (left, right, kind) = match (op, &left.kind, &right.kind) {
        // 7 / 2 is 3.5, for integers too.
        (Arithmetic::Div, ..) => (to_kind(left, &Kind::Float), to_kind(right, &Kind::Float), Kind::Float),
        (Arithmetic::Mul, Kind::Decimal { .. }, Kind::Decimal { .. } | Kind::Int)
        | (Arithmetic::Mul, Kind::Int, Kind::Decimal { .. }) => multiply(left, right),
        _ => unify(left, right, "compute with")?,
    };
    let kind = match (op, kind) {
        (Arithmetic::Add | Arithmetic::Sub, Kind::Decimal { precision, scale }) => {
            Kind::Decimal { precision: (precision + 1).min(DIGITS_MAX), scale }
        }
        (_, kind) => kind,
    };
    let name = match &kind {
        Kind::Int => "int64".to_owned(),
        Kind::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        _ => "float64".to_owned(),
    };
    let expr =
        Expr::Compute { op, left: Box::new(left.expr), right: Box::new(right.expr), kind: kind.clone() };
    Ok(Typed { expr, kind, name, string: None, at: place })
}

/// Brings both sides to one kind, without loss where there is one that can hold both.
fn unify(left: Typed, right: Typed, verb: &str) -> Checked<(Typed, Typed, Kind)> {
    let kind = match (&left.kind, &right.kind) {
        (Kind::Time(unit), Kind::Text) if right.string.is_some() => {
            let text = right.string.as_deref().unwrap_or_default();
            let (array, finer) = time(text, *unit, right.at)?;
            let right = time_at(array, finer, right.at);
            return Ok((to_kind(left, &Kind::Time(finer)), right, Kind::Time(finer)));
        }
        (Kind::Text, Kind::Time(_)) if left.string.is_some() => {
            let (right, left, kind) = unify(right, left, verb)?;
            return Ok((left, right, kind));
        }
        (Kind::Time(one), Kind::Time(other)) => {
            Kind::Time(if ns_of(*one) < ns_of(*other) { *one } else { *other })
        }
        (one, other) if one == other && *one != Kind::Opaque => one.clone(),
        (Kind::Float, Kind::Int | Kind::Decimal { .. }) | (Kind::Int | Kind::Decimal { .. }, Kind::Float) => {
            Kind::Float
        }
        (one @ (Kind::Int | Kind::Decimal { .. }), other @ (Kind::Int | Kind::Decimal { .. })) => {
            let (one, other) = (digits(one), digits(other));
            let scale = one.1.max(other.1);
            let precision = (one.0 - one.1).max(other.0 - other.1) + scale;
            if precision <= DIGITS_MAX { Kind::Decimal { precision, scale } } else { Kind::Float }
        }
        _ => {
            let reason = format!("cannot {verb} {} and {}", left.name, right.name);
            let help = match (&left.kind, &right.kind) {
                (Kind::Text, Kind::Int | Kind::Float | Kind::Decimal { .. }) => {
                    "put the number in single quotes"
                }
                (Kind::Int | Kind::Float | Kind::Decimal { .. }, Kind::Text) if right.string.is_some() => {
                    "write the number without quotes"
                }
                (Kind::Opaque, _) | (_, Kind::Opaque) => "of such a field one can only ask IS [NOT] NULL",
                (Kind::Time(_), Kind::Int) | (Kind::Int, Kind::Time(_)) => {
                    "write the time as a string: '2026-03-01T10:30:00Z'"
                }
                _ => SUBSET,
            };
            return Err(at(right.at, reason).with_help(help));
        }
    };
    Ok((to_kind(left, &kind), to_kind(right, &kind), kind))
}

/// The instant that a string names.
pub(super) fn time(text: &str, at_least: TimeUnit, place: usize) -> Checked<(ArrayRef, TimeUnit)> {
    literal::time(text, at_least).map_err(|error| match error {
        BadTime::Form => at(place, format!("'{text}' is no timestamp"))
            .with_help("forms: '2026-03-01T10:30:00Z', '2026-03-01 10:30:00' (UTC), '2026-03-01'"),
        BadTime::Range => at(place, format!("'{text}' is beyond what nanoseconds in 64 bits can count")),
    })
}

/// The product's scale is the sum of the factors'; where 38 digits may not hold it, floats do.
fn multiply(left: Typed, right: Typed) -> (Typed, Typed, Kind) {
    let (one, other) = (digits(&left.kind), digits(&right.kind));
    let (precision, scale) = (one.0 + other.0, one.1 + other.1);
    if scale > DIGITS_MAX {
        return (to_kind(left, &Kind::Float), to_kind(right, &Kind::Float), Kind::Float);
    }
    let left = to_kind(left, &Kind::Decimal { precision: one.0, scale: one.1 });
    let right = to_kind(right, &Kind::Decimal { precision: other.0, scale: other.1 });
    (left, right, Kind::Decimal { precision: precision.min(DIGITS_MAX), scale })
}

/// Precision and scale of an exact number.
fn digits(kind: &Kind) -> (u8, u8) {
    match kind {
        Kind::Decimal { precision, scale } => (*precision, *scale),
        // i64 has up to 19 digits.
        _ => (19, 0),
    }
}

fn to_kind(typed: Typed, kind: &Kind) -> Typed {
    let same = match (&typed.kind, kind) {
        (Kind::Decimal { scale, .. }, Kind::Decimal { scale: to, .. }) => scale == to,
        (from, to) => from == to,
    };
    if same {
        return Typed { kind: kind.clone(), ..typed };
    }
    let expr = Expr::Convert { value: Box::new(typed.expr), from: typed.kind, to: kind.clone() };
    Typed { expr, kind: kind.clone(), ..typed }
}

/// A constant time.
pub(super) fn time_at(array: ArrayRef, unit: TimeUnit, place: usize) -> Typed {
    let expr = Expr::Constant(array);
    Typed { expr, kind: Kind::Time(unit), name: "timestamp".to_owned(), string: None, at: place }
}

/// Something true or false.
pub(super) fn bool_at(expr: Expr, place: usize) -> Typed {
    Typed { expr, kind: Kind::Bool, name: "boolean".to_owned(), string: None, at: place }
}
