//! Claims about this project's own policy, `cohort`, decided by rules like the paper's.
//!
//! `cohort` has its defaults everywhere. The others have their best width of the common grid where
//! a rule says "tuned".

use super::super::evidence::{Measured, SettingResult, Width};
use super::tally::median;
use super::{Claim, Finding, Verdict};
use crate::figures::scale::{short, short_or_dash};

const OURS: &str = "cohort";

/// Regret up to so many times another's is no worse, where sharing cannot help.
const NO_WORSE: f64 = 1.05;

const ABLATIONS: [&str; 4] =
    ["cohort no-mixture", "cohort hard-labels", "cohort no-doubt", "cohort fixed-noise"];

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "cohort-oracle",
        statement: "cohort, told nothing, has no more regret than OFUL that is told the clusters and \
                    the noise.",
        place: "this project",
        study: "cohort-clusters",
        needs: None,
        rule: "with fewer clusters than users, cohort has at most the regret of oracle at the theory's \
               width, counted over settings",
        check: |measured| {
            against(measured, shared, |cell| cell.regret(Width::Paper, "oracle"), 1.0)
        },
    },
    Claim {
        id: "cohort-no-harm",
        statement: "Where users have nothing in common, cohort is as good as learning alone.",
        place: "this project",
        study: "cohort-clusters",
        needs: None,
        rule: "with as many clusters as users, cohort has at most 1.05 times the regret of tuned \
               linucb-ind, counted over settings",
        check: |measured| against(measured, unshared, alone, NO_WORSE),
    },
    Claim {
        id: "cohort-mixture",
        statement: "Where users scatter around clusters, cohort beats both clustering and learning \
                    alone.",
        place: "this project; the open problem of Section 8",
        study: "cohort-mixture",
        needs: None,
        rule: "cohort has less regret than the better of oracle and tuned linucb-ind, counted over \
               settings",
        check: |measured| {
            let better =
                |cell: &SettingResult| Some(cell.regret(Width::Paper, "oracle")?.min(alone(cell)?));
            against(measured, |_| true, better, 1.0)
        },
    },
    Claim {
        id: "cohort-lastfm",
        statement: "On Last.FM cohort has less regret than linucb-ind, club and cmlb.",
        place: "this project",
        study: "cohort-lastfm",
        needs: None,
        rule: "its ratio to random is lower than each of theirs, tuned",
        check: real_data,
    },
    Claim {
        id: "cohort-movielens",
        statement: "On MovieLens cohort has less regret than linucb-ind, club and cmlb.",
        place: "this project",
        study: "cohort-movielens",
        needs: None,
        rule: "its ratio to random is lower than each of theirs, tuned",
        check: real_data,
    },
    Claim {
        id: "cohort-parts",
        statement: "Every part of cohort earns its place.",
        place: "this project",
        study: "cohort-ablations",
        needs: None,
        rule: "cohort has no more regret than itself without the part, beyond what repetitions vary, \
               counted over settings and parts",
        check: parts,
    },
];

fn shared(cell: &SettingResult) -> bool {
    !unshared(cell)
}

fn unshared(cell: &SettingResult) -> bool {
    cell.setting.number("clusters") == Some(cell.users as f64)
}

fn alone(cell: &SettingResult) -> Option<f64> {
    cell.regret(Width::Tuned, "linucb-ind")
}

/// Counts in how many settings `cohort` has at most `bound` times the regret of another.
fn against(
    measured: &Measured,
    counts: impl Fn(&SettingResult) -> bool,
    other: impl Fn(&SettingResult) -> Option<f64>,
    bound: f64,
) -> Option<Finding> {
    let mut all = Vec::new();
    let mut numbers = Vec::new();
    for noise in measured.values("noise") {
        let cells = measured.with("noise", &noise).filter(|cell| counts(cell));
        let ratios: Vec<f64> = cells
            .filter_map(|cell| Some(cell.regret(Width::Paper, OURS)? / other(cell)?))
            .collect();
        if ratios.is_empty() {
            continue;
        }
        let shown: Vec<String> = ratios.iter().map(|ratio| format!("×{}", short(*ratio))).collect();
        numbers.push(format!("noise {noise}: {}", shown.join(", ")));
        all.extend(ratios);
    }
    let worst = all.iter().copied().max_by(f64::total_cmp)?;
    let held = all.iter().filter(|ratio| **ratio <= bound).count();
    Some(Finding {
        verdict: Verdict::of_share(held as f64 / all.len() as f64),
        tuned: None,
        numbers,
        why: format!(
            "It holds in {held} of {} settings; the median ratio is ×{}, the worst ×{}.",
            all.len(),
            short(median(all.clone())),
            short(worst)
        ),
    })
}

fn real_data(measured: &Measured) -> Option<Finding> {
    let cell = measured.cells.first()?;
    let ratio = |width, label: &str| Some(cell.compare(width, label, "random")?.ratio);
    let ours = ratio(Width::Paper, OURS)?;
    let mut numbers = Vec::new();
    for &width in measured.widths() {
        let parts: Vec<String> = (cell.all(width))
            .filter(|played| played.label != "random")
            .filter_map(|played| {
                Some(format!("{} {}", played.label, short(ratio(width, &played.label)?)))
            })
            .collect();
        numbers.push(format!("{width} width: {}", parts.join(", ")));
    }
    let others = ["linucb-ind", "club", "cmlb"].map(|label| (label, ratio(Width::Tuned, label)));
    let lower = others.iter().filter(|(_, theirs)| theirs.is_some_and(|t| ours < t)).count();
    let shown: Vec<String> = (others.iter())
        .map(|(label, theirs)| format!("{label} {}", short_or_dash(*theirs)))
        .collect();
    Some(Finding {
        verdict: Verdict::of_share(lower as f64 / others.len() as f64),
        tuned: None,
        numbers,
        why: format!(
            "cohort keeps {} of random's regret; tuned, {}.",
            short(ours),
            shown.join(", ")
        ),
    })
}

fn parts(measured: &Measured) -> Option<Finding> {
    let (mut held, mut all, mut numbers) = (0usize, 0usize, Vec::new());
    for part in ABLATIONS {
        let pairs: Vec<_> = (measured.cells.iter())
            .filter_map(|cell| cell.compare(Width::Paper, part, OURS))
            .collect();
        let harmless = pairs.iter().filter(|pair| !pair.lower).count();
        held += harmless;
        all += pairs.len();
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio).collect();
        let worst = ratios.iter().copied().max_by(f64::total_cmp);
        numbers.push(format!(
            "{part}: median ×{} of cohort's regret, at most ×{}, no lower in {harmless} of {}",
            short(median(ratios)),
            short_or_dash(worst),
            pairs.len()
        ));
    }
    (all > 0).then(|| Finding {
        verdict: Verdict::of_share(held as f64 / all as f64),
        tuned: None,
        numbers,
        why: format!("Taking a part away lowers regret in {} of {all} comparisons.", all - held),
    })
}
