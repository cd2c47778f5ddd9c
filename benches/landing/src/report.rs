//! Medians and ratios.

use crate::events::Order;
use crate::events::Sums;
use crate::measure::Run;

/// What the step's promise allows of anonymous memory.
const ANONYMOUS_MAX: u64 = 400_000_000;
/// Fewer checkpoints in a run say little about the price of one.
const CHECKPOINTS_MIN: u64 = 5;

/// All pairs with one order of events and one number of processors.
pub struct Case {
    order: Order,
    threads: usize,
    sums: Sums,
    bare: Vec<Run>,
    alluvium: Vec<Run>,
}

impl Case {
    pub fn new(order: Order, threads: usize, sums: Sums) -> Self {
        println!(
            "\n{} events, {:.0} MB, {} open bucket(s), {threads} processor(s)",
            sums.events,
            sums.bytes as f64 / 1e6,
            order.buckets()
        );
        println!(
            "{:<18} {:>8} {:>8} {:>10} {:>7} {:>8} {:>6} {:>7} {:>11}",
            "", "wall s", "CPU s", "rows/s", "MB/s", "anon MB", "files", "out MB", "checkpoints"
        );
        Self { order, threads, sums, bare: Vec::new(), alluvium: Vec::new() }
    }

    pub fn bare(&mut self, run: Run) {
        self.line("bare", &run);
        self.bare.push(run);
    }

    pub fn alluvium(&mut self, run: Run) {
        self.line("alluvium", &run);
        self.alluvium.push(run);
    }

    /// Prints medians and says whether `limit` is kept.
    pub fn print(&self, limit: Option<f64>) -> bool {
        for (name, runs) in [("bare, median", &self.bare), ("alluvium, median", &self.alluvium)] {
            if !runs.is_empty() {
                self.line(name, &median_run(runs));
            }
        }
        if self.bare.is_empty() || self.alluvium.is_empty() {
            return true;
        }
        let ratio = |of: fn(&Run) -> f64| {
            median(self.alluvium.iter().zip(&self.bare).map(|(alluvium, bare)| of(alluvium) / of(bare)))
        };
        let (wall, cpu) = (ratio(|run| run.wall_s), ratio(|run| run.cpu_s));
        println!("{:<18} {wall:>8.2} {cpu:>8.2}   (medians of the pairs' ratios)", "ratio");

        let Some(limit) = limit else { return true };
        let worst = self.alluvium.iter().map(|run| run.anonymous_max).max().unwrap_or(0);
        let fewest = self.alluvium.iter().map(|run| run.checkpoints.unwrap_or(0)).min().unwrap_or(0);
        // The step's promise is about processor time everywhere, about wall time on two processors.
        let kept = cpu <= limit
            && (self.threads < 2 || wall <= limit)
            && worst <= ANONYMOUS_MAX
            && fewest >= CHECKPOINTS_MIN;
        let verdict = if kept { "kept" } else { "MISSED" };
        println!(
            "limits {verdict} with {} bucket(s): ratio {limit}, {} MB anonymous (worst {}), {CHECKPOINTS_MIN} checkpoints (fewest {fewest})",
            self.order.buckets(),
            ANONYMOUS_MAX / 1_000_000,
            worst / 1_000_000
        );
        kept
    }

    fn line(&self, name: &str, run: &Run) {
        let rate = |amount: u64| amount as f64 / run.wall_s;
        println!(
            "{name:<18} {:>8.2} {:>8.2} {:>10.0} {:>7.0} {:>8.0} {:>6} {:>7.1} {:>11}",
            run.wall_s,
            run.cpu_s,
            rate(self.sums.events),
            rate(self.sums.bytes) / 1e6,
            run.anonymous_max as f64 / 1e6,
            run.landed.files,
            run.landed.bytes as f64 / 1e6,
            run.checkpoints.map_or("-".to_owned(), |count| count.to_string()),
        );
    }
}

fn median_run(runs: &[Run]) -> Run {
    let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
    let checkpoints = runs.iter().any(|run| run.checkpoints.is_some());
    Run {
        wall_s: of(|run| run.wall_s),
        cpu_s: of(|run| run.cpu_s),
        anonymous_max: of(|run| run.anonymous_max as f64) as u64,
        checkpoints: checkpoints.then(|| of(|run| run.checkpoints.unwrap_or(0) as f64) as u64),
        landed: runs.first().map(|run| run.landed).unwrap_or_default(),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}
