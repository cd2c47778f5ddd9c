//! What a pipeline really guarantees: that of its weakest part, and why.

use std::fmt;

use crate::pipeline::model::Pipeline;
use crate::pipeline::settings::BadRecord;
use crate::pipeline::settings::Mode;

/// How often a record that the source can replay is in the result, after any number of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guarantee {
    /// Never twice, perhaps not at all.
    AtMostOnce,
    /// Never missing, perhaps twice.
    AtLeastOnce,
    /// Once.
    ExactlyOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtMostOnce => "at most once",
            Self::AtLeastOnce => "at least once",
            Self::ExactlyOnce => "exactly once",
        })
    }
}

/// What one part guarantees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The part, as the pipeline file calls it.
    pub name: String,
    /// Its guarantee.
    pub guarantee: Guarantee,
    /// Why it is that and not more or less.
    pub reason: String,
    /// How to get more; `None` at the top.
    pub raise: Option<String>,
}

/// What all parts guarantee, and the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In the direction of the stream.
    pub parts: Vec<Part>,
    /// What is true of the whole beside the guarantee, and worth knowing.
    pub notes: Vec<String>,
}

impl Report {
    /// The guarantee of the whole: the least of its parts.
    pub fn whole(&self) -> Guarantee {
        self.parts.iter().map(|part| part.guarantee).min().unwrap_or(Guarantee::ExactlyOnce)
    }

    /// The parts that keep the whole from a higher guarantee.
    pub fn weakest(&self) -> impl Iterator<Item = &Part> {
        let whole = self.whole();
        self.parts.iter().filter(move |part| part.guarantee == whole && whole != Guarantee::ExactlyOnce)
    }
}

impl Pipeline {
    /// What this pipeline guarantees.
    pub fn guarantees(&self) -> Report {
        let part = |name: &str, guarantee, reason: &str, raise: Option<&str>| Part {
            name: name.to_owned(),
            guarantee,
            reason: reason.to_owned(),
            raise: raise.map(str::to_owned),
        };
        let mut parts = vec![part(
            "source (file)",
            Guarantee::ExactlyOnce,
            "files can be read again from any recorded byte; one that shrank or was replaced is an error",
            None,
        )];
        if !self.transforms.is_empty() {
            parts.push(part(
                "transforms",
                Guarantee::ExactlyOnce,
                "they keep nothing in memory and give the same rows when a record is read again",
                None,
            ));
        }
        parts.push(match self.checkpoint.mode {
            Mode::ExactlyOnce => part(
                "checkpoints",
                Guarantee::ExactlyOnce,
                "positions, open files and what is to be committed are recorded together",
                None,
            ),
            Mode::AtLeastOnce => part(
                "checkpoints",
                Guarantee::AtLeastOnce,
                "checkpoint.mode is \"at_least_once\": after a failure records may be repeated",
                Some("set checkpoint.mode = \"exactly_once\", or leave it out"),
            ),
        });
        parts.push(part(
            "sink (file)",
            Guarantee::ExactlyOnce,
            "two-phase commit: a file becomes visible by one rename, after the checkpoint that names it is complete",
            None,
        ));
        let mut notes = vec![
            "the state lives on this machine's disk: if that disk is lost, a new state does not know what was landed already".to_owned(),
        ];
        match self.on_error.bad_record {
            BadRecord::Fail => notes.push(
                "a bad record stops the job and names its place (on_error.bad_record = \"fail\")".to_owned(),
            ),
            BadRecord::DeadLetter => {
                notes.push("bad records are landed as dead letters, exactly once like the others".to_owned())
            }
            BadRecord::Skip => notes
                .push("bad records are left out, and counted (on_error.bad_record = \"skip\")".to_owned()),
        }
        if !self.transforms.is_empty() {
            notes.push("rows that a filter drops are in no file".to_owned());
        }
        Report { parts, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::Guarantee;
    use super::Part;
    use super::Report;

    fn report(levels: &[Guarantee]) -> Report {
        let part = |(at, guarantee): (usize, &Guarantee)| Part {
            name: format!("part {at}"),
            guarantee: *guarantee,
            reason: String::new(),
            raise: None,
        };
        Report { parts: levels.iter().enumerate().map(part).collect(), notes: Vec::new() }
    }

    #[test]
    fn the_whole_guarantees_what_its_weakest_part_does() {
        use Guarantee::AtLeastOnce;
        use Guarantee::AtMostOnce;
        use Guarantee::ExactlyOnce;
        let all = [AtMostOnce, AtLeastOnce, ExactlyOnce];
        for source in all {
            for mode in all {
                for sink in all {
                    let whole = report(&[source, mode, sink]).whole();
                    assert!(whole <= source && whole <= mode && whole <= sink);
                    assert!([source, mode, sink].contains(&whole));
                }
            }
        }
    }

    #[test]
    fn the_weakest_parts_are_named_and_none_where_nothing_can_be_raised() {
        let mixed = report(&[Guarantee::ExactlyOnce, Guarantee::AtLeastOnce, Guarantee::AtLeastOnce]);
        let names: Vec<&str> = mixed.weakest().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["part 1", "part 2"]);
        assert_eq!(report(&[Guarantee::ExactlyOnce]).weakest().count(), 0);
    }
}
