//! Fills `${VAR}` and `${VAR:-default}` into the values of a pipeline file.

use std::fmt;

/// Where variables come from: the process, or a table in a test.
pub trait Environment {
    /// The value of `name`; `Err` when it is there but is not text.
    ///
    /// # Errors
    ///
    /// The variable's value is not UTF-8.
    fn get(&self, name: &str) -> Result<Option<String>, NotText>;
}

/// A variable whose value is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotText;

/// The environment of this process.
#[derive(Debug, Default, Clone, Copy)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Result<Option<String>, NotText> {
        match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(NotText),
        }
    }
}

impl<const N: usize> Environment for [(&str, &str); N] {
    fn get(&self, name: &str) -> Result<Option<String>, NotText> {
        Ok(self.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }
}

/// Why a value could not be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FillError {
    /// `${` without its `}`.
    Unclosed,
    /// What stands between the braces is no name of a variable.
    BadName(String),
    /// The variable is not set and has no default.
    Unset(String),
    /// The variable's value is not UTF-8.
    NotText(String),
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => {
                f.write_str("`${` has no closing `}`; write `$${` for the characters themselves")
            }
            Self::BadName(name) => write!(
                f,
                "`{name}` is no name of an environment variable; the forms are `${{NAME}}` and `${{NAME:-default}}`"
            ),
            Self::Unset(name) => write!(
                f,
                "the environment variable {name} is not set; set it, or give a default: `${{{name}:-default}}`"
            ),
            Self::NotText(name) => write!(f, "the value of the environment variable {name} is not UTF-8"),
        }
    }
}

/// Replaces the variables in `value`, in one pass: what comes from the environment, or stands in a
/// default, is taken as it is. `None` when there was nothing to replace. `$${` stands for `${`.
///
/// An empty variable counts as unset where a default is given, as in a shell.
pub(crate) fn fill(value: &str, environment: &dyn Environment) -> Result<Option<String>, FillError> {
    if !value.contains("${") {
        return Ok(None);
    }
    let mut filled = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = after;
            continue;
        }
        filled.push_str(before);
        let (inside, after) = after.split_once('}').ok_or(FillError::Unclosed)?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            return Err(FillError::BadName(name.to_owned()));
        }
        let found = environment.get(name).map_err(|NotText| FillError::NotText(name.to_owned()))?;
        match (found, default) {
            (Some(found), default) if default.is_none() || !found.is_empty() => filled.push_str(&found),
            (_, Some(default)) => filled.push_str(default),
            (_, None) => return Err(FillError::Unset(name.to_owned())),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(Some(filled))
}

fn is_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::FillError;
    use super::fill;

    const HERE: [(&str, &str); 3] = [("DIR", "/data"), ("EMPTY", ""), ("TRICK", "${DIR}\"\nx = 1")];

    fn filled(value: &str) -> String {
        fill(value, &HERE).unwrap().unwrap_or_else(|| value.to_owned())
    }

    #[test]
    fn variables_and_defaults_are_filled_in() {
        assert_eq!(filled("${DIR}/clicks"), "/data/clicks");
        assert_eq!(filled("${NONE:-out}/a/${DIR}"), "out/a//data");
        assert_eq!(filled("${EMPTY:-x}"), "x");
        assert_eq!(filled("a${EMPTY}b"), "ab");
        assert_eq!(filled("${NONE:-}"), "");
        assert_eq!(filled("costs $5 and {x}"), "costs $5 and {x}");
        assert_eq!(filled("$${DIR}"), "${DIR}");
    }

    #[test]
    fn a_value_from_the_environment_is_not_read_again() {
        assert_eq!(filled("${TRICK}"), "${DIR}\"\nx = 1");
        assert_eq!(filled("${NONE:-$DIR}"), "$DIR");
    }

    #[test]
    fn what_cannot_be_filled_names_the_variable() {
        assert_eq!(fill("${NONE}", &HERE), Err(FillError::Unset("NONE".into())));
        assert_eq!(fill("${DIR", &HERE), Err(FillError::Unclosed));
        assert_eq!(fill("${a b}", &HERE), Err(FillError::BadName("a b".into())));
        assert!(fill("${NONE}", &HERE).unwrap_err().to_string().contains("NONE is not set"));
    }
}
