//! What is there of a log that may be damaged: its segments in order, and those that should be there.
//!
//! Owns finding them. Does not own reading what is in them (`salvage`) nor changing anything (`repair`).
//! An opening goes by `chain`, which ends at the first thing that is wrong; this goes on, and says at each
//! place what is wrong.
//!
//! # How a segment is found
//!
//! By number and salt, which its successor's header names, or the manifest, or else by its number alone. A
//! header that does not verify is made up for by the frames: each carries salt and position, and verifies
//! with the number in the file's name only if it is a frame of that segment (W1).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use crate::storage::DiskFile;
use crate::storage::Metadata;
use crate::storage::OpenMode;
use crate::storage::Region;
use crate::stream::Lsn;

use super::WalError;
use super::folder::Folder;
use super::folder::Name;
use super::folder::io_error;
use super::frame::ALIGN;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Header;
use super::frame::Life;
use super::frame::u64_at;
use super::health::lock;
use super::manifest::Manifest;
use super::manifest::State;
use super::segment::Chunk;
use super::segment::FORMAT_VERSION;
use super::segment::HeaderFlaw;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::segment::Source;
use super::segment::read_header_bytes;
use super::walk::Walk;

/// A log as far as it can be made out.
#[derive(Debug)]
pub(super) struct Survey {
    /// What the manifest says, if it can be read and is not older than the segments.
    pub(super) state: Option<State>,
    /// Why it is not to be relied on.
    pub(super) manifest_flaw: Option<String>,
    /// The oldest first.
    pub(super) links: Vec<Link>,
    /// Segment files of another log, or of which nothing is known but the name; each with what it is called
    /// in the quarantine.
    pub(super) unknown: Vec<(PathBuf, Life)>,
}

/// A place in the order of segments.
#[derive(Debug)]
pub(super) enum Link {
    /// A segment that is there.
    Here(Piece),
    /// One that should be.
    Missing {
        /// The file that it should be.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A segment that is there.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) segment: Segment,
    /// What would keep an opening from reading it; its frames can be read.
    pub(super) flaw: Option<String>,
    /// The file's length.
    pub(super) bytes: u64,
    /// The header was read, and not made up from the frames.
    pub(super) headed: bool,
    /// What the disk said to a read that failed.
    pub(super) unreadable: Unreadable,
}

/// The last failure of a read, if there was one.
pub(super) type Unreadable = Arc<Mutex<Option<String>>>;

/// A segment file in the folder.
struct Found {
    /// By its name.
    number: u64,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    bytes: u64,
    header: Option<SegmentHeader>,
    unreadable: Unreadable,
}

impl Found {
    /// The number that the segment has, whatever the file is called.
    fn true_number(&self) -> u64 {
        self.header.map_or(self.number, |header| header.life.number)
    }
}

impl Survey {
    /// Looks through `folder`; nothing is changed.
    ///
    /// # Errors
    ///
    /// [`WalError::Io`] when there is no log, or a file cannot be opened; [`WalError::Version`].
    pub(super) fn of(folder: &Folder) -> Result<Self, WalError> {
        let mut found = find(folder)?;
        let (mut state, mut manifest_flaw) = match Manifest::open(folder, OpenMode::Read) {
            Ok(manifest) => (Some(manifest.state), None),
            Err(WalError::Damage { what, .. }) => (None, Some(what)),
            Err(WalError::Io { what: "read", source, .. }) => {
                (None, Some(format!("the manifest cannot be read: {source}")))
            }
            Err(WalError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && !found.is_empty() =>
            {
                (None, Some("the manifest is missing".to_owned()))
            }
            Err(error) => return Err(error),
        };
        let log = state.as_ref().map_or_else(|| most_frequent_log(&found), |state| Some(state.log));
        let mut unknown = Vec::new();
        found.retain(|found| match found.header {
            Some(header) if Some(header.log) != log => {
                unknown.push((found.path.clone(), header.life));
                false
            }
            _ => true,
        });
        if let Some(newer) = state.as_ref().and_then(|state| newer_than(state, &found)) {
            manifest_flaw =
                Some(format!("the manifest is older than segment {newer}, which it does not know"));
            state = None;
        }
        let mut survey = Self { state, manifest_flaw, links: Vec::new(), unknown };
        survey.follow(folder, found);
        Ok(survey)
    }

    /// From the newest segment to the oldest.
    fn follow(&mut self, folder: &Folder, mut found: Vec<Found>) {
        let first = self.state.map(|state| state.first.0);
        let mut wanted = match self.state {
            Some(state) => (state.count > 0).then_some((state.last.0, Some(state.last.1))),
            None => found.iter().map(Found::true_number).max().map(|number| (number, None)),
        };
        while let Some((number, salt)) = wanted {
            let link = self.find(folder, &mut found, number, salt);
            let previous = match &link {
                Link::Here(Piece { segment, headed: true, .. }) => Some(segment.header.previous),
                _ => None,
            };
            self.links.push(link);
            // The one before, as far as it is known; else the next lower one that there is.
            let below = found
                .iter()
                .map(Found::true_number)
                .filter(|below| *below < number && first.is_none_or(|first| *below >= first))
                .max();
            wanted = match previous {
                _ if first == Some(number) => None,
                Some(None) => None,
                // Without a manifest nobody knows whether it was given up.
                Some(Some(previous)) if previous.number < number => {
                    (first.is_some() || below.is_some()).then_some((previous.number, Some(previous.salt)))
                }
                _ => below.map(|below| (below, None)),
            };
        }
        self.links.reverse();
        for found in found.into_iter().filter(|found| found.header.is_none()) {
            self.unknown.push((found.path, Life { number: found.number, salt: 0, base: Lsn(0) }));
        }
    }

    /// The segment `number`, taken out of `found`.
    fn find(&self, folder: &Folder, found: &mut Vec<Found>, number: u64, salt: Option<u64>) -> Link {
        let path = folder.segment(number);
        let is_it = |found: &Found| {
            found.header.is_some_and(|header| {
                header.life.number == number && salt.is_none_or(|salt| header.life.salt == salt)
            })
        };
        if let Some(at) = found.iter().position(is_it) {
            let Found { path, file, bytes, header, number: named, unreadable } = found.swap_remove(at);
            let Some(header) = header else { return missing(path, "the segment is missing") };
            let flaw = match () {
                () if named != number => Some(format!("the file is segment {number} under another name")),
                () if bytes < header.bytes => {
                    Some(format!("the file has {bytes} bytes, its header says {}", header.bytes))
                }
                () => None,
            };
            let segment = Segment { path, header, file, region: None };
            return Link::Here(Piece { segment, flaw, bytes, headed: true, unreadable });
        }
        let Some(at) = found.iter().position(|found| found.number == number) else {
            let foreign = self.unknown.iter().any(|(unknown, _)| *unknown == path);
            let what = if foreign { "a segment of another log" } else { "the segment is missing" };
            return missing(path, what);
        };
        if found.get(at).is_some_and(|found| found.header.is_some()) {
            let what = "the file is not the segment that the log continues with: another one has its name";
            return missing(path, what);
        }
        let Some(life) = found.get(at).and_then(|found| life_of(found, salt)) else {
            let what = "the segment's header does not verify, and no frame in it does";
            return missing(path, what);
        };
        let Found { path, file, bytes, unreadable, .. } = found.swap_remove(at);
        let header = SegmentHeader {
            log: self.state.map_or(0, |state| state.log),
            life,
            sequence: 0,
            bytes,
            group: life.base,
            previous: None,
            zeroed: false,
        };
        let segment = Segment { path, header, file, region: None };
        let flaw = Some("the segment's header does not verify".to_owned());
        Link::Here(Piece { segment, flaw, bytes, headed: false, unreadable })
    }
}

fn missing(path: PathBuf, what: &str) -> Link {
    Link::Missing { path, reason: what.to_owned() }
}

/// The segment files in `folder`.
fn find(folder: &Folder) -> Result<Vec<Found>, WalError> {
    let mut all = Vec::new();
    for name in folder.list()? {
        let Name::Segment(number) = name else { continue };
        let path = folder.segment(number);
        let file = match folder.disk.open(&path, OpenMode::Read) {
            Ok(file) => Patient { file, failed: Unreadable::default() },
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io_error("open", &path, error)),
        };
        let bytes = file.size().map_err(|source| io_error("look at", &path, source))?;
        let start = read_header_bytes(&file).map_err(|source| io_error("read", &path, source))?;
        let header = match SegmentHeader::decode(&start) {
            Ok(header) => Some(header),
            Err(HeaderFlaw::Broken) => None,
            Err(HeaderFlaw::Version(found)) => {
                return Err(WalError::Version { path, found, known: FORMAT_VERSION });
            }
        };
        let unreadable = Arc::clone(&file.failed);
        all.push(Found { number, path, file: Box::new(file), bytes, header, unreadable });
    }
    Ok(all)
}

/// The log that most of the segments belong to; of two, the one with the newer segment.
fn most_frequent_log(found: &[Found]) -> Option<u64> {
    let mut logs = BTreeMap::new();
    for header in found.iter().filter_map(|found| found.header) {
        let (count, newest) = logs.entry(header.log).or_insert((0_u64, 0));
        *count += 1;
        *newest = header.life.number.max(*newest);
    }
    logs.into_iter().max_by_key(|(_, weight)| *weight).map(|(log, _)| log)
}

/// A segment that was part of the log and that the manifest does not know.
fn newer_than(state: &State, found: &[Found]) -> Option<u64> {
    let published = |found: &&Found| {
        let Some(header) = found.header.filter(|header| header.life.number >= state.next) else {
            return false;
        };
        let source = Source { file: &*found.file, path: &found.path, end: found.bytes.min(header.bytes) };
        let behind = Walk::over(source, &header).look_behind(false);
        behind.is_ok_and(|behind| behind.published)
    };
    found.iter().filter(published).map(Found::true_number).max()
}

/// What the frames of a file without a header say about it.
fn life_of(found: &Found, salt: Option<u64>) -> Option<Life> {
    let source = Source { file: &*found.file, path: &found.path, end: found.bytes };
    let mut chunk = Chunk::default();
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Ok(Some(bytes)) = chunk.get(&source, offset, FRAME_HEADER_BYTES) {
        if let Ok(bytes) = <&[u8; FRAME_HEADER_BYTES]>::try_from(bytes) {
            let base = u64_at(bytes, 32).wrapping_sub(offset - SEGMENT_HEADER_BYTES);
            let life = Life { number: found.number, salt: u64_at(bytes, 16), base: Lsn(base) };
            if salt.is_none_or(|salt| salt == life.salt) && Header::decode(&life, offset, bytes).is_ok() {
                return Some(life);
            }
        }
        offset += ALIGN;
    }
    None
}

/// A file that is read around what the disk cannot read: zeros are in its place, which never verify.
#[derive(Debug)]
struct Patient {
    file: Box<dyn DiskFile>,
    failed: Unreadable,
}

/// What is given up at a time when a read fails: a page, of which disks rarely lose less.
const PATIENT_BYTES: usize = 4096;

impl DiskFile for Patient {
    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(offset, buf) {
            Err(failure) => *lock(&self.failed) = Some(failure.to_string()),
            read => return read,
        }
        let mut done = 0;
        for page in buf.chunks_mut(PATIENT_BYTES) {
            match self.file.read_at(offset + done as u64, page) {
                Ok(count) => {
                    done += count;
                    if count < page.len() {
                        break;
                    }
                }
                Err(_) => {
                    page.fill(0);
                    done += page.len();
                }
            }
        }
        Ok(done)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn map(&self, _: u64) -> io::Result<Box<dyn Region>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10,000 bytes of 7, of which the disk cannot read the second page.
    #[derive(Debug)]
    struct Scratched;

    impl DiskFile for Scratched {
        fn metadata(&self) -> io::Result<Metadata> {
            unreachable!("nobody asks")
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let len = (10_000_u64.saturating_sub(offset) as usize).min(buf.len());
            if offset < 8192 && offset + len as u64 > 4096 {
                return Err(io::Error::other("a bad sector"));
            }
            buf[..len].fill(7);
            Ok(len)
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!("nobody writes")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("nobody writes")
        }

        fn reserve(&self, _: u64) -> io::Result<()> {
            unreachable!("nobody writes")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("nobody writes")
        }

        fn map(&self, _: u64) -> io::Result<Box<dyn Region>> {
            unreachable!("nobody writes")
        }
    }

    #[test]
    fn a_page_that_cannot_be_read_is_zeros_and_the_rest_is_there() {
        let file = Patient { file: Box::new(Scratched), failed: Unreadable::default() };
        let mut bytes = vec![1; 20_000];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 10_000);
        assert!(bytes[..4096].iter().all(|byte| *byte == 7));
        assert!(bytes[4096..8192].iter().all(|byte| *byte == 0));
        assert!(bytes[8192..10_000].iter().all(|byte| *byte == 7));
        assert_eq!(lock(&file.failed).as_deref(), Some("a bad sector"));
        let other = Patient { file: Box::new(Scratched), failed: Unreadable::default() };
        assert_eq!(other.read_at(8192, &mut bytes).unwrap(), 1808);
        assert_eq!(*lock(&other.failed), None);
    }
}
