//! All users in one product: (N × d(d+1)/2) packed V⁻¹ times (d(d+1)/2 × K) packed xxᵀ, by a
//! library; then user by user.

use cohort::Arm;
use cohort::linear::symmetric::pack_outer_doubled;

use super::{DIM, Form, PACKED, radius};

/// C = A·B for row-major matrices (m × k)(k × n).
pub type Product = fn(a: &[f64], b: &[f64], c: &mut [f64], m: usize, k: usize, n: usize);

/// One LinUCB per user, V⁻¹ packed row by row.
pub struct Packed {
    inverse: Vec<f64>,
    estimate: Vec<f64>,
    log_det: Vec<f64>,
    product: Product,
}

impl Packed {
    /// Fresh users.
    pub fn new(users: usize, product: Product) -> Self {
        let mut inverse = vec![0.0; users * PACKED];
        for inverse in inverse.chunks_exact_mut(PACKED) {
            for k in 0..DIM {
                inverse[k * (k + 1) / 2 + k] = 1.0;
            }
        }
        Self { inverse, estimate: vec![0.0; users * DIM], log_det: vec![0.0; users], product }
    }
}

impl Form for Packed {
    fn round(&mut self, contexts: &[f64], rewards: &[f64], arms: &mut [Arm]) {
        let (users, offered) = (arms.len(), contexts.len() / DIM);
        // packed(xxᵀ) and x as columns.
        let (mut outer, mut x) = (vec![0.0; PACKED * offered], vec![0.0; DIM * offered]);
        let mut column = [0.0; PACKED];
        for (arm, context) in contexts.chunks_exact(DIM).enumerate() {
            pack_outer_doubled(context, &mut column);
            (0..PACKED).for_each(|c| outer[c * offered + arm] = column[c]);
            (0..DIM).for_each(|k| x[k * offered + arm] = context[k]);
        }
        let (mut squares, mut means) = (vec![0.0; users * offered], vec![0.0; users * offered]);
        (self.product)(&self.inverse, &outer, &mut squares, users, PACKED, offered);
        (self.product)(&self.estimate, &x, &mut means, users, DIM, offered);

        // The loops over users are compiled for this machine's instruction set, too.
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for user in 0..users {
                    let radius = radius(self.log_det[user]);
                    let (square, mean) = (
                        &squares[user * offered..][..offered],
                        &means[user * offered..][..offered],
                    );
                    arms[user] = choose(square, mean, radius);
                    let x = &contexts[arms[user] * DIM..][..DIM];
                    let inverse = &mut self.inverse[user * PACKED..][..PACKED];
                    let estimate = &mut self.estimate[user * DIM..][..DIM];
                    self.log_det[user] += learn(inverse, estimate, x, rewards[user]);
                }
            },
        );
    }
}

#[inline(always)]
fn choose(square: &[f64], mean: &[f64], radius: f64) -> Arm {
    let mut best = (0, f64::NEG_INFINITY);
    for (arm, (square, mean)) in square.iter().zip(mean).enumerate() {
        let score = mean + radius * square.max(0.0).sqrt();
        if score > best.1 {
            best = (arm, score);
        }
    }
    best.0
}

/// The rank-one update; returns the growth of ln det V.
#[inline(always)]
fn learn(inverse: &mut [f64], estimate: &mut [f64], x: &[f64], y: f64) -> f64 {
    let mut gain = [0.0; DIM];
    let mut at = 0;
    for i in 0..DIM {
        let mut below = 0.0;
        for j in 0..i {
            below += inverse[at] * x[j];
            gain[j] += inverse[at] * x[i];
            at += 1;
        }
        gain[i] += below + inverse[at] * x[i];
        at += 1;
    }
    let step: f64 = x.iter().zip(&gain).map(|(x, gain)| x * gain).sum();
    let mean: f64 = x.iter().zip(&*estimate).map(|(x, estimate)| x * estimate).sum();
    let (shrink, surprise) = (1.0 / (1.0 + step), (y - mean) / (1.0 + step));
    let mut at = 0;
    for i in 0..DIM {
        estimate[i] += gain[i] * surprise;
        let scaled = gain[i] * shrink;
        for j in 0..=i {
            inverse[at] -= scaled * gain[j];
            at += 1;
        }
    }
    step.ln_1p()
}

/// By the gemm crate, on one thread.
pub fn gemm_product(a: &[f64], b: &[f64], c: &mut [f64], m: usize, k: usize, n: usize) {
    assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n);
    // SAFETY: the sizes are checked above, and the matrices are row-major without gaps.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            b.as_ptr(),
            1,
            n as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// By faer, on one thread.
pub fn faer_product(a: &[f64], b: &[f64], c: &mut [f64], m: usize, k: usize, n: usize) {
    use faer::{Accum, MatMut, MatRef, Par};
    faer::linalg::matmul::matmul(
        MatMut::from_row_major_slice_mut(c, m, n),
        Accum::Replace,
        MatRef::from_row_major_slice(a, m, k),
        MatRef::from_row_major_slice(b, k, n),
        1.0,
        Par::Seq,
    );
}
