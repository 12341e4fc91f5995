//! `osom`: optimistic selection of models, for each user. Plays as if every place in the offer had a
//! reward of its own and contexts said nothing, until rewards show that they do.
//!
//! ```text
//! y = μ_k + ⟨x, θ⟩ + noise for the arm in place k;   simple: θ = 0
//! μ̂_k the mean reward of place k,  x̄_k its mean context,  T_k how often it was played
//! w_k = σ·√((1 + T_k)/T_k² · (1 + 2 ln(K·√(1 + T_k)/δ)))
//! V = λI + Σ(x − x̄)(x − x̄)ᵀ within places,  θ̂ = V⁻¹Σ(x − x̄)(y − ȳ):  least squares of μ and θ together
//!
//! places that were never played come first, the lowest first;  then, in every round,
//!   i = argmax_k μ̂_k + w_k                                                             (simple)
//!   j = argmax_k μ̂_k + w_k + ⟨x_k − x̄_k, θ̂⟩ + β‖x_k − x̄_k‖_{V⁻¹},  its value s_j      (complex)
//!   play i as long as Σ(s_j − y) ≤ c·[Σ(2w_i + 2β‖x_j − x̄_j‖_{V⁻¹}) + σ√(2n ln(1/δ))],  then j for ever
//! ```
//!
//! The sums are over the n rounds that played i. If θ = 0, the left side stays below the bracket with
//! probability 1 − δ, because s_j ≤ μ̂_i + w_i + 2β‖x_j − x̄_j‖ and μ̂_i + w_i − μ_i ≤ 2w_i; so a user
//! for whom contexts say nothing is never given up to the larger model.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `threshold` c | (0, ∞) | scale of what the simple model may lose; 1 as derived above |
//! | those of OFUL | | [`OFUL_PARAMS`]; `exploration` multiplies w and β |
//!
//! The paper bounds the bracket in advance by constants of its analysis, W_δ(t); here it is what the
//! widths were, which needs none of them. It regresses rewards less the means of places on contexts as
//! they are; within places, chosen arms bias nothing.
//!
//! A place must mean something, so there are rounds and no single turns: a reward that comes alone does
//! not say which place it was for. Where places mean nothing (arms drawn anew in random order) the
//! simple model plays at random until it is given up.
//!
//! Reference: Chatterji, Muthukumar, Bartlett, *OSOM: A simultaneously optimal algorithm for multi-armed
//! and linear contextual bandits*, AISTATS 2020, Algorithm 1.

use std::io::{self, Read, Write};

use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS, Oful, dot};
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, Policy, Problem, Saved, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "osom",
    summary: "per user: UCB on places in the offer until contexts are seen to matter (OSOM)",
    reference: "Chatterji, Muthukumar, Bartlett, AISTATS 2020, Algorithm 1",
    params: &[
        OFUL_PARAMS,
        &[Param::real("threshold", POSITIVE, 1.0, "c: what the simple model may lose")],
    ],
    build,
};

builder! {
    delta: real, lambda: real, norm_bound: real, sigma: real, exploration: real,
    confidence: choice, rho_min: real, intercept: flag, threshold: real,
}

#[derive(Clone)]
struct Osom {
    confidence: Confidence,
    threshold: f64,
    dim: usize,
    users: Vec<User>,
}

#[derive(Clone)]
struct User {
    places: Vec<PositionStats>,
    /// V and θ̂.
    within: Oful,
    complex: bool,
    /// Σ(s_j − y), the sum of widths, and n.
    test: [f64; 3],
}

/// The statistics of one position in the offer.
#[derive(Clone)]
struct PositionStats {
    played: f64,
    reward: f64,
    context: Vec<f64>,
}

/// The scores of an offer under both models.
struct ModelScores {
    simple: Arm,
    complex: Arm,
    /// s_j.
    value: f64,
    /// 2w_i + 2β‖x_j − x̄_j‖.
    widths: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let within = Oful::new(problem.dim, confidence.lambda);
    let user = User { places: Vec::new(), within, complex: false, test: [0.0; 3] };
    let users = vec![user; problem.users];
    let threshold = settings.real("threshold");
    Ok(Box::new(Osom { confidence, threshold, dim: problem.dim, users }))
}

impl PositionStats {
    fn centred(&self, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.context).map(|(x, mean)| x - mean).collect()
    }
}

impl User {
    fn untried(&self, arms: usize) -> Option<Arm> {
        (0..arms).find(|arm| self.places.get(*arm).is_none_or(|place| place.played == 0.0))
    }

    /// Both models on an offer all of whose places were played.
    fn view(&self, contexts: &Contexts, confidence: &Confidence) -> ModelScores {
        let radius = confidence.radius(self.within.progress());
        let (mut simple, mut complex) = ((0, f64::NEG_INFINITY, 0.0), (0, f64::NEG_INFINITY, 0.0));
        for (arm, (x, place)) in contexts.iter().zip(&self.places).enumerate() {
            let own = width(place.played, contexts.arms(), confidence);
            let centred = place.centred(x);
            let expected = dot(&centred, self.within.estimate());
            let optimistic = self.within.optimistic(&centred, radius, confidence.shape);
            let alone = place.reward + own;
            if alone > simple.1 {
                simple = (arm, alone, own);
            }
            if alone + optimistic > complex.1 {
                complex = (arm, alone + optimistic, optimistic - expected);
            }
        }
        let widths = 2.0 * (simple.2 + complex.2);
        ModelScores { simple: simple.0, complex: complex.0, value: complex.1, widths }
    }

    fn learn(&mut self, arm: Arm, x: &[f64], y: f64) {
        while self.places.len() <= arm {
            self.places.push(PositionStats {
                played: 0.0,
                reward: 0.0,
                context: vec![0.0; x.len()],
            });
        }
        let place = &mut self.places[arm];
        let (centred, surprise) = (place.centred(x), y - place.reward);
        // The square of what is new within a place, T/(T + 1) of it; nothing at the first time.
        let scale = (place.played / (place.played + 1.0)).sqrt();
        if place.played > 0.0 {
            let scaled: Vec<f64> = centred.iter().map(|x| scale * x).collect();
            self.within.learn(&scaled, scale * surprise);
        }
        place.played += 1.0;
        place.reward += surprise / place.played;
        for (mean, new) in place.context.iter_mut().zip(&centred) {
            *mean += new / place.played;
        }
    }
}

/// w_k
fn width(played: f64, places: usize, confidence: &Confidence) -> f64 {
    let log = (places as f64 * (1.0 + played).sqrt() / confidence.delta).ln();
    let variance = (1.0 + played) / played.powi(2) * (1.0 + 2.0 * log);
    confidence.exploration * confidence.sigma * variance.sqrt()
}

impl Policy for Osom {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        for (user, arm) in self.users.iter().zip(arms) {
            *arm = user.untried(contexts.arms()).unwrap_or_else(|| {
                let view = user.view(contexts, &self.confidence);
                if user.complex { view.complex } else { view.simple }
            });
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let Confidence { sigma, delta, .. } = self.confidence;
        for (user, (arm, reward)) in self.users.iter_mut().zip(arms.iter().zip(rewards)) {
            if !user.complex && user.untried(contexts.arms()).is_none() {
                let view = user.view(contexts, &self.confidence);
                let [lost, widths, rounds] = &mut user.test;
                *lost += view.value - reward;
                *widths += view.widths;
                *rounds += 1.0;
                let noise = sigma * (2.0 * *rounds * (1.0 / delta).ln()).sqrt();
                user.complex = *lost > self.threshold * (*widths + noise);
            }
            user.learn(*arm, contexts.arm(*arm), *reward);
        }
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl State for Osom {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_counts(out, &[self.dim, self.users.len()])?;
        for User { places, within, complex, test } in &self.users {
            within.save(out)?;
            saved::write_numbers(out, test)?;
            saved::write_counts(out, &[usize::from(*complex), places.len()])?;
            for place in places {
                saved::write_numbers(out, &[place.played, place.reward])?;
                saved::write_numbers(out, &place.context)?;
            }
        }
        Ok(())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, dim) = (INFO.name, self.dim);
        let sizes = |from: &mut dyn Read, first: &str, most: usize| {
            saved::check_equal(what, "sizes", saved::read_count(from, what)?, 2)?;
            let found = saved::read_count(from, what)?;
            saved::check_equal(what, first, found.min(most), found)?;
            Ok::<_, Error>((found, saved::read_count(from, what)?))
        };
        let (found, count) = sizes(from, "dimension", dim)?;
        saved::check_equal(what, "dimension", found, dim)?;
        saved::check_equal(what, "users", count, self.users.len())?;
        let mut users = Vec::new();
        for _ in 0..count {
            let within = Oful::load(from, what, dim, self.confidence.lambda)?;
            let mut test = [0.0; 3];
            saved::read_numbers(from, what, &mut test)?;
            let (complex, count) = sizes(from, "whether contexts matter:", 1)?;
            let mut places = Vec::new();
            for _ in 0..count {
                let numbers = saved::read_some(from, what, 2)?;
                let context = saved::read_some(from, what, dim)?;
                places.push(PositionStats { played: numbers[0], reward: numbers[1], context });
            }
            users.push(User { places, within, complex: complex == 1, test });
        }
        self.users = users;
        Ok(())
    }
}
