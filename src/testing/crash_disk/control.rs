//! What happens at each step: it is recorded, it may be the last one, it may fail.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// One call that would change something on the disk, or make a change durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was called.
    pub kind: StepKind,
    /// On which file or folder; the new name for a rename or a link.
    pub path: Arc<Path>,
}

/// The kinds of [`Step`], one for each call that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKind {
    /// [`crate::storage::Disk::open`] of a file that was not there, and the file of a lock.
    Create,
    /// [`crate::storage::DiskFile::write_at`].
    Write,
    /// [`crate::storage::Region::write`].
    RegionWrite,
    /// [`crate::storage::DiskFile::set_len`].
    SetLen,
    /// [`crate::storage::DiskFile::reserve`].
    Reserve,
    /// [`crate::storage::DiskFile::sync`].
    Sync,
    /// [`crate::storage::Disk::sync_dir`].
    SyncDir,
    /// [`crate::storage::Disk::rename`].
    Rename,
    /// [`crate::storage::Disk::link`].
    Link,
    /// [`crate::storage::Disk::remove_file`].
    Remove,
    /// [`crate::storage::Disk::create_dir`].
    CreateDir,
    /// [`crate::storage::Disk::remove_dir`].
    RemoveDir,
    /// Any call that only looks. It is never among the steps, but can be made to fail.
    Read,
}

/// How much of the step at which the disk crashes still happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    /// Half of the bytes of a write; anything else does not happen.
    Midway,
    After,
}

/// What the control says about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Do,
    /// Do so much of it, then the disk is gone.
    Last(Moment),
    Fail(io::ErrorKind),
}

/// The record of steps and the plan of faults.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) steps: Vec<Step>,
    pub(super) crash: Option<(usize, Moment)>,
    pub(super) crashed: bool,
    pub(super) faults: Vec<Fault>,
}

/// A planned error.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: StepKind,
    pub(super) path_part: String,
    /// So many matching calls still go well.
    pub(super) spared: u64,
    pub(super) error: io::ErrorKind,
    pub(super) sticky: bool,
}

impl Control {
    /// A call that only looks.
    pub(super) fn look(&mut self, path: &Path) -> io::Result<()> {
        if self.crashed {
            return Err(simulated_crash());
        }
        self.fault(StepKind::Read, path).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Records a step and decides what becomes of it.
    pub(super) fn step(&mut self, kind: StepKind, path: &Arc<Path>) -> io::Result<Verdict> {
        if self.crashed {
            return Err(simulated_crash());
        }
        let number = self.steps.len();
        self.steps.push(Step { kind, path: Arc::clone(path) });
        if let Some((_, moment)) = self.crash.filter(|(at, _)| *at == number) {
            self.crashed = true;
            return Ok(Verdict::Last(moment));
        }
        Ok(self.fault(kind, path).map_or(Verdict::Do, Verdict::Fail))
    }

    fn fault(&mut self, kind: StepKind, path: &Path) -> Option<io::ErrorKind> {
        if self.faults.is_empty() {
            return None;
        }
        let path = path.to_string_lossy();
        let matching = |fault: &Fault| fault.kind == kind && path.contains(fault.path_part.as_str());
        let mut hit = None;
        for (index, fault) in self.faults.iter_mut().enumerate().filter(|(_, fault)| matching(fault)) {
            match fault.spared.checked_sub(1) {
                Some(left) => fault.spared = left,
                None if hit.is_none() => hit = Some((index, fault.error, fault.sticky)),
                None => {}
            }
        }
        let (index, error, sticky) = hit?;
        if !sticky {
            self.faults.remove(index);
        }
        Some(error)
    }
}

#[derive(Debug)]
struct SimulatedCrash;

impl fmt::Display for SimulatedCrash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated crash")
    }
}

impl std::error::Error for SimulatedCrash {}

pub(super) fn simulated_crash() -> io::Error {
    io::Error::other(SimulatedCrash)
}

/// Whether `error`, or one of its sources, is what a crashed [`crate::testing::CrashDisk`] answers.
pub fn is_simulated_crash(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if error.is::<SimulatedCrash>() || inner.is_some_and(|inner| inner.is::<SimulatedCrash>()) {
            return true;
        }
        cause = error.source();
    }
    false
}
