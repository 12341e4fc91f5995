//! `linucb-ind`: one OFUL per user, no collaboration. The paper's baseline LinUCB-Ind.
//!
//! ```text
//! every round, every user i:  play argmax_x ⟨x, θ̂_i⟩ + β_i‖x‖_{V_i⁻¹};  learn (x, y) for i alone
//! ```
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]).
//!
//! Reference: the paper, Section 7; Abbasi-Yadkori, Pál, Szepesvári 2011.

use std::io::{self, Read, Write};

use crate::builder::builder;
use crate::insight::{Insight, Position, UserSummary};
use crate::linear::{Bank, Confidence, OFUL_PARAMS, Progress};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::search::ScoreForm;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "linucb-ind",
    summary: "one OFUL per user, no collaboration (the paper's LinUCB-Ind)",
    reference: "Ghosh et al., Section 7; Abbasi-Yadkori et al. 2011",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

/// One OFUL per user.
struct LinUcbInd {
    users: Bank,
    confidence: Confidence,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    Ok(Box::new(LinUcbInd {
        users: Bank::new(problem.users, problem.dim, confidence.lambda),
        confidence,
    }))
}

impl Policy for LinUcbInd {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        let confidence = &self.confidence;
        let radius = |_, progress| confidence.radius(progress);
        self.users.choose(contexts, confidence.shape, radius, None, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.users.learn(contexts, arms, rewards);
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }
}

impl OnlinePolicy for LinUcbInd {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.users.grow(user + 1);
        let radius = self.confidence.radius(self.users.progress(user));
        self.users.choose_one(user, contexts, self.confidence.shape, radius)
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.users.grow(user + 1);
        self.users.learn_one(user, context, reward);
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let progress = if user < self.users.learners() {
            self.users.progress(user)
        } else {
            Progress::default()
        };
        let radius = self.confidence.radius(progress);
        self.users.score_one(user, contexts, self.confidence.shape, radius, scores);
    }

    fn score_form(&mut self, user: usize) -> Option<ScoreForm> {
        let is_known = user < self.users.learners();
        let progress = if is_known { self.users.progress(user) } else { Progress::default() };
        self.users.score_form(user, self.confidence.shape, self.confidence.radius(progress))
    }
}

impl Insight for LinUcbInd {
    fn position(&self, user: usize) -> Option<Position> {
        (user < self.users.learners()).then(|| Position {
            estimate: self.users.estimate(user),
            membership: None,
            rewards: self.users.progress(user).updates,
        })
    }

    /// Deviations are those of a Bayesian with the prior N(0, σ²/λ·I): σ·√(V⁻¹)_kk.
    fn user_summary(&self, user: usize) -> Option<UserSummary> {
        let Position { estimate, rewards, .. } = self.position(user)?;
        let inverse = self.users.inverse(user);
        let sigma = self.confidence.sigma;
        let deviations = (0..estimate.len()).map(|k| sigma * inverse.at(k, k).max(0.0).sqrt());
        let deviations = deviations.collect();
        Some(UserSummary { estimate, deviations, memberships: Vec::new(), rewards })
    }
}

impl State for LinUcbInd {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_bank(out, &self.users, self.confidence.lambda)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.users = saved::read_bank(from, INFO.name, self.users.dim(), self.confidence.lambda)?;
        Ok(())
    }
}
