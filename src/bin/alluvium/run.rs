//! `alluvium run`.

use std::io::IsTerminal;

use alluvium::Error;
use alluvium::doors::Doors;
use alluvium::pipeline::Job;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::runtime::Outcome;
use alluvium::runtime::StopRequest;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;

use crate::args::LogFormat;
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::runtime::block_on;

/// Runs the pipeline until it ends or a signal stops it.
pub(crate) fn run(args: &RunArgs) -> alluvium::Result<Exit> {
    log(args);
    let doors = Doors::real();
    let pipeline = Pipeline::load(&*doors.disk, &args.file, &ProcessEnvironment)?;
    block_on(drive(args, pipeline, doors))?
}

async fn drive(args: &RunArgs, pipeline: Pipeline, doors: Doors) -> alluvium::Result<Exit> {
    let asked = if args.drain { StopRequest::Drain } else { StopRequest::None };
    let (stop, stopping) = watch::channel(asked);
    let signals =
        |kind| signal(kind).map_err(|error| Error::fatal("signals cannot be handled").with_source(error));
    let (mut interrupt, mut terminate) =
        (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
    let job = Job::new(pipeline, doors).with_accept_loss(args.accept_loss);
    let running = job.run(stopping);
    tokio::pin!(running);
    let mut signalled = None;
    loop {
        let exit = tokio::select! {
            biased;
            outcome = &mut running => {
                return match outcome? {
                    Outcome::Finished => Ok(Exit::Done),
                    Outcome::Stopped => Ok(signalled.unwrap_or(Exit::Done)),
                };
            }
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        };
        if signalled.is_some() {
            // The second signal ends the process where it stands; what is safe stays safe.
            std::process::exit(exit as i32);
        }
        signalled = Some(exit);
        stop.send_if_modified(|asked| {
            let was_none = *asked == StopRequest::None;
            if was_none {
                *asked = StopRequest::Stop;
            }
            was_none
        });
    }
}

/// Log lines go to standard error; `ALLUVIUM_LOG` picks their level (`debug`, `alluvium::wal=trace`).
fn log(args: &RunArgs) {
    let level = if args.quiet { "warn" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("ALLUVIUM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match args.log {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
