//! An operator's repair: a log that is in use by nobody is cut behind a position.
//!
//! # Order, and what a crash between two steps leaves
//!
//! 1. The lock; read and decide. Nothing is changed until [`Truncation::carry_out`].
//! 2. Of the segment in which the cut begins, everything behind it is copied to the quarantine. A crash: the
//!    same log, and a copy that the next attempt finds.
//! 3. Segment files of which an opening could not tell that they were cut off (no header that verifies, another
//!    log's) are moved to the quarantine. A crash: the log is as damaged as before.
//! 4. A new segment with a salt of its own begins at the cut, as at an opening (`open`, steps 5 and 6): bytes
//!    behind the cut can never verify again. The manifest names it: from here on the log ends there. A
//!    crash: the next opening, or the next attempt, does step 5.
//! 5. Segments that lie behind the cut are moved to the quarantine (W7).

use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::doors::Doors;
use crate::storage::DiskLock;
use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::Cut;
use super::Gap;
use super::Salvage;
use super::Salvaged;
use super::WalError;
use super::WalSettings;
use super::folder::Folder;
use super::folder::Name;
use super::folder::io_error;
use super::frame;
use super::frame::Life;
use super::frame::Tally;
use super::judge;
use super::manifest::Manifest;
use super::manifest::State;
use super::open;
use super::open::Plan;
use super::quarantine;
use super::segment::FORMAT_VERSION;
use super::segment::HeaderFlaw;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::segment::read_header_bytes;
use super::spares::Spares;
use super::survey::Link;
use super::survey::Piece;
use super::survey::Survey;
use super::walk::Point;
use super::walk::Walk;

/// What a truncation takes out of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loss {
    /// Whole entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first of them.
    pub first: Option<Lsn>,
    /// The last of them.
    pub last: Option<Lsn>,
    /// Damage that goes with them.
    pub gaps: Vec<Gap>,
}

/// A truncation that is decided and not done; the log stays locked.
#[derive(Debug)]
pub struct Truncation {
    folder: Folder,
    doors: Doors,
    state: State,
    end: Lsn,
    loss: Loss,
    /// `None` when the log ends there already.
    cut: Option<Decided>,
    _held: Box<dyn DiskLock>,
}

/// The cut itself.
#[derive(Debug)]
struct Decided {
    plan: Plan,
    /// The segments that can be read, the oldest first.
    segments: Vec<Segment>,
    /// Files that are moved away before.
    unknown: Vec<(PathBuf, Life)>,
    settings: WalSettings,
}

/// Decides how the log in the folder `dir` is cut behind `lsn`: every append that reaches beyond is to go, so
/// that the log ends at or below. Changes nothing yet.
///
/// The log may be damaged at or above `lsn`, in whatever way; what is below has to be whole. It blocks.
///
/// # Errors
///
/// [`WalError::Locked`] while the log is open. [`WalError::OutOfRange`] when the log starts behind `lsn`.
/// [`WalError::Damage`] when there is damage below `lsn`, or in the manifest. [`WalError::Io`] when there is no log;
/// [`WalError::Version`].
pub fn truncate_after(dir: &Path, lsn: Lsn, doors: &Doors) -> Result<Truncation, WalError> {
    let folder = Folder::new(dir, doors);
    // Not to make a lock where there is no log.
    folder.list()?;
    let lock_path = folder.lock();
    let held = folder
        .disk
        .lock(&lock_path)
        .map_err(|source| io_error("lock", &lock_path, source))?
        .ok_or_else(|| WalError::Locked { dir: dir.to_owned() })?;
    let survey = Survey::of(&folder)?;
    let Some(state) = survey.state else {
        let what = survey.manifest_flaw.unwrap_or_default();
        let (at, to) = (Lsn(0), Lsn(u64::MAX));
        return Err(WalError::Damage { path: folder.manifest(), offset: 0, at, to, what });
    };
    if lsn < state.start {
        return Err(WalError::OutOfRange { at: lsn, start: state.start, end: state.end });
    }
    let kept = keep(&survey, &state, lsn)?;
    let sound = match open::check(&folder) {
        Err(damage) if kept.verified < lsn => return Err(kept.stopped.unwrap_or(damage)),
        checked => checked.is_ok(),
    };
    let end = kept.point.at;
    let loss = loss(&folder, end)?;
    let nothing = sound && kept.is_end;
    let cut = if nothing { None } else { Some(decide(survey, &state, kept)?) };
    Ok(Truncation { folder, doors: doors.clone(), state, end, loss, cut, _held: held })
}

impl Truncation {
    /// Where the log will end: the end of the last append that lies wholly below the position asked for.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Where the log starts.
    pub fn start(&self) -> Lsn {
        self.state.start
    }

    /// What will be gone.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// Whether the log ends there already: [`Truncation::carry_out`] only makes sure that it stays so.
    pub fn is_done(&self) -> bool {
        self.cut.is_none()
    }

    /// Cuts the log; durable when it returns. The answer is the folder with the copies of what was cut, or
    /// `None` when nothing was.
    ///
    /// # Errors
    ///
    /// [`WalError::NoSpace`] when the copies, or the new segment, do not fit. [`WalError::Io`]. Another attempt does the
    /// rest.
    pub fn carry_out(self) -> Result<Option<PathBuf>, WalError> {
        let folder = &self.folder;
        folder.sync()?;
        let Some(Decided { mut plan, mut segments, unknown, settings }) = self.cut else {
            // An attempt that was interrupted may have left its last step in the page cache alone (P5).
            Manifest::open(folder, OpenMode::ReadWrite)?.settle(folder)?;
            return Ok(None);
        };
        if let Some(cut) = &mut plan.cut
            && let Some(segment) = segments.iter().find(|segment| segment.path == cut.segment)
            && segment.base() < self.end
        {
            let end = written_end(segment, cut.offset)?;
            match quarantine::copy(folder, segment, cut.offset, end)? {
                Some(copy) => cut.quarantine = Some(copy),
                None => {
                    let source = io::Error::from(io::ErrorKind::StorageFull);
                    let bytes = end.saturating_sub(cut.offset);
                    return Err(WalError::NoSpace { path: folder.quarantine(), bytes, source });
                }
            }
        }
        for (path, life) in &unknown {
            put_away(folder, path, life)?;
        }
        for (path, life) in strays(folder, &segments)? {
            // Copies that were never part of the log (W6), under the name that comes next.
            if path >= folder.segment(self.state.next) {
                put_away(folder, &path, &life)?;
            }
        }
        let mut manifest = Manifest::open(folder, OpenMode::ReadWrite)?;
        manifest.settle(folder)?;
        let spares = spares(folder, settings.segment_bytes)?;
        let (point, _) =
            open::begin_segment(folder, &settings, &self.doors, &mut manifest, &mut segments, &spares, plan)?;
        if let Some(active) = segments.last() {
            // D22, as at an opening.
            let mark = frame::mark(active.life(), point.at, point.at, point.sequence);
            active
                .write(active.life().offset(point.at), &mark)
                .and_then(|()| active.file.sync())
                .map_err(|source| io_error("write", &active.path, source))?;
        }
        for (path, life) in strays(folder, &segments)? {
            put_away(folder, &path, &life)?;
        }
        spares.close();
        Ok(Some(folder.quarantine()))
    }
}

/// Behind the last byte of `segment`, from `offset` on, that is not zero.
fn written_end(segment: &Segment, offset: u64) -> Result<u64, WalError> {
    let failed = |source| io_error("read", &segment.path, source);
    let mut bytes = vec![0; 64 << 10];
    let (mut at, mut end) = (offset, offset);
    loop {
        let count = segment.file.read_at(at, &mut bytes).map_err(failed)?;
        let read = bytes.get(..count).unwrap_or_default();
        if let Some(last) = read.iter().rposition(|byte| *byte != 0) {
            end = at + last as u64 + 1;
        }
        if count < bytes.len() {
            return Ok(end);
        }
        at += count as u64;
    }
}

/// Moves a file to the quarantine; unlike an opening it insists.
fn put_away(folder: &Folder, path: &Path, life: &Life) -> Result<(), WalError> {
    match quarantine::take_in(folder, path, life)? {
        Some(_) => Ok(()),
        None => {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            Err(WalError::NoSpace { path: folder.quarantine(), bytes: 0, source })
        }
    }
}

/// The part of a log that is kept.
struct Kept {
    /// Where it ends.
    point: Point,
    /// Everything up to here was verified, and lies at or below the cut.
    verified: Lsn,
    /// So many segments hold some of it.
    count: usize,
    /// The last of these is shorter than it has to be, and cannot stay.
    short: bool,
    /// Nothing is behind it.
    is_end: bool,
    /// What is wrong where the verification ended; at the end of the log it is nothing.
    stopped: Option<WalError>,
}

/// Verifies the log from its start up to `lsn`.
fn keep(survey: &Survey, state: &State, lsn: Lsn) -> Result<Kept, WalError> {
    let sequence = match survey.links.first() {
        Some(Link::Here(first)) if first.headed => first.segment.header.sequence,
        _ => state.frames,
    };
    let start = Point { at: state.start, sequence, tally: Tally::default(), open: None };
    let mut kept =
        Kept { point: start, verified: start.at, count: 0, short: false, is_end: true, stopped: None };
    let mut before: Option<&Piece> = None;
    let mut reached = start;
    for (index, link) in survey.links.iter().enumerate() {
        let here = match link {
            Link::Here(piece) if piece.headed && fits(piece, before, &reached, state) => piece,
            link => {
                kept.is_end = false;
                kept.stopped = Some(misfit(link, reached.at));
                return Ok(kept);
            }
        };
        let next = match survey.links.get(index + 1) {
            Some(Link::Here(next)) => Some(next.segment.base()),
            _ => None,
        };
        let mut walk = Walk::new(&here.segment, next);
        // An append that began in the segment before goes on here.
        let mut point = Point { tally: Tally::default(), ..reached };
        while next.is_none_or(|next| point.at < next) {
            if let Err(flaw) = walk.step()? {
                let to = next.unwrap_or(Lsn(u64::MAX));
                kept.stopped = Some(judge::damage(&here.segment, point.at, to, flaw.to_string()));
                break;
            }
            point = walk.point();
            if point.at > lsn {
                kept.is_end = false;
                kept.verified = lsn;
                return Ok(kept);
            }
            kept.verified = point.at;
            if point.open.is_none() {
                kept.point = point;
                kept.count = index + 1;
                kept.short = here.bytes < here.segment.header.bytes;
            }
        }
        if next.is_some_and(|next| point.at < next) {
            kept.is_end = false;
            return Ok(kept);
        }
        reached = point;
        if here.bytes < here.segment.header.bytes {
            kept.is_end &= index + 1 == survey.links.len();
            return Ok(kept);
        }
        before = Some(here);
    }
    kept.is_end &= reached.open.is_none();
    Ok(kept)
}

/// The error for a segment that cannot follow at `at`.
fn misfit(link: &Link, at: Lsn) -> WalError {
    let (path, what) = match link {
        Link::Missing { path, reason } => (path.clone(), reason.clone()),
        Link::Here(Piece { segment, flaw, .. }) => {
            let other = || "the segment does not go on where the one before ends".to_owned();
            (segment.path.clone(), flaw.clone().unwrap_or_else(other))
        }
    };
    WalError::Damage { path, offset: 0, at, to: Lsn(u64::MAX), what }
}

/// Whether `piece` is the segment that follows on `before`, whose frames end at `reached`.
fn fits(piece: &Piece, before: Option<&Piece>, reached: &Point, state: &State) -> bool {
    let header = &piece.segment.header;
    let named = piece.flaw.is_none() || piece.bytes < header.bytes;
    let follows = match (before, header.previous) {
        (Some(before), Some(previous)) => {
            let life = before.segment.life();
            (previous.number, previous.salt) == (life.number, life.salt)
                && previous.tally == reached.tally
                && header.sequence == reached.sequence
                && header.group == reached.group()
        }
        (Some(_), None) => false,
        (None, _) => (header.life.number, header.life.salt) == state.first,
    };
    named && follows && header.life.base == reached.at
}

/// What lies behind `end`.
fn loss(folder: &Folder, end: Lsn) -> Result<Loss, WalError> {
    let mut loss = Loss::default();
    for found in Salvage::of(folder.clone())? {
        match found {
            Salvaged::Entry { at, entry } if at >= end => {
                loss.entries += 1;
                loss.bytes += entry.len() as u64;
                loss.first = loss.first.or(Some(at));
                loss.last = Some(at);
            }
            Salvaged::Entry { .. } => {}
            Salvaged::Gap(gap) => loss.gaps.push(gap),
        }
    }
    Ok(loss)
}

/// The plan that makes `kept` the whole log.
fn decide(survey: Survey, state: &State, kept: Kept) -> Result<Decided, WalError> {
    let Kept { point, count, short, .. } = kept;
    let end = point.at;
    let (mut segments, mut unknown) = (Vec::new(), survey.unknown);
    let links = survey.links.len();
    for link in survey.links {
        match link {
            Link::Here(Piece { mut segment, headed: true, flaw, bytes, .. })
                if flaw.is_none() || bytes < segment.header.bytes =>
            {
                // What a short file holds fits in one of its length, whatever its header says.
                segment.header.bytes = segment.header.bytes.min(bytes.next_multiple_of(4096));
                segments.push(segment);
            }
            // By another name than its own, or without a header.
            Link::Here(Piece { segment, .. }) => {
                let life = *segment.life();
                unknown.push((segment.path, life));
            }
            Link::Missing { .. } => {}
        }
    }
    let last = count.checked_sub(1).and_then(|last| segments.get(last));
    let mut plan = Plan {
        from: point,
        end,
        source: count.checked_sub(1),
        keep: count,
        clean: false,
        cut: None,
        cut_end: 0,
        reuse: false,
    };
    if let Some(last) = last {
        let mut from = end;
        if count == links {
            // The newest segment: what was not acknowledged may be in the page cache alone (S4).
            let tail = judge::look(last)?;
            from = tail.acked.max(tail.behind.acked).max(state.end).min(end);
        }
        if short || from < last.base() {
            from = last.base();
        }
        if from <= last.base() {
            let header = &last.header;
            let open = (header.group != from).then_some(header.group);
            let before = header.previous.map(|previous| previous.tally).unwrap_or_default();
            plan.keep = count - 1;
            plan.from = Point { at: from, sequence: header.sequence, tally: before, open };
        } else if from < end {
            plan.from = judge::point_at(last, from)?;
        }
    }
    // The segment in which the first byte behind the cut is: the last one that stays, or the first that goes.
    let cut_in = last.filter(|last| last.life().offset(end) < last.header.bytes);
    plan.cut = cut_in.or_else(|| segments.get(count)).map(|segment| Cut {
        segment: segment.path.clone(),
        offset: if segment.base() > end { 0 } else { segment.life().offset(end) },
        bytes: 0,
        last_good: end,
        quarantine: None,
    });
    // The log goes on with segments of the length that it has.
    let bytes = |segment: &Segment| segment.header.bytes;
    let mut settings = WalSettings::default();
    if let Some(bytes) = segments.iter().map(bytes).max() {
        let found = WalSettings { segment_bytes: bytes, ..settings.clone() };
        settings = if found.validate().is_ok() { found } else { settings };
    }
    Ok(Decided { plan, segments, unknown, settings })
}

/// The spares in `folder`; what was being made, and second names of segments, are removed.
fn spares(folder: &Folder, bytes: u64) -> Result<Spares, WalError> {
    let names = folder.list()?;
    let mut seen = Vec::new();
    let id = |path: &Path| match folder.disk.metadata(path) {
        Ok(found) => Ok(found.id),
        Err(source) => Err(io_error("look at", path, source)),
    };
    for name in &names {
        if let Name::Segment(number) = name {
            seen.push(id(&folder.segment(*number))?);
        }
    }
    let mut found = Vec::new();
    for name in &names {
        match name {
            Name::ManifestNew => folder.remove(&folder.manifest_new())?,
            Name::Making(number) => folder.remove(&folder.making(*number))?,
            Name::Spare(number) => {
                let path = folder.spare(*number);
                if seen.contains(&id(&path)?) {
                    folder.remove(&path)?;
                } else {
                    found.push(*number);
                }
            }
            Name::Segment(_) | Name::Manifest | Name::Other => {}
        }
    }
    Spares::open(folder, bytes, &found)
}

/// Segment files that are not among `segments`.
fn strays(folder: &Folder, segments: &[Segment]) -> Result<Vec<(PathBuf, Life)>, WalError> {
    let mut strays = Vec::new();
    for name in folder.list()? {
        let Name::Segment(number) = name else { continue };
        let path = folder.segment(number);
        if segments.iter().any(|segment| segment.path == path) {
            continue;
        }
        let file =
            folder.disk.open(&path, OpenMode::Read).map_err(|source| io_error("open", &path, source))?;
        let bytes = read_header_bytes(&*file).map_err(|source| io_error("read", &path, source))?;
        let life = match SegmentHeader::decode(&bytes) {
            Ok(header) => header.life,
            Err(HeaderFlaw::Broken) => Life { number, salt: 0, base: Lsn(0) },
            Err(HeaderFlaw::Version(found)) => {
                return Err(WalError::Version { path, found, known: FORMAT_VERSION });
            }
        };
        strays.push((path, life));
    }
    Ok(strays)
}
