//! CLUB as its paper writes it, nothing carried along that can be computed anew: M̄ is summed over
//! the component and inverted for every decision; after every reward w is solved for, all edges of
//! the served user are compared, and the components are searched for in the whole graph. The
//! oracle of the tests and the slow end of the benchmarks.

use cohort::linear::{Symmetric, dot};
use cohort::{Arm, Contexts};

/// One user: M − I, b, w = M⁻¹b and T.
#[derive(Clone)]
struct User {
    gram: Symmetric,
    moment: Vec<f64>,
    estimate: Vec<f64>,
    served: f64,
}

/// Plain CLUB.
pub struct PlainClub {
    /// α.
    pub alpha: f64,
    /// α₂.
    pub alpha2: f64,
    users: Vec<User>,
    /// Whether there is an edge, row by row.
    edges: Vec<Vec<bool>>,
    /// The component of every user, numbered by smallest member.
    clusters: Vec<usize>,
    turns: f64,
}

impl PlainClub {
    /// Users with the edges of a starting graph.
    pub fn new(dim: usize, alpha: f64, alpha2: f64, edges: Vec<Vec<bool>>) -> Self {
        let users = vec![User::new(dim); edges.len()];
        let clusters = components(&edges);
        Self { alpha, alpha2, users, edges, clusters, turns: 0.0 }
    }

    /// One more user, with edges to these.
    #[allow(dead_code, reason = "benchmarks have all users from the start")]
    pub fn add(&mut self, dim: usize, neighbours: &[usize]) {
        self.users.push(User::new(dim));
        let mut row = vec![false; self.users.len()];
        for &neighbour in neighbours {
            row[neighbour] = true;
        }
        for (edges, edge) in self.edges.iter_mut().zip(&row) {
            edges.push(*edge);
        }
        self.edges.push(row);
        self.clusters = components(&self.edges);
    }

    /// The score of every arm for a user.
    pub fn scores(&self, user: usize, contexts: &Contexts) -> Vec<f64> {
        let mut precision = Symmetric::identity(contexts.dim(), 1.0);
        let mut moment = vec![0.0; contexts.dim()];
        for (member, cluster) in self.users.iter().zip(&self.clusters) {
            if *cluster == self.clusters[user] {
                precision.add(1.0, &member.gram);
                moment.iter_mut().zip(&member.moment).for_each(|(sum, b)| *sum += b);
            }
        }
        let inverse = precision.cholesky().expect("positive definite").inverse();
        let mut estimate = vec![0.0; contexts.dim()];
        inverse.times(&moment, &mut estimate);
        let t = self.turns + 1.0;
        (contexts.iter())
            .map(|x| {
                dot(&estimate, x) + self.alpha * (inverse.quadratic(x) * (1.0 + t).ln()).sqrt()
            })
            .collect()
    }

    /// The best arm for a user, ties to the lowest.
    #[allow(dead_code, reason = "the tests compare scores, benchmarks play arms")]
    pub fn decide(&self, user: usize, contexts: &Contexts) -> Arm {
        cohort::linear::argmax(self.scores(user, contexts))
    }

    /// A reward of the user who was served.
    pub fn learn_one(&mut self, user: usize, x: &[f64], y: f64) {
        self.turns += 1.0;
        self.users[user].learn(x, y);
        for other in 0..self.users.len() {
            let (a, b) = (&self.users[user], &self.users[other]);
            let apart: f64 = a.estimate.iter().zip(&b.estimate).map(|(a, b)| (a - b).powi(2)).sum();
            let allowed = self.alpha2 * (f(a.served) + f(b.served));
            if self.edges[user][other] && apart.sqrt() > allowed {
                self.edges[user][other] = false;
                self.edges[other][user] = false;
            }
        }
        self.clusters = components(&self.edges);
    }

    /// The component of every user, numbered by smallest member.
    pub fn clusters(&self) -> &[usize] {
        &self.clusters
    }
}

impl User {
    fn new(dim: usize) -> Self {
        let zero = vec![0.0; dim];
        Self { gram: Symmetric::zero(dim), moment: zero.clone(), estimate: zero, served: 0.0 }
    }

    fn learn(&mut self, x: &[f64], y: f64) {
        self.gram.add_outer(1.0, x);
        self.moment.iter_mut().zip(x).for_each(|(b, x)| *b += x * y);
        self.served += 1.0;
        let mut precision = self.gram.clone();
        precision.add_diagonal(1.0);
        self.estimate.copy_from_slice(&self.moment);
        precision.cholesky().expect("positive definite").solve(&mut self.estimate);
    }
}

/// F(T)
fn f(served: f64) -> f64 {
    ((1.0 + (1.0 + served).ln()) / (1.0 + served)).sqrt()
}

/// Connected components, by a search from every vertex not found yet.
fn components(edges: &[Vec<bool>]) -> Vec<usize> {
    let mut labels = vec![usize::MAX; edges.len()];
    let mut next = 0;
    for start in 0..edges.len() {
        if labels[start] != usize::MAX {
            continue;
        }
        labels[start] = next;
        let mut found = vec![start];
        while let Some(vertex) = found.pop() {
            for other in 0..edges.len() {
                if edges[vertex][other] && labels[other] == usize::MAX {
                    labels[other] = next;
                    found.push(other);
                }
            }
        }
        next += 1;
    }
    labels
}
