//! How far a file sink is: sums that are carried on, since the ledger is too long to be read each time.

use crate::sink::SinkStatus;
use crate::sink::file::part::ClosedPart;
use crate::sink::file::part::InProgressPart;
use crate::sink::file::writer::FileWriter;

/// Sums over the life of the job.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sums {
    /// Rows taken.
    rows: u64,
    files_pending: u64,
    files_visible: u64,
    rows_visible: u64,
    bytes_visible: u64,
}

impl Sums {
    /// Rows were taken.
    pub(super) fn took(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// A restored file in progress holds rows that were taken before.
    pub(super) fn resumed(&mut self, part: &InProgressPart) {
        self.rows += part.content.rows + part.spilled.rows;
    }

    /// So does one that waits for its commit.
    pub(super) fn found_pending(&mut self, part: &ClosedPart) {
        self.rows += part.content.rows;
        self.closed();
    }

    /// And one that is in the ledger.
    pub(super) fn found_committed(&mut self, part: &ClosedPart) {
        self.found_pending(part);
        self.committed(part);
    }

    /// A file was closed.
    pub(super) fn closed(&mut self) {
        self.files_pending += 1;
    }

    /// It became visible.
    pub(super) fn committed(&mut self, part: &ClosedPart) {
        self.files_pending = self.files_pending.saturating_sub(1);
        self.files_visible += 1;
        self.rows_visible += part.content.rows;
        self.bytes_visible += part.content.len;
    }
}

impl FileWriter {
    pub(super) fn sink_status(&self) -> SinkStatus {
        let stats = self.stats();
        let Sums { rows, files_pending, files_visible, rows_visible, bytes_visible } = self.sums;
        SinkStatus {
            rows,
            rows_visible,
            rows_buffered: stats.buffered_rows,
            rows_spilled: stats.spilled_rows,
            bytes_buffered: stats.buffered_bytes,
            buckets_open: self.buckets_open(),
            files_open: stats.open_parts,
            files_pending,
            files_visible,
            bytes_visible,
        }
    }
}
