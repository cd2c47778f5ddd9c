//! The look before the leap: every part file that a checkpoint names is judged, nothing is changed.
//!
//! Owns looking at files. Does not own the verdicts (`recover`).

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::error::Result;
use crate::pool::Pool;
use crate::sink::file::ledger;
use crate::sink::file::name::PartName;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::Content;
use crate::sink::file::part::InProgressPart;
use crate::sink::file::part::PartRecord;
use crate::sink::file::recover::Damage;
use crate::sink::file::recover::Found;
use crate::sink::file::recover::Recorded;
use crate::sink::file::recover::Verdict;
use crate::sink::file::recover::judge;
use crate::sink::file::staging::Folders;
use crate::sink::file::status::Sums;
use crate::state::State;
use crate::storage::Disk;
use crate::storage::Kind;
use crate::storage::OpenMode;

/// What a start will do with each part file: every file was judged and none is damaged.
#[derive(Debug)]
pub struct Plan {
    pub(super) in_progress: Vec<(InProgressPart, Verdict)>,
    pub(super) pending: Vec<ClosedPart>,
    /// Pending files that are gone; `accept_loss` is set.
    pub(super) lost: Vec<ClosedPart>,
    /// What the ledger holds.
    pub(super) sums: Sums,
}

impl Plan {
    /// Files that are appended to, files that become visible at once, files given up as lost.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.in_progress.len(), self.pending.len(), self.lost.len())
    }
}

/// Judges `records`.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`], naming every file that is not what the checkpoint says.
pub(super) async fn judge_all(
    disk: &Arc<dyn Disk>,
    io: &Pool,
    folders: &Folders,
    records: Vec<PartRecord>,
    accept_loss: bool,
) -> Result<Plan> {
    // All looks are handed in before the first is waited for: they read whole files.
    let mut looks = Vec::with_capacity(records.len());
    for record in records {
        let (name, bucket, content) = match &record {
            PartRecord::InProgress(part) => (&part.name, &part.bucket, &part.content),
            PartRecord::Pending(part) => (&part.name, &part.bucket, &part.content),
        };
        let hidden = folders.staging.join(name.to_string());
        let target = bucket.folder(&folders.base).join(name.to_string());
        let (disk, content) = (Arc::clone(disk), content.clone());
        let pending = matches!(record, PartRecord::Pending(_));
        let looked = io.run(move || look(&*disk, &hidden, &target, &content, pending));
        looks.push((record, looked));
    }
    let mut plan =
        Plan { in_progress: Vec::new(), pending: Vec::new(), lost: Vec::new(), sums: Sums::default() };
    let mut problems = Vec::new();
    for (record, looked) in looks {
        let verdict = looked.await??;
        match (record, verdict) {
            (PartRecord::InProgress(part), Verdict::Damage(damage)) => {
                problems.push(in_progress_problem(folders, &part, damage));
            }
            (PartRecord::Pending(part), Verdict::Damage(damage)) => {
                problems.push(problem(folders, &part, damage));
            }
            (PartRecord::Pending(part), Verdict::Lost) if accept_loss => plan.lost.push(part),
            (PartRecord::Pending(part), Verdict::Lost) => problems.push(lost(folders, &part)),
            (PartRecord::InProgress(part), verdict) => plan.in_progress.push((part, verdict)),
            (PartRecord::Pending(part), _) => plan.pending.push(part),
        }
    }
    if problems.is_empty() {
        return Ok(plan);
    }
    let what = if problems.len() == 1 { "a part file is" } else { "part files are" };
    Err(Error::damage(format!(
        "{what} not as the checkpoint recorded; nothing was changed:\n  {}",
        problems.join("\n  ")
    )))
}

/// Looks at both names of a part file and judges what is there. Blocks.
pub(super) fn look(
    disk: &dyn Disk,
    hidden: &Path,
    target: &Path,
    content: &Content,
    pending: bool,
) -> Result<Verdict> {
    let recorded = match pending {
        false => Recorded::InProgress { len: content.len, crc: content.crc },
        true => Recorded::Pending { len: content.len, crc: content.crc },
    };
    let hidden = find(disk, hidden, content.len)?;
    let target = find(disk, target, content.len)?;
    Ok(judge(recorded, hidden, target))
}

/// What is at `path`: its length, and the checksum of its first `len` bytes.
fn find(disk: &dyn Disk, path: &Path, len: u64) -> Result<Option<Found>> {
    let unreadable =
        |error: io::Error| Error::retry(format!("part file {path:?} cannot be read")).with_source(error);
    let metadata = match disk.metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if metadata.kind != Kind::File || metadata.len < len {
        return Ok(Some(Found { len: metadata.len, prefix_crc: None, id: metadata.id }));
    }
    let prefix_crc = match checksum(disk, path, len) {
        Ok(crc) => crc,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    Ok(Some(Found { len: metadata.len, prefix_crc, id: metadata.id }))
}

/// CRC-32 of the first `len` bytes of the file at `path`; `None` when it is shorter. Blocks.
///
/// # Errors
///
/// Those of the disk.
pub fn checksum(disk: &dyn Disk, path: &Path, len: u64) -> io::Result<Option<u32>> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let file = disk.open(path, OpenMode::Read)?;
    let mut crc = crc32fast::Hasher::new();
    // The remainder of a chunk is below 2^20.
    let mut buf = vec![0; usize::try_from(len.min(CHUNK_BYTES)).unwrap_or(0)];
    let mut at = 0;
    while at < len {
        let wanted = usize::try_from((len - at).min(CHUNK_BYTES)).unwrap_or(0);
        let chunk = buf.get_mut(..wanted).unwrap_or_default();
        let read = file.read_at(at, chunk)?;
        if read < wanted {
            return Ok(None);
        }
        crc.update(chunk);
        at += wanted as u64;
    }
    Ok(Some(crc.finalize()))
}

/// A file, or a folder on the way to it, is not there.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A committed file of our lineage that the state has never heard of means that the state lost an
/// epoch that was acknowledged (D22). Blocks.
///
/// # Errors
///
/// [`crate::ErrorKind::Damage`], naming the files.
pub(super) fn check_strangers(
    disk: &dyn Disk,
    folders: &Folders,
    known: &HashSet<PartName>,
    ours: &PartName,
) -> Result<()> {
    let mut strangers = Vec::new();
    let mut open = vec![folders.base.clone()];
    while let Some(folder) = open.pop() {
        let entries = match disk.list(&folder) {
            Ok(entries) => entries,
            Err(error) if absent(&error) => continue,
            Err(error) => {
                return Err(Error::retry(format!("folder {folder:?} cannot be listed")).with_source(error));
            }
        };
        for entry in entries {
            let path = folder.join(&entry.name);
            match (entry.kind, entry.name.to_str().and_then(PartName::parse)) {
                (Kind::Dir, _) => open.push(path),
                (Kind::File, Some(name))
                    if name.lineage == ours.lineage
                        && name.writer == ours.writer
                        && !known.contains(&name) =>
                {
                    strangers.push(path);
                }
                _ => {}
            }
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    strangers.sort_unstable();
    Err(Error::damage(format!(
        "the table holds {} of this job that its state does not know, so the state has lost epochs that \
         were acknowledged; going on would land their rows again. Nothing was changed. Restore the state \
         directory from where it was newer, or move these files away to have their rows landed again:\n  {}",
        if strangers.len() == 1 { "1 file".to_owned() } else { format!("{} files", strangers.len()) },
        listed(&strangers)
    )))
}

fn listed(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 10;
    let mut text: Vec<String> = paths.iter().take(SHOWN).map(|path| format!("{path:?}")).collect();
    if paths.len() > SHOWN {
        text.push(format!("and {} more", paths.len() - SHOWN));
    }
    text.join("\n  ")
}

/// The names that the state knows: in progress, pending, committed, given up; and the sums of the
/// committed ones.
pub(super) fn known_names(state: &State, records: &[PartRecord]) -> Result<(HashSet<PartName>, Sums)> {
    let mut sums = Sums::default();
    let mut known: HashSet<PartName> = records
        .iter()
        .map(|record| match record {
            PartRecord::InProgress(part) => part.name.clone(),
            PartRecord::Pending(part) => part.name.clone(),
        })
        .collect();
    for part in ledger::ledger(state) {
        let part = part?;
        sums.found_committed(&part);
        known.insert(part.name);
    }
    for part in ledger::losses(state) {
        known.insert(part?.name);
    }
    Ok((known, sums))
}

/// The words for a pending file that cannot be committed.
pub(super) fn problem(folders: &Folders, part: &ClosedPart, damage: Damage) -> String {
    let ClosedPart { name, bucket, content, epoch, .. } = part;
    let target = bucket.folder(&folders.base).join(name.to_string());
    let hidden = folders.staging.join(name.to_string());
    match damage {
        Damage::Foreign => format!(
            "{target:?} is taken by another file; {hidden:?} (epoch {epoch}, {} rows) was not committed and \
             nothing was overwritten: move the other file away",
            content.rows
        ),
        damage => format!("{hidden:?} or {target:?} (epoch {epoch}, {} rows): {damage}", content.rows),
    }
}

/// The words for a pending file that is gone (C4).
pub(super) fn lost(folders: &Folders, part: &ClosedPart) -> String {
    let ClosedPart { name, bucket, content, epoch, .. } = part;
    format!(
        "{:?} of epoch {epoch}, {} rows, is gone and was not committed to {:?}: if something else moved it \
         (compaction may touch only files that are not listed as pending), put it back; to go on without its \
         rows, run the job once with --accept-loss",
        folders.staging.join(name.to_string()),
        content.rows,
        bucket.folder(&folders.base)
    )
}

fn in_progress_problem(folders: &Folders, part: &InProgressPart, damage: Damage) -> String {
    let hidden = folders.staging.join(part.name.to_string());
    let rows = part.content.rows;
    match damage {
        Damage::Foreign => {
            let target = part.bucket.folder(&folders.base).join(part.name.to_string());
            format!(
                "{target:?} is taken by another file, so {hidden:?} ({rows} rows) could never be committed"
            )
        }
        Damage::Missing => format!(
            "{hidden:?} (in progress, {rows} rows): the file is gone. Put it back under its name, from a copy if there \
             is one; without it this state cannot go on, and --accept-loss does not give up files in progress"
        ),
        damage => format!("{hidden:?} (in progress, {rows} rows): {damage}"),
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is gone"),
            Self::Short { want, found } => {
                write!(f, "the file has {found} bytes, {want} were acknowledged")
            }
            Self::Long { want, found } => write!(f, "the file has {found} bytes, it was closed with {want}"),
            Self::Changed => f.write_str("the file's bytes are not those that were written"),
            Self::Foreign => f.write_str("another file has its name"),
        }
    }
}
