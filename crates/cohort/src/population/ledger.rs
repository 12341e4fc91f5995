//! All that was ever seen of every user: V = Σxxᵀ, b = Σxy, Σy², Σx, Σy and n, in blocks of eight
//! users. Sums are never thrown away and add up; with Σx and Σy among them, rewards can be counted
//! from any level afterwards.
//!
//! A copy of a ledger shares its numbers with it until one of the two learns, and then only what is
//! learned about is copied: a refit or a snapshot takes a copy and works on it beside decisions.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::lanes::{LANES, Lane, ZERO};
use super::moments::Moments;
use crate::linear::symmetric::packed_len;
use crate::{Arm, Contexts};

/// Blocks a task works on; fixed, so that sums are the same on any number of threads.
pub const BLOCKS_PER_TASK: usize = 8;

/// The statistics of all users.
#[derive(Clone, Debug)]
pub struct Ledger {
    dim: usize,
    users: usize,
    /// Several blocks each.
    chunks: Vec<Arc<Vec<Lane>>>,
    rewards: f64,
    /// What an earlier reward still counts when the user gets another one: 1 is for ever.
    memory: f64,
    /// Rounds that are not yet in the blocks.
    waiting: Vec<Round>,
    slots: HashMap<usize, usize>,
    names: Vec<usize>,
    origin: Option<f64>,
}

/// One reward for every user: written down later, several rounds at a time, so that a user's
/// statistics are brought from memory once for all of them.
#[derive(Clone, Debug)]
struct Round {
    contexts: Vec<f64>,
    arms: Vec<u32>,
    rewards: Vec<f64>,
}

/// Rounds that wait at most.
const MOST_WAITING: usize = 24;

/// Lanes of a chunk, roughly: 24 KiB, which are copied in a few microseconds. A copy goes to memory
/// that may be new to the process, where every page costs more than what it holds.
const CHUNK_LANES: usize = 384;

impl Round {
    /// The rewards of one block, whose first user is `first`.
    fn write_down(
        &self,
        first: usize,
        dim: usize,
        memory: f64,
        x: &mut [Lane],
        block: &mut [Lane],
    ) {
        let users = self.rewards.len().saturating_sub(first).min(LANES);
        let mut keep = [1.0; LANES];
        x.fill(ZERO);
        for lane in 0..users {
            keep[lane] = memory;
            let context = &self.contexts[self.arms[first + lane] as usize * dim..][..dim];
            for (x, value) in x.iter_mut().zip(context) {
                x[lane] = *value;
            }
            x[dim][lane] = 1.0;
            x[dim + 1][lane] = self.rewards[first + lane];
        }
        add_rewards(block, x, &keep);
    }
}

impl Ledger {
    /// Of users of whom nothing was seen. `half_life` is in a user's own rewards; without one
    /// everything counts for ever.
    pub fn new(dim: usize, half_life: Option<f64>) -> Self {
        let memory = half_life.map_or(1.0, |rewards| 0.5_f64.powf(1.0 / rewards));
        Self {
            dim,
            users: 0,
            chunks: Vec::new(),
            rewards: 0.0,
            memory,
            waiting: Vec::new(),
            slots: HashMap::new(),
            names: Vec::new(),
            origin: None,
        }
    }

    /// Lanes of a block.
    fn stride(&self) -> usize {
        packed_len(self.dim + 2)
    }

    /// Blocks of a chunk.
    fn blocks_per_chunk(&self) -> usize {
        (CHUNK_LANES / self.stride()).max(1)
    }

    /// Makes room for more users.
    pub fn grow(&mut self, users: usize) {
        self.users = self.users.max(users);
        let (lanes, per_chunk) = (self.stride() * self.blocks_per_chunk(), self.blocks_per_chunk());
        let chunks = self.users.div_ceil(LANES).div_ceil(per_chunk);
        // Never less than before: `users` only grows.
        self.chunks.resize_with(chunks, || Arc::new(vec![ZERO; lanes]));
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// N.
    pub fn users(&self) -> usize {
        self.users
    }

    /// How many rewards there were, of all users together.
    pub fn rewards(&self) -> f64 {
        self.rewards
    }

    /// How many blocks of eight users there are; the last is filled up with users who saw nothing.
    pub fn blocks(&self) -> usize {
        self.users.div_ceil(LANES)
    }

    /// What rewards are counted from.
    pub fn origin(&self) -> f64 {
        self.origin.unwrap_or(0.0)
    }

    /// Users with rewards.
    pub fn answered(&self) -> usize {
        self.users
    }

    /// Where a user is.
    pub fn slot_of(&self, user: usize) -> Option<usize> {
        self.slots.get(&user).copied()
    }

    /// Who is there.
    pub fn user_of(&self, slot: usize) -> usize {
        self.names[slot]
    }

    fn slot_for(&mut self, user: usize) -> usize {
        if let Some(slot) = self.slots.get(&user) {
            return *slot;
        }
        let slot = self.names.len();
        self.slots.insert(user, slot);
        self.names.push(user);
        self.grow(slot + 1);
        slot
    }

    /// n of a slot.
    pub fn count(&self, slot: usize) -> f64 {
        self.block(slot / LANES)[packed_len(self.dim + 1) - 1][slot % LANES]
    }

    fn block(&self, at: usize) -> &[Lane] {
        let (stride, per_chunk) = (self.stride(), self.blocks_per_chunk());
        &self.chunks[at / per_chunk][at % per_chunk * stride..][..stride]
    }

    /// The statistics of the users of a block.
    pub fn block_moments(&self, at: usize) -> Moments {
        Moments::new(self.dim, self.block(at).to_vec())
    }

    /// The statistics of up to eight users.
    pub fn moments(&self, slots: &[usize]) -> Moments {
        let mut numbers = vec![ZERO; self.stride()];
        for (lane, slot) in slots.iter().enumerate() {
            for (to, from) in numbers.iter_mut().zip(self.block(slot / LANES)) {
                to[lane] = from[slot % LANES];
            }
        }
        Moments::new(self.dim, numbers)
    }

    /// The statistics of some users, eight at a time.
    pub fn moments_of(&self, slots: &[usize]) -> Vec<Moments> {
        slots.par_chunks(LANES).map(|slots| self.moments(slots)).collect()
    }

    fn block_mut(&mut self, at: usize) -> &mut [Lane] {
        let (stride, per_chunk) = (self.stride(), self.blocks_per_chunk());
        let chunk = Arc::make_mut(&mut self.chunks[at / per_chunk]);
        &mut chunk[at % per_chunk * stride..][..stride]
    }

    /// One reward for every user: `rewards[i]` for `arms[i]`.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.rewards += rewards.len() as f64;
        let origin = *self.origin.get_or_insert(rewards.first().copied().unwrap_or(0.0));
        for user in self.names.len()..rewards.len() {
            assert_eq!(self.slot_for(user), user);
        }
        self.waiting.push(Round {
            contexts: contexts.iter().flatten().copied().collect(),
            arms: arms.iter().map(|arm| *arm as u32).collect(),
            rewards: rewards.iter().map(|reward| reward - origin).collect(),
        });
        if self.waiting.len() == MOST_WAITING {
            self.settle();
        }
    }

    /// Writes down what is waiting. Whoever looks at statistics does this first.
    pub fn settle(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (dim, memory) = (self.dim, self.memory);
        let (stride, per_chunk) = (self.stride(), self.blocks_per_chunk());
        let waiting = std::mem::take(&mut self.waiting);
        self.chunks.par_iter_mut().enumerate().for_each_init(
            || vec![ZERO; dim + 2],
            |x, (chunk, numbers)| {
                let first = chunk * per_chunk;
                let blocks = Arc::make_mut(numbers).chunks_exact_mut(stride);
                for (at, block) in blocks.enumerate() {
                    for round in &waiting {
                        round.write_down((first + at) * LANES, dim, memory, x, block);
                    }
                }
            },
        );
    }

    /// One reward for one user.
    pub fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.settle();
        let reward = reward - *self.origin.get_or_insert(reward);
        let user = self.slot_for(user);
        let lane = user % LANES;
        let mut x = vec![ZERO; self.dim + 2];
        for (x, value) in x.iter_mut().zip(context.iter().chain([&1.0, &reward])) {
            x[lane] = *value;
        }
        let mut keep = [1.0; LANES];
        keep[lane] = self.memory;
        self.rewards += 1.0;
        add_rewards(self.block_mut(user / LANES), &x, &keep);
    }

    /// n of one user, with what is waiting.
    pub fn rewards_of(&self, user: usize) -> f64 {
        let waiting = self.waiting.iter().filter(|round| user < round.rewards.len()).count();
        self.slot_of(user).map_or(0.0, |slot| self.count(slot)) + waiting as f64
    }
}

widest! {
    /// `numbers ← keep·numbers + xxᵀ`, packed.
    fn add_rewards(numbers: &mut [Lane], x: &[Lane], keep: &Lane) = add_rewards_kernel
}

#[inline(always)]
fn add_rewards_kernel(numbers: &mut [Lane], x: &[Lane], keep: &Lane) {
    let mut at = 0;
    for i in 0..x.len() {
        for j in 0..=i {
            for lane in 0..LANES {
                numbers[at][lane] = keep[lane] * numbers[at][lane] + x[i][lane] * x[j][lane];
            }
            at += 1;
        }
    }
}

