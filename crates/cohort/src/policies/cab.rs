//! `cab`: context-aware clustering. Who is alike is asked anew for every arm.
//!
//! ```text
//! CB_j(x) = α·√(xᵀM_j⁻¹x · ln(1 + t)),  M_j = I + Σxxᵀ,  w_j = M_j⁻¹Σxy
//! N_k = {i} ∪ {j served before: |⟨w_i − w_j, x_k⟩| ≤ CB_i(x_k) + CB_j(x_k)}      for user i, arm k
//! play argmax_k mean_{j∈N_k} ⟨w_j, x_k⟩ + mean_{j∈N_k} CB_j(x_k)
//! learn (x, y): if CB_i(x) ≥ γ/4 only i; else i and every j ∈ N(x) with CB_j(x) < γ/4
//! ```
//!
//! A user's estimates also use the rewards of others, where all are certain and agree. A decision
//! costs O(N K d²): every user that was served is compared on every arm. M_j⁻¹ is read once for all
//! arms, eight of them at once.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration; public code takes 0.01 to 1 |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `gamma` γ | (0, ∞) | the gap that is assumed between users who differ; 0.1 to 0.5 in public code |
//!
//! The neighbourhood of the update is that of the decision: it is found again from what was known
//! before the reward, so that rewards may come late.
//!
//! Reference: Gentile, Li, Kar, Karatzoglou, Zappella, Etrue, *On Context-Dependent Clustering of
//! Bandits*, ICML 2017, Figure 1.

use std::io::{self, Read, Write};

use super::shared::clubs::{EXPLORATION_PARAMS, exploration, width};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::linear::{ArmGroup, ArmValues, Oful, argmax, groups, score_group};
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::simd::{LANES, vectorized};
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cab",
    summary: "who is alike is asked anew for every arm (CAB)",
    reference: "Gentile, Li, Kar, Karatzoglou, Zappella, Etrue, ICML 2017, Figure 1",
    params: &[
        EXPLORATION_PARAMS,
        &[Param::real("gamma", POSITIVE, 0.2, "γ: the gap assumed between users who differ")],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, gamma: real }

/// M = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

#[derive(Clone)]
struct Cab {
    exploration: f64,
    gamma: f64,
    dim: usize,
    users: Vec<Oful>,
    fresh: Oful,
    /// The number of rewards learned from.
    turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Served(Cab {
        exploration: exploration(settings),
        gamma: settings.real("gamma"),
        dim: problem.dim,
        users: Vec::new(),
        fresh: Oful::new(problem.dim, LAMBDA),
        turns: 0.0,
    })))
}

/// For every arm of a group: the user's own estimate, the sums over N_k, and its size.
struct Answers {
    own: [ArmValues; 2],
    sums: [ArmValues; 2],
    count: ArmValues,
}

/// ⟨w, x⟩ and CB(x) of a user for every arm of a group.
#[inline(always)]
fn ask(user: &Oful, group: &ArmGroup, width: f64) -> [ArmValues; 2] {
    let (expected, square) = score_group(user.inverse().packed(), user.estimate(), group);
    [expected, square.map(|square| width * square.max(0.0).sqrt())]
}

impl Answers {
    #[inline(always)]
    fn new(own: [ArmValues; 2]) -> Self {
        Self { own, sums: own, count: [1.0; LANES] }
    }

    /// 1 for every arm whose N_k contains the other user, else 0; without branches.
    #[inline(always)]
    fn near(&self, [expected, bonus]: &[ArmValues; 2]) -> ArmValues {
        std::array::from_fn(|lane| {
            let apart = (self.own[0][lane] - expected[lane]).abs();
            f64::from(u8::from(apart <= self.own[1][lane] + bonus[lane]))
        })
    }

    #[inline(always)]
    fn add(&mut self, other: &[ArmValues; 2]) {
        let near = self.near(other);
        for lane in 0..LANES {
            self.sums[0][lane] += near[lane] * other[0][lane];
            self.sums[1][lane] += near[lane] * other[1][lane];
            self.count[lane] += near[lane];
        }
    }

    fn means(&self) -> [Score; LANES] {
        std::array::from_fn(|lane| Score {
            expected: self.sums[0][lane] / self.count[lane],
            bonus: self.sums[1][lane] / self.count[lane],
        })
    }
}

impl Cab {
    fn width(&self) -> f64 {
        self.exploration * width(self.turns)
    }

    /// All other users that were served before, each with its index.
    #[inline(always)]
    fn others(&self, user: usize) -> impl Iterator<Item = (usize, &Oful)> {
        let others = self.users.iter().enumerate();
        others.filter(move |(j, other)| *j != user && other.progress().updates > 0.0)
    }

    /// The other users that learn from a user's reward.
    fn sure_neighbours(&self, user: usize, x: &[f64]) -> Vec<usize> {
        let (sure, width) = (self.gamma / 4.0, self.width());
        let group: ArmGroup = x.iter().map(|x| [*x; LANES]).collect();
        let own = Answers::new(ask(&self.users[user], &group, width));
        if own.own[1][0] >= sure {
            return Vec::new();
        }
        vectorized(
            #[inline(always)]
            || {
                let mut learning = Vec::new();
                for (j, other) in self.others(user) {
                    let other = ask(other, &group, width);
                    if other[1][0] < sure && own.near(&other)[0] == 1.0 {
                        learning.push(j);
                    }
                }
                learning
            },
        )
    }

    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<Score> {
        let (width, groups) = (self.width(), groups(contexts).collect::<Vec<_>>());
        let own = self.users.get(user).unwrap_or(&self.fresh);
        let answers = vectorized(
            #[inline(always)]
            || {
                let mut answers: Vec<Answers> =
                    groups.iter().map(|group| Answers::new(ask(own, group, width))).collect();
                for (_, other) in self.others(user) {
                    for (group, answers) in groups.iter().zip(&mut answers) {
                        answers.add(&ask(other, group, width));
                    }
                }
                answers
            },
        );
        answers.iter().flat_map(Answers::means).take(contexts.arms()).collect()
    }
}

impl OneUser for Cab {
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Cab {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.scores(user, contexts).iter().map(Score::total))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.copy_from_slice(&self.scores(user, contexts));
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if user >= self.users.len() {
            self.users.resize(user + 1, self.fresh.clone());
        }
        let learning = self.sure_neighbours(user, context);
        for learner in learning.into_iter().chain([user]) {
            self.users[learner].learn(context, reward);
        }
        self.turns += 1.0;
    }
}

impl State for Cab {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let turns = saved::read_some(from, INFO.name, 1)?[0];
        self.users = read_ofuls(from, INFO.name, self.dim, LAMBDA)?;
        self.turns = turns;
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        (self.turns, self.users) = (other.turns, other.users);
        Ok(())
    }
}
