//! Whether the assumptions of a theorem or lemma hold: by [`crate::theory`], in every setting of a
//! study, and the number of rounds from which they would hold.

use cohort::params::Value;
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
    /// From a condition on T alone.
    pub fn from_rounds(rounds: f64, least: f64) -> Self {
        let missing = vec![format!("T ≥ {}", short(least))];
        Self { holds: rounds >= least, from: Some(least), missing }
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
        let elsewhere = match (nearest, from_rounds) {
            (None, _) => String::new(),
            (Some(_), Some(from)) => format!(
                "applies from T = {}, the largest T run is {}",
                short(from),
                short(largest_rounds)
            ),
            (Some(needed), None) => {
                format!("applies at no T alone: it asks for {}", needed.missing.join(" and "))
            }
        };
        let text = match settings {
            all if all == of => format!("applies in all {of} settings"),
            0 => format!("{elsewhere}; not reached here"),
            some => format!("applies in {some} of {of} settings; elsewhere it {elsewhere}"),
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
    let lacks = |rounds: usize| -> Vec<String> {
        let found = bounds(&Theory::new(&Inputs { rounds, ..inputs.clone() }), name);
        let mut missing: Vec<String> = Vec::new();
        for bound in &found {
            let needs = bound.needs.iter().filter(|need| !need.holds);
            missing.extend(needs.map(|need| need.what.clone()));
            if bound.probability == Some(0.0) {
                missing.push(format!("a smaller δ than {} for N = {}", inputs.delta, inputs.users));
            }
        }
        once_each(missing)
    };
    let mut missing = lacks(cell.rounds);
    if missing.is_empty() {
        return ConditionCheck { holds: true, from: None, missing };
    }
    let from = least_rounds(cell.rounds, |rounds| lacks(rounds).is_empty());
    if from.is_none() {
        // What is asked for besides so many rounds.
        missing.extend(lacks(MOST_ROUNDS));
        missing = once_each(missing);
    }
    ConditionCheck { holds: false, from, missing }
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
    }
}
