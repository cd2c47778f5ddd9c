//! Paths of a pipeline file: relative to its folder (D6), and out of each other's way.

use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use globset::GlobBuilder;
use globset::GlobMatcher;

use super::Check;
use super::LATER;
use crate::pipeline::model::FileSource;
use crate::pipeline::model::Pipeline;
use crate::pipeline::settings::SinkFormat;

impl Check {
    /// Refuses what names another system than this machine's disk.
    pub(super) fn local(&mut self, key: &str, path: &str) {
        if path.trim().is_empty() {
            self.refuse(key, "the path is empty", "");
        }
        if let Some((scheme, _)) = path.split_once("://") {
            self.refuse(
                key,
                format!("{scheme}:// paths: {LATER}"),
                "paths are those of a local disk, relative to the pipeline file or absolute",
            );
        }
        if path == "~" || path.starts_with("~/") {
            self.refuse(key, "`~` is not expanded here", "write ${HOME} for your home folder");
        }
        if path.contains('\0') {
            self.refuse(key, "a path cannot contain the character NUL", "");
        }
    }

    /// The folder that `path` names, absolute.
    pub(super) fn folder_path(&mut self, key: &str, path: &str) -> PathBuf {
        self.local(key, path);
        if path.contains(['*', '?']) {
            self.refuse(key, "this names one folder, it takes no pattern", "");
        }
        let absolute = normal(&self.folder.join(path));
        if absolute.parent().is_none() {
            self.refuse(key, "the root of the file system cannot be used for this", "");
        }
        absolute
    }

    /// Refuses a pattern that cannot be read.
    pub(super) fn pattern(&mut self, path: &str) {
        if let Err(error) = GlobBuilder::new(path).literal_separator(true).build() {
            self.refuse(
                "source.path",
                format!("the pattern is not valid: {}", error.kind()),
                "a backslash or [brackets] around it make a special character an ordinary one",
            );
        }
        if path.ends_with('/') {
            self.refuse("source.path", "the path names a folder", "name its files: path = \"data/*.ndjson\"");
        }
    }

    /// Refuses folders that lie inside of each other, and a source that would read what the job writes.
    pub(super) fn places_apart(&mut self, pipeline: &Pipeline) {
        let table = ("sink.path", pipeline.sink.path.as_path());
        let state = ("checkpoint.state", pipeline.checkpoint.state.as_path());
        let letters = pipeline.on_error.dead_letters.as_deref().map(|path| ("on_error.dead_letters", path));
        let mut pairs = vec![(state, table)];
        if let Some(letters) = letters {
            pairs.extend([(letters, table), (letters, state)]);
        }
        for (one, other) in pairs {
            self.apart(one, other);
        }
        self.not_read_back(pipeline);
    }

    fn apart(&mut self, one: (&str, &Path), other: (&str, &Path)) {
        if one.1.as_os_str().is_empty() || other.1.as_os_str().is_empty() {
            return;
        }
        let reason = if one.1 == other.1 {
            format!("{} and {} are the same folder", one.0, other.0)
        } else if one.1.starts_with(other.1) {
            format!("{} lies inside {}", one.0, other.0)
        } else if other.1.starts_with(one.1) {
            format!("{} lies inside {}", other.0, one.0)
        } else {
            return;
        };
        let help = if [one.0, other.0].contains(&"sink.path") {
            "readers take everything in the table's folder for rows: keep other things beside it"
        } else {
            "choose folders beside each other"
        };
        self.refuse(one.0, format!("{reason} ({})", one.1.display()), help);
    }

    fn not_read_back(&mut self, pipeline: &Pipeline) {
        let Some((matcher, fixed)) = source_pattern(&pipeline.source) else { return };
        let table = &pipeline.sink.path;
        let extension = match pipeline.sink.format {
            SinkFormat::Parquet => "parquet",
            SinkFormat::Ndjson => "ndjson",
            SinkFormat::Csv => "csv",
        };
        let levels: PathBuf = pipeline.sink.partition_by.iter().map(|_| "level=value").collect();
        let part = format!("part-00000000-1-0-0.{extension}");
        let written: [(&str, PathBuf); 2] =
            [("sink.path", table.join(&levels).join(&part)), ("sink.path", table.join(&part))];
        let letter = pipeline
            .on_error
            .dead_letters
            .as_ref()
            .map(|path| ("on_error.dead_letters", path.join("part-00000000-1-0-0.ndjson")));
        let state = &pipeline.checkpoint.state;
        let kept: [(&str, PathBuf); 3] = [
            ("checkpoint.state", state.join("lock")),
            ("checkpoint.state", state.join("log/00000000.wal")),
            ("the pipeline file", pipeline.file.clone()),
        ];
        let hit = written.into_iter().chain(letter).chain(kept).find(|(_, sample)| matcher.is_match(sample));
        if let Some((key, sample)) = hit {
            self.refuse(
                "source.path",
                format!("source.path matches what the job itself keeps under {key} ({})", sample.display()),
                "narrow the pattern, or move one of the two",
            );
        } else if !table.as_os_str().is_empty() && fixed.starts_with(table) {
            self.refuse(
                "source.path",
                format!("source.path lies inside sink.path ({})", table.display()),
                "the table holds the job's own files only: move one of the two",
            );
        }
    }
}

/// The source's pattern as an absolute one, and the folder before its first wildcard.
fn source_pattern(source: &FileSource) -> Option<(GlobMatcher, PathBuf)> {
    let wild = |part: &str| part.contains(['*', '?', '[', '{']);
    let mut parts: Vec<String> = Vec::new();
    let absolute = source.path.starts_with('/');
    if !absolute {
        parts.extend(
            source
                .base
                .components()
                .filter(|part| matches!(part, Component::Normal(_)))
                .map(|part| globset::escape(&part.as_os_str().to_string_lossy())),
        );
    }
    let base_parts = parts.len();
    for part in source.path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part.to_owned());
        }
    }
    let matcher = GlobBuilder::new(&format!("/{}", parts.join("/")))
        .literal_separator(true)
        .build()
        .ok()?
        .compile_matcher();
    let kept = base_parts.min(parts.len());
    let mut fixed = PathBuf::from("/");
    for (at, part) in parts.iter().enumerate() {
        if at >= kept && wild(part) {
            break;
        }
        // The base's own parts were escaped for the pattern only.
        fixed.push(
            part.replace("[[]", "[")
                .replace("[]]", "]")
                .replace("[*]", "*")
                .replace("[?]", "?")
                .replace("[{]", "{")
                .replace("[}]", "}"),
        );
    }
    Some((matcher, fixed))
}

/// `path` without `.` and `..`, by its text alone.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}
