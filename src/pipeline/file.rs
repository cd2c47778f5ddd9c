//! A pipeline file, from disk to a validated [`Pipeline`].

use std::io;
use std::path::Path;
use std::path::PathBuf;

use arrow::datatypes::SchemaRef;

use crate::error::Error;
use crate::error::Result;
use crate::pipeline::document::Document;
use crate::pipeline::environment::Environment;
use crate::pipeline::model::Pipeline;
use crate::pipeline::problem::Problem;
use crate::pipeline::problem::Problems;
use crate::pipeline::settings::Settings;
use crate::pipeline::validate::bind;
use crate::pipeline::validate::validate;
use crate::storage::Disk;
use crate::storage::OpenMode;
use crate::stream::Stage;

/// A file longer than this is no pipeline file.
const LENGTH_MAX: u64 = 1 << 20;

/// The text of a pipeline file, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineFile {
    /// As the user wrote it: messages show this one.
    shown: PathBuf,
    /// Absolute.
    path: PathBuf,
    text: String,
}

/// Transforms and sink, checked against the schema of the records.
pub struct Bound {
    /// All transforms as one step.
    pub stage: Stage,
    /// The schema of what reaches the sink.
    pub output: SchemaRef,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("output", &self.output).finish_non_exhaustive()
    }
}

impl PipelineFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when it is not there, cannot be read, or is not text.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let bytes = read(disk, path).map_err(|error| unreadable(path, error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::usage(format!("{}: byte {at} is not UTF-8: a pipeline file is text", path.display()))
        })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = disk.canonicalize(folder).map_err(|error| unreadable(path, error))?;
        let name = path.file_name().unwrap_or_default();
        Ok(Self { shown: path.to_path_buf(), path: folder.join(name), text })
    }

    /// The file that `path`, an absolute path, would be with this `text`.
    pub fn from_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let path = path.into();
        Self { shown: path.clone(), path, text: text.into() }
    }

    /// Parses the text, fills in variables from `environment` and checks everything that can be
    /// checked without looking at data: the disk is not touched.
    ///
    /// # Errors
    ///
    /// All problems, each with its place.
    pub fn pipeline(&self, environment: &dyn Environment) -> Result<Pipeline, Problems> {
        let refused = |problems| Problems::new(&self.shown, problems);
        let document = Document::parse(&self.text, environment).map_err(refused)?;
        let several: Vec<Problem> = ["source", "sink"]
            .into_iter()
            .filter(|key| document.is_array(key))
            .map(|key| {
                document
                    .places()
                    .problem_with_key(
                        key,
                        format!("[[{key}]], several of them: this is not in this version of Alluvium"),
                    )
                    .with_help(format!("write one [{key}]"))
            })
            .collect();
        let single = document.is_table("transform").then(|| {
            let reason = "there may be several transforms, so each is one of a list";
            document
                .places()
                .problem_with_key("transform", reason)
                .with_help("write [[transform]], in two brackets")
        });
        let several: Vec<Problem> = several.into_iter().chain(single).collect();
        if !several.is_empty() {
            return Err(refused(several));
        }
        let places = document.places();
        let settings: Settings = document.settings().map_err(refused)?;
        let mut pipeline = validate(settings, places, &self.path).map_err(refused)?;
        pipeline.shown.clone_from(&self.shown);
        Ok(pipeline)
    }
}

impl Pipeline {
    /// Reads and checks the pipeline file at `path`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] with every problem and its place.
    pub fn load(disk: &dyn Disk, path: &Path, environment: &dyn Environment) -> Result<Self> {
        Ok(PipelineFile::read(disk, path)?.pipeline(environment)?)
    }

    /// Checks transforms and sink against records of `schema`, and makes of the transforms one stage.
    ///
    /// With a declared schema all of it was checked before; with an inferred one this is the check.
    ///
    /// # Errors
    ///
    /// All problems, each with its place in the pipeline file.
    pub fn bind(&self, schema: &SchemaRef) -> Result<Bound, Problems> {
        let (stage, output) = bind(&self.places, &self.transforms, &self.sink, schema)
            .map_err(|problems| Problems::new(&self.shown, problems))?;
        Ok(Bound { stage, output })
    }
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.size()?;
    if len > LENGTH_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long for a pipeline file"));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(filled as u64, rest)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Error::usage(format!(
            "{path}: there is no such file; `alluvium new NAME` makes a pipeline file to start from"
        )),
        io::ErrorKind::IsADirectory => {
            Error::usage(format!("{path} is a folder; name the pipeline file in it"))
        }
        _ => Error::usage(format!("{path} cannot be read")).with_source(error),
    }
}
