//! Cluster centres and cluster sizes.

use cohort::linear::dot;
use cohort::params::{NOT_NEGATIVE, Param};
use rand::Rng;

use super::laws::on_unit_sphere;
use crate::Error;

/// The options of every environment with clusters.
pub const CLUSTER_OPTIONS: &[Param] = &[
    Param::count("clusters", 1, 10, "L, how many clusters there are"),
    Param::real("imbalance", NOT_NEGATIVE, 0.0, "sizes of clusters are ∝ i^−z; 0 = all equal"),
];

/// The cluster of every user: clusters are contiguous, their sizes ∝ i^−z by the method of largest
/// remainders (nothing random). No cluster is empty where there are enough users.
pub fn cluster_of_every_user(users: usize, clusters: usize, imbalance: f64) -> Vec<usize> {
    let sizes = sizes(users, clusters, imbalance);
    let members = |(cluster, size)| std::iter::repeat_n(cluster, size);
    sizes.into_iter().enumerate().flat_map(members).collect()
}

/// The share of users of every cluster.
pub fn shares(clusters: &[usize], count: usize) -> Vec<f64> {
    let mut sizes = vec![0usize; count];
    clusters.iter().for_each(|cluster| sizes[*cluster] += 1);
    sizes.into_iter().map(|size| size as f64 / clusters.len() as f64).collect()
}

fn sizes(users: usize, clusters: usize, imbalance: f64) -> Vec<usize> {
    let weights: Vec<f64> = (1..=clusters).map(|i| (i as f64).powf(-imbalance)).collect();
    let total: f64 = weights.iter().sum();
    let quotas: Vec<f64> = weights.iter().map(|weight| users as f64 * weight / total).collect();
    let mut sizes: Vec<usize> = quotas.iter().map(|quota| quota.floor() as usize).collect();

    // The remaining users go to the largest remainders, larger clusters first.
    let mut by_remainder: Vec<usize> = (0..clusters).collect();
    by_remainder.sort_by(|&a, &b| quotas[b].fract().total_cmp(&quotas[a].fract()));
    let left_over = users - sizes.iter().sum::<usize>();
    for &cluster in by_remainder.iter().cycle().take(left_over) {
        sizes[cluster] += 1;
    }

    // Sizes fall with i: empty clusters at the end take a user from the front.
    for cluster in (0..clusters.min(users)).rev() {
        if sizes[cluster] == 0 {
            let largest = (0..clusters).rev().max_by_key(|&i| sizes[i]).unwrap_or(0);
            sizes[largest] -= 1;
            sizes[cluster] = 1;
        }
    }
    sizes
}

/// How centres are placed on the unit sphere.
#[derive(Clone, Copy, Debug)]
pub enum Centres {
    /// Uniformly.
    Uniform,
    /// Uniformly, but no two closer than this.
    Separated(f64),
    /// Around one point, at this distance from each other.
    Spaced(f64),
}

/// How often a centre is drawn before the distance is refused as impossible.
const DRAWS_PER_CENTRE: usize = 20_000;

impl Centres {
    /// Draws `count` centres in `dim` dimensions.
    pub fn draw(
        self,
        count: usize,
        dim: usize,
        rng: &mut impl Rng,
    ) -> Result<Vec<Vec<f64>>, Error> {
        match self {
            Centres::Uniform => Ok((0..count).map(|_| on_unit_sphere(dim, rng)).collect()),
            Centres::Separated(least) => separated(count, dim, least, rng),
            Centres::Spaced(distance) => Ok(spaced(count, dim, distance, rng)),
        }
    }
}

/// Rejection sampling: each centre is drawn until it is far enough from those before.
fn separated(
    count: usize,
    dim: usize,
    least: f64,
    rng: &mut impl Rng,
) -> Result<Vec<Vec<f64>>, Error> {
    let mut centres: Vec<Vec<f64>> = Vec::with_capacity(count);
    for _ in 0..count {
        let keeps_distance = |centre: &Vec<f64>| {
            centres.iter().all(|other| distance_squared(centre, other) >= least * least)
        };
        let drawn = (0..DRAWS_PER_CENTRE).map(|_| on_unit_sphere(dim, rng)).find(keeps_distance);
        let Some(centre) = drawn else {
            return Err(Error::unexpected(
                format!("separation = {least}"),
                format!("room for {} centres on the unit sphere of R^{dim}", centres.len()),
                format!("room for clusters = {count}: lower one of them, or raise dim"),
            ));
        };
        centres.push(centre);
    }
    Ok(centres)
}

/// c_i = cos φ·u + sin φ·v_i with u and v_i ⟂ u on the unit sphere and sin φ = D/√2. Where the
/// v_i can be orthogonal to each other, all distances are exactly D.
fn spaced(count: usize, dim: usize, distance: f64, rng: &mut impl Rng) -> Vec<Vec<f64>> {
    let sine = distance / std::f64::consts::SQRT_2;
    let cosine = (1.0 - sine * sine).max(0.0).sqrt();
    let axis = on_unit_sphere(dim, rng);
    let mut avoid = vec![axis.clone()];
    let mut centres = Vec::with_capacity(count);
    for _ in 0..count {
        let direction = orthogonal_to(&avoid, rng);
        let on_sphere = |(u, v): (&f64, &f64)| cosine * u + sine * v;
        centres.push(axis.iter().zip(&direction).map(on_sphere).collect());
        if count < dim {
            avoid.push(direction);
        }
    }
    centres
}

/// A random unit vector orthogonal to all of `basis` (orthonormal), by Gram–Schmidt; in R¹, where
/// there is none, the zero vector.
pub fn orthogonal_to(basis: &[Vec<f64>], rng: &mut impl Rng) -> Vec<f64> {
    let dim = basis[0].len();
    if basis.len() >= dim {
        return vec![0.0; dim];
    }
    let mut direction = on_unit_sphere(dim, rng);
    // Twice is enough (Kahan): the second pass removes the rounding errors of the first.
    for _ in 0..2 {
        for axis in basis {
            let along = dot(&direction, axis);
            direction.iter_mut().zip(axis).for_each(|(value, axis)| *value -= along * axis);
        }
        let length = dot(&direction, &direction).sqrt();
        direction.iter_mut().for_each(|value| *value /= length);
    }
    direction
}

fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{Purpose, Seed};

    fn distances(centres: &[Vec<f64>]) -> Vec<f64> {
        let pairs = (0..centres.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.map(|(i, j)| distance_squared(&centres[i], &centres[j]).sqrt()).collect()
    }

    fn rng() -> impl Rng {
        Seed { seed: 3, repetition: 0 }.stream(Purpose::Users, 0)
    }

    #[test]
    fn sizes_follow_the_power_law_and_add_up() {
        assert_eq!(sizes(100, 10, 0.0), [10; 10]);
        assert_eq!(sizes(11, 3, 1.0), [6, 3, 2]);
        assert_eq!(sizes(12, 4, 8.0), [9, 1, 1, 1], "nobody is left without a user");
        assert_eq!(sizes(2, 4, 1.0), [1, 1, 0, 0]);
        for (users, clusters, imbalance) in [(1, 1, 0.0), (7, 7, 3.0), (1_000, 13, 1.5)] {
            assert_eq!(sizes(users, clusters, imbalance).iter().sum::<usize>(), users);
        }
        assert_eq!(cluster_of_every_user(11, 3, 1.0), [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn separated_centres_keep_their_distance() {
        let centres = Centres::Separated(1.2).draw(10, 15, &mut rng()).unwrap();
        assert!(distances(&centres).iter().all(|distance| *distance >= 1.2));
    }

    #[test]
    fn no_room_is_an_error_that_says_what_to_change() {
        let error = Centres::Separated(1.9).draw(10, 3, &mut rng()).unwrap_err().to_string();
        assert!(error.contains("separation = 1.9") && error.contains("clusters = 10"), "{error}");
    }

    #[test]
    fn spaced_centres_are_equally_far_on_the_sphere() {
        let centres = Centres::Spaced(0.15).draw(14, 15, &mut rng()).unwrap();
        assert!(distances(&centres).iter().all(|distance| (distance - 0.15).abs() < 1e-12));
        assert!(centres.iter().all(|centre| (dot(centre, centre) - 1.0).abs() < 1e-12));
        // More clusters than dimensions: approximately.
        let centres = Centres::Spaced(0.15).draw(40, 15, &mut rng()).unwrap();
        assert!(distances(&centres).iter().all(|distance| (0.05..0.25).contains(distance)));
    }

    #[test]
    fn one_dimension_is_no_special_case_for_callers() {
        for centres in [Centres::Uniform, Centres::Separated(2.0), Centres::Spaced(0.1)] {
            assert_eq!(centres.draw(2, 1, &mut rng()).unwrap().len(), 2);
        }
    }
}
