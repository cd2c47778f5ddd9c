//! The Prometheus text form, version 0.0.4.

use std::fmt::Write;
use std::time::Duration;

use crate::telemetry::metrics::Metrics;
use crate::telemetry::names::Description;
use crate::telemetry::names::JOB;
use crate::telemetry::names::Read;
use crate::telemetry::names::SINK;
use crate::telemetry::names::SOURCE;
use crate::telemetry::names::Value;

/// What an HTTP answer with this text says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// All numbers as Prometheus reads them.
    pub fn to_prometheus(&self) -> String {
        let job = label("job", self.job());
        let mut text = String::with_capacity(8 << 10);
        family(&mut text, JOB, &[(job.clone(), self)]);
        let sources = self.sources();
        let sources: Vec<_> = sources
            .iter()
            .map(|(task, metrics)| (format!("{job},{}", label("source", task.as_str())), metrics.as_ref()))
            .collect();
        family(&mut text, SOURCE, &sources);
        let sinks = self.sinks();
        let sinks: Vec<_> = sinks
            .iter()
            .map(|(task, metrics)| (format!("{job},{}", label("sink", task.as_str())), metrics.as_ref()))
            .collect();
        family(&mut text, SINK, &sinks);
        text
    }
}

/// Each metric of `reads` with its values of all `things`, which come with their labels.
fn family<T>(text: &mut String, reads: &[Read<T>], things: &[(String, &T)]) {
    for (described, read) in reads {
        let values: Vec<(&str, Value)> = things
            .iter()
            .map(|(labels, thing)| (labels.as_str(), read(thing)))
            .filter(|(_, value)| *value != Value::Absent)
            .collect();
        if !values.is_empty() {
            metric(text, described, &values);
        }
    }
}

fn metric(text: &mut String, described: &Description, values: &[(&str, Value)]) {
    let name = described.name;
    let help = described.help.replace('\\', "\\\\").replace('\n', "\\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(line);
        text.push('\n');
    };
    line(format_args!("# HELP {name} {help}"));
    line(format_args!("# TYPE {name} {}", described.kind.as_str()));
    for (labels, value) in values {
        match value {
            Value::Whole(value) => line(format_args!("{name}{{{labels}}} {value}")),
            Value::Seconds(value) => line(format_args!("{name}{{{labels}}} {}", seconds(*value))),
            Value::Summary { count, sum } => {
                line(format_args!("{name}_sum{{{labels}}} {}", seconds(*sum)));
                line(format_args!("{name}_count{{{labels}}} {count}"));
            }
            Value::Absent => {}
        }
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}
