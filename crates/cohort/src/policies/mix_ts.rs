//! `mix-ts`: Thompson sampling with a mixture-of-Gaussians prior that is given.
//!
//! ```text
//! user i, component c:  θ_i = μ_c + Σ_k z_k s_k,  z ~ N(0, I);  p_c the component's weight
//! after rewards:        P⁻¹ = I + Σ vvᵀ/σ²,  v = (⟨x, s_k⟩)_k;   z_c = P Σ v(y − ⟨x, μ_c⟩)/σ²
//!                       ln p_c −= e_c²/2s at every reward,  s = σ² + vᵀPv,  e_c its residual
//! draw c with probability p_c, then z ~ N(z_c, P);  play argmax_x ⟨x, μ_c + Σ_k z_k s_k⟩
//! ```
//!
//! This is the paper's posterior: the products of its normal densities, with one covariance Σ_k s_k
//! s_kᵀ for all components. The prior is the distribution of users that the environment gives (an
//! oracle: the upper end of what sampling can reach), or it is set:
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `centres` | numbers | μ_c: coordinates between commas, centres between semicolons |
//! | `weights` | numbers | p_c between commas; equal by default |
//! | `spread` | [0, ∞) | variance of each coordinate around a centre, where centres are set |
//! | `sigma` σ | [0, ∞) | the noise; the environment's by default |
//!
//! A user's level, where the distribution has one, is one more direction. P⁻¹ is stored as a
//! Cholesky factor: a reward and a decision cost O(k² + components·k) in the number of directions
//! k.
//!
//! Reference: Hong, Kveton, Zaheer, Ghavamzadeh, Boutilier, *Thompson Sampling with a Mixture
//! Prior*, AISTATS 2022, Algorithm 1.

use std::io::{self, Read, Write};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::draws::{DRAWS, normals, stream};
use super::oracle_centres::{ArmTerms, KnownLaw};
use super::shared::served::{OneUser, Served};
use crate::algebra::Cholesky;
use crate::builder::builder;
use crate::cluster::partition::number_by_smallest_member;
use crate::linear::{argmax, dot, read_factor};
use crate::params::{NOT_NEGATIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{
    Arm, Contexts, Error, Law, OnlinePolicy, Order, Policy, Problem, Saved, Score, Truth, saved,
};
use rand::SeedableRng;

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "mix-ts",
    summary: "Thompson sampling from a mixture prior that it is told (MixTS)",
    reference: "Hong, Kveton, Zaheer, Ghavamzadeh, Boutilier, AISTATS 2022, Algorithm 1",
    params: &[PARAMS],
    build,
};

builder! { centres: choice, weights: choice, spread: real, sigma: real }

const PARAMS: &[Param] = &[
    Param::text(
        "centres",
        "numbers",
        "the law that the environment tells",
        "centres of the prior: coordinates between commas, centres between semicolons",
    ),
    Param::text(
        "weights",
        "numbers",
        "the law that the environment tells",
        "how probable each centre is, between commas; all the same where only centres are set",
    ),
    Param::real("spread", NOT_NEGATIVE, 0.0, "variance of each coordinate around centres set"),
    Param::derived(
        "sigma",
        NOT_NEGATIVE,
        "the environment's noise",
        "σ, the noise scale of one reward",
    ),
];

#[derive(Clone)]
struct MixTs {
    told: KnownLaw,
    seed: u64,
    users: Vec<User>,
    fresh: User,
}

#[derive(Clone)]
struct User {
    /// ln p_c, the largest 0.
    logs: Vec<f64>,
    /// Σ v(y − ⟨x, μ_c⟩)/σ², a row for each component.
    moments: Vec<f64>,
    /// P⁻¹.
    precision: Cholesky,
    rewards: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let needs = |what| Error::Needs { policy: settings.policy(), what };
    let sigma = settings.optional("sigma");
    let told = match settings.text("centres") {
        None => {
            let told = |truth: &Truth| {
                truth.law.is_some() || truth.thetas.len() == problem.users * problem.dim
            };
            let what = "the law of users, which an environment tells or `centres` says";
            KnownLaw::new(problem, &problem.truth.filter(told).ok_or(needs(what))?, sigma)
        }
        Some(text) => {
            let rows = text.split(';').map(|row| numbers(row, "centres", settings));
            let rows = rows.collect::<Result<Vec<_>, Error>>()?;
            if rows.iter().any(|row| row.len() != problem.dim) {
                return Err(needs("as many coordinates in every centre as contexts have"));
            }
            let weights = match settings.text("weights") {
                Some(text) => numbers(text, "weights", settings)?,
                None => vec![1.0; rows.len()],
            };
            if weights.len() != rows.len() || weights.iter().any(|weight| *weight < 0.0) {
                return Err(needs("one weight for each centre, none below 0"));
            }
            let deviation = settings.real("spread").sqrt();
            let dims = if deviation > 0.0 { problem.dim } else { 0 };
            let scatter: Vec<f64> = (0..dims * dims)
                .map(|at| if at % (dims + 1) == 0 { deviation } else { 0.0 })
                .collect();
            let centres = rows.concat();
            let law = Law {
                centres: &centres,
                weights: &weights,
                scatter: &scatter,
                level: 0.0,
                level_spread: 0.0,
                sigmas: None,
            };
            KnownLaw::new(problem, &Truth { law: Some(law), ..Truth::new(&[], &[]) }, sigma)
        }
    };
    if told.count == 0 {
        return Err(needs("one centre at least"));
    }
    let logs: Vec<f64> = told.prior[..told.count].to_vec();
    let fresh = User {
        logs,
        moments: vec![0.0; told.count * told.directions],
        precision: Cholesky::identity(told.directions, 1.0),
        rewards: 0.0,
    };
    let users = vec![fresh.clone(); problem.users];
    Ok(Box::new(Served(MixTs { told, seed: problem.seed, users, fresh })))
}

/// Parses finite numbers between commas.
fn numbers(text: &str, param: &'static str, settings: &Settings) -> Result<Vec<f64>, Error> {
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| Error::Param {
            policy: settings.policy(),
            param,
            found: format!("\"{}\"", text.trim()),
            expected: "a finite number".to_owned(),
        })
    };
    text.split(',').map(number).collect()
}

impl User {
    /// p_c, not normalised.
    fn shares(&self) -> impl Iterator<Item = f64> {
        let largest = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.logs.iter().map(move |log| (log - largest).exp())
    }

    /// P m for a component.
    fn mean(&self, component: usize, directions: usize) -> Vec<f64> {
        let mut mean = self.moments[component * directions..][..directions].to_vec();
        self.precision.solve(&mut mean);
        mean
    }
}

impl MixTs {
    fn user(&self, user: usize) -> &User {
        self.users.get(user).unwrap_or(&self.fresh)
    }

    fn offer(&self, contexts: &Contexts) -> ArmTerms {
        let mut offer = ArmTerms::default();
        self.told.look_at(contexts.iter(), &mut offer);
        offer
    }

    /// The reward of every arm under one draw from the posterior.
    fn draw(&self, user: usize, offer: &ArmTerms, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let known = self.user(user);
        let mut luck = rng.random::<f64>() * known.shares().sum::<f64>();
        let passed = |share: f64| {
            luck -= share;
            luck < 0.0
        };
        let component = known.shares().position(passed);
        let component = component.unwrap_or_else(|| argmax(known.shares()));
        let mut z = normals(self.told.directions, rng);
        known.precision.backward(&mut z);
        let mean = known.mean(component, self.told.directions);
        z.iter_mut().zip(mean).for_each(|(z, mean)| *z += mean);
        offer.rewards(component, &z)
    }

    fn next_draw(&self, user: usize, offer: &ArmTerms) -> Vec<f64> {
        self.draw(user, offer, &mut stream(self.seed, user, self.user(user).rewards))
    }
}

impl OneUser for MixTs {
    /// Users grouped by most probable component.
    fn clusters(&self) -> Option<Vec<usize>> {
        let mut labels: Vec<usize> =
            self.users.iter().map(|user| argmax(user.logs.iter().copied())).collect();
        number_by_smallest_member(&mut labels);
        Some(labels)
    }

    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for MixTs {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.next_draw(user, &self.offer(contexts)))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let (offer, known) = (self.offer(contexts), self.user(user));
        let total: f64 = known.shares().sum();
        scores.fill(Score::default());
        for (component, share) in known.shares().enumerate().filter(|(_, share)| *share > 0.0) {
            let rewards = offer.rewards(component, &known.mean(component, self.told.directions));
            for (score, reward) in scores.iter_mut().zip(rewards) {
                score.expected += share / total * reward;
            }
        }
        for (score, drawn) in scores.iter_mut().zip(self.next_draw(user, &offer)) {
            score.bonus = drawn - score.expected;
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if user >= self.users.len() {
            self.users.resize(user + 1, self.fresh.clone());
        }
        let mut offer = ArmTerms::default();
        self.told.look_at(std::iter::once(context), &mut offer);
        let variance = self.told.variance(user);
        let directions = self.told.directions;
        let known = &mut self.users[user];
        let mut gain = offer.along.clone();
        known.precision.solve(&mut gain);
        let scale = 1.0 / (variance + dot(&gain, &offer.along).max(0.0));
        for (component, log) in known.logs.iter_mut().enumerate() {
            let moment = &mut known.moments[component * directions..][..directions];
            let beyond = reward - offer.expected[component];
            let surprise = beyond - dot(moment, &gain);
            *log -= (0.5 * surprise * surprise * scale).min(LARGEST_SQUARED_RESIDUAL);
            moment.iter_mut().zip(&offer.along).for_each(|(m, v)| *m += v * (beyond / variance));
        }
        let largest = known.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        known.logs.iter_mut().for_each(|log| *log -= largest);
        let mut scaled: Vec<f64> = offer.along.iter().map(|v| v / variance.sqrt()).collect();
        known.precision.add_outer(&mut scaled);
        known.rewards += 1.0;
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        let (offer, mut rng) = (self.offer(contexts), ChaCha8Rng::seed_from_u64(seed));
        chances.fill(0.0);
        for _ in 0..DRAWS {
            chances[argmax(self.draw(user, &offer, &mut rng))] += 1.0 / DRAWS as f64;
        }
        true
    }
}

/// A bound on squared residuals that keeps ln p_c finite whatever the reward.
const LARGEST_SQUARED_RESIDUAL: f64 = 1e100;

impl State for MixTs {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    /// The prior is part of the problem and is not written.
    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_counts(out, &[self.told.count, self.told.directions, self.users.len()])?;
        self.users.iter().try_for_each(|user| {
            saved::write_numbers(out, &user.logs)?;
            saved::write_numbers(out, &user.moments)?;
            saved::write_numbers(out, user.precision.packed())?;
            saved::write_numbers(out, &[user.rewards])
        })
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, KnownLaw { count, directions, .. }) = (INFO.name, &self.told);
        saved::check_equal(what, "sizes", saved::read_count(from, what)?, 3)?;
        saved::check_equal(what, "components", saved::read_count(from, what)?, *count)?;
        saved::check_equal(what, "directions", saved::read_count(from, what)?, *directions)?;
        let mut users = Vec::new();
        for _ in 0..saved::read_count(from, what)? {
            let mut user = self.fresh.clone();
            saved::read_numbers(from, what, &mut user.logs)?;
            saved::read_numbers(from, what, &mut user.moments)?;
            user.precision = read_factor(from, what, *directions)?;
            saved::read_numbers(from, what, std::slice::from_mut(&mut user.rewards))?;
            users.push(user);
        }
        self.users = users;
        Ok(())
    }
}
