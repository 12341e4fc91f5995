//! What is counted and timed? Every metric, once, as `/metrics` explains it.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use crate::engine::runtime::AppLevel;

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
    (Level, "cohort_connections", "Connections that are open."),
    (
        Count,
        "cohort_connections_ended_total",
        "Connections that the service ended, by reason: silent (said nothing for too long), unread \
         (did not take its answer), room (for somebody else).",
    ),
    (Count, "cohort_connections_refused_total", "Connections refused because all were in use."),
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
    (
        Count,
        "cohort_personalizer_rewards_total",
        "Rewards in the Personalizer dialect that taught nothing, by reason; they are answered like others.",
    ),
    (
        Count,
        "cohort_requests_abandoned_total",
        "Requests that were not done because whoever asked had gone, or had waited too long.",
    ),
    (
        Level,
        "cohort_clock_ahead_seconds",
        "How far the calendar is ahead of the service's time, which does not follow it when it jumps.",
    ),
    (
        Count,
        "cohort_clock_jumps_total",
        "Jumps of the calendar: noticed, taken_over because they lasted, and start where the last event was long ago.",
    ),
    (
        Count,
        "cohort_users_forgotten_total",
        "Users that were forgotten, by reason: room (for another), age (not seen for long), memory (scarce).",
    ),
    (Level, "cohort_apps", "Apps."),
    (Level, "cohort_disk_free_bytes", "Free bytes on the disk of data_dir."),
    (Level, "cohort_resident_bytes", "Memory that the process takes."),
    (Level, "cohort_journal_bytes", "What the journal takes on disk."),
    (
        Count,
        "cohort_journal_pruned_segments_total",
        "Files of the journal removed because of age or size.",
    ),
    (
        Count,
        "cohort_journal_pruned_for_room_total",
        "Files of the journal removed, younger than they may become, because the disk had too little room.",
    ),
    (
        Level,
        "cohort_snapshot_age_seconds",
        "Age of the state in the newest snapshot that was written; of the process where there is none.",
    ),
    (
        Level,
        "cohort_work_refused",
        "What is refused because room is scarce: 0 nothing, 1 decisions (disk), 2 rewards too (disk), \
         3 decisions (memory).",
    ),
    (Count, "cohort_journal_events_total", "Events written to the journal."),
    (
        Count,
        "cohort_log_events_removed_total",
        "Events that retention removed before a download of a log came to them.",
    ),
    (
        Count,
        "cohort_downloads_too_slow_total",
        "Downloads that were ended because they were read too slowly.",
    ),
    (Range(Unit::Count), "cohort_journal_group_events", "Events that were written together."),
    (Range(Unit::Seconds), "cohort_journal_sync_seconds", "Time to sync the journal to the disk."),
    (Range(Unit::Seconds), "cohort_refit_seconds", "Time to fit what users have in common."),
    (Range(Unit::Seconds), "cohort_snapshot_seconds", "Time to write a snapshot."),
    (Count, "cohort_snapshot_failures_total", "Snapshots that could not be written."),
    (
        Count,
        "cohort_snapshots_without_room_total",
        "Snapshots that were not written because the disk had no room for them; they are tried again.",
    ),
    (Level, "cohort_apps_quarantined", "Apps whose policy stopped at a bug."),
    (
        Range(Unit::Seconds),
        "cohort_cluster_take_over_seconds",
        "Time from taking over a partition of a cluster to serving it.",
    ),
    (
        Count,
        "cohort_cluster_partitions_lost_total",
        "Partitions of a cluster that this node lost: another took over, or the stream failed.",
    ),
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

/// A metric of each app: its name, its meaning and its value.
type PerApp = (&'static str, &'static str, fn(&AppLevel) -> usize);

/// Levels of apps. They are not in the recorder, which keeps for ever what it was told once: apps are deleted.
const PER_APP: &[PerApp] = &[
    ("cohort_app_users", "Users of an app; of the first hundred apps.", |level| level.users),
    ("cohort_app_waiting", "Decisions of an app that wait; of the first hundred apps.", |level| {
        level.waiting
    }),
];

/// Levels of apps as Prometheus reads them. Names of apps have no characters that would have to be escaped.
pub(crate) fn of_apps(levels: &[AppLevel]) -> String {
    let mut text = String::new();
    for (name, meaning, value) in PER_APP.iter().filter(|_| !levels.is_empty()) {
        text += &format!("# HELP {name} {meaning}\n# TYPE {name} gauge\n");
        for level in levels {
            text += &format!("{name}{{app=\"{}\"}} {}\n", level.app, value(level));
        }
        text += "\n";
    }
    text
}

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

    /// Alerts and the dashboard ask for metrics that there are, and the text for keys that there are.
    #[test]
    fn what_the_documents_name_is_there() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let words = |file: &str| -> Vec<String> {
            let text = std::fs::read_to_string(docs.join(file)).unwrap();
            let is_in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            text.split(|c| !is_in_word(c)).map(str::to_owned).collect()
        };
        let mut alerts = 0;
        for file in ["operate/prometheus-rules.yml", "operate/grafana.json", "operate.md"] {
            let of_us = |word: &String| word.starts_with("cohort_") && word != "cohort_server";
            for word in words(file).into_iter().filter(of_us) {
                let plain =
                    ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
                let name = plain.unwrap_or(&word);
                let of_apps = PER_APP.iter().any(|(known, ..)| *known == name);
                let is_known = of_apps || METRICS.iter().any(|(_, known, _)| *known == name);
                assert!(is_known, "{file}: {word}");
                alerts += 1;
            }
        }
        assert!(alerts > 30);
        let (rules, text) = (words("operate/prometheus-rules.yml"), words("operate.md"));
        for alert in rules.iter().filter(|word| word.starts_with("Cohort")) {
            assert!(text.contains(alert), "operate.md does not say what {alert} means");
        }
        let limits = ["max_", "min_", "journal_max"];
        for word in text.iter().filter(|word| limits.iter().any(|begin| word.starts_with(begin))) {
            assert!(crate::config::keys::KEYS.iter().any(|key| key.name == word), "{word}");
        }
        // Variables of the unit and the container are those of keys.
        for file in ["operate/cohort.service", "operate/Containerfile"] {
            for word in words(file).iter().filter(|word| word.starts_with("COHORT_SERVE_")) {
                assert!(
                    crate::config::keys::KEYS.iter().any(|key| key.variable() == *word),
                    "{word}"
                );
            }
        }
    }
}
