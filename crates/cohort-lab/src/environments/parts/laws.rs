//! How contexts and noise are drawn, and the options that say so.

use cohort::linear::dot;
use cohort::params::{NOT_NEGATIVE, Param, Settings};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::linear::Rounds;
use crate::Error;
use crate::environment::Size;
use crate::seed::{Purpose, Seed};

/// The options of every environment whose contexts and noise are drawn.
pub const LAW_OPTIONS: &[Param] = &[
    Param::count("users", 1, 100, "N, how many users there are"),
    Param::count("dim", 1, 15, "d, the dimension of contexts"),
    Param::count("arms", 1, 25, "K, how many arms are on offer in a round"),
    Param::real("noise", NOT_NEGATIVE, 0.1, "σ, standard deviation of the noise on rewards"),
    Param::choice(
        "context_law",
        &["box", "unit-ball"],
        "contexts are uniform in [−1/√d, 1/√d]^d or in the unit ball",
    ),
    Param::choice(
        "noise_law",
        &["gaussian", "uniform"],
        "form of the noise; either has the standard deviation `noise`",
    ),
];

/// The option of every environment whose users scatter.
pub const SPREAD: &[Param] =
    &[Param::real("spread", NOT_NEGATIVE, 0.01, "variance of each coordinate of users' vectors")];

/// Refuses so many vectors that no machine holds them.
pub fn check_fits(name: &str, vectors: usize, dim: usize) -> Result<(), Error> {
    const MOST_NUMBERS: usize = 1 << 32;
    if vectors.checked_mul(dim).is_some_and(|numbers| numbers <= MOST_NUMBERS) {
        return Ok(());
    }
    let expected = format!("{name} × dim of at most {MOST_NUMBERS}");
    Err(Error::unexpected(name, format!("{vectors} with dim = {dim}"), expected))
}

/// Contexts and noise by their laws.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// σ.
    pub noise: f64,
    arms: usize,
    contexts: ContextLaw,
    noise_law: NoiseLaw,
}

#[derive(Clone, Copy, Debug)]
enum ContextLaw {
    Box,
    UnitBall,
}

#[derive(Clone, Copy, Debug)]
enum NoiseLaw {
    Gaussian,
    Uniform,
}

impl Laws {
    /// From [`LAW_OPTIONS`].
    pub fn from_settings(settings: &Settings) -> Result<Self, Error> {
        for rows in ["users", "arms"] {
            check_fits(rows, settings.count(rows), settings.count("dim"))?;
        }
        Ok(Self {
            users: settings.count("users"),
            dim: settings.count("dim"),
            arms: settings.count("arms"),
            noise: settings.real("noise"),
            contexts: match settings.choice("context_law") {
                "box" => ContextLaw::Box,
                _ => ContextLaw::UnitBall,
            },
            noise_law: match settings.choice("noise_law") {
                "gaussian" => NoiseLaw::Gaussian,
                _ => NoiseLaw::Uniform,
            },
        })
    }

    /// The size of a world under these laws: rounds without end.
    pub fn size(&self) -> Size {
        Size { users: self.users, dim: self.dim, arms: self.arms, rounds: None }
    }

    /// The rounds of one repetition.
    pub fn rounds(&self, seed: Seed) -> Drawn {
        Drawn { laws: *self, seed }
    }
}

/// Rounds whose contexts and noise are drawn.
pub struct Drawn {
    laws: Laws,
    seed: Seed,
}

impl Rounds for Drawn {
    fn draw(&self, round: usize, contexts: &mut Vec<f64>, noise: &mut [f64]) {
        let rng = &mut self.seed.stream(Purpose::Contexts, round);
        contexts.clear();
        for _ in 0..self.laws.arms {
            contexts.extend(self.laws.contexts.draw(self.laws.dim, rng));
        }
        let rng = &mut self.seed.stream(Purpose::Noise, round);
        for noise in noise {
            *noise = self.laws.noise * self.laws.noise_law.draw(rng);
        }
    }
}

impl ContextLaw {
    fn draw(self, dim: usize, rng: &mut impl Rng) -> Vec<f64> {
        match self {
            ContextLaw::Box => {
                let edge = 1.0 / (dim as f64).sqrt();
                (0..dim).map(|_| rng.random_range(-edge..=edge)).collect()
            }
            ContextLaw::UnitBall => {
                // Uniform in the ball: the share of it within r is r^d.
                let radius = rng.random::<f64>().powf(1.0 / dim as f64);
                on_unit_sphere(dim, rng).into_iter().map(|value| value * radius).collect()
            }
        }
    }
}

impl NoiseLaw {
    /// Mean 0, variance 1.
    fn draw(self, rng: &mut impl Rng) -> f64 {
        match self {
            NoiseLaw::Gaussian => rng.sample(StandardNormal),
            NoiseLaw::Uniform => 3f64.sqrt() * rng.random_range(-1.0..=1.0),
        }
    }
}

/// A standard normal vector.
pub fn normal(dim: usize, rng: &mut impl Rng) -> Vec<f64> {
    (0..dim).map(|_| rng.sample(StandardNormal)).collect()
}

/// A vector uniform on the unit sphere.
pub fn on_unit_sphere(dim: usize, rng: &mut impl Rng) -> Vec<f64> {
    loop {
        let mut direction = normal(dim, rng);
        let length = dot(&direction, &direction).sqrt();
        if length > 0.0 {
            direction.iter_mut().for_each(|value| *value /= length);
            return direction;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(law: ContextLaw, count: usize) -> Vec<Vec<f64>> {
        let mut rng = Seed { seed: 1, repetition: 0 }.stream(Purpose::Contexts, 0);
        (0..count).map(|_| law.draw(4, &mut rng)).collect()
    }

    #[test]
    fn contexts_of_the_box_fill_it() {
        let all: Vec<f64> = draws(ContextLaw::Box, 5_000).concat();
        assert!(all.iter().all(|value| value.abs() <= 0.5));
        let variance = all.iter().map(|value| value * value).sum::<f64>() / all.len() as f64;
        // Unif[−1/√d, 1/√d] has variance 1/(3d): this is the ρ_min that policies assume.
        assert!((variance * 12.0 - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn contexts_of_the_unit_ball_fill_it() {
        let all = draws(ContextLaw::UnitBall, 5_000);
        let lengths: Vec<f64> = all.iter().map(|x| dot(x, x).sqrt()).collect();
        assert!(lengths.iter().all(|length| *length <= 1.0));
        // A ball of half the radius has 1/2⁴ of the volume.
        let inner = lengths.iter().filter(|length| **length < 0.5).count() as f64 / 5_000.0;
        assert!((inner - 0.0625).abs() < 0.012, "{inner}");
    }

    #[test]
    fn both_laws_of_noise_have_the_scale_that_was_asked_for() {
        for law in [NoiseLaw::Gaussian, NoiseLaw::Uniform] {
            let mut rng = Seed { seed: 1, repetition: 0 }.stream(Purpose::Noise, 0);
            let draws: Vec<f64> = (0..20_000).map(|_| law.draw(&mut rng)).collect();
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|noise| noise * noise).sum::<f64>() / 20_000.0;
            assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{law:?}");
        }
    }
}
