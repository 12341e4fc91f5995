//! `sclub`: Set-based Clustering of Bandits. Clusters are sets of users that split and merge, one
//! user served at a time; users may differ in how often they come.
//!
//! The paper's Algorithm 1 with its parts, τ = 1, 2, … counting turns:
//!
//! ```text
//!  2-3   every user i has S_i = 0, b_i = 0, T_i = 0;  one cluster of all users
//!  4     for phases s = 1, 2, …, each of 2^s turns
//!  5       every user is unchecked
//!  6       every cluster V freezes its pivot:  w̃_V = w_V, T̃_V = T_V
//!  7-9     for every turn of the phase: receive a user i and contexts
//! 10-11      play argmax_x w_Vᵀx + α·√(xᵀM_V⁻¹x · ln(1 + τ)),  V the cluster of i
//! 12-13      Update (Algorithm 2):  S_i, b_i, T_i, and so M_V, b_V, T_V, w_V, with the reward
//! 14         Split (Algorithm 3):  i becomes a cluster of its own if
//!              ‖w_i − w̃_V‖ > α_θ·(F(T_i) + F(T̃_V))   or   |p_i − p_l| > 2α_p·F(τ), some l ∈ V
//! 15         i is checked
//! 16         Merge (Algorithm 4):  two clusters whose users are all checked become one if
//!              ‖w_V − w_V'‖ < ½α_θ·(F(T_V) + F(T_V'))   and   |p_V − p_V'| < α_p·F(τ)
//! ```
//!
//! with `M_V = I + Σ_{l∈V} S_l`, `b_V = Σ b_l`, `T_V = Σ T_l`, `w_V = M_V⁻¹b_V`, for a single user
//! likewise; `F(T) = √((1 + ln(1 + T))/(1 + T))`; and the frequencies `p_i = T_i/τ`,
//! `p_V = T_V/(|V|·τ)`. The exploration of line 11 is CLUB's, so that the two can be compared.
//!
//! What the paper leaves open: clusters are numbered as they come into being; a merged cluster
//! keeps the lower number and its pivot; merging takes the lowest pair first, again and again,
//! until no pair is left; a cluster split off has its own estimate as pivot; a user who is alone
//! is not split off. A user who comes later joins the largest cluster, unchecked.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration |
//! | `exploration` | [0, ∞) | multiplies α; the scale that every policy has, 1 = α as it is |
//! | `alpha_theta` α_θ | (0, ∞) | how different estimates must be to split, how alike to merge |
//! | `alpha_p` α_p | (0, ∞) | the same for frequencies |
//! | `bonus` | norm, square | √(xᵀM̄⁻¹x), or without the square root as much public code has it |
//!
//! α_θ = 1 and α_p = √2 are the paper's. In a round (all users at once) all users choose by what
//! was learned before it, and rewards are learned in the order of the users.
//!
//! Reference: Li, Chen, Li, Leung, *Improved Algorithm on Online Clustering of Bandits*, IJCAI
//! 2019, Algorithms 1–4.

mod estimates;
mod phased;
mod saved;
mod sets;

use super::shared::clubs::{BONUS, EXPLORATION_PARAMS, bonus, exploration, width};
use crate::builder::builder;
use crate::linear::{Bonus, Oful};
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};
pub(super) use phased::Phased;
pub(super) use sets::Scales;

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "sclub",
    summary: "clusters are sets of users that split and merge in phases (SCLUB)",
    reference: "Li, Chen, Li, Leung, IJCAI 2019, Algorithms 1–4",
    params: &[
        EXPLORATION_PARAMS,
        &[
            Param::real("alpha_theta", POSITIVE, 1.0, "α_θ: how different estimates must be"),
            Param::real(
                "alpha_p",
                POSITIVE,
                std::f64::consts::SQRT_2,
                "α_p: how different users' frequencies must be",
            ),
            BONUS,
        ],
    ],
    build,
};

builder! {
    alpha: real, exploration: real, intercept: flag, alpha_theta: real, alpha_p: real,
    bonus: choice,
}

#[derive(Clone)]
struct Sclub {
    /// exploration·α.
    exploration: f64,
    bonus: Bonus,
    phased: Phased,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let scales = Scales {
        estimates: settings.real("alpha_theta"),
        frequencies: settings.real("alpha_p"),
        tolerance: 0.0,
    };
    let phased = Phased::new(problem.users, problem.dim, scales);
    Ok(Box::new(Sclub { exploration: exploration(settings), bonus: bonus(settings), phased }))
}

impl Sclub {
    fn best_arm(&self, sums: &Oful, contexts: &Contexts) -> Arm {
        sums.best_arm_by(contexts, self.exploration * width(self.phased.turns), self.bonus)
    }
}

impl Policy for Sclub {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.phased.sets.grow_to(arms.len());
        for cluster in self.phased.sets.clusters() {
            let arm = self.best_arm(self.phased.sets.sums(cluster), contexts);
            for &member in cluster.members() {
                arms[member] = arm;
            }
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        for (user, (arm, reward)) in arms.iter().zip(rewards).enumerate() {
            self.learn_one(user, contexts.arm(*arm), *reward);
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        Some(self.phased.sets.labels())
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Sclub {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.phased.sets.grow_to(user + 1);
        self.best_arm(&self.phased.sets.sums_for(user), contexts)
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let width = self.exploration * width(self.phased.turns);
        self.phased.sets.sums_for(user).score_by(contexts, width, self.bonus, scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.phased.learn(user, context, reward);
    }
}
