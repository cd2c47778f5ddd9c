//! The words of the command line.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;

use crate::exit::EXIT_CODES;

/// Lands event streams as well-sized, bucketed Parquet, end-to-end exactly once.
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, after_help = FIRST_STEPS, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  alluvium new clicks
  alluvium run clicks/pipeline.toml

Exit codes: 0 done, 1 the job failed, 2 usage or configuration, 3 damaged or missing data,
4 fenced, 130/143 stopped by a signal after a clean checkpoint. `alluvium run --help` says more.";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a pipeline until its input ends or a signal comes; resumes by itself
    Run(RunArgs),
    /// Validate a pipeline file without running it, and tell what it guarantees
    Check(CheckArgs),
    /// Show what is in a state directory
    Inspect(InspectArgs),
    /// Prove that every committed file is there and whole
    Verify(VerifyArgs),
    /// Remove what `verify` calls garbage
    Gc(GcArgs),
    /// Write a commented starter pipeline with a data sample
    New(NewArgs),
}

impl Command {
    /// The command's word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Check(_) => "check",
            Self::Inspect(_) => "inspect",
            Self::Verify(_) => "verify",
            Self::Gc(_) => "gc",
            Self::New(_) => "new",
        }
    }
}

/// `run`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Runs a pipeline until its input ends or a signal comes. It resumes by itself from the newest \
completed checkpoint of its state directory.\n\nSIGTERM or SIGINT stops it with a final checkpoint; a second one ends it at once.",
    after_help = RUN_EXAMPLES,
    after_long_help = run_long_help()
)]
pub(crate) struct RunArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Serve metrics at /metrics on this address; a bare port means 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log: LogFormat,
    /// Read nothing new: close all files, commit everything that is safe, exit
    #[arg(long)]
    pub drain: bool,
    /// Go on although files that wait for their commit are gone; the loss is put on record
    #[arg(long)]
    pub accept_loss: bool,
    /// Only warnings and errors, no progress
    #[arg(short, long)]
    pub quiet: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  alluvium run pipeline.toml
  alluvium run pipeline.toml --metrics 9184 --log json
  alluvium run pipeline.toml --drain";

fn run_long_help() -> String {
    format!("{RUN_EXAMPLES}\n\n{EXIT_CODES}")
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// `check`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Validates a pipeline file without running it: every key, every relation between keys, the \
expressions. Prints the parts, what each guarantees, what the whole guarantees, and why. Nothing on the disk is changed.",
    after_help = "Examples:\n  alluvium check pipeline.toml\n\nExit codes: 0 it can run; 2 it cannot, every mistake is told with its line; 3 its state, its input or a part file is damaged or missing; 1 the disk cannot be read."
)]
pub(crate) struct CheckArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `inspect`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Shows what is in a state directory: checkpoints, positions, open buckets, pending files, \
incarnations, sizes. Reads only, also beside a running job.",
    after_help = "Examples:\n  alluvium inspect state/clicks\n  alluvium inspect state/clicks --json\n\nExit codes: 0 shown; 2 there is no state directory; 3 it is damaged; 1 it cannot be read."
)]
pub(crate) struct InspectArgs {
    /// The state directory
    #[arg(value_name = "STATE")]
    pub state: PathBuf,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// `verify`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Proves that every committed file exists, is whole, and has the recorded length, rows and \
checksum, and that no other file with this job's name lies around; other files of the table's format are told as a note. Reads every byte, changes nothing, and runs \
beside the job.\n\nA committed file may be compacted or removed by the owner of the table; --removed-ok says that this is so.",
    after_help = "Examples:\n  alluvium verify pipeline.toml\n  alluvium verify pipeline.toml --removed-ok\n\nExit codes: 0 all is well; 3 a file is missing, damaged, not as recorded, or one of this job's that it does not know; 2 the pipeline file is wrong or the job has no state; 1 a file cannot be read."
)]
pub(crate) struct VerifyArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Committed files that are gone were removed by their owner
    #[arg(long)]
    pub removed_ok: bool,
}

/// `gc`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Removes what `verify` calls garbage: files that carry this job's lineage and a former incarnation \
in their names, and that no retained checkpoint knows. Never a file of anybody else, and nothing by age.",
    after_help = "Examples:\n  alluvium gc pipeline.toml --dry-run\n  alluvium gc pipeline.toml\n\nExit codes: 0 done, or nothing to do; 2 the pipeline file is wrong or the job has no state; 3 the state is damaged, so nothing was removed; 1 a file cannot be removed."
)]
pub(crate) struct GcArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only list what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// `new`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Writes NAME/pipeline.toml, a commented pipeline that runs as it is, and NAME/data with a sample. \
Nothing that is there is ever overwritten.",
    after_help = "Examples:\n  alluvium new clicks\n  alluvium run clicks/pipeline.toml\n\nExit codes: 0 written; 2 the name is not valid or something is there already; 1 it cannot be written."
)]
pub(crate) struct NewArgs {
    /// A folder to make; its last part names the job (a-z, 0-9, - and _)
    #[arg(value_name = "NAME")]
    pub name: PathBuf,
}

/// An address, or a port on this machine only.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.replace("localhost:", "127.0.0.1:")
        .parse()
        .map_err(|_| "an address is a port (9184) or an address with a port (0.0.0.0:9184)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Args;
    use super::address;
    use clap::CommandFactory;

    #[test]
    fn the_words_of_the_command_line_do_not_contradict_each_other() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_bare_port_is_served_on_this_machine_only() {
        assert_eq!(address("9184").unwrap().to_string(), "127.0.0.1:9184");
        assert_eq!(address(":9184").unwrap().to_string(), "127.0.0.1:9184");
        assert_eq!(address("localhost:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("0.0.0.0:9184").unwrap().to_string(), "0.0.0.0:9184");
        assert!(address("here").is_err());
    }
}
