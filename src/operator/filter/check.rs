//! From the text of an expression to a tree whose types fit, or to the place where they do not.

use std::sync::Arc;

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
use sqlparser::tokenizer::Span;

use crate::format::type_text;
use crate::operator::error::Refusal;
use crate::operator::error::suggest_field;
use crate::operator::filter::coerce;
use crate::operator::filter::coerce::Typed;
use crate::operator::filter::coerce::bool_at;
use crate::operator::filter::coerce::time_at;
use crate::operator::filter::expr::Arithmetic;
use crate::operator::filter::expr::Comparison;
use crate::operator::filter::expr::Expr;
use crate::operator::filter::expr::Kind;
use crate::operator::filter::kind::kind_of;
use crate::operator::filter::literal;
use crate::operator::filter::parse::Checked;
use crate::operator::filter::parse::DEPTH_MAX;
use crate::operator::filter::parse::SUBSET;
use crate::operator::filter::parse::at;
use crate::operator::filter::parse::offset;
use crate::operator::filter::parse::parse;
use crate::operator::filter::parse::too_large;

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
                    coerce::compare(self.expr(expr, depth)?, Comparison::GtEq, self.expr(low, depth)?)?;
                let below =
                    coerce::compare(self.expr(expr, depth)?, Comparison::LtEq, self.expr(high, depth)?)?;
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
            // A word of SQL that is a function without parentheses: `user.id`.
            ast::Expr::Function(function) => vec![bare_name(function)?.clone()],
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
                        format!("`{outer}` is of type {}, it has no fields", type_text(field.data_type()));
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
            name: type_text(field.data_type()),
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
        let (array, unit) = coerce::time(&text, TimeUnit::Second, place)?;
        Ok(time_at(array, unit, place))
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
                coerce::compute(zero, Arithmetic::Sub, value)
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
            return coerce::compare(self.expr(left, depth)?, comparison, self.expr(right, depth)?);
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
            return coerce::compute(self.expr(left, depth)?, arithmetic, self.expr(right, depth)?);
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
            let equal = coerce::compare(self.expr(value, depth)?, Comparison::Eq, self.expr(item, depth)?)?;
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
        let Some(name) = bare_name(function) else {
            return Err(self.unsupported(tree, &format!("the function {}", function.name)));
        };
        if self.schema.column_with_name(&name.value).is_some() {
            return self.field(std::slice::from_ref(name));
        }
        let word = &name.value;
        let reason = format!("`{word}` is a word of SQL, and no field here has this name");
        Err(at(self.start(name.span), reason).with_help(format!(
            "if a field is meant, write \"{word}\" in double quotes, as it is spelled in the schema; functions are not \
             supported"
        )))
    }
}

/// The name of a function that is called without parentheses, as `user` is in SQL.
fn bare_name(function: &ast::Function) -> Option<&ast::Ident> {
    match (&function.args, function.name.0.as_slice()) {
        (ast::FunctionArguments::None, [ast::ObjectNamePart::Identifier(name)]) => Some(name),
        _ => None,
    }
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
