//! What is printed, and what is written for machines.

use std::path::Path;

use serde_json::Value;
use serde_json::json;

use crate::Result;
use crate::cell::Measured;
use crate::engines::Engine;
use crate::spread::Limit;
use crate::spread::Spread;
use crate::spread::Verdict;
use crate::workload::Work;
use crate::workload::Workload;

/// All rounds of one workload.
pub struct Case {
    workload: &'static Workload,
    /// The rounds of each engine, in the workload's order.
    runs: Vec<(Engine, Vec<Measured>)>,
}

impl Case {
    pub fn new(workload: &'static Workload) -> Self {
        println!("\n{}", workload.name);
        Self { workload, runs: workload.engines.iter().map(|engine| (*engine, Vec::new())).collect() }
    }

    pub fn add(&mut self, engine: Engine, measured: Measured) {
        if let Some((_, runs)) = self.runs.iter_mut().find(|(known, _)| *known == engine) {
            runs.push(measured);
        }
    }

    /// Prints medians, and says whether what must be reached was.
    pub fn print(&self) -> bool {
        for (engine, runs) in &self.runs {
            let rate = Spread::of(runs.iter().map(|run| self.value(run)));
            let syncs = self
                .syncs_per_commit(runs)
                .map_or(String::new(), |syncs| format!(", {:.3} syncs a commit", syncs.median));
            println!("  {:<14} {}{}{syncs}", engine.name(), self.show(rate), self.cpu(runs));
        }
        let (judged, what) = self.judged();
        let (Limit::Ratio { must, aim } | Limit::Millis { must, aim }) = self.workload.limit;
        let verdict = self.workload.limit.judge(judged.median);
        let said = match verdict {
            Verdict::Aim => "aim reached",
            Verdict::Must => "must kept, aim not",
            Verdict::Missed => "MISSED",
        };
        let Spread { median, min, max } = judged;
        println!("  {what}: {median:.2} ({min:.2} to {max:.2}), must {must}, aim {aim}: {said}");
        verdict != Verdict::Missed
    }

    /// What the limit is about.
    fn judged(&self) -> (Spread, String) {
        match self.workload.limit {
            Limit::Millis { .. } => {
                let values = self.runs_of(Engine::Alluvium).iter().map(|run| run.seconds * 1e3);
                (Spread::of(values), "ms".to_owned())
            }
            Limit::Ratio { .. } => {
                let names: Vec<_> = self.workload.baselines.iter().map(|engine| engine.name()).collect();
                (Spread::of(self.ratios()), format!("times {}", names.join(" or ")))
            }
        }
    }

    /// Of each round, Alluvium's rate to that of the best baseline in it.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.runs_of(Engine::Alluvium).iter().enumerate().filter_map(|(round, run)| {
            let baselines = self.workload.baselines.iter();
            let best = baselines.filter_map(|engine| self.runs_of(*engine).get(round));
            let best = best.map(|run| run.seconds).min_by(f64::total_cmp)?;
            Some(best / run.seconds)
        })
    }

    fn runs_of(&self, engine: Engine) -> &[Measured] {
        self.runs.iter().find(|(known, _)| *known == engine).map_or(&[], |(_, runs)| runs)
    }

    /// Processor time of a record, but of giving up: that should not depend on how many there are.
    fn cpu(&self, runs: &[Measured]) -> String {
        if let Work::GiveUp { .. } = self.workload.work {
            return String::new();
        }
        let micros = runs.iter().map(|run| run.cpu_seconds * 1e6 / self.records());
        format!(", {:.2} us CPU a record", Spread::of(micros).median)
    }

    fn syncs_per_commit(&self, runs: &[Measured]) -> Option<Spread> {
        let commits = self.workload.work.commits();
        let syncs: Option<Vec<_>> = runs.iter().map(|run| Some(run.syncs? as f64 / commits as f64)).collect();
        (commits > 0).then_some(Spread::of(syncs?))
    }

    fn records(&self) -> f64 {
        (self.workload.work.writers() * self.workload.work.each()) as f64
    }

    /// What a run is shown as: milliseconds, MB/s, batches/s or records/s.
    fn value(&self, run: &Measured) -> f64 {
        let records = self.records();
        match self.workload.work {
            Work::GiveUp { .. } => run.seconds * 1e3,
            Work::Replay { .. } => records * self.workload.size as f64 / 1e6 / run.seconds,
            Work::Batch { batches, .. } => batches as f64 / run.seconds,
            Work::Commit { .. } | Work::InFlight { .. } | Work::Append { .. } => records / run.seconds,
        }
    }

    fn unit(&self) -> (&'static str, usize) {
        match self.workload.work {
            Work::GiveUp { .. } => ("ms", 2),
            Work::Replay { .. } => ("MB/s", 0),
            Work::Batch { .. } => ("batches/s", 0),
            Work::Commit { .. } | Work::InFlight { .. } | Work::Append { .. } => ("records/s", 0),
        }
    }

    fn show(&self, Spread { median, min, max }: Spread) -> String {
        let (unit, digits) = self.unit();
        format!("{median:>11.digits$} {unit} ({min:.digits$} to {max:.digits$})")
    }

    fn json(&self) -> Value {
        let engine = |(engine, runs): &(Engine, Vec<Measured>)| {
            let rounds: Vec<_> = runs.iter().map(|run| run.json()).collect();
            let rate = spread(Spread::of(runs.iter().map(|run| self.value(run))));
            let syncs = self.syncs_per_commit(runs).map(|syncs| syncs.median);
            json!({ "engine": engine.name(), "value": rate, "syncs_per_commit": syncs, "rounds": rounds })
        };
        let engines: Vec<_> = self.runs.iter().map(engine).collect();
        let (judged, what) = self.judged();
        let (Limit::Ratio { must, aim } | Limit::Millis { must, aim }) = self.workload.limit;
        let verdict = format!("{:?}", self.workload.limit.judge(judged.median)).to_lowercase();
        json!({
            "workload": self.workload.name,
            "unit": self.unit().0,
            "engines": engines,
            "judged": { "what": what, "value": spread(judged), "must": must, "aim": aim, "verdict": verdict },
        })
    }
}

fn spread(Spread { median, min, max }: Spread) -> Value {
    json!({ "median": median, "min": min, "max": max })
}

/// Writes everything to the file at `path`.
pub fn write(path: &Path, cases: &[Case]) -> Result<()> {
    let cases: Vec<_> = cases.iter().map(Case::json).collect();
    Ok(std::fs::write(path, serde_json::to_string_pretty(&cases)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_to_the_best_baseline_of_the_same_round() {
        let workload = Workload::find("durable, 64 in flight, 100 B").unwrap();
        let mut case = Case::new(workload);
        let run = |seconds| Measured { seconds, cpu_seconds: 0.0, syncs: None, disk_read_bytes: 0 };
        for (alluvium, raft, fjall) in [(1.0, 2.0, 4.0), (2.0, 12.0, 6.0)] {
            case.add(Engine::Alluvium, run(alluvium));
            case.add(Engine::Raft, run(raft));
            case.add(Engine::Fjall, run(fjall));
            // Beside, not a baseline.
            case.add(Engine::Written, run(0.1));
        }
        assert_eq!(case.ratios().collect::<Vec<_>>(), [2.0, 3.0]);
        assert_eq!(case.judged().0, Spread { median: 2.5, min: 2.0, max: 3.0 });
    }
}
