//! The two records of a job in its log: a start, and the completion of a checkpoint.
//!
//! Owns their bytes. Does not own where they lie and which of them count (`history`).
//!
//! # In the log, version 1
//!
//! Both are entries of the kinds that `state` passes over. Numbers are varints unless a width is given;
//! `str` is a varint length and UTF-8; `n x (..)` is a varint count and as many of them.
//!
//! ```text
//!  start      | version: u8 | 16: u8 | incarnation | lineage: u32 | here | at: signed, ms since 1970
//!             | restored epoch, 0 for none | job: str | source: str | sink: str
//!             | n x (task's number, name: str) | n x (task's number, voids as state writes them)
//!  completion | version: u8 | 17: u8 | epoch | incarnation | kind: u8 | fingerprint: u64
//!             | at: signed, ms since 1970 | n x (task's name: str, lsn, lsn - floor, ended: u8)
//! ```

use std::collections::BTreeMap;
use std::fmt;

use crate::checkpoint::fingerprint::Fingerprint;
use crate::codec::DecodeError;
use crate::codec::Decoder;
use crate::codec::Encoder;
use crate::state::FOREIGN_KIND_MIN;
use crate::state::Snapshot;
use crate::state::Voids;
use crate::stream::BarrierKind;
use crate::stream::Epoch;
use crate::stream::Incarnation;
use crate::stream::Lineage;
use crate::stream::Lsn;
use crate::stream::TaskId;

/// The version that is written of either record.
const VERSION: u8 = 1;

/// The kind of a start record's entry.
pub(super) const START: u8 = FOREIGN_KIND_MIN;
/// The kind of a completion record's entry.
pub(super) const COMPLETION: u8 = FOREIGN_KIND_MIN + 1;

/// Why a checkpoint was made, and so what a start from it may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// On the way: more records were to come.
    Checkpoint,
    /// At a clean stop: rows that waited are in the state.
    Stop,
    /// At the end of the input: everything is committed or listed to be.
    End,
}

impl CompletionKind {
    /// Whether the job ends with it.
    pub fn is_final(self) -> bool {
        self != Self::Checkpoint
    }
}

impl From<BarrierKind> for CompletionKind {
    fn from(kind: BarrierKind) -> Self {
        match kind {
            BarrierKind::Checkpoint => Self::Checkpoint,
            BarrierKind::Stop => Self::Stop,
            BarrierKind::End => Self::End,
        }
    }
}

impl fmt::Display for CompletionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "checkpoint",
            Self::Stop => "stop",
            Self::End => "end",
        })
    }
}

/// A complete checkpoint: what each task's state was at its barrier. Small; the state is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionRecord {
    /// The checkpoint.
    pub epoch: Epoch,
    /// The start whose void ranges it is to be read by: the one that wrote it, or that restored it last.
    pub incarnation: Incarnation,
    /// Why it was made.
    pub kind: CompletionKind,
    /// The job's definition.
    pub fingerprint: Fingerprint,
    /// The state of each task, by name.
    pub tasks: BTreeMap<TaskId, TaskRecord>,
}

/// A task in a completion record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its state.
    pub snapshot: Snapshot,
    /// Its input had ended (P26).
    pub ended: bool,
}

/// A start of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRecord {
    /// Its number.
    pub incarnation: Incarnation,
    /// The state's random id.
    pub lineage: Lineage,
    /// The job's name.
    pub job: String,
    /// The source, in the one form that is compared (D6).
    pub source: String,
    /// The sink, in the one form that is compared (D6).
    pub sink: String,
    /// When it was, in milliseconds since 1970.
    pub at_ms: i64,
    /// The checkpoint it went on from.
    pub restored: Option<Epoch>,
    /// The end of the log before this start: what former starts appended lies below.
    pub here: Lsn,
    /// The number of each task in entries; numbers never change their task.
    pub tasks: BTreeMap<TaskId, u32>,
    /// What is not part of the state though it lies below a snapshot (P15), by the task's number.
    pub voids: BTreeMap<u32, Voids>,
}

impl CompletionRecord {
    /// The oldest position that a restore reads.
    pub fn floor(&self) -> Option<Lsn> {
        self.tasks.values().map(|task| task.snapshot.floor).min()
    }

    /// The bytes of its entry, when it is written at `at_ms`.
    pub(super) fn encode(&self, at_ms: i64) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        e.u8(COMPLETION).varint(self.epoch.0).varint(self.incarnation.0);
        e.u8(match self.kind {
            CompletionKind::Checkpoint => 0,
            CompletionKind::Stop => 1,
            CompletionKind::End => 2,
        });
        e.u64(self.fingerprint.0).signed(at_ms).varint(self.tasks.len() as u64);
        for (task, TaskRecord { snapshot, ended }) in &self.tasks {
            let span = snapshot.lsn.0.saturating_sub(snapshot.floor.0);
            e.str(task.as_str()).varint(snapshot.lsn.0).varint(span).u8(u8::from(*ended));
        }
        e.finish()
    }

    /// Reads what [`Self::encode`] made, and when it was written.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, i64), DecodeError> {
        let (mut d, _version) = Decoder::versioned(bytes, VERSION)?;
        if d.u8()? != COMPLETION {
            return Err(DecodeError::Invalid { at: 1, what: "not a completion record" });
        }
        let epoch = Epoch(d.varint()?);
        let incarnation = Incarnation(d.varint()?);
        let kind = match d.u8()? {
            0 => CompletionKind::Checkpoint,
            1 => CompletionKind::Stop,
            2 => CompletionKind::End,
            _ => return Err(DecodeError::Invalid { at: 2, what: "an unknown kind of checkpoint" }),
        };
        let fingerprint = Fingerprint(d.u64()?);
        let at_ms = d.signed()?;
        let mut tasks = BTreeMap::new();
        for _ in 0..d.count(4)? {
            let task = TaskId::new(d.str()?);
            let (lsn, span) = (d.varint()?, d.varint()?);
            let ended = match d.u8()? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Invalid { at: 2, what: "a task neither running nor ended" }),
            };
            let Some(floor) = lsn.checked_sub(span) else {
                return Err(DecodeError::Invalid { at: 2, what: "a floor below the start of all logs" });
            };
            let snapshot = Snapshot { lsn: Lsn(lsn), floor: Lsn(floor) };
            if tasks.insert(task, TaskRecord { snapshot, ended }).is_some() {
                return Err(DecodeError::Invalid { at: 2, what: "a task named twice" });
            }
        }
        d.finish()?;
        Ok((Self { epoch, incarnation, kind, fingerprint, tasks }, at_ms))
    }
}

impl StartRecord {
    /// The bytes of its entry.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::versioned(VERSION);
        e.u8(START).varint(self.incarnation.0).u32(self.lineage.0).varint(self.here.0).signed(self.at_ms);
        e.varint(self.restored.map_or(0, |epoch| epoch.0));
        e.str(&self.job).str(&self.source).str(&self.sink);
        e.varint(self.tasks.len() as u64);
        for (task, number) in &self.tasks {
            e.varint(u64::from(*number)).str(task.as_str());
        }
        e.varint(self.voids.len() as u64);
        for (number, voids) in &self.voids {
            e.varint(u64::from(*number));
            voids.encode(&mut e);
        }
        e.finish()
    }

    /// Reads what [`Self::encode`] made.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut d, _version) = Decoder::versioned(bytes, VERSION)?;
        if d.u8()? != START {
            return Err(DecodeError::Invalid { at: 1, what: "not a start record" });
        }
        let incarnation = Incarnation(d.varint()?);
        let lineage = Lineage(d.u32()?);
        let here = Lsn(d.varint()?);
        let at_ms = d.signed()?;
        let restored = Some(d.varint()?).filter(|epoch| *epoch > 0).map(Epoch);
        let (job, source, sink) = (d.str()?.to_owned(), d.str()?.to_owned(), d.str()?.to_owned());
        let mut tasks = BTreeMap::new();
        for _ in 0..d.count(2)? {
            let number = number(&mut d)?;
            tasks.insert(TaskId::new(d.str()?), number);
        }
        let mut voids = BTreeMap::new();
        for _ in 0..d.count(2)? {
            let number = number(&mut d)?;
            voids.insert(number, Voids::decode(&mut d)?);
        }
        d.finish()?;
        Ok(Self { incarnation, lineage, job, source, sink, at_ms, restored, here, tasks, voids })
    }
}

fn number(d: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    u32::try_from(d.varint()?)
        .map_err(|_| DecodeError::Invalid { at: 2, what: "a task's number of more than 32 bits" })
}
