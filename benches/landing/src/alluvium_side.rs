//! The side with the guarantee: the program itself, as a user runs it.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::bare::ZSTD_LEVEL;
use crate::events::Sums;
use crate::measure;
use crate::measure::Run;
use crate::verify;

/// Builds the program of this repository and says where it is.
pub fn build() -> Result<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A folder of its own: the repository's is anyone's to redirect.
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/alluvium");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--bin", "alluvium", "--manifest-path"])
        .arg(top.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()?;
    if !status.success() {
        return Err("alluvium could not be built".into());
    }
    Ok(target.join("release/alluvium"))
}

/// Lands `input` on `processors` processors and verifies the result.
pub fn run(program: &Path, dir: &Path, input: &Path, processors: usize, sums: Sums) -> Result<Run> {
    let (out, state, file) = (dir.join("out-alluvium"), dir.join("state"), dir.join("landing.toml"));
    let clean = || {
        for path in [&out, &state, &dir.join(".out-alluvium.alluvium")] {
            let _ = fs::remove_dir_all(path);
        }
    };
    clean();
    fs::write(&file, pipeline(input, &out, &state))?;
    let run = measure::run(Command::new(program).arg("run").arg(&file), processors)?;
    let landed = verify::landed(&out, sums)?;
    clean();
    Ok(Run { checkpoints: checkpoints(&run.said), landed, ..run })
}

fn pipeline(input: &Path, out: &Path, state: &Path) -> String {
    format!(
        r#"name = "landing"

[source]
type = "file"
path = {input:?}
format = "ndjson"

[schema]
event_id = "string"
user_id = "int64"
ts = "timestamp(ms)"
url = "string"
country = "string"
price = "float64"
tags = "list<string>"

[sink]
type = "file"
path = {out:?}
format = "parquet"
partition_by = ["hour={{ts:%H}}"]
parquet = {{ compression = "zstd({ZSTD_LEVEL})" }}

[checkpoint]
interval = "500ms"
state = {state:?}
"#,
        input = input.join("*.ndjson"),
    )
}

/// How many checkpoints the program says it completed: the last number before the word, or after it.
fn checkpoints(said: &str) -> Option<u64> {
    let number =
        |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).replace([',', '_'], "").parse().ok();
    let words: Vec<&str> = said
        .split(|c: char| c.is_whitespace() || matches!(c, '=' | ':' | '"'))
        .filter(|w| !w.is_empty())
        .collect();
    let at = words.iter().rposition(|word| word.starts_with("checkpoint"))?;
    let before = at.checked_sub(1).and_then(|at| number(words[at]));
    before.or_else(|| words.get(at + 1).and_then(|word| number(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_found_in_what_the_program_says() {
        assert_eq!(checkpoints("5,000,000 rows in 24 files, 1,012 checkpoints, 7.1 s"), Some(1012));
        assert_eq!(checkpoints("{\"rows\":5,\"checkpoints\":12}"), Some(12));
        assert_eq!(checkpoints("checkpoints_completed=7 rows=5"), Some(7));
        assert_eq!(checkpoints("5 rows"), None);
    }
}
