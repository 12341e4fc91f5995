//! Claims about the parts of the proofs: OFUL, the average user, ALB-Norm, and Shifted OFUL, the
//! last appendix.

use cohort::linear::{default_rho_min, tau_min};

use super::super::evidence::{Measured, SettingResult};
use super::super::fit::slope;
use super::applies::ConditionCheck;
use super::scaling::exponent;
use super::{Claim, Finding};
use crate::figures::scale::short;

// Columns of the probe of OFUL.
const COVERED: usize = 0;
const EIGENVALUE: usize = 1;
const FLOOR: usize = 2;
const ERROR: usize = 3;
const BALL: usize = 4;

// Some columns of the probe of Shifted OFUL.
const APART: usize = 10;
const SAME_APART: usize = 11;
const EXTREMES: usize = 12;

fn after_tau(_: &Measured, cell: &SettingResult) -> ConditionCheck {
    let (Some(dim), Some(delta)) = (cell.setting.number("dim"), cell.setting.number("delta"))
    else {
        return ConditionCheck::default();
    };
    let dim = dim as usize;
    let tau = |rounds: f64| tau_min(default_rho_min(dim), dim, rounds as usize, delta);
    ConditionCheck::from_rounds(cell.rounds as f64, tau)
}

/// Which of the probe's numbers are compared, and in which settings.
fn count(
    measured: &Measured,
    what: &str,
    holds: impl Fn(&SettingResult) -> bool,
    line: impl Fn(&SettingResult) -> String,
) -> Option<Finding> {
    let held = measured.cells.iter().filter(|cell| holds(cell)).count();
    let numbers = measured.cells.iter().map(line).collect();
    Finding::counted(held, numbers, |of| format!("{what} in {of} settings."))
}

/// `d = 15, ψ = 0.1`
fn place(cell: &SettingResult) -> String {
    let values = cell.setting.values.iter();
    let parts: Vec<String> =
        values.map(|(key, value)| format!("{key} {}", super::super::study::plain(value))).collect();
    parts.join(", ")
}

/// Two numbers of a setting, each after a word.
fn two(cell: &SettingResult, first: (&str, usize), second: (&str, usize)) -> String {
    let part = |(word, column): (&str, usize)| format!("{word}{}", short(cell.value(column)));
    format!("{}: {}, {}", place(cell), part(first), part(second))
}

/// The share of repetitions in which something held.
fn share(cell: &SettingResult, holds: impl Fn(&[f64]) -> bool) -> f64 {
    let held = cell.values.iter().filter(|values| holds(values)).count();
    held as f64 / cell.values.len() as f64
}

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "oful-coverage",
        statement: "The confidence set of OFUL holds θ* at all times with probability at least 1 − δ.",
        place: "proof of Lemma 1, from Abbasi-Yadkori et al. 2011",
        study: "probe-oful",
        needs: None,
        rule: "the share of runs whose set held θ* in every round is at least 1 − δ, counted over settings",
        check: |measured| {
            count(
                measured,
                "The set holds θ* as often as stated",
                |cell| cell.value(COVERED) >= 1.0 - cell.setting.number("delta").unwrap_or(0.0),
                |cell| {
                    format!("{}: in a share of {} of runs", place(cell), short(cell.value(COVERED)))
                },
            )
        },
    },
    Claim {
        id: "oful-eigenvalue",
        statement: "The smallest eigenvalue of V_t is at least 1 + ρ_min·t/2 (once t ≥ τ_min(δ)).",
        place: "proof of Lemma 1, from OSOM",
        study: "probe-oful",
        needs: Some(after_tau),
        rule: "it is in at least a share of 1 − δ of runs, counted over settings",
        check: |measured| {
            count(
                measured,
                "The smallest eigenvalue is as large as stated",
                |cell| {
                    let delta = cell.setting.number("delta").unwrap_or(0.0);
                    share(cell, |values| values[EIGENVALUE] >= values[FLOOR]) >= 1.0 - delta
                },
                |cell| {
                    let (found, stated) = (short(cell.value(EIGENVALUE)), short(cell.value(FLOOR)));
                    format!("{}: {found}, stated {stated}", place(cell))
                },
            )
        },
    },
    Claim {
        id: "oful-estimate",
        statement: "‖θ̂_t − θ*‖ ≤ D/√(1 + ρ_min·t/2) with probability at least 1 − δ.",
        place: "proof of Lemma 1, first display",
        study: "probe-oful",
        needs: Some(after_tau),
        rule: "it is in at least a share of 1 − δ of runs (D the radius of OFUL), counted over settings",
        check: |measured| {
            let finding = count(
                measured,
                "The estimate is as near as stated",
                |cell| {
                    let delta = cell.setting.number("delta").unwrap_or(0.0);
                    share(cell, |values| values[ERROR] <= values[BALL]) >= 1.0 - delta
                },
                |cell| {
                    let (found, stated) = (short(cell.value(ERROR)), short(cell.value(BALL)));
                    format!("{}: {found} away, stated {stated}", place(cell))
                },
            )?;
            let rate = exponent_in(measured, "rounds", ERROR);
            let rate = rate.map_or(String::new(), |rate| format!(" It goes with T^{rate}."));
            Some(Finding { why: format!("{}{rate}", finding.why), ..finding })
        },
    },
    Claim {
        id: "average-user",
        statement: "‖θ̂* − θ̄*‖ ≤ Õ(√(d/(ρ_min N √T)))·log(1/δ) after the common phase of √T rounds.",
        place: "proof of Theorem 3",
        study: "probe-average",
        needs: Some(|_, cell| {
            // √T ≥ τ_min; the probe has two dimensions and δ = 0.4.
            let tau = |rounds: f64| tau_min(default_rho_min(2), 2, rounds as usize, 0.4);
            let Some(horizon) = cell.setting.number("horizon") else {
                return ConditionCheck::default();
            };
            ConditionCheck::from_rounds(horizon, |rounds| tau(rounds).powi(2))
        }),
        rule: "the distance is at most the right-hand side with all constants 1 in the mean, counted over \
               settings",
        check: |measured| {
            let finding = count(
                measured,
                "The average user is as well known as stated",
                |cell| cell.value(0) <= cell.value(1),
                |cell| two(cell, ("", 0), ("stated ", 1)),
            )?;
            let rate = |axis: &str, key| match exponent_in(measured, key, 0) {
                Some(rate) => format!(" It goes with {axis}^{rate}."),
                None => String::new(),
            };
            let why = format!("{}{}{}", finding.why, rate("N", "users"), rate("T", "horizon"));
            Some(Finding { why, ..finding })
        },
    },
    Claim {
        id: "lemma-3",
        statement: "With probability at least 1 − 8δ_1 − δ_s, for all i large, b_i ≤ 2‖θ*‖ holds.",
        place: "Lemma 3 (Appendix B)",
        study: "probe-norm",
        needs: Some(|_, cell| {
            ConditionCheck::other(cell.value(3) <= 1.0, "2σ√d/T^¼·ln(K√T/δ) ≤ 1")
        }),
        rule: "the last b_i is at most 2‖θ*‖ in at least a share of 1 − 8δ_1 = 0.2 of repetitions (δ_s = 0, since b_1 \
               is given), counted over ‖θ*‖ and T",
        check: |measured| {
            count(
                measured,
                "b_i ≤ 2‖θ*‖",
                |cell| share(cell, |values| values[0] <= values[1]) >= 1.0 - 8.0 * 0.1,
                |cell| two(cell, ("last b_i ", 0), ("2‖θ*‖ = ", 1)),
            )
        },
    },
    Claim {
        id: "corollary-2",
        statement: "The regret of ALB-Norm satisfies R(T) ≤ C·‖θ*‖·(√K + √d)·√T·log(KT/δ_1).",
        place: "Corollary 2 (Appendix B)",
        study: "probe-norm",
        needs: None,
        rule: "one constant does for all ‖θ*‖: at the largest T, regret/‖θ*‖ is at most 3 times what it is at the \
               largest ‖θ*‖, counted over ‖θ*‖",
        check: proportional,
    },
    Claim {
        id: "proposition-1",
        statement: "R_T(X) ≤ R_T^(Γ)(X) + Σ⟨X_t − argmax_β⟨β, θ*⟩, Γ⟩ for any sequence of actions.",
        place: "Proposition 1 (Appendix I)",
        study: "probe-shifted",
        needs: None,
        rule: "it holds in every repetition for the actions of the shifted OFUL, counted over settings",
        check: |measured| {
            count(
                measured,
                "Proposition 1 as printed holds",
                |cell| share(cell, |v| v[0] <= v[2] + 1e-9) == 1.0,
                |cell| two(cell, ("R_T = ", 0), ("right-hand side ", 2)),
            )
        },
    },
    Claim {
        id: "corollary-3",
        statement: "If the K context vectors are all 0 mean random variables, then E[R_T] ≤ E[R_T^(Γ)].",
        place: "Corollary 3 (Appendix I)",
        study: "probe-shifted",
        needs: None,
        rule: "the mean of R_T is at most the mean of R_T^(Γ), counted over settings",
        check: |measured| {
            count(
                measured,
                "The shifted regret is the larger one in the mean",
                |cell| cell.value(0) <= cell.value(1),
                |cell| two(cell, ("E[R_T] = ", 0), ("E[R_T^(Γ)] = ", 1)),
            )
        },
    },
    Claim {
        id: "corollary-4",
        statement: "Suppose for all time t the best arm for θ* and for Γ is the same. Then R_T ≤ R_T^(Γ).",
        place: "Corollary 4 (Appendix I)",
        study: "probe-shifted",
        needs: Some(|_, cell| {
            let same = cell.values.iter().all(|values| values[8] == 1.0);
            ConditionCheck::other(same, "the same best arm in every round")
        }),
        rule: "where the best arm was the same in every round, R_T ≤ R_T^(Γ) in every repetition, counted over \
               settings",
        check: |measured| shifted_is_larger(measured, |_| 1.0),
    },
    Claim {
        id: "lemma-4",
        statement: "max(f + g) ≥ max f + min g for bounded f and g on a compact set.",
        place: "Lemma 4 (Appendix I)",
        study: "probe-shifted",
        needs: None,
        rule: "it holds for f = ⟨·, θ*⟩ and g = −⟨·, Γ⟩ over the arms of every round, counted over settings",
        check: |measured| {
            count(
                measured,
                "Lemma 4 holds in every round (it is true, and not what it is quoted for)",
                |cell| share(cell, |values| values[EXTREMES] == 1.0) == 1.0,
                |cell| {
                    format!(
                        "{}: in a share of {} of rounds",
                        place(cell),
                        short(cell.value(EXTREMES))
                    )
                },
            )
        },
    },
    Claim {
        id: "lemma-5",
        statement: "Suppose that for all i ≠ j |⟨β_i − β_j, θ*⟩| ≥ 4·‖θ* − Γ‖. Then the best arm for θ* is \
                    the best for Γ.",
        place: "Lemma 5 (Appendix I)",
        study: "probe-shifted",
        needs: Some(|_, cell| {
            let some = cell.values.iter().any(|values| values[APART] > 0.0);
            ConditionCheck::other(some, "gaps of 4ψ between all arms in some round")
        }),
        rule: "the best arm is the same in every round in which all arms are that far apart, counted over \
               settings that have such rounds",
        check: |measured| {
            let held = |cell: &SettingResult| {
                cell.values.iter().all(|values| values[APART] == 0.0 || values[SAME_APART] == 1.0)
            };
            let line = |cell: &SettingResult| {
                let apart = short(cell.value(APART));
                format!("{}: all arms 4ψ apart in a share of {apart} of rounds", place(cell))
            };
            count(
                measured,
                "The best arm is the same wherever the gaps are as asked for",
                held,
                line,
            )
        },
    },
    Claim {
        id: "lemma-6",
        statement: "P[the best arm for θ* is the best for Γ] ≥ 1 − (K choose 2)·e^{−d/4·(1−8ψ²)²} − K·e^{−(√5−1)/2·d}.",
        place: "Lemma 6 (Appendix I)",
        study: "probe-shifted",
        needs: Some(says_something),
        rule: "the share of rounds with the same best arm is at least what is stated, counted over settings",
        check: |measured| {
            count(
                measured,
                "The best arm is the same as often as stated",
                |cell| cell.value(8) >= cell.value(9),
                |cell| {
                    format!(
                        "{}: in a share of {} of rounds, stated {}",
                        place(cell),
                        short(cell.value(8)),
                        short(cell.value(9))
                    )
                },
            )
        },
    },
    Claim {
        id: "lemma-7",
        statement: "Let X be the actions chosen by the Γ shifted OFUL. Then, with [that] probability, R_T(X) ≤ \
                    R_T^(Γ)(X).",
        place: "Lemma 7 (Appendix I): what Theorem 3 rests on",
        study: "probe-shifted",
        needs: Some(says_something),
        rule: "R_T ≤ R_T^(Γ) in at least the stated share of repetitions, counted over settings",
        check: |measured| shifted_is_larger(measured, |cell| cell.value(9)),
    },
    Claim {
        id: "shift-mended",
        statement: "R_T(X) ≤ R_T^(Γ)(X) + Σ⟨argmax_β⟨β, θ*⟩ − X_t, Γ⟩ for any sequence of actions.",
        place: "this project, instead of Proposition 1",
        study: "probe-shifted",
        needs: None,
        rule: "it holds in every repetition for the actions of the shifted OFUL, counted over settings",
        check: |measured| {
            count(
                measured,
                "With the sign mended it holds",
                |cell| share(cell, |v| v[0] <= v[3] + 1e-9) == 1.0,
                |cell| two(cell, ("R_T = ", 0), ("right-hand side ", 3)),
            )
        },
    },
    Claim {
        id: "shift-compensated",
        statement: "Shifted OFUL that adds ⟨x, Γ⟩ back when it chooses has R_T ≤ 2·Σβ_t‖X_t‖_{V⁻¹}, as OFUL has.",
        place: "this project, instead of Lemma 7",
        study: "probe-shifted",
        needs: None,
        rule: "it holds in at least a share of 1 − δ of repetitions, counted over settings",
        check: |measured| {
            count(
                measured,
                "Adding the shift back keeps OFUL's bound",
                |cell| share(cell, |v| v[4] <= v[5] + 1e-9) >= 0.6,
                |cell| {
                    let n = |column| short(cell.value(column));
                    format!(
                        "{}: compensated {}, its bound {}, the letter {}, OFUL {}, random {}",
                        place(cell),
                        n(4),
                        n(5),
                        n(0),
                        n(6),
                        n(7)
                    )
                },
            )
        },
    },
];

/// The exponent of a column along a facet, all other facets pooled.
fn exponent_in(measured: &Measured, key: &str, column: usize) -> Option<String> {
    let mut points: Vec<(f64, Vec<f64>)> = Vec::new();
    for value in measured.values(key) {
        let cells: Vec<&SettingResult> = measured.with(key, &value).collect();
        let Some(x) = cells.first().and_then(|cell| cell.setting.number(key)) else { continue };
        let ys = cells.iter().flat_map(|cell| cell.values.iter().map(|values| values[column]));
        points.push((x, ys.collect()));
    }
    let (xs, ys): (Vec<f64>, Vec<Vec<f64>>) = points.into_iter().unzip();
    slope(&xs, &ys).map(|slope| exponent(&slope))
}

fn proportional(measured: &Measured) -> Option<Finding> {
    let longest = measured.cells.iter().map(|cell| cell.rounds).max()?;
    let at_end = measured.only(|cell| cell.rounds == longest);
    let per_norm = |cell: &SettingResult| cell.value(2) / (cell.value(1) / 2.0);
    let largest = per_norm(at_end.cells.last()?);
    let finding = count(
        &at_end,
        "Regret/‖θ*‖ is within three times that of the longest θ*",
        |cell| per_norm(cell) <= 3.0 * largest,
        |cell| {
            let (regret, ratio) = (short(cell.value(2)), short(per_norm(cell) / largest));
            format!("{}: regret {regret}, regret/‖θ*‖ ×{ratio} that of the longest", place(cell))
        },
    )?;
    let rates: Vec<String> = (measured.values("norm").iter())
        .map(|norm| {
            let here = measured.only(|cell| cell.setting.text("norm").as_ref() == Some(norm));
            let rate = exponent_in(&here, "rounds", 2).unwrap_or("?".to_owned());
            format!("T^{rate} at ‖θ*‖ = {norm}")
        })
        .collect();
    let why = format!("{} Regret goes with {}.", finding.why, rates.join(", "));
    Some(Finding { why, ..finding })
}

/// Lemmas 6 and 7 state a probability, which is more than 0 only in some settings.
fn says_something(_: &Measured, cell: &SettingResult) -> ConditionCheck {
    ConditionCheck::other(cell.value(9) > 0.0, "d large against ln K, ψ < 1/(2√2)")
}

fn shifted_is_larger(measured: &Measured, stated: fn(&SettingResult) -> f64) -> Option<Finding> {
    count(
        measured,
        "R_T ≤ R_T^(Γ) as often as stated",
        |cell| share(cell, |values| values[0] <= values[1]) >= stated(cell),
        |cell| {
            format!(
                "{}: R_T = {}, R_T^(Γ) = {}, random {}; R_T ≤ R_T^(Γ) in a share of {} of repetitions",
                place(cell),
                short(cell.value(0)),
                short(cell.value(1)),
                short(cell.value(7)),
                short(share(cell, |values| values[0] <= values[1]))
            )
        },
    )
}
