//! A job: a pipeline and the world, wired, started, recovered and started again.
//!
//! Owns the order of a start. Each attempt goes the same way, the first of a process and a restart within
//! it: what a crash can leave behind is what a failure leaves behind.
//!
//! ```text
//!  lock (P10) -> open the log (P5) -> is it the same definition? (D17) -> start record (P15)
//!    -> open the source, check every file the sinks name -> recover the sinks -> commit again (P4)
//!    -> delete what no record names -> run
//! ```
//!
//! Nothing is changed before everything that the checkpoint names was found whole, but for the log's own
//! records.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::checkpoint::Checkpoint;
use crate::checkpoint::CheckpointSettings;
use crate::checkpoint::CheckpointStore;
use crate::checkpoint::Compatibility;
use crate::checkpoint::Completed;
use crate::checkpoint::Fingerprint;
use crate::checkpoint::JobStart;
use crate::checkpoint::RestartDecision;
use crate::checkpoint::RestartPolicy;
use crate::checkpoint::Restarts;
use crate::checkpoint::decide_fingerprint;
use crate::doors::Doors;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::pipeline::model::Pipeline;
use crate::pipeline::others;
use crate::pipeline::seen;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::success;
use crate::pipeline::wiring;
use crate::runtime::Dataflow;
use crate::runtime::Observer;
use crate::runtime::OnRejected;
use crate::runtime::Outcome;
use crate::runtime::RunEvent;
use crate::runtime::SinkInput;
use crate::runtime::Start;
use crate::runtime::StopRequest;
use crate::sink::Committer;
use crate::sink::SinkWriter;
use crate::sink::file::FileSink;
use crate::sink::file::Identity;
use crate::source::FileSource;
use crate::source::matching;
use crate::state::Journal;
use crate::state::State;
use crate::storage::DiskLock;
use crate::storage::make_folders;
use crate::stream::Lineage;
use crate::stream::TaskId;
use crate::telemetry::Metrics;
use crate::wal::Wal;
use crate::wal::WalSettings;

/// The folder of the log in a state directory.
pub(crate) const LOG: &str = "log";
/// The lock file in a state directory.
pub(crate) const LOCK: &str = "lock";
/// The source's task.
pub(crate) const SOURCE: &str = "source";
/// The sink's task.
pub(crate) const SINK: &str = "sink";
/// The task that lands dead letters.
pub(crate) const DEAD_LETTERS: &str = "dead-letters";

/// A pipeline that can be run.
pub struct Job {
    pipeline: Arc<Pipeline>,
    doors: Doors,
    observer: Observer,
    metrics: Arc<Metrics>,
    log: WalSettings,
    accept_loss: bool,
}

impl Job {
    /// A job that runs `pipeline` in the world behind `doors`. Nothing is touched yet.
    pub fn new(pipeline: Pipeline, doors: Doors) -> Self {
        Self {
            metrics: Arc::new(Metrics::new(pipeline.name.as_str(), Arc::clone(&doors.clock))),
            pipeline: Arc::new(pipeline),
            doors,
            observer: Arc::new(|_: &RunEvent| {}),
            log: WalSettings::default(),
            accept_loss: false,
        }
    }

    /// Tells `observer` of checkpoints and commits.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> Self {
        self.observer = observer;
        self
    }

    /// Another log than the default one: segments of another size, a limit.
    #[must_use]
    pub fn with_log(mut self, log: WalSettings) -> Self {
        self.log = log;
        self
    }

    /// Goes on although pending part files are gone under both their names (C4): their rows are lost, which
    /// is put on record.
    #[must_use]
    pub fn with_accept_loss(mut self, accept_loss: bool) -> Self {
        self.accept_loss = accept_loss;
        self
    }

    /// The numbers of the job, which go on over restarts within the process.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Runs until the input ends, a stop is asked for, or the restart strategy gives up. Goes on from the
    /// newest completed checkpoint of the state directory, if there is one.
    ///
    /// A stop that comes while the job waits to start again after a failure ends it at once, as stopped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] when another process runs the job or the pipeline does not fit its state;
    /// [`ErrorKind::Damage`] when something acknowledged is damaged or missing; the last failure of an
    /// attempt otherwise. Nothing that was acknowledged is lost by any of them.
    ///
    /// # Cancellation
    ///
    /// Like the end of the process: what was safe stays safe, and jobs of the pools may still run, so
    /// that the same process must not start the job again before it has joined the pools.
    pub async fn run(&self, mut stop: watch::Receiver<StopRequest>) -> Result<Outcome> {
        self.foresee().await?;
        let _lock = self.lock().await?;
        let mut restarts = Restarts::new(self.restart_policy());
        loop {
            let error = match self.attempt(stop.clone()).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error.fatal_if_forbidden(),
            };
            // What a failed start left in the pools must have ended before the next one (P10).
            self.doors.cpu.join().await;
            self.doors.io.join().await;
            // A stop that was asked for ends with this failure: its final checkpoint was not made.
            if *stop.borrow() == StopRequest::Stop {
                return Err(error);
            }
            let now = self.doors.clock.monotonic();
            let delay = match restarts.failed(error.kind(), now, self.doors.random.next_u64()) {
                RestartDecision::GiveUp => return Err(error),
                RestartDecision::After(delay) => delay,
            };
            tracing::warn!(
                %error, restarts = restarts.total(), delay_ms = delay.as_millis(),
                "the job failed and starts again from its last completed checkpoint"
            );
            self.metrics.restarts.add(1);
            (self.observer)(&RunEvent::Restarting { after: delay, reason: error.to_string() });
            tokio::select! {
                biased;
                Ok(_) = stop.wait_for(|asked| *asked == StopRequest::Stop) => {
                    tracing::warn!(
                        %error,
                        "stopped while waiting to start again after a failure, without a final checkpoint; nothing \
                         acknowledged is lost, the next run resumes from the last completed checkpoint"
                    );
                    return Ok(Outcome::Stopped);
                }
                () = self.doors.clock.sleep(delay) => {}
            }
        }
    }

    /// Asks what needs no state of a job that has none yet: what is refused here has made no state directory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] alone; whatever else is wrong is the attempt's to tell.
    async fn foresee(&self) -> Result<()> {
        match self.ask_ahead().await {
            Err(error) if error.kind() == ErrorKind::Usage => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask_ahead(&self) -> Result<()> {
        let (doors, state) = (self.doors.clone(), self.pipeline.checkpoint.state.clone());
        if self.doors.io.run(move || seen::is_there(&doors, &state)).await?? {
            return Ok(());
        }
        let _found = matching(&wiring::source(&self.pipeline)?, &self.doors).await?;
        if self.pipeline.schema.is_none() {
            let schema = wiring::infer(&self.pipeline, &self.doors).await?;
            self.pipeline.bind(&wiring::input_format(&self.pipeline, &schema)?.schema())?;
        }
        Ok(())
    }

    /// Warns of files in the tables that a job with another state has landed: this one does not know what is
    /// in them.
    async fn warn_of_others(&self, lineage: Lineage) -> Result<()> {
        let (disk, pipeline) = (Arc::clone(&self.doors.disk), Arc::clone(&self.pipeline));
        let notes = self.doors.io.run(move || others::notes(&*disk, &pipeline, Some(lineage)));
        for note in notes.await?? {
            tracing::warn!("{note}");
        }
        Ok(())
    }

    /// Takes the lock of the state directory, which is made if it is not there.
    async fn lock(&self) -> Result<Box<dyn DiskLock>> {
        let (disk, state) = (Arc::clone(&self.doors.disk), self.pipeline.checkpoint.state.clone());
        let taken = self.doors.io.run(move || {
            make_folders(&*disk, &state, true)?;
            let state = disk.canonicalize(&state)?;
            let system = disk.file_system(&state)?;
            if system.network {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::Unsupported,
                    format!(
                        "{} is a network file system, whose locks and syncs are not to be trusted",
                        system.name
                    ),
                ));
            }
            disk.lock(&state.join(LOCK))
        });
        let state = self.pipeline.checkpoint.state.display();
        match taken.await? {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(Error::usage(format!(
                "the state directory {state} is in use: another process runs this job. Nothing was changed; stop \
                 that process, or give this pipeline a state directory of its own (checkpoint.state)"
            ))),
            Err(error) => {
                Err(Error::usage(format!("the state directory {state} cannot be used")).with_source(error))
            }
        }
    }

    /// One start of the dataflow and its run.
    async fn attempt(&self, stop: watch::Receiver<StopRequest>) -> Result<Outcome> {
        let store = self.open_log().await?;
        let fingerprint = fingerprint(&self.pipeline);
        let job = job_start(&self.pipeline, &self.doors);
        let tasks = job.tasks.clone();
        // Another source or sink is another job, whatever stop was made.
        store.admit(&job)?;
        judge_fingerprint(&self.pipeline, store.latest().as_ref())?;
        let started = {
            let store = Arc::clone(&store);
            self.doors.io.run(move || store.start(job)).await??
        };
        tracing::info!(
            incarnation = %started.incarnation,
            lineage = %started.lineage,
            restored = started.restored.as_ref().map_or(0, |restored| restored.completed.epoch().0),
            "started"
        );
        self.metrics.incarnation.set(started.incarnation.0);
        (self.observer)(&RunEvent::Started {
            incarnation: started.incarnation,
            restored: started.restored.as_ref().map(|restored| restored.completed.epoch()),
        });
        if started.restored.is_none() {
            self.warn_of_others(started.lineage).await?;
        }
        let mut states = started.states;
        let mut source_state = states.take(&tasks[0])?;
        let sink_state = states.take(&tasks[1])?;
        let letters_state = tasks.get(2).map(|task| states.take(task)).transpose()?;

        let schema = wiring::schema(&self.pipeline, &mut source_state, &self.doors).await?;
        let format = wiring::input_format(&self.pipeline, &schema)?;
        let bound = self.pipeline.bind(&format.schema())?;
        let identity =
            |writer| Identity { lineage: started.lineage, incarnation: started.incarnation, writer };
        let sink = wiring::table(&self.pipeline, &bound.output, identity(0), &self.doors, self.accept_loss)?;
        let letters = match (letters_state, &self.pipeline.on_error.dead_letters) {
            (Some(state), Some(folder)) => {
                let (pipeline, accept_loss) = (&self.pipeline, self.accept_loss);
                let sink = wiring::dead_letters(pipeline, folder, identity(1), &self.doors, accept_loss)?;
                Some((sink, state))
            }
            _ => None,
        };
        let settings = wiring::source(&self.pipeline)?;
        let source =
            FileSource::open(settings, format, Some(bound.stage), source_state, self.doors.clone()).await?;

        // Everything that the checkpoint names is looked at before anything is changed.
        let plan = sink.check(&sink_state).await?;
        let letters = match letters {
            Some((sink, state)) => {
                let plan = sink.check(&state).await?;
                Some((sink, plan, state))
            }
            None => None,
        };
        let base = sink.base().to_owned();
        if self.pipeline.sink.success_file {
            let (disk, base) = (Arc::clone(&self.doors.disk), base.clone());
            self.doors.io.run(move || success::withdraw(&*disk, &base)).await??;
        }
        let completed = started.restored.as_ref().map(|restored| &restored.completed);
        let mut dataflow =
            Dataflow::new(&self.doors, wiring::dataflow(&self.pipeline), Arc::clone(&self.observer))
                .with_metrics(Arc::clone(&self.metrics));
        let (letters_inputs, mut rejected) = match letters {
            Some((sink, plan, state)) => {
                let mut inputs =
                    add(&mut dataflow, &tasks[2], sink, plan, state, completed, 2, OnRejected::Fail).await?;
                (inputs.pop(), inputs.pop())
            }
            None => (None, None),
        };
        let on_rejected = |input: Option<SinkInput>| match (self.pipeline.on_error.bad_record, input) {
            (BadRecord::DeadLetter, Some(input)) => OnRejected::DeadLetters(input),
            (BadRecord::Skip, _) => OnRejected::Skip,
            _ => OnRejected::Fail,
        };
        let of_sink = on_rejected(rejected.take());
        let mut inputs = add(&mut dataflow, &tasks[1], sink, plan, sink_state, completed, 1, of_sink).await?;
        let input = inputs.pop().ok_or_else(|| Error::retry("a sink has no input"))?;
        let start = Start {
            store,
            incarnation: started.incarnation,
            fingerprint,
            restored: started.restored.as_ref().map(|restored| (restored.record.epoch, restored.record.kind)),
        };
        (self.observer)(&RunEvent::Running);
        let on_rejected = on_rejected(letters_inputs);
        let asked = stop.clone();
        let drained = *asked.borrow() == StopRequest::Drain;
        let mut outcome = dataflow.run(tasks[0].clone(), source, input, on_rejected, start, stop).await?;
        // Where nothing came since the end of an earlier run, its last checkpoint is still the newest. But
        // an input that is followed has no end, unless it is drained.
        if self.pipeline.source.follow && !drained && *asked.borrow() == StopRequest::Stop {
            outcome = Outcome::Stopped;
        }
        if self.pipeline.sink.success_file && outcome == Outcome::Finished {
            let disk = Arc::clone(&self.doors.disk);
            self.doors.io.run(move || success::announce(&*disk, &base)).await??;
        }
        Ok(outcome)
    }

    async fn open_log(&self) -> Result<Arc<CheckpointStore>> {
        let (doors, log) = (self.doors.clone(), self.log.clone());
        let folder: PathBuf = self.pipeline.checkpoint.state.join(LOG);
        let settings = CheckpointSettings { retain: self.pipeline.checkpoint.retain, ..Default::default() };
        let opened = self.doors.io.run(move || -> Result<CheckpointStore> {
            let (wal, opened) = Wal::open(&folder, log, &doors)?;
            if let Some(cut) = &opened.cut {
                tracing::warn!(
                    ?cut,
                    "the log ended in the middle of a write that nobody was told of: it was cut"
                );
            }
            let journal: Arc<dyn Journal> = Arc::new(wal);
            CheckpointStore::open(journal, settings)
        });
        Ok(Arc::new(opened.await??))
    }

    fn restart_policy(&self) -> RestartPolicy {
        wiring::restart_policy(&self.pipeline.restart)
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("pipeline", &self.pipeline.name).finish_non_exhaustive()
    }
}

/// Refuses to go on from a checkpoint that another definition of the job made, unless a clean stop made it
/// (D17). Files that were begun with another schema or format are rolled by the sink (D15).
pub(super) fn judge_fingerprint(pipeline: &Pipeline, newest: Option<&Checkpoint>) -> Result<()> {
    let Some(newest) = newest else { return Ok(()) };
    let record = &newest.record;
    match decide_fingerprint(record.kind, record.fingerprint == fingerprint(pipeline)) {
        Compatibility::Go | Compatibility::RollOpenFiles => Ok(()),
        Compatibility::Refuse => Err(Error::usage(format!(
            "{}: source, schema, transforms or buckets are not those of checkpoint {}, which was not made by a \
             clean stop. Nothing was changed. Run the job once more with its former pipeline file, stop it \
             (SIGTERM) or drain it (--drain), and then change it",
            pipeline.shown.display(),
            record.epoch,
        ))),
    }
}

/// What `pipeline` says of itself at a start.
pub(super) fn job_start(pipeline: &Pipeline, doors: &Doors) -> JobStart {
    let mut lineage = [0; 4];
    doors.random.fill(&mut lineage);
    let mut tasks = vec![TaskId::new(SOURCE), TaskId::new(SINK)];
    if pipeline.on_error.dead_letters.is_some() {
        tasks.push(TaskId::new(DEAD_LETTERS));
    }
    JobStart {
        lineage_if_new: Lineage(u32::from_le_bytes(lineage)),
        job: pipeline.name.clone(),
        source: format!("file {}", pipeline.source.base.join(&pipeline.source.path).display()),
        sink: format!("file {}", pipeline.sink.path.display()),
        tasks,
        abandoned: Vec::new(),
        at: doors.clock.now(),
    }
}

fn fingerprint(pipeline: &Pipeline) -> Fingerprint {
    let wide = pipeline.fingerprint().0;
    // Both halves of a hash are hashes.
    Fingerprint((wide ^ (wide >> 64)) as u64)
}

/// Recovers a sink, commits again what its checkpoint lists, deletes what no record names, and adds it.
#[expect(clippy::too_many_arguments, reason = "one call site each for two sinks that differ in all of them")]
async fn add(
    dataflow: &mut Dataflow,
    task: &TaskId,
    sink: FileSink,
    plan: crate::sink::file::Plan,
    state: State,
    completed: Option<&Completed>,
    inputs: usize,
    on_rejected: OnRejected,
) -> Result<Vec<SinkInput>> {
    let (mut writer, mut committer, pending) = sink.recover(plan, state).await?;
    let again = !pending.is_empty();
    if again {
        let completed = completed.ok_or_else(|| {
            Error::new(ErrorKind::Damage, format!("{task}: files are pending, and no checkpoint is complete"))
        })?;
        tracing::info!(%task, files = pending.len(), "committing what the last checkpoint lists");
        let done = committer.commit(completed, pending).await?;
        writer.committed(done)?;
    }
    let removed = writer.sweep_orphans().await?;
    if removed > 0 {
        tracing::info!(%task, files = removed, "removed part files that no checkpoint names");
    }
    Ok(dataflow.add_sink(task.clone(), writer, committer, inputs, again, on_rejected))
}
