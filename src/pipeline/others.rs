//! What lies in a job's tables and is not the job's own.
//!
//! Owns the words for it. Does not own what becomes of it: nothing, it is only told.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Result;
use crate::pipeline::model::Pipeline;
use crate::pipeline::tables::list;
use crate::pipeline::units::counted;
use crate::sink::file::PartName;
use crate::sink::file::resolve;
use crate::storage::Disk;
use crate::storage::Kind;
use crate::stream::Lineage;

/// A note for each table of `pipeline` in which another state has landed files: one of another lineage than
/// `ours`. Blocks.
///
/// A state directory that was removed takes its lineage with it: the next run has a new one, begins at the
/// beginning, and does not touch what lies there.
///
/// # Errors
///
/// [`crate::ErrorKind::Retry`] when a folder cannot be listed.
pub(super) fn notes(disk: &dyn Disk, pipeline: &Pipeline, ours: Option<Lineage>) -> Result<Vec<String>> {
    let letters = pipeline.on_error.dead_letters.as_deref().map(|path| ("folder of dead letters", path));
    let tables = [("table", pipeline.sink.path.as_path())];
    let mut notes = Vec::new();
    for (what, path) in tables.into_iter().chain(letters) {
        // What cannot be a folder is refused by the sink itself.
        let Ok(path) = resolve(disk, path) else { continue };
        let mut found = lineages(disk, &path)?;
        if let Some(ours) = ours {
            found.remove(&ours);
        }
        if found.is_empty() {
            continue;
        }
        let files = found.values().sum();
        let names: Vec<String> = found.keys().map(Lineage::to_string).collect();
        let states = if names.len() == 1 { "another state" } else { "other states" };
        notes.push(format!(
            "the {what} {} holds {} of {states} (lineage {}), and this job begins at the beginning: if its input is \
             the same, its rows will be there twice; to start over, remove the {what} as well",
            path.display(),
            counted(files, "file"),
            names.join(", ")
        ));
    }
    Ok(notes)
}

/// Part files below `table`, by the state that made them.
fn lineages(disk: &dyn Disk, table: &Path) -> Result<BTreeMap<Lineage, u64>> {
    let mut found = BTreeMap::new();
    walk(disk, table, |_, kind, name| {
        if let Some(part) = PartName::parse(name).filter(|_| kind == Kind::File) {
            *found.entry(part.lineage).or_default() += 1;
        }
    })?;
    Ok(found)
}

/// Hands everything below `table` that is no folder to `each`.
fn walk(disk: &dyn Disk, table: &Path, mut each: impl FnMut(&Path, Kind, &str)) -> Result<()> {
    let mut open = vec![table.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in list(disk, &folder)?.unwrap_or_default() {
            let path = folder.join(&entry.name);
            match (entry.kind, entry.name.to_str()) {
                (Kind::Dir, _) => open.push(path),
                (kind, Some(name)) => each(&path, kind, name),
                _ => {}
            }
        }
    }
    Ok(())
}
