//! What a start does with each part file: the whole table of recovery as one pure function.
//!
//! Owns the verdict only; `plan` looks at the disk and `writer` acts. Nothing is changed before every
//! file was judged and none is [`Verdict::Damage`].
//!
//! ```text
//!  recorded     hidden   target             verdict
//!  in progress  yes      no                 long enough and the prefix right: cut, go on; else damage
//!  in progress  no       any                nothing recorded in it yet: go on; else damage
//!  in progress  yes      yes                damage: foreign target (its roll could never commit)
//!  pending      yes      no                 whole: commit; else damage
//!  pending      no       yes                whole: done (once synced); else damage
//!  pending      yes      yes                the same file: unlink the hidden name; else damage: foreign
//!  pending      no       no                 lost (C4)
//!  nothing      yes      any                ours and of a lower incarnation: delete; else leave
//!  nothing      no       any                leave
//! ```

/// What the restored checkpoint says of a file (P1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It names no such file.
    Nothing {
        /// The name holds our lineage and an incarnation below ours.
        ours_before: bool,
    },
    /// It is being written; this much is valid.
    InProgress {
        /// Valid bytes.
        len: u64,
        /// CRC-32 of them.
        crc: u32,
    },
    /// It was closed and waits to become visible.
    Pending {
        /// Its length.
        len: u64,
        /// CRC-32 of the whole file.
        crc: u32,
    },
}

/// What is there under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Length in bytes.
    pub len: u64,
    /// CRC-32 of as many bytes as the checkpoint records; `None` when the file is shorter.
    pub prefix_crc: Option<u32>,
    /// Device and inode.
    pub id: (u64, u64),
}

/// What to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Cut it to the recorded length and append to it.
    Cut {
        /// The recorded length.
        to: u64,
    },
    /// Nothing was written yet: begin it when the first bytes come.
    Begin,
    /// Give it its name in the table.
    Commit,
    /// It has it already: sync file and folder, then it counts.
    Done,
    /// It has both names: sync the target's folder, then remove the hidden one.
    Unlink,
    /// It is gone under both names (C4).
    Lost,
    /// Remove the hidden name.
    Delete,
    /// Not ours to touch.
    Leave,
    /// A person has to decide.
    Damage(Damage),
}

/// Why a person has to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The file is gone, though the checkpoint holds bytes of it.
    Missing,
    /// It holds fewer bytes than were acknowledged (P3).
    Short {
        /// Recorded.
        want: u64,
        /// Found.
        found: u64,
    },
    /// A closed file grew.
    Long {
        /// Recorded.
        want: u64,
        /// Found.
        found: u64,
    },
    /// Its bytes are not those that were acknowledged.
    Changed,
    /// Another file has its name in the table (C5).
    Foreign,
}

/// Judges one part file.
pub fn judge(recorded: Recorded, hidden: Option<Found>, target: Option<Found>) -> Verdict {
    match (recorded, hidden, target) {
        (Recorded::Nothing { ours_before: true }, Some(_), _) => Verdict::Delete,
        (Recorded::Nothing { .. }, _, _) => Verdict::Leave,

        (Recorded::InProgress { .. }, Some(_), Some(_)) => Verdict::Damage(Damage::Foreign),
        (Recorded::InProgress { len: 0, .. }, None, None) => Verdict::Begin,
        (Recorded::InProgress { len: 0, .. }, None, Some(_)) => Verdict::Damage(Damage::Foreign),
        (Recorded::InProgress { .. }, None, _) => Verdict::Damage(Damage::Missing),
        (Recorded::InProgress { len, crc }, Some(hidden), None) => match hidden.prefix_crc {
            None => Verdict::Damage(Damage::Short { want: len, found: hidden.len }),
            Some(found) if found != crc => Verdict::Damage(Damage::Changed),
            Some(_) => Verdict::Cut { to: len },
        },

        (Recorded::Pending { len, crc }, Some(hidden), None) => whole(len, crc, hidden, Verdict::Commit),
        (Recorded::Pending { len, crc }, None, Some(target)) => {
            match whole(len, crc, target, Verdict::Done) {
                Verdict::Damage(Damage::Changed) => Verdict::Damage(Damage::Foreign),
                verdict => verdict,
            }
        }
        (Recorded::Pending { len, crc }, Some(hidden), Some(target)) if hidden.id == target.id => {
            whole(len, crc, target, Verdict::Unlink)
        }
        (Recorded::Pending { .. }, Some(_), Some(_)) => Verdict::Damage(Damage::Foreign),
        (Recorded::Pending { .. }, None, None) => Verdict::Lost,
    }
}

/// `good` when `found` is exactly the closed file.
fn whole(len: u64, crc: u32, found: Found, good: Verdict) -> Verdict {
    match found.prefix_crc {
        None => Verdict::Damage(Damage::Short { want: len, found: found.len }),
        Some(prefix) if prefix != crc => Verdict::Damage(Damage::Changed),
        Some(_) if found.len > len => Verdict::Damage(Damage::Long { want: len, found: found.len }),
        Some(_) => good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRC: u32 = 7;
    const PART: Recorded = Recorded::InProgress { len: 10, crc: CRC };
    const NEW: Recorded = Recorded::InProgress { len: 0, crc: 0 };
    const PENDING: Recorded = Recorded::Pending { len: 10, crc: CRC };
    const OURS: Recorded = Recorded::Nothing { ours_before: true };
    const OTHER: Recorded = Recorded::Nothing { ours_before: false };

    fn file(len: u64, crc: u32, inode: u64) -> Option<Found> {
        Some(Found { len, prefix_crc: (len >= 10).then_some(crc), id: (1, inode) })
    }

    #[test]
    fn every_row_of_the_table_has_its_verdict() {
        use Damage::Changed;
        use Damage::Foreign;
        use Damage::Missing;
        use Verdict::Begin;
        use Verdict::Commit;
        use Verdict::Cut;
        use Verdict::Delete;
        use Verdict::Done;
        use Verdict::Leave;
        use Verdict::Lost;
        use Verdict::Unlink;
        let good = file(10, CRC, 1);
        let long = file(12, CRC, 1);
        let short = file(9, CRC, 1);
        let changed = file(10, 8, 1);
        let other = file(10, CRC, 2);
        let damage_short = Verdict::Damage(Damage::Short { want: 10, found: 9 });
        let damage_long = Verdict::Damage(Damage::Long { want: 10, found: 12 });
        let empty = Some(Found { len: 3, prefix_crc: Some(0), id: (1, 1) });
        for (row, (recorded, hidden, target, verdict)) in [
            (PART, good, None, Cut { to: 10 }),
            (PART, long, None, Cut { to: 10 }),
            (PART, short, None, damage_short),
            (PART, changed, None, Verdict::Damage(Changed)),
            (PART, None, None, Verdict::Damage(Missing)),
            (PART, None, good, Verdict::Damage(Missing)),
            (PART, good, other, Verdict::Damage(Foreign)),
            (PART, good, good, Verdict::Damage(Foreign)),
            (NEW, None, None, Begin),
            (NEW, None, good, Verdict::Damage(Foreign)),
            (NEW, empty, None, Cut { to: 0 }),
            (NEW, empty, good, Verdict::Damage(Foreign)),
            (PENDING, good, None, Commit),
            (PENDING, long, None, damage_long),
            (PENDING, short, None, damage_short),
            (PENDING, changed, None, Verdict::Damage(Changed)),
            (PENDING, None, good, Done),
            (PENDING, None, long, damage_long),
            (PENDING, None, short, damage_short),
            (PENDING, None, changed, Verdict::Damage(Foreign)),
            (PENDING, good, good, Unlink),
            (PENDING, changed, changed, Verdict::Damage(Changed)),
            (PENDING, good, other, Verdict::Damage(Foreign)),
            (PENDING, None, None, Lost),
            (OURS, good, None, Delete),
            (OURS, good, good, Delete),
            (OURS, good, other, Delete),
            (OURS, None, good, Leave),
            (OURS, None, None, Leave),
            (OTHER, good, None, Leave),
            (OTHER, good, good, Leave),
            (OTHER, None, good, Leave),
            (OTHER, None, None, Leave),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(judge(recorded, hidden, target), verdict, "row {row}");
        }
    }

    #[test]
    fn nothing_that_a_checkpoint_names_is_ever_deleted_or_left() {
        let found =
            [None, file(9, CRC, 1), file(10, CRC, 1), file(10, CRC, 2), file(10, 8, 1), file(12, CRC, 1)];
        for recorded in [PART, NEW, PENDING] {
            for hidden in found {
                for target in found {
                    let verdict = judge(recorded, hidden, target);
                    assert!(!matches!(verdict, Verdict::Delete | Verdict::Leave), "{recorded:?} {verdict:?}");
                }
            }
        }
    }

    #[test]
    fn only_a_file_that_is_there_is_acted_upon() {
        let found = [None, file(10, CRC, 1), file(10, CRC, 2)];
        for recorded in [PART, NEW, PENDING, OURS, OTHER] {
            for hidden in found {
                for target in found {
                    match judge(recorded, hidden, target) {
                        Verdict::Cut { .. } | Verdict::Commit | Verdict::Delete => assert!(hidden.is_some()),
                        Verdict::Done => assert!(target.is_some() && hidden.is_none()),
                        Verdict::Unlink => assert!(target.is_some() && hidden.is_some()),
                        Verdict::Begin | Verdict::Lost | Verdict::Leave | Verdict::Damage(_) => {}
                    }
                }
            }
        }
    }
}
