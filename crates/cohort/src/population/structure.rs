//! How many cohorts there are: each change of their number only where the evidence gains.

use super::births::Nursery;
use super::fit::Fitting;
use super::pass::Pass;
use super::splits::{TIGHTER, split_loose};

/// The spread that the first cohort is tried with, in parts of the population's.
const FIRST_SPREADS: [f64; 2] = [0.02, 0.15];

/// Nats that one more cohort must gain: less is noise.
pub(super) const MARGIN: f64 = 1.0;

/// Changes the number of cohorts while that helps.
pub(super) fn improve(fitting: &mut Fitting) {
    let mut pass = merge_and_remove(fitting);
    if split_loose(fitting, &pass) {
        pass = merge_and_remove(fitting);
    }
    // A new cohort has the spread of the others, or a smaller one, since what looks like one loose
    // cohort may hide several tight ones; the first tries a small and a large spread.
    let population = &fitting.population;
    let spreads = match population.components.get(1) {
        Some(cohort) if cohort.spread > FIRST_SPREADS[0] * population.components[0].spread => {
            vec![cohort.spread, TIGHTER * cohort.spread]
        }
        Some(cohort) => vec![cohort.spread],
        None => FIRST_SPREADS.map(|part| part * population.components[0].spread).to_vec(),
    };
    for spread in spreads {
        let mut nursery = Nursery::new(fitting, &pass, spread);
        if nursery.raise(&mut fitting.population) {
            fitting.iterate(3);
            merge_and_remove(fitting);
            return;
        }
    }
}

/// What the weight of one more component costs: ½ ln N, as in BIC.
pub(super) fn weight_cost(users: f64) -> f64 {
    0.5 * users.max(1.0).ln()
}

/// Leaves fewer cohorts while that gains; returns the last pass.
fn merge_and_remove(fitting: &mut Fitting) -> Pass {
    loop {
        let pass = fitting.pass();
        if !merge_or_remove(fitting, &pass) {
            return pass;
        }
    }
}

/// One change that leaves fewer cohorts, if any gains.
fn merge_or_remove(fitting: &mut Fitting, pass: &Pass) -> bool {
    if let Some(cohort) = superfluous(fitting, pass) {
        let components = &mut fitting.population.components;
        components.remove(cohort);
        let rest: f64 = components.iter().map(|component| component.weight).sum();
        for component in components.iter_mut() {
            component.weight /= rest;
        }
        fitting.iterate(1);
        return true;
    }
    if let Some((a, b)) = same(fitting, pass) {
        let components = &mut fitting.population.components;
        let mut both = pass.sums[a].clone();
        both.add(&pass.sums[b]);
        let (at_large, weight) = (components[0].clone(), components[b].weight);
        components[a].weight += weight;
        components[a].settle(&both, &at_large);
        components.remove(b);
        fitting.iterate(1);
        return true;
    }
    false
}

/// The cohort whose users are best explained without it, if there is one.
fn superfluous(fitting: &Fitting, pass: &Pass) -> Option<usize> {
    let (components, users) = (&fitting.population.components, fitting.scales.users);
    let gain = |c: usize| {
        pass.absence[c] - users * (1.0 - components[c].weight).ln()
            + components[c].cost(&components[0])
            + weight_cost(users)
    };
    let (most, cohort) =
        (1..components.len()).map(|c| (gain(c), c)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most > 0.0).then_some(cohort)
}

/// The two cohorts that are best explained as one, if there are such.
fn same(fitting: &Fitting, pass: &Pass) -> Option<(usize, usize)> {
    let (components, users) = (&fitting.population.components, fitting.scales.users);
    let count = components.len();
    let alone: Vec<f64> = pass.sums.iter().map(|sums| components[0].log_integral(sums)).collect();
    let mut best: Option<(f64, usize, usize)> = None;
    for a in 1..count {
        for b in a + 1..count {
            let mut both = pass.sums[a].clone();
            both.add(&pass.sums[b]);
            let (pa, pb) = (components[a].weight, components[b].weight);
            let mut gain = components[0].log_integral(&both) - alone[a] - alone[b]
                + pass.sums[a].users * ((pa + pb) / pa).ln()
                + pass.sums[b].users * ((pa + pb) / pb).ln()
                + weight_cost(users);
            if gain > 0.0 {
                gain -= indecision(pass, count, a, b);
            }
            if gain > 0.0 && best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, a, b));
            }
        }
    }
    best.map(|(_, a, b)| (a, b))
}

/// The entropy of users' shares between two cohorts, which they would lose.
fn indecision(pass: &Pass, count: usize, a: usize, b: usize) -> f64 {
    let entropy = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
    pass.shares
        .chunks_exact(count)
        .flat_map(|shares| shares[a].iter().zip(&shares[b]))
        .map(|(a, b)| entropy(a + b) - entropy(*a) - entropy(*b))
        .sum()
}
