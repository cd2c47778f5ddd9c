//! Everything that can be known of a run before it: `alluvium check`.
//!
//! Owns the questions. What would be refused at a start is asked of those who would refuse it: the source
//! finds its files, the format decodes a sample, the sink looks for its folders, the checkpoints look at the
//! state. Nothing on the disk is changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::doors::Doors;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Result;
use crate::format::InputFormat;
use crate::format::schema_text;
use crate::pipeline::file::Bound;
use crate::pipeline::job;
use crate::pipeline::job::SOURCE;
use crate::pipeline::model::Pipeline;
use crate::pipeline::others;
use crate::pipeline::seen;
use crate::pipeline::seen::Seen;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::tables::Known;
use crate::pipeline::tables::Record;
use crate::pipeline::units::counted;
use crate::pipeline::wiring;
use crate::sink::file::Identity;
use crate::sink::file::PartName;
use crate::source::Sample;
use crate::source::matching;
use crate::source::prove;
use crate::source::sample;
use crate::state::StateView;
use crate::storage::Kind;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Rejected;

/// Bad records of the sample that are told in full.
const REASONS_MAX: usize = 5;
/// Buckets of the sample that are named.
const BUCKETS_MAX: usize = 3;
/// Looks at part files before it is believed that they are gone: a file passes through three states.
const LOOKS: usize = 4;

/// What a run would meet.
#[derive(Debug, Clone, Default)]
pub struct Checkup {
    /// What a run would be refused for, or would fail at.
    pub problems: Vec<String>,
    /// What is worth knowing, and no reason not to run.
    pub notes: Vec<String>,
    /// Files that are there to be read, and their bytes.
    pub input: Option<(u64, u64)>,
    /// The `[schema]` that was guessed, where none is declared: to be pasted into the pipeline file.
    pub inferred: Option<String>,
    /// What became of the first records.
    pub sample: Option<SampleCheck>,
    /// What the state directory says.
    pub state: StateCheck,
}

/// The first records, decoded, filtered and sorted into buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleCheck {
    /// Records looked at.
    pub records: u64,
    /// Those that cannot be taken.
    pub bad: u64,
    /// The first of them: place and reason.
    pub reasons: Vec<String>,
    /// Rows that the transforms let pass.
    pub rows: u64,
    /// Buckets that they go to.
    pub buckets: u64,
    /// The first of these.
    pub bucket_names: Vec<String>,
}

/// What a state directory means for the next run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StateCheck {
    /// It could not be read, or does not fit: see the problems.
    #[default]
    Unusable,
    /// There is none, or nothing in it: the run begins at the beginning.
    Fresh,
    /// The run goes on from a checkpoint.
    Resumes {
        /// Its number.
        epoch: u64,
        /// Records that were read before it.
        records: u64,
    },
}

/// Asks everything that can be asked before a run of `pipeline`.
///
/// # Errors
///
/// [`crate::ErrorKind::Retry`] when the disk does not answer; [`crate::ErrorKind::Damage`] when the state is
/// damaged, a file of the input is not the one that was read, or a part file is gone or too short; all that is
/// wrong with the pipeline is in [`Checkup::problems`].
pub async fn check(pipeline: &Pipeline, doors: &Doors) -> Result<Checkup> {
    let mut checkup = Checkup::default();
    let (at, of) = (doors.clone(), pipeline.clone());
    let state = doors.io.run(move || look_at_state(&of, &at)).await?;
    let looked = match state {
        Ok(looked) => looked,
        Err(error) => {
            checkup.problem(error)?;
            Looked::default()
        }
    };
    checkup.state = looked.state;
    let (at, of) = (doors.clone(), pipeline.clone());
    checkup.problems.extend(doors.io.run(move || look_at_folders(&of, &at)).await?);

    let settings = wiring::source(pipeline)?;
    let read_before = match &looked.source {
        Some(source) => prove(&settings, source, doors).await?,
        None => false,
    };
    match checkup.state {
        StateCheck::Unusable => {}
        StateCheck::Fresh => {
            let (at, of) = (doors.clone(), pipeline.clone());
            checkup.notes.extend(doors.io.run(move || others::notes(&*at.disk, &of, None)).await??);
        }
        StateCheck::Resumes { .. } => look_at_parts(pipeline, doors).await?,
    }
    let problems_before = checkup.problems.len();
    let samples = match matching(&settings, doors).await {
        // What was read to its end may be removed at any time.
        Err(error) if error.kind() == ErrorKind::Usage && read_before => {
            checkup.notes.push(
                "no file matches the source's path any more; what there was is read to its end".to_owned(),
            );
            Ok(Vec::new())
        }
        Ok(found) => {
            let (files, bytes) = (found.len() as u64, found.iter().map(|(_, bytes)| bytes).sum());
            checkup.input = Some((files, bytes));
            if files == 0 {
                checkup
                    .notes
                    .push("no file matches the source's path yet: the run would wait for one".to_owned());
            }
            sample(&settings, doors, wiring::SAMPLE_LINES).await
        }
        Err(error) => Err(error),
    };
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => {
            checkup.problem(error)?;
            Vec::new()
        }
    };

    let schema = match (&pipeline.schema, looked.schema) {
        (Some(schema), _) => Some(Arc::clone(schema)),
        (None, Some(fixed)) => {
            checkup
                .notes
                .push("the schema was inferred by an earlier run and is fixed in the state".to_owned());
            checkup.inferred = Some(schema_text(&fixed));
            Some(fixed)
        }
        (None, None) if checkup.problems.len() > problems_before => None,
        (None, None) => match wiring::infer_from(pipeline, &samples) {
            Ok(schema) => {
                checkup.inferred = Some(schema_text(&schema));
                Some(schema)
            }
            Err(error) => {
                checkup.problem(error)?;
                None
            }
        },
    };
    let Some(schema) = schema else { return Ok(checkup) };
    let format = wiring::input_format(pipeline, &schema)?;
    match pipeline.bind(&format.schema()) {
        // With a declared schema they were told before.
        Err(problems) => checkup.problem(problems.into())?,
        Ok(bound) => {
            checkup.sink(pipeline, &bound.output, doors)?;
            let at = doors.clock.now();
            let of = pipeline.clone();
            let looked = doors.cpu.run(move || decoded(&of, &*format, &bound, &samples, at)).await?;
            match looked {
                Ok(sample) => checkup.judge_sample(pipeline, sample),
                Err(error) => checkup.problem(error)?,
            }
        }
    }
    Ok(checkup)
}

impl Checkup {
    /// Takes `error` as a problem of the pipeline, unless the disk or the data is to blame.
    fn problem(&mut self, error: Error) -> Result<()> {
        if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Damage) {
            return Err(error);
        }
        self.problems.push(error.to_string());
        Ok(())
    }

    /// Asks the sinks themselves; they make nothing before they run.
    fn sink(&mut self, pipeline: &Pipeline, schema: &SchemaRef, doors: &Doors) -> Result<()> {
        let identity = Identity { lineage: Lineage(0), incarnation: Incarnation(0), writer: 0 };
        if let Err(error) = wiring::table(pipeline, schema, identity, doors, false) {
            self.problem(error)?;
        }
        if let Some(folder) = &pipeline.on_error.dead_letters
            && let Err(error) = wiring::dead_letters(pipeline, folder, identity, doors, false)
        {
            self.problem(error)?;
        }
        Ok(())
    }

    fn judge_sample(&mut self, pipeline: &Pipeline, sample: SampleCheck) {
        if sample.bad > 0 && pipeline.on_error.bad_record == BadRecord::Fail {
            self.problems.push(format!(
                "{} of the first {} cannot be taken, and the run stops at the first such: mend them, or set \
                 on_error.bad_record to \"dead_letter\" or \"skip\". {}",
                sample.bad,
                counted(sample.records, "record"),
                sample.reasons.first().map_or("", String::as_str)
            ));
        }
        self.sample = Some(sample);
    }
}

/// What a state directory holds for a check.
#[derive(Default)]
struct Looked {
    state: StateCheck,
    /// The schema that an earlier run has inferred.
    schema: Option<SchemaRef>,
    /// The source's task at the newest checkpoint.
    source: Option<StateView>,
}

/// What the state means for the next run. Blocks.
fn look_at_state(pipeline: &Pipeline, doors: &Doors) -> Result<Looked> {
    let state = &pipeline.checkpoint.state;
    if let Some((place, _)) = nearest(doors, state) {
        let system = doors.disk.file_system(&place).map_err(|error| {
            Error::retry(format!("the file system of {} cannot be told", place.display())).with_source(error)
        })?;
        if system.network {
            return Err(Error::usage(format!(
                "checkpoint.state is {}, on a network file system ({}), whose locks and syncs are not to be trusted; \
                 choose a folder on a local disk",
                state.display(),
                system.name
            )));
        }
    }
    let fresh = || Looked { state: StateCheck::Fresh, ..Looked::default() };
    if !seen::is_there(doors, state)? {
        return Ok(fresh());
    }
    Seen::read(doors, state, |seen| {
        seen.inspection
            .admit(&job::job_start(pipeline, doors))
            .map_err(|error| error.context(format!("checkpoint.state is {}", state.display())))?;
        job::judge_fingerprint(pipeline, seen.checkpoint())?;
        let (Some(epoch), Some(source)) = (seen.epoch(), seen.task(SOURCE)) else {
            return Ok(fresh());
        };
        let records = crate::source::positions(source)?.iter().map(|split| split.records).sum();
        let schema = source.get(wiring::INFERRED)?.map(|fixed| wiring::fixed_schema(&fixed)).transpose()?;
        let state = StateCheck::Resumes { epoch: epoch.0, records };
        Ok(Looked { state, schema, source: Some(source.clone()) })
    })
}

/// Asks whether the files that the newest checkpoint holds for unfinished are there and long enough; their
/// bytes are for `verify` to read.
///
/// A job that runs beside it moves files: what seems wrong is believed once the state still says the same after
/// the look.
///
/// # Errors
///
/// [`ErrorKind::Damage`], naming the files.
async fn look_at_parts(pipeline: &Pipeline, doors: &Doors) -> Result<()> {
    let (at, of) = (doors.clone(), pipeline.clone());
    let look = move || -> Result<Vec<String>> {
        let mut wrong: Option<Vec<(PartName, String)>> = None;
        for _ in 0..LOOKS {
            let now = incomplete(&Known::read(&at, &of)?, &at);
            let still: Vec<_> = match &wrong {
                None => now.clone(),
                Some(before) => now.iter().filter(|found| before.contains(found)).cloned().collect(),
            };
            if still.is_empty() {
                return Ok(Vec::new());
            }
            wrong = Some(now);
        }
        Ok(wrong.unwrap_or_default().into_iter().map(|(_, what)| what).collect())
    };
    let wrong = doors.io.run(look).await??;
    match wrong.len() {
        0 => Ok(()),
        _ => Err(Error::damage(format!(
            "{} not as the newest checkpoint recorded, and a run would refuse to start:\n  {}",
            if wrong.len() == 1 { "a part file is" } else { "part files are" },
            wrong.join("\n  ")
        ))),
    }
}

/// Files in progress or pending that are not there, or too short.
fn incomplete(known: &Known, doors: &Doors) -> Vec<(PartName, String)> {
    let len = |path: &Path| doors.disk.metadata(path).ok().filter(|found| found.kind == Kind::File);
    let mut wrong = Vec::new();
    for table in &known.tables {
        for (name, record) in &table.records {
            let Record::Open(part) = record else { continue };
            let hidden = table.hidden(name);
            let target = part.bucket.folder(&table.base).join(name.to_string());
            // In this order: a rename meanwhile is then seen as both names, never as none.
            let found = len(&hidden).or_else(|| len(&target).filter(|_| part.pending));
            let rows = counted(part.content.rows, "row");
            let what = match found {
                // A file of no acknowledged bytes is begun anew.
                None if part.content.len == 0 && !part.pending => continue,
                None if part.pending => format!(
                    "{} ({rows}) is gone and was not committed to {}",
                    hidden.display(),
                    target.display()
                ),
                None => format!("{} (in progress, {rows}): the file is gone", hidden.display()),
                Some(found) if found.len < part.content.len => format!(
                    "{}: the file has {} bytes, {} were acknowledged",
                    hidden.display(),
                    found.len,
                    part.content.len
                ),
                Some(_) => continue,
            };
            wrong.push((name.clone(), what));
        }
    }
    wrong
}

/// Folders that could not be made or written to. Blocks.
fn look_at_folders(pipeline: &Pipeline, doors: &Doors) -> Vec<String> {
    let letters = pipeline.on_error.dead_letters.as_deref().map(|path| ("on_error.dead_letters", path));
    let places = [
        ("sink.path", pipeline.sink.path.as_path()),
        ("checkpoint.state", pipeline.checkpoint.state.as_path()),
    ];
    let mut problems = Vec::new();
    for (key, path) in places.into_iter().chain(letters) {
        let Some((place, kind)) = nearest(doors, path) else { continue };
        if kind != Kind::Dir {
            problems.push(format!(
                "{key} is {}, but {} is there and is no folder; move it away, or choose another path",
                path.display(),
                place.display()
            ));
            continue;
        }
        // Files wait beside a table, so that its parent is written to as well (D2).
        let parent = path.parent().filter(|_| place == path && key != "checkpoint.state");
        let parent = parent.map(Path::to_path_buf);
        for folder in [Some(place), parent].into_iter().flatten() {
            if matches!(doors.disk.may_write(&folder), Ok(false)) {
                problems.push(format!(
                    "{key} is {}, but this user may not write to {}; give the permission, or choose another path",
                    path.display(),
                    folder.display()
                ));
            }
        }
    }
    problems
}

/// The nearest thing at `path` or above it that is there.
fn nearest(doors: &Doors, path: &Path) -> Option<(PathBuf, Kind)> {
    path.ancestors().find_map(|place| Some((place.to_path_buf(), doors.disk.metadata(place).ok()?.kind)))
}

/// Decodes the first records and sends them all the way to their buckets.
fn decoded(
    pipeline: &Pipeline,
    format: &dyn InputFormat,
    bound: &Bound,
    samples: &[Sample],
    now: jiff::Timestamp,
) -> Result<SampleCheck> {
    let assigner = wiring::buckets(&pipeline.sink, &bound.output)?;
    let mut check = SampleCheck::default();
    let mut buckets = BTreeSet::new();
    for sample in samples {
        if sample.bytes.is_empty() {
            continue;
        }
        let decoder = format.decoder(&sample.split, &sample.bytes)?;
        let start = usize::try_from(decoder.start()).unwrap_or(usize::MAX).min(sample.bytes.len());
        let (_, records) = sample.bytes.split_at(start);
        let whole = if sample.is_cut { decoder.boundary(records) } else { records.len() };
        let decoded = decoder.decode(start as u64, records.get(..whole).unwrap_or_default())?;
        check.records += decoded.records;
        check.reject(&decoded.rejected);
        for batch in decoded.batches {
            let batch = (bound.stage)(batch)?;
            let assigned = assigner.assign(&batch.records, now)?;
            check.rows += (batch.records.num_rows() - assigned.unplaced.len()) as u64;
            buckets.extend(assigned.buckets.into_iter().map(|rows| rows.bucket.as_str().to_owned()));
            for row in &assigned.unplaced {
                let position = batch.positions.values().get(row.row as usize).copied().unwrap_or_default();
                check.bad(&batch.split, position, &row.reason);
            }
        }
    }
    check.buckets = buckets.len() as u64;
    check.bucket_names = buckets.into_iter().take(BUCKETS_MAX).collect();
    Ok(check)
}

impl SampleCheck {
    fn reject(&mut self, rejected: &[Rejected]) {
        for record in rejected {
            self.bad(&record.split, record.position, &record.reason);
        }
    }

    fn bad(&mut self, split: &crate::stream::SplitId, position: u64, reason: &str) {
        self.bad += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{split}, position {position}: {reason}"));
        }
    }
}
