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
    let checkpoints = Some(checkpoints(program, &state)?);
    clean();
    Ok(Run { checkpoints, landed, ..run })
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

/// How many checkpoints were completed while events came: the newest epoch, less those of the end.
///
/// `inspect` lists the retained checkpoints only; epochs are counted from 1 in a new state.
fn checkpoints(program: &Path, state: &Path) -> Result<u64> {
    let output = Command::new(program).arg("inspect").arg(state).arg("--json").output()?;
    if !output.status.success() {
        return Err(format!("inspect: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    in_inspection(&output.stdout)
}

fn in_inspection(json: &[u8]) -> Result<u64> {
    let inspection: serde_json::Value = serde_json::from_slice(json)?;
    let listed = inspection["checkpoints"].as_array().ok_or("inspect lists no checkpoints")?;
    let newest = listed.iter().filter_map(|checkpoint| checkpoint["epoch"].as_u64()).max().unwrap_or(0);
    let last = listed.iter().filter(|checkpoint| checkpoint["kind"] == "end").count() as u64;
    Ok(newest.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_of_the_end_are_not_counted() {
        let json = br#"{"checkpoints": [
            {"epoch": 11, "kind": "checkpoint"}, {"epoch": 12, "kind": "end"}, {"epoch": 13, "kind": "end"}
        ]}"#;
        assert_eq!(in_inspection(json).unwrap(), 11);
        assert_eq!(in_inspection(br#"{"checkpoints": []}"#).unwrap(), 0);
        assert!(in_inspection(b"{}").is_err());
    }
}
