//! From the text of an expression to a tree whose types fit, or to the place where they do not.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::array::BooleanArray;
use arrow::datatypes::DataType;
use arrow::datatypes::Field;
use arrow::datatypes::Fields;
use arrow::datatypes::SchemaRef;
use arrow::datatypes::TimeUnit;
use sqlparser::ast;
use sqlparser::ast::BinaryOperator;
use sqlparser::ast::Spanned;
use sqlparser::ast::UnaryOperator;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Location;
use sqlparser::tokenizer::Span;
use sqlparser::tokenizer::Token;
use sqlparser::tokenizer::Tokenizer;

use crate::operator::error::Refusal;
use crate::operator::error::Site;
use crate::operator::error::suggest_field;
use crate::operator::filter::expr::Arithmetic;
use crate::operator::filter::expr::Comparison;
use crate::operator::filter::expr::Expr;
use crate::operator::filter::expr::Kind;
use crate::operator::filter::literal;
use crate::operator::filter::literal::BadTime;
use crate::operator::filter::literal::DIGITS_MAX;
use crate::operator::filter::literal::ns_of;

/// Longer texts are refused.
const LENGTH_MAX: usize = 64 << 10;
/// More words and signs (values and the commas between them do not count) are refused: the parser's
/// tree of a chain of operators is as deep as the chain is long, and dropping it is recursive.
const PARTS_MAX: usize = 1000;
/// Deeper trees are refused before the stack is in danger; chains of AND and OR do not count.
const DEPTH_MAX: usize = 64;
/// Where the subset is described.
const SUBSET: &str = "docs/filter.md lists what a filter can do";

type Checked<T> = Result<T, Refusal>;

/// Checks `text` against `schema`.
pub(crate) fn check(text: &str, schema: &SchemaRef) -> Checked<Expr> {
    let tree = parse(text)?;
    let checker = Checker { text, schema };
    let typed = checker.expr(&tree, 0)?;
    if typed.kind != Kind::Bool {
        let reason = format!("the expression is of type {}, a filter needs true or false", typed.name);
        return Err(at(typed.at, reason).with_help("compare it with something"));
    }
    Ok(typed.expr)
}

/// Checks that `text` is an expression, whatever its fields.
pub(crate) fn check_alone(text: &str) -> Checked<()> {
    parse(text).map(drop)
}

fn parse(text: &str) -> Checked<ast::Expr> {
    if text.len() > LENGTH_MAX {
        return Err(at(0, format!("the expression is longer than {LENGTH_MAX} bytes")));
    }
    if text.trim().is_empty() {
        return Err(at(0, "the expression is empty"));
    }
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, text)
        .tokenize_with_location()
        .map_err(|error| syntax(text, &ParserError::from(error)))?;
    let is_value = |token: &Token| {
        matches!(
            token,
            Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_)
        )
    };
    if tokens.iter().filter(|token| !is_value(&token.token)).count() > PARTS_MAX {
        return Err(too_large());
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let tree = parser.parse_expr().map_err(|error| syntax(text, &error))?;
    let next = parser.peek_token();
    let place = offset(text, next.span.start);
    match next.token {
        Token::EOF => Ok(tree),
        Token::SemiColon => Err(at(place, "a filter is one expression, without `;`")),
        token => Err(at(place, format!("`{token}` does not continue the expression")).with_help(SUBSET)),
    }
}

/// The parser tells places only in its words: "..., found: x at Line: 1, Column: 5".
fn syntax(text: &str, error: &ParserError) -> Refusal {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
        ParserError::RecursionLimitExceeded => return too_large(),
    };
    let Some((reason, place)) = message.rsplit_once(" at Line: ") else {
        let end = text.trim_end().chars().count();
        return at(end, format!("not a SQL expression: {}", decapitalised(message)));
    };
    let mut numbers = place.split(", Column: ").map(|number| number.trim().parse::<u64>().unwrap_or(0));
    let (line, column) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let refusal = at(
        offset(text, Location { line, column }),
        format!("not a SQL expression: {}", decapitalised(reason)),
    );
    if reason.contains("found: EOF") {
        return refusal;
    }
    refusal.with_help(
        "strings stand in single quotes; a field whose name is a word of SQL stands in double quotes",
    )
}

/// The character of the text at a line and column, both from 1; its end where there is no place.
fn offset(text: &str, place: Location) -> usize {
    let (Ok(line), Ok(column)) = (usize::try_from(place.line), usize::try_from(place.column)) else {
        return 0;
    };
    if line == 0 {
        // The end of the input has no place of its own.
        return text.trim_end().chars().count();
    }
    let before: usize = text.split('\n').take(line - 1).map(|line| line.chars().count() + 1).sum();
    before + column.saturating_sub(1)
}

/// An expression with its type and place.
struct Typed {
    expr: Expr,
    kind: Kind,
    /// The type as a user knows it.
    name: String,
    /// Set for a string literal, which may become a time.
    string: Option<String>,
    /// Its first character in the text, from 0.
    at: usize,
}

struct Checker<'e> {
    text: &'e str,
    schema: &'e SchemaRef,
}

impl Checker<'_> {
    fn start(&self, span: Span) -> usize {
        if span.start.line == 0 { 0 } else { offset(self.text, span.start) }
    }

    fn expr(&self, tree: &ast::Expr, depth: usize) -> Checked<Typed> {
        if depth > DEPTH_MAX {
            return Err(too_large());
        }
        let depth = depth + 1;
        match tree {
            ast::Expr::Nested(inner) => self.expr(inner, depth),
            ast::Expr::Identifier(name) => self.field(std::slice::from_ref(name)),
            ast::Expr::CompoundIdentifier(names) => self.field(names),
            ast::Expr::CompoundFieldAccess { root, access_chain } => match self.names(root, access_chain) {
                Some(names) => self.field(&names),
                None => Err(self.unsupported(tree, "this access to a field")),
            },
            ast::Expr::Value(value) => self.literal(&value.value, self.start(value.span)),
            ast::Expr::TypedString(string) => self.typed_string(string),
            ast::Expr::UnaryOp { op, expr } => self.unary(*op, expr, tree, depth),
            ast::Expr::BinaryOp { left, op, right } => self.binary(left, op, right, depth),
            ast::Expr::IsNull(value) => self.is_null(value, false, depth),
            ast::Expr::IsNotNull(value) => self.is_null(value, true, depth),
            ast::Expr::IsTrue(value) => self.is_bool(value, true, false, depth),
            ast::Expr::IsNotTrue(value) => self.is_bool(value, true, true, depth),
            ast::Expr::IsFalse(value) => self.is_bool(value, false, false, depth),
            ast::Expr::IsNotFalse(value) => self.is_bool(value, false, true, depth),
            ast::Expr::In { expr, target: ast::InTarget::List(list), negated, .. } => {
                self.in_list(expr, list, *negated, depth)
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let above =
                    self.compare(self.expr(expr, depth)?, Comparison::GtEq, self.expr(low, depth)?)?;
                let below =
                    self.compare(self.expr(expr, depth)?, Comparison::LtEq, self.expr(high, depth)?)?;
                let at = above.at;
                let both = Expr::And(Box::new(above.expr), Box::new(below.expr));
                Ok(bool_at(if *negated { Expr::Not(Box::new(both)) } else { both }, at))
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), (*negated, false), depth)
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(expr, pattern, escape_char.as_deref(), (*negated, true), depth)
            }
            ast::Expr::Function(function) => self.function(function, tree),
            ast::Expr::Cast { .. } => Err(self.unsupported(tree, "CAST")),
            ast::Expr::Case { .. } => Err(self.unsupported(tree, "CASE")),
            ast::Expr::Interval(_) => Err(self.unsupported(tree, "INTERVAL")),
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::In { .. } => {
                Err(self.unsupported(tree, "a subquery"))
            }
            _ => Err(self.unsupported(tree, &format!("`{tree}`"))),
        }
    }

    fn unsupported(&self, tree: &ast::Expr, what: &str) -> Refusal {
        at(self.start(tree.span()), format!("{what} is not supported in a filter")).with_help(SUBSET)
    }

    /// `a.b.c` as the parser gives it where it is not sure of a table.
    fn names(&self, root: &ast::Expr, chain: &[ast::AccessExpr]) -> Option<Vec<ast::Ident>> {
        let mut names = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => return None,
        };
        for access in chain {
            match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => names.push(name.clone()),
                _ => return None,
            }
        }
        Some(names)
    }

    fn field(&self, names: &[ast::Ident]) -> Checked<Typed> {
        let mut fields: &Fields = self.schema.fields();
        let mut path = Vec::with_capacity(names.len());
        let mut found: Option<&Arc<Field>> = None;
        let first = names.first().map_or(0, |name| self.start(name.span));
        let mut outer = String::new();
        for name in names {
            let place = self.start(name.span);
            if let Some(field) = found {
                let DataType::Struct(inner) = field.data_type() else {
                    let reason =
                        format!("`{outer}` is of type {}, it has no fields", type_name(field.data_type()));
                    return Err(at(place, reason));
                };
                fields = inner;
                outer.push('.');
            }
            let Some((index, field)) =
                fields.iter().enumerate().find(|(_, field)| *field.name() == name.value)
            else {
                let inside = if outer.is_empty() {
                    String::new()
                } else {
                    format!(" in `{}`", outer.trim_end_matches('.'))
                };
                let reason = format!("there is no field `{}`{inside}", name.value);
                let known = fields.iter().map(|field| field.name().as_str());
                let help = if name.quote_style == Some('"') {
                    format!("strings stand in single quotes: '{}'", name.value)
                } else {
                    suggest_field(&name.value, known)
                };
                return Err(at(place, reason).with_help(help));
            };
            outer.push_str(&name.value);
            path.push(index);
            found = Some(field);
        }
        let Some(field) = found else { return Err(at(first, "a name is missing")) };
        let (kind, cast) = kind_of(field.data_type());
        Ok(Typed {
            expr: Expr::Field { path, cast, kind: kind.clone() },
            kind,
            name: type_name(field.data_type()),
            string: None,
            at: first,
        })
    }

    fn literal(&self, value: &ast::Value, place: usize) -> Checked<Typed> {
        match value {
            ast::Value::Number(text, _) => self.number(text, false, place),
            ast::Value::SingleQuotedString(text) => Ok(Typed {
                expr: Expr::Constant(literal::text(text)),
                kind: Kind::Text,
                name: "string".to_owned(),
                string: Some(text.clone()),
                at: place,
            }),
            ast::Value::Boolean(value) => {
                Ok(bool_at(Expr::Constant(Arc::new(BooleanArray::from(vec![*value]))), place))
            }
            ast::Value::Null => Err(at(place, "nothing compares with NULL: the result would always be null")
                .with_help("write IS NULL or IS NOT NULL")),
            other => {
                Err(at(place, format!("the literal {other} is not supported in a filter")).with_help(SUBSET))
            }
        }
    }

    fn number(&self, text: &str, negative: bool, place: usize) -> Checked<Typed> {
        let Some((array, kind)) = literal::number(text, negative) else {
            return Err(at(place, format!("`{text}` is no number that can be computed with")));
        };
        let name = match &kind {
            Kind::Int => "int64".to_owned(),
            Kind::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            _ => "float64".to_owned(),
        };
        Ok(Typed { expr: Expr::Constant(array), kind, name, string: None, at: place })
    }

    fn typed_string(&self, string: &ast::TypedString) -> Checked<Typed> {
        let place = self.start(string.value.span);
        let known = matches!(
            string.data_type,
            ast::DataType::Timestamp(..) | ast::DataType::Date | ast::DataType::Datetime(_)
        );
        let Some(text) = string.value.value.clone().into_string().filter(|_| known) else {
            return Err(at(
                place,
                format!("literals of type {} are not supported in a filter", string.data_type),
            )
            .with_help(SUBSET));
        };
        let (array, unit) = self.time(&text, TimeUnit::Second, place)?;
        Ok(time_at(array, unit, place))
    }

    fn time(&self, text: &str, at_least: TimeUnit, place: usize) -> Checked<(ArrayRef, TimeUnit)> {
        literal::time(text, at_least).map_err(|error| match error {
            BadTime::Form => at(place, format!("'{text}' is no timestamp"))
                .with_help("forms: '2026-03-01T10:30:00Z', '2026-03-01 10:30:00' (UTC), '2026-03-01'"),
            BadTime::Range => at(place, format!("'{text}' is beyond what nanoseconds in 64 bits can count")),
        })
    }

    fn unary(&self, op: UnaryOperator, value: &ast::Expr, tree: &ast::Expr, depth: usize) -> Checked<Typed> {
        match op {
            UnaryOperator::Not => {
                let value = self.boolean(value, depth)?;
                Ok(bool_at(Expr::Not(Box::new(value.expr)), value.at))
            }
            UnaryOperator::Minus => {
                if let ast::Expr::Value(literal) = value
                    && let ast::Value::Number(text, _) = &literal.value
                {
                    let place = self.start(literal.span);
                    return self.number(text, true, place.saturating_sub(1));
                }
                let value = self.expr(value, depth)?;
                let zero = self.number("0", false, value.at)?;
                self.compute(zero, Arithmetic::Sub, value)
            }
            UnaryOperator::Plus => self.expr(value, depth),
            _ => Err(self.unsupported(tree, &format!("the operator `{op}`"))),
        }
    }

    fn binary(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Checked<Typed> {
        let comparison = match op {
            BinaryOperator::Eq => Some(Comparison::Eq),
            BinaryOperator::NotEq => Some(Comparison::NotEq),
            BinaryOperator::Lt => Some(Comparison::Lt),
            BinaryOperator::LtEq => Some(Comparison::LtEq),
            BinaryOperator::Gt => Some(Comparison::Gt),
            BinaryOperator::GtEq => Some(Comparison::GtEq),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return self.compare(self.expr(left, depth)?, comparison, self.expr(right, depth)?);
        }
        let arithmetic = match op {
            BinaryOperator::Plus => Some(Arithmetic::Add),
            BinaryOperator::Minus => Some(Arithmetic::Sub),
            BinaryOperator::Multiply => Some(Arithmetic::Mul),
            BinaryOperator::Divide => Some(Arithmetic::Div),
            BinaryOperator::Modulo => Some(Arithmetic::Rem),
            _ => None,
        };
        if let Some(arithmetic) = arithmetic {
            return self.compute(self.expr(left, depth)?, arithmetic, self.expr(right, depth)?);
        }
        match op {
            BinaryOperator::And | BinaryOperator::Or => self.logic(left, op, right, depth),
            _ => {
                Err(at(self.start(right.span()), format!("the operator `{op}` is not supported in a filter"))
                    .with_help(SUBSET))
            }
        }
    }

    /// A chain of ANDs, or of ORs, is one node of the parser in the next: it is taken apart in a
    /// loop and put together as a balanced tree.
    fn logic(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Checked<Typed> {
        let mut sides = vec![right];
        let mut rest = left;
        while let ast::Expr::BinaryOp { left, op: inner, right } = rest
            && inner == op
        {
            sides.push(right);
            rest = left;
        }
        sides.push(rest);
        let mut place = None;
        let mut terms = Vec::with_capacity(sides.len());
        for side in sides.into_iter().rev() {
            let typed = self.boolean(side, depth)?;
            place.get_or_insert(typed.at);
            terms.push(typed.expr);
        }
        let place = place.unwrap_or_default();
        let join = if *op == BinaryOperator::And { Expr::And } else { Expr::Or };
        match balanced(terms, join) {
            Some(all) => Ok(bool_at(all, place)),
            None => Err(at(place, "a condition is missing")),
        }
    }

    fn boolean(&self, tree: &ast::Expr, depth: usize) -> Checked<Typed> {
        let typed = self.expr(tree, depth)?;
        if typed.kind == Kind::Bool {
            return Ok(typed);
        }
        Err(at(typed.at, format!("this is of type {}, here true or false is needed", typed.name)))
    }

    fn is_null(&self, value: &ast::Expr, negated: bool, depth: usize) -> Checked<Typed> {
        let value = self.expr(value, depth)?;
        Ok(bool_at(Expr::IsNull { value: Box::new(value.expr), negated }, value.at))
    }

    fn is_bool(&self, value: &ast::Expr, wanted: bool, negated: bool, depth: usize) -> Checked<Typed> {
        let value = self.boolean(value, depth)?;
        Ok(bool_at(Expr::IsBool { value: Box::new(value.expr), wanted, negated }, value.at))
    }

    fn in_list(&self, value: &ast::Expr, list: &[ast::Expr], negated: bool, depth: usize) -> Checked<Typed> {
        let place = self.expr(value, depth)?.at;
        let mut alternatives: Vec<Expr> = Vec::with_capacity(list.len());
        for item in list {
            let equal = self.compare(self.expr(value, depth)?, Comparison::Eq, self.expr(item, depth)?)?;
            alternatives.push(equal.expr);
        }
        let Some(any) = balanced(alternatives, Expr::Or) else {
            return Err(at(place, "the list of IN is empty"));
        };
        Ok(bool_at(if negated { Expr::Not(Box::new(any)) } else { any }, place))
    }

    fn like(
        &self,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        (negated, any_case): (bool, bool),
        depth: usize,
    ) -> Checked<Typed> {
        let value = self.expr(value, depth)?;
        if value.kind != Kind::Text {
            return Err(at(value.at, format!("LIKE needs a string, this is of type {}", value.name)));
        }
        if let Some(escape) = escape {
            return Err(self
                .unsupported(escape, "ESCAPE")
                .with_help("a backslash escapes % and _ in a pattern"));
        }
        let pattern = self.expr(pattern, depth)?;
        if pattern.string.is_none() {
            return Err(at(pattern.at, "the pattern of LIKE must be a string in single quotes"));
        }
        let (place, value, pattern) = (value.at, Box::new(value.expr), Box::new(pattern.expr));
        Ok(bool_at(Expr::Like { value, pattern, negated, any_case }, place))
    }

    /// Some words of SQL are functions without parentheses (`user`): they may be names of fields.
    fn function(&self, function: &ast::Function, tree: &ast::Expr) -> Checked<Typed> {
        if let (ast::FunctionArguments::None, [ast::ObjectNamePart::Identifier(name)]) =
            (&function.args, function.name.0.as_slice())
            && self.schema.column_with_name(&name.value).is_some()
        {
            return self.field(std::slice::from_ref(name));
        }
        Err(self.unsupported(tree, &format!("the function {}", function.name)))
    }

    fn compare(&self, left: Typed, op: Comparison, right: Typed) -> Checked<Typed> {
        let place = left.at;
        let (left, right, _) = self.unify(left, right, "compare")?;
        Ok(bool_at(Expr::Compare { op, left: Box::new(left.expr), right: Box::new(right.expr) }, place))
    }

    fn compute(&self, left: Typed, op: Arithmetic, right: Typed) -> Checked<Typed> {
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
            _ => self.unify(left, right, "compute with")?,
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
    fn unify(&self, left: Typed, right: Typed, verb: &str) -> Checked<(Typed, Typed, Kind)> {
        let kind = match (&left.kind, &right.kind) {
            (Kind::Time(unit), Kind::Text) if right.string.is_some() => {
                let text = right.string.as_deref().unwrap_or_default();
                let (array, finer) = self.time(text, *unit, right.at)?;
                let right = time_at(array, finer, right.at);
                return Ok((to_kind(left, &Kind::Time(finer)), right, Kind::Time(finer)));
            }
            (Kind::Text, Kind::Time(_)) if left.string.is_some() => {
                let (right, left, kind) = self.unify(right, left, verb)?;
                return Ok((left, right, kind));
            }
            (Kind::Time(one), Kind::Time(other)) => {
                Kind::Time(if ns_of(*one) < ns_of(*other) { *one } else { *other })
            }
            (one, other) if one == other && *one != Kind::Opaque => one.clone(),
            (Kind::Float, Kind::Int | Kind::Decimal { .. })
            | (Kind::Int | Kind::Decimal { .. }, Kind::Float) => Kind::Float,
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
                    (Kind::Int | Kind::Float | Kind::Decimal { .. }, Kind::Text)
                        if right.string.is_some() =>
                    {
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

/// All of `terms` in one tree that is no deeper than it must be.
fn balanced(mut terms: Vec<Expr>, join: fn(Box<Expr>, Box<Expr>) -> Expr) -> Option<Expr> {
    while terms.len() > 1 {
        let mut pairs = terms.into_iter();
        let mut halved = Vec::new();
        while let Some(left) = pairs.next() {
            halved.push(match pairs.next() {
                Some(right) => join(Box::new(left), Box::new(right)),
                None => left,
            });
        }
        terms = halved;
    }
    terms.pop()
}

fn too_large() -> Refusal {
    at(0, format!("the expression has more than {PARTS_MAX} parts, or is nested more than {DEPTH_MAX} deep"))
        .with_help("use IN for many alternatives, or several filters for many conditions")
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

/// The kind of a column, and the type it is cast to first.
fn kind_of(data_type: &DataType) -> (Kind, Option<DataType>) {
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

fn time_at(array: ArrayRef, unit: TimeUnit, place: usize) -> Typed {
    let expr = Expr::Constant(array);
    Typed { expr, kind: Kind::Time(unit), name: "timestamp".to_owned(), string: None, at: place }
}

fn bool_at(expr: Expr, place: usize) -> Typed {
    Typed { expr, kind: Kind::Bool, name: "boolean".to_owned(), string: None, at: place }
}

fn at(place: usize, reason: impl Into<String>) -> Refusal {
    Refusal::new(Site::Expression(place), reason)
}

fn decapitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
