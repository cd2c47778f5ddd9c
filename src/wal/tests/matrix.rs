//! Each kind of damage, in each kind of place, with the verdict that is due: nothing acknowledged is missing
//! or changed without an error, and salvage gives back everything else around one gap.

use Fault::{BitFlipped, CutInHalf, GarbageBehind, LastTorn, Missing, OfAnotherLog, PageZeroed};
use Verdict::{Cut, None as NoSuchCell, Refused, Whole};

use super::*;
use crate::storage::OpenMode;
use crate::wal::frame::SEAL_BYTES;
use crate::wal::segment::SegmentHeader;
use crate::wal::segment::read_header_bytes;

/// What happens to a file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// One bit, in the middle of a frame in the middle of the segment, or of the tail.
    BitFlipped,
    /// 4 KiB of zeros there.
    PageZeroed,
    /// The second half of the last frame is zeros.
    LastTorn,
    /// Random bytes behind the last frame (and the seal).
    GarbageBehind,
    /// The second half of the file is gone.
    CutInHalf,
    /// The file is gone.
    Missing,
    /// In its place there is the same segment of another log.
    OfAnotherLog,
}

/// What an opening has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// An error that names segment, offset, position and remedy; nothing is changed.
    Refused,
    /// It opens, without the tail that nobody was promised.
    Cut,
    /// It opens and everything is there.
    Whole,
    /// A closed log has no tail that was not acknowledged.
    None,
}

/// The log that is damaged, and the segment in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// One segment, the process killed.
    OneActive,
    /// One segment, the log closed.
    OneSealed,
    /// The newest of many, the process killed.
    ManyActive,
    /// One in the middle of many, the process killed.
    ManySealed,
}

const PLACES: [Place; 4] = [Place::OneActive, Place::OneSealed, Place::ManyActive, Place::ManySealed];

/// By place, and there: all acknowledged, or the last appends not (then these are what is hit, unless the
/// segment is sealed).
const VERDICTS: [(Fault, [[Verdict; 2]; 4]); 7] = [
    //               one, active         one, closed            many, active        many, sealed
    (BitFlipped, [[Refused, Cut], [Refused, NoSuchCell], [Refused, Cut], [Refused, Refused]]),
    (PageZeroed, [[Refused, Cut], [Refused, NoSuchCell], [Refused, Cut], [Refused, Refused]]),
    (LastTorn, [[Refused, Cut], [Refused, NoSuchCell], [Refused, Cut], [Refused, Refused]]),
    (GarbageBehind, [[Whole, Whole], [Whole, NoSuchCell], [Whole, Whole], [Whole, Whole]]),
    (CutInHalf, [[Refused, Refused], [Refused, NoSuchCell], [Refused, Refused], [Refused, Refused]]),
    (Missing, [[Refused, Refused], [Refused, NoSuchCell], [Refused, Refused], [Refused, Refused]]),
    (OfAnotherLog, [[Refused, Refused], [Refused, NoSuchCell], [Refused, Refused], [Refused, Refused]]),
];

/// A disk with a log on it.
trait Site {
    fn copy(&self) -> Self;
    fn fresh() -> Self;
    fn doors(&self) -> Doors;
    fn dir(&self) -> PathBuf;
}

impl Site for CrashDisk {
    fn copy(&self) -> Self {
        super::copy(self)
    }

    fn fresh() -> Self {
        super::disk()
    }

    fn doors(&self) -> Doors {
        sim_doors(self, self.step_count() as u64 + 99)
    }

    fn dir(&self) -> PathBuf {
        dir().to_owned()
    }
}

impl Site for tempfile::TempDir {
    fn copy(&self) -> Self {
        let to = Self::fresh();
        let (disk, dir) = (to.doors().disk, to.dir());
        disk.create_dir(&dir, true).unwrap();
        for entry in disk.list(&self.dir()).unwrap() {
            // Spares are made again.
            if !entry.name.to_string_lossy().starts_with("spare-") {
                std::fs::copy(self.dir().join(&entry.name), dir.join(&entry.name)).unwrap();
            }
        }
        to
    }

    fn fresh() -> Self {
        tempfile::tempdir().unwrap()
    }

    fn doors(&self) -> Doors {
        Doors::real()
    }

    fn dir(&self) -> PathBuf {
        self.path().join("log")
    }
}

/// How large the logs are.
#[derive(Clone, Copy)]
struct Sizes {
    entry_bytes: usize,
    batch: u64,
    /// Batches before the tail, and in it, of a log of one segment.
    batches: u64,
    tail: u64,
    /// Of a log of one segment, and of many.
    segments: [u64; 2],
}

const SMALL: Sizes = Sizes { entry_bytes: 700, batch: 3, batches: 12, tail: 8, segments: [SEGMENT, SEGMENT] };
/// 20 MiB of 1 KiB in batches, each synced. A batch is one frame: none is split over two segments.
const LARGE: Sizes =
    Sizes { entry_bytes: 1024, batch: 240, batches: 82, tail: 6, segments: [24 << 20, 4 << 20] };

/// An append: where it lies, and what it holds.
#[derive(Debug, Clone)]
struct Batch {
    from: Lsn,
    to: Lsn,
    path: PathBuf,
    /// Of the frame in the file.
    offset: u64,
    entries: Vec<(Lsn, Vec<u8>)>,
}

impl Batch {
    fn file_end(&self) -> u64 {
        self.offset + (self.to.0 - self.from.0)
    }
}

struct Built<S> {
    site: S,
    batches: Vec<Batch>,
    /// So many were acknowledged.
    acknowledged: usize,
}

fn build<S: Site>(sizes: Sizes, place: Place, tail: bool, salt: u64) -> Built<S> {
    let many = matches!(place, Place::ManyActive | Place::ManySealed);
    let site = S::fresh();
    let settings = WalSettings { segment_bytes: sizes.segments[usize::from(many)], ..WalSettings::default() };
    let doors =
        Doors { random: std::sync::Arc::new(crate::testing::SeededRandom::new(salt)), ..site.doors() };
    let (wal, _) = Wal::open(&site.dir(), settings.clone(), &doors).unwrap();
    let mut appended = Vec::new();
    let mut batch = |wal: &Wal| {
        let number = appended.len() as u64 * sizes.batch;
        let entries: Vec<_> =
            (number..number + sizes.batch).map(|number| entry(number, sizes.entry_bytes)).collect();
        let from = wal.end();
        let done = append(wal, &entries).unwrap();
        // Behind a roll-over the frame is where its first entry is.
        assert_eq!(done.lsns[0].0 - 64, from.0);
        appended.push((from, done.end, done.lsns.into_iter().zip(entries).collect::<Vec<_>>()));
    };
    let filled = |wal: &Wal| {
        let full = wal.stats().segments.saturating_sub(1);
        wal.end().0.saturating_sub(full * (settings.segment_bytes - 8192))
    };
    let enough = |wal: &Wal| wal.stats().segments >= 4 && filled(wal) > settings.segment_bytes / 5;
    let mut count = 0;
    while count < sizes.batches || many && !enough(&wal) {
        batch(&wal);
        wal.sync().unwrap();
        count += 1;
    }
    let acknowledged = count as usize;
    if tail {
        for _ in 0..sizes.tail {
            batch(&wal);
        }
    }
    if place == Place::OneSealed {
        wal.close().unwrap();
    } else {
        drop(wal);
    }
    let mut segments = Vec::new();
    for found in doors.disk.list(&site.dir()).unwrap() {
        let path = site.dir().join(&found.name);
        if path.extension().is_some_and(|extension| extension == "wal") {
            let file = doors.disk.open(&path, OpenMode::Read).unwrap();
            let header = SegmentHeader::decode(&read_header_bytes(&*file).unwrap()).unwrap();
            segments.push((header.life, path));
        }
    }
    assert_eq!(segments.len() > 3, many);
    let placed = |(from, to, entries): (Lsn, Lsn, Vec<_>)| {
        let (life, path) = segments.iter().rev().find(|(life, _)| life.base <= from).unwrap();
        Batch { from, to, path: path.clone(), offset: life.offset(from), entries }
    };
    let batches: Vec<_> = appended.into_iter().map(placed).collect();
    Built { site, batches, acknowledged }
}

/// The bytes of a file that were damaged.
struct Damaged {
    path: PathBuf,
    from: u64,
    to: u64,
}

fn do_harm<S: Site>(
    built: &Built<S>,
    site: &S,
    other: &S,
    fault: Fault,
    place: Place,
    tail: bool,
) -> Damaged {
    let disk = site.doors().disk;
    let path = match place {
        Place::ManySealed => &built.batches[built.batches.len() / 2].path,
        _ => &built.batches.last().unwrap().path,
    };
    let name = path.file_name().unwrap();
    let path = site.dir().join(name);
    let hit_tail = tail && place != Place::ManySealed;
    let candidates: Vec<_> = built
        .batches
        .iter()
        .enumerate()
        .filter(|(index, batch)| {
            batch.path.file_name() == Some(name) && (!hit_tail || *index >= built.acknowledged)
        })
        .map(|(_, batch)| batch)
        .collect();
    let middle = candidates[candidates.len() / 2];
    let last = candidates[candidates.len() - 1];
    let size = disk.metadata(&path).unwrap().len;
    let change = |from: u64, bytes: &dyn Fn(&mut [u8]), len: u64| {
        let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
        let mut there = vec![0; len as usize];
        assert_eq!(file.read_at(from, &mut there).unwrap() as u64, len);
        bytes(&mut there);
        file.write_at(from, &there).unwrap();
        file.sync().unwrap();
        (from, from + len)
    };
    let (from, to) = match fault {
        BitFlipped => {
            let at = middle.offset + (middle.to.0 - middle.from.0) / 2;
            change(at, &|bytes| bytes[0] ^= 8, 1)
        }
        PageZeroed => {
            let page = (middle.offset + (middle.to.0 - middle.from.0) / 2) & !4095;
            assert!(page >= candidates[0].offset && page + 4096 <= last.file_end(), "the page is all frames");
            change(page, &|bytes| bytes.fill(0), 4096)
        }
        LastTorn => {
            let half = (last.to.0 - last.from.0) / 2;
            change(last.offset + half, &|bytes| bytes.fill(0), half)
        }
        GarbageBehind => {
            let behind = last.file_end()
                + if matches!(place, Place::OneActive | Place::ManyActive) { 0 } else { SEAL_BYTES };
            let len = (size - behind).min(2000);
            let harm = |bytes: &mut [u8]| {
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[2];
                }
            };
            change(behind, &harm, len)
        }
        CutInHalf => {
            // In the midst of what was written.
            let first = candidates[0]
                .offset
                .min(built.batches.iter().find(|batch| batch.path.file_name() == Some(name)).unwrap().offset);
            let to = first + (last.file_end() - first) / 2;
            let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
            file.set_len(to).unwrap();
            file.sync().unwrap();
            (to, size)
        }
        Missing => {
            disk.remove_file(&path).unwrap();
            disk.sync_dir(&site.dir()).unwrap();
            (0, size)
        }
        OfAnotherLog => {
            let foreign = other.doors().disk.open(&other.dir().join(name), OpenMode::Read).unwrap();
            let mut bytes = vec![0; foreign.size().unwrap() as usize];
            foreign.read_at(0, &mut bytes).unwrap();
            change(0, &|there| there.copy_from_slice(&bytes), size)
        }
    };
    Damaged { path, from, to }
}

fn files_of(site: &impl Site) -> Vec<(std::ffi::OsString, u32)> {
    let disk = site.doors().disk;
    let read = |name: std::ffi::OsString| {
        let file = disk.open(&site.dir().join(&name), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, crc32fast::hash(&bytes))
    };
    let listed = disk.list(&site.dir()).unwrap();
    listed
        .into_iter()
        .filter(|entry| entry.kind == crate::storage::Kind::File && entry.name != "lock")
        .map(|entry| read(entry.name))
        .collect()
}

fn of(batches: &[&Batch]) -> Entries {
    batches.iter().flat_map(|batch| batch.entries.iter().cloned()).collect()
}

type Entries = Vec<(Lsn, Vec<u8>)>;

/// The good entries, and the gaps with how many entries were before each.
fn salvaged(site: &impl Site) -> (Entries, Vec<(usize, Gap)>) {
    let (mut entries, mut gaps) = (Vec::new(), Vec::new());
    for found in salvage(&site.dir(), &site.doors()).unwrap() {
        match found {
            Salvaged::Entry { at, entry } => entries.push((at, entry)),
            Salvaged::Gap(gap) => gaps.push((entries.len(), gap)),
        }
    }
    (entries, gaps)
}

fn reopened(site: &impl Site, sizes: Sizes) -> Result<Entries, WalError> {
    let settings = WalSettings { segment_bytes: sizes.segments[1], ..WalSettings::default() };
    let (wal, _) = Wal::open(&site.dir(), settings, &site.doors())?;
    Ok(all(&wal).into_iter().map(|logged| (logged.at, logged.entry.to_vec())).collect())
}

fn check_cell<S: Site>(built: &Built<S>, other: &S, sizes: Sizes, cell: (Fault, Place, bool), due: Verdict) {
    let (fault, place, tail) = cell;
    let site = built.site.copy();
    let damaged = do_harm(built, &site, other, fault, place, tail);
    let what = format!("{fault:?}, {place:?}, tail {tail}");
    let hit = |batch: &&Batch| {
        batch.path.file_name() == damaged.path.file_name()
            && batch.offset < damaged.to
            && batch.file_end() > damaged.from
    };
    let lost: Vec<_> = built.batches.iter().filter(hit).collect();
    let kept: Vec<_> = built.batches.iter().filter(|batch| !hit(batch)).collect();
    let before: Vec<_> = built.batches.iter().take_while(|batch| !hit(batch)).collect();
    let files = files_of(&site);
    let (entries, gaps) = salvaged(&site);
    assert!(files_of(&site) == files, "{what}: salvage changed something");
    match due {
        NoSuchCell => unreachable!("it was left out"),
        Whole | Cut => {
            let expected = if due == Whole { of(&kept) } else { of(&before) };
            assert_eq!(lost.is_empty(), due == Whole, "{what}");
            assert!(entries == expected && gaps.is_empty(), "{what}: salvage of what opens: {gaps:?}");
            assert!(reopened(&site, sizes).unwrap() == expected, "{what}");
        }
        Refused => {
            let error = reopened(&site, sizes).expect_err(&what);
            let WalError::Damage { path, offset, at, to, .. } = &error else { panic!("{what}: {error}") };
            let message = error.to_string();
            assert_eq!(path, &damaged.path, "{what}: {message}");
            assert!(*at <= lost[0].to && to > at, "{what}: {message}");
            for part in
                [format!("{path:?}"), format!("byte {offset}"), format!("LSN {at}"), "from a copy".to_owned()]
            {
                assert!(message.contains(&part), "{what}: {message} lacks {part}");
            }
            assert!(files_of(&site) == files, "{what}: a refused log was changed");
            // All others, and one gap where these are missing.
            assert!(entries == of(&kept), "{what}: {} entries for {}", entries.len(), of(&kept).len());
            let [(index, gap)] = &gaps[..] else { panic!("{what}: {gaps:?}") };
            assert_eq!(*index, of(&before).len(), "{what}: {gap}");
            assert_eq!(gap.from, lost[0].from, "{what}: {gap}");
            let end = lost[lost.len() - 1].to;
            let at_end = end == built.batches[built.batches.len() - 1].to;
            assert!(gap.to == end || at_end && gap.to == Gap::UNKNOWN, "{what}: {gap}, due {end}");
            assert_eq!(gap.segment, damaged.path, "{what}");
            // Cut there, it opens with what was before.
            let cut = truncate_after(&site.dir(), gap.from, &site.doors()).unwrap();
            assert_eq!(cut.end(), gap.from, "{what}");
            let behind = kept.iter().filter(|batch| batch.from >= gap.from).map(|batch| batch.entries.len());
            assert_eq!(cut.loss().entries, behind.sum::<usize>() as u64, "{what}");
            assert!(files_of(&site) == files, "{what}: a plan changed something");
            cut.carry_out().unwrap();
            assert!(reopened(&site, sizes).unwrap() == of(&before), "{what}: after the cut");
        }
    }
}

fn check_all<S: Site>(sizes: Sizes) {
    let mut cells = 0;
    for (column, place) in PLACES.into_iter().enumerate() {
        for tail in [false, true] {
            if place == Place::OneSealed && tail {
                continue;
            }
            let built: Built<S> = build(sizes, place, tail, 1);
            let other: Built<S> = build(sizes, place, tail, 2);
            for (fault, verdicts) in VERDICTS {
                let due = verdicts[column][usize::from(tail)];
                assert_ne!(due, NoSuchCell);
                check_cell(&built, &other.site, sizes, (fault, place, tail), due);
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 49);
}

#[test]
fn each_damage_in_each_place_gets_its_verdict_and_salvage_gives_the_rest() {
    check_all::<CrashDisk>(SMALL);
}

#[test]
fn each_damage_to_twenty_mebibytes_on_the_real_disk_gets_its_verdict() {
    check_all::<tempfile::TempDir>(LARGE);
}
