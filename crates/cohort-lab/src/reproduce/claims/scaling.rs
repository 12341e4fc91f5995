//! Claims of the theorems and the abstract about how regret grows and falls.

use super::super::charts::slopes;
use super::super::evidence::{Measured, Width};
use super::super::fit::Slope;
use super::clustering::COMPETITIVE;
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
        rule: "the fitted exponent of sclb's regret in T is at most the oracle's, within the sum of \
               their 95 % intervals, counted over noise levels",
        check: oracle_rate,
    },
    Claim {
        id: "all-separations",
        statement: "It works uniformly for all ranges of the gap.",
        place: "Section 5",
        study: "scaling-separation",
        rule: "sclb has at most 1.1 times the regret of linucb-ind at every Δ, counted over settings",
        check: all_separations,
    },
    Claim {
        id: "one-cluster",
        statement: "If all the clusters are very close to one another, SCLB treats all agents as one \
                    big cluster, yielding highest collaborative gain.",
        place: "Section 5.1",
        study: "scaling-separation",
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
        rule: "the fitted exponent of pmlb's regret in ε is 1 or more, within its 95 % interval \
               (reproduced), or above 0 (partly)",
        check: epsilon,
    },
    Claim {
        id: "personal-rounds",
        statement: "Any agent i whose parameter deviates from the population average by ε_i attains a \
                    regret scaling of Õ(ε_i√T) (in T).",
        place: "Abstract, Theorem 3",
        study: "scaling-personal",
        rule: "the fitted exponent of pmlb's regret in T is 1/2 or less, within its 95 % interval, \
               counted over noise levels",
        check: |measured| count(measured, "pmlb", |slope| at_most(slope, 0.5)),
    },
];

fn below(slope: &Slope, exponent: f64) -> bool {
    slope.fit.slope + slope.margin.unwrap_or(0.0) < exponent
}

fn at_most(slope: &Slope, exponent: f64) -> bool {
    slope.fit.slope - slope.margin.unwrap_or(0.0) <= exponent
}

/// An exponent with its interval.
fn exponent(slope: &Slope) -> String {
    match slope.margin {
        Some(margin) => format!("{:.2} ± {:.2}", slope.fit.slope, margin).replace('-', "−"),
        None => format!("{:.2}", slope.fit.slope).replace('-', "−"),
    }
}

/// A line for each noise level with everybody's exponents.
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

fn count(measured: &Measured, policy: &str, holds: fn(&Slope) -> bool) -> Option<Finding> {
    let found = of_policy(measured, policy);
    let held = found.iter().filter(|(_, slope)| holds(slope)).count();
    let theorem = measured.study.theorem.as_ref()?;
    let each: Vec<String> = (found.iter())
        .map(|(noise, slope)| format!("{} at noise {noise}", exponent(slope)))
        .collect();
    (!found.is_empty()).then(|| Finding {
        verdict: Verdict::of_share(held as f64 / found.len() as f64),
        numbers: numbers(measured),
        why: format!(
            "The exponent of {policy} is {}; {} has {}.",
            each.join(", "),
            theorem.place,
            short(theorem.exponent)
        ),
    })
}

fn oracle_rate(measured: &Measured) -> Option<Finding> {
    let pairs: Vec<_> =
        of_policy(measured, "sclb").into_iter().zip(of_policy(measured, "oracle")).collect();
    let matches = |(ours, oracle): &((String, Slope), (String, Slope))| {
        let margin = ours.1.margin.unwrap_or(0.0) + oracle.1.margin.unwrap_or(0.0);
        ours.1.fit.slope <= oracle.1.fit.slope + margin
    };
    let held = pairs.iter().filter(|pair| matches(pair)).count();
    let each: Vec<String> = (pairs.iter())
        .map(|((noise, ours), (_, oracle))| {
            format!("{} against {} at noise {noise}", exponent(ours), exponent(oracle))
        })
        .collect();
    (!pairs.is_empty()).then(|| Finding {
        verdict: Verdict::of_share(held as f64 / pairs.len() as f64),
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
        let ratio = |cell: &super::super::evidence::Cell| {
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
        let found: Vec<String> = clusters.iter().map(usize::to_string).collect();
        lines.push(format!(
            "noise {noise}: at Δ = {} clusters {}, ratio to linucb-ind {} (least of all Δ {})",
            closest.setting.text("spacing")?,
            if found.is_empty() { "none".to_owned() } else { found.join(" ") },
            short(here),
            short(least)
        ));
    }
    let all = lines.len();
    Some(Finding {
        verdict: Verdict::of_share((one_cluster + gains) as f64 / (2 * all).max(1) as f64),
        why: format!(
            "At the smallest Δ sclb ends with one cluster at {one_cluster} of {all} noise levels, and \
             gains on learning alone, as much as anywhere, at {gains} of {all}."
        ),
        numbers: lines,
    })
}

fn epsilon(measured: &Measured) -> Option<Finding> {
    let found = of_policy(measured, "pmlb");
    let score = |slope: &Slope| {
        let margin = slope.margin.unwrap_or(0.0);
        let (reaches_one, rises) = (slope.fit.slope + margin >= 1.0, slope.fit.slope > margin);
        (f64::from(u8::from(reaches_one)) + f64::from(u8::from(rises))) / 2.0
    };
    let share = found.iter().map(|(_, slope)| score(slope)).sum::<f64>() / found.len() as f64;
    let each: Vec<String> = (found.iter())
        .map(|(noise, slope)| format!("{} at noise {noise}", exponent(slope)))
        .collect();
    (!found.is_empty()).then(|| Finding {
        verdict: Verdict::of_share(share),
        numbers: numbers(measured),
        why: format!("The exponent of pmlb in ε is {}; Theorem 3 has 1.", each.join(", ")),
    })
}
