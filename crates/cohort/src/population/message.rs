//! The message of a user to the centre of its component: the log likelihood of its rewards, a
//! quadratic in μ once the prior's variances Δ (diagonal in the population's basis) and the noise
//! are fixed.
//!
//! ```text
//! K = σ²I + XΔXᵀ,   G = I + RVR,   R = Δ½/σ
//! ln p(y | μ) = log + ⟨pull, μ⟩ − ½ μᵀ information μ
//! information = XᵀK⁻¹X = R⁻¹(I − G⁻¹)R⁻¹/σ²,   pull = XᵀK⁻¹y = R⁻¹G⁻¹Rb/σ²
//! log = −½ (yᵀK⁻¹y + ln det K),   ln det K = ln det G + n ln σ²,   yᵀK⁻¹y = (Σy² − (Rb)ᵀG⁻¹Rb)/σ²
//! ```
//!
//! (up to a number that depends on nothing but n). Components with the same Δ share a user's
//! message: the expected log likelihood under each is then one dot product. All that scoring needs to
//! know about variances follows from messages too.

use super::lanes::{F64x8, LANES, ZERO, each};
use super::model::Component;
use super::moments::Moments;
use super::root_message::write_from_root;
use crate::algebra::lanes::{Entries, Packed, Sink, factor_from, invert_lower, square_into};
use crate::algebra::packed_len;
use crate::simd::{self, Kernel, Simd, with_scratch};

/// A prior variance is never below this share of what the user's own rewards leave uncertain: the
/// difference is beyond notice, and nothing cancels.
const LEAST_RATIO: f64 = 1e-7;

/// How many numbers the dot product with a component takes: information (packed), information vector, log.
pub fn probe_len(dim: usize) -> usize {
    packed_len(dim) + dim + 1
}

/// How many numbers a message has: the above and yᵀK⁻¹y.
pub fn message_len(dim: usize) -> usize {
    probe_len(dim) + 1
}

/// Prior variances and noise, prepared for messages.
#[derive(Clone, Debug)]
pub struct MessagePrior {
    noise: f64,
    log_noise: f64,
    /// √(Δ/σ²).
    roots: Vec<f64>,
    /// What must have been seen of a coordinate for its variance to be used as it is.
    seen: Vec<f64>,
}

impl MessagePrior {
    /// For prior variances, coordinate by coordinate, and the noise.
    pub fn new(variances: &[f64], noise: f64) -> Self {
        Self {
            noise,
            log_noise: noise.ln(),
            roots: variances.iter().map(|v| (v / noise).clamp(1e-200, 1e200).sqrt()).collect(),
            seen: variances.iter().map(|v| LEAST_RATIO * noise / v).collect(),
        }
    }

    /// σ².
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// R as it is used for eight users.
    pub fn roots(&self, gram: &[F64x8], out: &mut [F64x8]) {
        simd::run(FindRoots { prepared: self, gram, out });
    }
}

struct FindRoots<'a> {
    prepared: &'a MessagePrior,
    gram: &'a [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for FindRoots<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let MessagePrior { roots, seen: enough, .. } = self.prepared;
        for (j, (out, root)) in self.out.iter_mut().zip(roots).enumerate() {
            let seen = simd.load(&self.gram[packed_len(j) + j]);
            let too_little = simd.where_greater(simd.splat(enough[j]), seen, seen, simd.splat(0.0));
            simd.store(simd.splat(*root), out);
            // Where nothing was seen any number will do.
            if !simd.all_up_to(too_little, 0.0) {
                let seen = &self.gram[packed_len(j) + j];
                // Rounding leaves a little less than nothing where a basis was turned.
                let is_enough = |seen: f64| seen >= enough[j] || seen <= 0.0;
                *out = each(|lane| {
                    let seen = seen[lane];
                    if is_enough(seen) { *root } else { (LEAST_RATIO / seen).sqrt() }
                });
            }
        }
    }
}

/// Writes the messages of eight users.
pub fn write(users: &Moments, prepared: &MessagePrior, out: &mut [F64x8]) {
    let d = users.dim();
    if let Some(root) = users.root() {
        return write_from_root(users, root, prepared, out);
    }
    with_scratch(2 * d, |scratch| {
        let (roots, scaled) = scratch.split_at_mut(d);
        prepared.roots(users.gram(), roots);
        simd::run(Write { users, prepared, out, roots, scaled });
    });
}

struct Write<'a> {
    users: &'a Moments,
    prepared: &'a MessagePrior,
    out: &'a mut [F64x8],
    roots: &'a mut [F64x8],
    scaled: &'a mut [F64x8],
}

/// I + RVR.
#[derive(Clone, Copy)]
pub(super) struct Whitened<'a> {
    /// V, packed.
    pub gram: &'a [F64x8],
    /// R.
    pub roots: &'a [F64x8],
}

// SAFETY: `allows` has checked the lengths.
unsafe impl Entries for Whitened<'_> {
    #[inline(always)]
    fn allows(&self, dim: usize) -> bool {
        self.gram.len() >= packed_len(dim) && self.roots.len() >= dim
    }

    #[inline(always)]
    unsafe fn entry<S: Simd>(&self, simd: S, _: Packed, i: usize, j: usize) -> S::V {
        // SAFETY: j ≤ i < dim, which is allowed.
        let (gram, own, other) = unsafe {
            (
                self.gram.get_unchecked(packed_len(i) + j),
                self.roots.get_unchecked(i),
                self.roots.get_unchecked(j),
            )
        };
        let (gram, roots) = (simd.load(gram), simd.mul(simd.load(own), simd.load(other)));
        let own = simd.splat(if i == j { 1.0 } else { 0.0 });
        simd.mul_add(gram, roots, own)
    }
}

/// R⁻¹(I − G⁻¹)R⁻¹/σ²; R⁻¹/σ is given.
#[derive(Clone, Copy)]
struct Unwhitened<'a>(&'a [F64x8]);

// SAFETY: `allows` has checked the lengths.
unsafe impl Sink for Unwhitened<'_> {
    #[inline(always)]
    fn allows(&self, dim: usize) -> bool {
        self.0.len() >= dim
    }

    #[inline(always)]
    unsafe fn keep<S: Simd>(&self, simd: S, i: usize, j: usize, value: S::V) -> S::V {
        // SAFETY: j ≤ i < dim, which is allowed.
        let (own, other) = unsafe { (self.0.get_unchecked(i), self.0.get_unchecked(j)) };
        let inverse = simd.mul(simd.load(own), simd.load(other));
        let own = simd.splat(if i == j { 1.0 } else { 0.0 });
        simd.mul(simd.sub(own, value), inverse)
    }
}

impl Kernel for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { users, prepared, out, roots, scaled } = self;
        let d = users.dim();
        let (information, rest) = out.split_at_mut(packed_len(d));
        let (pull, tail) = rest.split_at_mut(d);
        let whitened = Whitened { gram: users.gram(), roots };
        let log_det = factor_from(simd, information, d, whitened);
        invert_lower(simd, information, d);
        // w = L⁻¹Rb, then G⁻¹Rb = L⁻ᵀw.
        for (i, (scaled, b)) in scaled.iter_mut().zip(users.moment()).enumerate() {
            simd.store(simd.mul(simd.load(&roots[i]), simd.load(b)), scaled);
        }
        let mut explained = simd.splat(0.0);
        for i in 0..d {
            let row = &information[packed_len(i)..=packed_len(i) + i];
            let (mut even, mut odd) = (simd.splat(0.0), simd.splat(0.0));
            let (pairs, others) = (row.chunks_exact(2), scaled[..=i].chunks_exact(2));
            for (x, s) in pairs.remainder().iter().zip(others.remainder()) {
                even = simd.mul(simd.load(x), simd.load(s));
            }
            for (x, s) in pairs.zip(others) {
                even = simd.mul_add(simd.load(&x[0]), simd.load(&s[0]), even);
                odd = simd.mul_add(simd.load(&x[1]), simd.load(&s[1]), odd);
            }
            let w = simd.add(even, odd);
            explained = simd.mul_add(w, w, explained);
            for (pull, x) in pull[..i].iter_mut().zip(row) {
                simd.store(simd.mul_add(simd.load(x), w, simd.load(pull)), pull);
            }
            simd.store(simd.mul(simd.load(&row[i]), w), &mut pull[i]);
        }
        // R⁻¹/σ from here on.
        let over = simd.splat(1.0 / prepared.noise.sqrt());
        for (root, pull) in roots.iter_mut().zip(pull) {
            let inverse = simd.div(over, simd.load(root));
            simd.store(inverse, root);
            simd.store(simd.mul(simd.mul(simd.load(pull), inverse), over), pull);
        }
        square_into(simd, information, d, Unwhitened(roots));
        let (mut explaining, mut log) = (ZERO, ZERO);
        simd.store(explained, &mut explaining);
        simd.store(log_det, &mut log);
        let (squares, n) = (users.squares(), users.rewards());
        for lane in 0..LANES {
            let square = (squares[lane] - explaining[lane]).max(0.0) / prepared.noise;
            tail[0][lane] = -0.5 * (square + log[lane] + n[lane] * prepared.log_noise);
            tail[1][lane] = square;
        }
    }
}

/// A component as messages see it: `−½ (μμᵀ + C)` packed with off-diagonals doubled, μ, and 1. Its
/// dot product with a message is the expected log likelihood over the posterior of μ.
pub fn probe(component: &Component) -> Vec<f64> {
    let mu = &component.mean;
    let mut probe = Vec::with_capacity(probe_len(mu.len()));
    let mut at = 0;
    for i in 0..mu.len() {
        for j in 0..=i {
            let times = if i == j { -0.5 } else { -1.0 };
            probe.push(times * (mu[i] * mu[j] + component.doubt.packed()[at]));
            at += 1;
        }
    }
    probe.extend_from_slice(mu);
    probe.push(1.0);
    probe
}

/// The expected log likelihood of eight users under one component.
pub fn likelihood(message: &[F64x8], probe: &[f64], out: &mut F64x8) {
    simd::run(Likelihoods { message, probes: &[probe], out: std::slice::from_mut(out) });
}

/// The expected log likelihoods of eight users under several components.
pub fn likelihoods(message: &[F64x8], probes: &[Vec<f64>], out: &mut [F64x8]) {
    simd::run(Likelihoods { message, probes, out });
}

struct Likelihoods<'a, P> {
    message: &'a [F64x8],
    probes: &'a [P],
    out: &'a mut [F64x8],
}

impl<P: AsRef<[f64]>> Kernel for Likelihoods<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut at = 0;
        while at + 4 <= self.probes.len() {
            let message = &self.message[..self.probes[at].as_ref().len()];
            let probe = |k: usize| &self.probes[at + k].as_ref()[..message.len()];
            let (a, b, c, d) = (probe(0), probe(1), probe(2), probe(3));
            let mut sums = [simd.splat(0.0); 4];
            for (k, lane) in message.iter().enumerate() {
                let lane = simd.load(lane);
                sums[0] = simd.mul_add(lane, simd.splat(a[k]), sums[0]);
                sums[1] = simd.mul_add(lane, simd.splat(b[k]), sums[1]);
                sums[2] = simd.mul_add(lane, simd.splat(c[k]), sums[2]);
                sums[3] = simd.mul_add(lane, simd.splat(d[k]), sums[3]);
            }
            for (out, sum) in self.out[at..at + 4].iter_mut().zip(sums) {
                simd.store(sum, out);
            }
            at += 4;
        }
        for (probe, out) in self.probes[at..].iter().zip(&mut self.out[at..]) {
            // Sums that need not wait for each other.
            let probe = probe.as_ref();
            let message = &self.message[..probe.len()];
            let mut sums = [simd.splat(0.0); 4];
            let (messages, probes) = (message.chunks_exact(4), probe.chunks_exact(4));
            for (message, probe) in messages.remainder().iter().zip(probes.remainder()) {
                sums[0] = simd.mul_add(simd.load(message), simd.splat(*probe), sums[0]);
            }
            for (message, probe) in messages.zip(probes) {
                for k in 0..4 {
                    sums[k] = simd.mul_add(simd.load(&message[k]), simd.splat(probe[k]), sums[k]);
                }
            }
            let (low, high) = (simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            simd.store(simd.add(low, high), out);
        }
    }
}

/// `sums += Σ share·message` over eight users.
pub fn accumulate(sums: &mut [f64], share: &F64x8, message: &[F64x8], least: f64) {
    let some = share.iter().filter(|share| **share > least).count();
    if some > 2 {
        return accumulate_all(sums, share, message);
    }
    for lane in (0..LANES).filter(|lane| share[*lane] > least) {
        for (sum, message) in sums.iter_mut().zip(message) {
            *sum += share[lane] * message[lane];
        }
    }
}

fn accumulate_all(sums: &mut [f64], share: &F64x8, message: &[F64x8]) {
    simd::run(AccumulateAll { sums, share, message });
}

struct AccumulateAll<'a> {
    sums: &'a mut [f64],
    share: &'a F64x8,
    message: &'a [F64x8],
}

impl Kernel for AccumulateAll<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let share = simd.load(self.share);
        let mut product = ZERO;
        for (sum, message) in self.sums.iter_mut().zip(self.message) {
            simd.store(simd.mul(share, simd.load(message)), &mut product);
            let p = &product;
            *sum += ((p[0] + p[4]) + (p[1] + p[5])) + ((p[2] + p[6]) + (p[3] + p[7]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::*;
    use crate::linear::{Symmetric, dot};
    use proptest::prelude::*;

    /// ln N(y; Xμ, σ²I + XΔXᵀ) without the constant, by a dense factorisation of size n.
    fn dense(xs: &[Vec<f64>], ys: &[f64], mu: &[f64], variances: &[f64], noise: f64) -> f64 {
        let n = ys.len();
        let mut packed = Vec::new();
        for i in 0..n {
            for j in 0..=i {
                let own = if i == j { noise } else { 0.0 };
                let k = |k: usize| xs[i][k] * variances[k] * xs[j][k];
                packed.push(own + (0..variances.len()).map(k).sum::<f64>());
            }
        }
        let factor = Symmetric::from_packed(n, packed).cholesky().unwrap();
        let rest: Vec<f64> = (0..n).map(|i| ys[i] - dot(&xs[i], mu)).collect();
        let mut solved = rest.clone();
        factor.solve(&mut solved);
        -0.5 * (factor.log_det() + dot(&rest, &solved))
    }

    #[test]
    fn a_coordinate_of_which_less_than_nothing_was_seen_says_nothing() {
        let prepared = MessagePrior::new(&[1.0, 1.0], 0.1);
        let gram = |seen: [f64; LANES]| [F64x8(seen), ZERO, F64x8::splat(4.0)];
        let mut roots = [ZERO; 2];
        // The second user is why the others are looked at one by one.
        prepared.roots(&gram([-5e-19, 1e-12, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]), &mut roots);
        assert!(roots.iter().all(|root| root.iter().all(|root| root.is_finite())), "{roots:?}");
        assert!(roots[0][0] == roots[0][3] && roots[0][1] > roots[0][3]);
    }

    proptest! {
        #[test]
        fn a_message_is_the_likelihood_of_the_rewards(
            n in 1usize..9,
            values in prop::collection::vec(-1.0..1.0f64, 9 * 4),
            mu in prop::collection::vec(-1.0..1.0f64, 4),
            variances in prop::collection::vec(0.001..2.0f64, 4),
            noise in 0.01..2.0f64,
        ) {
            let mut ledger = Ledger::new(3, 1.0);
            let mut xs = Vec::new();
            let mut ys = Vec::new();
            for row in values.chunks_exact(4).take(n) {
                ledger.learn_one(5, &row[..3], row[3]);
                xs.push(vec![row[0], row[1], row[2], 1.0]);
                ys.push(row[3] - ledger.origin());
            }
            let users = ledger.moments(&[0]);
            let mut message = vec![ZERO; message_len(4)];
            write(&users, &MessagePrior::new(&variances, noise), &mut message);
            let component = Component { weight: 1.0, mean: mu.clone(), doubt: Symmetric::zero(4) };
            let mut log = ZERO;
            likelihood(&message, &probe(&component), &mut log);
            let plain = dense(&xs, &ys, &mu, &variances, noise);
            prop_assert!((log[0] - plain).abs() < 1e-6 * (1.0 + plain.abs()), "{} against {plain}", log[0]);
        }
    }
}
