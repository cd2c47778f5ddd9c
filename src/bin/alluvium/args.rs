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
    /// Look into a write-ahead log, or repair it by hand
    Wal(WalArgs),
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
            Self::Wal(_) => "wal",
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

/// `wal`
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Looks into a write-ahead log, or repairs it by hand. DIR is the folder of a log, or the state \
directory of a job. docs/wal.md tells when to use which.",
    after_help = "Examples:\n  alluvium wal verify state/clicks\n  alluvium wal dump state/clicks --limit 20",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct WalArgs {
    #[command(subcommand)]
    pub command: WalCommand,
}

/// The commands of `wal`.
#[derive(Debug, Subcommand)]
pub(crate) enum WalCommand {
    /// Read every frame; tell of all damage with file, offset and LSN
    #[command(
        after_help = "Examples:\n  alluvium wal verify state/clicks\n  alluvium wal verify state/clicks --json\n\nExit codes: 0 whole (a torn tail that nobody was promised is a warning), 3 damaged, 2 no log, 1 it cannot be read."
    )]
    Verify(WalLookArgs),
    /// Show entries: LSN, length, the first bytes
    #[command(
        after_help = "Examples:\n  alluvium wal dump state/clicks\n  alluvium wal dump state/clicks --from 123456 --limit 5 --full\n\nExit codes: 0 shown, 3 there was damage on the way (told as gaps), 2 no log, 1 it cannot be read."
    )]
    Dump(WalDumpArgs),
    /// Copy every good entry of a damaged log to a new one, and list the gaps
    #[command(
        after_help = "Examples:\n  alluvium wal salvage broken-log --to saved-log\n\nExit codes: 0 the log had no damage, 3 everything good was copied and there were gaps, 2 the log is in use or DIR is taken, 1 it failed."
    )]
    Salvage(WalSalvageArgs),
    /// Cut everything behind an LSN out of a log that nobody uses
    #[command(
        after_help = "Examples:\n  alluvium wal truncate state/clicks --after 123456\n  alluvium wal truncate state/clicks --after 123456 --yes\n\nExit codes: 0 cut, 2 only shown (--yes is missing) or the log is in use, 3 there is damage below the LSN, 1 it failed."
    )]
    Truncate(WalTruncateArgs),
    /// Measure appends, syncs and replay on the disk of a folder
    #[command(
        after_help = "Examples:\n  alluvium wal bench .\n  alluvium wal bench /mnt/disk --writers 64 --entry-bytes 100\n\nIt writes a log of some hundred MiB below DIR and removes it.\n\nExit codes: 0 measured, 2 no such folder, 1 it failed."
    )]
    Bench(WalBenchArgs),
}

/// What all commands of `wal` take.
#[derive(Debug, clap::Args)]
pub(crate) struct WalLookArgs {
    /// The folder of a log, or the state directory of a job
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// `wal dump`
#[derive(Debug, clap::Args)]
pub(crate) struct WalDumpArgs {
    #[command(flatten)]
    pub look: WalLookArgs,
    /// The first position to show; the start of the log if left out
    #[arg(long, value_name = "LSN")]
    pub from: Option<u64>,
    /// Show at most so many entries
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u64,
    /// Show whole entries, not only their first 64 bytes
    #[arg(long)]
    pub full: bool,
}

/// `wal salvage`
#[derive(Debug, clap::Args)]
pub(crate) struct WalSalvageArgs {
    #[command(flatten)]
    pub look: WalLookArgs,
    /// A folder for the new log; it is made, or must be empty
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `wal truncate`
#[derive(Debug, clap::Args)]
pub(crate) struct WalTruncateArgs {
    #[command(flatten)]
    pub look: WalLookArgs,
    /// The log is to end here: appends that reach beyond are cut
    #[arg(long, value_name = "LSN")]
    pub after: u64,
    /// Do it; without, it is only shown what would be lost
    #[arg(long)]
    pub yes: bool,
}

/// `wal bench`
#[derive(Debug, clap::Args)]
pub(crate) struct WalBenchArgs {
    #[command(flatten)]
    pub look: WalLookArgs,
    /// Length of an entry in bytes
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub entry_bytes: u32,
    /// Writers that share syncs in the second measure of these
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub writers: u32,
    /// Longest time of each measure, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub seconds: f64,
}

/// A time that is neither nothing nor for ever.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.01 to 3600".to_owned()),
    }
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
