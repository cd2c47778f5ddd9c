//! The disk itself: calls become steps, steps change the tree.

use std::ffi::OsString;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use super::content::Content;
use super::control::Control;
use super::control::Fault;
use super::control::Moment;
use super::control::Step;
use super::control::StepKind;
use super::control::Verdict;
use super::control::simulated_crash;
use super::file::HeldLock;
use super::file::OpenFile;
use super::tree::File;
use super::tree::Folder;
use super::tree::Ino;
use super::tree::Node;
use super::tree::Tree;
use super::tree::names;
use crate::storage::Disk;
use crate::storage::DiskFile;
use crate::storage::DiskLock;
use crate::storage::Entry;
use crate::storage::FileSystem;
use crate::storage::Kind;
use crate::storage::Metadata;
use crate::storage::OpenMode;
use crate::testing::SeededRandom;

/// A disk in memory that can crash; a clone is the same disk. The module doc has its model.
#[derive(Clone)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
}

/// What survives a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashModel {
    /// A loss of power that takes all that was not synced.
    LoseUnsynced,
    /// A loss of power that leaves some of what was not synced: sectors of 512 bytes, lengths and
    /// operations on entries, as the seed decides.
    AnySubset,
    /// The end of the process (`kill -9`): all survives, and a later loss of power may still take it.
    ProcessOnly,
}

/// Everything about a disk, behind its lock.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) control: Control,
    capacity: Option<u64>,
    pub(super) locks: Vec<Ino>,
    /// Lengths of the maps that live.
    pub(super) maps: Vec<(Ino, u64)>,
    /// What [`Disk::file_system`] says of maps.
    maps_trusted: bool,
}

impl CrashDisk {
    /// A disk with an empty `/`, which is durable.
    #[expect(clippy::new_without_default, reason = "a disk is made on purpose")]
    pub fn new() -> Self {
        Self::with(Tree::new(), None, true)
    }

    fn with(tree: Tree, capacity: Option<u64>, maps_trusted: bool) -> Self {
        let control = Control::default();
        let (locks, maps) = (Vec::new(), Vec::new());
        Self { state: Arc::new(Mutex::new(State { tree, control, capacity, locks, maps, maps_trusted })) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of a test thread while it held the lock left nothing half done that matters.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps so far, in order. Calls that only look are none.
    pub fn steps(&self) -> Vec<Step> {
        self.state().control.steps.clone()
    }

    /// How many steps there were so far.
    pub fn step_count(&self) -> usize {
        self.state().control.steps.len()
    }

    /// Crashes instead of the step `number` (from 0, of the life of this disk): it does not happen,
    /// and it and every later call, also one that only looks, fails.
    pub fn crash_at(&self, number: usize) {
        self.state().control.crash = Some((number, Moment::Before));
    }

    /// Crashes once the step `number` (from 0) has happened: its caller is told of the crash.
    pub fn crash_after(&self, number: usize) {
        self.state().control.crash = Some((number, Moment::After));
    }

    /// Crashes in the midst of the step `number` (from 0): half of the bytes of a write are written;
    /// any other step does not happen.
    pub fn crash_midway(&self, number: usize) {
        self.state().control.crash = Some((number, Moment::Midway));
    }

    /// Crashes now.
    pub fn crash(&self) {
        self.state().control.crashed = true;
    }

    /// Whether the disk has crashed: [`CrashDisk::after_crash`] is all that is left to call.
    pub fn crashed(&self) -> bool {
        self.state().control.crashed
    }

    /// What a crash now leaves: a new disk without steps, faults, open files and locks. This one
    /// stays as it is. `seed` decides everything that is left to chance.
    #[must_use]
    pub fn after_crash(&self, model: CrashModel, seed: u64) -> Self {
        let state = self.state();
        let tree = match model {
            CrashModel::LoseUnsynced => state.tree.lose_unsynced(),
            CrashModel::AnySubset => {
                let random = SeededRandom::new(seed);
                // Some crashes lose nearly all, some nearly nothing: they show different bugs.
                let keep = [1, 4, 7][random.below(3) as usize];
                state.tree.lose_some(keep, &random)
            }
            CrashModel::ProcessOnly => state.tree.kill(),
        };
        Self::with(tree, state.capacity, state.maps_trusted)
    }

    /// Makes a call fail with `error`: of those of `kind` on paths that contain `path_part`, `spared`
    /// still go well. `sticky` goes on failing; otherwise it happens once.
    ///
    /// A failed write has written half of its bytes, a failed sync loses what it was to save although
    /// it can still be read (S4), any other failed step did nothing. `Rename` with `Unsupported`
    /// makes a file system that cannot rename without replacing.
    pub fn fail(&self, kind: StepKind, path_part: &str, spared: u64, error: io::ErrorKind, sticky: bool) {
        let fault = Fault { kind, path_part: path_part.to_owned(), spared, error, sticky };
        self.state().control.faults.push(fault);
    }

    /// Forgets all planned faults.
    pub fn heal(&self) {
        self.state().control.faults.clear();
    }

    /// Limits the sum of the lengths of all files: what would pass it fails with `StorageFull`. A
    /// crash does not lift the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Makes [`Disk::file_system`] say whether maps can be trusted; they can at first. A crash does
    /// not change it.
    pub fn trust_maps(&self, trusted: bool) {
        self.state().maps_trusted = trusted;
    }

    /// The sum of the lengths of all files.
    pub fn used(&self) -> u64 {
        self.state().tree.used()
    }

    /// Reads a whole file, also after a crash; no step.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let state = self.state();
        Ok(state.tree.file(state.tree.find(path.as_ref())?)?.content.to_vec())
    }

    /// Writes a whole file and the folders above it, all durable at once; no step. What the file held
    /// before is replaced. Also makes durable whatever was pending in folders: it is for the set-up.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let path = path.as_ref();
        if let Some(parent) = path.parent() {
            self.make_dirs(parent)?;
        }
        let mut state = self.state();
        let content = Content::durable(bytes.as_ref());
        match state.tree.find(path) {
            Ok(ino) => state.tree.file_mut(ino)?.content = content,
            Err(_) => {
                state.tree.create(path, Node::File(File { content, ..File::default() }))?;
                state.tree.settle_all();
            }
        }
        Ok(())
    }

    /// Makes the folder `path` and those above it, all durable at once; no step. As
    /// [`CrashDisk::write_file`] it is for the set-up.
    pub fn make_dirs(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut state = self.state();
        let mut at = PathBuf::from("/");
        for name in names(path.as_ref()) {
            at.push(name);
            match state.tree.find(&at) {
                Ok(ino) => drop(state.tree.folder(ino)?),
                Err(_) => drop(state.tree.create(&at, Node::Dir(Folder::default()))?),
            }
        }
        state.tree.settle_all();
        Ok(())
    }

    /// The paths of all files, sorted; also after a crash; no step.
    pub fn list_all(&self) -> Vec<PathBuf> {
        let state = self.state();
        let mut found = Vec::new();
        state.walk(&mut |path, node| {
            if let Node::File(_) = node {
                found.push(path.to_owned());
            }
        });
        found.sort_unstable();
        found
    }

    /// A text that shows the tree, what is unsynced and the last steps: for the message of a failure.
    pub fn dump(&self) -> String {
        let state = self.state();
        let mut lines = Vec::new();
        state.walk(&mut |path, node| {
            lines.push(match node {
                Node::Dir(_) => format!("{}/", path.display()),
                Node::File(file) => {
                    let (sectors, lost) = file.content.unsynced();
                    let len = file.content.len();
                    format!(
                        "{}: {len} bytes, {sectors} sectors unsynced, {lost} changes lost",
                        path.display()
                    )
                }
            });
        });
        lines.sort_unstable();
        let mut text = lines.join("\n");
        let steps = &state.control.steps;
        let shown = steps.len().saturating_sub(20);
        let pending = state.tree.pending();
        _ = write!(text, "\n{pending} operations on entries unsynced; {} steps, the last ones:", steps.len());
        for (number, step) in steps.iter().enumerate().skip(shown) {
            _ = write!(text, "\n  {number} {:?} {}", step.kind, step.path.display());
        }
        text
    }
}

impl fmt::Debug for CrashDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrashDisk after {} steps", self.step_count())
    }
}

impl State {
    fn walk(&self, visit: &mut dyn FnMut(&Path, &Node)) {
        let mut open = vec![PathBuf::from("/")];
        while let Some(path) = open.pop() {
            let Ok(node) = self.tree.find(&path).and_then(|ino| self.tree.node(ino)) else { continue };
            visit(&path, node);
            if let Node::Dir(folder) = node {
                open.extend(folder.now.keys().map(|name| path.join(name)));
            }
        }
    }

    pub(super) fn metadata(&self, ino: Ino) -> io::Result<Metadata> {
        let node = self.tree.node(ino)?;
        let len = if let Node::File(file) = node { file.content.len() } else { 0 };
        Ok(Metadata { kind: kind(node), len, id: (1, ino) })
    }

    /// A step that happens whole or not at all.
    pub(super) fn step<T>(
        &mut self,
        kind: StepKind,
        path: &Arc<Path>,
        change: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.control.step(kind, path)? {
            Verdict::Do => change(self),
            Verdict::Fail(error) => Err(error.into()),
            Verdict::Last(Moment::After) => {
                _ = change(self);
                Err(simulated_crash())
            }
            Verdict::Last(Moment::Before | Moment::Midway) => Err(simulated_crash()),
        }
    }

    /// A step that may also happen in part.
    pub(super) fn write(
        &mut self,
        kind: StepKind,
        path: &Arc<Path>,
        ino: Ino,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let verdict = self.control.step(kind, path)?;
        let asked = match verdict {
            Verdict::Do | Verdict::Last(Moment::After) => bytes.len(),
            Verdict::Last(Moment::Midway) | Verdict::Fail(_) => bytes.len() / 2,
            Verdict::Last(Moment::Before) => 0,
        };
        let room = self.room(ino, offset)?.min(bytes.len() as u64) as usize;
        let file = self.tree.file_mut(ino)?;
        if offset > file.content.len() {
            file.holes = true;
        }
        file.content.write(offset, &bytes[..asked.min(room)]);
        match verdict {
            Verdict::Fail(error) => Err(error.into()),
            Verdict::Last(_) => Err(simulated_crash()),
            Verdict::Do if room < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            Verdict::Do => Ok(()),
        }
    }

    /// How many bytes of the file fit from `offset` on.
    fn room(&self, ino: Ino, offset: u64) -> io::Result<u64> {
        let Some(capacity) = self.capacity else { return Ok(u64::MAX) };
        let len = self.tree.file(ino)?.content.len();
        let others = self.tree.used().saturating_sub(len);
        Ok(capacity.saturating_sub(others).max(len).saturating_sub(offset))
    }

    /// Makes the file longer, or fails as a full disk does.
    pub(super) fn set_len(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        let before = self.tree.file(ino)?.content.len();
        if len > before && self.room(ino, 0)? < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.tree.file_mut(ino)?.content.set_len(len);
        Ok(())
    }
}

impl Disk for CrashDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let path: Arc<Path> = path.into();
        let mut state = self.state();
        let ino = match mode {
            OpenMode::Read | OpenMode::ReadWrite => {
                state.control.look(&path)?;
                state.tree.find(&path)?
            }
            OpenMode::CreateNew { .. } => state.step(StepKind::Create, &path, |state| {
                state.tree.create(&path, Node::File(File::default()))
            })?,
        };
        state.tree.file(ino)?;
        let writable = mode != OpenMode::Read;
        Ok(Box::new(OpenFile { disk: self.clone(), path, ino, writable }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let mut state = self.state();
        state.control.look(path)?;
        let ino = state.tree.find(path)?;
        state.metadata(ino)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut state = self.state();
        state.control.look(path)?;
        let folder = state.tree.folder(state.tree.find(path)?)?;
        let entry = |(name, ino): (&OsString, &Ino)| {
            Ok(Entry { name: name.clone(), kind: kind(state.tree.node(*ino)?) })
        };
        folder.now.iter().map(entry).collect()
    }

    fn create_dir(&self, path: &Path, _private: bool) -> io::Result<()> {
        self.state().step(StepKind::CreateDir, &path.into(), |state| {
            state.tree.create(path, Node::Dir(Folder::default())).map(drop)
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.control.step(StepKind::SyncDir, &path.into())? {
            Verdict::Last(Moment::Before | Moment::Midway) => return Err(simulated_crash()),
            Verdict::Fail(error) => {
                let dir = state.tree.find(path)?;
                state.tree.fail_sync_dir(dir);
                return Err(error.into());
            }
            Verdict::Do | Verdict::Last(Moment::After) => {}
        }
        let dir = state.tree.find(path)?;
        state.tree.sync_dir(dir)?;
        if state.control.crashed { Err(simulated_crash()) } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().step(StepKind::Rename, &to.into(), |state| state.tree.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().step(StepKind::Link, &to.into(), |state| state.tree.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.state().step(StepKind::Remove, &path.into(), |state| state.tree.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.state().step(StepKind::RemoveDir, &path.into(), |state| state.tree.remove_dir(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.state();
        state.control.look(path)?;
        let ino = match state.tree.find(path) {
            Ok(ino) => ino,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                state.step(StepKind::Create, &path.into(), |state| {
                    state.tree.create(path, Node::File(File::default()))
                })?
            }
            Err(error) => return Err(error),
        };
        state.tree.file(ino)?;
        if state.locks.contains(&ino) {
            return Ok(None);
        }
        state.locks.push(ino);
        Ok(Some(Box::new(HeldLock { disk: self.clone(), ino })))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let mut state = self.state();
        state.control.look(path)?;
        state.tree.find(path)?;
        Ok(std::iter::once("/".as_ref()).chain(names(path)).collect())
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        let mut state = self.state();
        state.control.look(path)?;
        state.tree.find(path)?;
        Ok(FileSystem { name: "simulated", maps: state.maps_trusted, network: false })
    }
}

fn kind(node: &Node) -> Kind {
    match node {
        Node::File(_) => Kind::File,
        Node::Dir(_) => Kind::Dir,
    }
}
