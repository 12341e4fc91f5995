//! Statements about "any user" are judged on users: who fares worst, in whose cluster, how far from
//! the average.

use super::super::charts::axis_value;
use super::super::evidence::{Measured, SettingResult, UserTruth, Width};
use super::super::fit::{Slope, slope};
use super::applies::{bounds, inputs};
use crate::theory::Theory;

/// A number for every repetition of a policy: `of` sees the regret of all users and who they are.
pub fn each_repetition(
    cell: &SettingResult,
    policy: &str,
    of: impl Fn(&[f32], &UserTruth) -> f64,
) -> Option<Vec<f64>> {
    let played = cell.played(Width::Paper, policy)?;
    let all = played.outcomes.iter().zip(&cell.people);
    Some(all.map(|(outcome, people)| of(&outcome.users, people)).collect())
}

/// The exponent along the study's axis of a number that every repetition has.
pub fn along(
    measured: &Measured,
    of: impl Fn(&SettingResult) -> Option<Vec<f64>>,
) -> Option<Slope> {
    let (xs, numbers): (Vec<f64>, Vec<Vec<f64>>) = (measured.cells.iter())
        .filter_map(|cell| Some((axis_value(measured, cell)?, of(cell)?)))
        .unzip();
    slope(&xs, &numbers)
}

/// The regret of the user who fares worst.
pub fn worst(cell: &SettingResult, policy: &str) -> Option<Vec<f64>> {
    each_repetition(cell, policy, |users, _| users.iter().copied().fold(0.0, f32::max).into())
}

/// The regret of the user of a cluster who fares worst.
pub fn worst_of_cluster(cell: &SettingResult, policy: &str, cluster: usize) -> Option<Vec<f64>> {
    each_repetition(cell, policy, |users, people| {
        (users.iter().zip(&people.clusters))
            .filter(|(_, of)| **of == cluster)
            .map(|(regret, _)| f64::from(*regret))
            .fold(0.0, f64::max)
    })
}

/// The largest of R_i/bound_i over users, with the bound of each user's own cluster.
pub fn worst_to_bound(
    measured: &Measured,
    cell: &SettingResult,
    policy: &str,
    name: &str,
) -> Option<Vec<f64>> {
    let theory = Theory::new(&inputs(measured, cell, policy)?);
    let of_clusters: Vec<f64> = bounds(&theory, name).iter().map(|bound| bound.value).collect();
    each_repetition(cell, policy, |users, people| {
        let bound = |cluster: usize| of_clusters.get(cluster).or(of_clusters.first());
        (users.iter().zip(&people.clusters))
            .filter_map(|(regret, cluster)| Some(f64::from(*regret) / bound(*cluster)?))
            .fold(0.0, f64::max)
    })
}

/// The largest of R_i/(ε_i√(dT) + T^¼√(d²/(ρ_min N))) over users.
pub fn worst_to_personal_bound(cell: &SettingResult, policy: &str) -> Option<Vec<f64>> {
    let (dim, rounds) = (cell.dim as f64, cell.rounds as f64);
    let rho_min = cohort::linear::default_rho_min(cell.dim);
    let floor = rounds.powf(0.25) * (dim * dim / (rho_min * cell.users as f64)).sqrt();
    each_repetition(cell, policy, |users, people| {
        (users.iter().zip(&people.epsilons))
            .map(|(regret, epsilon)| f64::from(*regret) / (epsilon * (dim * rounds).sqrt() + floor))
            .fold(0.0, f64::max)
    })
}

/// The mean regret of the users of the smallest cluster.
pub fn smallest_cluster(cell: &SettingResult, policy: &str) -> Option<Vec<f64>> {
    each_repetition(cell, policy, |users, people| {
        let least = people.smallest_share();
        let inside: Vec<f64> = (users.iter().zip(&people.clusters))
            .filter(|(_, cluster)| people.shares[**cluster] <= least)
            .map(|(regret, _)| f64::from(*regret))
            .collect();
        inside.iter().sum::<f64>() / inside.len().max(1) as f64
    })
}

/// The mean of some numbers.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}
