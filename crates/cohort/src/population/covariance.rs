//! The directions in which users differ most: a low-rank covariance added to a common diagonal one,
//! as far as the evidence supports it.
//!
//! ```text
//! R = Σ g gᵀ,  H = Σ information:  E R = H + Σ H_i (S* − S) H_i      where S is assumed and S* is true
//! S* ≈ S + H̄⁻¹(R̄ − H̄)H̄⁻¹/ρ                                          its largest eigenvectors are tried
//! ```
//!
//! with ρ = Σ tr H_i² / (N tr H̄²), which is 1 where all users know the same coordinates.

use super::constants;
use super::fit::{Fitting, inverse_work};
use super::model::{Basis, Groups, Population};
use super::structure::penalized_evidence;
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::pace::spend;

/// Numbers of directions that are tried.
const TRIED: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// What `directions` cost: ½ ln N for each of their parameters, as in BIC.
pub(super) fn cost(population: &Population, users: f64) -> f64 {
    let (d, k) = (population.used_features() as f64, population.directions as f64);
    let parameters = k * d - k * (k + 1.0) / 2.0 + k;
    0.5 * parameters * users.max(1.0).ln()
}

/// Adopts the directions that increase the evidence by more than their cost.
pub(super) fn improve(fitting: &mut Fitting) {
    let (population, scales) = (&fitting.population, &fitting.scales);
    let features = population.features();
    let class = usize::from(population.components.len() > 1);
    if features < 2
        || scales.users < constants::directions_least_users()
        || scales.rewards < constants::directions_least_rewards() * scales.users
        || scales.rewards < constants::directions_growth() * population.directions_tried
        || (class == 1
            && population.spread(1) < constants::directions_tight() * population.spread(0))
    {
        return;
    }
    fitting.population.directions_tried = fitting.scales.rewards;
    let pass = fitting.whole_pass();
    let Some((covariance, curve)) = estimate(&fitting.population, &pass.sums, class) else {
        return;
    };
    let eigen = covariance.eigen();
    // Largest first.
    let values: Vec<f64> = eigen.values.iter().rev().map(|value| value.max(0.0)).collect();
    let rows: Vec<f64> = eigen.vectors.chunks_exact(features).rev().flatten().copied().collect();
    let Some(directions) = promising(&fitting.population, &values, curve, fitting.scales.users)
    else {
        return;
    };
    let mut best = penalized_evidence(fitting, &pass) + constants::cohort_margin();
    let mut kept = (fitting.population.clone(), fitting.users.clone());
    let turn = Basis::new(rows, features);
    spend(4.0 * fitting.users.len() as f64 * inverse_work(features + 1));
    fitting.users.iter_mut().for_each(|users| users.rotate(&turn));
    let turned = fitting.population.turned(&turn);
    let users = fitting.users.clone();
    for directions in directions {
        fitting.population = turned.with_directions(directions, class, &values);
        fitting.rotated();
        fitting.iterate(constants::directions_passes());
        let pass = fitting.pass();
        let found = penalized_evidence(fitting, &pass);
        if found <= best {
            // The others promised less.
            break;
        }
        best = found;
        kept = (fitting.population.clone(), users.clone());
    }
    // And no direction at all, if there were some.
    if turned.directions > 0 {
        fitting.population = turned.with_directions(0, class, &values);
        fitting.rotated();
        fitting.iterate(constants::directions_passes());
        let pass = fitting.pass();
        if penalized_evidence(fitting, &pass) > best {
            kept = (fitting.population.clone(), users);
        }
    }
    (fitting.population, fitting.users) = kept;
    fitting.rotated();
}

/// Numbers of directions worth trying: those with the largest gain predicted from the curvature, if
/// any gain exceeds its cost; all of them if there are directions already.
fn promising(
    population: &Population,
    values: &[f64],
    curve: f64,
    users: f64,
) -> Option<Vec<usize>> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let gain = |k: usize| {
        let squares: f64 = values[..k].iter().map(|value| (value - mean).powi(2)).sum();
        let with = Population { directions: k, ..population.clone() };
        0.5 * curve * squares - cost(&with, users)
    };
    let mut tried: Vec<(f64, usize)> =
        TRIED.iter().filter(|k| **k < values.len()).map(|k| (gain(*k), *k)).collect();
    tried.sort_by(|a, b| b.0.total_cmp(&a.0));
    if tried.first().is_none_or(|(gain, _)| *gain < 0.0) && population.directions == 0 {
        return None;
    }
    Some(tried.into_iter().take(3).map(|(_, k)| k).collect())
}

/// The covariance of a class's users, in the features, and the curvature of the evidence in one variance.
fn estimate(
    population: &Population,
    sums: &super::sums::PassSums,
    class: usize,
) -> Option<(Symmetric, f64)> {
    let (features, dim) = (population.features(), population.features() + 1);
    let members = if class == 0 { 0..1 } else { 1..population.components.len() };
    let users: f64 = members.clone().map(|c| sums.components[c].users).sum();
    let mut information = vec![0.0; packed_len(dim)];
    for c in members {
        for (sum, value) in information.iter_mut().zip(sums.components[c].information()) {
            *sum += value / users;
        }
    }
    // The first d rows of both; the level hardly matters here.
    let mean = Symmetric::from_packed(features, information[..packed_len(features)].to_vec());
    let mut lifted = mean.clone();
    let trace: f64 = (0..features).map(|j| mean.at(j, j)).sum();
    lifted.add_diagonal(1e-9 * trace / features as f64);
    let inverse = lifted.cholesky()?.inverse();
    let outer = &sums.classes[class].outer[..packed_len(features)];
    let rest: Vec<f64> =
        outer.iter().zip(mean.packed()).map(|(outer, mean)| outer / users - mean).collect();
    let rest = Symmetric::from_packed(features, rest);
    let squares: f64 = (0..features)
        .flat_map(|i| (0..features).map(move |j| (i, j)))
        .map(|(i, j)| mean.at(i, j) * mean.at(i, j))
        .sum();
    let groups = Groups::new(features, population.directions).len() - 1;
    let pairs = &sums.classes[class].pairs;
    let all: f64 = (0..groups)
        .flat_map(|p| (0..=p).map(move |q| (p, q)))
        .map(|(p, q)| pairs[packed_len(p) + q] * if p == q { 1.0 } else { 2.0 })
        .sum();
    let ratio = (all / users / squares).max(1.0);
    let mut step = sandwich(&inverse, &rest);
    step.packed_mut().iter_mut().for_each(|value| *value /= ratio);
    for (j, variance) in population.variances[class][..features].iter().enumerate() {
        step.packed_mut()[packed_len(j) + j] += variance;
    }
    let curve = 0.5 * all / features as f64;
    step.packed().iter().all(|value| value.is_finite()).then_some((step, curve))
}

/// A B A for symmetric A and B.
fn sandwich(a: &Symmetric, b: &Symmetric) -> Symmetric {
    let d = a.dim();
    let mut half = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            half[i * d + j] = (0..d).map(|k| a.at(i, k) * b.at(k, j)).sum();
        }
    }
    let mut out = Symmetric::zero(d);
    for i in 0..d {
        for j in 0..=i {
            out.packed_mut()[packed_len(i) + j] =
                (0..d).map(|k| half[i * d + k] * a.at(k, j)).sum();
        }
    }
    out
}

impl Population {
    /// The same in coordinates turned once more.
    fn turned(&self, turn: &Basis) -> Population {
        let d = self.features();
        let mut turned = self.clone();
        let transposed: Vec<f64> = (0..d * d).map(|at| turn.rows()[at % d * d + at / d]).collect();
        let transposed = Basis::new(transposed, d);
        for component in &mut turned.components {
            component.mean = turn.to(&component.mean);
            component.doubt = transposed.matrix_from(&component.doubt);
        }
        // The new basis in the features: every row of the turn, seen through the old basis.
        let rows = turn.rows().chunks_exact(d);
        turned.basis = Some(match &self.basis {
            Some(before) => Basis::new(rows.flat_map(|row| before.from(row)).collect(), d),
            None => turn.clone(),
        });
        turned
    }

    /// With the given number of directions that have their own variances.
    fn with_directions(&self, directions: usize, class: usize, values: &[f64]) -> Population {
        let d = self.features();
        let mut with = self.clone();
        with.directions = directions;
        let mean = values.iter().sum::<f64>() / d as f64;
        let rest = values[directions..].iter().sum::<f64>() / (d - directions) as f64;
        let rest = rest.max(constants::directions_least_rest() * mean);
        for (j, value) in values.iter().enumerate() {
            let shape = if j < directions { value.max(rest) } else { rest };
            for other in 0..2 {
                // The other class keeps its size and takes over the shape.
                let size = if other == class { 1.0 } else { self.spread_of(other) / mean };
                with.variances[other][j] = shape * size;
            }
        }
        with
    }

    fn spread_of(&self, class: usize) -> f64 {
        let d = self.features();
        self.variances[class][..d].iter().sum::<f64>() / d as f64
    }
}
