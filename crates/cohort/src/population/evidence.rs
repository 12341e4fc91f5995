//! What users say about a component: sums that add up over users, and over partitions of them.

use super::lanes::{LANES, Lane, ZERO, add_product, add_scaled, each};
use super::message::{accumulate, message_len};
use super::model::Component;
use super::spectrum::Spectrum;
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;

/// Sums over users, each in the share to which it belongs to the component.
#[derive(Clone, Debug)]
pub struct Sums {
    dim: usize,
    /// How many users, in parts.
    pub users: f64,
    /// Σ of users' messages: information on the centre, pull, log.
    pub message: Vec<f64>,
    pub slopes: Slopes,
}

/// How the evidence changes with the variances.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slopes {
    /// ∂/∂τ², its expected curvature, and the mixed one in τ² and σ².
    pub spread: [f64; 3],
    /// ∂/∂σ² and its expected curvature.
    pub noise: [f64; 2],
}

impl Slopes {
    /// Others', too.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.spread.iter_mut().zip(other.spread) {
            *a += b;
        }
        for (a, b) in self.noise.iter_mut().zip(other.noise) {
            *a += b;
        }
    }
}

impl Sums {
    /// Of nobody.
    pub fn new(dim: usize) -> Self {
        Self { dim, users: 0.0, message: vec![0.0; message_len(dim)], slopes: Slopes::default() }
    }

    /// Σ H_i.
    pub fn information(&self) -> Symmetric {
        Symmetric::from_packed(self.dim, self.message[..packed_len(self.dim)].to_vec())
    }

    /// Σ H_i θ̂_i.
    pub fn pull(&self) -> &[f64] {
        &self.message[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// All that another partition of the users says, too.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        for (a, b) in self.message.iter_mut().zip(&other.message) {
            *a += b;
        }
        self.slopes.add(&other.slopes);
    }
}

/// [`Sums`] while they are being made, eight users at a time.
#[derive(Clone, Debug)]
pub struct LaneSums {
    users: Lane,
    message: Vec<Lane>,
    slopes: [Lane; 5],
}

impl LaneSums {
    /// Of nobody.
    pub fn new(dim: usize) -> Self {
        Self { users: ZERO, message: vec![ZERO; message_len(dim)], slopes: [ZERO; 5] }
    }

    /// Eight users' messages in their shares.
    pub fn add_messages(&mut self, shares: &Lane, messages: &[Lane]) {
        for lane in 0..LANES {
            self.users[lane] += shares[lane];
        }
        accumulate(&mut self.message, shares, messages);
    }

    /// What eight users say about spread and noise.
    pub fn add_slopes(
        &mut self,
        shares: &Lane,
        users: &Spectrum,
        component: &Component,
        noise: f64,
    ) {
        let slopes = &mut self.slopes;
        for lane in 0..LANES {
            let share = 0.5 * shares[lane] / noise;
            slopes[3][lane] += share * (users.residual[lane] / noise - users.freedom[lane]);
            slopes[4][lane] += share * users.freedom[lane] / noise;
        }
        slopes_along(shares, users, component, noise, slopes);
    }

    /// Over the eight.
    pub fn total(&self, dim: usize) -> Sums {
        let sum = |lanes: &Lane| lanes.iter().sum::<f64>();
        let [s0, s1, s2, n0, n1] = self.slopes.each_ref().map(sum);
        Sums {
            dim,
            users: sum(&self.users),
            message: self.message.iter().map(sum).collect(),
            slopes: Slopes { spread: [s0, s1, s2], noise: [n0, n1] },
        }
    }
}

widest! {
    /// The part of the slopes that lies along the eigenvectors.
    fn slopes_along(
        shares: &Lane,
        users: &Spectrum,
        component: &Component,
        noise: f64,
        slopes: &mut [Lane; 5],
    ) = slopes_along_kernel
}

#[inline(always)]
fn slopes_along_kernel(
    shares: &Lane,
    users: &Spectrum,
    component: &Component,
    noise: f64,
    slopes: &mut [Lane; 5],
) {
    let d = users.dim();
    let (values, vectors, along) = (users.values(), users.vectors(), users.along());
    let doubt = component.doubt.packed();
    for j in 0..d {
        let q = &vectors[j * d..(j + 1) * d];
        // ⟨q, μ⟩ and qᵀCq
        let (mut projection, mut vague) = (ZERO, ZERO);
        let mut at = 0;
        for i in 0..d {
            add_scaled(&mut projection, &q[i], component.centre[i]);
            let mut row = ZERO;
            for k in 0..i {
                add_scaled(&mut row, &q[k], 2.0 * doubt[at]);
                at += 1;
            }
            add_scaled(&mut row, &q[i], doubt[at]);
            at += 1;
            add_product(&mut vague, &row, &q[i]);
        }
        for lane in 0..LANES {
            let value = values[j][lane];
            let rest = along[j][lane] - value * projection[lane];
            let square = if value > 0.0 { rest * rest / value } else { 0.0 };
            let deviation = square + value * vague[lane];
            let per = 1.0 / (noise + component.spread * value);
            let curve = 0.5 * shares[lane] * per * per;
            // Unseen directions have neither a deviation nor, in truth, a variance.
            let slope = curve * deviation - 0.5 * shares[lane] * per;
            slopes[0][lane] += value * slope;
            slopes[1][lane] += value * value * curve;
            slopes[2][lane] += value * curve;
            slopes[3][lane] += slope;
            slopes[4][lane] += curve;
        }
    }
}

/// All eight the same.
pub fn everybody(share: f64) -> Lane {
    each(|_| share)
}
