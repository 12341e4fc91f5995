//! What is counted and timed? Every metric, once, as `/metrics` explains it.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// What a metric is.
enum Kind {
    /// Something that happened, since the start.
    Count,
    /// Something as it is now.
    Level,
    /// How long something took, or how large it was; how often in which range.
    Range(Unit),
}
use Kind::{Count, Level, Range};

/// Kind, name and meaning of each.
const METRICS: &[(Kind, &str, &str)] = &[
    (Count, "cohort_requests_total", "HTTP requests answered, by route and status."),
    (Range(Unit::Seconds), "cohort_request_seconds", "Time to answer an HTTP request, by route."),
    (Level, "cohort_requests_waiting", "Requests that wait for the engine."),
    (
        Count,
        "cohort_decisions_total",
        "Decisions asked of the engine, by outcome: decided (also when asked for again with the \
         same id), or the code of the refusal.",
    ),
    (
        Count,
        "cohort_rewards_total",
        "Rewards told to the engine, by outcome: learned, repeated, or the code of the refusal.",
    ),
    (Count, "cohort_journal_events_total", "Events written to the journal."),
    (Range(Unit::Count), "cohort_journal_group_events", "Events that were written together."),
    (Range(Unit::Seconds), "cohort_journal_sync_seconds", "Time to sync the journal to the disk."),
    (Range(Unit::Seconds), "cohort_refit_seconds", "Time to fit what users have in common."),
    (Range(Unit::Seconds), "cohort_snapshot_seconds", "Time to write a snapshot."),
    (
        Range(Unit::Seconds),
        "cohort_snapshot_pause_seconds",
        "Time for which the engine stopped to mark what is in a snapshot.",
    ),
    (
        Range(Unit::Seconds),
        "cohort_look_seconds",
        "Time for which the engine was looked into, for pages and insight.",
    ),
];

/// Tells the recorder of this process what each metric means.
pub(crate) fn describe() {
    for (kind, name, meaning) in METRICS {
        match kind {
            Count => describe_counter!(*name, *meaning),
            Level => describe_gauge!(*name, *meaning),
            Range(unit) => describe_histogram!(*name, *unit, *meaning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The names of metrics in the source files of a folder.
    fn used_in(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                used_in(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for kind in ["counter", "gauge", "histogram"] {
                    let begin = format!("metrics::{kind}!(");
                    for rest in text.split(&begin).skip(1) {
                        let name = rest
                            .trim_start()
                            .strip_prefix('"')
                            .and_then(|rest| rest.split_once('"').map(|(name, _)| name.to_owned()));
                        found.extend(name);
                    }
                }
            }
        }
    }

    #[test]
    fn every_metric_is_described_and_every_description_has_its_metric() {
        let mut used = Vec::new();
        used_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut used);
        let mut described: Vec<_> = METRICS.iter().map(|(_, name, _)| name.to_string()).collect();
        used.sort();
        used.dedup();
        described.sort();
        assert_eq!(used, described);
    }
}
