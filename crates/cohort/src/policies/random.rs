//! `random`: an arm at random for every user, always. The baseline that learns nothing.

use std::io::{self, Read, Write};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::builder::builder;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "random",
    summary: "an arm at random for every user, learning nothing",
    reference: "the frame of every comparison",
    params: &[],
    build,
};

builder! {}

#[derive(Clone)]
struct Random {
    rng: ChaCha8Rng,
}

fn build(problem: &Problem, _settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Random { rng: ChaCha8Rng::seed_from_u64(problem.seed) }))
}

impl Policy for Random {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        for arm in arms {
            *arm = self.rng.random_range(0..contexts.arms());
        }
    }

    fn learn(&mut self, _contexts: &Contexts, _arms: &[Arm], _rewards: &[f64]) {}

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Random {
    fn decide(&mut self, _user: usize, contexts: &Contexts) -> Arm {
        self.rng.random_range(0..contexts.arms())
    }

    fn score(&mut self, _user: usize, _contexts: &Contexts, scores: &mut [Score]) {
        scores.fill(Score::default());
    }

    fn learn_one(&mut self, _user: usize, _context: &[f64], _reward: f64) {}
}

impl State for Random {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    /// The position in the random stream; the seed is part of the problem.
    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.rng.get_word_pos().to_le_bytes())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let position = u128::from_le_bytes(saved::read_array(from, INFO.name)?);
        self.rng.set_word_pos(position);
        Ok(())
    }
}
