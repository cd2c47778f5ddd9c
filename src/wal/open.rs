//! Opening a log to write: judge everything first, then change what has to be changed, durably (P5).
//!
//! # Order, and what a crash between two steps leaves
//!
//! 1. The lock; the folder's and its parent's entries are synced: what is seen now stays.
//! 2. Read and judge (`chain`, `judge`). Damage ends here: nothing was changed.
//! 3. The manifest's slot is written again ([`Manifest::settle`]), files that no manifest names become spares
//!    or go to the quarantine. A crash: the next opening sees the same log.
//! 4. A copy of what is cut goes to the quarantine, when there is room: the bytes also stay where they are.
//! 5. A spare becomes the new segment (D21). What was appended but not acknowledged is copied to it: the
//!    page cache may show bytes that a failed sync has lost (S4). Of a newest segment with little in it
//!    everything is copied: a job that runs often and briefly, or fails again and again, must not leave a
//!    segment each time. Synced, renamed, the folder synced. A crash: a segment that no manifest names, with
//!    nothing but copies in it: a spare (W6).
//! 6. The manifest names it: from here on the log is the new one.
//! 7. Segments of which nothing is left become spares or go to the quarantine (W7). A crash: step 3 of the
//!    next opening.
//!
//! When nothing was appended to the newest segment since it was made, steps 4 to 7 are left out and the log
//! goes on in it: nothing is behind its end that could ever verify. So any number of openings in a row take
//! one spare, and on a full disk appends are refused that would leave none (`spares`).

use std::path::PathBuf;

use crate::doors::Doors;
use crate::storage::DiskLock;
use crate::storage::OpenMode;
use crate::stream::Lsn;

use super::WalError;
use super::WalSettings;
use super::chain;
use super::chain::Chain;
use super::folder::Folder;
use super::folder::Name;
use super::folder::io_error;
use super::frame;
use super::frame::FRAME_HEADER_BYTES;
use super::frame::Life;
use super::frame::RECOVERED;
use super::frame::Tally;
use super::frame::aligned;
use super::judge;
use super::judge::Tail;
use super::judge::Verdict;
use super::manifest::Manifest;
use super::manifest::State;
use super::quarantine;
use super::segment::Previous;
use super::segment::Segment;
use super::segment::SegmentHeader;
use super::spares;
use super::spares::Blank;
use super::spares::Spares;
use super::stray;
use super::walk::Point;
use super::walk::Walk;

/// A newest segment is copied whole when at most this share of it, one fourth, is in use: the openings of short
/// runs then share segments, and each copies 16 MiB at most.
const COPIED_SHARE: u64 = 4;

/// What an opening found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Where the log goes on; everything below is durable.
    pub end: Lsn,
    /// What was cut off behind the last whole append: it was never acknowledged.
    pub cut: Option<Cut>,
    /// The log was closed before, or is new.
    pub clean: bool,
    /// The log holds nothing and never did.
    pub fresh: bool,
}

/// A torn tail that an opening cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment in which it begins.
    pub segment: PathBuf,
    /// Where in that file.
    pub offset: u64,
    /// How many bytes seem to have been written there.
    pub bytes: u64,
    /// Everything below is kept.
    pub last_good: Lsn,
    /// Where the cut bytes are kept for a person to look at; none when the disk is full, and then they are
    /// still in `segment`.
    pub quarantine: Option<PathBuf>,
}

/// A log that is open and may be appended to.
pub(super) struct Recovered {
    pub(super) lock: Box<dyn DiskLock>,
    pub(super) manifest: Manifest,
    /// The oldest first; the last one is the new one.
    pub(super) segments: Vec<Segment>,
    /// Where the new segment goes on.
    pub(super) point: Point,
    pub(super) spares: Spares,
    pub(super) opened: Opened,
}

/// What is to be done, decided before anything is changed.
#[derive(Debug)]
pub(super) struct Plan {
    /// Where the new segment begins.
    pub(super) from: Point,
    /// Where the log goes on: what is between is copied.
    pub(super) end: Lsn,
    /// The segment that is copied from; what is cut may lie in later ones.
    pub(super) source: Option<usize>,
    /// So many segments stay.
    pub(super) keep: usize,
    pub(super) clean: bool,
    pub(super) cut: Option<Cut>,
    /// Where the cut ends in the newest segment.
    pub(super) cut_end: u64,
    /// The log goes on in the newest segment.
    pub(super) reuse: bool,
}

/// Opens the log in `folder`, or makes it.
pub(super) fn open(folder: &Folder, settings: &WalSettings, doors: &Doors) -> Result<Recovered, WalError> {
    make_folder(folder)?;
    let lock_path = folder.lock();
    let lock = folder
        .disk
        .lock(&lock_path)
        .map_err(|source| io_error("lock", &lock_path, source))?
        .ok_or_else(|| WalError::Locked { dir: folder.path().to_owned() })?;
    folder.sync()?;
    let names = folder.list()?;
    if !names.contains(&Name::Manifest) {
        begin(folder, doors, &names)?;
    }
    let Chain { mut manifest, mut segments } = chain::load(folder, OpenMode::ReadWrite)?;
    let plan = decide(&manifest.state, &segments, settings)?;
    let strays = stray::find(folder, &manifest.state, &segments, &names)?;

    manifest.settle(folder)?;
    let spares = stray::settle(folder, settings.segment_bytes, strays)?;
    let (point, opened) = if plan.reuse {
        go_on(folder, &mut manifest, &mut segments, plan)?
    } else {
        begin_segment(folder, settings, doors, &mut manifest, &mut segments, &spares, plan)?
    };
    match spares.ensure(1) {
        // Appends will ask again, and are refused until there is room.
        Ok(()) | Err(WalError::NoSpace { .. }) => {}
        Err(failure) => return Err(failure),
    }
    if let Some(active) = segments.last() {
        // D22: what was accepted counts as acknowledged from here on.
        let mark = frame::mark(active.life(), point.at, point.at, point.sequence);
        active
            .write(active.life().offset(point.at), &mark)
            .map_err(|source| io_error("write", &active.path, source))?;
    }
    Ok(Recovered { lock, manifest, segments, point, spares, opened })
}

/// Everything that an opening checks before it changes anything.
pub(super) fn check(folder: &Folder) -> Result<(), WalError> {
    let names = folder.list()?;
    let Chain { manifest, segments } = chain::load(folder, OpenMode::Read)?;
    decide(&manifest.state, &segments, &WalSettings::default())?;
    stray::find(folder, &manifest.state, &segments, &names).map(drop)
}

/// What an opening checks of files that are no part of the log.
pub(super) fn check_strays(folder: &Folder) -> Result<(), WalError> {
    let names = folder.list()?;
    let Chain { manifest, segments } = chain::load(folder, OpenMode::Read)?;
    stray::find(folder, &manifest.state, &segments, &names).map(drop)
}

/// Opens the newest segment to go on in it.
fn go_on(
    folder: &Folder,
    manifest: &mut Manifest,
    segments: &mut Vec<Segment>,
    plan: Plan,
) -> Result<(Point, Opened), WalError> {
    if manifest.state.clean {
        let state = State { clean: false, ..manifest.state };
        manifest.write(folder, state)?;
    }
    if let Some(Segment { path, header, .. }) = segments.pop() {
        let Blank { file, region, .. } = spares::open_blank(folder, path.clone(), header.bytes, false)?;
        segments.push(Segment { path, header, file, region });
    }
    Ok((plan.from, plan.opened()))
}

/// Begins a new segment behind what is kept.
pub(super) fn begin_segment(
    folder: &Folder,
    settings: &WalSettings,
    doors: &Doors,
    manifest: &mut Manifest,
    segments: &mut Vec<Segment>,
    spares: &Spares,
    mut plan: Plan,
) -> Result<(Point, Opened), WalError> {
    quarantine_copy(folder, segments, &mut plan)?;
    // Copied frames must fit even when segments were larger before.
    let bytes = match plan.source.and_then(|source| segments.get(source)) {
        Some(source) if plan.end > plan.from.at => settings.segment_bytes.max(source.header.bytes),
        _ => settings.segment_bytes,
    };
    let blank = spares.take_or_make(bytes)?;
    let header = new_header(&manifest.state, segments, &plan, &blank, doors);
    let source = plan.source.and_then(|source| segments.get(source));
    let (active, point) = fill(folder, blank, header, source, &plan)?;
    let dropped = segments.split_off(plan.keep.min(segments.len()));
    segments.push(active);
    let (Some(oldest), Some(active)) = (segments.first(), segments.last()) else {
        return Ok((point, plan.opened()));
    };
    let state = State {
        clean: false,
        count: segments.len() as u64,
        first: (oldest.life().number, oldest.life().salt),
        last: (active.life().number, active.life().salt),
        start: oldest.base(),
        end: plan.end,
        next: active.life().number + 1,
        frames: point.sequence,
        ..manifest.state
    };
    manifest.write(folder, state)?;
    for segment in dropped {
        let cut = plan.cut.as_mut().filter(|cut| {
            segment.base() >= cut.last_good || (segment.path == cut.segment && cut.quarantine.is_none())
        });
        match cut {
            Some(cut) => {
                let to = quarantine::take_in(folder, &segment.path, segment.life())?;
                cut.quarantine = cut.quarantine.take().or(to);
            }
            None => spares.give(&segment.path, segment.header.bytes)?,
        }
    }
    Ok((point, plan.opened()))
}

impl Plan {
    fn opened(self) -> Opened {
        let fresh = self.end == Lsn(0);
        Opened { end: self.end, cut: self.cut, clean: self.clean || fresh, fresh }
    }
}

/// Makes the folder if it is not there; its own name is durable afterwards.
fn make_folder(folder: &Folder) -> Result<(), WalError> {
    let path = folder.path();
    match folder.disk.metadata(path) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match folder.disk.create_dir(path, true) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(io_error("create the folder", path, error));
                }
                _ => {}
            }
        }
        Err(error) => return Err(io_error("look at", path, error)),
    }
    folder.sync_parent()
}

/// Makes a new log where there is none.
fn begin(folder: &Folder, doors: &Doors, names: &[Name]) -> Result<(), WalError> {
    if names.iter().any(|name| matches!(name, Name::Segment(_))) {
        return Err(WalError::Damage {
            path: folder.manifest(),
            offset: 0,
            at: Lsn(0),
            to: Lsn(u64::MAX),
            what: "the manifest is missing, and there are segments".to_owned(),
        });
    }
    Manifest::create(folder, doors.random.next_u64()).map(drop)
}

/// Judges the whole log.
fn decide(state: &State, segments: &[Segment], settings: &WalSettings) -> Result<Plan, WalError> {
    if settings.verify_all {
        for pair in segments.windows(2) {
            if let [segment, next] = pair {
                judge::verify(segment, next)?;
            }
        }
    }
    let Some(newest) = segments.last() else {
        let from = Point { at: state.start, sequence: state.frames, tally: Tally::default(), open: None };
        let end = state.start;
        return Ok(Plan {
            from,
            end,
            source: None,
            keep: 0,
            clean: false,
            cut: None,
            cut_end: 0,
            reuse: false,
        });
    };
    let tail = judge::look(newest)?;
    let (end, acked, clean) = match judge::judge(state, &tail) {
        Verdict::Accept { end, acked, clean } => (end, acked, clean),
        Verdict::Damage { at, to, what } => return Err(judge::lost(newest, &tail, at, to, what)),
    };
    if tail.untouched(newest)
        && end <= acked.max(newest.base())
        && newest.header.bytes == settings.segment_bytes
    {
        let (from, keep) = (tail.reached, segments.len());
        return Ok(Plan { from, end, source: None, keep, clean, cut: None, cut_end: 0, reuse: true });
    }
    // What was acknowledged, and all before the newest segment (W4), is durable where it is.
    let little = end.0.saturating_sub(newest.base().0) <= newest.header.bytes / COPIED_SHARE;
    let from = match () {
        () if end <= newest.base() => end,
        () if little => newest.base(),
        () => acked.max(newest.base()),
    };
    let keep = segments.iter().take_while(|segment| segment.base() < from).count();
    let from = match (keep.checked_sub(1).and_then(|last| segments.get(last)), segments.get(keep)) {
        (_, Some(next)) if next.base() == from => Point {
            at: from,
            sequence: next.header.sequence,
            tally: next.header.previous.map(|previous| previous.tally).unwrap_or_default(),
            open: (next.header.group != from).then_some(next.header.group),
        },
        (Some(last), _) => judge::point_at(last, from)?,
        (None, _) => {
            return Err(judge::damage(newest, from, end, "the log ends before it starts".to_owned()));
        }
    };
    let cut = cut_of(segments, newest, &tail, end);
    let source = segments.len().checked_sub(1);
    Ok(Plan { from, end, source, keep, clean, cut, cut_end: tail.behind.end, reuse: false })
}

/// What lies behind `end`, if anything.
fn cut_of(segments: &[Segment], newest: &Segment, tail: &Tail, end: Lsn) -> Option<Cut> {
    let appended = tail.reached.at.0 - end.0;
    let behind = tail.behind.end - newest.life().offset(tail.reached.at);
    let bytes = appended + behind;
    let first = segments.iter().rev().find(|segment| segment.base() <= end).unwrap_or(newest);
    (bytes > 0).then(|| Cut {
        segment: first.path.clone(),
        offset: first.life().offset(end),
        bytes,
        last_good: end,
        quarantine: None,
    })
}

/// Copies what is cut out of a segment that stays.
fn quarantine_copy(folder: &Folder, segments: &[Segment], plan: &mut Plan) -> Result<(), WalError> {
    let Some(cut) = &mut plan.cut else { return Ok(()) };
    let Some(index) = segments.iter().position(|segment| segment.path == cut.segment) else { return Ok(()) };
    let Some(segment) = segments.get(index) else { return Ok(()) };
    // A segment that is cut as a whole is moved there instead.
    if index >= plan.keep && segment.base() >= plan.end {
        return Ok(());
    }
    let end = segments.get(index + 1).map_or(plan.cut_end, |next| segment.life().offset(next.base()));
    cut.quarantine = quarantine::copy(folder, segment, cut.offset, end)?;
    Ok(())
}

fn new_header(
    state: &State,
    segments: &[Segment],
    plan: &Plan,
    blank: &Blank,
    doors: &Doors,
) -> SegmentHeader {
    let previous = plan.keep.checked_sub(1).and_then(|last| segments.get(last)).map(|last| Previous {
        number: last.life().number,
        salt: last.life().salt,
        tally: plan.from.tally,
    });
    SegmentHeader {
        log: state.log,
        life: Life { number: state.next, salt: doors.random.next_u64(), base: plan.from.at },
        sequence: plan.from.sequence,
        bytes: blank.bytes,
        group: plan.from.group(),
        previous,
        zeroed: blank.zeroed,
    }
}

/// Writes the header and the copies, and gives the file its name; all of it is durable afterwards.
fn fill(
    folder: &Folder,
    blank: Blank,
    header: SegmentHeader,
    source: Option<&Segment>,
    plan: &Plan,
) -> Result<(Segment, Point), WalError> {
    let mut point = Point { tally: Tally::default(), ..plan.from };
    let segment = named(folder, blank, header, |segment| {
        let Some(source) = source.filter(|_| plan.end > plan.from.at) else { return Ok(()) };
        let mut walk = Walk::new(source, None);
        while walk.point().at < plan.end {
            let at = walk.point().at;
            let mut step = walk.step()?;
            let (old, body) = match &mut step {
                Ok((old, body)) => (old, body),
                Err(flaw) => return Err(judge::damage(source, at, plan.end, flaw.to_string())),
            };
            if at < plan.from.at {
                continue;
            }
            let new = frame::Header { acked: plan.from.at, flags: old.flags | RECOVERED, ..*old };
            let offset = segment.life().offset(at);
            let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + body.len() + FRAME_HEADER_BYTES);
            let encoded = new.encode(segment.life(), offset);
            bytes.extend_from_slice(&encoded);
            bytes.extend_from_slice(body);
            bytes.resize(aligned(bytes.len() as u64) as usize, 0);
            segment.write(offset, &bytes).map_err(|error| io_error("write", &segment.path, error))?;
            point.at = Lsn(at.0 + new.stride());
            point.sequence += 1;
            point.tally.add(new.count, frame::u32_at(&encoded, 4));
        }
        Ok(())
    })?;
    point.open = None;
    Ok((segment, point))
}

/// Makes `blank` a segment with `header` and what `fill` writes: durable, and with its name.
pub(super) fn named(
    folder: &Folder,
    blank: Blank,
    header: SegmentHeader,
    fill: impl FnOnce(&Segment) -> Result<(), WalError>,
) -> Result<Segment, WalError> {
    let Blank { path, file, region, .. } = blank;
    let mut segment = Segment { path, header, file, region };
    segment.write(0, &header.encode()).map_err(|source| io_error("write", &segment.path, source))?;
    fill(&segment)?;
    segment.file.sync().map_err(|source| io_error("sync", &segment.path, source))?;
    let path = folder.segment(header.life.number);
    folder.rename(&segment.path, &path)?;
    folder.sync()?;
    segment.path = path;
    Ok(segment)
}
