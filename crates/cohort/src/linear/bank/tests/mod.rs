//! A bank equals many single learners, on any instruction set, on any number of threads.

mod exactness;
mod same_as_single;
mod sets_and_threads;

use super::{Bank, InstructionSet};
use crate::Contexts;
use crate::linear::{Confidence, Shape};
use crate::simd::{Isa, Portable};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Every instruction set of this machine, and the reference that the fused ones must equal.
fn sets() -> Vec<InstructionSet> {
    let mut sets = InstructionSet::available();
    sets.push(reference());
    sets
}

fn reference() -> InstructionSet {
    InstructionSet(Isa::Reference(Portable))
}

/// Whether a set multiplies and adds in one operation.
fn is_fused(set: InstructionSet) -> bool {
    set.name() != "portable" || cfg!(target_arch = "aarch64")
}

fn confidence(shape: Shape) -> Confidence {
    let (lambda, norm_bound, sigma) = (0.7, 1.0, 0.3);
    Confidence { delta: 0.4, lambda, norm_bound, sigma, exploration: 1.0, shape }
}

/// An endless stream of contexts and rewards.
struct Stream {
    rng: ChaCha8Rng,
    dim: usize,
    arms: usize,
}

impl Stream {
    fn new(dim: usize, arms: usize, seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), dim, arms }
    }

    fn values(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.rng.random_range(-1.0..1.0)).collect()
    }

    fn contexts(&mut self) -> Vec<f64> {
        let scale = 1.0 / (self.dim as f64).sqrt();
        self.values(self.dim * self.arms).iter().map(|value| value * scale).collect()
    }
}

/// The whole state of a bank, as bits.
fn bits(bank: &Bank) -> Vec<u64> {
    let mut numbers = bank.estimates();
    for learner in 0..bank.learners() {
        numbers.extend_from_slice(bank.inverse(learner).packed());
        let progress = bank.progress(learner);
        numbers.extend([progress.log_det, progress.updates]);
    }
    numbers.into_iter().map(f64::to_bits).collect()
}

/// Plays rounds; returns the arms of all of them.
fn play(bank: &mut Bank, stream: &mut Stream, rounds: usize) -> Vec<usize> {
    let confidence = confidence(Shape::Ellipsoid);
    let mut arms = vec![0; bank.learners()];
    let mut all = Vec::new();
    for _ in 0..rounds {
        let values = stream.contexts();
        let contexts = Contexts::new(&values, stream.dim).unwrap();
        let radius = |_, progress| confidence.radius(progress);
        bank.choose(&contexts, confidence.shape, radius, None, &mut arms);
        all.extend_from_slice(&arms);
        let rewards = stream.values(arms.len());
        bank.learn(&contexts, &arms, &rewards);
    }
    all
}
