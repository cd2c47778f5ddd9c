//! What is said of a job is what it counted, under the documented names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::stream::TaskId;

const DOCS: &str = include_str!("../../docs/metrics.md");

fn metrics() -> Metrics {
    Metrics::new("cl\"icks", Arc::new(ManualClock::starting_at(Timestamp::UNIX_EPOCH)))
}

/// The rows of the tables in the docs: name, kind, labels, meaning.
fn documented() -> Vec<[String; 4]> {
    let rows = DOCS.lines().filter(|line| line.starts_with("| `alluvium_"));
    rows.map(|row| {
        let cells: Vec<String> =
            row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("four cells: {cells:?}"))
    })
    .collect()
}

#[test]
fn the_docs_list_each_metric_as_it_is() {
    let known: Vec<[String; 4]> = descriptions()
        .map(|described| {
            let labels = described.of.labels().join(", ");
            [described.name.into(), described.kind.as_str().into(), labels, described.help.replace('`', "")]
        })
        .collect();
    let wanted = || {
        let rows = known.iter().map(|[name, kind, labels, help]| {
            let labels: Vec<_> = labels.split(", ").map(|label| format!("`{label}`")).collect();
            format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
        });
        rows.collect::<Vec<_>>().join("\n")
    };
    assert!(documented() == known, "docs/metrics.md should have these rows:\n{}", wanted());
}

#[test]
fn names_are_unique_and_follow_the_conventions() {
    let mut seen = BTreeSet::new();
    for described in descriptions() {
        let name = described.name;
        assert!(seen.insert(name), "{name} twice");
        assert_eq!(name.ends_with("_total"), described.kind == Kind::Counter, "{name}");
        assert!(described.help.ends_with('.'), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_form_has_each_number_once_with_its_labels() {
    let metrics = metrics();
    let source = metrics.source(&TaskId::new("source"));
    source.records.add(41);
    metrics.source(&TaskId::new("source")).records.add(1);
    source.bytes_total.set(100);
    source.bytes_read.set(60);
    metrics.sink(&TaskId::new("sink")).rows_visible.set(7);
    metrics.sink(&TaskId::new("dead-letters")).rows_visible.set(8);

    let text = metrics.to_prometheus();
    assert!(!text.contains("checkpoint_age"), "there is no checkpoint yet");
    metrics.checkpoint_completed(Duration::from_millis(250));
    metrics.checkpoint_completed(Duration::from_millis(500));
    metrics_clock_passes(&metrics, Duration::from_secs(3)).await;
    let text = metrics.to_prometheus();
    for line in [
        "# TYPE alluvium_source_records_total counter",
        "alluvium_source_records_total{job=\"cl\\\"icks\",source=\"source\"} 42",
        "alluvium_source_lag_bytes{job=\"cl\\\"icks\",source=\"source\"} 40",
        "alluvium_sink_visible_rows{job=\"cl\\\"icks\",sink=\"sink\"} 7",
        "alluvium_sink_visible_rows{job=\"cl\\\"icks\",sink=\"dead-letters\"} 8",
        "alluvium_checkpoint_duration_seconds_sum{job=\"cl\\\"icks\"} 0.75",
        "alluvium_checkpoint_duration_seconds_count{job=\"cl\\\"icks\"} 2",
        "alluvium_checkpoint_last_duration_seconds{job=\"cl\\\"icks\"} 0.5",
        "alluvium_checkpoint_age_seconds{job=\"cl\\\"icks\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    for described in descriptions() {
        let header = format!("# HELP {} {}\n", described.name, described.help);
        assert_eq!(text.matches(&header).count(), 1, "{}", described.name);
    }
    let mut samples = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(samples.insert(sample), "{sample} twice");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_is_what_was_counted() {
    let metrics = metrics();
    metrics.epoch.set(9);
    metrics.dead_letters.add(2);
    metrics.source(&TaskId::new("source")).splits_open.set(3);
    metrics.sink(&TaskId::new("sink")).files_pending.set(4);
    metrics_clock_passes(&metrics, Duration::from_secs(5)).await;
    let status = metrics.status();
    assert_eq!((status.epoch, status.dead_letters, status.checkpoint_age), (9, 2, None));
    assert_eq!(status.uptime, Duration::from_secs(5));
    assert_eq!((status.sources.len(), status.sources[0].splits_open), (1, 3));
    assert_eq!((status.sinks.len(), status.sinks[0].files_pending), (1, 4));
}

async fn metrics_clock_passes(_: &Metrics, time: Duration) {
    ManualClock::starting_at(Timestamp::UNIX_EPOCH).sleep(time).await;
}
