//! `affine`: users and arms as unit vectors with a constant appended, the form in which SCLUB, FCLUB
//! and RCLUMB are compared.
//!
//! ```text
//! θ_i = (u_i, 1)/√2,  x = (v, 1)/√2,  u_i and v unit vectors of R^{d−1}:  ⟨x, θ_i⟩ ∈ [0, 1]
//! reward 1 with probability ⟨x, θ_i⟩ + ε_{i,x}, else 0;  or that plus Gaussian noise
//! ```
//!
//! v is drawn normal and scaled to length 1. Users are drawn likewise, some at the same place
//! (`clusters`), or their θ are read from a file. Arms are new in every round, or drawn from a pool
//! of items (`items`); then a user's reward for an item may deviate from linear by up to
//! `deviation`, by the same amount in every round. Every user has contexts of its own, as where
//! users come one at a time, or all have the same.
//!
//! Reference: Li, Chen, Li, Leung, IJCAI 2019, Section 5 and its public code; Liu et al., UAI 2022;
//! Wang et al., NeurIPS 2023 (deviation).

use std::path::Path;
use std::sync::Arc;

use cohort::linear::dot;
use cohort::params::{Kind, NOT_NEGATIVE, Param, SHARE, Settings};
use cohort::{Arm, Contexts, Truth};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::parts::laws::check_fits;
use crate::environment::{Environment, EnvironmentInfo, Feedback, Size, World};
use crate::seed::{Purpose, Seed};
use crate::{Error, datasets, npy};

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "affine",
    summary: "unit vectors with a constant appended, rewards 0 or 1 (SCLUB's, FCLUB's, RCLUMB's form)",
    params: &[OPTIONS],
    build,
};

const OPTIONS: &[Param] = &[
    Param::derived("users", Kind::Count(1), "100, or those of the file", "N, how many users"),
    Param::derived("dim", Kind::Count(1), "20, or that of the file", "d, the constant counted"),
    Param::count("arms", 1, 20, "K, how many arms are on offer"),
    Param::count("clusters", 1, 10, "how many different users are drawn, dealt out in turn"),
    Param::text(
        "users_file",
        "a file",
        "users are drawn",
        "TH.npy: users' vectors, (N, d) float64, in the folder of data sets or as it is",
    ),
    Param::text("data", "a folder", "COHORT_DATA, or data/", "folder of all data sets"),
    Param::choice(
        "arms_for",
        &["each", "all"],
        "arms for each user by itself, or the same for all in a round",
    ),
    Param::count("items", 0, 0, "arms are of a pool of so many; 0: new ones in every round"),
    Param::real(
        "deviation",
        SHARE,
        0.0,
        "by how much a user's expected reward for an item of the pool may be off linear, uniform",
    ),
    Param::choice("reward", &["binary", "gaussian"], "0 or 1, or its expectation plus noise"),
    Param::real("noise", NOT_NEGATIVE, 0.1, "σ of the noise where rewards are gaussian"),
    Param::choice(
        "activity",
        &["all", "zipf"],
        "everybody takes part in every round, or user i in a share 1/i of all rounds",
    ),
];

/// σ that policies are given where rewards are 0 or 1: they are ½-sub-Gaussian.
const BINARY_SIGMA: f64 = 0.5;

struct Affine {
    laws: AffineLaws,
    /// θ_i from a file, row by row.
    given: Option<Arc<Vec<f64>>>,
    clusters: usize,
}

#[derive(Clone, Copy)]
struct AffineLaws {
    users: usize,
    dim: usize,
    arms: usize,
    items: usize,
    deviation: f64,
    own_offers: bool,
    binary: bool,
    noise: f64,
    zipf: bool,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let given = match settings.text("users_file") {
        Some(name) => {
            let data = datasets::folder(settings.text("data").map(Path::new));
            let inside = data.join(name);
            let path = if inside.is_file() { inside } else { name.into() };
            Some(npy::read::<f64>(&path, &["users", "dim"])?)
        }
        None => None,
    };
    let (file_users, file_dim) = match &given {
        Some(table) => (table.shape[0], Some(table.shape[1])),
        None => (usize::MAX, None),
    };
    let default_users = if given.is_some() { file_users } else { 100 };
    let users = settings.derived("users", || default_users as f64) as usize;
    let dim = settings.derived("dim", || file_dim.unwrap_or(20) as f64) as usize;
    if users > file_users {
        let expected = format!("at most the {file_users} users of the file");
        return Err(Error::unexpected("users", users.to_string(), expected));
    }
    if dim < 2 {
        return Err(Error::unexpected("dim", dim.to_string(), "2 or more, the constant counted"));
    }
    if let Some(of_file) = file_dim.filter(|of_file| *of_file != dim) {
        let expected = format!("{of_file}, that of the file");
        return Err(Error::unexpected("dim", dim.to_string(), expected));
    }
    let (arms, items) = (settings.count("arms"), settings.count("items"));
    for (name, count) in [("users", users), ("arms", arms), ("items", items)] {
        check_fits(name, count, dim)?;
    }
    if items > 0 && items < arms {
        let expected = format!("at least the {arms} arms on offer, or 0");
        return Err(Error::unexpected("items", items.to_string(), expected));
    }
    let laws = AffineLaws {
        users,
        dim,
        arms,
        items,
        deviation: settings.real("deviation"),
        own_offers: settings.choice("arms_for") == "each",
        binary: settings.choice("reward") == "binary",
        noise: settings.real("noise"),
        zipf: settings.choice("activity") == "zipf",
    };
    if laws.own_offers {
        check_fits("users × arms", users.saturating_mul(arms), dim)?;
    }
    let given = given.map(|table| Arc::new(table.values[..users * dim].to_vec()));
    Ok(Box::new(Affine { laws, given, clusters: settings.count("clusters") }))
}

/// (v, 1)/√2 with v uniform on the unit sphere.
fn draw_vector(dim: usize, rng: &mut impl Rng, to: &mut Vec<f64>) {
    let first = to.len();
    to.extend((1..dim).map(|_| rng.sample::<f64, _>(StandardNormal)));
    let length = dot(&to[first..], &to[first..]).sqrt().max(f64::MIN_POSITIVE);
    to[first..].iter_mut().for_each(|v| *v /= length);
    to.push(1.0);
    to[first..].iter_mut().for_each(|v| *v *= std::f64::consts::FRAC_1_SQRT_2);
}

impl Environment for Affine {
    fn size(&self) -> Size {
        let AffineLaws { users, dim, arms, .. } = self.laws;
        Size { users, dim, arms, rounds: None }
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let AffineLaws { users, dim, items, .. } = self.laws;
        let rng = &mut seed.stream(Purpose::Users, 0);
        let (thetas, clusters) = match &self.given {
            Some(given) => (given.to_vec(), (0..users).collect()),
            None => {
                let mut centres = Vec::new();
                (0..self.clusters).for_each(|_| draw_vector(dim, rng, &mut centres));
                let cluster = |user: usize| user % self.clusters;
                let centre = |user: usize| &centres[cluster(user) * dim..][..dim];
                let thetas = (0..users).flat_map(|user| centre(user).to_vec()).collect();
                (thetas, (0..users).map(cluster).collect())
            }
        };
        let mut pool = Vec::new();
        let rng = &mut seed.stream(Purpose::Subspace, 0);
        (0..items).for_each(|_| draw_vector(dim, rng, &mut pool));
        Ok(Box::new(AffineWorld {
            laws: self.laws,
            seed,
            thetas,
            clusters,
            pool,
            contexts: Vec::new(),
            offered: Vec::new(),
            noise_draws: vec![0.0; users],
            absent: vec![false; users],
        }))
    }
}

/// The world of one repetition.
struct AffineWorld {
    laws: AffineLaws,
    seed: Seed,
    thetas: Vec<f64>,
    clusters: Vec<usize>,
    pool: Vec<f64>,
    /// The contexts: one offer for all users, or one per user.
    contexts: Vec<f64>,
    /// The items of these offers, where there is a pool.
    offered: Vec<usize>,
    /// The noise of every user in this round: uniform in [0, 1) for rewards of 0 or 1.
    noise_draws: Vec<f64>,
    absent: Vec<bool>,
}

impl AffineWorld {
    fn offer(&self, user: usize) -> usize {
        if self.laws.own_offers { user * self.laws.arms } else { 0 }
    }

    /// ⟨x, θ_i⟩ plus the deviation from linear.
    fn expected(&self, user: usize, arm: Arm) -> f64 {
        let AffineLaws { dim, deviation, .. } = self.laws;
        let at = self.offer(user) + arm;
        let linear = dot(&self.contexts[at * dim..][..dim], &self.thetas[user * dim..][..dim]);
        match self.offered.get(at) {
            Some(item) if deviation > 0.0 => {
                linear + deviation * (2.0 * self.fixed_uniform(user, *item) - 1.0)
            }
            _ => linear,
        }
    }

    /// A fixed number in [0, 1) for a user and an item.
    fn fixed_uniform(&self, user: usize, item: usize) -> f64 {
        let mut rng = self.seed.stream(Purpose::Drift, user);
        rng.set_word_pos(2 * item as u128);
        rng.random()
    }
}

impl World for AffineWorld {
    fn sigma(&self) -> f64 {
        if self.laws.binary { BINARY_SIGMA } else { self.laws.noise }
    }

    fn truth(&self) -> Option<Truth<'_>> {
        Some(Truth::new(&self.thetas, &self.clusters))
    }

    fn start_round(&mut self, round: usize) {
        let AffineLaws { users, dim, arms, items, .. } = self.laws;
        if self.laws.zipf {
            let rng = &mut self.seed.stream(Purpose::Activity, round);
            for (user, absent) in self.absent.iter_mut().enumerate() {
                *absent = rng.random::<f64>() * (user + 1) as f64 >= 1.0;
            }
        }
        let rng = &mut self.seed.stream(Purpose::Contexts, round);
        self.contexts.clear();
        self.offered.clear();
        for user in 0..if self.laws.own_offers { users } else { 1 } {
            // Nothing is drawn for absent users, which may be most of them.
            if self.laws.own_offers && self.absent[user] {
                self.contexts.resize(self.contexts.len() + arms * dim, 0.0);
                self.offered.resize(self.offered.len() + if items == 0 { 0 } else { arms }, 0);
                continue;
            }
            if items == 0 {
                (0..arms).for_each(|_| draw_vector(dim, rng, &mut self.contexts));
                continue;
            }
            for item in rand::seq::index::sample(rng, items, arms) {
                self.contexts.extend_from_slice(&self.pool[item * dim..(item + 1) * dim]);
                self.offered.push(item);
            }
        }
        let rng = &mut self.seed.stream(Purpose::Noise, round);
        for draw in &mut self.noise_draws {
            *draw = if self.laws.binary {
                rng.random()
            } else {
                self.laws.noise * rng.sample::<f64, _>(StandardNormal)
            };
        }
    }

    fn contexts(&self) -> Contexts<'_> {
        self.contexts_for(0)
    }

    fn contexts_for(&self, user: usize) -> Contexts<'_> {
        let AffineLaws { dim, arms, .. } = self.laws;
        Contexts::new(&self.contexts[self.offer(user) * dim..][..arms * dim], dim)
            .expect("unit vectors are finite")
    }

    fn own_offers(&self) -> bool {
        self.laws.own_offers
    }

    fn absences(&self) -> bool {
        self.laws.zipf
    }

    fn is_absent(&self, user: usize) -> bool {
        self.absent[user]
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        let expected = |arm: Arm| {
            let expected = self.expected(user, arm);
            // A probability, whatever the deviation.
            if self.laws.binary { expected.clamp(0.0, 1.0) } else { expected }
        };
        let played = expected(arm);
        let best = (0..self.laws.arms).map(expected).fold(f64::NEG_INFINITY, f64::max);
        let reward = if self.laws.binary {
            f64::from(u8::from(self.noise_draws[user] < played))
        } else {
            played + self.noise_draws[user]
        };
        Feedback { reward, regret: best - played }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::params::Value;

    fn world(options: &[(&str, &str)]) -> Box<dyn World> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        let environment = (INFO.build)(&INFO.check(options).unwrap()).unwrap();
        environment.world(Seed { seed: 3, repetition: 1 }).unwrap()
    }

    #[test]
    fn users_and_arms_are_unit_vectors_with_a_constant() {
        let mut world = world(&[("users", "12"), ("dim", "6"), ("clusters", "4")]);
        world.start_round(2);
        let truth = world.truth().unwrap();
        assert_eq!(truth.clusters[..5], [0, 1, 2, 3, 0]);
        for user in 0..12 {
            let theta = &truth.thetas[user * 6..(user + 1) * 6];
            assert!((dot(theta, theta) - 1.0).abs() < 1e-12);
            for x in world.contexts_for(user).iter() {
                assert!((dot(x, x) - 1.0).abs() < 1e-12 && (x[5] * x[5] - 0.5).abs() < 1e-12);
                assert!((0.0..=1.0).contains(&dot(x, theta)));
            }
        }
        assert_ne!(world.contexts_for(0).arm(0), world.contexts_for(1).arm(0));
    }

    #[test]
    fn rewards_are_one_as_often_as_expected() {
        let mut world = world(&[("users", "400"), ("clusters", "1"), ("arms_for", "all")]);
        world.start_round(0);
        for arm in 0..5 {
            let theta = &world.truth().unwrap().thetas[..20];
            let expected = dot(world.contexts().arm(arm), theta);
            let ones: f64 = (0..400).map(|user| world.play(user, arm).reward).sum();
            assert!((ones / 400.0 - expected).abs() < 0.08, "{ones} of 400 for {expected}");
        }
    }

    /// The deviation of an item is the same in every round, and within the bound.
    #[test]
    fn deviations_belong_to_a_user_and_an_item() {
        let options = [("items", "30"), ("arms", "30"), ("deviation", "0.2"), ("users", "5")];
        let mut world = world(&[&options[..], &[("reward", "gaussian"), ("noise", "0")]].concat());
        let off = |world: &dyn World, user: usize| {
            let theta = world.truth().unwrap().thetas[user * 20..(user + 1) * 20].to_vec();
            let mut off: Vec<(String, f64)> = (world.contexts_for(user).iter().enumerate())
                .map(|(arm, x)| {
                    (format!("{:.9}", x[0]), world.play(user, arm).reward - dot(x, &theta))
                })
                .collect();
            off.sort_by(|a, b| a.0.cmp(&b.0));
            off
        };
        world.start_round(0);
        let (first, other) = (off(world.as_ref(), 2), off(world.as_ref(), 3));
        assert!(first.iter().all(|(_, off)| off.abs() <= 0.2));
        assert!(first.iter().any(|(_, off)| off.abs() > 0.1));
        let same = |a: &[(String, f64)], b: &[(String, f64)]| {
            a.iter().zip(b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12)
        };
        assert!(!same(&first, &other));
        world.start_round(9);
        assert!(same(&first, &off(world.as_ref(), 2)));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_sentence() {
        for (options, said) in [
            ([("items", "5"), ("arms", "10")], "at least the 10 arms"),
            ([("users_file", "nowhere.npy"), ("arms", "3")], "nowhere.npy"),
        ] {
            let options = options.map(|(name, value)| (name.to_owned(), Value::from(value)));
            let settings = INFO.check(options).unwrap();
            let error = (INFO.build)(&settings).err().unwrap().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
