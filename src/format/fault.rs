//! What is wrong with one record, in words, and the record as a [`Rejected`].

use std::fmt::Write as _;
use std::sync::Arc;

use crate::stream::Rejected;
use crate::stream::SplitId;

/// Bytes of a rejected record that are kept (D12).
pub const RAW_BYTES_MAX: usize = 64 << 10;

/// Characters of a value that a reason quotes.
pub const QUOTED_CHARS_MAX: usize = 100;

/// Makes a dead letter of `record`, which begins at `position` of `split`.
///
/// Of a record longer than [`RAW_BYTES_MAX`] the front is kept; text is cut between characters.
pub fn rejected(split: &SplitId, position: u64, reason: impl Into<String>, record: &[u8]) -> Rejected {
    Rejected {
        split: split.clone(),
        position,
        reason: reason.into(),
        raw: Arc::from(cut(record)),
        raw_len: record.len() as u64,
    }
}

fn cut(record: &[u8]) -> &[u8] {
    let Some(front) = record.get(..RAW_BYTES_MAX) else { return record };
    match std::str::from_utf8(front) {
        // No `error_len`: the front is text up to a character that the cut has split.
        Err(error) if error.error_len().is_none() => record.get(..error.valid_up_to()).unwrap_or(front),
        _ => front,
    }
}

/// Quotes `value` for a reason: at most [`QUOTED_CHARS_MAX`] characters, on one line.
pub(super) fn quoted(value: &str) -> String {
    let mut out = String::from("`");
    for (i, c) in value.chars().enumerate() {
        if i == QUOTED_CHARS_MAX {
            out.push('…');
            break;
        }
        push_visible(c, &mut out);
    }
    out.push('`');
    out
}

/// Controls, line separators and characters that turn the reading direction appear as escapes.
fn push_visible(c: char, out: &mut String) {
    let hidden = c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if hidden => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Why a record cannot be taken, and in which field.
#[derive(Debug)]
pub(super) struct Fault {
    /// From the innermost part outwards.
    path: Vec<Step>,
    kind: Kind,
}

/// One part of the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Field(Arc<str>),
    Item(usize),
}

#[derive(Debug)]
enum Kind {
    Syntax { at: usize, expected: String, found: String },
    Value(String),
}

impl Fault {
    /// The text is not JSON: at the byte `at` something else was expected.
    #[cold]
    pub(super) fn syntax(text: &str, at: usize, expected: impl Into<String>) -> Box<Self> {
        let found = match text.get(at..).and_then(|rest| rest.chars().next()) {
            None | Some('\n') => "the end".to_owned(),
            Some(c) => quoted(c.encode_utf8(&mut [0; 4])),
        };
        Box::new(Self { path: Vec::new(), kind: Kind::Syntax { at, expected: expected.into(), found } })
    }

    /// The value cannot be taken, because of `message`.
    #[cold]
    pub(super) fn value(message: impl Into<String>) -> Box<Self> {
        Box::new(Self { path: Vec::new(), kind: Kind::Value(message.into()) })
    }

    /// Says that it happened in the field `name`.
    #[cold]
    pub(super) fn in_field(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.path.push(Step::Field(name.into()));
        self
    }

    /// Says that it happened in the item `index` of a list.
    #[cold]
    pub(super) fn in_item(mut self: Box<Self>, index: usize) -> Box<Self> {
        self.path.push(Step::Item(index));
        self
    }

    /// The reason to report, for a record (or a part of it, called `what`) that begins at `start` of the
    /// text that was read.
    pub(super) fn reason(&self, start: usize, what: &str) -> String {
        let field = match self.path.is_empty() {
            true => String::new(),
            false => format!("field {}: ", quoted(&path_text(self.path.iter().rev()))),
        };
        match &self.kind {
            Kind::Syntax { at, expected, found } => {
                let at = at.saturating_sub(start);
                format!(
                    "{field}not valid JSON at offset {at} of the {what}: expected {expected}, found {found}"
                )
            }
            Kind::Value(message) => format!("{field}{message}"),
        }
    }
}

/// `a.b[3].c`.
pub(super) fn path_text<'a>(path: impl Iterator<Item = &'a Step>) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Item(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
    out
}
