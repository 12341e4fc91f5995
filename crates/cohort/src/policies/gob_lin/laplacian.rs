//! Λ = (I + L) ⊗ I_d + blockdiag(Σxxᵀ): stored by its parts, multiplied with, and solved by
//! conjugate gradients.

use std::io::{self, Read, Write};

use crate::Error;
use crate::algebra::Cholesky;
use crate::linear::{Symmetric, dot, read_factor, sum_in_parts};
use crate::saved::{read_numbers, write_numbers};

/// An undirected graph of users, as adjacency lists.
#[derive(Clone)]
pub(super) struct Graph {
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    /// From pairs of users; loops, pairs out of range and repetitions are ignored.
    pub(super) fn new(users: usize, edges: &[(usize, usize)]) -> Self {
        let mut neighbours = vec![Vec::new(); users];
        for &(a, b) in edges.iter().filter(|(a, b)| a != b && *a.max(b) < users) {
            neighbours[a].push(b as u32);
            neighbours[b].push(a as u32);
        }
        for row in &mut neighbours {
            row.sort_unstable();
            row.dedup();
        }
        Self { neighbours }
    }

    /// The diagonal of I + L: 1 + the number of neighbours.
    fn diagonal(&self, user: usize) -> f64 {
        1.0 + self.neighbours[user].len() as f64
    }

    /// The diagonal of (I + L)⁻¹: one solution for each user who is not isolated.
    pub(super) fn diagonal_of_inverse(&self) -> Vec<f64> {
        let mut solver = Solver::default();
        let of = |user: usize| {
            if self.neighbours[user].is_empty() {
                return 1.0;
            }
            let divide = |at: usize, z: &mut [f64]| z[0] /= self.diagonal(at);
            let found =
                solver.solve((user, &[1.0]), DIAGONAL_TOLERANCE, self, |_, _, _| (), divide);
            let own = found.as_ref().and_then(|g| g.iter().find(|(at, _)| *at == user));
            own.map_or(1.0 / self.diagonal(user), |(_, g)| g[0])
        };
        (0..self.neighbours.len()).map(of).collect()
    }

    /// out ← the block of one user of ((I + L) ⊗ I_d) p
    fn times(&self, user: usize, p: &[f64], out: &mut [f64]) {
        let (dim, scale) = (out.len(), self.diagonal(user));
        let own = &p[user * dim..(user + 1) * dim];
        out.iter_mut().zip(own).for_each(|(out, p)| *out = scale * p);
        for &other in &self.neighbours[user] {
            let other = &p[other as usize * dim..][..dim];
            out.iter_mut().zip(other).for_each(|(out, p)| *out -= p);
        }
    }
}

/// The relative residual of conjugate gradients for the diagonal of (I + L)⁻¹.
const DIAGONAL_TOLERANCE: f64 = 1e-12;

/// A block (1 + neighbours)·I + Σxxᵀ is preconditioned as a number while the trace of its second part is
/// at most this times its first: its condition is then at most 1 + this, and solving with its factor
/// would take longer than the steps it saves.
const NEARLY_A_NUMBER: f64 = 4.0;

/// Λ and its solver.
#[derive(Clone)]
pub(super) struct LaplacianSolver {
    graph: Graph,
    dim: usize,
    tolerance: f64,
    /// Σxxᵀ of every user; `None` for a user without rewards.
    grams: Vec<Option<Symmetric>>,
    /// The factors of Λ's diagonal blocks: the preconditioner, where a number is not enough.
    factors: Vec<Option<Cholesky>>,
    /// tr(Σxxᵀ) of every user.
    traces: Vec<f64>,
    solver: Solver,
}

impl LaplacianSolver {
    pub(super) fn new(graph: Graph, dim: usize, tolerance: f64) -> Self {
        let users = graph.neighbours.len();
        let (grams, factors, traces) = (vec![None; users], vec![None; users], vec![0.0; users]);
        Self { graph, dim, tolerance, grams, factors, traces, solver: Solver::default() }
    }

    /// Adds isolated users.
    pub(super) fn grow_to(&mut self, users: usize) {
        if users > self.grams.len() {
            self.graph.neighbours.resize(users, Vec::new());
            self.grams.resize(users, None);
            self.factors.resize(users, None);
            self.traces.resize(users, 0.0);
        }
    }

    /// Λ += xxᵀ in the block of a user.
    pub(super) fn learn(&mut self, user: usize, x: &[f64]) {
        let (dim, diagonal) = (self.dim, self.graph.diagonal(user));
        let gram = self.grams[user].get_or_insert_with(|| Symmetric::zero(dim));
        gram.add_outer(1.0, x);
        self.traces[user] = trace(gram);
        self.factors[user]
            .get_or_insert_with(|| Cholesky::identity(dim, diagonal))
            .add_outer(&mut x.to_vec());
    }

    /// g with Λg = x in the block of a user, as its nonzero blocks with their users; `None` where
    /// no finite g was found.
    pub(super) fn solve(&mut self, user: usize, x: &[f64]) -> Option<SparseSolution> {
        let Self { graph, grams, factors, traces, solver, tolerance, .. } = self;
        let (mut product, dim) = (vec![0.0; x.len()], x.len() as f64);
        let add_gram = |at: usize, p: &[f64], out: &mut [f64]| {
            if let Some(gram) = &grams[at] {
                gram.times(p, &mut product);
                out.iter_mut().zip(&product).for_each(|(out, p)| *out += p);
            }
        };
        let precondition = |at: usize, z: &mut [f64]| {
            let (diagonal, trace) = (graph.diagonal(at), traces[at]);
            match &factors[at] {
                // A user with few rewards for its friends has a block that is nearly a number.
                Some(factor) if trace > NEARLY_A_NUMBER * diagonal => factor.solve(z),
                _ => {
                    let scale = 1.0 / (diagonal + trace / dim);
                    z.iter_mut().for_each(|z| *z *= scale);
                }
            }
        };
        solver.solve((user, x), *tolerance, graph, add_gram, precondition)
    }

    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        for (gram, factor) in self.grams.iter().zip(&self.factors) {
            let served = gram.as_ref().zip(factor.as_ref());
            write_numbers(out, &[f64::from(u8::from(served.is_some()))])?;
            if let Some((gram, factor)) = served {
                write_numbers(out, gram.packed())?;
                write_numbers(out, factor.packed())?;
            }
        }
        Ok(())
    }

    pub(super) fn load(
        &mut self,
        from: &mut dyn Read,
        what: &'static str,
        users: usize,
    ) -> Result<(), Error> {
        let (mut grams, mut factors, mut traces) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..users {
            let mut served = [0.0];
            read_numbers(from, what, &mut served)?;
            if served[0] == 1.0 {
                let mut gram = Symmetric::zero(self.dim);
                read_numbers(from, what, gram.packed_mut())?;
                traces.push(trace(&gram));
                grams.push(Some(gram));
                factors.push(Some(read_factor(from, what, self.dim)?));
            } else {
                grams.push(None);
                factors.push(None);
                traces.push(0.0);
            }
        }
        self.graph.neighbours.resize(users, Vec::new());
        (self.grams, self.factors, self.traces) = (grams, factors, traces);
        Ok(())
    }
}

fn trace(matrix: &Symmetric) -> f64 {
    (0..matrix.dim()).map(|at| matrix.at(at, at)).sum()
}

/// Blocks of a solution, each with its user.
pub(super) type SparseSolution = Vec<(usize, Vec<f64>)>;

/// Preconditioned conjugate gradients from one block outwards: a block takes part once it is a
/// neighbour of one along which a step was taken. The right-hand side decays from block to block,
/// so that most of a large graph is never visited. All vectors are 0 outside the active blocks.
#[derive(Clone, Default)]
struct Solver {
    solution: Vec<f64>,
    residual: Vec<f64>,
    direction: Vec<f64>,
    better: Vec<f64>,
    product: Vec<f64>,
    /// The active blocks, in the order of joining, and whether each user is one.
    blocks: Vec<usize>,
    takes_part: Vec<bool>,
}

/// The limit on steps: the result is then as good as rounding allows.
const MOST_STEPS: usize = 500;

/// ⟨a, b⟩, as several sums side by side.
#[inline(always)]
fn product_of(a: &[f64], b: &[f64]) -> f64 {
    sum_in_parts(a, b, |a, b| a * b)
}

impl Solver {
    /// x with ((I + L) ⊗ I + what `add_gram` adds) x = b in the block of a user, from 0, to a
    /// residual of about `tolerance`·‖b‖. Blocks whose residuals are negligible, all together, are
    /// left out.
    fn solve(
        &mut self,
        (user, b): (usize, &[f64]),
        tolerance: f64,
        graph: &Graph,
        mut add_gram: impl FnMut(usize, &[f64], &mut [f64]),
        mut precondition: impl FnMut(usize, &mut [f64]),
    ) -> Option<SparseSolution> {
        let (dim, users) = (b.len(), graph.neighbours.len());
        let Self { solution, residual, direction, better, product, blocks, takes_part } = self;
        for vector in [&mut *solution, residual, direction, better, product] {
            vector.resize(users * dim, 0.0);
        }
        takes_part.resize(users, false);
        let of = |at: usize| at * dim..(at + 1) * dim;
        let sum = |blocks: &[usize], a: &[f64], b: &[f64]| -> f64 {
            blocks.iter().map(|at| product_of(&a[of(*at)], &b[of(*at)])).sum()
        };
        let enough = tolerance * tolerance * dot(b, b);
        let too_small = enough / users as f64;
        residual[of(user)].copy_from_slice(b);
        blocks.push(user);
        takes_part[user] = true;
        let (mut gain, mut step) = (0.0, 0.0);
        for _ in 0..MOST_STEPS {
            if sum(blocks, residual, residual) <= enough {
                break;
            }
            for &at in &*blocks {
                let z = &mut better[of(at)];
                z.copy_from_slice(&residual[of(at)]);
                if product_of(z, z) > too_small { precondition(at, z) } else { z.fill(0.0) }
            }
            // The preconditioner changes as blocks are left out: the flexible form of β does not
            // rely on it.
            let turn = if gain > 0.0 { -step * sum(blocks, better, product) / gain } else { 0.0 };
            for &at in &*blocks {
                for k in of(at) {
                    direction[k] = better[k] + turn * direction[k];
                }
            }
            gain = sum(blocks, residual, better);
            for place in 0..blocks.len() {
                let at = blocks[place];
                if direction[of(at)].iter().any(|p| *p != 0.0) {
                    for other in graph.neighbours[at].iter().map(|other| *other as usize) {
                        if !std::mem::replace(&mut takes_part[other], true) {
                            blocks.push(other);
                        }
                    }
                }
            }
            for &at in &*blocks {
                graph.times(at, direction, &mut product[of(at)]);
                if direction[of(at)].iter().any(|p| *p != 0.0) {
                    add_gram(at, &direction[of(at)], &mut product[of(at)]);
                }
            }
            let curvature = sum(blocks, direction, product);
            if !(curvature > 0.0 && curvature.is_finite()) {
                break;
            }
            step = sum(blocks, residual, direction) / curvature;
            for &at in &*blocks {
                for k in of(at) {
                    solution[k] += step * direction[k];
                    residual[k] -= step * product[k];
                }
            }
        }
        let finite = blocks.iter().all(|at| solution[of(*at)].iter().all(|x| x.is_finite()));
        let found = finite.then(|| {
            let moved = blocks.iter().filter(|at| solution[of(**at)].iter().any(|x| *x != 0.0));
            moved.map(|at| (*at, solution[of(*at)].to_vec())).collect()
        });
        for at in blocks.drain(..) {
            takes_part[at] = false;
            for vector in [&mut *solution, residual, direction, better, product] {
                vector[of(at)].fill(0.0);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of three users and one isolated: I + L = [[2,−1,0],[−1,3,−1],[0,−1,2]], 1.
    #[test]
    fn the_diagonal_of_the_inverse_is_that_of_the_matrix() {
        let graph = Graph::new(4, &[(0, 1), (1, 2), (2, 1), (3, 3), (0, 9)]);
        let found = graph.diagonal_of_inverse();
        // det = 2·5 − 2 = 8; minors 5, 4, 5.
        for (found, expected) in found.iter().zip([5.0 / 8.0, 0.5, 5.0 / 8.0, 1.0]) {
            assert!((found - expected).abs() < 1e-10, "{found} against {expected}");
        }
    }
}
