//! One split on its way through the source: read, cut, decoded, handed on, in this order.
//!
//! ```text
//!  reading: a job or none        pieces: decode jobs in the split's order     record: handed on
//!  Reader --> Step ------------> [ ] [ ] [ ] ------------------------------> Read::Records
//!             read_mark stands behind the last piece                         record.mark: at most there
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::task::Context;
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::Error;
use crate::error::Result;
use crate::format::rejected;
use crate::source::file::content::is_compressed;
use crate::source::file::cut::Piece;
use crate::source::file::cut::What;
use crate::source::file::error::FileError;
use crate::source::file::mark::Mark;
use crate::source::file::reader::AtEnd;
use crate::source::file::reader::End;
use crate::source::file::reader::Reader;
use crate::source::file::reader::Step;
use crate::source::file::record::SplitRecord;
use crate::source::file::resolve::Known;
use crate::source::file::walk::Found;
use crate::stream::Batch;
use crate::stream::Rejected;
use crate::stream::SplitId;
use crate::stream::Stage;

/// A job of a pool: it is at work already, and gives its result once.
pub(super) type Job<T> = BoxFuture<'static, Result<T>>;

/// A split and all that is under way for it.
pub(super) struct Split {
    pub(super) id: SplitId,
    /// What the next snapshot says of it.
    pub(super) record: SplitRecord,
    /// Device and inode at the last look.
    pub(super) inode: Option<(u64, u64)>,
    /// Length of the file at the last look.
    pub(super) len: u64,
    /// Behind the last piece that was cut.
    pub(super) read_mark: Mark,
    /// The last piece that was cut ended without a line end.
    pub(super) read_unterminated: bool,
    /// Open, and not in a job.
    pub(super) reader: Option<Box<Reader>>,
    pub(super) reading: Option<Job<Step>>,
    /// What the end of the file means to the step under way, or the last one.
    pub(super) at_end: AtEnd,
    /// Bytes of the file that were read, compressed if it is.
    pub(super) raw: u64,
    /// Where the reader saw the end of the file; none while there is more to read.
    pub(super) end: Option<End>,
    /// The file has no name any more, only this reader.
    pub(super) nameless: bool,
    /// Device and inode of the file that seems to have taken the place of the one that is open.
    pub(super) outgoing: Option<(u64, u64)>,
    /// In line to be read, or at it.
    pub(super) busy: bool,
    pub(super) pieces: VecDeque<Decoding>,
}

/// A piece on its way.
pub(super) struct Decoding {
    pub(super) job: Job<Output>,
    pub(super) end: Mark,
    pub(super) unterminated: bool,
    /// Raw bytes that count against the read-ahead.
    pub(super) bytes: usize,
}

/// What became of a piece.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) batches: Vec<Batch>,
    pub(super) rejected: Vec<Rejected>,
    pub(super) records: u64,
}

impl Split {
    pub(super) fn new(id: SplitId, record: SplitRecord) -> Self {
        let end = record.ended.then_some(End { raw: record.raw, is_clean: true });
        Self {
            id,
            inode: None,
            len: 0,
            read_mark: record.mark,
            read_unterminated: record.unterminated,
            reader: None,
            reading: None,
            at_end: AtEnd::Finish,
            raw: record.raw,
            end,
            nameless: false,
            outgoing: None,
            busy: false,
            pieces: VecDeque::new(),
            record,
        }
    }

    /// A step of the reader, if there is one.
    pub(super) fn poll_reading(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step>> {
        let Some(job) = &mut self.reading else { return Poll::Pending };
        let step = std::task::ready!(job.poll_unpin(cx));
        self.reading = None;
        Poll::Ready(step)
    }

    /// The next decoded piece in the split's order; it counts as handed on from then on.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Output, usize)>> {
        let Some(front) = self.pieces.front_mut() else { return Poll::Pending };
        let output = std::task::ready!(front.job.poll_unpin(cx));
        let Some(piece) = self.pieces.pop_front() else { return Poll::Pending };
        let output = output?;
        self.record.mark = piece.end;
        self.record.unterminated = piece.unterminated;
        self.record.records += output.records;
        Poll::Ready(Ok((output, piece.bytes)))
    }

    /// Nothing is under way and nothing left to read, for now.
    pub(super) fn is_idle(&self) -> bool {
        self.reading.is_none() && self.pieces.is_empty() && self.end.is_some()
    }

    /// Whether a file of `len` bytes holds more than was read.
    pub(super) fn is_behind(&self, len: u64, compressed: bool) -> bool {
        match self.end {
            None => true,
            Some(end) if compressed => len != end.raw,
            Some(end) => len > end.raw,
        }
    }

    /// Refuses a file, `found` below `base`, that goes on behind a last line without an end that was taken for a
    /// record: what follows would be half a record.
    pub(super) fn may_go_on(&self, base: &Path, found: &Found) -> Result<(), FileError> {
        let compressed = is_compressed(&found.path);
        let position = self.read_mark.position;
        if self.read_unterminated
            && !compressed
            && self.is_behind(found.len, compressed)
            && found.len > position
        {
            return Err(FileError::GrewBehindTail { path: base.join(&found.path), position });
        }
        Ok(())
    }

    /// What is asked about its file.
    pub(super) fn known(&self, number: usize) -> Known {
        let record = SplitRecord { mark: self.read_mark, ..self.record.clone() };
        Known {
            number,
            record,
            read_to: self.end.map_or(0, |end| end.raw).max(self.read_mark.position),
            inode: self.inode,
            is_open: self.reader.is_some() || self.reading.is_some(),
        }
    }

    /// Bytes of its file that were handed on; of a compressed one those that were read.
    pub(super) fn bytes_read(&self, compressed: bool) -> u64 {
        match self.end {
            Some(end) if self.pieces.is_empty() => end.raw,
            _ if compressed => self.raw,
            _ => self.record.mark.position,
        }
    }
}

/// Decodes `piece` and lets `stage` at each batch. Runs as a job.
pub(super) fn decode(split: &SplitId, piece: What, stage: Option<&Stage>) -> Result<Output> {
    let failed = |error: Error| error.context(format_args!("split {split}"));
    match piece {
        What::Records { decoder, base, bytes } => {
            let decoded = decoder.decode(base, &bytes).map_err(failed)?;
            let mut batches = decoded.batches;
            if let Some(stage) = stage {
                batches =
                    batches.into_iter().map(|batch| stage(batch)).collect::<Result<_>>().map_err(failed)?;
            }
            batches.retain(|batch| batch.records.num_rows() > 0);
            Ok(Output { batches, rejected: decoded.rejected, records: decoded.records })
        }
        What::TooLong { position, raw, len, limit } => {
            let reason = format!("the record has {len} bytes, the limit is {limit} (record_limit)");
            let rejected = Rejected { raw_len: len, ..rejected(split, position, reason, &raw) };
            Ok(Output { batches: Vec::new(), rejected: vec![rejected], records: 1 })
        }
    }
}

impl Piece {
    /// Hands the piece to `run`, which starts the job.
    pub(super) fn start(self, run: impl FnOnce(What) -> Job<Output>) -> Decoding {
        Decoding { bytes: self.bytes(), end: self.end, unterminated: self.unterminated, job: run(self.what) }
    }
}
