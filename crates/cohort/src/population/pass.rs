//! Expectation: which users belong where, and the sums over users that follow from it.
//!
//! A population goes in, sums come out.

use rayon::prelude::*;

use super::fit::inverse_work;
use super::lanes::{F64x8, LANES, ZERO};
use super::lens::{Lens, Listed, Messages};
use super::message::{accumulate, message_len};
use super::model::Population;
use super::moments::Moments;
use super::sums::{PassSums, add};
use crate::linear::symmetric::packed_len;
use crate::pace::spend;
use crate::simd::{self, Kernel, Simd};

/// Shares below this add nothing to sums.
pub(super) const NEGLIGIBLE: f64 = 1e-6;
/// Blocks a task works on; fixed, so that sums are the same on any number of threads.
pub const BLOCKS_PER_TASK: usize = 16;
/// The same where messages are at hand: making and adding up the sums of a task must not take longer than its users.
const BLOCKS_PER_PASS: usize = 64;
/// Work between two pauses, where somebody waits.
const WORK_AT_ONCE: f64 = 1e7;
/// Tasks whose results wait to be added up, at most.
const TASKS_AT_ONCE: usize = 64;

/// Adds Σ ln(1 − share) over eight users to each component's sum.
struct Absence<'a> {
    shares: &'a [F64x8],
    sums: &'a mut [f64],
}

impl Kernel for Absence<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (one, least) = (simd.splat(1.0), simd.splat(1e-30));
        let mut logs = ZERO;
        for (sum, share) in self.sums.iter_mut().zip(self.shares) {
            let rest = simd.larger(simd.sub(one, simd.load(share)), least);
            simd.store(simd.ln(rest), &mut logs);
            *sum += logs.iter().sum::<f64>();
        }
    }
}

/// Sums of one task while they are being made: eight users at a time where that fits into the cache.
pub(super) struct Accumulator {
    pub sums: PassSums,
    lanes: Vec<F64x8>,
    stride: usize,
    pub classes: [ClassLanes; 2],
    /// Room for what is found in eight users.
    pub components: Vec<u32>,
    pub ranks: Vec<Listed>,
}

/// [`ClassSums`](super::sums::ClassSums) of eight users at a time.
#[derive(Clone)]
pub(super) struct ClassLanes {
    /// Σ g², coordinate by coordinate.
    pub squares: Vec<F64x8>,
    pub pairs: Vec<F64x8>,
}

/// Lanes of an accumulator at most.
const MOST_LANES: usize = 1 << 13;

impl Accumulator {
    fn new(population: &Population) -> Self {
        let stride = message_len(population.features() + 1);
        let wanted = stride * population.components.len();
        let lanes = if wanted <= MOST_LANES { vec![ZERO; wanted] } else { Vec::new() };
        let sums = PassSums::new(population);
        let squares = vec![ZERO; population.features() + 1];
        let class = ClassLanes { squares, pairs: vec![ZERO; sums.classes[0].pairs.len()] };
        let classes = [class.clone(), class];
        Self { sums, lanes, stride, classes, components: Vec::new(), ranks: Vec::new() }
    }

    pub fn add(&mut self, component: usize, share: &F64x8, message: &[F64x8]) {
        let some = share.iter().filter(|share| **share > NEGLIGIBLE).count();
        if some > 2 && !self.lanes.is_empty() {
            let to = &mut self.lanes[component * self.stride..][..self.stride];
            add_lanes(to, share, message);
        } else {
            accumulate(&mut self.sums.components[component].message, share, message, NEGLIGIBLE);
        }
    }

    /// Adds what eight users say; returns the logs of their evidence, and leaves their shares.
    fn add_users(
        &mut self,
        lens: &Lens,
        users: &Moments,
        messages: &Messages,
        shares: &mut [F64x8],
        whole: bool,
    ) -> F64x8 {
        let logs = lens.shares(messages, shares);
        let active = users.active();
        if active.contains(&0.0) {
            keep_active(shares, &active);
        }
        self.sums.evidence += (0..LANES).map(|lane| active[lane] * logs[lane]).sum::<f64>();
        lens.add(messages, (&active, users.rewards()), shares, whole, self);
        logs
    }

    fn total(mut self) -> PassSums {
        if !self.lanes.is_empty() {
            let all = self.lanes.chunks_exact(self.stride);
            for (sums, lanes) in self.sums.components.iter_mut().zip(all) {
                for (sum, lane) in sums.message.iter_mut().zip(lanes) {
                    *sum += lane.iter().sum::<f64>();
                }
            }
        }
        for (sums, lanes) in self.sums.classes.iter_mut().zip(&self.classes) {
            for (j, squares) in lanes.squares.iter().enumerate() {
                sums.outer[packed_len(j) + j] += squares.iter().sum::<f64>();
            }
            for (sum, pair) in sums.pairs.iter_mut().zip(&lanes.pairs) {
                *sum += pair.iter().sum::<f64>();
            }
        }
        self.sums
    }
}

fn add_lanes(sums: &mut [F64x8], share: &F64x8, message: &[F64x8]) {
    simd::run(AddLanes { sums, share, message });
}

struct AddLanes<'a> {
    sums: &'a mut [F64x8],
    share: &'a F64x8,
    message: &'a [F64x8],
}

impl Kernel for AddLanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let share = simd.load(self.share);
        for (sum, message) in self.sums.iter_mut().zip(self.message) {
            simd.store(simd.mul_add(share, simd.load(message), simd.load(sum)), sum);
        }
    }
}

/// What a pass over some users finds, user by user.
pub struct Pass {
    /// The sums.
    pub sums: PassSums,
    /// ln Σ_c π_c p(y_i | c) of every user, block by block.
    pub logs: Vec<F64x8>,
    /// The share of users in component c at `block·components + c`.
    pub shares: Vec<F64x8>,
    /// Σ_i ln(1 − share): what every component's absence would cost.
    pub absence: Vec<f64>,
}

impl Pass {
    /// Over users whose messages are at hand.
    pub fn over(
        users: &[Moments],
        messages: &[Messages],
        population: &Population,
        whole: bool,
    ) -> Self {
        let lens = Lens::new(population);
        let count = lens.components();
        let blocks: Vec<(&Moments, &Messages)> = users.iter().zip(messages).collect();
        let parts: Vec<Self> = (blocks.par_chunks(BLOCKS_PER_PASS))
            .map(|blocks| {
                let mut part = Self::new(population);
                let mut sums = Accumulator::new(population);
                for (users, messages) in blocks {
                    let start = part.shares.len();
                    part.shares.resize(start + count, ZERO);
                    let shares = &mut part.shares[start..];
                    part.logs.push(sums.add_users(&lens, users, messages, shares, whole));
                    simd::run(Absence { shares, sums: &mut part.absence });
                }
                part.sums = sums.total();
                part
            })
            .collect();
        let mut whole = Self::new(population);
        for part in parts {
            whole.sums.add(&part.sums);
            whole.logs.extend(part.logs);
            whole.shares.extend(part.shares);
            add(&mut whole.absence, &part.absence);
        }
        whole
    }

    /// The sums alone, of users whose messages are at hand.
    pub fn sums_over(
        users: &[Moments],
        messages: &[Messages],
        population: &Population,
    ) -> PassSums {
        let lens = Lens::new(population);
        let tasks = users.par_chunks(BLOCKS_PER_PASS).zip(messages.par_chunks(BLOCKS_PER_PASS));
        let parts: Vec<PassSums> = tasks
            .map(|(users, messages)| {
                let mut sums = Accumulator::new(population);
                let mut shares = vec![ZERO; lens.components()];
                for (users, messages) in users.iter().zip(messages) {
                    sums.add_users(&lens, users, messages, &mut shares, false);
                }
                sums.total()
            })
            .collect();
        let mut whole = PassSums::new(population);
        parts.iter().for_each(|part| whole.add(part));
        whole
    }

    /// Σ ln p(y_i) of users.
    pub fn evidence_of(users: &[Moments], lens: &Lens) -> f64 {
        spend(2.0 * users.len() as f64 * inverse_work(lens.population().features() + 1));
        let parts: Vec<f64> = (users.par_chunks(BLOCKS_PER_TASK))
            .map(|users| {
                let (mut messages, mut shares) = (lens.room(), vec![ZERO; lens.components()]);
                let mut evidence = 0.0;
                for users in users {
                    lens.write(users, &mut messages);
                    let (logs, active) = (lens.shares(&messages, &mut shares), users.active());
                    evidence += (0..LANES).map(|lane| active[lane] * logs[lane]).sum::<f64>();
                }
                evidence
            })
            .collect();
        parts.iter().sum()
    }

    fn new(population: &Population) -> Self {
        Self {
            sums: PassSums::new(population),
            logs: Vec::new(),
            shares: Vec::new(),
            absence: vec![0.0; population.components.len()],
        }
    }
}

fn keep_active(shares: &mut [F64x8], active: &F64x8) {
    for share in shares {
        for lane in 0..LANES {
            share[lane] *= active[lane];
        }
    }
}

impl PassSums {
    /// Over blocks of users that are worked out one after the other: nothing is kept but the sums.
    pub fn over(
        blocks: usize,
        moments: &(impl Fn(usize) -> Moments + Sync),
        population: &Population,
    ) -> Self {
        let lens = Lens::new(population);
        let part = |first: usize| {
            let mut sums = Accumulator::new(population);
            let mut messages = lens.room();
            let mut shares = vec![ZERO; lens.components()];
            for at in first..blocks.min(first + BLOCKS_PER_TASK) {
                let users = moments(at);
                lens.write(&users, &mut messages);
                sums.add_users(&lens, &users, &messages, &mut shares, false);
            }
            sums.total()
        };
        let mut whole = Self::new(population);
        let firsts: Vec<usize> = (0..blocks).step_by(BLOCKS_PER_TASK).collect();
        // Not all at once: the parts of very many users would take more memory than the users.
        let work = 2.0 * BLOCKS_PER_TASK as f64 * inverse_work(population.features() + 1);
        let at_once = ((WORK_AT_ONCE / work) as usize).clamp(2, TASKS_AT_ONCE);
        for some in firsts.chunks(at_once) {
            spend(work * some.len() as f64);
            let parts: Vec<Self> = some.par_iter().map(|at| part(*at)).collect();
            parts.iter().for_each(|part| whole.add(part));
        }
        whole
    }
}
