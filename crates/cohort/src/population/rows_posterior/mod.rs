//! What follows for one user from its rewards themselves: the dual form, whose cost grows with how
//! many rewards there are, for users who have few against the dimension.
//!
//! With X the rows (x, 1) of the user (n × D, D = d + 1), y its rewards, θ ~ N(μ, Δ) and noise σ²:
//!
//! ```text
//! G = σ²I + XΔXᵀ = LLᵀ                        n × n, whatever D is
//! E[θ | y]       = μ + ΔXᵀG⁻¹(y − Xμ)
//! ln p(y | μ)    = −½ (ln det G + ‖L⁻¹(y − Xμ)‖²)          without n ln 2π
//! Var[⟨c, θ⟩]    = cᵀΔc − ‖L⁻¹XΔc‖²
//! ```
//!
//! Where the centre is itself uncertain, μ ~ N(m, C), variances are more by (Ac)ᵀC(Ac) with
//! A = I − XᵀG⁻¹XΔ: what a change of μ still does to ⟨c, θ⟩ once y is known.
//!
//! Δ is diagonal in the basis in which rows are given.

mod arms;
mod kernels;
#[cfg(test)]
mod tests;

use self::kernels::{add_scaled_row, dot_in_parts, factor, gram};

use super::lanes::LANES;

/// The rows of one user.
#[derive(Clone, Debug)]
pub struct Design {
    dim: usize,
    /// Row by row, D numbers each.
    x: Vec<f64>,
    y: Vec<f64>,
    weight: f64,
}

impl Design {
    /// Without rows; `dim` is D, with the constant.
    pub fn new(dim: usize) -> Self {
        Self { dim, x: Vec::new(), y: Vec::new(), weight: 0.0 }
    }

    /// Of rows (x, y, weight) as a store gives them; the constant 1 is added to x.
    pub fn of<'a>(dim: usize, rows: impl Iterator<Item = (&'a [f64], f64, f64)>) -> Self {
        let (mut design, mut z) = (Self::new(dim), vec![1.0; dim]);
        for (x, y, weight) in rows {
            z[..dim - 1].copy_from_slice(x);
            design.push(&z, y, weight);
        }
        design
    }

    /// One more row, of D numbers in any basis. A row of weight w says what w of them would.
    pub fn push(&mut self, z: &[f64], y: f64, weight: f64) {
        debug_assert_eq!(z.len(), self.dim, "coordinates of a row");
        let scale = weight.sqrt();
        self.x.extend(z.iter().map(|z| scale * z));
        self.y.push(scale * y);
        self.weight += weight;
    }

    /// D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.y.len()
    }
}

/// What the rows of one user say about θ under a prior of covariance Δ (diagonal), for any centre.
#[derive(Clone, Debug)]
pub struct RowsPosterior<'a> {
    design: &'a Design,
    prior: &'a [f64],
    /// L in full, rows `stride` numbers apart, zeros above the diagonal.
    lower: Vec<f64>,
    stride: usize,
    log_det: f64,
    /// What ln det G is of rows that count less than 1 each.
    surplus: f64,
}

impl<'a> RowsPosterior<'a> {
    /// `prior` is the diagonal of Δ, `noise` is σ². `None` where G has no factor, which takes a
    /// noise that is nothing against the rest.
    pub fn new(design: &'a Design, prior: &'a [f64], noise: f64) -> Option<Self> {
        let (n, dim) = (design.rows(), design.dim);
        assert_eq!(prior.len(), dim, "variances of the prior");
        let mut g = vec![0.0; n * n];
        gram(&design.x, prior, &mut g);
        for i in 0..n {
            g[i * n + i] += noise;
        }
        let stride = n.next_multiple_of(LANES);
        let (mut lower, mut log_det) = (vec![0.0; n * stride], 0.0);
        factor(&g, stride, &mut lower, &mut log_det);
        if !log_det.is_finite() {
            return None;
        }
        let surplus = (n as f64 - design.weight) * noise.ln();
        Some(Self { design, prior, lower, stride, log_det, surplus })
    }

    /// ln det G.
    pub fn log_det(&self) -> f64 {
        self.log_det
    }

    /// Writes E[θ | y] for the centre μ, and returns ln p(y | μ) without the constant. Rows that
    /// count less than 1 count less there, too: a row of weight w has w ln σ² for its noise.
    pub fn mean(&self, centre: &[f64], out: &mut [f64]) -> f64 {
        let (n, dim) = (self.design.rows(), self.design.dim);
        let (mut rest, mut squares) = (vec![0.0; n], 0.0);
        for (i, row) in self.design.x.chunks_exact(dim).enumerate() {
            rest[i] = self.design.y[i] - dot_in_parts(row, centre);
        }
        // L⁻¹ of it, then L⁻ᵀ.
        for i in 0..n {
            let (known, unknown) = rest.split_at_mut(i);
            let row = &self.lower[i * self.stride..][..=i];
            unknown[0] = (unknown[0] - dot_in_parts(&row[..i], known)) / row[i];
            squares += unknown[0] * unknown[0];
        }
        for i in (0..n).rev() {
            let row = &self.lower[i * self.stride..][..=i];
            rest[i] /= row[i];
            let (above, this) = rest.split_at_mut(i);
            add_scaled_row(above, &row[..i], -this[0]);
        }
        out.fill(0.0);
        for (row, rest) in self.design.x.chunks_exact(dim).zip(&rest) {
            add_scaled_row(out, row, *rest);
        }
        for (out, (variance, centre)) in out.iter_mut().zip(self.prior.iter().zip(centre)) {
            *out = centre + variance * *out;
        }
        -0.5 * (self.log_det - self.surplus + squares)
    }

    /// ln p(y | μ) without the constant: see [`RowsPosterior::mean`].
    pub fn log_likelihood(&self, centre: &[f64]) -> f64 {
        self.mean(centre, &mut vec![0.0; centre.len()])
    }
}
