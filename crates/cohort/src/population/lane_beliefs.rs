//! Beliefs about eight users at once: a [`Belief`] in every lane.
//!
//! ```text
//! E θ = m = Σ_g s_g m_g,   Cov θ = Σ_g s_g C_g + Σ_g s_g (m_g − m)(m_g − m)ᵀ
//! ```
//!
//! Mean and standard deviation of ⟨x, θ⟩ over a mixture are those of one Gaussian with these moments. So a user that may
//! belong to several components chooses as one that belongs to one does, by a kernel for many arms and users.

use super::lanes::{F64x8, LANES, ZERO, each};
use super::posterior::{Belief, ClassBelief, ComponentPosterior};
use crate::algebra::lanes::times_in;
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::simd::{self, Kernel, Simd, with_scratch};

/// Shares below this count as this while they are logarithms.
const LEAST_SHARE: f64 = 1e-300;
/// The logarithm of a share that is none.
const NONE: f64 = -1e300;

/// The beliefs about eight users.
#[derive(Clone, Debug)]
pub(crate) struct LaneBeliefs {
    dim: usize,
    classes: Vec<LaneClass>,
    /// σ_i².
    noise: F64x8,
}

/// The components of one class, as in [`ClassBelief`]. Lanes without any have responsibilities of zero.
#[derive(Clone, Debug)]
struct LaneClass {
    /// Packed.
    covariance: Vec<F64x8>,
    guesses: Vec<LaneGuess>,
}

/// One [`ComponentPosterior`] for each lane; where there is none its share is zero.
#[derive(Clone, Debug)]
struct LaneGuess {
    components: [usize; LANES],
    share: F64x8,
    mean: Vec<F64x8>,
}

impl LaneBeliefs {
    /// Without any component yet.
    pub fn new(dim: usize, noise: F64x8) -> Self {
        Self { dim, classes: Vec::new(), noise }
    }

    /// Adds a class of components: a covariance for every lane …
    pub fn add_class(&mut self, covariance: Vec<F64x8>) {
        debug_assert_eq!(covariance.len(), packed_len(self.dim));
        self.classes.push(LaneClass { covariance, guesses: Vec::new() });
    }

    /// … and one of its components for every lane, in so much of it.
    pub fn add_guess(&mut self, components: [usize; LANES], share: F64x8, mean: Vec<F64x8>) {
        debug_assert_eq!(mean.len(), self.dim);
        let class = self.classes.last_mut().expect("a class comes before its guesses");
        class.guesses.push(LaneGuess { components, share, mean });
    }

    /// The same beliefs, side by side.
    pub fn from_beliefs(dim: usize, beliefs: &[Belief; LANES]) -> Self {
        let mut lanes = Self::new(dim, each(|lane| beliefs[lane].noise));
        for at_large in [true, false] {
            let class = |lane: usize| {
                let of = |one: &&ClassBelief| (one.guesses[0].component == 0) == at_large;
                beliefs[lane].classes.iter().find(of)
            };
            if (0..LANES).all(|lane| class(lane).is_none()) {
                continue;
            }
            let packed = |entry: usize| {
                each(|lane| class(lane).map_or(0.0, |class| class.covariance.packed()[entry]))
            };
            lanes.add_class((0..packed_len(dim)).map(packed).collect());
            let count = |lane| class(lane).map_or(0, |class| class.guesses.len());
            for g in 0..(0..LANES).map(count).max().unwrap_or(0) {
                let guess = |lane: usize| class(lane).and_then(|class| class.guesses.get(g));
                let components =
                    std::array::from_fn(|lane| guess(lane).map_or(0, |guess| guess.component));
                let share = each(|lane| guess(lane).map_or(0.0, |guess| guess.share));
                let mean = |j: usize| each(|lane| guess(lane).map_or(0.0, |guess| guess.mean[j]));
                lanes.add_guess(components, share, (0..dim).map(mean).collect());
            }
        }
        lanes
    }

    /// The belief about one of them.
    pub fn belief(&self, lane: usize) -> Belief {
        let guess = |of: &LaneGuess| ComponentPosterior {
            component: of.components[lane],
            share: of.share[lane],
            mean: of.mean.iter().map(|mean| mean[lane]).collect(),
        };
        let class = |of: &LaneClass| {
            let here = of.guesses.iter().filter(|guess| guess.share[lane] > 0.0);
            let guesses: Vec<ComponentPosterior> = here.map(guess).collect();
            let packed = || of.covariance.iter().map(|value| value[lane]).collect();
            (!guesses.is_empty()).then(|| ClassBelief {
                covariance: Symmetric::from_packed(self.dim, packed()),
                guesses,
            })
        };
        let mut classes: Vec<ClassBelief> = self.classes.iter().filter_map(class).collect();
        classes.sort_by(|a, b| b.total().total_cmp(&a.total()));
        Belief { classes, noise: self.noise[lane] }
    }

    /// σ_i².
    pub fn noise(&self) -> &F64x8 {
        &self.noise
    }

    /// The most probable component of one of them.
    pub fn likeliest(&self, lane: usize) -> usize {
        let all = self.classes.iter().flat_map(|class| &class.guesses);
        let best = all.fold((0.0, 0), |best, guess| {
            if guess.share[lane] > best.0 {
                (guess.share[lane], guess.components[lane])
            } else {
                best
            }
        });
        best.1
    }

    /// E ⟨x, θ⟩ + level, for (x, 1).
    pub fn predict_reward(&self, x: &[F64x8]) -> F64x8 {
        simd::run(Predict { beliefs: self, x })
    }

    /// Discounts what was learned by `keep`, in the lanes whose count is not zero.
    pub fn doubt(&mut self, keep: f64, count: &F64x8) {
        if keep == 1.0 {
            return;
        }
        let times: F64x8 = each(|lane| if count[lane] > 0.0 { 1.0 / keep } else { 1.0 });
        for value in self.classes.iter_mut().flat_map(|class| &mut class.covariance) {
            *value = each(|lane| value[lane] * times[lane]);
        }
    }

    /// One reward, counted from the origin, for (x, 1), as [`Belief::learn`]; a lane whose count is zero must have x and y of
    /// zero, and stays as it is.
    pub fn learn(&mut self, x: &[F64x8], y: &F64x8, count: &F64x8) {
        let guesses: usize = self.classes.iter().map(|class| class.guesses.len()).sum();
        with_scratch(self.dim + guesses, |scratch| {
            let (gain, logs) = scratch.split_at_mut(self.dim);
            simd::run(LearnLanes { beliefs: self, x, y, count, gain, logs });
        });
    }

    /// E (θ, level) and Cov (θ, level), packed, over everything that is uncertain.
    pub fn moments(&self, mean: &mut [F64x8], covariance: &mut [F64x8]) {
        let guesses: usize = self.classes.iter().map(|class| class.guesses.len()).sum();
        with_scratch(guesses * self.dim, |apart| {
            simd::run(Moments { beliefs: self, mean, covariance, apart });
        });
    }
}

struct Predict<'a> {
    beliefs: &'a LaneBeliefs,
    x: &'a [F64x8],
}

impl Kernel for Predict<'_> {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let mut total = simd.splat(0.0);
        for guess in self.beliefs.classes.iter().flat_map(|class| &class.guesses) {
            let mut sum = simd.splat(0.0);
            for (x, mean) in self.x.iter().zip(&guess.mean) {
                sum = simd.mul_add(simd.load(x), simd.load(mean), sum);
            }
            total = simd.mul_add(simd.load(&guess.share), sum, total);
        }
        let mut out = ZERO;
        simd.store(total, &mut out);
        out
    }
}

struct LearnLanes<'a> {
    beliefs: &'a mut LaneBeliefs,
    x: &'a [F64x8],
    y: &'a F64x8,
    count: &'a F64x8,
    gain: &'a mut [F64x8],
    /// The logarithms of responsibilities.
    logs: &'a mut [F64x8],
}

impl Kernel for LearnLanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { beliefs, x, y, count, gain, logs } = self;
        let (zero, half, y) = (simd.splat(0.0), simd.splat(0.5), simd.load(y));
        let noise = simd.load(&beliefs.noise);
        let mut most = simd.splat(NONE);
        let mut at = 0;
        for class in &mut beliefs.classes {
            times_in(simd, &class.covariance, x, gain);
            let mut step = zero;
            for (x, gain) in x.iter().zip(&*gain) {
                step = simd.mul_add(simd.load(x), simd.load(gain), step);
            }
            let variance = simd.add(noise, simd.larger(step, zero));
            let over = simd.div(simd.splat(1.0), variance);
            let log_variance = simd.ln(variance);
            for guess in &mut class.guesses {
                let mut surprise = y;
                for (x, mean) in x.iter().zip(&guess.mean) {
                    surprise = simd.sub_mul(simd.load(x), simd.load(mean), surprise);
                }
                let by = simd.mul(surprise, over);
                let share = simd.load(&guess.share);
                let log = simd.ln(simd.larger(share, simd.splat(LEAST_SHARE)));
                let cost = simd.mul_add(by, surprise, log_variance);
                let log = simd.sub_mul(half, cost, log);
                let log = simd.where_greater(share, zero, log, simd.splat(NONE));
                most = simd.larger(log, most);
                simd.store(log, &mut logs[at]);
                at += 1;
                for (mean, gain) in guess.mean.iter_mut().zip(&*gain) {
                    simd.store(simd.mul_add(simd.load(gain), by, simd.load(mean)), mean);
                }
            }
            for i in 0..x.len() {
                let own = simd.mul(simd.load(&gain[i]), over);
                let row = &mut class.covariance[packed_len(i)..=packed_len(i) + i];
                for (entry, other) in row.iter_mut().zip(&*gain) {
                    simd.store(simd.sub_mul(own, simd.load(other), simd.load(entry)), entry);
                }
            }
        }
        let mut total = zero;
        for log in &mut *logs {
            let share = simd.exp(simd.sub(simd.load(log), most));
            let share = simd.where_greater(simd.load(log), simd.splat(0.5 * NONE), share, zero);
            total = simd.add(total, share);
            simd.store(share, log);
        }
        let (over, count) = (simd.div(simd.splat(1.0), total), simd.load(count));
        let guesses = beliefs.classes.iter_mut().flat_map(|class| &mut class.guesses);
        for (guess, share) in guesses.zip(&*logs) {
            let learned = simd.mul(simd.load(share), over);
            let share = simd.where_greater(count, zero, learned, simd.load(&guess.share));
            simd.store(share, &mut guess.share);
        }
    }
}

struct Moments<'a> {
    beliefs: &'a LaneBeliefs,
    mean: &'a mut [F64x8],
    covariance: &'a mut [F64x8],
    /// Guesses' means, later less the mean of all.
    apart: &'a mut [F64x8],
}

impl Kernel for Moments<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { beliefs, mean, covariance, apart } = self;
        let (dim, zero) = (beliefs.dim, simd.splat(0.0));
        let guesses = || beliefs.classes.iter().flat_map(|class| &class.guesses);
        for (j, mean) in mean.iter_mut().enumerate() {
            let mut sum = zero;
            for guess in guesses() {
                sum = simd.mul_add(simd.load(&guess.share), simd.load(&guess.mean[j]), sum);
            }
            simd.store(sum, mean);
        }
        // √share·(m_g − m): what the means of guesses differ by is a sum of squares of these.
        for (guess, apart) in guesses().zip(apart.chunks_exact_mut(dim)) {
            let root = simd.root(simd.load(&guess.share));
            for ((apart, own), mean) in apart.iter_mut().zip(&guess.mean).zip(&*mean) {
                let far = simd.sub(simd.load(own), simd.load(mean));
                simd.store(simd.mul(root, far), apart);
            }
        }
        for (at, class) in beliefs.classes.iter().enumerate() {
            let mut share = zero;
            for guess in &class.guesses {
                share = simd.add(share, simd.load(&guess.share));
            }
            for (to, from) in covariance.iter_mut().zip(&class.covariance) {
                let before = if at == 0 { zero } else { simd.load(to) };
                simd.store(simd.mul_add(share, simd.load(from), before), to);
            }
        }
        let mut all = apart.chunks_exact(4 * dim);
        for four in all.by_ref() {
            add_squares::<S, 4>(simd, four, dim, covariance);
        }
        for one in all.remainder().chunks_exact(dim) {
            add_squares::<S, 1>(simd, one, dim, covariance);
        }
    }
}

/// A += Σ v vᵀ over `G` vectors, A packed.
#[inline(always)]
fn add_squares<S: Simd, const G: usize>(simd: S, of: &[F64x8], dim: usize, to: &mut [F64x8]) {
    let mut vectors = [of; G];
    for g in 0..G {
        vectors[g] = &of[g * dim..(g + 1) * dim];
    }
    let mut rest = to;
    for i in 0..dim {
        let (row, below) = rest.split_at_mut(i + 1);
        rest = below;
        let mut own = [simd.splat(0.0); G];
        for g in 0..G {
            own[g] = simd.load(&vectors[g][i]);
        }
        for (j, entry) in row.iter_mut().enumerate() {
            let mut sum = simd.load(entry);
            for g in 0..G {
                sum = simd.mul_add(own[g], simd.load(&vectors[g][j]), sum);
            }
            simd.store(sum, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Eight beliefs of one to three guesses, of one class or two.
    fn beliefs(dim: usize, values: &[f64]) -> [Belief; LANES] {
        let mut at = 0;
        let mut next = || {
            at += 1;
            values[at % values.len()]
        };
        std::array::from_fn(|lane| {
            let mut belief = Belief { classes: Vec::new(), noise: 0.5 + next().abs() };
            for class in 0..=lane % 2 {
                let mut covariance = Symmetric::identity(dim, 0.2 + next().abs());
                let along: Vec<f64> = (0..dim).map(|_| next()).collect();
                covariance.add_outer(0.5, &along);
                // The population at large is a class by itself.
                let guesses =
                    (0..1 + class * ((lane / 2) % 3)).map(|component| ComponentPosterior {
                        component: class + component,
                        share: 0.1 + next().abs(),
                        mean: (0..dim).map(|_| next()).collect(),
                    });
                belief.classes.push(ClassBelief { covariance, guesses: guesses.collect() });
            }
            let total: f64 = belief.guesses().map(|guess| guess.share).sum();
            for guess in belief.classes.iter_mut().flat_map(|class| &mut class.guesses) {
                guess.share /= total;
            }
            belief
        })
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * (1.0 + a.abs())
    }

    proptest! {
        #[test]
        fn eight_users_are_what_they_are_one_by_one(
            dim in 1usize..7,
            values in prop::collection::vec(-1.0..1.0f64, 61..97),
            idle in 0usize..LANES,
        ) {
            let mut plain = beliefs(dim, &values);
            let mut lanes = LaneBeliefs::from_beliefs(dim, &plain);
            for turn in 0..5 {
                let value = |lane: usize, j: usize| {
                    if lane == idle { 0.0 } else { values[(turn * 11 + lane * 5 + j) % values.len()] }
                };
                let x: Vec<F64x8> = (0..dim).map(|j| each(|lane| value(lane, j))).collect();
                let y = each(|lane| value(lane, dim + 3));
                let predicted = lanes.predict_reward(&x);
                for lane in (0..LANES).filter(|lane| *lane != idle) {
                    let x: Vec<f64> = x.iter().map(|x| x[lane]).collect();
                    prop_assert!(near(plain[lane].predict_reward(&x), predicted[lane]));
                    plain[lane].learn(&x, y[lane]);
                }
                lanes.learn(&x, &y, &each(|lane| f64::from(lane != idle)));
            }
            let (mut mean, mut covariance) = (vec![ZERO; dim], vec![ZERO; packed_len(dim)]);
            lanes.moments(&mut mean, &mut covariance);
            for (lane, plain) in plain.iter().enumerate() {
                let found = lanes.belief(lane);
                prop_assert_eq!(found.likeliest().component, plain.likeliest().component);
                prop_assert_eq!(lanes.likeliest(lane), plain.likeliest().component);
                prop_assert_eq!(found.guesses().count(), plain.guesses().count());
                let x: Vec<f64> = (0..dim).map(|j| values[j + lane]).collect();
                let ((a, b), (c, d)) = (found.predict(&x), plain.predict(&x));
                prop_assert!(near(a, c) && near(b, d), "{a} {b} against {c} {d}");
                let packed = covariance.iter().map(|value| value[lane]).collect();
                let all = Symmetric::from_packed(dim, packed);
                let expected: f64 = x.iter().zip(&mean).map(|(x, mean)| x * mean[lane]).sum();
                prop_assert!(near(expected, c) && near(all.quadratic(&x).sqrt(), d));
            }
        }
    }
}
