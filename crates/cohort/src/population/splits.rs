//! Cohorts that are really two. A birth beside them gains too little: all cohorts have one spread, and
//! those that hold two kinds of users make it too large for everybody, until all of them are split.
//! So they are split at once, with a small spread, and it stays if the evidence of the whole gains.

use super::births::{SAMPLE, deviation, evenly};
use super::evidence::LaneSums;
use super::fit::Fitting;
use super::lanes::{LANES, Lane, ZERO};
use super::message::{message_len, write};
use super::pass::Pass;
use super::structure::{MARGIN, weight_cost};
use crate::linear::{Symmetric, dot};

/// A cohort is loose if its users are so many times farther from its centre (squared) than those of
/// the cohort in the middle.
const LOOSE: f64 = 3.0;
/// The spread that cohorts are tried with where theirs may be too large, in parts of it.
pub(super) const TIGHTER: f64 = 0.1;
/// Passes in which everybody settles after a split.
const PASSES: usize = 3;

/// Splits all loose cohorts if that gains.
pub(super) fn split_loose(fitting: &mut Fitting, pass: &Pass) -> bool {
    let loose = loose(fitting, pass);
    if loose.is_empty() {
        return false;
    }
    let before = (worth(fitting, pass), fitting.population.clone());
    for cohort in &mut fitting.population.components[1..] {
        cohort.spread *= TIGHTER;
    }
    for (c, axis) in &loose {
        split(fitting, pass, *c, axis);
    }
    fitting.iterate(PASSES);
    if worth(fitting, &fitting.pass()) > before.0 + MARGIN {
        return true;
    }
    fitting.population = before.1;
    false
}

/// The evidence less what cohorts cost.
fn worth(fitting: &Fitting, pass: &Pass) -> f64 {
    let [at_large, cohorts @ ..] = fitting.population.components.as_slice() else { return 0.0 };
    let weight = weight_cost(fitting.scales.users);
    pass.evidence - cohorts.iter().map(|cohort| cohort.cost(at_large) + weight).sum::<f64>()
}

/// Loose cohorts, and the axis along which the users of each differ most.
fn loose(fitting: &Fitting, pass: &Pass) -> Vec<(usize, Vec<f64>)> {
    let population = &fitting.population;
    let (count, d) = (population.components.len(), population.components[0].centre.len());
    let mut scatters = vec![(0.0, Symmetric::zero(d)); count];
    visit(fitting, pass, |_, _, c, share, far| {
        scatters[c].0 += share;
        scatters[c].1.add_outer(share, far);
    });
    let looseness = |(users, scatter): &(f64, Symmetric)| {
        (0..d).map(|k| scatter.at(k, k)).sum::<f64>() / users.max(1e-9)
    };
    let mut all: Vec<f64> = scatters[1..].iter().map(looseness).collect();
    all.sort_by(f64::total_cmp);
    let Some(middle) = all.get(all.len() / 2) else { return Vec::new() };
    // Two users are one cohort or none.
    (1..count)
        .filter(|c| pass.sums[*c].users > 2.5 && looseness(&scatters[*c]) > LOOSE * middle)
        .map(|c| (c, scatters[c].1.eigen().vectors[(d - 1) * d..].to_vec()))
        .collect()
}

/// Puts the users on one side of a cohort's centre into a cohort of their own.
fn split(fitting: &mut Fitting, pass: &Pass, c: usize, axis: &[f64]) {
    let population = &fitting.population;
    let d = axis.len();
    let mut sides = [LaneSums::new(d), LaneSums::new(d)];
    let mut messages = vec![ZERO; message_len(d)];
    visit(fitting, pass, |block, lane, of, share, far| {
        if of == c {
            let spread = population.components[c].spread;
            write(fitting.spectra[block], spread, population.noise, &mut messages);
            let mut shares: Lane = ZERO;
            shares[lane] = share;
            sides[usize::from(dot(axis, far) > 0.0)].add_messages(&shares, &messages);
        }
    });
    let [left, right] = sides.map(|side| side.total(d));
    let at_large = population.components[0].clone();
    let (mut stays, mut goes) =
        (population.components[c].clone(), population.components[c].clone());
    let part = left.users / (left.users + right.users).max(1e-9);
    stays.weight *= part;
    goes.weight *= 1.0 - part;
    stays.settle(&left, &at_large);
    goes.settle(&right, &at_large);
    fitting.population.components[c] = stays;
    fitting.population.components.push(goes);
}

/// Looks at users of cohorts: block, lane, cohort, share and how far it is from the centre.
fn visit(fitting: &Fitting, pass: &Pass, mut look: impl FnMut(usize, usize, usize, f64, &[f64])) {
    let count = pass.sums.len();
    for block in evenly(fitting.spectra.len(), 4 * SAMPLE, 0) {
        for c in 1..count {
            for lane in 0..LANES {
                let share = pass.shares[block * count + c][lane];
                if share > 0.01 {
                    let (users, component) =
                        (fitting.spectra[block], &fitting.population.components[c]);
                    look(
                        block,
                        lane,
                        c,
                        share,
                        &deviation(users, lane, component, fitting.population.noise),
                    );
                }
            }
        }
    }
}
