//! What is believed of a user: a mixture of Gaussians, one for each component it may belong to,
//! that moves with every reward.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::lanes::{LANES, Lane, ZERO, add_product, each};
use super::model::{Component, Population};
use super::pass::Lens;
use super::spectrum::Spectrum;
use crate::Contexts;
use crate::linear::symmetric::{Cholesky, packed_len};
use crate::linear::{Symmetric, argmax, dot};

/// θ of a user under one component.
#[derive(Clone, Debug)]
pub struct Guess {
    /// Which component.
    pub component: usize,
    /// How probable it is.
    pub share: f64,
    /// E θ.
    pub mean: Vec<f64>,
    /// Cov θ.
    pub covariance: Symmetric,
}

/// What is believed of one user.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The components it may belong to, most probable first when the belief was formed.
    pub guesses: Vec<Guess>,
}

/// What of the mixture decisions look at: for ablations.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// Whether a user may belong to several components, or is taken to be of the likeliest.
    pub soft: bool,
    /// Whether centres count as uncertain.
    pub doubt: bool,
}

impl Default for Outlook {
    fn default() -> Self {
        Self { soft: true, doubt: true }
    }
}

/// Components less probable than this are left out.
const NEGLIGIBLE: f64 = 1e-3;

/// How beliefs follow from a population.
pub struct Believer<'a> {
    population: &'a Population,
    lens: Lens,
    outlook: Outlook,
}

impl<'a> Believer<'a> {
    /// In a population.
    pub fn new(population: &'a Population, outlook: Outlook) -> Self {
        Self { population, lens: Lens::new(population), outlook }
    }

    /// What is believed of the users of a block, from all that was seen of them.
    pub fn believe(&self, users: &Spectrum) -> [Belief; LANES] {
        let d = users.dim();
        let components = &self.population.components;
        let mut shares = vec![ZERO; components.len()];
        self.lens.look(users, &mut self.lens.room(d), &mut shares);
        let likely: [Vec<(usize, f64)>; LANES] = std::array::from_fn(|lane| {
            likely(shares.iter().map(|share| share[lane]), self.outlook.soft)
        });
        let mut beliefs: [Belief; LANES] = std::array::from_fn(|_| Belief { guesses: Vec::new() });
        let most = likely.iter().map(Vec::len).max().unwrap_or(0);
        let mut posterior = Posterior::new(d);
        for at in 0..most {
            let chosen: [usize; LANES] =
                std::array::from_fn(|lane| likely[lane].get(at).unwrap_or(&likely[lane][0]).0);
            posterior.write(users, components, &chosen, self.population.noise, self.outlook.doubt);
            for lane in 0..LANES {
                let Some((component, share)) = likely[lane].get(at).copied() else { continue };
                let (mean, covariance) = posterior.of(lane);
                beliefs[lane].guesses.push(Guess { component, share, mean, covariance });
            }
        }
        beliefs
    }
}

/// The components that a user may belong to, most probable first; of a user that is not taken
/// softly only the likeliest.
pub(super) fn likely(shares: impl Iterator<Item = f64>, soft: bool) -> Vec<(usize, f64)> {
    let mut likely: Vec<(usize, f64)> = shares.enumerate().collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    likely.retain(|(_, share)| *share > NEGLIGIBLE);
    if !soft {
        likely.truncate(1);
    }
    // Where numbers beyond all bounds have left nothing likely, it is one of the many.
    if likely.is_empty() {
        return vec![(0, 1.0)];
    }
    let kept: f64 = likely.iter().map(|(_, share)| share).sum();
    likely.iter().map(|(c, share)| (*c, share / kept)).collect()
}

impl Guess {
    /// A θ drawn from it, with the factor of its covariance; one that rounding has made singular
    /// has none, and draws its mean.
    fn draw(&self, factor: Option<&Cholesky>, scale: f64, normal: impl FnMut() -> f64) -> Vec<f64> {
        let mut theta = self.mean.clone();
        let z: Vec<f64> = std::iter::repeat_with(normal).take(theta.len()).collect();
        if let Some(factor) = factor {
            for (theta, noise) in theta.iter_mut().zip(factor.times(&z)) {
                *theta += scale * noise;
            }
        }
        theta
    }
}

impl Belief {
    /// Of a user whose component is beyond doubt.
    pub fn certain(component: usize, mean: Vec<f64>, covariance: Symmetric) -> Self {
        Self { guesses: vec![Guess { component, share: 1.0, mean, covariance }] }
    }

    /// A θ drawn from the mixture, its deviations multiplied by `scale`. `which` ∈ [0, 1) draws
    /// the component.
    pub fn draw(&self, scale: f64, which: f64, normal: impl FnMut() -> f64) -> Vec<f64> {
        let guess = self.guess_at(which);
        guess.draw(guess.covariance.cholesky().as_ref(), scale, normal)
    }

    /// Which arms are the best for many draws of θ, each in how many.
    pub fn draw_many(
        &self,
        contexts: &Contexts,
        scale: f64,
        draws: usize,
        rng: &mut impl Rng,
    ) -> Vec<usize> {
        let factors: Vec<_> = self.guesses.iter().map(|one| one.covariance.cholesky()).collect();
        let mut best = vec![0; contexts.arms()];
        for _ in 0..draws {
            let guess = self.guess_at(rng.random());
            let which = self.guesses.iter().position(|one| std::ptr::eq(one, guess)).unwrap_or(0);
            let normal = || StandardNormal.sample(&mut *rng);
            let theta = guess.draw(factors[which].as_ref(), scale, normal);
            best[argmax(contexts.iter().map(|x| dot(x, &theta)))] += 1;
        }
        best
    }

    /// The guess at a place in [0, 1), where each takes up as much as it is probable.
    fn guess_at(&self, place: f64) -> &Guess {
        let mut rest = place;
        let found = self.guesses.iter().find(|guess| {
            rest -= guess.share;
            rest < 0.0
        });
        found.unwrap_or(&self.guesses[0])
    }

    /// Mean and standard deviation of ⟨x, θ⟩ over everything that is uncertain: θ given the
    /// component, and the component.
    pub fn predict(&self, x: &[f64]) -> (f64, f64) {
        let (mut mean, mut square) = (0.0, 0.0);
        for guess in &self.guesses {
            let m = dot(x, &guess.mean);
            mean += guess.share * m;
            square += guess.share * (m * m + guess.covariance.quadratic(x));
        }
        (mean, (square - mean * mean).max(0.0).sqrt())
    }

    /// Whether all its numbers are finite: those of no population that was fitted are not.
    pub fn is_finite(&self) -> bool {
        self.guesses.iter().all(|guess| {
            let numbers = guess.mean.iter().chain(guess.covariance.packed());
            guess.share.is_finite() && numbers.into_iter().all(|number| number.is_finite())
        })
    }

    /// The most probable guess.
    pub fn likeliest(&self) -> &Guess {
        let first = &self.guesses[0];
        self.guesses.iter().fold(first, |best, one| if one.share > best.share { one } else { best })
    }

    /// One reward: every guess learns it, and is the likelier the better it foresaw it.
    pub fn learn(&mut self, x: &[f64], y: f64, noise: f64) {
        let mut gain = vec![0.0; x.len()];
        let mut most = f64::NEG_INFINITY;
        for guess in &mut self.guesses {
            guess.covariance.times(x, &mut gain);
            let variance = noise + dot(x, &gain).max(0.0);
            let surprise = y - dot(x, &guess.mean);
            guess.share = guess.share.max(1e-300).ln()
                - 0.5 * (variance.ln() + surprise * surprise / variance);
            most = most.max(guess.share);
            for (mean, gain) in guess.mean.iter_mut().zip(&gain) {
                *mean += gain * surprise / variance;
            }
            guess.covariance.add_outer(-1.0 / variance, &gain);
        }
        let mut total = 0.0;
        for guess in &mut self.guesses {
            guess.share = (guess.share - most).exp();
            total += guess.share;
        }
        for guess in &mut self.guesses {
            guess.share /= total;
        }
    }
}

/// θ of eight users, each given its component and its own rewards: with S = τ²σ²/(σ² + τ²λ) and
/// A = σ²/(σ² + τ²λ) along its eigenvectors, the mean is A μ + Sc/σ² and the covariance
/// S + A C Aᵀ, where C is what is not known of the centre.
struct Posterior {
    dim: usize,
    centre: Vec<Lane>,
    doubt: Vec<Lane>,
    spread: Lane,
    /// A packed, then C A in full.
    scratch: Vec<Lane>,
    /// The mean, then the covariance packed.
    out: Vec<Lane>,
}

impl Posterior {
    fn new(dim: usize) -> Self {
        Self {
            dim,
            centre: vec![ZERO; dim],
            doubt: vec![ZERO; packed_len(dim)],
            spread: ZERO,
            scratch: vec![ZERO; packed_len(dim) + dim * dim],
            out: vec![ZERO; dim + packed_len(dim)],
        }
    }

    fn write(
        &mut self,
        users: &Spectrum,
        components: &[Component],
        chosen: &[usize; LANES],
        noise: f64,
        doubt: bool,
    ) {
        for lane in 0..LANES {
            let component = &components[chosen[lane]];
            self.spread[lane] = component.spread;
            for (lanes, value) in self.centre.iter_mut().zip(&component.centre) {
                lanes[lane] = *value;
            }
            for (lanes, value) in self.doubt.iter_mut().zip(component.doubt.packed()) {
                lanes[lane] = if doubt { *value } else { 0.0 };
            }
        }
        given(users, noise, self);
    }

    fn of(&self, lane: usize) -> (Vec<f64>, Symmetric) {
        let mut numbers = self.out.iter().map(|lanes| lanes[lane]);
        let mean = numbers.by_ref().take(self.dim).collect();
        (mean, Symmetric::from_packed(self.dim, numbers.collect()))
    }
}

widest! {
    fn given(users: &Spectrum, noise: f64, posterior: &mut Posterior) = given_kernel
}

#[inline(always)]
fn given_kernel(users: &Spectrum, noise: f64, posterior: &mut Posterior) {
    let d = users.dim();
    let (values, vectors, along) = (users.values(), users.vectors(), users.along());
    let Posterior { centre, doubt, spread, scratch, out, .. } = posterior;
    let (shrink, product) = scratch.split_at_mut(packed_len(d));
    let (mean, covariance) = out.split_at_mut(d);
    shrink.fill(ZERO);
    mean.fill(ZERO);
    for j in 0..d {
        let q = &vectors[j * d..(j + 1) * d];
        let per = each(|lane| 1.0 / (noise + spread[lane] * values[j][lane]));
        let mut projection = ZERO;
        for k in 0..d {
            add_product(&mut projection, &q[k], &centre[k]);
        }
        let a = each(|lane| noise * per[lane]);
        let toward =
            each(|lane| a[lane] * projection[lane] + spread[lane] * along[j][lane] * per[lane]);
        let mut at = 0;
        for i in 0..d {
            add_product(&mut mean[i], &toward, &q[i]);
            let scaled = each(|lane| a[lane] * q[i][lane]);
            for k in 0..=i {
                add_product(&mut shrink[at], &scaled, &q[k]);
                at += 1;
            }
        }
    }
    // S = τ²A, then + A (C A).
    for (covariance, shrink) in covariance.iter_mut().zip(shrink.iter()) {
        *covariance = each(|lane| spread[lane] * shrink[lane]);
    }
    let place = |i: usize, k: usize| if i < k { packed_len(k) + i } else { packed_len(i) + k };
    for i in 0..d {
        for k in 0..d {
            let mut sum = ZERO;
            for m in 0..d {
                add_product(&mut sum, &doubt[place(i, m)], &shrink[place(m, k)]);
            }
            product[i * d + k] = sum;
        }
    }
    for i in 0..d {
        for k in 0..=i {
            let mut sum = covariance[packed_len(i) + k];
            for m in 0..d {
                add_product(&mut sum, &shrink[place(i, m)], &product[m * d + k]);
            }
            covariance[packed_len(i) + k] = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::*;

    #[test]
    fn a_belief_is_the_posterior_of_the_hierarchical_model() {
        let d = 2;
        let mut ledger = Ledger::new(3, d, None);
        let seen = [([0.6, -0.2], 0.9), ([0.1, 0.7], -0.3), ([0.5, 0.5], 0.4)];
        for (x, y) in &seen {
            ledger.learn_one(1, x, *y);
        }
        let mut doubt = Symmetric::identity(d, 0.05);
        doubt.add_outer(0.02, &[1.0, 0.5]);
        let component = Component { weight: 1.0, centre: vec![0.3, -0.1], doubt, spread: 0.2 };
        let (noise, spread) = (0.04, component.spread);
        let population = Population {
            components: vec![component.clone()],
            noise,
            level: 0.0,
            reach: 1.0,
            evidence: 0.0,
        };
        let users = Spectrum::new(ledger.block(0), 0.0);
        let [nobody, user, ..] = Believer::new(&population, Outlook::default()).believe(&users);

        // S = (V/σ² + I/τ²)⁻¹, mean = S(b/σ² + μ/τ²), covariance = S + (S/τ²) C (S/τ²)
        let statistics = ledger.statistics(1);
        let mut precision = Symmetric::identity(d, 1.0 / spread);
        precision.add(1.0 / noise, &statistics.gram);
        let s = precision.cholesky().unwrap().inverse();
        let pull: Vec<f64> =
            (0..d).map(|k| statistics.moment[k] / noise + component.centre[k] / spread).collect();
        let mut mean = vec![0.0; d];
        s.times(&pull, &mut mean);
        let (guess, x) = (&user.guesses[0], [0.7, 0.4]);
        for k in 0..d {
            assert!((guess.mean[k] - mean[k]).abs() < 1e-12);
        }
        let mut shrunk = vec![0.0; d];
        s.times(&x, &mut shrunk);
        shrunk.iter_mut().for_each(|v| *v /= spread);
        let variance = s.quadratic(&x) + component.doubt.quadratic(&shrunk);
        assert!((user.predict(&x).1.powi(2) - variance).abs() < 1e-12);

        // Who has seen nothing is as its component is.
        assert_eq!(nobody.guesses[0].mean, component.centre);
        let variance = spread * dot(&x, &x) + component.doubt.quadratic(&x);
        assert!((nobody.predict(&x).1.powi(2) - variance).abs() < 1e-12);
    }

    #[test]
    fn the_guess_that_foresees_rewards_becomes_the_likelier() {
        let guess = |component: usize, mean: f64| Guess {
            component,
            share: 0.5,
            mean: vec![mean],
            covariance: Symmetric::identity(1, 0.01),
        };
        let mut belief = Belief { guesses: vec![guess(0, 1.0), guess(1, -1.0)] };
        let (mean, deviation) = belief.predict(&[1.0]);
        assert!(mean.abs() < 1e-12 && deviation > 1.0, "undecided between the two");
        for _ in 0..3 {
            belief.learn(&[1.0], -0.9, 0.25);
        }
        assert_eq!(belief.likeliest().component, 1);
        assert!(belief.guesses[1].share > 0.99);
    }
}
