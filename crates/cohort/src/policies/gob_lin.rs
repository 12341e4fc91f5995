//! `gob-lin`: a gang of bandits. Users connected in a known graph are coupled by its Laplacian.
//!
//! ```text
//! L the Laplacian of the graph,  Λ = (I_N + L) ⊗ I_d + blockdiag(Σxxᵀ of every user),  b = (Σxy)_i
//! û = Λ⁻¹b,  û_i its block of user i;  (Λ⁻¹)_ii its diagonal block
//! play argmax_x ⟨x, û_i⟩ + α·√(xᵀ(Λ⁻¹)_ii x · ln(1 + t));  learn (x, y) in block i
//! ```
//!
//! This is the algorithm of the paper's Figure 1 in the space of users instead of its transformed
//! one. Λ has N·d rows and is never formed: a reward needs one solution g of Λg = (x in block i),
//! by conjugate gradients preconditioned with the diagonal blocks, and then everything follows
//! exactly by Sherman–Morrison:
//!
//! ```text
//! û += g·(y − ⟨x, û_i⟩)/(1 + ⟨x, g_i⟩),   (Λ⁻¹)_jj −= g_j g_jᵀ/(1 + ⟨x, g_i⟩) for all j
//! ```
//!
//! A solution decays from user to user, so that only those near i take part, and no others where i
//! is isolated: O(d²) for each user and O(d) for each edge, per step. A decision costs O(K d²).
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `graph` | told, clusters | the graph that the environment gives (without one every user is isolated), or the complete graph on each true cluster: an oracle |
//! | `tolerance` | [10⁻¹⁴, 10⁻²] | relative residual at which conjugate gradients stop; by default an update is off by a thousandth of itself, far below the noise |
//!
//! A user who comes later is isolated. The theory's width is σ√(ln(|M_t|/δ)) + √(Σ‖u_i‖² +
//! Σ_{(i,j)∈E}‖u_i − u_j‖²); α·√ln(1 + t) is what the paper's experiments tune.
//!
//! Reference: Cesa-Bianchi, Gentile, Zappella, *A Gang of Bandits*, NIPS 2013, Figure 1.

mod laplacian;

use std::io::{self, Read, Write};
use std::ops::Bound;

use super::shared::clubs::{EXPLORATION_PARAMS, exploration, width};
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::linear::{Symmetric, argmax, dot};
use crate::params::{Kind, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};
use laplacian::{Graph, LaplacianSolver};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "gob-lin",
    summary: "users joined in a known graph are drawn together (GOB.Lin)",
    reference: "Cesa-Bianchi, Gentile, Zappella, NIPS 2013, Figure 1",
    params: &[
        EXPLORATION_PARAMS,
        &[
            Param::choice("graph", &["told", "clusters"], "which users are joined"),
            Param::real(
                "tolerance",
                Kind::Real(Bound::Included(1e-14), Bound::Included(1e-2)),
                1e-3,
                "at which relative residual conjugate gradients stop",
            ),
        ],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, graph: choice, tolerance: real }

/// The most edges that are made from true clusters.
const MOST_EDGES: usize = 50_000_000;

#[derive(Clone)]
struct GobLin {
    exploration: f64,
    dim: usize,
    /// The number of users in the graph.
    joined: usize,
    solver: LaplacianSolver,
    /// û, user by user.
    estimates: Vec<f64>,
    /// The diagonal blocks of Λ⁻¹.
    blocks: Vec<Symmetric>,
    turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let needs = |what| Error::Needs { policy: settings.policy(), what };
    let graph = match (settings.choice("graph"), problem.truth, problem.graph) {
        ("told", _, edges) => Graph::new(problem.users, edges.unwrap_or(&[])),
        (_, Some(truth), _) => {
            let edges = of_clusters(truth.clusters);
            let edges = edges.ok_or(needs("smaller clusters: they have too many pairs"))?;
            Graph::new(problem.users, &edges)
        }
        _ => return Err(needs("the true clusters, which only an environment can tell")),
    };
    let scales = graph.diagonal_of_inverse();
    let mut policy = GobLin {
        exploration: exploration(settings),
        dim: problem.dim,
        joined: problem.users,
        solver: LaplacianSolver::new(graph, problem.dim, settings.real("tolerance")),
        estimates: vec![0.0; problem.users * problem.dim],
        blocks: Vec::new(),
        turns: 0.0,
    };
    policy.blocks.extend(scales.iter().map(|scale| Symmetric::identity(problem.dim, *scale)));
    Ok(Box::new(Served(policy)))
}

/// All pairs of users within the clusters; `None` where they are too many.
fn of_clusters(clusters: &[usize]) -> Option<Vec<(usize, usize)>> {
    let mut members = std::collections::BTreeMap::<usize, Vec<usize>>::new();
    for (user, cluster) in clusters.iter().enumerate() {
        members.entry(*cluster).or_default().push(user);
    }
    let pairs: usize = members.values().map(|members| members.len().pow(2) / 2).sum();
    let pairs_of = |members: &Vec<usize>| -> Vec<(usize, usize)> {
        let pairs = members.iter().enumerate();
        pairs.flat_map(|(at, a)| members[..at].iter().map(|b| (*b, *a))).collect()
    };
    (pairs <= MOST_EDGES).then(|| members.values().flat_map(pairs_of).collect())
}

impl GobLin {
    fn grow_to(&mut self, users: usize) {
        self.solver.grow_to(users);
        while self.blocks.len() < users {
            self.blocks.push(Symmetric::identity(self.dim, 1.0));
            self.estimates.resize(self.blocks.len() * self.dim, 0.0);
        }
    }

    fn score_arm(&self, user: usize, x: &[f64]) -> Score {
        let width = self.exploration * width(self.turns);
        let (expected, square) = match self.blocks.get(user) {
            Some(block) => {
                let estimate = &self.estimates[user * self.dim..(user + 1) * self.dim];
                (dot(x, estimate), block.quadratic(x))
            }
            None => (0.0, dot(x, x)),
        };
        Score { expected, bonus: width * square.max(0.0).sqrt() }
    }
}

impl OneUser for GobLin {
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for GobLin {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(contexts.iter().map(|x| self.score_arm(user, x).total()))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        for (x, score) in contexts.iter().zip(scores) {
            *score = self.score_arm(user, x);
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow_to(user + 1);
        self.turns += 1.0;
        let dim = self.dim;
        let Some(gain) = self.solver.solve(user, context) else {
            // Contexts so large that rounding leaves no solution are ignored.
            return;
        };
        let own = gain.iter().find(|(at, _)| *at == user);
        let square = own.map_or(0.0, |(_, own)| dot(context, own));
        let scale = 1.0 / (1.0 + square.max(0.0));
        let expected = dot(context, &self.estimates[user * dim..(user + 1) * dim]);
        let step = (reward - expected) * scale;
        for (at, g) in &gain {
            let estimate = &mut self.estimates[at * dim..(at + 1) * dim];
            estimate.iter_mut().zip(g).for_each(|(u, g)| *u += g * step);
            self.blocks[*at].add_outer(-scale, g);
        }
        self.solver.learn(user, context);
    }
}

impl State for GobLin {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    /// The graph is part of the problem and is not written.
    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        saved::write_counts(out, &[self.dim, self.joined, self.blocks.len()])?;
        saved::write_numbers(out, &self.estimates)?;
        self.blocks.iter().try_for_each(|block| saved::write_numbers(out, block.packed()))?;
        self.solver.save(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let turns = saved::read_some(from, what, 1)?[0];
        saved::check_equal(what, "sizes", saved::read_count(from, what)?, 3)?;
        saved::check_equal(what, "dimension", saved::read_count(from, what)?, self.dim)?;
        saved::check_equal(
            what,
            "users in the graph",
            saved::read_count(from, what)?,
            self.joined,
        )?;
        let users = saved::read_count(from, what)?;
        saved::check_equal(what, "fewer users than the graph has", users < self.joined, false)?;
        let (mut estimates, mut row) = (Vec::new(), vec![0.0; self.dim]);
        for _ in 0..users {
            saved::read_numbers(from, what, &mut row)?;
            estimates.extend_from_slice(&row);
        }
        let mut blocks = Vec::new();
        for _ in 0..users {
            let mut block = Symmetric::zero(self.dim);
            saved::read_numbers(from, what, block.packed_mut())?;
            blocks.push(block);
        }
        self.solver.load(from, what, users)?;
        (self.turns, self.estimates, self.blocks) = (turns, estimates, blocks);
        Ok(())
    }
}
