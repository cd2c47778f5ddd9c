//! Starts the processes of a cell, one after the other, in a fresh folder.

use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use crate::Result;
use crate::cell::Measured;
use crate::cold;
use crate::engines::Engine;
use crate::workload::Work;
use crate::workload::Workload;

/// Runs `workload` on `engine` below `dir`, once, and has what it left checked.
pub fn measure(dir: &Path, workload: &Workload, engine: Engine) -> Result<Measured> {
    let dir = &dir.join("cell");
    // Left by a run that was interrupted.
    let _missing = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir)?;
    cold::settle(dir)?;
    let replay = matches!(workload.work, Work::Replay { .. });
    if replay {
        phase("fill", dir, workload, engine)?;
        cold::settle(dir)?;
    }
    let measured = Measured::parse(&phase("run", dir, workload, engine)?)?;
    // A replay has checked what it read.
    if !replay {
        phase("check", dir, workload, engine)?;
    }
    std::fs::remove_dir_all(dir)?;
    Ok(measured)
}

fn phase(phase: &str, dir: &Path, workload: &Workload, engine: Engine) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cell", phase, workload.name, engine.name()]).arg(dir).stdin(Stdio::null());
    // Walrus asks the environment with every append, so that a long one would slow it down.
    command.env_clear().env("WALRUS_QUIET", "1").env("WALRUS_DATA_DIR", dir.join("walrus"));
    let output = command.output()?;
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    if !output.status.success() {
        let (workload, engine, status) = (workload.name, engine.name(), output.status);
        return Err(format!("{engine}, {workload}: {phase} ended with {status}\n{}", said.concat()).into());
    }
    Ok(said[0].clone().into_owned())
}
