//! Claims of the theorems and the abstract about how regret grows and falls.

use super::super::charts::slopes;
use super::super::evidence::{Measured, SettingResult, Width};
use super::super::fit::Slope;
use super::applies::of_bound;
use super::clustering::COMPETITIVE;
use super::separable::HIDDEN;
use super::tally::tally;
use super::{Claim, Finding, Verdict};
use crate::figures::scale::short;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "gain",
        statement: "R_i(T) is a decreasing function of N. Hence, more users in the system ensures that \
                    the regret decreases.",
        place: "Remark 3, abstract",
        study: "scaling-users",
        needs: Some(|measured, cell| of_bound(measured, cell, "sclb", "Theorem 1")),
        rule: "the fitted exponent of sclb's regret in N is below 0 by more than its 95 % interval, \
               counted over noise levels",
        check: |measured| count(measured, "sclb", |slope| below(slope, 0.0)),
    },
    Claim {
        id: "rate-users",
        statement: "SCLB attains per-agent regret O(√(T/N)), if the agent is in a well separated \
                    cluster (in N).",
        place: "Abstract, Theorem 1",
        study: "scaling-users",
        needs: Some(|measured, cell| of_bound(measured, cell, "sclb", "Theorem 1")),
        rule: "the fitted exponent of sclb's regret in N is −1/2 or less, within its 95 % interval, \
               counted over noise levels",
        check: |measured| count(measured, "sclb", |slope| at_most(slope, -0.5)),
    },
    Claim {
        id: "rate-rounds",
        statement: "SCLB attains per-agent regret O(√(T/N)), if the agent is in a well separated \
                    cluster (in T).",
        place: "Abstract, Theorem 1",
        study: "scaling-rounds",
        needs: Some(|measured, cell| of_bound(measured, cell, "sclb", "Theorem 1")),
        rule: "the fitted exponent of sclb's regret in T is 1/2 or less, within its 95 % interval, \
               counted over noise levels",
        check: |measured| count(measured, "sclb", |slope| at_most(slope, 0.5)),
    },
    Claim {
        id: "oracle-rate",
        statement: "If clustering is easy, i.e., well-separated, then the regret rate matches that of \
                    an oracle that knows the cluster identities.",
        place: "Section 2.1",
        study: "scaling-rounds",
        needs: Some(|measured, cell| of_bound(measured, cell, "sclb", "Theorem 1, moreover")),
        rule: "the fitted exponent of sclb's regret in T is at most 0.1 above the oracle's, within the sum of \
               their 95 % intervals, counted over noise levels",
        check: oracle_rate,
    },
    Claim {
        id: "all-separations",
        statement: "It works uniformly for all ranges of the gap.",
        place: "Section 5",
        study: "scaling-separation",
        needs: None,
        rule: "sclb has at most 1.1 times the regret of linucb-ind at every Δ, counted over settings",
        check: all_separations,
    },
    Claim {
        id: "one-cluster",
        statement: "If all the clusters are very close to one another, SCLB treats all agents as one \
                    big cluster, yielding highest collaborative gain.",
        place: "Section 5.1",
        study: "scaling-separation",
        needs: None,
        rule: "at the smallest Δ sclb ends with one cluster (one half), and has less regret than \
               linucb-ind and at most 1.1 times its lowest ratio to it over all Δ (the other half), \
               counted over noise levels",
        check: one_cluster,
    },
    Claim {
        id: "epsilon",
        statement: "Any agent i whose parameter deviates from the population average by ε_i attains a \
                    regret scaling of Õ(ε_i√T) (in ε).",
        place: "Abstract, Theorem 3",
        study: "scaling-heterogeneity",
        needs: Some(|measured, cell| of_bound(measured, cell, "pmlb", "Theorem 3")),
        rule: "over the ε at which ε·√(dT) is the larger term of Theorem 3's bound (below it the bound is \
               a floor, T^¼·√(d²/(ρ_min N))), the fitted exponent of pmlb's regret in ε is 1 or more, \
               within its 95 % interval (reproduced), or above 0 (partly)",
        check: epsilon,
    },
    Claim {
        id: "personal-rounds",
        statement: "Any agent i whose parameter deviates from the population average by ε_i attains a \
                    regret scaling of Õ(ε_i√T) (in T).",
        place: "Abstract, Theorem 3",
        study: "scaling-personal",
        needs: Some(|measured, cell| of_bound(measured, cell, "pmlb", "Theorem 3")),
        rule: "the fitted exponent of pmlb's regret in T is 1/2 or less, within its 95 % interval, \
               counted over noise levels",
        check: |measured| count(measured, "pmlb", |slope| at_most(slope, 0.5)),
    },
];

/// An interval of more than this to each side says nothing where the exponent in question is inside.
const WIDE: f64 = 0.25;

/// Whether an exponent is below a number by more than its interval; none where that is too wide.
pub(super) fn below(slope: &Slope, exponent: f64) -> Option<bool> {
    let (slope, margin) = (slope.fit.slope, slope.margin?);
    let open = margin > WIDE && slope - margin < exponent && slope + margin >= exponent;
    (!open).then_some(slope + margin < exponent)
}

/// Whether an exponent is at most a number, within its interval; none where that is too wide.
pub(super) fn at_most(slope: &Slope, exponent: f64) -> Option<bool> {
    let (slope, margin) = (slope.fit.slope, slope.margin?);
    let open = margin > WIDE && slope - margin <= exponent && slope + margin > exponent;
    (!open).then_some(slope - margin <= exponent)
}

/// An exponent with its interval.
pub(super) fn exponent(slope: &Slope) -> String {
    match slope.margin {
        Some(margin) => format!("{:.2} ± {:.2}", slope.fit.slope, margin).replace('-', "−"),
        None => format!("{:.2}", slope.fit.slope).replace('-', "−"),
    }
}

/// A line for each noise level with the exponents of all policies.
fn numbers(measured: &Measured) -> Vec<String> {
    (measured.values("noise").iter())
        .map(|noise| {
            let parts: Vec<String> = (slopes(measured, noise).iter())
                .map(|(label, slope)| format!("{label} {}", exponent(slope)))
                .collect();
            format!("noise {noise}: exponent {}", parts.join(", "))
        })
        .collect()
}

/// The exponent of one policy at every noise level.
fn of_policy(measured: &Measured, policy: &str) -> Vec<(String, Slope)> {
    (measured.values("noise").into_iter())
        .filter_map(|noise| {
            let all = slopes(measured, &noise);
            let (_, slope) = all.into_iter().find(|(label, _)| label == policy)?;
            Some((noise, slope))
        })
        .collect()
}

fn count(measured: &Measured, policy: &str, holds: fn(&Slope) -> Option<bool>) -> Option<Finding> {
    let found = of_policy(measured, policy);
    let theorem = measured.study.theorem.as_ref()?;
    let each: Vec<String> = (found.iter())
        .map(|(noise, slope)| format!("{} at noise {noise}", exponent(slope)))
        .collect();
    (!found.is_empty()).then(|| Finding {
        verdict: Verdict::of_decided(found.iter().map(|(_, slope)| holds(slope))),
        tuned: None,
        numbers: numbers(measured),
        why: format!(
            "The exponent of {policy} is {}; {} has {}.",
            each.join(", "),
            theorem.place,
            short(theorem.exponent)
        ),
    })
}

/// Whether one exponent is at most another, within the sum of their intervals and what logarithms may add.
pub(super) fn no_steeper(ours: &Slope, theirs: &Slope) -> Option<bool> {
    let margin = ours.margin? + theirs.margin?;
    at_most(&Slope { margin: Some(margin), ..*ours }, theirs.fit.slope + HIDDEN)
}

fn oracle_rate(measured: &Measured) -> Option<Finding> {
    let pairs: Vec<_> =
        of_policy(measured, "sclb").into_iter().zip(of_policy(measured, "oracle")).collect();
    let each: Vec<String> = (pairs.iter())
        .map(|((noise, ours), (_, oracle))| {
            format!("{} against {} at noise {noise}", exponent(ours), exponent(oracle))
        })
        .collect();
    (!pairs.is_empty()).then(|| Finding {
        verdict: Verdict::of_decided(
            pairs.iter().map(|(ours, oracle)| no_steeper(&ours.1, &oracle.1)),
        ),
        tuned: None,
        numbers: numbers(measured),
        why: format!("The exponent in T is {} (sclb against oracle).", each.join(", ")),
    })
}

fn all_separations(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let pair = cell.compare(width, "sclb", "linucb-ind")?;
        Some(vec![(pair.ratio, pair.ratio <= COMPETITIVE)])
    })?;
    let because = format!(
        "its regret is ×{} that of learning alone in the median",
        short(tally.median(Width::Paper))
    );
    Some(tally.finding("sclb/linucb-ind", "sclb is no worse than learning alone", &because))
}

fn one_cluster(measured: &Measured) -> Option<Finding> {
    let (mut one_cluster, mut gains) = (0, 0);
    let mut lines = Vec::new();
    for noise in measured.values("noise") {
        let cells: Vec<_> = measured.with("noise", &noise).collect();
        let closest = cells.first()?;
        let ratio = |cell: &super::super::evidence::SettingResult| {
            cell.compare(Width::Paper, "sclb", "linucb-ind").map(|pair| pair.ratio)
        };
        let clusters: Vec<usize> = (closest.played(Width::Paper, "sclb")?.outcomes.iter())
            .filter_map(|outcome| outcome.clusters)
            .collect();
        let one = !clusters.is_empty() && clusters.iter().all(|count| *count == 1);
        let least = cells.iter().filter_map(|cell| ratio(cell)).fold(f64::INFINITY, f64::min);
        let here = ratio(closest)?;
        one_cluster += usize::from(one);
        gains += usize::from(here < 1.0 && here <= COMPETITIVE * least);
        let found = match (clusters.iter().min(), clusters.iter().max()) {
            (Some(least), Some(most)) if least == most => format!("{least} in every repetition"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "none".to_owned(),
        };
        lines.push(format!(
            "noise {noise}: at Δ = {} clusters {found}, ratio to linucb-ind {} (least of all Δ {})",
            closest.setting.text("spacing")?,
            short(here),
            short(least)
        ));
    }
    let all = lines.len();
    Some(Finding {
        verdict: Verdict::of_share((one_cluster + gains) as f64 / (2 * all).max(1) as f64),
        tuned: None,
        why: format!(
            "At the smallest Δ sclb ends with one cluster at {one_cluster} of {all} noise levels, and \
             gains on learning alone, as much as anywhere, at {gains} of {all}."
        ),
        numbers: lines,
    })
}

/// The part of Theorem 3's bound that does not depend on ε, and ε at which the other part is as large.
fn floor(cell: &SettingResult) -> (f64, f64) {
    let (dim, rounds) = (cell.dim as f64, cell.rounds as f64);
    let rho_min = cohort::linear::default_rho_min(cell.dim);
    let floor = rounds.powf(0.25) * (dim * dim / (rho_min * cell.users as f64)).sqrt();
    (floor, floor / (dim * rounds).sqrt())
}

fn epsilon(measured: &Measured) -> Option<Finding> {
    let (floor, from) = floor(measured.cells.first()?);
    let above = measured.only(|cell| cell.heterogeneity.is_some_and(|epsilon| epsilon >= from));
    let found = of_policy(&above, "pmlb");
    let whole: Vec<String> = (of_policy(measured, "pmlb").iter())
        .map(|(noise, slope)| format!("{} at noise {noise}", exponent(slope)))
        .collect();
    let because = format!(
        "The bound is at its floor of {} up to ε = {}, where ε·√(dT) is as large; over all ε, floor \
         included, the exponent of pmlb is {}",
        short(floor),
        short(from),
        whole.join(", ")
    );
    if found.is_empty() {
        return Some(Finding {
            verdict: Verdict::NotReached,
            tuned: None,
            numbers: numbers(measured),
            why: format!("{because}; too few of the ε run are above it."),
        });
    }
    // Half for rising at all, half for rising as fast as the bound may.
    let decided = found.iter().flat_map(|(_, slope)| {
        let one = slope.margin.map(|margin| slope.fit.slope + margin >= 1.0);
        [one, slope.margin.map(|margin| slope.fit.slope > margin)]
    });
    let verdict = Verdict::of_decided(decided);
    let each: Vec<String> = (found.iter())
        .map(|(noise, slope)| format!("{} at noise {noise}", exponent(slope)))
        .collect();
    Some(Finding {
        verdict,
        tuned: None,
        numbers: numbers(measured),
        why: format!("{because}; above it {}, and Theorem 3 has 1.", each.join(", ")),
    })
}
