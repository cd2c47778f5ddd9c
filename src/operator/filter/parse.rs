//! From text to the parser's tree, within limits that keep the stack safe, and from the parser's places
//! to characters.

use sqlparser::ast;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Location;
use sqlparser::tokenizer::Token;
use sqlparser::tokenizer::Tokenizer;

use crate::operator::error::Refusal;
use crate::operator::error::Site;

/// Longer texts are refused.
const LENGTH_MAX: usize = 64 << 10;
/// More words and signs (values and the commas between them do not count) are refused: the parser's
/// tree of a chain of operators is as deep as the chain is long, and dropping it is recursive.
const PARTS_MAX: usize = 1000;
/// Deeper trees are refused before the stack is in danger; chains of AND and OR do not count.
pub(super) const DEPTH_MAX: usize = 64;
/// Where the subset is described.
pub(super) const SUBSET: &str = "docs/filter.md lists what a filter can do";

/// A result, or the place of a mistake.
pub(super) type Checked<T> = Result<T, Refusal>;

/// Checks that `text` is an expression, whatever its fields.
pub(crate) fn check_alone(text: &str) -> Checked<()> {
    parse(text).map(drop)
}

/// Parses the whole of `text` as one expression.
pub(super) fn parse(text: &str) -> Checked<ast::Expr> {
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
        "strings stand in single quotes; a field whose name is a word of SQL stands in double quotes: write \"user\" for \
         a field called user",
    )
}

/// The character of the text at a line and column, both from 1; its end where there is no place.
pub(super) fn offset(text: &str, place: Location) -> usize {
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

/// The refusal of what is beyond the limits.
pub(super) fn too_large() -> Refusal {
    at(0, format!("the expression has more than {PARTS_MAX} parts, or is nested more than {DEPTH_MAX} deep"))
        .with_help("use IN for many alternatives, or several filters for many conditions")
}

/// A refusal at a character of the text, from 0.
pub(super) fn at(place: usize, reason: impl Into<String>) -> Refusal {
    Refusal::new(Site::Expression(place), reason)
}

fn decapitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
