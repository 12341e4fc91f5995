//! A round of rewards that has arrived but is not yet learned.
//!
//! A round's rewards are stored until the next round chooses: then every block is loaded once,
//! learns and chooses. Learning at once would load all blocks a second time, and with many learners
//! memory bandwidth is the limit.

use super::layout::{F64x8, LANES, Layout};
use super::learning::Learn;
use crate::simd::InstructionSet;
use crate::{Arm, Contexts};

/// One round that was played.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// The contexts row by row, followed by a row of zeros for learners that did not play.
    contexts: Vec<f64>,
    arms: Vec<u32>,
    rewards: Vec<f64>,
}

impl Pending {
    /// Whether no round is pending.
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// The number of learners with a pending reward.
    pub fn learners(&self) -> usize {
        self.arms.len()
    }

    /// Drops the round, keeping the memory.
    pub fn clear(&mut self) {
        self.arms.clear();
    }

    /// Stores a round, of the learners that learn from it.
    ///
    /// # Panics
    /// If there are not as many rewards as arms, or an arm was not on offer.
    pub fn set(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        learns: impl Fn(usize) -> bool,
    ) {
        assert_eq!(arms.len(), rewards.len(), "one reward for every arm");
        let none = contexts.dim();
        self.contexts.clear();
        self.contexts.extend(contexts.iter().flatten());
        self.contexts.extend(std::iter::repeat_n(0.0, none));
        self.arms.clear();
        self.arms.extend(arms.iter().enumerate().map(|(learner, arm)| {
            assert!(*arm < contexts.arms(), "arm {arm} of {}", contexts.arms());
            if learns(learner) { *arm as u32 } else { contexts.arms() as u32 }
        }));
        self.rewards.clear();
        self.rewards.extend_from_slice(rewards);
    }

    /// Updates the block that starts with learner `first` with its pending rewards.
    pub fn apply_to(
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
        let none = (contexts.len() / layout.dim - 1) as u32;
        let mut played = [none; LANES];
        let (mut earned, mut count) = (F64x8::splat(0.0), F64x8::splat(0.0));
        played[..arms.len()].copy_from_slice(arms);
        for (lane, (arm, reward)) in arms.iter().zip(rewards).enumerate() {
            if *arm != none {
                (earned.0[lane], count.0[lane]) = (*reward, 1.0);
            }
        }
        if played == [none; LANES] {
            return;
        }
        set.run(Learn { layout, block, contexts, played, rewards: earned, count, scratch });
    }
}
