//! Which files a pattern matches.
//!
//! A pattern is a path whose parts may hold `*`, `?`, `[...]`, `{a,b}` and `**`. The walk starts at the
//! folder that the pattern spells out and enters only folders that can hold a match. Symbolic links are
//! followed; a folder that is its own ancestor is not entered again, and of a file that is matched by its
//! own name the links are left out, so that `current.log -> 2026.log` is one file. A match is known by its
//! path as text, made from the pattern's own beginning, with `.` parts and doubled slashes left out.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use globset::Glob;
use globset::GlobBuilder;
use globset::GlobMatcher;

use crate::source::file::error::FileError;
use crate::storage::Disk;
use crate::storage::Kind;
use crate::storage::Metadata;

/// A file that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The path as text, as the split is called.
    pub(super) path: String,
    /// Length in bytes, compressed if it is.
    pub(super) len: u64,
    /// Device and inode.
    pub(super) inode: (u64, u64),
}

/// A pattern, taken apart.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    base: PathBuf,
    /// The part before the first special character, in whole names; empty or ends in a slash.
    prefix: String,
    /// What each name below the prefix must match, down to the file's.
    levels: Vec<Level>,
    whole: GlobMatcher,
    hidden: bool,
}

#[derive(Debug)]
enum Level {
    Name(GlobMatcher),
    /// Any folders from here on; only the whole path decides.
    Any,
}

const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '\\'];

impl Pattern {
    /// Takes `pattern` apart; relative ones start at `base`.
    pub(super) fn new(base: &Path, pattern: &str) -> Result<Self, FileError> {
        let wrong = |why: String| FileError::Pattern { pattern: pattern.to_owned(), why };
        let text = tidy(pattern);
        if text.is_empty() || text.ends_with('/') {
            return Err(wrong("it names a folder; add a file name, such as *.ndjson".to_owned()));
        }
        let glob = |text: &str| -> Result<Glob, FileError> {
            GlobBuilder::new(text)
                .literal_separator(true)
                .build()
                .map_err(|error| wrong(error.kind().to_string()))
        };
        let names: Vec<&str> = text.split('/').collect();
        let fixed = names
            .iter()
            .take(names.len() - 1)
            .take_while(|name| !name.contains(SPECIAL))
            .map(|name| name.len() + 1)
            .sum();
        let (prefix, below) = text.split_at(fixed);
        let mut levels = Vec::new();
        let mut nested = 0_usize;
        for name in below.split('/') {
            nested += name.matches(['{', '[']).count();
            nested = nested.saturating_sub(name.matches(['}', ']']).count());
            // A slash inside of braces: this name and those behind it do not stand for one level each.
            if nested > 0 || name.contains("**") {
                levels.push(Level::Any);
                break;
            }
            levels.push(Level::Name(glob(name)?.compile_matcher()));
        }
        let hidden = below.split('/').any(|name| name.starts_with('.'));
        Ok(Self {
            prefix: prefix.to_owned(),
            whole: glob(&text)?.compile_matcher(),
            base: base.to_owned(),
            levels,
            hidden,
            text,
        })
    }

    /// The folder where the walk starts.
    pub(super) fn root(&self) -> PathBuf {
        self.base.join(&self.prefix)
    }

    /// The pattern as text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The matching files by path.
    ///
    /// With `settled`, a link to nothing is an error; without, it is not there (yet).
    pub(super) fn walk(&self, disk: &dyn Disk, settled: bool) -> Result<BTreeMap<String, Found>, FileError> {
        let Some(meta) = look(disk, &self.root())? else { return Ok(BTreeMap::new()) };
        if meta.kind != Kind::Dir {
            return Ok(BTreeMap::new());
        }
        let mut walk = Walk {
            pattern: self,
            disk,
            settled,
            found: BTreeMap::new(),
            links: Vec::new(),
            above: vec![meta.id],
            links_above: 0,
        };
        walk.enter(&self.prefix, &self.levels)?;
        let Walk { mut found, links, .. } = walk;
        let mut seen: BTreeSet<_> = found.values().map(|found| found.inode).collect();
        for link in links {
            if seen.insert(link.inode) {
                found.insert(link.path.clone(), link);
            }
        }
        Ok(found)
    }
}

struct Walk<'a> {
    pattern: &'a Pattern,
    disk: &'a dyn Disk,
    settled: bool,
    found: BTreeMap<String, Found>,
    /// Matches by way of a symbolic link, in the order of their names.
    links: Vec<Found>,
    /// Device and inode of the folders from the root to here.
    above: Vec<(u64, u64)>,
    /// How many of them are links.
    links_above: usize,
}

impl Walk<'_> {
    fn enter(&mut self, folder: &str, levels: &[Level]) -> Result<(), FileError> {
        let at = self.pattern.base.join(folder);
        let entries = match self.disk.list(or_here(&at)) {
            Ok(entries) => entries,
            // The folder was removed since its parent was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(FileError::listing(at, error)),
        };
        for entry in entries {
            let name = Path::new(&entry.name);
            let is_match = self.pattern.whole.is_match(Path::new(folder).join(name));
            let below: Option<&[Level]> = match levels {
                [Level::Any, ..] => Some(levels),
                [Level::Name(matcher), below @ ..] if !below.is_empty() && matcher.is_match(name) => {
                    Some(below)
                }
                _ => None,
            };
            let wanted = is_match || (below.is_some() && entry.kind != Kind::File);
            let Some(name) = entry.name.to_str() else {
                if wanted {
                    return Err(FileError::NotUtf8 { path: at.join(name) });
                }
                continue;
            };
            if wanted && (self.pattern.hidden || !name.starts_with('.')) {
                self.entry(&at.join(name), format!("{folder}{name}"), entry.kind, is_match, below)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        at: &Path,
        path: String,
        kind: Kind,
        is_match: bool,
        below: Option<&[Level]>,
    ) -> Result<(), FileError> {
        let Some(meta) = look(self.disk, at)? else {
            if self.settled && kind == Kind::Other && is_match {
                let source = io::ErrorKind::NotFound.into();
                return Err(FileError::List { path: at.to_owned(), source });
            }
            return Ok(());
        };
        match meta.kind {
            Kind::File if is_match => {
                let found = Found { path, len: meta.len, inode: meta.id };
                if kind == Kind::File && self.links_above == 0 {
                    self.found.insert(found.path.clone(), found);
                } else {
                    self.links.push(found);
                }
            }
            Kind::Dir if !self.above.contains(&meta.id) => {
                if let Some(below) = below {
                    let is_link = usize::from(kind != Kind::Dir);
                    self.above.push(meta.id);
                    self.links_above += is_link;
                    self.enter(&format!("{path}/"), below)?;
                    self.links_above -= is_link;
                    self.above.pop();
                }
            }
            Kind::Other if is_match => return Err(FileError::NotAFile { path: at.to_owned() }),
            Kind::File | Kind::Dir | Kind::Other => {}
        }
        Ok(())
    }
}

/// What is at `path`; `None` for nothing.
pub(super) fn look(disk: &dyn Disk, path: &Path) -> Result<Option<Metadata>, FileError> {
    match disk.metadata(or_here(path)) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(FileError::listing(path.to_owned(), error)),
    }
}

/// The empty path is the current folder, which the system wants spelled out.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// `pattern` without `.` parts and doubled slashes, so that one file has one name.
fn tidy(pattern: &str) -> String {
    let absolute = pattern.starts_with('/');
    let folder = pattern.ends_with('/');
    let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let mut text = names.join("/");
    if absolute {
        text.insert(0, '/');
    }
    if folder && !text.ends_with('/') {
        text.push('/');
    }
    text
}
