//! Why a step does not fit its input.

use std::fmt;

use crate::error::Error;

/// A step that cannot be compiled, with the place of the mistake inside its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Which step, from 0.
    pub transform: usize,
    /// Where in it.
    pub site: Site,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// A place inside the settings of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    /// A character of the expression, from 0.
    Expression(usize),
    /// An item of `fields`, from 0.
    Field(usize),
    /// A key of `map`.
    Map(String),
    /// The step as a whole.
    Whole,
}

/// A reason without its step: what the inner functions return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub site: Site,
    pub reason: String,
    pub help: Option<String>,
}

impl Refusal {
    pub(crate) fn new(site: Site, reason: impl Into<String>) -> Self {
        Self { site, reason: reason.into(), help: None }
    }

    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn of(self, transform: usize) -> CompileError {
        CompileError { transform, site: self.site, reason: self.reason, help: self.help }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transform[{}]", self.transform)?;
        match &self.site {
            Site::Expression(at) => write!(f, ".expression, character {}", at + 1)?,
            Site::Field(at) => write!(f, ".fields[{at}]")?,
            Site::Map(key) => write!(f, ".map.{key}")?,
            Site::Whole => {}
        }
        write!(f, ": {}", self.reason)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Error::usage(error.to_string())
    }
}

/// "did you mean …?" where a name of `known` is near, else all of them.
pub(crate) fn suggest_field<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let lower = word.to_lowercase();
    let near = known
        .clone()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= ((word.chars().count() + 1) / 3).clamp(1, 4));
    match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None => {
            let all: Vec<&str> = known.collect();
            format!("the fields here are: {}", all.join(", "))
        }
    }
}
