//! What eight users have seen, each in the eigenbasis of its own V = Σxxᵀ.
//!
//! With V = QᵀΛQ and c = Qb the rewards of a user say exactly this about its θ: along every
//! eigenvector q_j there is one number z_j = c_j/√λ_j ~ N(√λ_j·⟨q_j, θ⟩, σ²), and what is left
//! over, the residual of least squares, is σ²χ² with n − rank degrees of freedom. Under
//! θ ~ N(μ, τ²I) the z_j are independent with variance σ² + τ²λ_j, so that the likelihood of any
//! (μ, τ, σ) costs O(d²): one decomposition a refit, reused throughout.
//!
//! Directions that have not been seen count as λ = 0, c = 0 with variance σ²; in return the
//! degrees of freedom are n − d, below zero if need be: the two cancel.

use super::lanes::{LANES, Lane, ZERO, add_product, each};
use super::ledger::Record;
use crate::linear::symmetric::packed_len;

/// Directions whose eigenvalue is below this share of the largest have not been seen.
const UNSEEN: f64 = 1e-9;

/// Rotations stop when what is off the diagonal is below this share of the whole, in squares.
const OFF_DIAGONAL: f64 = 1e-15;

/// The statistics of eight users, diagonalised.
#[derive(Clone, Debug)]
pub struct Spectrum {
    dim: usize,
    /// λ, then q row by row, then c.
    numbers: Vec<Lane>,
    /// The residual sum of squares of least squares.
    pub residual: Lane,
    /// n − d.
    pub freedom: Lane,
}

impl Spectrum {
    /// One eigendecomposition each, of rewards counted from a level.
    pub fn new(record: Record, level: f64) -> Self {
        // Σx(y − α) = b − αΣx and Σ(y − α)² = Σy² − 2αΣy + α²n
        let (moment, contexts) = (record.moment(), record.contexts());
        let moment: Vec<Lane> = moment
            .iter()
            .zip(contexts)
            .map(|(b, x)| each(|lane| b[lane] - level * x[lane]))
            .collect();
        let (squares, total, n) = (record.squares(), record.total(), record.rewards());
        let squares =
            each(|lane| (squares[lane] - level * (2.0 * total[lane] - level * n[lane])).max(0.0));
        Self::of(record.dim(), record.gram().to_vec(), &moment, &squares, n)
    }

    /// Of users who have seen nothing.
    pub fn unseen(dim: usize) -> Self {
        Self::of(dim, vec![ZERO; packed_len(dim)], &vec![ZERO; dim], &ZERO, &ZERO)
    }

    /// The same from its parts.
    pub fn of(dim: usize, mut gram: Vec<Lane>, moment: &[Lane], squares: &Lane, n: &Lane) -> Self {
        let mut numbers = vec![ZERO; dim * (dim + 2)];
        let (values, rest) = numbers.split_at_mut(dim);
        let (vectors, along) = rest.split_at_mut(dim * dim);
        diagonalise(&mut gram, vectors, values);
        project(values, vectors, moment, along);
        let mut explained = ZERO;
        for (value, along) in values.iter().zip(along.iter()) {
            for lane in 0..LANES {
                if value[lane] > 0.0 {
                    explained[lane] += along[lane] * along[lane] / value[lane];
                }
            }
        }
        Self {
            dim,
            numbers,
            residual: each(|lane| (squares[lane] - explained[lane]).max(0.0)),
            freedom: each(|lane| n[lane] - dim as f64),
        }
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// λ_j.
    pub fn values(&self) -> &[Lane] {
        &self.numbers[..self.dim]
    }

    /// q_j in row j.
    pub fn vectors(&self) -> &[Lane] {
        &self.numbers[self.dim..self.dim * (self.dim + 1)]
    }

    /// c_j = ⟨q_j, b⟩.
    pub fn along(&self) -> &[Lane] {
        &self.numbers[self.dim * (self.dim + 1)..]
    }
}

widest! {
    /// Eigenvalues and vectors (rows) of packed symmetric matrices, by cyclic Jacobi rotations;
    /// eigenvalues of directions that have not been seen are zero.
    fn diagonalise(a: &mut [Lane], q: &mut [Lane], values: &mut [Lane]) = diagonalise_kernel
}

#[inline(always)]
fn diagonalise_kernel(a: &mut [Lane], q: &mut [Lane], values: &mut [Lane]) {
    let d = values.len();
    q.fill(ZERO);
    for i in 0..d {
        q[i * d + i] = [1.0; LANES];
    }
    for _sweep in 0..40 {
        let (mut off, mut whole) = (ZERO, ZERO);
        for i in 0..d {
            for j in 0..i {
                let entry = a[packed_len(i) + j];
                add_product(&mut off, &entry, &entry);
            }
            let entry = a[packed_len(i) + i];
            add_product(&mut whole, &entry, &entry);
        }
        let limit: Lane = each(|lane| OFF_DIAGONAL * (whole[lane] + off[lane]));
        if (0..LANES).all(|lane| off[lane] <= limit[lane]) {
            break;
        }
        for i in 1..d {
            for j in 0..i {
                // Entries that are small enough even if all were as large stay as they are.
                let entry = a[packed_len(i) + j];
                let square = each(|lane| entry[lane] * entry[lane] * (d * d) as f64);
                if (0..LANES).any(|lane| square[lane] > limit[lane]) {
                    rotate(a, q, d, i, j);
                }
            }
        }
    }
    let mut most = ZERO;
    for i in 0..d {
        for lane in 0..LANES {
            most[lane] = f64::max(most[lane], a[packed_len(i) + i][lane]);
        }
    }
    for i in 0..d {
        let value = a[packed_len(i) + i];
        values[i] = each(|lane| if value[lane] > UNSEEN * most[lane] { value[lane] } else { 0.0 });
    }
}

/// One rotation that makes entry (i, j), j < i, of every user's matrix zero.
#[inline(always)]
fn rotate(a: &mut [Lane], q: &mut [Lane], d: usize, i: usize, j: usize) {
    let (ii, jj, ij) = (packed_len(i) + i, packed_len(j) + j, packed_len(i) + j);
    let (mut cosine, mut sine) = (ZERO, ZERO);
    let (aii, ajj, off) = (a[ii], a[jj], a[ij]);
    for lane in 0..LANES {
        // tan = sign(gap)·off/(|gap| + √(gap² + off²)), which is 0 where off is.
        let gap = 0.5 * (ajj[lane] - aii[lane]);
        let length = gap.abs() + (gap * gap + off[lane] * off[lane]).sqrt();
        let tangent = if length > 0.0 { off[lane] / length } else { 0.0 };
        let tangent = if gap < 0.0 { -tangent } else { tangent };
        cosine[lane] = 1.0 / (tangent * tangent + 1.0).sqrt();
        sine[lane] = tangent * cosine[lane];
        a[ii][lane] = aii[lane] - tangent * off[lane];
        a[jj][lane] = ajj[lane] + tangent * off[lane];
        a[ij][lane] = 0.0;
    }
    let angle = (&cosine, &sine);
    for k in 0..j {
        turn(a, packed_len(i) + k, packed_len(j) + k, angle);
    }
    for k in j + 1..i {
        turn(a, packed_len(i) + k, packed_len(k) + j, angle);
    }
    for k in i + 1..d {
        turn(a, packed_len(k) + i, packed_len(k) + j, angle);
    }
    for k in 0..d {
        turn(q, i * d + k, j * d + k, angle);
    }
}

/// Turns two numbers of every user by its angle.
#[inline(always)]
fn turn(a: &mut [Lane], i: usize, j: usize, (cosine, sine): (&Lane, &Lane)) {
    let (u, v) = (a[i], a[j]);
    for lane in 0..LANES {
        a[i][lane] = cosine[lane] * u[lane] - sine[lane] * v[lane];
        a[j][lane] = sine[lane] * u[lane] + cosine[lane] * v[lane];
    }
}

widest! {
    /// c = Qb, zero where λ is.
    fn project(values: &[Lane], q: &[Lane], moment: &[Lane], along: &mut [Lane]) = project_kernel
}

#[inline(always)]
fn project_kernel(values: &[Lane], q: &[Lane], moment: &[Lane], along: &mut [Lane]) {
    let d = values.len();
    for j in 0..d {
        let mut sum = ZERO;
        for k in 0..d {
            add_product(&mut sum, &q[j * d + k], &moment[k]);
        }
        along[j] = each(|lane| if values[j][lane] > 0.0 { sum[lane] } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::*;
    use crate::linear::{Symmetric, dot};

    #[test]
    fn diagonalises_every_lane() {
        let d = 6;
        let mut ledger = Ledger::new(8, d, None);
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
        };
        // Users have seen 0, 2, 4, … contexts: some have full rank, some have not.
        for user in 0..8 {
            for _ in 0..2 * user {
                let x: Vec<f64> = (0..d).map(|_| next()).collect();
                ledger.learn_one(user, &x, next());
            }
        }
        let spectrum = Spectrum::new(ledger.block(0), 0.0);
        for user in 0..8 {
            let statistics = ledger.statistics(user);
            let mut again = Symmetric::zero(d);
            let mut rank = 0;
            for j in 0..d {
                let q: Vec<f64> = (0..d).map(|k| spectrum.vectors()[j * d + k][user]).collect();
                assert!((dot(&q, &q) - 1.0).abs() < 1e-12);
                let value = spectrum.values()[j][user];
                rank += usize::from(value > 0.0);
                again.add_outer(value, &q);
                if value > 0.0 {
                    let along = spectrum.along()[j][user];
                    assert!((along - dot(&q, &statistics.moment)).abs() < 1e-12);
                }
            }
            assert_eq!(rank, (2 * user).min(d));
            for (a, b) in again.packed().iter().zip(statistics.gram.packed()) {
                assert!((a - b).abs() < 1e-7, "{a} against {b}");
            }
            if 2 * user <= d {
                assert!(spectrum.residual[user] < 1e-9, "as many parameters as rewards");
            }
        }
    }
}
