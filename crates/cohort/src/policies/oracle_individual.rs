//! `oracle-individual`: given every θ*_i, plays `argmax_x ⟨x, θ*_i⟩`. Its regret is zero.

use std::io::{self, Read, Write};

use rayon::prelude::*;

use crate::builder::builder;
use crate::linear::{argmax, dot};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "oracle-individual",
    summary: "told every user's vector; plays the best arm (regret zero)",
    reference: "the frame of every comparison",
    params: &[],
    build,
};

builder! {}

#[derive(Clone)]
struct OracleIndividual {
    thetas: Vec<f64>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let truth = problem.truth.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the users' true vectors, which only an environment can tell",
    })?;
    Ok(Box::new(OracleIndividual { thetas: truth.thetas.to_vec() }))
}

impl Policy for OracleIndividual {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        (arms.par_iter_mut().zip(self.thetas.par_chunks_exact(contexts.dim())))
            .with_min_len(64)
            .for_each(|(arm, theta)| *arm = argmax(contexts.iter().map(|x| dot(x, theta))));
    }

    fn learn(&mut self, _contexts: &Contexts, _arms: &[Arm], _rewards: &[f64]) {}

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for OracleIndividual {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        let dim = contexts.dim();
        // An unknown user gets the first arm.
        let Some(theta) = self.thetas.get(user * dim..(user + 1) * dim) else { return 0 };
        argmax(contexts.iter().map(|x| dot(x, theta)))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let dim = contexts.dim();
        let theta = self.thetas.get(user * dim..(user + 1) * dim);
        for (x, score) in contexts.iter().zip(scores) {
            let expected = theta.map_or(0.0, |theta| dot(x, theta));
            *score = Score { expected, bonus: 0.0 };
        }
    }

    fn learn_one(&mut self, _user: usize, _context: &[f64], _reward: f64) {}
}

impl State for OracleIndividual {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    /// It learns nothing, and θ* is part of the problem.
    fn write_state(&self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn read_state(&mut self, _from: &mut dyn Read) -> Result<(), Error> {
        Ok(())
    }
}
