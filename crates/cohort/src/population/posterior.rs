//! The belief about a user: a mixture of Gaussians over (θ, level), one for each probable
//! component, updated by every reward.
//!
//! Components of one class share one covariance. The uncertainty of their centres, which differs a
//! little, is averaged over the user's components. So a belief is at most two covariances, and a
//! mean for each component.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::Contexts;
use crate::linear::{Symmetric, argmax, dot};

/// (θ, level) of a user under one component.
#[derive(Clone, Debug)]
pub struct ComponentPosterior {
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
    pub guesses: Vec<ComponentPosterior>,
}

/// The belief about one user.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The classes it may belong to: at least one, at most two.
    pub classes: Vec<ClassBelief>,
    /// σ_i², how noisy its rewards are.
    pub noise: f64,
}

impl ClassBelief {
    pub(super) fn total(&self) -> f64 {
        self.guesses.iter().map(|guess| guess.share).sum()
    }
}

impl Belief {
    /// The belief about a user whose component is certain.
    pub fn certain(component: usize, mean: Vec<f64>, covariance: Symmetric, noise: f64) -> Self {
        let guesses = vec![ComponentPosterior { component, share: 1.0, mean }];
        Self { classes: vec![ClassBelief { covariance, guesses }], noise }
    }

    /// Every component that the user may belong to.
    pub fn guesses(&self) -> impl Iterator<Item = &ComponentPosterior> {
        self.classes.iter().flat_map(|class| &class.guesses)
    }

    /// The only component and its covariance, where there is one only.
    pub fn only(&self) -> Option<(&ComponentPosterior, &Symmetric)> {
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

    /// How often each arm is the best over many draws of θ.
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
    fn guess_at(&self, place: f64) -> (usize, &ComponentPosterior) {
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

    /// E ⟨x, θ⟩ + level, for (x, 1).
    pub fn predict_reward(&self, x: &[f64]) -> f64 {
        self.guesses().map(|guess| guess.share * dot(x, &guess.mean)).sum()
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
    pub fn likeliest(&self) -> &ComponentPosterior {
        let first = &self.classes[0].guesses[0];
        self.guesses().fold(first, |best, one| if one.share > best.share { one } else { best })
    }

    /// One reward, counted from the origin, for (x, 1): every component's posterior learns it, and
    /// responsibilities follow from how well each predicted it.
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
