//! Theorem 3 and Corollary 1, user by user.

use cohort::linear::{default_rho_min, tau_min};

use super::super::evidence::{Measured, SettingResult, Width};
use super::super::fit::slope;
use super::applies::{ConditionCheck, of_bound};
use super::scaling::{at_most, exponent};
use super::separable::HIDDEN;
use super::users::{along, worst, worst_to_personal_bound};
use super::{Claim, Finding, Verdict};
use crate::figures::scale::{short, short_or_dash};

fn theorem_3(measured: &Measured, cell: &SettingResult) -> ConditionCheck {
    of_bound(measured, cell, "pmlb", "Theorem 3")
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "theorem-3-rounds",
        statement: "The regret of agent i satisfies R_i(T) ≤ Õ(ε_i·√(dT) + T^{1/4}·√(d²/(ρ_min N)))·log²(1/δ) \
                    (user by user, in T).",
        place: "Theorem 3",
        study: "scaling-personal",
        needs: Some(theorem_3),
        rule: "the largest ratio over users of pmlb's regret to the right-hand side with the user's own ε_i \
               does not rise with T (exponent 0.1 or less, within its 95 % interval), counted over noise levels",
        check: |measured| by_user(measured, "T"),
    },
    Claim {
        id: "theorem-3-users",
        statement: "The same bound of Theorem 3 (user by user, in N).",
        place: "Theorem 3",
        study: "personal-users",
        needs: Some(theorem_3),
        rule: "the largest ratio over users of pmlb's regret to the right-hand side with the user's own ε_i \
               does not rise with N (exponent 0.1 or less, within its 95 % interval), counted over noise levels",
        check: |measured| by_user(measured, "N"),
    },
    Claim {
        id: "theorem-3-zero",
        statement: "When ε_i = 0, i.e., in the case when all agents have the identical vectors, Theorem 3 gives \
                    a regret scaling as Õ(T^{1/4}·d·√(1/(ρ_min N))).",
        place: "Remark 11",
        study: "personal-identical",
        needs: Some(theorem_3),
        rule: "the exponent in T of the worst user's regret under pmlb is 1/4 or less, within its 95 % \
               interval, counted over noise levels",
        check: identical,
    },
    Claim {
        id: "corollary-1",
        statement: "The expected regret of the i-th agent is E[R_i(T)] ≤ Õ(ε_i·√(dT) + T^{1/4}·√(d²/(ρ_min N))).",
        place: "Corollary 1",
        study: "probe-personal",
        needs: Some(|_, cell| {
            // The probe has one dimension and δ = 0.4.
            let tau = |rounds: f64| tau_min(default_rho_min(1), 1, rounds as usize, 0.4);
            ConditionCheck::from_rounds(cell.rounds as f64, |rounds| tau(rounds).powi(2))
        }),
        rule: "where T ≥ τ_min², the worst user's mean regret under pmlb is at most ln²T times the right-hand \
               side with all constants 1, counted over ε",
        check: expected,
    },
];

fn by_user(measured: &Measured, axis: &str) -> Option<Finding> {
    let (mut decided, mut each, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for noise in measured.values("noise") {
        let here = measured.only(|cell| cell.setting.text("noise").as_ref() == Some(&noise));
        let of = |policy: &str| along(&here, |cell| worst_to_personal_bound(cell, policy));
        let ours = of("pmlb")?;
        decided.push(at_most(&ours, HIDDEN));
        each.push(format!("{} at noise {noise}", exponent(&ours)));
        for policy in ["pmlb", "pmlb-compensated", "pmlb-warm", "linucb-ind", "cohort"] {
            let (Some(slope), Some(last)) = (of(policy), here.cells.last()) else { continue };
            let Some(played) = last.played(Width::Paper, policy) else { continue };
            numbers.push(format!(
                "noise {noise}, {policy}: exponent {}; at the last setting regret of the median user {}, of \
                 the worst {}",
                exponent(&slope),
                short_or_dash(played.of_users(0.5)),
                short_or_dash(played.of_users(1.0))
            ));
        }
        numbers.extend(here.cells.last().and_then(by_epsilon));
    }
    (!each.is_empty()).then(|| Finding {
        verdict: Verdict::of_decided(decided),
        tuned: None,
        numbers,
        why: format!(
            "The largest ratio over users of pmlb's regret to the bound goes with {axis}^{}.",
            each.join(", ")
        ),
    })
}

/// The mean regret of the nearest and the farthest quarter of users.
fn by_epsilon(cell: &SettingResult) -> Option<String> {
    let played = cell.played(Width::Paper, "pmlb")?;
    let [near, far] =
        played.by_epsilon(&cell.people)?.map(|(epsilon, regret)| (short(epsilon), short(regret)));
    Some(format!(
        "by ε_i at the last setting: the nearest quarter of users (ε {}) has regret {} under pmlb, the \
         farthest (ε {}) {}",
        near.0, near.1, far.0, far.1
    ))
}

fn identical(measured: &Measured) -> Option<Finding> {
    let (mut decided, mut each, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for noise in measured.values("noise") {
        let here = measured.only(|cell| cell.setting.text("noise").as_ref() == Some(&noise));
        let of = |policy: &str| along(&here, |cell| worst(cell, policy));
        let ours = of("pmlb")?;
        decided.push(at_most(&ours, 0.25));
        each.push(format!("{} at noise {noise}", exponent(&ours)));
        for policy in ["pmlb-compensated", "pmlb-warm", "linucb-ind", "common", "cohort"] {
            if let Some(slope) = of(policy) {
                numbers.push(format!("noise {noise}, {policy}: exponent {}", exponent(&slope)));
            }
        }
    }
    (!each.is_empty()).then(|| Finding {
        verdict: Verdict::of_decided(decided),
        tuned: None,
        numbers,
        why: format!("The worst user's regret under pmlb goes with T^{}.", each.join(", ")),
    })
}

// Columns of the probe.
const WORST: [(&str, usize); 3] = [("pmlb", 0), ("pmlb-compensated", 2), ("linucb-ind", 4)];
const BOUND: usize = 6;

fn expected(measured: &Measured) -> Option<Finding> {
    let (mut held, mut numbers) = (0, Vec::new());
    for cell in &measured.cells {
        let logarithms = (cell.rounds as f64).ln().powi(2);
        held += usize::from(cell.value(WORST[0].1) <= cell.value(BOUND) * logarithms);
        let parts: Vec<String> = (WORST.iter())
            .map(|(policy, column)| format!("{policy} {}", short(cell.value(*column))))
            .collect();
        numbers.push(format!(
            "ε = {}, T = {}: worst user's mean regret {}; bound with constants 1 {}, with ln²T {}",
            cell.setting.text("epsilon")?,
            short(cell.rounds as f64),
            parts.join(", "),
            short(cell.value(BOUND)),
            short(cell.value(BOUND) * logarithms)
        ));
    }
    let slope = {
        let (xs, ys): (Vec<f64>, Vec<Vec<f64>>) = (measured.cells.iter())
            .map(|cell| {
                let ratios = cell.values.iter().map(|values| values[0] / values[BOUND]);
                (cell.rounds as f64, ratios.collect())
            })
            .unzip();
        slope(&xs, &ys)
    };
    let growth = slope.map_or(String::new(), |slope| {
        format!("; its ratio to the right-hand side goes with T^{}", exponent(&slope))
    });
    Finding::counted(held, numbers, |of| {
        format!("The worst user of pmlb is within the bound in {of} settings{growth}.")
    })
}
