//! The performance targets: each target, the measurement, and whether it is met.

use super::Everything;
use super::markdown::{Table, time, times, whole};
use crate::forms::{GEMM, NALGEBRA};
use crate::sections::components::{Measured as Components, PeerRun};
use crate::sections::growth::STATISTICS_BYTES;
use crate::sections::limit::{MANY_USERS, USERS};
use crate::sections::peers::BY_HAND;

/// One target.
struct Held {
    what: String,
    target: String,
    measured: Option<f64>,
    shown: fn(f64) -> String,
    met: fn(f64, f64) -> bool,
    bound: f64,
    note: String,
}

/// The table.
pub fn table(all: &Everything) -> String {
    let mut table = Table::new(&["what", "held to", "measured", "met", "remark"]);
    for held in everything(all) {
        let met =
            held.measured.map_or("–", |m| if (held.met)(m, held.bound) { "yes" } else { "**no**" });
        let measured = held.measured.map_or("not measured".into(), held.shown);
        table.row(&[held.what, held.target, measured, met.into(), held.note]);
    }
    let mut text = table.finish();
    text.push_str(
        "\nNo arm changes against the straightforward implementation, ties within 10⁻⁹ aside: that is tested\n\
         (`crates/cohort/tests/same_arms_as_plain.rs`, `crates/cohort/src/linear/bank/tests/`), not measured here.\n",
    );
    text
}

fn everything(all: &Everything) -> Vec<Held> {
    let limit = all.limit.as_ref().map(|kept| &kept.measured);
    let scaling = |users: usize, threads: usize| {
        let of_size =
            |s: &&crate::sections::limit::Scaling| s.users == users && s.threads == threads;
        Some(limit?.scaling.iter().find(of_size)?.per_second)
    };
    let form = |name: &str| {
        let theirs = limit?.forms.iter().find(|form| form.name == name)?.per_second;
        Some(scaling(USERS, 1)? / theirs)
    };
    let best_peer = |language: &str| {
        let measured = &all.peers.as_ref()?.measured;
        let rate = |peer: &crate::sections::peers::Peer| peer.per_second;
        let of_language =
            measured.peers.iter().filter(|p| p.language == language && p.name != BY_HAND);
        let best = of_language.max_by(|a, b| rate(a).total_cmp_to(rate(b)))?;
        Some((measured.ours / best.per_second?, best.name.clone()))
    };
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let phases = all.phases.as_ref().map(|kept| &kept.measured);
    let club = |name: &str| {
        let club = all.clubs.as_ref()?.measured.iter().find(|club| club.policy == name)?;
        Some(club.ours_per_second / club.naive_per_second)
    };
    let name_of =
        |peer: &Option<(f64, String)>| peer.as_ref().map_or(String::new(), |p| p.1.clone());
    let (rust, python) = (best_peer("Rust"), best_peer("Python"));

    let mut rows = vec![
        at_least("`linucb-ind` beside packed GEMM (gemm crate)", 1.8, form(GEMM)),
        at_least("`linucb-ind` beside nalgebra, user by user", 7.0, form(NALGEBRA)),
        at_least("`linucb-ind` beside the best Rust peer", 12.0, rust.as_ref().map(|p| p.0))
            .remark(name_of(&rust)),
        at_least("`linucb-ind` beside the best Python peer", 80.0, python.as_ref().map(|p| p.0))
            .remark(name_of(&python)),
        at_least(
            "`linucb-ind`, two threads beside one",
            1.7,
            ratio(scaling(USERS, 2), scaling(USERS, 1)),
        ),
        at_least(
            "`linucb-ind`, N = 100,000 beside N = 4,096",
            0.6,
            ratio(scaling(MANY_USERS, 1), scaling(USERS, 1)),
        ),
        at_least(
            "`cmlb`, collaborative beside individual rounds",
            20.0,
            phases.map(|p| p.individual_seconds / p.collaborative_seconds),
        )
        .remark(phases.map_or(String::new(), |p| format!("N = {}", whole(p.users)))),
        at_least("`club` beside full recomputation", 50.0, club("club")),
        at_least("`sclub` beside full recomputation", 20.0, club("sclub")),
    ];
    for (points, centres) in [(100_000, 100), (100_000, 10), (1_000_000, 100), (1_000_000, 1_000)] {
        let case = all.components.as_ref().and_then(|kept| {
            let wanted = |m: &&Components| {
                m.case.points == points && m.case.centres == centres && m.case.hard.is_none()
            };
            kept.measured.iter().find(wanted)
        });
        let what =
            format!("MAXIMAL-CLUSTER, {} points, {} clusters", whole(points), whole(centres));
        let finished = case.and_then(fastest_peer);
        let given_up = case.and_then(shortest_time_limit);
        let (theirs, note) = match (finished, given_up) {
            (Some(peer), _) => (peer.seconds, format!("fastest peer: {}", peer.peer)),
            (None, Some(patience)) => {
                (Some(patience), format!("at least: no peer finished, given {}", time(patience)))
            }
            (None, None) if case.is_some() => (None, "no peer finished: out of memory".into()),
            (None, None) => (None, String::new()),
        };
        let measured = ratio(theirs, case.map(|case| case.ours.seconds));
        rows.push(
            at_least(&format!("{what}, beside the fastest peer"), 5.0, measured).remark(note),
        );
        if points == 1_000_000 {
            rows.push(Held {
                what: format!("{what}: memory"),
                target: "< 1 GiB".into(),
                measured: case.map(|case| case.ours.peak_mib),
                shown: |mib| format!("{mib:.0} MiB"),
                met: |measured, bound| measured < bound,
                bound: 1024.0,
                note: "the whole process, points included".into(),
            });
        }
    }
    let run = |threads: usize| {
        let runs = &all.refits.as_ref()?.measured.runs;
        let run = runs.iter().find(|run| run.threads == threads)?;
        Some(run.cohort_seconds / run.linucb_ind_seconds)
    };
    for (threads, what) in [(1, "one thread"), (2, "two threads")] {
        rows.push(at_most(
            &format!(
                "`cohort` beside `linucb-ind`, N = 10,000, T = 1,000, refits included, {what}"
            ),
            3.0,
            run(threads),
        ));
    }
    let million = all
        .growth
        .as_ref()
        .and_then(|kept| kept.measured.iter().find(|growth| growth.users == 1_000_000));
    rows.push(
        at_most(
            "10⁶ users × 100 rounds of `linucb-ind`: memory beside the statistics",
            1.25,
            million.map(|m| m.bytes / (m.users as f64 * STATISTICS_BYTES)),
        )
        .remark("arms, rewards and all else included".into()),
    );
    rows
}

fn at_most(what: &str, bound: f64, measured: Option<f64>) -> Held {
    Held {
        target: format!("≤ {bound} ×"),
        met: |measured, bound| measured <= bound,
        ..at_least(what, bound, measured)
    }
}

fn at_least(what: &str, bound: f64, measured: Option<f64>) -> Held {
    Held {
        what: what.to_owned(),
        target: format!("≥ {bound} ×"),
        measured,
        shown: times,
        met: |measured, bound| measured >= bound,
        bound,
        note: String::new(),
    }
}

impl Held {
    fn remark(self, note: String) -> Self {
        Self { note, ..self }
    }
}

/// The fastest peer that finished.
fn fastest_peer(case: &Components) -> Option<&PeerRun> {
    let finished = case.peers.iter().filter(|peer| peer.seconds.is_some());
    finished.min_by(|a, b| a.seconds.total_cmp_to(b.seconds))
}

/// The shortest time limit of the peers that did not finish: a lower bound.
fn shortest_time_limit(case: &Components) -> Option<f64> {
    case.peers.iter().filter_map(|peer| peer.gave_up_after).min_by(f64::total_cmp)
}

/// Orders optional numbers; missing ones are smaller.
trait TotalCmpTo {
    fn total_cmp_to(self, other: Self) -> std::cmp::Ordering;
}

impl TotalCmpTo for Option<f64> {
    fn total_cmp_to(self, other: Self) -> std::cmp::Ordering {
        self.unwrap_or(f64::NEG_INFINITY).total_cmp(&other.unwrap_or(f64::NEG_INFINITY))
    }
}
