//! Lemma 2, Theorem 2 and the case of all clusters being close, where they apply.

use super::super::evidence::{Measured, SettingResult, Width};
use super::applies::{ALL_CLOSE, ConditionCheck, of_bound};
use super::scaling::at_most;
use super::separable::{of_ratio, one_slope};
use super::users::{along, mean, worst};
use super::{Claim, Finding, Verdict};
use crate::figures::scale::short;

fn theorem_2(measured: &Measured, cell: &SettingResult) -> ConditionCheck {
    of_bound(measured, cell, "sclb", "Theorem 2")
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "lemma-2",
        statement: "Any user in a cluster i that is α-inseparable satisfies R(T) ≤ C_1·L·T^{1−α}/N^α + \
                    C_2·√(d/ρ)·√((T − …)/(p* N))·log(1/δ).",
        place: "Lemma 2",
        study: "theory-inseparable-users",
        needs: Some(|measured, cell| of_bound(measured, cell, "cmlb", "Lemma 2")),
        rule: "the largest ratio over users of cmlb's regret to the right-hand side does not rise with N \
               (exponent 0.1 or less, within its 95 % interval); partly as for lemma-1-regret",
        check: |measured| of_ratio(measured, "cmlb", "Lemma 2", "N"),
    },
    Claim {
        id: "theorem-2-users",
        statement: "The regret of any agent in a cluster i that is α-inseparable satisfies R_i(T) ≤ \
                    4·2^{1/√p_i} + C·L·T^{1−α}/N^α·log T + C_1·√(dT/(Nρ))·log(1/δ)·log²T (in N).",
        place: "Theorem 2, abstract",
        study: "theory-inseparable-users",
        needs: Some(theorem_2),
        rule: "the largest ratio over users of sclb's regret to the right-hand side does not rise with N \
               (exponent 0.1 or less, within its 95 % interval); partly as for lemma-1-regret",
        check: |measured| of_ratio(measured, "sclb", "Theorem 2", "N"),
    },
    Claim {
        id: "theorem-2-rounds",
        statement: "The same bound of Theorem 2 (in T).",
        place: "Theorem 2, abstract",
        study: "theory-inseparable-rounds",
        needs: Some(theorem_2),
        rule: "the largest ratio over users of sclb's regret to the right-hand side does not rise with T \
               (exponent 0.1 or less, within its 95 % interval); partly as for lemma-1-regret",
        check: |measured| of_ratio(measured, "sclb", "Theorem 2", "T"),
    },
    Claim {
        id: "inseparable-gain",
        statement: "Despite the clustering being hard to accomplish, every user still experiences \
                    collaborative gain of N^{1/2−ε}.",
        place: "Section 2.1",
        study: "theory-inseparable-users",
        needs: Some(theorem_2),
        rule: "the exponent in N of the worst user's regret under sclb is −α = −0.2 or less, within its 95 % \
               interval: Theorem 2 has N^−α, and α = 1/2 − ε",
        check: |measured| {
            one_slope(
                measured,
                along(measured, |cell| worst(cell, "sclb"))?,
                |s| at_most(s, -0.2),
                "N",
            )
        },
    },
    Claim {
        id: "perturbed-oful",
        statement: "OFUL where the rewards come from a slightly perturbed model: being clustered with users \
                    at most Δ away costs O(Δ) a round.",
        place: "Section 2.2, proof of Lemma 2",
        study: "theory-close",
        needs: None,
        rule: "no user loses more than 2Δ a round more with one OFUL for both clusters (common) than with one \
               for each (oracle), counted over settings",
        check: perturbed,
    },
    Claim {
        id: "all-close",
        statement: "If max ‖θ*_i − θ*_j‖ ≤ 1/(NT)^α, CMLB puts all the users in one big cluster.",
        place: "Section 5.1, Appendix E",
        study: "theory-close",
        needs: Some(|measured, cell| of_bound(measured, cell, "cmlb", ALL_CLOSE)),
        rule: "cmlb ends with one cluster in every repetition, counted over settings",
        check: one_cluster,
    },
    Claim {
        id: "all-close-regret",
        statement: "Special case of all clusters being close: the regret of any agent is that of Theorem 2 with \
                    p_i = 1, all users being one cluster.",
        place: "Section 5.1, Appendix E",
        study: "theory-close",
        needs: Some(|measured, cell| of_bound(measured, cell, "sclb", ALL_CLOSE)),
        rule: "the largest ratio over users of sclb's regret to the right-hand side does not rise with T \
               (exponent 0.1 or less, within its 95 % interval); partly as for lemma-1-regret",
        check: |measured| of_ratio(measured, "sclb", ALL_CLOSE, "T"),
    },
    Claim {
        id: "remark-7",
        statement: "Other algorithms do not apply to inseparable clusters; ours still has a non-trivial regret \
                    with collaborative gain.",
        place: "Remark 7",
        study: "theory-inseparable-users",
        needs: Some(theorem_2),
        rule: "sclb has less regret than linucb-ind (one half) and than club (the other half; paired 95 % \
               intervals), counted over N",
        check: against_others,
    },
    Claim {
        id: "identical-above-oracle",
        statement: "If all agents are identical our regret bound does not match that of an oracle which knows \
                    such information.",
        place: "Remark 8",
        study: "theory-close",
        needs: None,
        rule: "sclb has more regret than one OFUL for everybody (common; paired 95 % interval), counted over \
               settings; users are in two clusters 0.02 apart here",
        check: above_oracle,
    },
];

fn perturbed(measured: &Measured) -> Option<Finding> {
    let (mut held, mut numbers) = (0, Vec::new());
    for cell in &measured.cells {
        let people = cell.people.first()?;
        let excess = mean(&worst(cell, "common")?) - mean(&worst(cell, "oracle")?);
        let allowed = 2.0 * people.diameter * cell.rounds as f64;
        held += usize::from(excess <= allowed);
        numbers.push(format!(
            "T = {}: the worst user loses {} more in one OFUL for both clusters, 2ΔT = {}",
            cell.rounds,
            short(excess),
            short(allowed)
        ));
    }
    Finding::counted(held, numbers, |of| format!("The loss is within 2Δ a round in {of} settings."))
}

fn against_others(measured: &Measured) -> Option<Finding> {
    let (mut held, mut numbers) = (0, Vec::new());
    for cell in &measured.cells {
        let mut parts = Vec::new();
        for other in ["linucb-ind", "club"] {
            let pair = cell.compare(Width::Paper, "sclb", other)?;
            held += usize::from(pair.lower);
            parts.push(format!("×{} {other}'s", short(pair.ratio)));
        }
        let median = |policy: &str| Some(short(cell.played(Width::Paper, policy)?.of_users(0.5)?));
        numbers.push(format!(
            "N = {}: sclb has {}; regret of the median user: sclb {}, linucb-ind {}, club {}",
            cell.users,
            parts.join(" and "),
            median("sclb")?,
            median("linucb-ind")?,
            median("club")?
        ));
    }
    let all = 2 * numbers.len();
    Some(Finding {
        verdict: Verdict::of_share(held as f64 / all.max(1) as f64),
        tuned: None,
        why: format!("sclb has less regret than the other in {held} of {all} comparisons."),
        numbers,
    })
}

fn one_cluster(measured: &Measured) -> Option<Finding> {
    let (mut held, mut numbers) = (0, Vec::new());
    for cell in &measured.cells {
        let outcomes = &cell.played(Width::Paper, "cmlb")?.outcomes;
        let one = outcomes.iter().filter(|outcome| outcome.clusters == Some(1)).count();
        held += usize::from(one == outcomes.len());
        numbers.push(format!(
            "T = {}: one cluster in {one} of {} repetitions",
            cell.rounds,
            outcomes.len()
        ));
    }
    Finding::counted(held, numbers, |of| format!("cmlb ends with one cluster in {of} settings."))
}

fn above_oracle(measured: &Measured) -> Option<Finding> {
    let (mut held, mut numbers) = (0, Vec::new());
    for cell in &measured.cells {
        let pair = cell.compare(Width::Paper, "sclb", "common")?;
        held += usize::from(pair.higher);
        numbers.push(format!(
            "T = {}: sclb has ×{} common's regret",
            cell.rounds,
            short(pair.ratio)
        ));
    }
    Finding::counted(held, numbers, |of| format!("sclb is above the oracle in {of} settings."))
}
