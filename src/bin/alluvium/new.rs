//! `alluvium new`.

use std::io;
use std::path::Path;

use alluvium::Error;
use alluvium::storage::Disk;
use alluvium::storage::OpenMode;
use alluvium::storage::RealDisk;

use crate::args::NewArgs;
use crate::exit::Exit;
use crate::message::say;

/// The starter; `{name}` is the job's.
const PIPELINE: &str = include_str!("new/pipeline.toml");
/// A few events.
const SAMPLE: &str = include_str!("new/sample.ndjson");
/// Longest name of a job.
const NAME_LEN_MAX: usize = 64;

/// Writes a folder with a pipeline that runs as it is.
pub(crate) fn new(args: &NewArgs) -> alluvium::Result<Exit> {
    let folder = args.name.as_path();
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !starts || !name.chars().all(good) || name.len() > NAME_LEN_MAX {
        return Err(Error::usage(format!(
            "`{}` cannot name a job: up to {NAME_LEN_MAX} of a-z, 0-9, - and _, a letter or digit first",
            folder.display()
        )));
    }
    let disk = RealDisk::new();
    let data = folder.join("data");
    make_folder(&disk, folder)?;
    if !disk.list(folder).map_err(|error| unwritable(folder, error))?.is_empty() {
        return Err(Error::usage(format!(
            "{} is there already and is not empty; nothing was written, choose another name",
            folder.display()
        )));
    }
    make_folder(&disk, &data)?;
    // The sample first: a pipeline file that is there has its data.
    write(&disk, &data.join("sample.ndjson"), SAMPLE)?;
    let file = folder.join("pipeline.toml");
    write(&disk, &file, &PIPELINE.replace("{name}", name))?;
    say(&format!(
        "Wrote {file} and {data}/sample.ndjson.\n\
         Next: alluvium run {file}\n\
         It lands the sample in {folder}/out/{name}, by day and hour.\n",
        file = file.display(),
        data = data.display(),
        folder = folder.display()
    ))?;
    Ok(Exit::Done)
}

fn make_folder(disk: &dyn Disk, path: &Path) -> alluvium::Result<()> {
    match disk.create_dir(path, false) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unwritable(path, error)),
        _ => Ok(()),
    }
}

fn write(disk: &dyn Disk, path: &Path, text: &str) -> alluvium::Result<()> {
    disk.open(path, OpenMode::CreateNew { private: false })
        .and_then(|file| file.write_at(0, text.as_bytes()))
        .map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Error::usage(format!("{path} cannot be made: the folder around it is not there"))
        }
        io::ErrorKind::AlreadyExists => {
            Error::usage(format!("{path} is there already; it is never overwritten"))
        }
        io::ErrorKind::NotADirectory => {
            Error::usage(format!("{path} is there already and is no folder; choose another name"))
        }
        _ => Error::fatal(format!("{path} cannot be written")).with_source(error),
    }
}
