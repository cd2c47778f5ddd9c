//! The live line of a run on a terminal.
//!
//! Log lines go above it, and through here, so that the two never share a line of the screen.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::time::Duration;

use alluvium::telemetry::Status;
use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

use crate::words::count;
use crate::words::duration;
use crate::words::thousands;

/// Time between two looks at the numbers.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// How much of the former rate stays at each look: it follows a change within a second or two.
const RATE_KEPT: f64 = 0.75;

/// Standard error, with a live line at its end where it is a terminal.
#[derive(Clone)]
pub(crate) struct Live {
    bar: Option<ProgressBar>,
}

impl Live {
    /// A live line if `wanted` and standard error is a terminal that people look at.
    pub(crate) fn new(wanted: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let shown = wanted && io::stderr().is_terminal() && !dumb;
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            bar.with_style(style("{spinner} {wide_msg}")).with_message("starting")
        });
        Self { bar }
    }

    /// Whether there is one.
    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Writes `text`, whole lines, above the live line.
    pub(crate) fn write(&self, text: &[u8]) {
        // Where standard error is closed there is nobody to tell.
        let write = || {
            let _unheard = io::stderr().lock().write_all(text);
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A writer of log lines.
pub(crate) struct LogLine {
    live: Live,
    line: Vec<u8>,
}

impl LogLine {
    pub(crate) fn new(live: Live) -> Self {
        Self { live, line: Vec::new() }
    }
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        self.live.write(&self.line);
    }
}

/// Turns the numbers of a job into the live line.
pub(crate) struct Progress {
    live: Live,
    /// The input has an end, and so its size is that of the whole work.
    bounded: bool,
    seen: Option<(Duration, u64)>,
    rate: f64,
}

impl Progress {
    pub(crate) fn new(live: Live, bounded: bool) -> Self {
        Self { live, bounded, seen: None, rate: 0.0 }
    }

    /// Shows `status`.
    pub(crate) fn show(&mut self, status: &Status) {
        let Some(bar) = &self.live.bar else { return };
        let records: u64 = status.sources.iter().map(|source| source.records).sum();
        if let Some((at, before)) = self.seen {
            let seconds = status.uptime.saturating_sub(at).as_secs_f64();
            if seconds > 0.0 {
                // A rate is shown with three digits.
                let now = records.saturating_sub(before) as f64 / seconds;
                self.rate = if before == 0 { now } else { self.rate * RATE_KEPT + now * (1.0 - RATE_KEPT) };
            }
        }
        self.seen = Some((status.uptime, records));
        let total: u64 = status.sources.iter().map(|source| source.bytes_total).sum();
        let read: u64 = status.sources.iter().map(|source| source.bytes_read).sum();
        let sized = self.bounded && total > 0;
        let template =
            if sized { "{spinner} [{bar:20}] {percent:>3}% {wide_msg}" } else { "{spinner} {wide_msg}" };
        bar.set_message(line(status, self.rate));
        if sized {
            bar.set_length(total);
            bar.set_position(read);
        }
        bar.set_style(style(template));
        bar.tick();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are our own; one that could not be read would only look otherwise.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.progress_chars("=> ")
}

fn line(status: &Status, rate: f64) -> String {
    // Not negative, and far below 2^53.
    let mut parts =
        vec![format!("{} rows/s", thousands(rate.round() as u64)), format!("epoch {}", status.epoch)];
    if let Some(table) = status.sinks.iter().find(|sink| sink.task.as_str() == "sink") {
        let (safe, visible) = (thousands(table.rows_safe), thousands(table.rows_visible));
        parts.push(format!("{safe} safe, {visible} visible"));
        parts.push(format!(
            "{} open, {} pending, {} committed",
            count(table.buckets_open, "bucket"),
            table.files_pending,
            count(table.files_committed, "file")
        ));
    }
    if status.dead_letters > 0 {
        parts.push(count(status.dead_letters, "dead letter"));
    }
    if status.restarts > 0 {
        parts.push(count(status.restarts, "restart"));
    }
    if let Some(age) = status.checkpoint_age {
        parts.push(format!("checkpoint {} ago", duration(age)));
    }
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium::stream::TaskId;
    use alluvium::telemetry::Metrics;

    #[test]
    fn the_line_tells_rate_epoch_files_and_what_went_wrong() {
        let clock = std::sync::Arc::new(alluvium::clock::SystemClock::new());
        let metrics = Metrics::new("clicks", clock);
        let table = metrics.sink(&TaskId::new("sink"));
        metrics.sink(&TaskId::new("dead-letters")).files_pending.set(99);
        table.buckets_open.set(24);
        table.files_pending.set(3);
        table.files_committed.add(48);
        table.rows_safe.set(1_234_567);
        metrics.epoch.set(7);
        assert_eq!(
            line(&metrics.status(), 12_345.4),
            "12,345 rows/s | epoch 7 | 1,234,567 safe, 0 visible | 24 buckets open, 3 pending, 48 files committed"
        );
        metrics.dead_letters.add(1);
        metrics.restarts.add(2);
        assert!(line(&metrics.status(), 0.0).ends_with("| 1 dead letter | 2 restarts"));
    }
}
