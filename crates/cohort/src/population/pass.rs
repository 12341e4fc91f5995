//! The E step over many users: responsibilities, and the sums over users that the M step needs.
//!
//! A population goes in, sums come out.

use rayon::prelude::*;

use super::e_step::{ComponentLanes, EStep, Messages};
use super::fit::inverse_work;
use super::lanes::{F64x8, LANES, ZERO};
use super::message::{accumulate, message_len};
use super::model::Population;
use super::moments::Moments;
use super::sums::{PassSums, add};
use crate::algebra::packed_len;
use crate::pace::spend;
use crate::simd::{self, Kernel, Simd};

/// Responsibilities below this do not contribute to sums.
pub(super) const NEGLIGIBLE: f64 = 1e-6;
/// Blocks per task; fixed, so that sums are the same on any number of threads.
pub const BLOCKS_PER_TASK: usize = 16;
/// The same where messages exist already: allocating and adding the sums of a task must not take
/// longer than its users.
const BLOCKS_PER_PASS: usize = 64;
/// Work between two pauses of a fit that runs in slices.
const WORK_AT_ONCE: f64 = 1e7;
/// The most tasks whose results wait to be added.
const TASKS_AT_ONCE: usize = 64;

/// Adds Σ ln(1 − share) over eight users to each component's sum.
struct AddLogAbsence<'a> {
    responsibilities: &'a [F64x8],
    sums: &'a mut [f64],
}

impl Kernel for AddLogAbsence<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (one, least) = (simd.splat(1.0), simd.splat(1e-30));
        let mut logs = ZERO;
        for (sum, share) in self.sums.iter_mut().zip(self.responsibilities) {
            let rest = simd.larger(simd.sub(one, simd.load(share)), least);
            simd.store(simd.ln(rest), &mut logs);
            *sum += logs.iter().sum::<f64>();
        }
    }
}

/// The partial sums of one task, kept in lanes where that fits into the cache.
pub(super) struct Accumulator {
    pub sums: PassSums,
    lanes: Vec<F64x8>,
    stride: usize,
    pub classes: [ClassLanes; 2],
    /// Scratch for eight users.
    pub components: Vec<u32>,
    pub ranks: Vec<ComponentLanes>,
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

    /// Adds the statistics of eight users; returns their log evidence and writes their
    /// responsibilities.
    fn add_users(
        &mut self,
        e_step: &EStep,
        users: &Moments,
        messages: &Messages,
        responsibilities: &mut [F64x8],
        whole: bool,
    ) -> F64x8 {
        let logs = e_step.responsibilities(messages, responsibilities);
        let active = users.active();
        if active.contains(&0.0) {
            keep_active(responsibilities, &active);
        }
        self.sums.evidence += (0..LANES).map(|lane| active[lane] * logs[lane]).sum::<f64>();
        e_step.add(messages, (&active, users.rewards()), responsibilities, whole, self);
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

/// The result of an E step, user by user.
pub struct Pass {
    /// The sums.
    pub sums: PassSums,
    /// ln Σ_c π_c p(y_i | c) of every user, block by block.
    pub logs: Vec<F64x8>,
    /// The share of users in component c at `block·components + c`.
    pub responsibilities: Vec<F64x8>,
    /// Σ_i ln(1 − share): the evidence lost by removing each component.
    pub absence: Vec<f64>,
}

impl Pass {
    /// Over users whose messages exist already.
    pub fn over(
        users: &[Moments],
        messages: &[Messages],
        population: &Population,
        whole: bool,
    ) -> Self {
        let e_step = EStep::new(population);
        let count = e_step.components();
        let blocks: Vec<(&Moments, &Messages)> = users.iter().zip(messages).collect();
        let parts: Vec<Self> = (blocks.par_chunks(BLOCKS_PER_PASS))
            .map(|blocks| {
                let mut part = Self::new(population);
                let mut sums = Accumulator::new(population);
                for (users, messages) in blocks {
                    let start = part.responsibilities.len();
                    part.responsibilities.resize(start + count, ZERO);
                    let responsibilities = &mut part.responsibilities[start..];
                    part.logs.push(sums.add_users(
                        &e_step,
                        users,
                        messages,
                        responsibilities,
                        whole,
                    ));
                    simd::run(AddLogAbsence { responsibilities, sums: &mut part.absence });
                }
                part.sums = sums.total();
                part
            })
            .collect();
        let mut whole = Self::new(population);
        for part in parts {
            whole.sums.add(&part.sums);
            whole.logs.extend(part.logs);
            whole.responsibilities.extend(part.responsibilities);
            add(&mut whole.absence, &part.absence);
        }
        whole
    }

    /// The sums alone, of users whose messages exist already.
    pub fn sums_over(
        users: &[Moments],
        messages: &[Messages],
        population: &Population,
    ) -> PassSums {
        let e_step = EStep::new(population);
        let tasks = users.par_chunks(BLOCKS_PER_PASS).zip(messages.par_chunks(BLOCKS_PER_PASS));
        let parts: Vec<PassSums> = tasks
            .map(|(users, messages)| {
                let mut sums = Accumulator::new(population);
                let mut responsibilities = vec![ZERO; e_step.components()];
                for (users, messages) in users.iter().zip(messages) {
                    sums.add_users(&e_step, users, messages, &mut responsibilities, false);
                }
                sums.total()
            })
            .collect();
        let mut whole = PassSums::new(population);
        parts.iter().for_each(|part| whole.add(part));
        whole
    }

    /// Σ ln p(y_i) of users.
    pub fn evidence_of(users: &[Moments], e_step: &EStep) -> f64 {
        spend(2.0 * users.len() as f64 * inverse_work(e_step.population().features() + 1));
        let parts: Vec<f64> = (users.par_chunks(BLOCKS_PER_TASK))
            .map(|users| {
                let (mut messages, mut responsibilities) =
                    (e_step.room(), vec![ZERO; e_step.components()]);
                let mut evidence = 0.0;
                for users in users {
                    e_step.write(users, &mut messages);
                    let (logs, active) =
                        (e_step.responsibilities(&messages, &mut responsibilities), users.active());
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
            responsibilities: Vec::new(),
            absence: vec![0.0; population.components.len()],
        }
    }
}

fn keep_active(responsibilities: &mut [F64x8], active: &F64x8) {
    for share in responsibilities {
        for lane in 0..LANES {
            share[lane] *= active[lane];
        }
    }
}

impl PassSums {
    /// Over blocks of users that are computed one after the other; only the sums are kept.
    pub fn over(
        blocks: usize,
        moments: &(impl Fn(usize) -> Moments + Sync),
        population: &Population,
    ) -> Self {
        let e_step = EStep::new(population);
        let part = |first: usize| {
            let mut sums = Accumulator::new(population);
            let mut messages = e_step.room();
            let mut responsibilities = vec![ZERO; e_step.components()];
            for at in first..blocks.min(first + BLOCKS_PER_TASK) {
                let users = moments(at);
                e_step.write(&users, &mut messages);
                sums.add_users(&e_step, &users, &messages, &mut responsibilities, false);
            }
            sums.total()
        };
        let mut whole = Self::new(population);
        let firsts: Vec<usize> = (0..blocks).step_by(BLOCKS_PER_TASK).collect();
        // In batches: partial sums of very many tasks would take more memory than the users.
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
