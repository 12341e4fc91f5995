//! All that was ever seen of every user: V = Σxxᵀ, b = Σxy, Σy², Σx, Σy and n, in blocks of eight
//! users. Sums are never thrown away and add up; with Σx and Σy among them, rewards can be counted
//! from any level afterwards.
//!
//! A copy of a ledger shares its numbers with it until one of the two learns, and then only what is
//! learned about is copied: a refit or a snapshot takes a copy and works on it beside decisions.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rayon::prelude::*;

use super::lanes::{LANES, Lane, ZERO};
use super::spectrum::Spectrum;
use crate::linear::symmetric::packed_len;
use crate::linear::{Statistics, Symmetric};
use crate::{Arm, Contexts, Error, saved};

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

/// The statistics of eight users.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    dim: usize,
    /// Σ(x, y, 1)(x, y, 1)ᵀ packed, which is V | b, Σy² | Σx, Σy, n.
    numbers: &'a [Lane],
}

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
            x[dim][lane] = self.rewards[first + lane];
            x[dim + 1][lane] = 1.0;
        }
        add_rewards(block, x, &keep);
    }
}

impl<'a> Record<'a> {
    /// d.
    pub fn dim(self) -> usize {
        self.dim
    }

    /// V, packed.
    pub fn gram(self) -> &'a [Lane] {
        &self.numbers[..packed_len(self.dim)]
    }

    /// b.
    pub fn moment(self) -> &'a [Lane] {
        &self.numbers[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// Σy².
    pub fn squares(self) -> &'a Lane {
        &self.numbers[packed_len(self.dim) + self.dim]
    }

    /// Σx.
    pub fn contexts(self) -> &'a [Lane] {
        &self.numbers[packed_len(self.dim + 1)..packed_len(self.dim + 1) + self.dim]
    }

    /// Σy.
    pub fn total(self) -> &'a Lane {
        &self.numbers[self.numbers.len() - 2]
    }

    /// n.
    pub fn rewards(self) -> &'a Lane {
        &self.numbers[self.numbers.len() - 1]
    }
}

impl Ledger {
    /// Of users of whom nothing was seen. `half_life` is in a user's own rewards; without one
    /// everything counts for ever.
    pub fn new(users: usize, dim: usize, half_life: Option<f64>) -> Self {
        let memory = half_life.map_or(1.0, |rewards| 0.5_f64.powf(1.0 / rewards));
        let mut ledger =
            Self { dim, users: 0, chunks: Vec::new(), rewards: 0.0, memory, waiting: Vec::new() };
        ledger.grow(users);
        ledger
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

    /// One of the blocks, settled.
    pub fn block(&self, at: usize) -> Record<'_> {
        let (stride, per_chunk) = (self.stride(), self.blocks_per_chunk());
        let numbers = &self.chunks[at / per_chunk][at % per_chunk * stride..][..stride];
        Record { dim: self.dim, numbers }
    }

    fn block_mut(&mut self, at: usize) -> &mut [Lane] {
        let (stride, per_chunk) = (self.stride(), self.blocks_per_chunk());
        let chunk = Arc::make_mut(&mut self.chunks[at / per_chunk]);
        &mut chunk[at % per_chunk * stride..][..stride]
    }

    /// One reward for every user: `rewards[i]` for `arms[i]`.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.rewards += rewards.len() as f64;
        self.waiting.push(Round {
            contexts: contexts.iter().flatten().copied().collect(),
            arms: arms.iter().map(|arm| *arm as u32).collect(),
            rewards: rewards.to_vec(),
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
        let lane = user % LANES;
        let mut x = vec![ZERO; self.dim + 2];
        for (x, value) in x.iter_mut().zip(context.iter().chain([&reward, &1.0])) {
            x[lane] = *value;
        }
        let mut keep = [1.0; LANES];
        keep[lane] = self.memory;
        self.rewards += 1.0;
        add_rewards(self.block_mut(user / LANES), &x, &keep);
    }

    /// Writes all sums.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.waiting.is_empty() {
            let mut settled = self.clone();
            settled.settle();
            return settled.save(out);
        }
        saved::write_count(out, self.dim)?;
        saved::write_numbers(out, &[self.memory, self.rewards])?;
        saved::write_count(out, self.users)?;
        for at in 0..self.blocks() {
            saved::write_numbers(out, self.block(at).numbers.as_flattened())?;
        }
        Ok(())
    }

    /// Refuses another dimension and another half-life: sums of one are none of the other.
    pub fn expect_like(&self, found: &Self, what: &'static str) -> Result<(), Error> {
        saved::expect(what, "dimension", found.dim, self.dim)?;
        saved::expect(what, "memory (of half_life)", found.memory, self.memory)
    }

    /// The ledger that was saved; it must be of the same dimension and half-life as this one.
    pub fn load(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let dim = saved::read_count(from, what)?;
        let mut numbers = [0.0; 2];
        saved::read_numbers(from, what, &mut numbers)?;
        let [memory, rewards] = numbers;
        let (chunks, waiting) = (Vec::new(), Vec::new());
        let mut ledger = Self { dim, users: 0, chunks, rewards, memory, waiting };
        self.expect_like(&ledger, what)?;
        let users = saved::read_count(from, what)?;
        for first in (0..users).step_by(LANES) {
            ledger.grow(users.min(first + LANES));
            let numbers = ledger.block_mut(first / LANES);
            saved::read_numbers(from, what, numbers.as_flattened_mut())?;
        }
        Ok(ledger)
    }

    /// n of one user, with what is waiting.
    pub fn rewards_of(&self, user: usize) -> f64 {
        let waiting = self.waiting.iter().filter(|round| user < round.rewards.len()).count();
        self.block(user / LANES).rewards()[user % LANES] + waiting as f64
    }

    /// One eigendecomposition per user, of rewards counted from a level.
    pub fn spectra(&self, level: f64) -> Vec<Spectrum> {
        ((0..self.blocks()).into_par_iter().with_min_len(BLOCKS_PER_TASK))
            .map(|at| self.spectrum(at, level))
            .collect()
    }

    /// The spectra of one block.
    pub fn spectrum(&self, at: usize, level: f64) -> Spectrum {
        Spectrum::new(self.block(at), level)
    }

    /// The spectra of a user's block, and its place there.
    pub fn spectrum_of(&self, user: usize, level: f64) -> (Spectrum, usize) {
        (self.spectrum(user / LANES, level), user % LANES)
    }

    /// The statistics of one user, its rewards counted from a level.
    pub fn statistics_from(&self, user: usize, level: f64) -> Statistics {
        let (block, lane) = (self.block(user / LANES), user % LANES);
        let mut statistics = self.statistics(user);
        for (moment, x) in statistics.moment.iter_mut().zip(block.contexts()) {
            *moment -= level * x[lane];
        }
        let total = block.total()[lane];
        statistics.squares -= level * (2.0 * total - level * statistics.rewards);
        statistics.squares = statistics.squares.max(0.0);
        statistics
    }

    /// The statistics of one user.
    pub fn statistics(&self, user: usize) -> Statistics {
        let (block, lane) = (self.block(user / LANES), user % LANES);
        let of = |lanes: &[Lane]| lanes.iter().map(|numbers| numbers[lane]).collect::<Vec<f64>>();
        Statistics {
            gram: Symmetric::from_packed(self.dim, of(block.gram())),
            moment: of(block.moment()),
            squares: block.squares()[lane],
            rewards: block.rewards()[lane],
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_turns_end_in_the_same_statistics() {
        let values = [0.5, -0.2, 0.1, 0.3, 0.9, -0.4];
        let contexts = Contexts::new(&values, 2).unwrap();
        let (mut rounds, mut turns) = (Ledger::new(11, 2, None), Ledger::new(0, 2, None));
        let mut plain = vec![Statistics::new(2); 11];
        for t in 0..20 {
            let arms: Vec<Arm> = (0..11).map(|user| (user * t) % 3).collect();
            let rewards: Vec<f64> = (0..11).map(|user| (user + t) as f64 * 0.1).collect();
            rounds.learn(&contexts, &arms, &rewards);
            for user in 0..11 {
                turns.grow(user + 1);
                turns.learn_one(user, contexts.arm(arms[user]), rewards[user]);
                plain[user].learn(contexts.arm(arms[user]), rewards[user]);
            }
        }
        rounds.settle();
        for user in 0..11 {
            assert_eq!(rounds.statistics(user), plain[user]);
            assert_eq!(turns.statistics(user), plain[user]);
        }
    }

    #[test]
    fn a_copy_shares_all_but_what_is_learned_after_it() {
        let mut ledger = Ledger::new(5000, 3, None);
        let copy = ledger.clone();
        ledger.learn_one(4321, &[0.1, 0.2, 0.3], 1.0);
        let own = ledger.chunks.iter().zip(&copy.chunks).filter(|(a, b)| !Arc::ptr_eq(a, b));
        assert_eq!(own.count(), 1);
        assert_eq!((ledger.rewards_of(4321), copy.rewards_of(4321)), (1.0, 0.0));
    }

    #[test]
    fn a_half_life_halves() {
        let values = [1.0];
        let contexts = Contexts::new(&values, 1).unwrap();
        let mut ledger = Ledger::new(1, 1, Some(3.0));
        ledger.learn(&contexts, &[0], &[8.0]);
        for _ in 0..3 {
            ledger.learn(&contexts, &[0], &[0.0]);
        }
        ledger.settle();
        assert!((ledger.statistics(0).moment[0] - 4.0).abs() < 1e-12);
    }
}
