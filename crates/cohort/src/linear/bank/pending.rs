//! Rewards that have come but are not yet learned.
//!
//! A round's rewards are kept until its blocks are next needed, which is when the next round
//! chooses: then every block is fetched once, learns, chooses, and is done with. Learning at once
//! would fetch all blocks a second time, and for many learners memory is what takes the time.

use super::layout::{F64x8, LANES, Layout};
use super::learning::Learn;
use crate::simd::InstructionSet;
use crate::{Arm, Contexts};

/// One round that was played.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// The contexts row by row, and a row of zeros for learners that did not play.
    contexts: Vec<f64>,
    arms: Vec<u32>,
    rewards: Vec<f64>,
}

impl Pending {
    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// For how many learners something is waiting.
    pub fn learners(&self) -> usize {
        self.arms.len()
    }

    /// Forgets what has been learned, and keeps the memory.
    pub fn clear(&mut self) {
        self.arms.clear();
    }

    /// Keeps a round.
    ///
    /// # Panics
    /// If there are not as many rewards as arms, or an arm was not on offer.
    pub fn set(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        assert_eq!(arms.len(), rewards.len(), "one reward for every arm");
        let none = contexts.dim();
        self.contexts.clear();
        self.contexts.extend(contexts.iter().flatten());
        self.contexts.extend(std::iter::repeat_n(0.0, none));
        self.arms.clear();
        self.arms.extend(arms.iter().map(|arm| {
            assert!(*arm < contexts.arms(), "arm {arm} of {}", contexts.arms());
            *arm as u32
        }));
        self.rewards.clear();
        self.rewards.extend_from_slice(rewards);
    }

    /// Teaches a block, the one that starts with learner `first`, what is waiting for it.
    pub fn teach(
        &self,
        set: InstructionSet,
        layout: Layout,
        first: usize,
        block: &mut [F64x8],
        scratch: &mut [F64x8],
    ) {
        let waiting = first.min(self.arms.len())..(first + LANES).min(self.arms.len());
        if waiting.is_empty() {
            return;
        }
        let (arms, rewards) = (&self.arms[waiting.clone()], &self.rewards[waiting]);
        let contexts = &self.contexts;
        let mut played = [(contexts.len() / layout.dim - 1) as u32; LANES];
        let (mut earned, mut count) = (F64x8::splat(0.0), F64x8::splat(0.0));
        played[..arms.len()].copy_from_slice(arms);
        earned.0[..arms.len()].copy_from_slice(rewards);
        count.0[..arms.len()].fill(1.0);
        set.run(Learn { layout, block, contexts, played, rewards: earned, count, scratch });
    }
}
