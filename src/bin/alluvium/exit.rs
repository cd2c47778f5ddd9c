//! How a command ends.

use std::process::ExitCode;

use alluvium::ErrorKind;

/// What an exit code tells the caller to do; `docs/exit-codes.md` says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The job failed.
    Failed = 1,
    /// The call or the configuration is wrong.
    Usage = 2,
    /// Damaged or missing data needs a decision.
    Damage = 3,
    /// A successor owns the job.
    Fenced = 4,
    /// Stopped by SIGINT after a clean checkpoint.
    Interrupted = 130,
    /// Stopped by SIGTERM after a clean checkpoint.
    Terminated = 143,
}

/// The list in `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the job failed; run it again and it resumes from the last completed checkpoint
  2    the call or the pipeline file is wrong; nothing was changed
  3    acknowledged data is damaged or missing; a person has to decide
  4    fenced: another process has taken over the job
  130  stopped by SIGINT, after a clean checkpoint (or while it waited to start again after a failure)
  143  stopped by SIGTERM, likewise";

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Damage => Self::Damage,
            ErrorKind::Fenced => Self::Fenced,
            // Kinds that a later library may add are failures until they have a code.
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
