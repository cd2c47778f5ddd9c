//! `alluvium gc`.

use std::fmt::Write as _;

use alluvium::doors::Doors;
use alluvium::pipeline;
use alluvium::pipeline::GarbageCollection;
use alluvium::pipeline::Pipeline;
use alluvium::pipeline::ProcessEnvironment;

use crate::args::GcArgs;
use crate::exit::Exit;
use crate::message::say;
use crate::words::bytes;
use crate::words::count;

/// Removes the files that nothing needs.
pub(crate) fn gc(args: &GcArgs) -> alluvium::Result<Exit> {
    let doors = Doors::real();
    let pipeline = Pipeline::load(&*doors.disk, &args.file, &ProcessEnvironment)?;
    let done = pipeline::gc(&pipeline, &doors, args.dry_run)?;
    say(&told(&done, args.dry_run))?;
    Ok(Exit::Done)
}

fn told(done: &GarbageCollection, dry_run: bool) -> String {
    let (verb, would) = if dry_run { ("would remove", "would be removed") } else { ("removed", "removed") };
    let mut text = String::new();
    // Writing to a string does not fail.
    for (path, length) in &done.files {
        let _infallible = writeln!(text, "{verb} {} ({})", path.display(), bytes(*length));
    }
    for path in &done.folders {
        let _infallible = writeln!(text, "{verb} {} (an empty folder)", path.display());
    }
    for kept in &done.kept {
        let _infallible = writeln!(text, "kept {kept}");
    }
    let _infallible = match (done.files.len(), done.folders.len()) {
        (0, 0) => writeln!(text, "nothing to remove"),
        (files, _) => writeln!(text, "{}, {} {would}", count(files as u64, "file"), bytes(done.bytes())),
    };
    text
}
