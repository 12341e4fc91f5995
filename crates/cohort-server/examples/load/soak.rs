//! Hours in minutes: decides and rewards without pause while users are evicted and expire, the journal is
//! shortened, snapshots are written and the app refits. Are memory and disk flat?

use std::path::Path;
use std::time::{Duration, Instant};

use cohort_server::config::Config;

use super::client::{self, Connection, Measured, Workload, closed_loop, open_loop};
use super::clocks::PACE;
use super::{DIM, figures, refits};

const CLIENTS: usize = 64;
/// Users that come, and users that are kept.
const USERS: usize = 40_000;
const MOST_USERS: usize = 20_000;
/// How long one look takes.
const LOOK_SECONDS: f64 = 10.0;
const JOURNAL_BYTES: u64 = 256 << 20;
/// How long saturation is looked for: until all users have come and been fitted, then while it counts.
const WARM_SECONDS: f64 = 40.0;
const SATURATED_SECONDS: f64 = 20.0;

/// The service that is soaked: hours pass in minutes.
pub fn configure(config: &mut Config) {
    config.max_users = MOST_USERS;
    config.user_expiry_hours = 1;
    config.journal_max_bytes = JOURNAL_BYTES;
    config.journal_max_hours = 2;
    config.retention_interval_ms = 1000;
    config.snapshot_events = 200_000;
}

/// What was seen at one moment.
struct Look {
    minutes: f64,
    resident: f64,
    journal: f64,
    disk: f64,
    p99_ms: f64,
}

/// At `rate` decides a second, each followed by its reward, or at half of what the service can.
pub async fn measure(address: &str, folder: &Path, minutes: f64, rate: Option<f64>) {
    let mut admin = Connection::open(address).await;
    // Windows of twenty seconds of ours.
    let window_ms = 20_000 * PACE;
    let app = format!(
        r#"{{"name":"soak","dim":{DIM},"window_ms":{window_ms},"default_reward":0,"params":{{"refit_ratio":1.1}}}}"#
    );
    assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    let workload = refits::decide_and_reward("soak", USERS);
    let rate = match rate {
        Some(rate) => rate,
        None => saturation(address, &workload).await / 2.0,
    };
    let (started, mut looks, mut answered) = (Instant::now(), Vec::new(), 0);
    while started.elapsed().as_secs_f64() < minutes * 60.0 {
        let measured = open_loop(address, CLIENTS, LOOK_SECONDS, rate, &workload).await;
        answered += measured.answered;
        let mut admin = Connection::open(address).await;
        let look = Look {
            minutes: started.elapsed().as_secs_f64() / 60.0,
            resident: gauge(&mut admin, "cohort_resident_bytes").await,
            journal: gauge(&mut admin, "cohort_journal_bytes").await,
            disk: size(folder),
            p99_ms: measured.p99_ms,
        };
        println!(
            "{:5.1} min  resident {:6.1} MB  journal {:6.1} MB  disk {:6.1} MB  p99 {:.1} ms",
            look.minutes,
            look.resident / 1e6,
            look.journal / 1e6,
            look.disk / 1e6,
            look.p99_ms
        );
        looks.push(look);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if looks.is_empty() {
        return;
    }
    let mut admin = Connection::open(address).await;
    // After the first five minutes, or the first third of a shorter run: the first half against the second.
    let begin = (minutes / 3.0).min(5.0);
    let later: Vec<&Look> = looks.iter().filter(|look| look.minutes > begin).collect();
    let (first, second) = later.split_at(later.len() / 2);
    let growth = |of: fn(&Look) -> f64| mean(second, of) / mean(first, of);
    let (_, refits) = admin.histogram("cohort_refit_seconds").await;
    let (_, snapshots) = admin.histogram("cohort_snapshot_seconds").await;
    figures::keep(
        "soak",
        &[
            ("minutes", started.elapsed().as_secs_f64() / 60.0, ""),
            ("decides_per_second", rate, ""),
            ("decides_answered_and_rewarded", answered as f64, ""),
            ("users_forgotten", gauge(&mut admin, "cohort_users_forgotten_total").await, ""),
            (
                "journal_files_removed",
                gauge(&mut admin, "cohort_journal_pruned_segments_total").await,
                "",
            ),
            ("snapshots", snapshots, ""),
            ("refits", refits, ""),
            ("resident_mb_at_the_end", looks.last().map_or(0.0, |look| look.resident / 1e6), ""),
            ("disk_mb_at_the_end", looks.last().map_or(0.0, |look| look.disk / 1e6), ""),
            ("p99_ms_mean_of_looks", mean(&later, |look| look.p99_ms), ""),
            ("resident_second_half_against_first", growth(|look| look.resident), "about 1"),
            ("journal_second_half_against_first", growth(|look| look.journal), "about 1"),
            ("disk_second_half_against_first", growth(|look| look.disk), "about 1"),
        ],
    );
}

/// How many decides a second, each followed by its reward, there can be.
async fn saturation(address: &str, workload: &Workload) -> f64 {
    closed_loop(address, CLIENTS, WARM_SECONDS, workload).await;
    let Measured { rate, p99_ms, .. } =
        closed_loop(address, CLIENTS, SATURATED_SECONDS, workload).await;
    let figures =
        [("clients", CLIENTS as f64, ""), ("decides_per_second", rate, ""), ("p99_ms", p99_ms, "")];
    figures::keep("saturation_of_the_soak", &figures);
    rate
}

fn mean(looks: &[&Look], of: fn(&Look) -> f64) -> f64 {
    looks.iter().map(|look| of(look)).sum::<f64>() / looks.len().max(1) as f64
}

/// The sum over all labels of one of the service's numbers.
async fn gauge(admin: &mut Connection, name: &str) -> f64 {
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(admin.ask(request).await, 200);
    let text = admin.answer();
    let lines = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// What the files in a folder take.
fn size(folder: &Path) -> f64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len() as f64,
        // It was removed meanwhile.
        Err(_) => 0.0,
    });
    sizes.sum()
}
