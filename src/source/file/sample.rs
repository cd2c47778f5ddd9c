//! The input before it is read: its files, its first lines, and whether it is still the one that was read. For
//! `check` and the inference of a schema.

use std::collections::BTreeMap;

use crate::doors::Doors;
use crate::error::Result;
use crate::source::file::content::Content;
use crate::source::file::error::FileError;
use crate::source::file::record;
use crate::source::file::resolve::Place;
use crate::source::file::resolve::resolve;
use crate::source::file::settings::FileSettings;
use crate::source::file::split::Split;
use crate::source::file::walk::Found;
use crate::source::file::walk::Pattern;
use crate::state::StateView;
use crate::storage::Disk;
use crate::stream::SplitId;

/// Of one file, however long its lines are.
const SAMPLE_BYTES_MAX: usize = 64 << 20;

/// The first lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The file, as its split is called.
    pub split: SplitId,
    /// Its first bytes, decompressed: whole lines, of which the last may lack its end.
    pub bytes: Vec<u8>,
    /// The file goes on behind these bytes, or will.
    pub is_cut: bool,
}

/// The files that make up the input now, in the order of their names, and their lengths.
///
/// # Errors
///
/// As [`sample`].
pub async fn matching(settings: &FileSettings, doors: &Doors) -> Result<Vec<(String, u64)>> {
    let settings = settings.clone();
    let disk = std::sync::Arc::clone(&doors.disk);
    let job = move || -> Result<Vec<(String, u64)>> {
        let found = found(&settings, disk.as_ref())?;
        Ok(found.into_iter().map(|(path, found)| (path, found.len)).collect())
    };
    doors.io.run(job).await?
}

/// Proves, as [`crate::source::FileSource::open`] does, that the files are still those that were read up to the
/// positions in `state`; true if any file was read before. Reads only.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] for a file that shrank, was replaced, vanished unfinished, or has grown behind a
/// last line without an end.
pub async fn prove(settings: &FileSettings, state: &StateView, doors: &Doors) -> Result<bool> {
    let splits: Vec<Split> =
        record::all_of(state)?.into_iter().map(|(id, record)| Split::new(id, record)).collect();
    let (settings, disk) = (settings.clone(), std::sync::Arc::clone(&doors.disk));
    let job = move || -> Result<bool> {
        let found = Pattern::new(&settings.base, &settings.path)?.walk(disk.as_ref(), !settings.follow)?;
        let known = splits.iter().enumerate().map(|(number, split)| split.known(number)).collect();
        for (number, place) in resolve(disk.as_ref(), &settings.base, known, found)?.places {
            if let (Some(split), Place::Here(found)) = (splits.get(number), place) {
                split.may_go_on(&settings.base, &found)?;
            }
        }
        Ok(!splits.is_empty())
    };
    doors.io.run(job).await?
}

fn found(settings: &FileSettings, disk: &dyn Disk) -> Result<BTreeMap<String, Found>> {
    let pattern = Pattern::new(&settings.base, &settings.path)?;
    let found = pattern.walk(disk, !settings.follow)?;
    if found.is_empty() && !settings.follow {
        let below = pattern.root();
        return Err(FileError::NoMatch { pattern: pattern.text().to_owned(), below }.into());
    }
    Ok(found)
}

/// Reads the first lines of the input: files in the order of their names until `lines` lines that are not
/// blank have been seen.
///
/// A quoted CSV field with line breaks counts as several lines, and may be cut at the last one. Lines
/// longer than the record limit end the sample of their file.
///
/// # Errors
///
/// As [`crate::source::FileSource::open`] for the pattern; a following source without files has an empty
/// sample.
pub async fn sample(settings: &FileSettings, doors: &Doors, lines: usize) -> Result<Vec<Sample>> {
    let settings = settings.clone();
    let disk = std::sync::Arc::clone(&doors.disk);
    let job = move || -> Result<Vec<Sample>> {
        let found = found(&settings, disk.as_ref())?;
        let mut samples = Vec::new();
        let mut left = lines;
        for path in found.into_keys() {
            if left == 0 {
                break;
            }
            let mut content = Content::open(disk.as_ref(), &settings.base.join(&path), 0)?;
            let (bytes, is_cut) = first_lines(&mut content, &settings, &mut left)?;
            samples.push(Sample { split: SplitId::new(path), bytes, is_cut });
        }
        Ok(samples)
    };
    doors.io.run(job).await?
}

/// Up to `left` lines from the start of `content`, and whether it goes on behind them.
fn first_lines(
    content: &mut Content,
    settings: &FileSettings,
    left: &mut usize,
) -> Result<(Vec<u8>, bool), FileError> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut line_start = 0;
    loop {
        let want = content.expected(settings.chunk_bytes)?;
        let held = bytes.len();
        bytes.resize(held + want, 0);
        let got = match content.read(bytes.split_at_mut(held).1) {
            Err(FileError::CutShort { .. }) if settings.follow => {
                bytes.truncate(line_start);
                return Ok((bytes, true));
            }
            got => got?,
        };
        bytes.truncate(held + got.len);
        let ends: Vec<usize> = bytes
            .iter()
            .enumerate()
            .skip(held)
            .filter_map(|(at, byte)| (*byte == b'\n').then_some(at + 1))
            .collect();
        for end in ends {
            let is_blank = bytes.get(line_start..end).is_none_or(|line| line.trim_ascii().is_empty());
            line_start = end;
            if !is_blank {
                *left -= 1;
            }
            if *left == 0 {
                let is_cut = end < bytes.len() || !got.end;
                bytes.truncate(end);
                return Ok((bytes, is_cut));
            }
        }
        if got.end {
            if settings.follow {
                bytes.truncate(line_start);
            } else if line_start < bytes.len() {
                *left -= 1;
            }
            return Ok((bytes, settings.follow));
        }
        if bytes.len() - line_start > settings.record_limit || bytes.len() > SAMPLE_BYTES_MAX {
            bytes.truncate(line_start);
            return Ok((bytes, true));
        }
    }
}
