//! The segments of a log, found by the manifest and by the predecessor that each header names.

use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::WalError;
use super::folder::Folder;
use super::folder::io_error;
use super::manifest::Manifest;
use super::manifest::State;
use super::segment::FORMAT_VERSION;
use super::segment::HeaderFlaw;
use super::segment::SEGMENT_HEADER_BYTES;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::segment::capacity;
use super::segment::read_header_bytes;

/// A log as its files say it is.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) manifest: Manifest,
    /// The oldest first.
    pub(super) segments: Vec<Segment>,
}

/// Opens the manifest in `mode` and the segments to read.
pub(super) fn load(folder: &Folder, mode: OpenMode) -> Result<Chain, WalError> {
    let manifest = Manifest::open(folder, mode)?;
    let segments = follow(folder, &manifest.state)?;
    Ok(Chain { manifest, segments })
}

/// From the newest segment to the oldest.
fn follow(folder: &Folder, state: &State) -> Result<Vec<Segment>, WalError> {
    let mut segments = Vec::new();
    let mut wanted = (state.count > 0).then_some(state.last);
    let mut to = Lsn(u64::MAX);
    while let Some((number, salt)) = wanted {
        let below = to;
        let segment = open_segment(folder, state, number, below)?;
        let wrong = |what: &str| {
            Err(WalError::Damage {
                path: segment.path.clone(),
                offset: 0,
                at: segment.base(),
                to: below,
                what: what.to_owned(),
            })
        };
        if segment.life().salt != salt {
            return wrong(
                "the file is not the segment that the log continues with: another one has its name",
            );
        }
        if segment.base() > below || segment.base() < state.start {
            return wrong("the segment's positions do not fit those of the log");
        }
        to = segment.base();
        wanted = if (number, salt) == state.first {
            if segment.base() != state.start {
                return wrong("the oldest segment does not begin where the log starts");
            }
            None
        } else {
            let previous = segment.header.previous.map(|previous| (previous.number, previous.salt));
            // Numbers grow, so that this ends.
            if previous.is_none_or(|(previous, _)| previous >= number) {
                return wrong("the segment names no predecessor, and is not the oldest one");
            }
            previous
        };
        segments.push(segment);
        if segments.len() as u64 > state.count {
            break;
        }
    }
    if segments.len() as u64 != state.count {
        return Err(WalError::Damage {
            path: folder.manifest(),
            offset: 0,
            at: state.start,
            to: state.end,
            what: format!(
                "the manifest counts {} segments, there are {} or more",
                state.count,
                segments.len()
            ),
        });
    }
    segments.reverse();
    Ok(segments)
}

fn open_segment(folder: &Folder, state: &State, number: u64, to: Lsn) -> Result<Segment, WalError> {
    let path = folder.segment(number);
    let wrong = |what: String| {
        // A log that went on behind what the manifest knows of.
        let to = if to > state.end { Lsn(u64::MAX) } else { to };
        Err(WalError::Damage { path: path.clone(), offset: 0, at: state.start, to, what })
    };
    let file = match folder.disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return wrong("the segment is missing".to_owned());
        }
        Err(error) => return Err(io_error("open", &path, error)),
    };
    let bytes = read_header_bytes(&*file).map_err(|source| io_error("read", &path, source))?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        Err(HeaderFlaw::Broken) => return wrong("the segment's header does not verify".to_owned()),
        Err(HeaderFlaw::Version(found)) => {
            return Err(WalError::Version { path: path.clone(), found, known: FORMAT_VERSION });
        }
    };
    if header.log != state.log {
        return wrong("a segment of another log".to_owned());
    }
    if header.life.number != number {
        return wrong(format!("the file is segment {} under another name", header.life.number));
    }
    let size = file.size().map_err(|source| io_error("look at", &path, source))?;
    if size < header.bytes || capacity(header.bytes) == 0 {
        let at = header.life.lsn(size.max(SEGMENT_HEADER_BYTES)).min(to);
        let what = format!("the file has {size} bytes, its header says {}", header.bytes);
        return Err(WalError::Damage { path, offset: size, at, to, what });
    }
    Ok(Segment { path: path.clone(), header, file, region: None })
}
