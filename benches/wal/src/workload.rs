//! What is measured, on whom, and what Alluvium has to reach.
//!
//! Amounts are chosen so that a cell takes some tenths of a second, and that a log of 64 MiB segments goes
//! over to its next segment once or twice where the others' logs may do so too. OkayWAL's segments would
//! grow instead, which is slow: the batches stay below 64 MiB.

use std::ops::RangeInclusive;

use crate::Result;
use crate::engines::Engine;
use crate::spread::Limit;

/// What a cell does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Every writer is a thread; each record is an append and a sync of its own.
    Commit { writers: u64, each: u64 },
    /// One thread appends `flight` records, each an append of its own, then waits for all.
    InFlight { flight: u64, rounds: u64 },
    /// One thread appends `records` as one, durable.
    Batch { records: u64, batches: u64 },
    /// One thread appends records that survive the process only.
    Append { records: u64 },
    /// Opens a log that was not closed and reads everything; its files were taken out of memory first, or
    /// not.
    Replay { records: u64, cold: bool },
    /// Gives up the first nine tenths.
    GiveUp { records: u64 },
}

/// One line of the comparison.
#[derive(Debug)]
pub struct Workload {
    pub name: &'static str,
    pub work: Work,
    /// Bytes of a record.
    pub size: usize,
    pub limit: Limit,
    /// Who takes part; the limit is about the best of the baselines.
    pub engines: &'static [Engine],
    pub baselines: &'static [Engine],
}

/// How many records one append has where a log is filled to be read or given up.
pub const FILL_BATCH: u64 = 1000;
/// 256 MiB of 1 KiB records.
const FILL: u64 = 262_144;

const BARE: &[Engine] = &[Engine::Written];
const RAFT: &[Engine] = &[Engine::Raft];

pub const ALL: &[Workload] = &[
    Workload {
        name: "durable, 1 writer, 100 B",
        work: Work::Commit { writers: 1, each: 5000 },
        size: 100,
        limit: Limit::Ratio { must: 0.92, aim: 0.95 },
        engines: &[Engine::Alluvium, Engine::Written],
        baselines: BARE,
    },
    Workload {
        name: "durable, 1 writer, 1 KiB",
        work: Work::Commit { writers: 1, each: 5000 },
        size: 1 << 10,
        limit: Limit::Ratio { must: 0.92, aim: 0.95 },
        engines: &[Engine::Alluvium, Engine::Written],
        baselines: BARE,
    },
    Workload {
        name: "durable, 1 writer, 64 KiB",
        work: Work::Commit { writers: 1, each: 2000 },
        size: 64 << 10,
        limit: Limit::Ratio { must: 0.75, aim: 0.90 },
        engines: &[Engine::Alluvium, Engine::Written],
        baselines: BARE,
    },
    Workload {
        name: "durable, 64 writers, 100 B",
        work: Work::Commit { writers: 64, each: 1000 },
        size: 100,
        limit: Limit::Ratio { must: 1.35, aim: 1.5 },
        engines: &[Engine::Alluvium, Engine::Raft],
        baselines: RAFT,
    },
    Workload {
        name: "durable, 64 writers, 1 KiB",
        work: Work::Commit { writers: 64, each: 1000 },
        size: 1 << 10,
        limit: Limit::Ratio { must: 1.35, aim: 1.5 },
        engines: &[Engine::Alluvium, Engine::Raft],
        baselines: RAFT,
    },
    Workload {
        name: "durable, 64 in flight, 100 B",
        work: Work::InFlight { flight: 64, rounds: 2000 },
        size: 100,
        limit: Limit::Ratio { must: 2.3, aim: 2.6 },
        engines: &[Engine::Alluvium, Engine::Raft, Engine::Fjall, Engine::Written],
        baselines: &[Engine::Raft, Engine::Fjall],
    },
    Workload {
        name: "durable, 64 in flight, 1 KiB",
        work: Work::InFlight { flight: 64, rounds: 1500 },
        size: 1 << 10,
        limit: Limit::Ratio { must: 2.3, aim: 2.9 },
        engines: &[Engine::Alluvium, Engine::Raft, Engine::Fjall, Engine::Written],
        baselines: &[Engine::Raft, Engine::Fjall],
    },
    Workload {
        name: "durable, batch of 1000, 100 B",
        work: Work::Batch { records: 1000, batches: 600 },
        size: 100,
        limit: Limit::Ratio { must: 1.5, aim: 2.0 },
        engines: &[Engine::Alluvium, Engine::Okay, Engine::Written],
        baselines: &[Engine::Okay],
    },
    Workload {
        name: "process only, one segment, 100 B",
        work: Work::Append { records: 300_000 },
        size: 100,
        limit: Limit::Ratio { must: 3.0, aim: 10.0 },
        engines: &[Engine::Alluvium, Engine::Walrus, Engine::Mapped],
        baselines: &[Engine::Walrus],
    },
    Workload {
        name: "process only, roll-overs, 100 B",
        work: Work::Append { records: 1_000_000 },
        size: 100,
        limit: Limit::Ratio { must: 3.0, aim: 10.0 },
        engines: &[Engine::Alluvium, Engine::Walrus, Engine::Mapped],
        baselines: &[Engine::Walrus],
    },
    Workload {
        name: "replay cold, 1 KiB",
        work: Work::Replay { records: FILL, cold: true },
        size: 1 << 10,
        limit: Limit::Ratio { must: 1.4, aim: 2.4 },
        engines: &[Engine::Alluvium, Engine::Raft],
        baselines: RAFT,
    },
    Workload {
        name: "replay warm, 1 KiB",
        work: Work::Replay { records: FILL, cold: false },
        size: 1 << 10,
        limit: Limit::Ratio { must: 2.3, aim: 2.3 },
        engines: &[Engine::Alluvium, Engine::Raft],
        baselines: RAFT,
    },
    Workload {
        name: "give up nine tenths of 256 MiB",
        work: Work::GiveUp { records: FILL },
        size: 1 << 10,
        limit: Limit::Millis { must: 5.0, aim: 1.0 },
        engines: &[Engine::Alluvium, Engine::Raft],
        baselines: RAFT,
    },
];

impl Workload {
    pub fn find(name: &str) -> Result<&'static Self> {
        let found = ALL.iter().find(|workload| workload.name == name);
        Ok(found.ok_or_else(|| format!("{name:?} is no workload"))?)
    }
}

impl Work {
    pub fn writers(self) -> u64 {
        if let Self::Commit { writers, .. } = self { writers } else { 1 }
    }

    /// Records of each writer.
    pub fn each(self) -> u64 {
        match self {
            Self::Commit { each, .. } => each,
            Self::InFlight { flight, rounds } => flight * rounds,
            Self::Batch { records, batches } => records * batches,
            Self::Append { records } | Self::Replay { records, .. } | Self::GiveUp { records } => records,
        }
    }

    /// The first record that must still be there at the end.
    pub fn kept_from(self) -> u64 {
        if let Self::GiveUp { records } = self { records / 10 * 9 } else { 0 }
    }

    /// Which record may be the first one at the end: whole segments are given up, half of the log at least.
    pub fn first(self) -> RangeInclusive<u64> {
        self.kept_from() / 2..=self.kept_from()
    }

    /// Records in one call of the engine: as many different ones are made.
    pub fn at_once(self) -> u64 {
        match self {
            Self::InFlight { flight, .. } => flight,
            Self::Batch { records, .. } => records,
            Self::Replay { .. } | Self::GiveUp { .. } => FILL_BATCH,
            Self::Commit { .. } | Self::Append { .. } => 64,
        }
    }

    /// What somebody waits for: a durable answer, where there is one.
    pub fn commits(self) -> u64 {
        match self {
            Self::Commit { writers, each } => writers * each,
            Self::InFlight { rounds, .. } => rounds,
            Self::Batch { batches, .. } => batches,
            Self::Append { .. } | Self::Replay { .. } | Self::GiveUp { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_name_of_its_own_and_its_baselines_take_part() {
        for workload in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == workload.name).count(), 1);
            assert!(workload.engines.contains(&Engine::Alluvium), "{}", workload.name);
            assert!(!workload.baselines.is_empty(), "{}", workload.name);
            assert!(workload.baselines.iter().all(|engine| workload.engines.contains(engine)));
            assert!(!workload.baselines.contains(&Engine::Alluvium), "{}", workload.name);
        }
    }

    #[test]
    fn no_aim_is_below_what_must_be_reached() {
        for workload in ALL {
            match workload.limit {
                Limit::Ratio { must, aim } => assert!(aim >= must, "{}", workload.name),
                Limit::Millis { must, aim } => assert!(aim <= must, "{}", workload.name),
            }
        }
    }
}
