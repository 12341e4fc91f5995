//! The distributions of contexts and noise, and their options.

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
        &["box", "unit-ball", "one-sided"],
        "contexts are uniform in [−1/√d, 1/√d]^d, in the unit ball, or in [0, 1/√d]^d",
    ),
    Param::choice(
        "noise_law",
        &["gaussian", "uniform", "student", "binary"],
        "form of the noise, with the standard deviation `noise` (student: three degrees of freedom); \
         binary: rewards are 0 or 1, and 1 with probability ½ + ½⟨x, θ⟩",
    ),
    Param::choice(
        "arms_law",
        &["fixed", "varying"],
        "every round has K arms, or any number of arms from 1 to K",
    ),
    Param::choice(
        "activity",
        &["all", "zipf"],
        "everybody takes part in every round, or user i in a share 1/i of all rounds",
    ),
];

/// The option of every environment whose users scatter.
pub const SPREAD: &[Param] =
    &[Param::real("spread", NOT_NEGATIVE, 0.01, "variance of each coordinate of users' vectors")];

/// Refuses sizes that fit no machine's memory.
pub fn check_fits(name: &str, vectors: usize, dim: usize) -> Result<(), Error> {
    const MOST_NUMBERS: usize = 1 << 32;
    if vectors.checked_mul(dim).is_some_and(|numbers| numbers <= MOST_NUMBERS) {
        return Ok(());
    }
    let expected = format!("{name} × dim of at most {MOST_NUMBERS}");
    Err(Error::unexpected(name, format!("{vectors} with dim = {dim}"), expected))
}

/// The distributions of contexts and noise.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// σ, and σ of users with odd numbers.
    noise: [f64; 2],
    arms: usize,
    contexts: ContextLaw,
    noise_law: NoiseLaw,
    arms_vary: bool,
    zipf: bool,
}

#[derive(Clone, Copy, Debug)]
enum ContextLaw {
    Box,
    UnitBall,
    OneSided,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NoiseLaw {
    Gaussian,
    Uniform,
    Student,
    Binary,
}

impl Laws {
    /// From [`LAW_OPTIONS`].
    pub fn from_settings(settings: &Settings) -> Result<Self, Error> {
        for rows in ["users", "arms"] {
            check_fits(rows, settings.count(rows), settings.count("dim"))?;
        }
        let noise = settings.real("noise");
        Ok(Self {
            users: settings.count("users"),
            dim: settings.count("dim"),
            arms: settings.count("arms"),
            noise: [noise, settings.optional("noise_odd").unwrap_or(noise)],
            contexts: match settings.choice("context_law") {
                "box" => ContextLaw::Box,
                "unit-ball" => ContextLaw::UnitBall,
                _ => ContextLaw::OneSided,
            },
            noise_law: match settings.choice("noise_law") {
                "gaussian" => NoiseLaw::Gaussian,
                "uniform" => NoiseLaw::Uniform,
                "student" => NoiseLaw::Student,
                _ => NoiseLaw::Binary,
            },
            arms_vary: settings.choice("arms_law") == "varying",
            zipf: settings.choice("activity") == "zipf",
        })
    }

    /// The size of a world with these distributions: any number of rounds.
    pub fn size(&self) -> Size {
        Size { users: self.users, dim: self.dim, arms: self.arms, rounds: None }
    }

    /// The noise scale that policies are given: at most ½ for rewards of 0 or 1.
    pub fn sigma(&self) -> f64 {
        let [even, odd] = self.noise;
        match self.noise_law {
            NoiseLaw::Binary => 0.5,
            _ if even == odd => even,
            _ => ((even * even + odd * odd) / 2.0).sqrt(),
        }
    }

    /// The noise scale of each of `users` users; empty where all have the same.
    pub fn sigmas(&self, users: usize) -> Vec<f64> {
        let [even, odd] = self.noise;
        if even == odd || self.noise_law == NoiseLaw::Binary {
            return Vec::new();
        }
        (0..users).map(|user| self.noise[user % 2]).collect()
    }

    /// The rounds of one repetition.
    pub fn rounds(&self, seed: Seed) -> DrawnRounds {
        DrawnRounds { laws: *self, seed }
    }
}

/// Rounds whose contexts and noise are drawn.
pub struct DrawnRounds {
    laws: Laws,
    seed: Seed,
}

impl Rounds for DrawnRounds {
    fn draw(&self, round: usize, contexts: &mut Vec<f64>, noise: &mut [f64]) {
        let laws = &self.laws;
        let rng = &mut self.seed.stream(Purpose::Contexts, round);
        let arms = if laws.arms_vary { rng.random_range(1..=laws.arms) } else { laws.arms };
        contexts.clear();
        for _ in 0..arms {
            contexts.extend(laws.contexts.draw(laws.dim, rng));
        }
        let rng = &mut self.seed.stream(Purpose::Noise, round);
        for (user, noise) in noise.iter_mut().enumerate() {
            *noise = laws.noise_law.draw(laws.noise[user % 2], rng);
        }
    }

    fn answer(&self, expected: f64, noise: f64) -> f64 {
        match self.laws.noise_law {
            NoiseLaw::Binary => f64::from(u8::from(noise < 0.5 + 0.5 * expected)),
            _ => expected + noise,
        }
    }

    fn slope(&self) -> f64 {
        if self.laws.noise_law == NoiseLaw::Binary { 0.5 } else { 1.0 }
    }

    fn level(&self) -> f64 {
        if self.laws.noise_law == NoiseLaw::Binary { 0.5 } else { 0.0 }
    }

    fn absences(&self) -> bool {
        self.laws.zipf
    }

    fn absent(&self, round: usize, absent: &mut [bool]) {
        let rng = &mut self.seed.stream(Purpose::Activity, round);
        for (user, absent) in absent.iter_mut().enumerate() {
            *absent = rng.random::<f64>() * (user + 1) as f64 >= 1.0;
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
                // Uniform in the ball: the share within r is r^d.
                let radius = rng.random::<f64>().powf(1.0 / dim as f64);
                on_unit_sphere(dim, rng).into_iter().map(|value| value * radius).collect()
            }
            ContextLaw::OneSided => {
                let edge = 1.0 / (dim as f64).sqrt();
                (0..dim).map(|_| rng.random_range(0.0..=edge)).collect()
            }
        }
    }
}

impl NoiseLaw {
    /// A draw of mean 0 and this standard deviation; for rewards of 0 and 1, the uniform draw that
    /// decides between them.
    fn draw(self, sigma: f64, rng: &mut impl Rng) -> f64 {
        match self {
            NoiseLaw::Gaussian => sigma * rng.sample::<f64, _>(StandardNormal),
            NoiseLaw::Uniform => sigma * (3f64.sqrt() * rng.random_range(-1.0..=1.0)),
            NoiseLaw::Student => {
                // Student's t with ν = 3 has variance ν/(ν − 2) = 3.
                let squares: f64 =
                    (0..3).map(|_| rng.sample::<f64, _>(StandardNormal).powi(2)).sum();
                sigma * rng.sample::<f64, _>(StandardNormal) / squares.sqrt()
            }
            NoiseLaw::Binary => rng.random(),
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
    fn laws_of_noise_have_the_scale_that_was_asked_for() {
        for law in [NoiseLaw::Gaussian, NoiseLaw::Uniform] {
            let mut rng = Seed { seed: 1, repetition: 0 }.stream(Purpose::Noise, 0);
            let draws: Vec<f64> = (0..20_000).map(|_| law.draw(1.0, &mut rng)).collect();
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|noise| noise * noise).sum::<f64>() / 20_000.0;
            assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{law:?}");
        }
    }

    #[test]
    fn student_noise_has_heavy_tails() {
        let mut rng = Seed { seed: 1, repetition: 0 }.stream(Purpose::Noise, 0);
        let draws: Vec<f64> =
            (0..20_000).map(|_| NoiseLaw::Student.draw(1.0, &mut rng).abs()).collect();
        let beyond = |bound: f64| draws.iter().filter(|noise| **noise > bound).count() as f64;
        // Of √3·t₃: half lies within 0.4416 of 0, and 0.6 % beyond 4, where a normal distribution
        // has 0.006 %.
        assert!((beyond(0.4416) / 10_000.0 - 1.0).abs() < 0.03, "{}", beyond(0.4416));
        assert!((60.0..220.0).contains(&beyond(4.0)), "{}", beyond(4.0));
    }

    fn drawn(options: &[(&str, &str)]) -> DrawnRounds {
        let info = crate::environments::info("clustered").unwrap();
        let given = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let settings = info.check(given).unwrap();
        Laws::from_settings(&settings).unwrap().rounds(Seed { seed: 1, repetition: 0 })
    }

    #[test]
    fn the_number_of_arms_may_change_from_round_to_round() {
        let drawn = drawn(&[("arms_law", "varying")]);
        let mut contexts = Vec::new();
        let counts: Vec<usize> = (0..200)
            .map(|round| {
                drawn.draw(round, &mut contexts, &mut []);
                contexts.len() / 15
            })
            .collect();
        assert!(counts.iter().all(|count| (1..=25).contains(count)));
        assert!(counts.contains(&1) && counts.contains(&25), "{counts:?}");
    }

    #[test]
    fn a_few_users_come_often_and_most_rarely() {
        let drawn = drawn(&[("activity", "zipf")]);
        let mut times = [0.0f64; 20];
        for round in 0..2_000 {
            let mut absent = [false; 20];
            drawn.absent(round, &mut absent);
            for (times, absent) in times.iter_mut().zip(absent) {
                *times += if absent { 0.0 } else { 1.0 };
            }
        }
        assert_eq!(times[0], 2_000.0);
        assert!((times[1] / 1_000.0 - 1.0).abs() < 0.1 && (times[9] / 200.0 - 1.0).abs() < 0.25);
    }

    #[test]
    fn rewards_of_0_and_1_have_the_mean_of_their_arm() {
        let drawn = drawn(&[("noise_law", "binary")]);
        let (mut contexts, mut noise) = (Vec::new(), vec![0.0; 20_000]);
        drawn.draw(0, &mut contexts, &mut noise);
        let rewards: Vec<f64> = noise.iter().map(|noise| drawn.answer(0.4, *noise)).collect();
        assert!(rewards.iter().all(|reward| *reward == 0.0 || *reward == 1.0));
        let mean = rewards.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 0.7).abs() < 0.015, "{mean}");
    }
}
