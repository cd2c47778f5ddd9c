//! What a segment's bytes mean: a good end, a torn tail to cut, or damage.
//!
//! Owns the verdict. Reading is `walk`'s, changing anything `open`'s.
//!
//! # The rule
//!
//! An append that was not acknowledged may be lost in any part. So the newest segment may end anywhere (W4),
//! and what is behind its last whole append is cut, unless something proves that more was acknowledged: a
//! later frame, seal or mark (W2), the manifest, a clean close. Then it is damage, and nothing is changed.
//! An error of the disk is never an end of the log.

use crate::stream::Lsn;

use super::WalError;
use super::frame::CLEAN;
use super::frame::Flaw;
use super::frame::Tally;
use super::manifest;
use super::segment::Segment;
use super::walk::Behind;
use super::walk::Point;
use super::walk::Walk;

/// What was seen of the newest segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Behind the last good frame.
    pub reached: Point,
    /// Why there is no further one.
    pub flaw: Flaw,
    /// Everything below was acknowledged, by the frames up to `reached`.
    pub acked: Lsn,
    /// Some of these frames were appended, and not copied by the opening that made the segment.
    pub touched: bool,
    /// What is behind.
    pub behind: Behind,
}

impl Tail {
    /// Nothing was appended to `segment` since it was made: an opening can go on in it as in a new one.
    pub(super) fn untouched(&self, segment: &Segment) -> bool {
        !self.touched
            && self.reached.open.is_none()
            && self.behind.seal.is_none()
            && self.behind.end == segment.life().offset(self.reached.at)
    }
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything below `end` counts; below `acked` it was acknowledged and is durable.
    Accept { end: Lsn, acked: Lsn, clean: bool },
    /// What is from `at` to `to` was acknowledged and is not there.
    Damage { at: Lsn, to: Lsn, what: Lost },
}

/// What proves that something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Somebody was told that it is durable.
    Acknowledged(Flaw),
    /// The log was closed, so that nothing can be torn.
    ClosedClean(Flaw),
}

/// Judges the newest segment of a log whose manifest says `state`.
pub(super) fn judge(state: &manifest::State, tail: &Tail) -> Verdict {
    let end = tail.reached.group();
    let acked = tail.acked.max(tail.behind.acked).max(state.end);
    if acked > end {
        return Verdict::Damage { at: end, to: acked, what: Lost::Acknowledged(tail.flaw) };
    }
    if !state.clean {
        return Verdict::Accept { end, acked, clean: false };
    }
    let sealed = |(header, tally): (super::frame::Header, Tally)| {
        header.has(CLEAN) && tally == tail.reached.tally && header.sequence == tail.reached.sequence
    };
    // A segment without appends is closed without a seal, and can be used again.
    let closed = match tail.behind.seal {
        Some(seal) => sealed(seal),
        None => !tail.touched,
    };
    if end == state.end && closed {
        Verdict::Accept { end, acked, clean: true }
    } else {
        Verdict::Damage { at: end, to: end, what: Lost::ClosedClean(tail.flaw) }
    }
}

/// Reads the newest segment to its end.
pub(super) fn look(segment: &Segment) -> Result<Tail, WalError> {
    let mut walk = Walk::new(segment, None);
    loop {
        if let Err(flaw) = walk.step()? {
            let (reached, acked, touched) = (walk.point(), walk.acked(), walk.touched());
            let behind = walk.look_behind(segment.header.zeroed)?;
            return Ok(Tail { reached, flaw, acked, touched, behind });
        }
    }
}

/// Verifies every frame of a segment that another one follows at `next` (W4).
pub(super) fn verify(segment: &Segment, next: &Segment) -> Result<Point, WalError> {
    let end = next.base();
    let mut walk = Walk::new(segment, Some(end));
    while walk.point().at < end {
        if let Err(flaw) = walk.step()? {
            return Err(damage(segment, walk.point().at, end, flaw.to_string()));
        }
    }
    let point = walk.point();
    let said = next.header.previous.map(|previous| previous.tally);
    if said != Some(point.tally)
        || next.header.sequence != point.sequence
        || next.header.group != point.group()
    {
        let what = format!(
            "its {} frames are not the ones that segment {} follows",
            point.tally.frames,
            next.life().number
        );
        return Err(damage(segment, segment.base(), end, what));
    }
    Ok(point)
}

/// Walks `segment` up to `at`, which is between two of its frames.
pub(super) fn point_at(segment: &Segment, at: Lsn) -> Result<Point, WalError> {
    let mut walk = Walk::new(segment, None);
    while walk.point().at < at {
        if let Err(flaw) = walk.step()? {
            return Err(damage(segment, walk.point().at, at, flaw.to_string()));
        }
    }
    if walk.point().at > at {
        let what = "a frame lies across a position that was acknowledged".to_owned();
        return Err(damage(segment, at, walk.point().at, what));
    }
    Ok(walk.point())
}

/// The error for damage in `segment` from `at` to `to`.
pub(super) fn damage(segment: &Segment, at: Lsn, to: Lsn, what: String) -> WalError {
    WalError::Damage { path: segment.path.clone(), offset: segment.life().offset(at), at, to, what }
}

/// The error of a verdict on `segment`.
pub(super) fn lost(segment: &Segment, tail: &Tail, at: Lsn, to: Lsn, what: Lost) -> WalError {
    let what = match what {
        Lost::Acknowledged(flaw) => format!("{flaw}, and what is missing was acknowledged as durable"),
        Lost::ClosedClean(flaw) => format!("{flaw}, and the log was closed, so that nothing can be torn"),
    };
    let offset = segment.life().offset(tail.reached.at);
    WalError::Damage { path: segment.path.clone(), offset, at, to, what }
}
