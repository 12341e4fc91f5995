//! Λ = (I + L) ⊗ I_d + blockdiag(Σxxᵀ): kept as its parts, multiplied with, and solved with by
//! conjugate gradients.

use std::io::{self, Read, Write};

use crate::Error;
use crate::linear::symmetric::Cholesky;
use crate::linear::{Symmetric, dot, read_factor};
use crate::saved::{read_numbers, write_numbers};

/// Who is joined with whom.
pub(super) struct Graph {
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    /// From pairs of users; pairs of one, pairs out of range and repetitions do not count.
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

    /// 1 + the number of neighbours.
    fn diagonal(&self, user: usize) -> f64 {
        1.0 + self.neighbours[user].len() as f64
    }

    /// The diagonal of (I + L)⁻¹, a solution for each user who is not alone.
    pub(super) fn diagonal_of_inverse(&self) -> Vec<f64> {
        let users = self.neighbours.len();
        let mut solver = Solver::default();
        let mut unit = vec![0.0; users];
        (0..users)
            .map(|user| {
                if self.neighbours[user].is_empty() {
                    return 1.0;
                }
                unit[user] = 1.0;
                let times = |p: &[f64], out: &mut [f64]| self.times(p, 1, out);
                let precondition = |r: &[f64], z: &mut [f64]| {
                    let of = |(at, r): (usize, &f64)| r / self.diagonal(at);
                    z.iter_mut().zip(r.iter().enumerate().map(of)).for_each(|(z, r)| *z = r);
                };
                let found = solver.solve(&unit, DIAGONAL_TOLERANCE, times, precondition);
                let at = found.map_or(1.0 / self.diagonal(user), |g| g[user]);
                unit[user] = 0.0;
                at
            })
            .collect()
    }

    /// out ← ((I + L) ⊗ I_d) p
    fn times(&self, p: &[f64], dim: usize, out: &mut [f64]) {
        for (user, out) in out.chunks_exact_mut(dim).enumerate() {
            let scale = self.diagonal(user);
            let own = &p[user * dim..(user + 1) * dim];
            out.iter_mut().zip(own).for_each(|(out, p)| *out = scale * p);
            for &other in &self.neighbours[user] {
                let other = &p[other as usize * dim..][..dim];
                out.iter_mut().zip(other).for_each(|(out, p)| *out -= p);
            }
        }
    }
}

/// Where conjugate gradients stop for the diagonal of (I + L)⁻¹.
const DIAGONAL_TOLERANCE: f64 = 1e-12;

/// Λ and what solves with it.
pub(super) struct Gang {
    graph: Graph,
    dim: usize,
    tolerance: f64,
    /// Σxxᵀ of every user; none of one who was never served.
    grams: Vec<Option<Symmetric>>,
    /// The factors of Λ's diagonal blocks: the preconditioner.
    factors: Vec<Option<Cholesky>>,
    solver: Solver,
}

impl Gang {
    pub(super) fn new(graph: Graph, dim: usize, tolerance: f64) -> Self {
        let users = graph.neighbours.len();
        let (grams, factors) = (vec![None; users], vec![None; users]);
        Self { graph, dim, tolerance, grams, factors, solver: Solver::default() }
    }

    /// More users, who are alone.
    pub(super) fn grow_to(&mut self, users: usize) {
        if users > self.grams.len() {
            self.graph.neighbours.resize(users, Vec::new());
            self.grams.resize(users, None);
            self.factors.resize(users, None);
        }
    }

    /// Λ += xxᵀ in the block of a user.
    pub(super) fn learn(&mut self, user: usize, x: &[f64]) {
        let (dim, diagonal) = (self.dim, self.graph.diagonal(user));
        self.grams[user].get_or_insert_with(|| Symmetric::zero(dim)).add_outer(1.0, x);
        self.factors[user]
            .get_or_insert_with(|| Cholesky::identity(dim, diagonal))
            .add_outer(&mut x.to_vec());
    }

    /// g with Λg = x in the block of a user; `None` where no finite g was found.
    pub(super) fn solve(&mut self, user: usize, x: &[f64]) -> Option<Vec<f64>> {
        let dim = self.dim;
        let mut right = vec![0.0; self.grams.len() * dim];
        right[user * dim..(user + 1) * dim].copy_from_slice(x);
        let Self { graph, grams, factors, solver, .. } = self;
        let mut product = vec![0.0; dim];
        let times = |p: &[f64], out: &mut [f64]| {
            graph.times(p, dim, out);
            for (at, gram) in grams.iter().enumerate() {
                let own = &p[at * dim..(at + 1) * dim];
                let Some(gram) = gram.as_ref().filter(|_| own.iter().any(|p| *p != 0.0)) else {
                    continue;
                };
                gram.times(own, &mut product);
                let out = &mut out[at * dim..(at + 1) * dim];
                out.iter_mut().zip(&product).for_each(|(out, p)| *out += p);
            }
        };
        let precondition = |r: &[f64], z: &mut [f64]| {
            z.copy_from_slice(r);
            for (at, factor) in factors.iter().enumerate() {
                let z = &mut z[at * dim..(at + 1) * dim];
                if z.iter().all(|z| *z == 0.0) {
                    continue;
                }
                match factor {
                    Some(factor) => factor.solve(z),
                    None => z.iter_mut().for_each(|z| *z /= graph.diagonal(at)),
                }
            }
        };
        solver.solve(&right, self.tolerance, times, precondition)
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
        let (mut grams, mut factors) = (Vec::new(), Vec::new());
        for _ in 0..users {
            let mut served = [0.0];
            read_numbers(from, what, &mut served)?;
            if served[0] == 1.0 {
                let mut gram = Symmetric::zero(self.dim);
                read_numbers(from, what, gram.packed_mut())?;
                grams.push(Some(gram));
                factors.push(Some(read_factor(from, what, self.dim)?));
            } else {
                grams.push(None);
                factors.push(None);
            }
        }
        self.graph.neighbours.resize(users, Vec::new());
        (self.grams, self.factors) = (grams, factors);
        Ok(())
    }
}

/// Preconditioned conjugate gradients.
#[derive(Default)]
struct Solver {
    residual: Vec<f64>,
    direction: Vec<f64>,
    better: Vec<f64>,
    product: Vec<f64>,
}

/// More steps than this are never taken: what is found by then is as good as rounding allows.
const MOST_STEPS: usize = 500;

impl Solver {
    /// x with A x = b, from 0, to a residual of `tolerance`·‖b‖.
    fn solve(
        &mut self,
        b: &[f64],
        tolerance: f64,
        mut times: impl FnMut(&[f64], &mut [f64]),
        mut precondition: impl FnMut(&[f64], &mut [f64]),
    ) -> Option<Vec<f64>> {
        let Self { residual, direction, better, product } = self;
        for scratch in [&mut *better, &mut *product] {
            scratch.clear();
            scratch.resize(b.len(), 0.0);
        }
        residual.clear();
        residual.extend(b);
        let mut x = vec![0.0; b.len()];
        let enough = tolerance * tolerance * dot(b, b);
        precondition(residual, better);
        direction.clear();
        direction.extend(&*better);
        let mut gain = dot(residual, better);
        for _ in 0..MOST_STEPS {
            if dot(residual, residual) <= enough {
                break;
            }
            times(direction, product);
            let curvature = dot(direction, product);
            if !(curvature > 0.0 && curvature.is_finite()) {
                break;
            }
            let step = gain / curvature;
            x.iter_mut().zip(&*direction).for_each(|(x, p)| *x += step * p);
            residual.iter_mut().zip(&*product).for_each(|(r, q)| *r -= step * q);
            precondition(residual, better);
            let next = dot(residual, better);
            let turn = next / gain;
            direction.iter_mut().zip(&*better).for_each(|(p, z)| *p = z + turn * *p);
            gain = next;
        }
        x.iter().all(|x| x.is_finite()).then_some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of three users and one who is alone: I + L = [[2,−1,0],[−1,3,−1],[0,−1,2]], 1.
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
