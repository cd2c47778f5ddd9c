//! The text of a pipeline file as TOML, with the place of every key.
//!
//! Owns the way from text to settings and from a key to its line. Does not know what any key means
//! (`settings`) nor which values go together (`validate`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

use crate::pipeline::environment::Environment;
use crate::pipeline::environment::fill;
use crate::pipeline::problem::Problem;
use crate::pipeline::problem::is_secret;
use crate::pipeline::problem::suggest;

/// A parsed file: a tree of values, filled from the environment, and where each stands.
pub(crate) struct Document<'t> {
    root: Spanned<DeTable<'t>>,
    places: Places,
}

/// Where the keys of a file stand.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    text: Arc<str>,
    keys: BTreeMap<String, Place>,
}

#[derive(Debug, Clone)]
struct Place {
    key: Range<usize>,
    value: Range<usize>,
    /// The value is a string that stands in the text as it is: no escapes, nothing filled in.
    literal: bool,
}

impl<'t> Document<'t> {
    /// Parses `text` and fills its string values from `environment`.
    pub(crate) fn parse(text: &'t str, environment: &dyn Environment) -> Result<Self, Vec<Problem>> {
        let (mut root, errors) = DeTable::parse_recoverable(text);
        let mut places = Places { text: text.into(), keys: BTreeMap::new() };
        let mut problems = Vec::new();
        // The parser goes on after an error, but what it reports then is mostly a consequence.
        if let Some(error) = errors.first() {
            let span = error.span().unwrap_or(0..0);
            let reason = format!("this is not TOML: {}", error.message().trim());
            problems.push(
                places.problem_at(span.start, String::new(), reason).with_help(syntax_help(text, span.start)),
            );
            return Err(problems);
        }
        let span = root.span();
        places.visit_table(root.get_mut(), "", span, environment, &mut problems);
        if problems.is_empty() { Ok(Self { root, places }) } else { Err(problems) }
    }

    /// True where `key` of the top level is an array of tables (`[[sink]]`).
    pub(crate) fn is_array(&self, key: &str) -> bool {
        self.root.get_ref().get(key).is_some_and(|value| value.get_ref().is_array())
    }

    /// True where `key` of the top level is one table (`[sink]`).
    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.root.get_ref().get(key).is_some_and(|value| value.get_ref().is_table())
    }

    /// The places alone.
    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// Turns the tree into settings.
    pub(crate) fn settings<T: for<'de> Deserialize<'de>>(self) -> Result<T, Vec<Problem>> {
        let deserializer = toml::Deserializer::from(self.root);
        T::deserialize(deserializer).map_err(|error| vec![self.places.refused(&error)])
    }
}

impl Places {
    fn visit_table<'t>(
        &mut self,
        table: &mut DeTable<'t>,
        parent: &str,
        _span: Range<usize>,
        environment: &dyn Environment,
        problems: &mut Vec<Problem>,
    ) {
        for (key, value) in table.iter_mut() {
            let path = join(parent, key.get_ref());
            self.visit_value(path, key.span(), value, environment, problems);
        }
    }

    fn visit_value<'t>(
        &mut self,
        path: String,
        key: Range<usize>,
        value: &mut Spanned<DeValue<'t>>,
        environment: &dyn Environment,
        problems: &mut Vec<Problem>,
    ) {
        let span = value.span();
        let mut place = Place { key, value: span.clone(), literal: false };
        match value.get_mut() {
            DeValue::String(text) => match fill(text, environment) {
                Ok(None) => {
                    let raw = self.text.get(span.start + 1..span.end.saturating_sub(1));
                    place.literal = raw == Some(text.as_ref());
                }
                Ok(Some(filled)) => *text = filled.into(),
                Err(error) => problems.push(self.problem_at(span.start, path.clone(), error.to_string())),
            },
            DeValue::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    let span = item.span();
                    self.visit_value(format!("{path}[{at}]"), span, item, environment, problems);
                }
            }
            DeValue::Table(table) => self.visit_table(table, &path, span, environment, problems),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
        }
        self.keys.insert(path, place);
    }

    /// A problem with the value of `key`, or, if the file has no such key, with the nearest table
    /// around it.
    pub(crate) fn problem(&self, key: &str, reason: impl Into<String>) -> Problem {
        let mut known = key;
        loop {
            if let Some(place) = self.keys.get(known) {
                let offset = if known == key { self.start_of_value(place) } else { place.key.start };
                return self.problem_at(offset, key.to_owned(), reason.into());
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = known.get(..end).unwrap_or_default(),
                None => return self.problem_at(0, key.to_owned(), reason.into()),
            }
        }
    }

    /// A problem with the key itself.
    pub(crate) fn problem_with_key(&self, key: &str, reason: impl Into<String>) -> Problem {
        match self.keys.get(key) {
            Some(place) => self.problem_at(place.key.start, key.to_owned(), reason.into()),
            None => self.problem(key, reason),
        }
    }

    /// A problem at the character `within` of the string that `key` holds; at the string's start
    /// where characters of the value and of the text do not correspond (escapes, variables).
    pub(crate) fn problem_within(&self, key: &str, within: usize, reason: impl Into<String>) -> Problem {
        match self.keys.get(key) {
            Some(place) if place.literal => {
                let start = place.value.start + 1;
                let inside = self.text.get(start..place.value.end).unwrap_or_default();
                let offset = inside.char_indices().nth(within).map_or(inside.len(), |(at, _)| at);
                self.problem_at(start + offset, key.to_owned(), reason.into())
            }
            _ => self.problem(key, reason),
        }
    }

    /// A table's own span is of no use to a reader where it is a header: the key is.
    fn start_of_value(&self, place: &Place) -> usize {
        let header = self
            .text
            .get(..place.value.start)
            .is_some_and(|before| !before.trim_end().ends_with(['=', '[', ',', '{']));
        if header { place.key.start } else { place.value.start }
    }

    fn problem_at(&self, offset: usize, key: String, reason: String) -> Problem {
        let (line, column) = self.line_and_column(offset);
        Problem { line, column, key, reason, help: None }
    }

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset.min(self.text.len())).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        (line, column)
    }

    /// The words for an error of serde: which key, and what would have been valid.
    fn refused(&self, error: &toml::de::Error) -> Problem {
        let span = error.span().unwrap_or(0..0);
        let message = error.message();
        let ticked: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let key = self.key_at(&span);
        if message.starts_with("unknown field") {
            let (word, known) = ticked.split_first().map_or(("", &[][..]), |(word, known)| (*word, known));
            return self
                .problem_at(span.start, key, "unknown key".to_owned())
                .with_help(suggest(word, known));
        }
        if message.starts_with("unknown variant") {
            let (word, known) = ticked.split_first().map_or(("", &[][..]), |(word, known)| (*word, known));
            return self
                .problem_at(span.start, key, format!("`{word}` is not valid here"))
                .with_help(suggest(word, known));
        }
        // The words of TOML, not those of serde.
        let message = message.replace("expected a sequence", "expected a list in brackets");
        let message = message.replace("expected a map", "expected a table");
        let message = message.as_str();
        let reason = match message.split_once(", expected ") {
            Some((_, expected)) if is_secret(&key) => format!("expected {expected}"),
            _ if is_secret(&key) => "the value is not valid".to_owned(),
            Some((found, expected)) => match found.split_once(": ") {
                Some(("invalid type", what)) => format!("this is the {what}, expected {expected}"),
                Some((_, what)) => format!("this is the {what}, expected {expected}"),
                None => message.to_owned(),
            },
            None => message.to_owned(),
        };
        self.problem_at(span.start, key, reason)
    }

    /// The innermost key whose name or value covers `span`.
    fn key_at(&self, span: &Range<usize>) -> String {
        let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
        self.keys
            .iter()
            .filter(|(_, place)| covers(&place.key) || covers(&place.value))
            .min_by_key(|(path, place)| {
                let len = |range: &Range<usize>| if covers(range) { range.len() } else { usize::MAX };
                (len(&place.key).min(len(&place.value)), std::cmp::Reverse(path.len()))
            })
            .map(|(path, _)| path.clone())
            .unwrap_or_default()
    }
}

impl Problem {
    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        let help = help.into();
        if !help.is_empty() {
            self.help = Some(help);
        }
        self
    }
}

/// `parent.key`, the key in quotes where it is no bare key.
pub(crate) fn join(parent: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let key = if bare { key.to_owned() } else { format!("{key:?}") };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The commonest slip has an answer of its own: a string without quotes.
fn syntax_help(text: &str, offset: usize) -> String {
    let line_start = text.get(..offset).unwrap_or_default().rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    if value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '.')
        || value.starts_with(|c: char| c.is_ascii_digit())
            && value.ends_with(|c: char| c.is_ascii_alphabetic())
    {
        "strings stand in quotes: key = \"value\"".to_owned()
    } else {
        String::new()
    }
}
