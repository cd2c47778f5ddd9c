//! Names of part files and of the folder in which they wait.
//!
//! ```text
//!  part file    part-<lineage, 8 hex>-<incarnation>-<writer>-<sequence>.<extension>
//!  staging      <parent of the table>/.<table>.alluvium/<lineage>/<part file>
//!  committed    <table>/<bucket>/<part file>
//! ```
//!
//! # Invariants
//!
//! - **N1** No name is used twice: the lineage is a state directory's own, the incarnation grows durably
//!   at every start of the dataflow, and a writer counts its files within one (D1, C7).
//! - **N2** A file has the same name in staging and in the table (P1).

use std::fmt;
use std::path::Path;
use std::path::PathBuf;

use crate::stream::Incarnation;
use crate::stream::Lineage;

/// The identity of a part file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartName {
    /// The state directory it belongs to.
    pub lineage: Lineage,
    /// The run that began it.
    pub incarnation: Incarnation,
    /// The writer within the run.
    pub writer: u32,
    /// The file within the writer, from 1 on.
    pub sequence: u64,
    /// What follows the dot: `parquet`, `ndjson.gz`.
    pub extension: String,
}

/// What follows the dot of any part file: a copy that somebody made under `….parquet.bak` is not ours.
const EXTENSIONS: [&str; 7] = ["parquet", "ndjson", "ndjson.gz", "ndjson.zst", "csv", "csv.gz", "csv.zst"];

impl PartName {
    /// Reads a name back; `None` unless it is exactly one that [`fmt::Display`] writes for a format.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, extension) = name.strip_prefix("part-")?.split_once('.')?;
        let mut parts = stem.split('-');
        let parsed = Self {
            lineage: Lineage(u32::from_str_radix(parts.next()?, 16).ok()?),
            incarnation: Incarnation(parts.next()?.parse().ok()?),
            writer: parts.next()?.parse().ok()?,
            sequence: parts.next()?.parse().ok()?,
            extension: extension.to_owned(),
        };
        // Signs, leading zeros and upper case are other names.
        let ours = EXTENSIONS.contains(&extension) && parts.next().is_none() && parsed.to_string() == name;
        ours.then_some(parsed)
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lineage, incarnation, writer, sequence, extension } = self;
        write!(f, "part-{lineage}-{incarnation}-{writer}-{sequence}.{extension}")
    }
}

/// The folder beside `table` in which the files of all lineages wait (D2).
///
/// `None` when `table` has no name of its own, as `/` has none.
pub fn staging_root(table: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(table.file_name()?);
    name.push(".alluvium");
    Some(table.parent().unwrap_or(Path::new("")).join(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sink::file::Compression;
    use crate::sink::file::LineSettings;
    use crate::sink::file::PartFormat;

    proptest! {
        #[test]
        fn a_name_reads_back(lineage: u32, incarnation: u64, writer: u32, sequence: u64) {
            let name = PartName {
                lineage: Lineage(lineage),
                incarnation: Incarnation(incarnation),
                writer,
                sequence,
                extension: "ndjson.gz".to_owned(),
            };
            prop_assert_eq!(PartName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            let _ = PartName::parse(&text);
        }
    }

    #[test]
    fn names_that_we_do_not_write_are_not_ours() {
        assert!(PartName::parse("part-0000002a-1-0-7.parquet").is_some());
        for name in [
            "part-2a-1-0-7.parquet",
            "part-0000002A-1-0-7.parquet",
            "part-0000002a-01-0-7.parquet",
            "part-0000002a-+1-0-7.parquet",
            "part-0000002a-1-0-7",
            "part-0000002a-1-0-7-8.parquet",
            "part-0000002a-1-0.parquet",
            "part-0000002a-1-0-7.parquet.bak",
            "part-0000002a-1-0-7.parquet~",
            "part-0000002a-1-0-7.ndjson.moved",
            "lock",
            "part-0.parquet",
        ] {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_names_of_every_format_are_ours() {
        let mut known = Vec::new();
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            known.push(PartFormat::Ndjson(LineSettings { compression }).extension());
            known.push(PartFormat::Csv(LineSettings { compression }).extension());
        }
        known.push(PartFormat::default().extension());
        for extension in &known {
            let name = format!("part-0000002a-1-0-7.{extension}");
            assert!(PartName::parse(&name).is_some(), "{name}");
        }
        assert_eq!(known.len(), EXTENSIONS.len());
    }

    #[test]
    fn staging_lies_beside_the_table() {
        let root = |table: &str| staging_root(Path::new(table));
        assert_eq!(root("out/clicks"), Some(PathBuf::from("out/.clicks.alluvium")));
        assert_eq!(root("clicks"), Some(PathBuf::from(".clicks.alluvium")));
        assert_eq!(root("/"), None);
    }
}
