//! Which file is which split: after a restart, and at each look when following.
//!
//! A split's file is the one at its path, if its bytes before the position are the remembered ones (D8).
//! If another file is there or none, the split's file may have been renamed (log rotation), perhaps
//! compressed as well: it is looked for among the matches of the pattern and the files of its old folder
//! whose names start alike. Within a process, device and inode settle most of this without a read.
//!
//! What is not found is a loss unless the split had been read to its end, or its file is still open.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::source::file::content::Content;
use crate::source::file::content::is_compressed;
use crate::source::file::error::FileError;
use crate::source::file::mark::Mark;
use crate::source::file::mark::SAMPLE;
use crate::source::file::record::SplitRecord;
use crate::source::file::walk::Found;
use crate::source::file::walk::look;
use crate::storage::Disk;
use crate::storage::Kind;

/// A split whose file is to be found.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Its number in the source.
    pub(super) number: usize,
    /// What is remembered of it, its mark at the end of the records that were read.
    pub(super) record: SplitRecord,
    /// Bytes of the file that were read, also of a record that goes on.
    pub(super) read_to: u64,
    /// Device and inode, if this process has seen it.
    pub(super) inode: Option<(u64, u64)>,
    /// This process has it open, and can read it to its end under no name at all.
    pub(super) is_open: bool,
}

/// Where a split's file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Here, at its old path or at another.
    Here(Found),
    /// Removed, or moved out of sight, but open.
    Nameless,
    /// Removed after it was read to its end.
    Gone,
}

/// The answer.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// A place for each known split, by number.
    pub(super) places: Vec<(usize, Place)>,
    /// Files that no split claims, by path.
    pub(super) new: Vec<Found>,
}

/// Finds the files of `known` and what is new among `found`. Blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`] for a file that shrank, was replaced, or vanished unfinished.
pub(super) fn resolve(
    disk: &dyn Disk,
    base: &Path,
    mut known: Vec<Known>,
    found: BTreeMap<String, Found>,
) -> Result<Resolution, FileError> {
    let mut search = Search { disk, base, found, claimed: BTreeSet::new(), siblings: BTreeMap::new() };
    let mut resolution = Resolution::default();
    let mut lost = Vec::new();
    // A name that was given up goes to the one who has it now.
    known.sort_by_key(|split| (split.record.gone, split.number));
    for split in known {
        match search.at_own_path(&split)? {
            AtPath::Same(found) => {
                search.claimed.insert(found.path.clone());
                resolution.places.push((split.number, Place::Here(found)));
            }
            AtPath::Absent => lost.push((split, None)),
            AtPath::Other(found) => lost.push((split, Some(found))),
        }
    }
    // First those that can be told by inode, so that no look-alike is taken for them.
    let mut unknown = Vec::new();
    for (split, other) in lost {
        let renamed = match split.inode {
            Some(inode) if !split.record.gone => {
                search.renamed(&split, |_, found| Ok(inode == found.inode))?
            }
            _ => None,
        };
        match renamed {
            Some(found) => resolution.places.push((split.number, Place::Here(found))),
            None => unknown.push((split, other)),
        }
    }
    let mut missing = Vec::new();
    for (split, other) in unknown {
        let copied = match &other {
            // The same bytes in a new file at the same path: an editor's way to save, a restored copy.
            Some(found) if search.may_have_name(&split) && search.holds(&split, found)? => {
                Some(found.clone())
            }
            _ if split.is_open || split.record.mark.position == 0 || split.record.gone => None,
            _ => search.renamed(&split, |search, found| search.holds(&split, found))?,
        };
        match copied {
            Some(found) => {
                search.claimed.insert(found.path.clone());
                resolution.places.push((split.number, Place::Here(found)));
            }
            None => missing.push((split, other)),
        }
    }
    for (split, other) in missing {
        let place = search.missing(&split, other)?;
        resolution.places.push((split.number, place));
    }
    let claimed = search.claimed;
    resolution.new = search.found.into_values().filter(|found| !claimed.contains(&found.path)).collect();
    Ok(resolution)
}

enum AtPath {
    Same(Found),
    Other(Found),
    Absent,
}

struct Search<'a> {
    disk: &'a dyn Disk,
    base: &'a Path,
    /// What matches the pattern.
    found: BTreeMap<String, Found>,
    /// Paths that are some split's.
    claimed: BTreeSet<String>,
    /// Files beside a split's old path, by that path.
    siblings: BTreeMap<String, Vec<Found>>,
}

impl Search<'_> {
    fn at_own_path(&self, split: &Known) -> Result<AtPath, FileError> {
        let record = &split.record;
        // There may be many that are gone; they are not looked for beyond the pattern.
        let found = match record.gone {
            true => self.found.get(&record.path).cloned(),
            false => self.at(&record.path)?,
        };
        let Some(found) = found else { return Ok(AtPath::Absent) };
        if self.claimed.contains(&found.path) {
            return Ok(AtPath::Other(found));
        }
        if let Some(inode) = split.inode {
            return Ok(if inode != found.inode {
                AtPath::Other(found)
            } else if is_compressed(&found.path) || found.len >= split.read_to {
                AtPath::Same(found)
            } else {
                return Err(self.shrank(split, found.len));
            });
        }
        Ok(if self.holds(split, &found)? { AtPath::Same(found) } else { AtPath::Other(found) })
    }

    /// Whether another file at the split's path may be the split's, if its bytes say so.
    fn may_have_name(&self, split: &Known) -> bool {
        let is_untold = split.is_open && split.record.mark.position == 0;
        !(is_untold || split.record.gone || self.claimed.contains(&split.record.path))
    }

    /// What lies at `path`, also where the pattern does not reach.
    fn at(&self, path: &str) -> Result<Option<Found>, FileError> {
        if let Some(found) = self.found.get(path) {
            return Ok(Some(found.clone()));
        }
        let meta = look(self.disk, &self.base.join(path))?.filter(|meta| meta.kind == Kind::File);
        Ok(meta.map(|meta| Found { path: path.to_owned(), len: meta.len, inode: meta.id }))
    }

    /// The first unclaimed file that `is_it`, which is claimed then: a match of the pattern, or a file
    /// beside the old path whose name starts alike.
    fn renamed(
        &mut self,
        split: &Known,
        is_it: impl Fn(&Self, &Found) -> Result<bool, FileError>,
    ) -> Result<Option<Found>, FileError> {
        let path = &split.record.path;
        if !self.siblings.contains_key(path) {
            let beside = self.beside(path)?;
            self.siblings.insert(path.clone(), beside);
        }
        let siblings = self.siblings.get(path).into_iter().flatten();
        for found in siblings.chain(self.found.values()) {
            if found.path != *path && !self.claimed.contains(&found.path) && is_it(self, found)? {
                let found = found.clone();
                self.claimed.insert(found.path.clone());
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The files in the folder of `path` whose names start like its name up to the first dot.
    fn beside(&self, path: &str) -> Result<Vec<Found>, FileError> {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        let folder = if path.contains('/') { format!("{folder}/") } else { String::new() };
        let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name);
        let at = if folder.is_empty() && self.base.as_os_str().is_empty() {
            Path::new(".").to_owned()
        } else {
            self.base.join(&folder)
        };
        let entries = match self.disk.list(&at) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FileError::listing(at, error)),
        };
        let mut beside = Vec::new();
        for entry in entries {
            if let Some(name) = entry.name.to_str().filter(|name| name.starts_with(stem)) {
                beside.extend(self.at(&format!("{folder}{name}"))?);
            }
        }
        Ok(beside)
    }

    /// Whether `found` has the bytes before the split's position.
    fn holds(&self, split: &Known, found: &Found) -> Result<bool, FileError> {
        let mark = &split.record.mark;
        if mark.position == 0 {
            return Ok(true);
        }
        let compressed = is_compressed(&found.path);
        if !compressed && found.len < mark.position {
            return Ok(false);
        }
        let at = self.base.join(&found.path);
        // A compressed file of the remembered name and length: only its start is read here, the rest is
        // proved when it is read again on the way to the position.
        let by_start = compressed && found.path == split.record.path;
        let checked = if by_start { self.starts_with(&at, mark) } else { self.all_of(&at, mark) };
        match checked {
            Ok(holds) => Ok(holds),
            Err(FileError::Replaced { .. } | FileError::Shrank { .. } | FileError::Vanished { .. }) => {
                Ok(false)
            }
            // Not even a file of ours, or one that is being compressed right now.
            Err(FileError::Corrupt { .. } | FileError::CutShort { .. })
                if found.path != split.record.path =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn all_of(&self, at: &Path, mark: &Mark) -> Result<bool, FileError> {
        Content::open(self.disk, at, mark.position)?.go_to(mark).map(|_| true)
    }

    fn starts_with(&self, at: &Path, mark: &Mark) -> Result<bool, FileError> {
        let mut head = [0; SAMPLE];
        let (sample, _) = head.split_at_mut(mark.sample_len());
        let got = Content::open(self.disk, at, mark.position)?.read(sample)?;
        Ok(got.len == sample.len() && crc32fast::hash(sample) == mark.head)
    }

    /// The verdict on a split whose file was not found; `other` is what lies at its path instead.
    fn missing(&self, split: &Known, other: Option<Found>) -> Result<Place, FileError> {
        let record = &split.record;
        let path = self.base.join(&record.path);
        let position = record.mark.position;
        if split.is_open {
            return Ok(Place::Nameless);
        }
        // Nothing of it was ever handed on, or the name was free for another file already.
        if record.gone || position == 0 {
            return Ok(Place::Gone);
        }
        match other {
            // This process saw its end a moment ago, or its name went to a younger split's file.
            Some(_) if record.ended && (split.inode.is_some() || self.claimed.contains(&record.path)) => {
                Ok(Place::Gone)
            }
            None if record.ended => Ok(Place::Gone),
            None => Err(FileError::Vanished { path, position }),
            Some(_) if self.claimed.contains(&record.path) => Err(FileError::Vanished { path, position }),
            Some(found) if !is_compressed(&found.path) && found.len < position => {
                Err(self.shrank(split, found.len))
            }
            Some(_) => Err(FileError::Replaced { path, position }),
        }
    }

    fn shrank(&self, split: &Known, found: u64) -> FileError {
        let path = self.base.join(&split.record.path);
        FileError::Shrank { path, position: split.read_to, found }
    }
}
