//! Folders and names: as a process sees them, and as a loss of power would leave them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::path::Component;
use std::path::Path;

use super::content::Content;
use crate::testing::SeededRandom;

/// An inode number.
pub(super) type Ino = u64;

/// The folder `/`.
const ROOT: Ino = 2;

/// Stands for a sync that never comes: the operation took part in a failed one (S4).
const NEVER: Ino = 0;

/// All files and folders of a disk.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    /// Operations on entries that are not durable yet, oldest first.
    pending: Vec<Pending>,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(File),
    Dir(Folder),
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) content: Content,
    /// Number of names that a process sees.
    pub(super) links: u64,
    /// Parts of it may have no space yet: a store through a map could be a SIGBUS.
    pub(super) holes: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    pub(super) now: BTreeMap<OsString, Ino>,
    durable: BTreeMap<OsString, Ino>,
}

/// A name in a folder.
pub(super) type Name = (Ino, OsString);

#[derive(Debug, Clone)]
struct Pending {
    entry: EntryOp,
    /// The folders whose sync it waits for.
    waits_for: Vec<Ino>,
}

/// What was done to entries.
#[derive(Debug, Clone)]
enum EntryOp {
    Add { name: Name, ino: Ino, source: Option<Name> },
    Remove { name: Name },
    RemoveDir { name: Name, ino: Ino },
    Move { from: Name, to: Name, ino: Ino },
}

impl EntryOp {
    fn changes(&self) -> impl Iterator<Item = &Name> {
        let (first, second) = match self {
            Self::Add { name, .. } | Self::Remove { name } | Self::RemoveDir { name, .. } => (name, None),
            Self::Move { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }

    /// Whether it could not have happened without `earlier`.
    fn continues(&self, earlier: &Self) -> bool {
        earlier.changes().any(|name| {
            self.changes().any(|own| own == name)
                || matches!(self, Self::RemoveDir { ino, .. } if *ino == name.0)
        })
    }

    /// The same, and also what a link owes to the making of the file that it names.
    fn builds_on(&self, earlier: &Self) -> bool {
        self.continues(earlier)
            || matches!(self, Self::Add { source: Some(source), .. }
                if earlier.changes().any(|name| name == source))
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Dir(Folder::default()))]),
            next: ROOT + 1,
            pending: Vec::new(),
        }
    }

    pub(super) fn node(&self, ino: Ino) -> io::Result<&Node> {
        self.nodes.get(&ino).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn file(&self, ino: Ino) -> io::Result<&File> {
        match self.node(ino)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_mut(&mut self, ino: Ino) -> io::Result<&mut File> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn folder(&self, ino: Ino) -> io::Result<&Folder> {
        match self.node(ino)? {
            Node::Dir(folder) => Ok(folder),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn folder_mut(&mut self, ino: Ino) -> io::Result<&mut Folder> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(folder)) => Ok(folder),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// What is at `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in names(path) {
            at = *self.folder(at)?.now.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The name `path` would have, whether or not something has it; its folder must be there.
    pub(super) fn name(&self, path: &Path) -> io::Result<Name> {
        let mut names = names(path);
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut at = ROOT;
        for name in names {
            at = *self.folder(at)?.now.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        self.folder(at)?;
        Ok((at, last.to_owned()))
    }

    fn named(&self, name: &Name) -> io::Result<Ino> {
        Ok(*self.folder(name.0)?.now.get(&name.1).ok_or(io::ErrorKind::NotFound)?)
    }

    fn free(&self, name: &Name) -> io::Result<()> {
        match self.folder(name.0)?.now.contains_key(&name.1) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    pub(super) fn create(&mut self, path: &Path, node: Node) -> io::Result<Ino> {
        let name = self.name(path)?;
        self.free(&name)?;
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        self.add(name, ino, None)?;
        Ok(ino)
    }

    fn add(&mut self, name: Name, ino: Ino, source: Option<Name>) -> io::Result<()> {
        self.folder_mut(name.0)?.now.insert(name.1.clone(), ino);
        if let Some(Node::File(file)) = self.nodes.get_mut(&ino) {
            file.links += 1;
        }
        self.wait(vec![name.0], EntryOp::Add { name, ino, source });
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        let ino = self.named(&from)?;
        self.file(ino).map_err(|_| io::ErrorKind::PermissionDenied)?;
        self.free(&to)?;
        self.add(to, ino, Some(from))
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if to != from && to.starts_with(from) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (from, to) = (self.name(from)?, self.name(to)?);
        let ino = self.named(&from)?;
        self.free(&to)?;
        self.folder_mut(from.0)?.now.remove(&from.1);
        self.folder_mut(to.0)?.now.insert(to.1.clone(), ino);
        let mut waits_for = vec![from.0, to.0];
        waits_for.dedup();
        self.wait(waits_for, EntryOp::Move { from, to, ino });
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        let ino = self.named(&name)?;
        self.file_mut(ino)?.links -= 1;
        self.folder_mut(name.0)?.now.remove(&name.1);
        self.wait(vec![name.0], EntryOp::Remove { name });
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let name = self.name(path)?;
        let ino = self.named(&name)?;
        if !self.folder(ino)?.now.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.folder_mut(name.0)?.now.remove(&name.1);
        self.wait(vec![name.0], EntryOp::RemoveDir { name, ino });
        Ok(())
    }

    fn wait(&mut self, waits_for: Vec<Ino>, entry: EntryOp) {
        self.pending.push(Pending { entry, waits_for });
    }

    /// Makes what was done in the folder `dir` durable (S2), and what that continues.
    pub(super) fn sync_dir(&mut self, dir: Ino) -> io::Result<()> {
        self.folder(dir)?;
        for pending in &mut self.pending {
            pending.waits_for.retain(|waited| *waited != dir);
        }
        let mut durable: Vec<bool> = self.pending.iter().map(|op| op.waits_for.is_empty()).collect();
        for (index, later) in self.pending.iter().enumerate().rev() {
            if durable[index] {
                for (mark, earlier) in durable.iter_mut().zip(&self.pending[..index]) {
                    *mark |= later.entry.continues(&earlier.entry);
                }
            }
        }
        self.settle(&durable);
        Ok(())
    }

    /// What was done in the folder `dir` is now called clean, and no sync of it will save it (S4).
    pub(super) fn fail_sync_dir(&mut self, dir: Ino) {
        for pending in &mut self.pending {
            if pending.waits_for.contains(&dir) {
                pending.waits_for.push(NEVER);
            }
        }
    }

    /// Makes the pending operations that `durable` marks durable, in their order.
    fn settle(&mut self, durable: &[bool]) {
        let mut marks = durable.iter();
        let (done, left) =
            std::mem::take(&mut self.pending).into_iter().partition(|_| marks.next().copied() == Some(true));
        self.pending = left;
        for Pending { entry, .. } in done {
            match entry {
                EntryOp::Add { name, ino, .. } => self.set_durable(name, Some(ino)),
                EntryOp::Remove { name } | EntryOp::RemoveDir { name, .. } => self.set_durable(name, None),
                EntryOp::Move { from, to, ino } => {
                    self.set_durable(from, None);
                    self.set_durable(to, Some(ino));
                }
            }
        }
    }

    fn set_durable(&mut self, (dir, name): Name, ino: Option<Ino>) {
        if let Some(Node::Dir(folder)) = self.nodes.get_mut(&dir) {
            match ino {
                Some(ino) => folder.durable.insert(name, ino),
                None => folder.durable.remove(&name),
            };
        }
    }

    /// The tree after a loss of power at which nothing unsynced survived.
    pub(super) fn lose_unsynced(&self) -> Self {
        self.after_power_loss(|file| file.lose_unsynced())
    }

    /// The tree after a loss of power at which `random` decided what unsynced survived; `keep` of 8
    /// do.
    pub(super) fn lose_some(&self, keep: u64, random: &SeededRandom) -> Self {
        let mut survives = Vec::<bool>::with_capacity(self.pending.len());
        for later in &self.pending {
            let mut earlier = self.pending.iter().zip(&survives);
            let possible = earlier.all(|(op, survived)| *survived || !later.entry.builds_on(&op.entry));
            survives.push(random.chance(keep, 8) && possible);
        }
        let mut folders = Self { nodes: BTreeMap::new(), next: self.next, pending: self.pending.clone() };
        for (ino, node) in &self.nodes {
            // Contents are looked up in `self` later: no need to clone them twice.
            if let Node::Dir(folder) = node {
                folders.nodes.insert(*ino, Node::Dir(folder.clone()));
            }
        }
        folders.settle(&survives);
        let contents = |ino: Ino| self.nodes.get(&ino);
        folders.rebuild(contents, |file| file.lose_some(keep, random))
    }

    fn after_power_loss(&self, content: impl Fn(&Content) -> Content) -> Self {
        self.rebuild(|ino| self.nodes.get(&ino), content)
    }

    /// What can be reached by durable names, with contents made by `content` from those in `files`.
    fn rebuild<'a>(
        &self,
        files: impl Fn(Ino) -> Option<&'a Node>,
        content: impl Fn(&Content) -> Content,
    ) -> Self {
        let mut nodes = BTreeMap::<Ino, Node>::new();
        let mut open = vec![ROOT];
        while let Some(ino) = open.pop() {
            if let Some(Node::File(known)) = nodes.get_mut(&ino) {
                known.links += 1;
                continue;
            }
            if let Some(Node::Dir(folder)) = self.nodes.get(&ino) {
                let entries = folder.durable.clone();
                open.extend(entries.values().rev());
                nodes.insert(ino, Node::Dir(Folder { now: entries.clone(), durable: entries }));
            } else if let Some(Node::File(file)) = files(ino) {
                let file = File { content: content(&file.content), links: 1, holes: file.holes };
                nodes.insert(ino, Node::File(file));
            }
        }
        Self { nodes, next: self.next, pending: Vec::new() }
    }

    /// The tree after the end of the process: all is there and as unsynced as before (S5, P5); only
    /// files that nothing names, now or after a loss of power, are gone.
    pub(super) fn kill(&self) -> Self {
        let mut named = BTreeSet::from([ROOT]);
        for node in self.nodes.values() {
            if let Node::Dir(folder) = node {
                named.extend(folder.now.values().chain(folder.durable.values()));
            }
        }
        for Pending { entry, .. } in &self.pending {
            if let EntryOp::Add { ino, .. } | EntryOp::Move { ino, .. } | EntryOp::RemoveDir { ino, .. } =
                entry
            {
                named.insert(*ino);
            }
        }
        let nodes = self.nodes.iter().filter(|(ino, _)| named.contains(ino));
        Self {
            nodes: nodes.map(|(ino, node)| (*ino, node.clone())).collect(),
            next: self.next,
            pending: self.pending.clone(),
        }
    }

    /// Bytes of all files that have a name; what is sparse counts in full.
    pub(super) fn used(&self) -> u64 {
        let len = |node: &Node| match node {
            Node::File(file) if file.links > 0 => file.content.len(),
            _ => 0,
        };
        self.nodes.values().map(len).sum()
    }

    /// Makes all that is pending durable: the set-up of a test.
    pub(super) fn settle_all(&mut self) {
        self.settle(&vec![true; self.pending.len()]);
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }
}

/// The names from the root to `path`.
pub(super) fn names(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => drop(names.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}
