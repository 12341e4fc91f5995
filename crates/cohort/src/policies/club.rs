//! `club`: Cluster of Bandits. Users are clustered by cutting the edges of a graph, one user
//! served at a time.
//!
//! The algorithm of the paper's Figure 1, t = 1, 2, … counting turns:
//!
//! ```text
//! init     b_i = 0, M_i = I for every user i;  a graph on the users, one cluster per component
//! receive  a user i and contexts x_1..x_K
//! average  V, the component of i:  M̄ = I + Σ_{l∈V}(M_l − I),  b̄ = Σ_{l∈V} b_l,  w̄ = M̄⁻¹b̄
//! choose   argmax_k w̄ᵀx_k + CB(x_k),  CB(x) = α·√(xᵀM̄⁻¹x · ln(1 + t))
//! update   M_i += xxᵀ,  b_i += y·x  with the reward y;  no other user's
//! cut      every edge (i, l) with ‖w_i − w_l‖ > C̃B_i + C̃B_l,  w_i = M_i⁻¹b_i,
//!          C̃B_i = α₂·F(T_i),  F(T) = √((1 + ln(1 + T))/(1 + T)),  T_i the times i was served
//! clusters are the components of what is left of the graph
//! ```
//!
//! Edges are cut by what is known after the update. Every step costs what it must and no more: M̄⁻¹
//! and w̄ follow each reward by Sherman–Morrison and are solved afresh only when a component
//! splits; edges are checked only when one of them may be cut (`slacks`); components follow each
//! cut by way of a spanning forest ([`ShrinkingGraph`]).
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration |
//! | `exploration` | [0, ∞) | multiplies α; the scale that every policy has, 1 = α as it is |
//! | `alpha2` α₂ | (0, ∞) | how different estimates must be for an edge to be cut; small cuts early |
//! | `graph` | complete, erdos-renyi | the edges at the start: all, or each with probability min(1, 3·ln N/N), drawn from the problem's seed |
//! | `bonus` | norm, square | √(xᵀM̄⁻¹x), or without the square root as much public code has it |
//!
//! α = 1 and α₂ = 2 are the values of the experiments on Last.FM in Ghosh et al., who tune both
//! for every synthetic setting. The regulariser is 1, as in the algorithm.
//!
//! In a round (all users at once) all users choose by what was learned before it, and rewards are
//! learned in the order of the users. A user who comes later gets edges to the largest component
//! only: edges to all users would merge all clusters until the new user was served often.
//!
//! Reference: Gentile, Li, Zappella, *Online Clustering of Bandits*, ICML 2014, Figure 1.

mod saved;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::shared::clubs::{BONUS, EXPLORATION_PARAMS, bonus, exploration, width};
use super::shared::edge_slack::EdgeSlacks;
use crate::builder::builder;
use crate::cluster::partition::number_by_smallest_member;
use crate::cluster::{ShrinkingGraph, Split};
use crate::linear::{Bonus, Oful};
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "club",
    summary: "clusters are components of a user graph that loses edges (CLUB)",
    reference: "Gentile, Li, Zappella, ICML 2014, Figure 1",
    params: PARAMS,
    build,
};

builder! {
    alpha: real, exploration: real, intercept: flag, alpha2: real, graph: choice, bonus: choice,
}

/// Its parameters.
pub(super) const PARAMS: &[&[Param]] = &[
    EXPLORATION_PARAMS,
    &[
        Param::real("alpha2", POSITIVE, 2.0, "α₂: how different users must be to be parted"),
        Param::choice("graph", &["complete", "erdos-renyi"], "edges at the start"),
        BONUS,
    ],
];

/// M = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

#[derive(Clone)]
pub(super) struct Club {
    /// exploration·α.
    exploration: f64,
    bonus: Bonus,
    dim: usize,
    /// M_i, b_i, w_i of every user.
    users: Vec<Oful>,
    graph: ShrinkingGraph,
    /// M̄, b̄, w̄ of every component of the graph; old where there is a single member, whose own they
    /// are.
    components: Vec<Oful>,
    slacks: EdgeSlacks,
    /// The number of rewards learned from.
    pub(super) turns: f64,
    /// Draws the edges of late users; none where they get all.
    rng: Option<ChaCha8Rng>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Club::new(problem, settings)))
}

/// Those of the candidates that a user gets an edge to in CLUB's Erdős–Rényi graph: each with
/// probability min(1, 3·ln N/N). At the start user 0, 1, … draws among the users before it.
pub fn draw_neighbours(candidates: &[usize], users: usize, rng: &mut impl Rng) -> Vec<usize> {
    let probability = 3.0 * (users as f64).ln() / users as f64;
    if probability >= 1.0 {
        return candidates.to_vec();
    }
    // The gap before the next one drawn: g or more with probability (1 − p)^g.
    let mut gap = || ((-rng.random::<f64>()).ln_1p() / (-probability).ln_1p()) as usize;
    std::iter::successors(Some(gap()), |last| Some(last.saturating_add(1).saturating_add(gap())))
        .map_while(|at| candidates.get(at).copied())
        .collect()
}

impl Club {
    /// Init.
    pub(super) fn new(problem: &Problem, settings: &Settings) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(problem.seed);
        let (graph, rng) = match settings.choice("graph") {
            "erdos-renyi" => {
                let all_users: Vec<usize> = (0..problem.users).collect();
                let lower: Vec<Vec<usize>> = (0..problem.users)
                    .map(|user| draw_neighbours(&all_users[..user], problem.users, &mut rng))
                    .collect();
                (ShrinkingGraph::from_lower_neighbours(&lower), Some(rng))
            }
            _ => (ShrinkingGraph::complete(problem.users), None),
        };
        Self {
            exploration: exploration(settings),
            bonus: bonus(settings),
            dim: problem.dim,
            users: vec![Oful::new(problem.dim, LAMBDA); problem.users],
            components: vec![Oful::new(problem.dim, LAMBDA); graph.components()],
            graph,
            slacks: EdgeSlacks::new(problem.users, problem.dim, settings.real("alpha2"), 0.0),
            turns: 0.0,
            rng,
        }
    }

    /// CB(x) for the next turn is this times √(xᵀM̄⁻¹x).
    fn width(&self) -> f64 {
        self.exploration * width(self.turns)
    }

    /// Adds users up to the given number, each with edges to the largest component.
    fn grow_to(&mut self, users: usize) {
        while self.users.len() < users {
            let home = self.graph.largest_component();
            if let Some((home, only)) = home.and_then(|at| Some((at, self.graph.only_member(at)?)))
            {
                // Two from now on: what the only one has seen is their sum.
                self.components[home] = self.users[only].clone();
            }
            match (&mut self.rng, home) {
                (Some(rng), Some(home)) => {
                    let mut members: Vec<usize> = self.graph.members(home).collect();
                    members.sort_unstable();
                    let neighbours = draw_neighbours(&members, self.users.len() + 1, rng);
                    self.graph.add_to(&neighbours);
                }
                (Some(_), None) => self.graph.add_to(&[]),
                (None, home) => self.graph.add_to_all_of(home),
            }
            self.slacks.add(self.graph.neighbours(self.users.len()));
            self.users.push(Oful::new(self.dim, LAMBDA));
            self.components.resize(self.graph.components(), Oful::new(self.dim, LAMBDA));
        }
    }

    /// M̄, b̄, w̄ of a component.
    fn sums(&self, component: usize) -> &Oful {
        match self.graph.only_member(component) {
            Some(only) => &self.users[only],
            None => &self.components[component],
        }
    }

    /// Clusters: a component has come apart.
    fn part(&mut self, Split { from, into }: Split) {
        let smaller = match self.graph.only_member(into) {
            Some(only) => self.users[only].clone(),
            None => {
                let mut smaller = Oful::new(self.dim, LAMBDA);
                smaller.absorb(self.graph.members(into).map(|member| &self.users[member]));
                smaller
            }
        };
        if self.graph.only_member(from).is_none() {
            self.components[from].release(&smaller);
        }
        self.components.push(smaller);
    }
}

impl Policy for Club {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.grow_to(arms.len());
        let width = self.width();
        let of_component: Vec<Arm> = (0..self.graph.components())
            .map(|component| self.sums(component).best_arm_by(contexts, width, self.bonus))
            .collect();
        for (user, arm) in arms.iter_mut().enumerate() {
            *arm = of_component[self.graph.component(user)];
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        for (user, (arm, reward)) in arms.iter().zip(rewards).enumerate() {
            self.learn_one(user, contexts.arm(*arm), *reward);
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        let mut labels: Vec<usize> =
            (0..self.users.len()).map(|user| self.graph.component(user)).collect();
        number_by_smallest_member(&mut labels);
        Some(labels)
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

impl OnlinePolicy for Club {
    /// Receive, average, choose.
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.grow_to(user + 1);
        let sums = self.sums(self.graph.component(user));
        sums.best_arm_by(contexts, self.width(), self.bonus)
    }

    /// Average; a user who has not come yet would join the largest component.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let component = if user < self.users.len() {
            Some(self.graph.component(user))
        } else {
            self.graph.largest_component()
        };
        match component {
            Some(at) => self.sums(at).score_by(contexts, self.width(), self.bonus, scores),
            None => {
                Oful::new(self.dim, LAMBDA).score_by(contexts, self.width(), self.bonus, scores)
            }
        }
    }

    /// Update, cut, clusters.
    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow_to(user + 1);
        self.turns += 1.0;
        self.users[user].learn(context, reward);
        let component = self.graph.component(user);
        if self.graph.only_member(component).is_none() {
            self.components[component].learn(context, reward);
        }
        if self.slacks.moved(user, &self.users[user]) {
            for other in self.slacks.recheck(user, &self.users, self.graph.neighbours(user)) {
                if let Some(split) = self.graph.cut(user, other) {
                    self.part(split);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Symmetric;

    /// After 40,000 turns and many splits the sums of every component, carried along by rank-one
    /// updates and by giving up the members that left, are those of its members summed directly.
    #[test]
    fn what_components_carry_along_is_what_their_members_have_seen() {
        let (users, dim) = (40, 6);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let params = [("alpha2".to_owned(), 0.6.into())];
        let settings = INFO.check(params).unwrap();
        let mut club = Club::new(&Problem::new(users, dim), &settings);
        let mut seen = vec![(Symmetric::zero(dim), vec![0.0; dim]); users];
        for turn in 0..40_000 {
            let x: Vec<f64> = (0..dim).map(|_| rng.random_range(-0.5..0.5)).collect();
            let user = turn % users;
            let reward = x[user % 5] + rng.random_range(-0.5..0.5);
            club.learn_one(user, &x, reward);
            seen[user].0.add_outer(1.0, &x);
            seen[user].1.iter_mut().zip(&x).for_each(|(b, x)| *b += x * reward);
        }
        assert!(club.components.len() > 4);
        for at in 0..club.graph.components() {
            let component = club.sums(at);
            let mut precision = Symmetric::identity(dim, 1.0);
            let mut estimate = vec![0.0; dim];
            for member in club.graph.members(at) {
                precision.add(1.0, &seen[member].0);
                estimate.iter_mut().zip(&seen[member].1).for_each(|(sum, b)| *sum += b);
            }
            let factor = precision.cholesky().unwrap();
            factor.solve(&mut estimate);
            for (carried, direct) in component.estimate().iter().zip(&estimate) {
                assert!((carried - direct).abs() < 1e-10, "{carried} against {direct}");
            }
            let direct = factor.inverse();
            for (carried, direct) in component.inverse().packed().iter().zip(direct.packed()) {
                assert!((carried - direct).abs() < 1e-10, "{carried} against {direct}");
            }
        }
    }

    #[test]
    fn the_erdos_renyi_graph_has_about_three_ln_n_edges_a_user() {
        let (users, draws) = (1000, 1000);
        let all_users: Vec<usize> = (0..users).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut hits = vec![0.0; users];
        for _ in 0..draws {
            let drawn = draw_neighbours(&all_users, users, &mut rng);
            assert!(drawn.is_sorted_by(|a, b| a < b));
            drawn.into_iter().for_each(|at| hits[at] += 1.0);
        }
        let expected = 3.0 * (users as f64).ln();
        let mean = hits.iter().sum::<f64>() / draws as f64;
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} against {expected}");
        // The first and the last hundred are as likely as the others.
        for hundred in [&hits[..100], &hits[900..]] {
            let mean = hundred.iter().sum::<f64>() / draws as f64 * 10.0;
            assert!((mean / expected - 1.0).abs() < 0.05, "{mean} against {expected}");
        }
        // 3·ln N/N is more than 1 for the smallest graphs: they are complete.
        assert_eq!(draw_neighbours(&[0, 1, 2], 4, &mut rng), [0, 1, 2]);
    }
}
