//! Splitting cohorts that hold two kinds of users. Adding single candidates does not find them: all
//! cohorts share one covariance, and mixed cohorts make it too large until all of them are split.
//! So all are split at once, with a small covariance, and the result is kept if the evidence
//! increases.

use super::candidates::{deviations, systematic_sample};
use super::constants;
use super::fit::Fitting;
use super::lanes::{F64x8, LANES, ZERO};
use super::maximise::CentrePrior;
use super::message::accumulate;
use super::pass::Pass;
use super::structure::penalized_evidence;
use super::sums::Sums;
use crate::linear::{Symmetric, dot};

/// Steps of the power method.
const POWER_STEPS: usize = 12;

/// Splits all loose cohorts if that increases the evidence.
pub(super) fn split_loose(fitting: &mut Fitting, pass: &Pass) -> bool {
    let loose = loose(fitting, pass);
    if loose.is_empty() {
        return false;
    }
    let before = (penalized_evidence(fitting, pass), fitting.population.clone());
    let features = fitting.population.features();
    for variance in &mut fitting.population.variances[1][..features] {
        *variance *= constants::split_tighter();
    }
    for (c, axis) in &loose {
        split(fitting, pass, *c, axis);
    }
    fitting.iterate(constants::split_passes());
    let after = fitting.pass();
    if penalized_evidence(fitting, &after) > before.0 + constants::cohort_margin() {
        return true;
    }
    fitting.population = before.1;
    false
}

/// Loose cohorts, and the axis along which the users of each differ most.
fn loose(fitting: &Fitting, pass: &Pass) -> Vec<(usize, Vec<f64>)> {
    let population = &fitting.population;
    let (count, d) = (population.components.len(), population.features());
    if count < 2 {
        return Vec::new();
    }
    let mut scatters = vec![(0.0, Symmetric::zero(d)); count];
    visit(fitting, pass, |_, _, c, share, far| {
        scatters[c].0 += share;
        scatters[c].1.add_outer(share, far);
    });
    // Beside deviations in all directions, those in one: of two kinds of users in one cohort the noise of all other
    // directions hides less.
    let axes: Vec<(f64, Vec<f64>)> = scatters.iter().map(|(_, all)| longest_axis(all)).collect();
    let in_all: Vec<f64> = (scatters.iter())
        .map(|(users, all)| (0..d).map(|k| all.at(k, k)).sum::<f64>() / users.max(1e-9))
        .collect();
    let in_one: Vec<f64> = (scatters.iter().zip(&axes))
        .map(|((users, _), (longest, _))| {
            // What the largest of d variances is beside the others by chance, estimated from so many users.
            let chance = (1.0 + (d as f64 / users.max(1.0)).sqrt()).powi(2);
            longest / users.max(1e-9) / chance
        })
        .collect();
    let middle = |of: &[f64]| {
        let mut of = of[1..].to_vec();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let most =
        [constants::split_loose() * middle(&in_all), constants::split_longer() * middle(&in_one)];
    // Two users are one cohort or none.
    (1..count)
        .filter(|c| {
            pass.sums.components[*c].users > 2.5 && (in_all[*c] > most[0] || in_one[*c] > most[1])
        })
        .map(|c| (c, axes[c].1.clone()))
        .collect()
}

/// The largest eigenvalue of a scatter matrix and its eigenvector, nearly, by the power method: with a gap to the next
/// one, which is what is looked for, a few steps are enough.
fn longest_axis(scatter: &Symmetric) -> (f64, Vec<f64>) {
    let d = scatter.dim();
    let widest = (0..d).max_by(|a, b| scatter.at(*a, *a).total_cmp(&scatter.at(*b, *b)));
    let mut axis: Vec<f64> = (0..d).map(|k| scatter.at(widest.unwrap_or(0), k)).collect();
    let (mut next, mut value) = (vec![0.0; d], 0.0);
    for _ in 0..POWER_STEPS {
        let length = dot(&axis, &axis).sqrt();
        if !(length.is_finite() && length > 0.0) {
            return (0.0, axis);
        }
        axis.iter_mut().for_each(|a| *a /= length);
        scatter.times(&axis, &mut next);
        value = dot(&axis, &next);
        std::mem::swap(&mut axis, &mut next);
    }
    (value, axis)
}

/// Puts the users on one side of a cohort's centre into a cohort of their own.
fn split(fitting: &mut Fitting, pass: &Pass, c: usize, axis: &[f64]) {
    let population = &fitting.population;
    let dim = population.features() + 1;
    let mut sides = [Sums::new(dim), Sums::new(dim)];
    visit(fitting, pass, |block, lane, of, share, far| {
        if of == c {
            let mut responsibilities: F64x8 = ZERO;
            responsibilities[lane] = share;
            let side = &mut sides[usize::from(dot(axis, far) > 0.0)];
            side.users += share;
            accumulate(&mut side.message, &responsibilities, &fitting.messages()[block][1], 0.0);
        }
    });
    let [left, right] = sides;
    let prior = CentrePrior::of_cohorts(population);
    let (mut stays, mut goes) =
        (population.components[c].clone(), population.components[c].clone());
    let part = left.users / (left.users + right.users).max(1e-9);
    stays.weight *= part.max(1e-6);
    goes.weight *= (1.0 - part).max(1e-6);
    prior.settle(&mut stays, &left);
    prior.settle(&mut goes, &right);
    fitting.population.components[c] = stays;
    fitting.population.components.push(goes);
}

/// Visits users of cohorts: block, lane, cohort, responsibility and the deviation of θ from the
/// centre.
fn visit(fitting: &Fitting, pass: &Pass, mut look: impl FnMut(usize, usize, usize, f64, &[f64])) {
    let population = &fitting.population;
    let (count, features) = (population.components.len(), population.features());
    let mut far = vec![ZERO; features + 1];
    for block in systematic_sample(fitting.users.len(), constants::split_blocks(), 0) {
        for c in 1..count.min(pass.sums.components.len()) {
            let responsibilities = pass.responsibilities[block * pass.sums.components.len() + c];
            if responsibilities.iter().all(|share| *share <= 0.01) {
                continue;
            }
            let component = &population.components[c];
            let message = &fitting.messages()[block][1];
            deviations(message, component, &population.variances[1], &mut far);
            for lane in (0..LANES).filter(|lane| responsibilities[*lane] > 0.01) {
                let far: Vec<f64> = far[..features].iter().map(|v| v[lane]).collect();
                look(block, lane, c, responsibilities[lane], &far);
            }
        }
    }
}
