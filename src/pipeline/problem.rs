//! What is wrong with a pipeline file, and where.

use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use crate::error::Error;

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key's full path (`sink.roll.age`); empty where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Everything that is wrong with a pipeline file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The pipeline file.
    pub file: PathBuf,
    /// At least one.
    pub list: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(file: &Path, mut list: Vec<Problem>) -> Self {
        list.sort_by(|a, b| (a.line, a.column, &a.key).cmp(&(b.line, b.column, &b.key)));
        Self { file: file.to_path_buf(), list }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)?;
        match &self.help {
            Some(help) => write!(f, "\n    {help}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{}:{}: {problem}", self.file.display(), problem.line, problem.column)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        Error::usage(problems.to_string())
    }
}

/// The one of `known` that `word` was probably meant to be.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' ', '.'], "_");
    let word = plain(word);
    if word.is_empty() {
        return None;
    }
    let allowed = ((word.chars().count() + 1) / 3).clamp(1, 4);
    known
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let distance = strsim::damerau_levenshtein(&word, &other);
            let holds = word.len() >= 3 && (other.contains(&word) || word.contains(&other));
            (distance <= allowed || holds).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean …?" where something is near, else all that is valid.
pub(crate) fn suggest(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("valid here: {}", known.join(", ")),
    }
}

/// True for keys whose values are never shown.
pub(crate) fn is_secret(key: &str) -> bool {
    const MARKS: &[&str] = &[
        "password",
        "passphrase",
        "secret",
        "token",
        "credential",
        "private_key",
        "access_key",
        "api_key",
        "encryption",
    ];
    let key = key.to_lowercase().replace('-', "_");
    MARKS.iter().any(|mark| key.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::is_secret;
    use super::nearest;

    #[test]
    fn slips_of_the_pen_find_their_key() {
        let keys = ["partition_by", "path", "format", "time_zone", "roll"];
        assert_eq!(nearest("partiton_by", keys), Some("partition_by"));
        assert_eq!(nearest("partition-by", keys), Some("partition_by"));
        assert_eq!(nearest("timezone", keys), Some("time_zone"));
        assert_eq!(nearest("rolls", keys), Some("roll"));
        assert_eq!(nearest("compression", keys), None);
    }

    #[test]
    fn keys_that_hold_secrets_are_known_by_their_names() {
        assert!(is_secret("sink.kafka.sasl-password"));
        assert!(is_secret("s3.secret_access_key"));
        assert!(!is_secret("sink.path"));
    }
}
