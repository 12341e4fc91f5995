//! Variances by Fisher scoring on the evidence: unlike EM it gets to a spread of zero, and unlike
//! Newton's method it needs no second derivatives of the data.
//!
//! Contexts were chosen by what was learned before, so that the curvature that is expected is not
//! the one that is met, and full steps can overshoot for ever. Steps down are therefore taken in
//! the logarithm and steps up are bounded.

use super::evidence::Slopes;

/// The three variances of a population.
#[derive(Clone, Copy, Debug)]
pub struct Variances {
    /// σ².
    pub noise: f64,
    /// τ² of the population at large.
    pub population: f64,
    /// τ² of cohorts.
    pub cohorts: f64,
}

impl Variances {
    /// One step of scoring, all three together. `noise_scale` and `spread_scale` are the sizes
    /// that the rewards suggest; `told` keeps the noise as it is.
    pub fn scored(
        &self,
        population: &Slopes,
        cohorts: &Slopes,
        noise_scale: f64,
        spread_scale: f64,
        told: bool,
    ) -> Self {
        let noise = self.noise;
        // One imagined reward of that size, half of it noise.
        let slope =
            population.noise[0] + cohorts.noise[0] + 0.5 * (noise_scale / noise - 1.0) / noise;
        let curve = population.noise[1] + cohorts.noise[1] + 0.5 / (noise * noise);
        let mut spreads = [
            Spread::new(self.population, keep_from_zero(self.population, population.spread)),
            Spread::new(self.cohorts, cohorts.spread),
        ];
        let mut noise_step = 0.0;
        // A spread that reaches zero stays there and the others are solved again without it.
        for _ in 0..3 {
            if !told {
                let (mut left, mut right) = (curve, slope);
                for spread in &spreads {
                    spread.eliminate(&mut left, &mut right);
                }
                noise_step = if left > 1e-12 * curve { right / left } else { 0.0 };
            }
            let mut met_zero = false;
            for spread in &mut spreads {
                met_zero |= spread.follow(noise_step);
            }
            if !met_zero {
                break;
            }
        }
        let [population, cohorts] = spreads;
        Self {
            noise: bounded(noise, noise_step, noise),
            population: bounded(self.population, population.step, spread_scale)
                .max(1e-9 * spread_scale),
            cohorts: bounded(self.cohorts, cohorts.step, self.population),
        }
    }
}

/// One spread in the joint step.
struct Spread {
    now: f64,
    slope: f64,
    curve: f64,
    mixed: f64,
    step: f64,
    fixed: bool,
}

impl Spread {
    fn new(now: f64, [slope, curve, mixed]: [f64; 3]) -> Self {
        Self { now, slope, curve, mixed, step: 0.0, fixed: curve <= 0.0 }
    }

    /// Takes this spread out of the equation of the noise.
    fn eliminate(&self, left: &mut f64, right: &mut f64) {
        if self.fixed {
            *right -= self.mixed * self.step;
        } else {
            *left -= self.mixed * self.mixed / self.curve;
            *right -= self.mixed * self.slope / self.curve;
        }
    }

    /// Its own step given that of the noise; whether it met zero.
    fn follow(&mut self, noise_step: f64) -> bool {
        if self.fixed {
            return false;
        }
        self.step = (self.slope - self.mixed * noise_step) / self.curve;
        if self.now + self.step >= 0.0 {
            return false;
        }
        self.step = bounded(self.now, self.step, 0.0) - self.now;
        self.fixed = true;
        true
    }
}

/// Slope and curvature under a prior that keeps a variance from being zero while little is known
/// of it, p(v) ∝ v: a population of which little was seen is not yet one where all are the same.
pub fn keep_from_zero(variance: f64, [slope, curve, mixed]: [f64; 3]) -> [f64; 3] {
    let variance = variance.max(1e-150);
    [slope + 1.0 / variance, curve + 1.0 / (variance * variance), mixed]
}

/// One step of scoring for a variance by itself.
pub fn step(now: f64, [slope, curve, _]: &[f64; 3], scale: f64) -> f64 {
    bounded(now, slope / curve, scale)
}

/// A step that cannot overshoot: down in the logarithm, up by a factor (or, near zero, by a part
/// of the scale) at most.
fn bounded(now: f64, step: f64, scale: f64) -> f64 {
    if step.is_nan() {
        now
    } else if step < 0.0 {
        if now > 0.0 { now * (step / now).max(-20.0).exp() } else { 0.0 }
    } else {
        (now + step).min(3.0 * now + 0.03 * scale)
    }
}
