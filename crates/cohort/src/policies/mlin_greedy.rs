//! `mlin-greedy`: users' vectors lie in one subspace of known dimension, which is learned from all
//! of them.
//!
//! ```text
//! epochs end after N, 2N, 4N, … rewards;  at the end of each
//!   (B̂, ŵ) = argmin_{B ∈ R^{d×k}, w_i} Σ_i ‖y_i − X_i B w_i‖² + ρ(‖B‖² + Σ‖w_i‖²)
//! play argmax_x ⟨x, B̂ŵ_i⟩ throughout the next: there is no exploration
//! ```
//!
//! The problem is not convex: alternating least squares starts from the k leading directions of the
//! users' ridge estimates and solves exactly for w (k × k for each user) and for B (dk × dk): O(N
//! d²k² + (dk)³) per sweep, ⌈log₂ T⌉ fits in all.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `rank` k | 1, 2, … | dimension of the subspace, at most d |
//! | `sweeps` | 1, 2, … | number of alternations |
//! | `ridge` ρ | (0, ∞) | keeps users with few rewards finite; the paper has none |
//!
//! Reference: Yang, Hu, Lee, Du, *Impact of Representation Learning in Linear Bandits*, ICLR 2021,
//! Algorithm 1 (MLinGreedy).

use super::shared::served::Served;
use super::shared::subspace::{coordinates, leading_directions, lift, ridge_estimates};
use super::shared::tasks::{Greedy, JointEstimator, Tasks};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::linear::Symmetric;
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "mlin-greedy",
    summary: "users in a subspace of known dimension, greedy in doubling epochs (MLinGreedy)",
    reference: "Yang, Hu, Lee, Du, ICLR 2021, Algorithm 1",
    params: &[PARAMS],
    build,
};

builder! { rank: count, sweeps: count, ridge: real, intercept: flag }

const PARAMS: &[Param] = &[
    Param::count("rank", 1, 3, "k, dimension of the subspace that users lie in"),
    Param::count("sweeps", 1, 10, "alternating minimisations of a fit"),
    Param::real("ridge", POSITIVE, 0.1, "ρ, keeps users with few rewards finite"),
    INTERCEPT,
];

#[derive(Clone)]
struct MlinGreedy {
    rank: usize,
    sweeps: usize,
    ridge: f64,
    users: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let fit = MlinGreedy {
        rank: settings.count("rank").min(problem.dim),
        sweeps: settings.count("sweeps"),
        ridge: settings.real("ridge"),
        users: problem.users.max(1) as f64,
    };
    Ok(Box::new(Served(Greedy::new(problem.users, problem.dim, problem.seed, fit))))
}

impl JointEstimator for MlinGreedy {
    const NAME: &'static str = INFO.name;

    fn next(&self, rewards: f64) -> f64 {
        if rewards == 0.0 { self.users } else { 2.0 * rewards }
    }

    fn fit(&mut self, tasks: &Tasks, estimates: &mut Vec<f64>) {
        let mut basis = leading_directions(&ridge_estimates(tasks, 1.0), tasks.dim, self.rank);
        for _ in 0..self.sweeps {
            let weights = coordinates(tasks, &basis, self.ridge);
            if let Some(found) = best_basis(tasks, &weights, self.rank, self.ridge) {
                basis = found;
            }
        }
        *estimates = lift(&coordinates(tasks, &basis, self.ridge), &basis, tasks.dim);
    }
}

/// The best B for these coordinates of users, row by row (k rows of R^d).
fn best_basis(tasks: &Tasks, weights: &[f64], rank: usize, ridge: f64) -> Option<Vec<f64>> {
    let dim = tasks.dim;
    let mut matrix = Symmetric::identity(dim * rank, ridge);
    let mut right = vec![0.0; dim * rank];
    for (user, w) in tasks.users.iter().zip(weights.chunks_exact(rank)) {
        if user.rewards == 0.0 {
            continue;
        }
        let packed = matrix.packed_mut();
        // Entry (a·d + i, b·d + j), b·d + j ≤ a·d + i, gets w_a w_b Σxxᵀ_ij.
        for a in 0..rank {
            for i in 0..dim {
                let row = a * dim + i;
                let start = row * (row + 1) / 2;
                for b in 0..=a {
                    let scale = w[a] * w[b];
                    let last = if a == b { i + 1 } else { dim };
                    for j in 0..last {
                        packed[start + b * dim + j] += scale * user.gram.at(i, j);
                    }
                }
                right[row] += w[a] * user.moment[i];
            }
        }
    }
    matrix.cholesky()?.solve(&mut right);
    right.iter().all(|b| b.is_finite()).then_some(right)
}
