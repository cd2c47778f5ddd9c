//! `alluvium run`.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alluvium::Error;
use alluvium::ErrorKind;
use alluvium::clock::Clock;
use alluvium::dashboard::Endpoint;
use alluvium::doors::Doors;
use alluvium::pipeline::Job;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;
use alluvium::pipeline::Standing;
use alluvium::pipeline::Summary;
use alluvium::runtime::Outcome;
use alluvium::runtime::RunEvent;
use alluvium::runtime::StopRequest;
use rustix::process::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;

use crate::args::LogFormat;
use crate::args::RunArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::progress::Live;
use crate::progress::LogLine;
use crate::progress::Progress;
use crate::progress::TICK;
use crate::runtime::block_on;
use crate::summary;

/// Runs the pipeline until it ends or a signal stops it.
pub(crate) fn run(args: &RunArgs) -> alluvium::Result<Exit> {
    let live = Live::new(!args.quiet && args.log == LogFormat::Text);
    log(args, &live);
    let doors = Doors::real();
    let pipeline = Pipeline::load(&*doors.disk, &args.file, &ProcessEnvironment)?;
    let done = block_on(drive(args, pipeline, doors, &live))?;
    live.clear();
    done
}

async fn drive(args: &RunArgs, pipeline: Pipeline, doors: Doors, live: &Live) -> alluvium::Result<Exit> {
    let (stop, stopping) = watch::channel(if args.drain { StopRequest::Drain } else { StopRequest::None });
    let mut interrupt = handled(SignalKind::interrupt())?;
    let mut terminate = handled(SignalKind::terminate())?;
    // A file that grows beyond a limit of the process is then an error of the write, not the end of it.
    let _ignored = handled(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;

    let waiting = Arc::new(AtomicBool::new(false));
    let waits = Arc::clone(&waiting);
    let observer = move |event: &RunEvent| match event {
        RunEvent::Restarting { .. } => waits.store(true, Ordering::Relaxed),
        RunEvent::Started { .. } => waits.store(false, Ordering::Relaxed),
        _ => {}
    };
    let job = Job::new(pipeline, doors.clone())
        .with_accept_loss(args.accept_loss)
        .with_observer(Arc::new(observer));
    let endpoint = match args.metrics {
        Some(addr) => Some(Endpoint::bind(addr, Arc::clone(job.metrics()), Vec::new()).await?),
        None => None,
    };
    let before = {
        let (at, pipeline) = (doors.clone(), job.pipeline().clone());
        // A state that cannot be read is the job's to refuse, in its own words.
        doors.io.run(move || Standing::of(&pipeline, &at)).await?.ok()
    };
    announce(args, job.pipeline(), endpoint.as_ref(), live);
    if let Some(endpoint) = endpoint {
        // It ends with the process.
        tokio::spawn(endpoint.run());
    }

    let (clock, metrics) = (Arc::clone(&doors.clock), Arc::clone(job.metrics()));
    let mut progress = Progress::new(live.clone(), !job.pipeline().source.follow);
    let began = clock.monotonic();
    let running = job.run(stopping);
    tokio::pin!(running);
    let mut signalled = None;
    let outcome = loop {
        let exit = tokio::select! {
            biased;
            outcome = &mut running => break outcome,
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
            () = tick(&*clock, live) => {
                progress.show(&metrics.status());
                continue;
            }
        };
        if signalled.is_some() {
            // The second signal ends the process where it stands; what is safe stays safe.
            live.clear();
            std::process::exit(exit as i32);
        }
        signalled = Some(exit);
        if !args.quiet && args.log == LogFormat::Text {
            let text: &[u8] = match waiting.load(Ordering::Relaxed) {
                true => {
                    b"stopping; the job was waiting to start again, so there is nothing to be made safe\n"
                }
                false => b"stopping with a final checkpoint; once more ends it at once\n",
            };
            live.write(text);
        }
        // A drain that runs goes on to its end, which is near; one that waits to start again ends here.
        stop.send_replace(StopRequest::Stop);
    };
    live.clear();
    let took = clock.monotonic().saturating_sub(began);
    if let Some(before) = before {
        finish(args, &job, &doors, &before, outcome.as_ref(), took).await;
    }
    Ok(match outcome? {
        Outcome::Finished => Exit::Done,
        Outcome::Stopped => signalled.unwrap_or(Exit::Done),
    })
}

fn handled(kind: SignalKind) -> alluvium::Result<tokio::signal::unix::Signal> {
    signal(kind).map_err(|error| Error::fatal("signals cannot be handled").with_source(error))
}

async fn tick(clock: &dyn Clock, live: &Live) {
    if live.is_shown() { clock.sleep(TICK).await } else { std::future::pending().await }
}

/// Says what runs, by absolute paths (D6): what a relative one means depends on the file it is in.
fn announce(args: &RunArgs, pipeline: &Pipeline, endpoint: Option<&Endpoint>, live: &Live) {
    let guarantee = pipeline.guarantees().whole().to_string();
    let source = pipeline.source.base.join(&pipeline.source.path).display().to_string();
    let table = pipeline.sink.path.display().to_string();
    let letters = pipeline.on_error.dead_letters.as_ref().map(|path| path.display().to_string());
    let state = pipeline.checkpoint.state.display().to_string();
    let metrics = endpoint.map(|endpoint| format!("http://{}/metrics", endpoint.addr()));
    if args.log == LogFormat::Json {
        tracing::info!(
            job = %pipeline.name, file = %pipeline.file.display(), source, table, dead_letters = letters, state,
            guarantee, metrics, "starting"
        );
        return;
    }
    if args.quiet {
        return;
    }
    let follow = if pipeline.source.follow { " (followed)" } else { "" };
    let mut text = format!(
        "{}: {guarantee}\n  source        {source}{follow}\n  table         {table}\n",
        pipeline.name
    );
    for (what, value) in [("dead letters", letters), ("state", Some(state)), ("metrics", metrics)] {
        if let Some(value) = value {
            text.push_str(&format!("  {what:<14}{value}\n"));
        }
    }
    live.write(text.as_bytes());
}

/// Says what the run has done: on standard output, since that is its result.
async fn finish(
    args: &RunArgs,
    job: &Job,
    doors: &Doors,
    before: &Standing,
    outcome: Result<&Outcome, &Error>,
    took: Duration,
) {
    // What was refused has done nothing.
    if outcome.is_err_and(|error| matches!(error.kind(), ErrorKind::Usage | ErrorKind::Fenced)) {
        return;
    }
    let (at, pipeline, from) = (doors.clone(), job.pipeline().clone(), before.clone());
    let summary = doors.io.run(move || Summary::since(&pipeline, &at, &from)).await;
    let summary = match summary.flatten() {
        Ok(summary) => summary,
        // The job's own error says why the state cannot be read.
        Err(_) if outcome.is_err() => return,
        Err(error) => {
            tracing::warn!(%error, "what the run has done cannot be told");
            return;
        }
    };
    if args.log == LogFormat::Json {
        tracing::info!(
            job = %job.pipeline().name,
            outcome = summary::word(outcome.ok().copied()),
            records = summary.records,
            rows_landed = summary.landed.new.rows,
            files = summary.landed.new.files,
            bytes = summary.landed.new.bytes,
            buckets = summary.landed.buckets,
            dead_letters = summary.dead_letters.new.rows + summary.dead_letters.waiting.rows,
            left_out = summary.left_out,
            rows_waiting = summary.landed.waiting.rows,
            checkpoints = summary.checkpoints,
            took_ms = took.as_millis(),
            "ended"
        );
    }
    let failed_idle = outcome.is_err() && summary.records == 0 && summary.landed.new.files == 0;
    if args.quiet || failed_idle {
        return;
    }
    let unread = job.metrics().status().sources.iter().map(|source| source.lag_bytes).sum();
    let text =
        summary::told(job.pipeline(), &args.file, before, &summary, outcome.ok().copied(), took, unread);
    if let Err(error) = say(&text) {
        tracing::warn!(%error, "the summary cannot be written");
    }
}

/// Log lines go to standard error; `ALLUVIUM_LOG` picks their level (`debug`, `alluvium::wal=trace`). Beside a
/// live line only what goes wrong is logged.
fn log(args: &RunArgs, live: &Live) {
    let level = if args.quiet || live.is_shown() { "warn" } else { "info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("ALLUVIUM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let live = live.clone();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || LogLine::new(live.clone()))
        .with_target(false);
    match args.log {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
