//! What is believed of a user: a mixture of Gaussians over (θ, level), one for each component it may belong
//! to, that moves with every reward.
//!
//! Components of one class have one covariance in common: what differs between cohorts is where their centres are, and
//! (a little) how well those are known, which is taken as the mean over what the user may belong to. So a belief is two Gaussians'
//! worth of numbers and a mean for each component.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::algebra;
use super::lanes::{LANES, Lane, ZERO, add_product, each};
use super::message::roots;
use super::model::Population;
use super::moments::Moments;
use super::noise;
use super::pass::Lens;
use crate::Contexts;
use crate::linear::symmetric::packed_len;
use crate::linear::{Symmetric, argmax, dot};

/// (θ, level) of a user under one component.
#[derive(Clone, Debug)]
pub struct Guess {
    /// Which component.
    pub component: usize,
    /// How probable it is.
    pub share: f64,
    /// E (θ, level).
    pub mean: Vec<f64>,
}

/// The components of one class that a user may belong to.
#[derive(Clone, Debug)]
pub struct ClassBelief {
    /// Cov (θ, level) under each of them.
    pub covariance: Symmetric,
    /// The components, most probable first when the belief was formed.
    pub guesses: Vec<Guess>,
}

/// What is believed of one user.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The classes it may belong to: at least one, at most two.
    pub classes: Vec<ClassBelief>,
    /// σ_i², how noisy its rewards are.
    pub noise: f64,
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
    lens: Lens<'a>,
    outlook: Outlook,
}

impl<'a> Believer<'a> {
    /// In a population.
    pub fn new(population: &'a Population, outlook: Outlook) -> Self {
        Self { population, lens: Lens::new(population), outlook }
    }

    /// What is believed of eight users, from all that was seen of them.
    pub fn believe(&self, mut users: Moments) -> [Belief; LANES] {
        if let Some(basis) = &self.population.basis {
            users.rotate(basis);
        }
        let weights = noise::weights(&self.lens, &users);
        if let Some(weights) = &weights {
            users.weigh(weights);
        }
        let components = &self.population.components;
        let mut shares = vec![ZERO; components.len()];
        let mut messages = self.lens.room();
        self.lens.write(&users, &mut messages);
        self.lens.shares(&messages, &mut shares);
        let likely: [Vec<(usize, f64)>; LANES] = std::array::from_fn(|lane| {
            likely(shares.iter().map(|share| share[lane]), self.outlook.soft)
        });
        let mut beliefs: [Belief; LANES] = std::array::from_fn(|lane| {
            let weight = weights.map_or(1.0, |weights| weights[lane]);
            Belief { classes: Vec::new(), noise: self.population.noise / weight }
        });
        for class in 0..2 {
            let of_class = |c: usize| c.min(1) == class;
            if likely.iter().flatten().any(|(c, _)| of_class(*c)) {
                self.add_class(&users, class, &likely, &mut beliefs);
            }
        }
        for belief in &mut beliefs {
            belief.classes.sort_by(|a, b| b.total().total_cmp(&a.total()));
        }
        beliefs
    }

    fn add_class(
        &self,
        users: &Moments,
        class: usize,
        likely: &[Vec<(usize, f64)>; LANES],
        beliefs: &mut [Belief; LANES],
    ) {
        let Population { components, noise, variances, basis, .. } = self.population;
        let dim = users.dim();
        let mut posterior = Posterior::new(users, &variances[class], *noise);
        let mut doubt = vec![ZERO; packed_len(dim)];
        if self.outlook.doubt {
            for lane in 0..LANES {
                let own: Vec<_> =
                    likely[lane].iter().filter(|(c, _)| c.min(&1) == &class).collect();
                let total: f64 = own.iter().map(|(_, share)| share).sum();
                for (c, share) in own {
                    let part = share / total;
                    for (to, from) in doubt.iter_mut().zip(components[*c].doubt.packed()) {
                        to[lane] += part * from;
                    }
                }
            }
        }
        let covariance = posterior.covariance(&doubt);
        let most = likely.iter().map(Vec::len).max().unwrap_or(0);
        let mut guesses: [Vec<Guess>; LANES] = std::array::from_fn(|_| Vec::new());
        let mut centre = vec![ZERO; dim];
        for at in 0..most {
            let mut any = false;
            for lane in 0..LANES {
                let Some((c, _)) = likely[lane].get(at).filter(|(c, _)| c.min(&1) == &class) else {
                    continue;
                };
                any = true;
                for (to, from) in centre.iter_mut().zip(&components[*c].mean) {
                    to[lane] = *from;
                }
            }
            if !any {
                continue;
            }
            let mean = posterior.mean(&centre);
            for lane in 0..LANES {
                let Some(&(component, share)) =
                    likely[lane].get(at).filter(|(c, _)| c.min(&1) == &class)
                else {
                    continue;
                };
                let mean: Vec<f64> = mean.iter().map(|m| m[lane]).collect();
                let mean = basis.as_ref().map_or_else(|| mean.clone(), |basis| basis.from(&mean));
                guesses[lane].push(Guess { component, share, mean });
            }
        }
        for (lane, guesses) in guesses.into_iter().enumerate() {
            if guesses.is_empty() {
                continue;
            }
            let packed = covariance.iter().map(|v| v[lane]).collect();
            let mut covariance = Symmetric::from_packed(dim, packed);
            if let Some(basis) = basis {
                covariance = basis.matrix_from(&covariance);
            }
            beliefs[lane].classes.push(ClassBelief { covariance, guesses });
        }
    }
}

/// The components that a user may belong to, most probable first; of a user that is not taken
/// softly only the likeliest.
pub(super) fn likely(shares: impl Iterator<Item = f64>, soft: bool) -> Vec<(usize, f64)> {
    let mut likely: Vec<(usize, f64)> = shares.enumerate().collect();
    likely.retain(|(_, share)| *share > NEGLIGIBLE);
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
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

impl ClassBelief {
    fn total(&self) -> f64 {
        self.guesses.iter().map(|guess| guess.share).sum()
    }
}

impl Belief {
    /// Of a user whose component is beyond doubt.
    pub fn certain(component: usize, mean: Vec<f64>, covariance: Symmetric, noise: f64) -> Self {
        let guesses = vec![Guess { component, share: 1.0, mean }];
        Self { classes: vec![ClassBelief { covariance, guesses }], noise }
    }

    /// Every component that the user may belong to.
    pub fn guesses(&self) -> impl Iterator<Item = &Guess> {
        self.classes.iter().flat_map(|class| &class.guesses)
    }

    /// The only component and its covariance, where there is one only.
    pub fn only(&self) -> Option<(&Guess, &Symmetric)> {
        match self.classes.as_slice() {
            [ClassBelief { covariance, guesses }] if guesses.len() == 1 => {
                Some((&guesses[0], covariance))
            }
            _ => None,
        }
    }

    /// A θ drawn from the mixture, its deviations multiplied by `scale`. `which` ∈ [0, 1) draws
    /// the component. A covariance that rounding has made singular draws its mean.
    pub fn draw(&self, scale: f64, which: f64, normal: impl FnMut() -> f64) -> Vec<f64> {
        let (class, guess) = self.guess_at(which);
        let factor = self.classes[class].covariance.cholesky();
        let z: Vec<f64> = std::iter::repeat_with(normal).take(guess.mean.len()).collect();
        let mut theta = guess.mean.clone();
        if let Some(factor) = factor {
            theta.iter_mut().zip(factor.times(&z)).for_each(|(t, noise)| *t += scale * noise);
        }
        theta
    }

    /// Which arms are the best for many draws of θ, each in how many.
    pub fn draw_many(
        &self,
        contexts: &Contexts,
        scale: f64,
        draws: usize,
        rng: &mut impl Rng,
    ) -> Vec<usize> {
        let factors: Vec<_> = self.classes.iter().map(|one| one.covariance.cholesky()).collect();
        let mut best = vec![0; contexts.arms()];
        for _ in 0..draws {
            let (class, guess) = self.guess_at(rng.random());
            let mut theta = guess.mean.clone();
            let z: Vec<f64> = std::iter::repeat_with(|| StandardNormal.sample(&mut *rng))
                .take(theta.len())
                .collect();
            if let Some(factor) = &factors[class] {
                theta.iter_mut().zip(factor.times(&z)).for_each(|(t, noise)| *t += scale * noise);
            }
            best[argmax(contexts.iter().map(|x| dot(x, &theta[..x.len()])))] += 1;
        }
        best
    }

    /// The guess at a place in [0, 1), where each takes up as much as it is probable.
    fn guess_at(&self, place: f64) -> (usize, &Guess) {
        let mut rest = place;
        for (at, class) in self.classes.iter().enumerate() {
            for guess in &class.guesses {
                rest -= guess.share;
                if rest < 0.0 {
                    return (at, guess);
                }
            }
        }
        (0, &self.classes[0].guesses[0])
    }

    /// Mean and standard deviation of ⟨x, θ⟩ over everything that is uncertain: θ given the
    /// component, and the component. The level is not part of it.
    pub fn predict(&self, x: &[f64]) -> (f64, f64) {
        let (mut mean, mut square) = (0.0, 0.0);
        for class in &self.classes {
            let variance = class.covariance.quadratic(x);
            for guess in &class.guesses {
                let m = dot(x, &guess.mean[..x.len()]);
                mean += guess.share * m;
                square += guess.share * (m * m + variance);
            }
        }
        (mean, (square - mean * mean).max(0.0).sqrt())
    }

    /// E level.
    pub fn level(&self) -> f64 {
        self.guesses().map(|guess| guess.share * guess.mean[guess.mean.len() - 1]).sum()
    }

    /// Whether all its numbers are finite: those of no population that was fitted are not.
    pub fn is_finite(&self) -> bool {
        self.classes.iter().all(|class| {
            class.covariance.packed().iter().all(|number| number.is_finite())
                && class.guesses.iter().all(|guess| {
                    guess.share.is_finite() && guess.mean.iter().all(|number| number.is_finite())
                })
        })
    }

    /// The most probable guess.
    pub fn likeliest(&self) -> &Guess {
        let first = &self.classes[0].guesses[0];
        self.guesses().fold(first, |best, one| if one.share > best.share { one } else { best })
    }

    /// One reward, counted from the origin, for (x, 1): every guess learns it, and is the likelier the better it foresaw it.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        let mut gain = vec![0.0; x.len()];
        let mut most = f64::NEG_INFINITY;
        for class in &mut self.classes {
            class.covariance.times(x, &mut gain);
            let variance = self.noise + dot(x, &gain).max(0.0);
            let log_variance = variance.ln();
            for guess in &mut class.guesses {
                let surprise = y - dot(x, &guess.mean);
                guess.share = guess.share.max(1e-300).ln()
                    - 0.5 * (log_variance + surprise * surprise / variance);
                most = most.max(guess.share);
                let by = surprise / variance;
                for (mean, gain) in guess.mean.iter_mut().zip(&gain) {
                    *mean += gain * by;
                }
            }
            class.covariance.add_outer(-1.0 / variance, &gain);
        }
        let mut total = 0.0;
        for guess in self.classes.iter_mut().flat_map(|class| &mut class.guesses) {
            guess.share = (guess.share - most).exp();
            total += guess.share;
        }
        for guess in self.classes.iter_mut().flat_map(|class| &mut class.guesses) {
            guess.share /= total;
        }
    }
}

/// (θ, level) of eight users given their components and their own rewards. With G = σ²I + Δ½VΔ½ and
/// A = σ²Δ½G⁻¹Δ^−½ the mean is Aμ + Δ½G⁻¹Δ½b and the covariance σ²Δ½G⁻¹Δ½ + A C Aᵀ, where C is what is not known of the
/// centre.
pub(super) struct Posterior {
    dim: usize,
    noise: f64,
    root: Vec<Lane>,
    /// G⁻¹, packed.
    inverse: Vec<Lane>,
    /// Δ½G⁻¹Δ½b.
    own: Vec<Lane>,
}

impl Posterior {
    pub fn new(users: &Moments, variances: &[f64], noise: f64) -> Self {
        let dim = users.dim();
        let mut posterior = Self {
            dim,
            noise,
            root: vec![ZERO; dim],
            inverse: users.gram().to_vec(),
            own: vec![ZERO; dim],
        };
        let gram = users.gram();
        roots(gram, variances, noise, &mut posterior.root);
        for (j, variance) in variances.iter().enumerate() {
            // Where nothing was seen the prior is all there is.
            let seen = gram[packed_len(j) + j];
            for lane in 0..LANES {
                if seen[lane] == 0.0 {
                    posterior.root[j][lane] = variance.max(1e-200).sqrt();
                }
            }
        }
        let root = &posterior.root;
        let mut at = 0;
        for i in 0..dim {
            for j in 0..=i {
                let entry = &mut posterior.inverse[at];
                for lane in 0..LANES {
                    entry[lane] *= root[i][lane] * root[j][lane];
                }
                at += 1;
            }
            for lane in 0..LANES {
                posterior.inverse[at - 1][lane] += noise;
            }
        }
        let mut log_det = ZERO;
        algebra::invert(&mut posterior.inverse, dim, &mut log_det);
        let scaled: Vec<Lane> = (root.iter().zip(users.moment()))
            .map(|(root, b)| each(|lane| root[lane] * b[lane]))
            .collect();
        algebra::times(&posterior.inverse, &scaled, &mut posterior.own);
        for (own, root) in posterior.own.iter_mut().zip(root) {
            *own = each(|lane| own[lane] * root[lane]);
        }
        posterior
    }

    /// The means around these centres.
    pub fn mean(&mut self, centre: &[Lane]) -> Vec<Lane> {
        let scaled: Vec<Lane> = (self.root.iter().zip(centre))
            .map(|(root, m)| each(|lane| self.noise * m[lane] / root[lane]))
            .collect();
        let mut out = vec![ZERO; self.dim];
        algebra::times(&self.inverse, &scaled, &mut out);
        for ((out, root), own) in out.iter_mut().zip(&self.root).zip(&self.own) {
            *out = each(|lane| out[lane] * root[lane] + own[lane]);
        }
        out
    }

    /// The covariances where so much is not known of centres.
    pub fn covariance(&self, doubt: &[Lane]) -> Vec<Lane> {
        let mut out = vec![ZERO; packed_len(self.dim)];
        let mut scratch = vec![ZERO; self.dim * self.dim + packed_len(self.dim)];
        covariance(self, doubt, &mut scratch, &mut out);
        out
    }
}

widest! {
    fn covariance(posterior: &Posterior, doubt: &[Lane], scratch: &mut [Lane], out: &mut [Lane])
        = covariance_kernel
}

#[inline(always)]
fn covariance_kernel(
    posterior: &Posterior,
    doubt: &[Lane],
    scratch: &mut [Lane],
    out: &mut [Lane],
) {
    let Posterior { dim, noise, root, inverse, .. } = posterior;
    let d = *dim;
    let place = |i: usize, k: usize| if i < k { packed_len(k) + i } else { packed_len(i) + k };
    let mut at = 0;
    for i in 0..d {
        for k in 0..=i {
            for lane in 0..LANES {
                out[at][lane] = noise * root[i][lane] * root[k][lane] * inverse[at][lane];
            }
            at += 1;
        }
    }
    if (0..d).all(|i| doubt[packed_len(i) + i] == ZERO) {
        return;
    }
    // A = σ² Δ½G⁻¹Δ^−½: scratch = G⁻¹ (Δ^−½ C Δ^−½), then that times G⁻¹.
    let (product, scaled) = scratch.split_at_mut(d * d);
    let mut at = 0;
    for i in 0..d {
        for k in 0..=i {
            scaled[at] = each(|lane| doubt[at][lane] / (root[i][lane] * root[k][lane]));
            at += 1;
        }
    }
    for i in 0..d {
        for k in 0..d {
            let mut sum = ZERO;
            for m in 0..d {
                add_product(&mut sum, &inverse[place(i, m)], &scaled[place(m, k)]);
            }
            product[i * d + k] = sum;
        }
    }
    for i in 0..d {
        for k in 0..=i {
            let mut sum = ZERO;
            for m in 0..d {
                add_product(&mut sum, &product[i * d + m], &inverse[place(m, k)]);
            }
            let entry = &mut out[packed_len(i) + k];
            for lane in 0..LANES {
                entry[lane] += noise * noise * root[i][lane] * root[k][lane] * sum[lane];
            }
        }
    }
}
