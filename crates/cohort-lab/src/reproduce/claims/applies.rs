//! Whether the assumptions of a theorem or lemma hold: by [`crate::theory`], in every setting of a
//! study, and the number of rounds from which they would hold.

use std::collections::BTreeMap;

use cohort::params::Value;
use cohort::policies::cmlb::explore_rounds;
use serde::Serialize;

use super::super::evidence::{Measured, SettingResult};
use crate::figures::scale::short;
use crate::theory::{Bound, Inputs, Lists, Theory};

/// What the theory calls the case of all clusters being close.
pub const ALL_CLOSE: &str = "Special case of all clusters being close";

/// Whether a statement applies in a setting.
#[derive(Clone, Debug, Default)]
pub struct ConditionCheck {
    /// Whether it does.
    pub holds: bool,
    /// The least T at which it would, all else as it is.
    pub from: Option<f64>,
    /// What it lacks.
    pub missing: Vec<String>,
}

impl ConditionCheck {
    /// From a condition on T alone: T ≥ `least`, which may have T in a logarithm.
    pub fn from_rounds(rounds: f64, least: impl Fn(f64) -> f64) -> Self {
        let from = least_rounds(1, |rounds| rounds as f64 >= least(rounds as f64));
        let missing = vec![format!("T ≥ {}", short(from.unwrap_or(f64::INFINITY)))];
        Self { holds: rounds >= least(rounds), from, missing }
    }

    /// A condition that has nothing to do with T.
    pub fn other(holds: bool, what: &str) -> Self {
        Self { holds, from: None, missing: vec![what.to_owned()] }
    }
}

/// Where a statement applies, over all settings of a study.
#[derive(Clone, Debug, Serialize)]
pub struct Applicability {
    /// In so many settings.
    pub settings: usize,
    /// Of so many.
    pub of: usize,
    /// From this T on, where it is not reached.
    pub from_rounds: Option<f64>,
    /// The largest T that was run.
    pub largest_rounds: f64,
    /// In one sentence.
    pub text: String,
}

impl Applicability {
    /// Something that was observed, or that asks for no more than its study has.
    pub fn always() -> Self {
        let text = "asks for no more than the study has".to_owned();
        Self { settings: 0, of: 0, from_rounds: None, largest_rounds: 0.0, text }
    }

    /// Nothing was run.
    pub fn unknown() -> Self {
        Self { text: "not run".to_owned(), ..Self::always() }
    }

    /// From every setting.
    pub fn of(measured: &Measured, needed: &[ConditionCheck]) -> Self {
        let (settings, of) = (needed.iter().filter(|needed| needed.holds).count(), needed.len());
        // Where only a part of T is played, the setting says which T is meant.
        let told =
            |cell: &SettingResult| cell.setting.number("horizon").unwrap_or(cell.rounds as f64);
        let largest_rounds = measured.cells.iter().map(told).fold(0.0, f64::max);
        // The setting that lacks least.
        let lacking = needed.iter().filter(|needed| !needed.holds);
        let from = |needed: &ConditionCheck| needed.from.unwrap_or(f64::INFINITY);
        let nearest = lacking.min_by(|a, b| from(a).total_cmp(&from(b)));
        let from_rounds = nearest.and_then(|needed| needed.from);
        let lacks = match (nearest, from_rounds) {
            (None, _) => String::new(),
            (Some(_), Some(from)) => format!("T ≥ {}", short(from)),
            (Some(needed), None) => needed.missing.join(" and "),
        };
        let text = match settings {
            all if all == of => format!("applies in all {of} settings"),
            0 => {
                let largest = short(largest_rounds);
                format!("asks for {lacks}; not reached here, where the largest T is {largest}")
            }
            some => format!("applies in {some} of {of} settings; the others lack {lacks}"),
        };
        Self { settings, of, from_rounds, largest_rounds, text }
    }
}

/// The numbers of a setting, as the theory takes them, with a policy's own constants.
pub fn inputs(measured: &Measured, cell: &SettingResult, policy: &str) -> Option<Inputs> {
    let draft = measured.study.draft.policies.iter().find(|draft| draft.label() == policy)?;
    let people = cell.people.first()?;
    let number = |name: &str, value: f64| (name.to_owned(), Value::Real(value));
    let mut given = vec![
        number("users", cell.users as f64),
        number("rounds", cell.rounds as f64),
        number("dim", cell.dim as f64),
        number("arms", cell.arms as f64),
    ];
    for name in ["delta", "alpha", "c", "min_share"] {
        if let Some(Value::Real(value)) = draft.params.get(name) {
            given.push(number(name, *value));
        }
    }
    let separations: Vec<f64> = people.separations.iter().map(|gap| gap.min(2.0)).collect();
    let epsilon = people.epsilons.iter().copied().fold(0.0, f64::max).min(2.0);
    let shares = if separations.is_empty() { vec![1.0] } else { people.shares.clone() };
    Inputs::new(given, Lists { shares, separations, epsilons: vec![epsilon] }).ok()
}

/// The bounds of that name: one for every cluster, or one.
pub fn bounds(theory: &Theory, name: &str) -> Vec<Bound> {
    let clusters = theory.clusters.iter().flat_map(|cluster| &cluster.bounds);
    let personal = theory.personalization.iter().flat_map(|personal| &personal.bounds);
    let all = clusters.chain(personal).chain([&theory.all_close]);
    all.filter(|bound| bound.name == name).cloned().collect()
}

/// Whether a statement of the theory applies to a policy in a setting: all it asks for is so, and
/// the probability that it promises is more than 0.
pub fn of_bound(
    measured: &Measured,
    cell: &SettingResult,
    policy: &str,
    name: &str,
) -> ConditionCheck {
    let Some(inputs) = inputs(measured, cell, policy) else { return ConditionCheck::default() };
    let explores = explore_rho_min(measured, policy);
    // Every condition by its place among all of them, with its words where it does not hold.
    let lacks = |rounds: usize| -> BTreeMap<usize, String> {
        let theory = Theory::new(&Inputs { rounds, ..inputs.clone() });
        let mut needs: Vec<(bool, String)> = Vec::new();
        for bound in bounds(&theory, name) {
            needs.extend(bound.needs.iter().map(|need| (need.holds, need.what.clone())));
            let delta = format!("a smaller δ than {} for N = {}", inputs.delta, inputs.users);
            needs.push((bound.probability != Some(0.0), delta));
        }
        if let Some(rho) = explores {
            // Equation 3 says that T_explore is at least τ_min, with constants 1; what was played has its own.
            let &Inputs { c, dim, users, alpha, delta, .. } = &inputs;
            let played = explore_rounds(c, dim, users, rounds, alpha, delta, rho) as f64;
            let what = format!("T_explore ≥ τ_min = {}", short(theory.cmlb.tau_min));
            needs.push((played >= theory.cmlb.tau_min, what));
        }
        let missing = needs.into_iter().enumerate().filter(|(_, (holds, _))| !holds);
        missing.map(|(at, (_, what))| (at, what)).collect()
    };
    if lacks(cell.rounds).is_empty() {
        return ConditionCheck { holds: true, from: None, missing: Vec::new() };
    }
    if let Some(from) = least_rounds(cell.rounds, |rounds| lacks(rounds).is_empty()) {
        return ConditionCheck { holds: false, from: Some(from), missing: Vec::new() };
    }
    // So many rounds, and what no number of rounds gives, as it is asked for at that many.
    let never = lacks(MOST_ROUNDS);
    let enough = |rounds: usize| lacks(rounds).keys().all(|at| never.contains_key(at));
    let mut missing = Vec::new();
    let least = least_rounds(cell.rounds, enough).unwrap_or(MOST_ROUNDS as f64);
    if least > cell.rounds as f64 {
        missing.push(format!("T ≥ {}", short(least)));
    }
    missing.extend(lacks(least as usize).into_values());
    ConditionCheck { holds: false, from: None, missing: once_each(missing) }
}

/// The ρ by which a policy that explores divides its T_explore (1 as the algorithm is printed); none of others.
fn explore_rho_min(measured: &Measured, policy: &str) -> Option<f64> {
    let draft = measured.study.draft.policies.iter().find(|draft| draft.label() == policy)?;
    if !["cmlb", "sclb"].contains(&draft.name.as_str()) {
        return None;
    }
    match draft.params.get("explore_rho_min") {
        Some(Value::Real(rho)) => Some(*rho),
        _ => Some(1.0),
    }
}

/// Clusters ask for the same: it is told once.
fn once_each(all: Vec<String>) -> Vec<String> {
    let mut each: Vec<String> = Vec::new();
    for one in all {
        if !each.contains(&one) {
            each.push(one);
        }
    }
    each
}

/// No more rounds than this are looked at.
const MOST_ROUNDS: usize = 1 << 60;

/// The least number of rounds from which on something is so.
fn least_rounds(from: usize, holds: impl Fn(usize) -> bool) -> Option<f64> {
    let (mut low, mut high) = (from, from.max(1));
    while !holds(high) {
        low = high;
        high = high.checked_mul(2).filter(|high| *high <= MOST_ROUNDS)?;
    }
    if high == from {
        return Some(high as f64);
    }
    while high - low > high / 1000 + 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    Some(high as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_of_rounds_is_found() {
        let found = least_rounds(1000, |rounds| rounds >= 123_456).unwrap();
        assert!((123_456.0..124_000.0).contains(&found), "{found}");
        assert_eq!(least_rounds(1000, |_| false), None);
        assert_eq!(least_rounds(1000, |_| true), Some(1000.0));
    }

    #[test]
    fn a_threshold_that_depends_on_the_rounds_is_solved_for_them() {
        // T = 100·ln(2T) at 728.5, not at 100·ln 128000.
        let least = |rounds: f64| 100.0 * (2.0 * rounds).ln();
        let needed = ConditionCheck::from_rounds(64000.0, least);
        assert!(needed.holds && (728.0..731.0).contains(&needed.from.unwrap()), "{needed:?}");
        assert!(!ConditionCheck::from_rounds(400.0, least).holds);
    }
}
