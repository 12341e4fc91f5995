//! Expectation: which users belong where, and the sums over users that follow from it.
//!
//! A population goes in, sums come out. Sums add up over blocks of users, over threads and over
//! machines; their size does not depend on how many users there are.

use rayon::prelude::*;

use super::algebra::times;
use super::lanes::{LANES, Lane, ZERO, each};
use super::message::{accumulate, likelihood, message_len, probe, write};
use super::model::{Groups, Population};
use super::moments::Moments;
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;

/// Shares below this add nothing to sums.
const NEGLIGIBLE: f64 = 1e-6;
/// Shares below this say nothing about variances.
const SLIGHT: f64 = 0.01;
/// Components per user that say something about variances, at most.
const RANKS: usize = 32;
/// Blocks a task works on; fixed, so that sums are the same on any number of threads.
pub const BLOCKS_PER_TASK: usize = 16;
/// Tasks whose results wait to be added up, at most.
const TASKS_AT_ONCE: usize = 64;

/// What users say about one component, each in the share to which it belongs to it.
#[derive(Clone, Debug)]
pub struct Sums {
    dim: usize,
    /// How many users, in parts.
    pub users: f64,
    /// How many rewards.
    pub rewards: f64,
    /// Σ of users' messages: information on the centre, pull, log, square.
    pub message: Vec<f64>,
}

/// What users say about the variances of one class of components.
#[derive(Clone, Debug)]
pub struct ClassSums {
    /// Σ g gᵀ packed, g = pull − information·μ; only its diagonal unless asked for.
    pub outer: Vec<f64>,
    /// Σ over users of squared entries of the information, by pairs of groups, packed.
    pub pairs: Vec<f64>,
    /// The diagonal of Σ information, where it is not that of a component's sums.
    pub trace: Vec<f64>,
}

/// The sums of all components and classes.
#[derive(Clone, Debug)]
pub struct PassSums {
    /// One for each component.
    pub components: Vec<Sums>,
    /// The population at large, and cohorts.
    pub classes: [ClassSums; 2],
    /// Σ_i ln Σ_c π_c p(y_i | c).
    pub evidence: f64,
    /// Users with rewards.
    pub users: f64,
    /// Σ of the probability of every user's likeliest component.
    pub certain: f64,
}

impl Sums {
    /// Of nobody.
    pub fn new(dim: usize) -> Self {
        Self { dim, users: 0.0, rewards: 0.0, message: vec![0.0; message_len(dim)] }
    }

    /// Σ information.
    pub fn information(&self) -> &[f64] {
        &self.message[..packed_len(self.dim)]
    }

    /// Σ pull.
    pub fn pull(&self) -> &[f64] {
        &self.message[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// Σ yᵀK⁻¹y.
    pub fn square(&self) -> f64 {
        self.message[self.message.len() - 1]
    }

    /// Σ information as a matrix.
    pub fn information_matrix(&self) -> Symmetric {
        Symmetric::from_packed(self.dim, self.information().to_vec())
    }

    /// What others say, too.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        self.rewards += other.rewards;
        add(&mut self.message, &other.message);
    }
}

impl ClassSums {
    fn new(dim: usize, groups: usize) -> Self {
        Self {
            outer: vec![0.0; packed_len(dim)],
            pairs: vec![0.0; packed_len(groups)],
            trace: vec![0.0; dim],
        }
    }

    /// What others say, too.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.outer, &other.outer);
        add(&mut self.pairs, &other.pairs);
        add(&mut self.trace, &other.trace);
    }
}

impl PassSums {
    /// Of nobody.
    pub fn new(population: &Population) -> Self {
        let (dim, groups) = (population.features() + 1, population.groups().len());
        let class = ClassSums::new(dim, groups);
        Self {
            components: vec![Sums::new(dim); population.components.len()],
            classes: [class.clone(), class],
            evidence: 0.0,
            users: 0.0,
            certain: 0.0,
        }
    }

    /// What other users say, too.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.components.iter_mut().zip(&other.components) {
            a.add(b);
        }
        for (a, b) in self.classes.iter_mut().zip(&other.classes) {
            a.add(b);
        }
        self.evidence += other.evidence;
        self.users += other.users;
        self.certain += other.certain;
    }
}

fn add(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}

/// The messages of eight users, one for each class of components.
pub type Messages = [Vec<Lane>; 2];

/// A population prepared for looking at users.
pub struct Lens<'a> {
    population: &'a Population,
    groups: Groups,
    probes: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
}

impl<'a> Lens<'a> {
    /// For a population.
    pub fn new(population: &'a Population) -> Self {
        Self {
            population,
            groups: population.groups(),
            probes: population.components.iter().map(probe).collect(),
            log_weights: population.components.iter().map(|c| c.weight.ln()).collect(),
        }
    }

    /// How many components there are.
    pub fn components(&self) -> usize {
        self.probes.len()
    }

    /// Room for messages: none for cohorts where there are no cohorts.
    pub fn room(&self) -> Messages {
        let len = message_len(self.population.features() + 1);
        let cohorts = if self.components() > 1 { len } else { 0 };
        [vec![ZERO; len], vec![ZERO; cohorts]]
    }

    /// The messages of eight users.
    pub fn write(&self, users: &Moments, messages: &mut Messages) {
        let Population { variances, noise, .. } = self.population;
        for (message, variances) in messages.iter_mut().zip(variances) {
            if !message.is_empty() {
                write(users, variances, *noise, message);
            }
        }
    }

    /// The shares of eight users in every component; returns the logs of their evidence.
    pub fn shares(&self, messages: &Messages, shares: &mut [Lane]) -> Lane {
        for (c, share) in shares.iter_mut().enumerate() {
            likelihood(&messages[c.min(1)], &self.probes[c], share);
            for lane in 0..LANES {
                share[lane] += self.log_weights[c];
            }
        }
        softmax(shares)
    }

    /// Adds what eight users say to sums. `whole` asks for all of the outer products.
    fn add(
        &self,
        messages: &Messages,
        users: (&Lane, &Lane),
        shares: &[Lane],
        whole: bool,
        to: &mut Accumulator,
    ) {
        let (active, rewards) = users;
        for (c, share) in shares.iter().enumerate() {
            let most = share.iter().copied().fold(0.0, f64::max);
            if most > NEGLIGIBLE {
                let sums = &mut to.sums.components[c];
                sums.users += share.iter().sum::<f64>();
                sums.rewards += share.iter().zip(rewards).map(|(s, n)| s * n).sum::<f64>();
                to.add(c, share, &messages[c.min(1)]);
            }
        }
        let sums = &mut to.sums;
        sums.users += active.iter().sum::<f64>();
        for lane in 0..LANES {
            sums.certain += shares.iter().map(|share| share[lane]).fold(0.0, f64::max);
        }
        let count = shares.len();
        self.add_class(messages, 0, &shares[..1], whole, &mut sums.classes[0]);
        if count > 1 {
            self.add_class(messages, 1, &shares[1..], whole, &mut sums.classes[1]);
        }
    }

    fn add_class(
        &self,
        messages: &Messages,
        class: usize,
        shares: &[Lane],
        whole: bool,
        sums: &mut ClassSums,
    ) {
        let dim = self.population.features() + 1;
        let message = &messages[class];
        let total: Lane = each(|lane| shares.iter().map(|share| share[lane]).sum());
        if total.iter().all(|share| *share < SLIGHT) {
            return;
        }
        let mut pairs = vec![ZERO; sums.pairs.len()];
        add_pairs(&message[..packed_len(dim)], &self.groups.of_coordinates(), &mut pairs);
        for (sum, pair) in sums.pairs.iter_mut().zip(&pairs) {
            *sum += (0..LANES).map(|lane| total[lane] * pair[lane]).sum::<f64>();
        }
        let mut taken = [usize::MAX; LANES];
        let (mut mean, mut g) = (vec![ZERO; dim], vec![ZERO; dim]);
        let mut before = [f64::INFINITY; LANES];
        for _ in 0..RANKS {
            // The component with the next smaller share, lane by lane.
            let mut share = ZERO;
            for lane in 0..LANES {
                let mut best = (usize::MAX, 0.0);
                for (c, shares) in shares.iter().enumerate() {
                    let s = shares[lane];
                    let later = s < before[lane] || (s == before[lane] && c > taken[lane]);
                    if s > best.1 && later {
                        best = (c, s);
                    }
                }
                if best.0 == usize::MAX || best.1 < SLIGHT {
                    before[lane] = 0.0;
                    continue;
                }
                (taken[lane], before[lane], share[lane]) = (best.0, best.1, best.1);
                let component = &self.population.components[class + best.0];
                for (lanes, value) in mean.iter_mut().zip(&component.mean) {
                    lanes[lane] = *value;
                }
            }
            if share.iter().all(|share| *share == 0.0) {
                break;
            }
            times(&message[..packed_len(dim)], &mean, &mut g);
            for (g, pull) in g.iter_mut().zip(&message[packed_len(dim)..]) {
                *g = each(|lane| pull[lane] - g[lane]);
            }
            if whole {
                add_outer(&share, &g, &mut sums.outer);
            } else {
                for (i, g) in g.iter().enumerate() {
                    let squares = (0..LANES).map(|lane| share[lane] * g[lane] * g[lane]);
                    sums.outer[packed_len(i) + i] += squares.sum::<f64>();
                }
            }
        }
    }
}

widest! {
    fn add_pairs(information: &[Lane], groups: &[usize], pairs: &mut [Lane]) = add_pairs_kernel
}

#[inline(always)]
fn add_pairs_kernel(information: &[Lane], groups: &[usize], pairs: &mut [Lane]) {
    let mut at = 0;
    for (i, &p) in groups.iter().enumerate() {
        for (j, &q) in groups[..=i].iter().enumerate() {
            // Entries off the diagonal stand for two. Within one group both count, between two
            // groups the pair (p, q) has one of them, and (q, p), which is not kept, the other.
            let times = if p == q && i != j { 2.0 } else { 1.0 };
            let entry = &information[at];
            let pair = &mut pairs[packed_len(p) + q];
            for lane in 0..LANES {
                pair[lane] += times * entry[lane] * entry[lane];
            }
            at += 1;
        }
    }
}

widest! {
    fn add_outer(share: &Lane, g: &[Lane], outer: &mut [f64]) = add_outer_kernel
}

#[inline(always)]
fn add_outer_kernel(share: &Lane, g: &[Lane], outer: &mut [f64]) {
    let mut at = 0;
    for i in 0..g.len() {
        let scaled: Lane = each(|lane| share[lane] * g[i][lane]);
        for other in &g[..=i] {
            let p: Lane = each(|lane| scaled[lane] * other[lane]);
            outer[at] += ((p[0] + p[4]) + (p[1] + p[5])) + ((p[2] + p[6]) + (p[3] + p[7]));
            at += 1;
        }
    }
}

/// Logs to shares, user by user; returns the logs of their sums.
pub(super) fn softmax(logs: &mut [Lane]) -> Lane {
    let mut most = [f64::NEG_INFINITY; LANES];
    for log in logs.iter() {
        for lane in 0..LANES {
            most[lane] = most[lane].max(log[lane]);
        }
    }
    let mut total = ZERO;
    for log in logs.iter_mut() {
        for lane in 0..LANES {
            let below = log[lane] - most[lane];
            log[lane] = if below > -50.0 { below.exp() } else { 0.0 };
            total[lane] += log[lane];
        }
    }
    for share in logs.iter_mut() {
        for lane in 0..LANES {
            share[lane] /= total[lane];
        }
    }
    each(|lane| most[lane] + total[lane].ln())
}

/// Sums of one task while they are being made: eight users at a time where that fits into the cache.
struct Accumulator {
    sums: PassSums,
    lanes: Vec<Lane>,
    stride: usize,
}

/// Lanes of an accumulator at most.
const MOST_LANES: usize = 1 << 13;

impl Accumulator {
    fn new(population: &Population) -> Self {
        let stride = message_len(population.features() + 1);
        let wanted = stride * population.components.len();
        let lanes = if wanted <= MOST_LANES { vec![ZERO; wanted] } else { Vec::new() };
        Self { sums: PassSums::new(population), lanes, stride }
    }

    fn add(&mut self, component: usize, share: &Lane, message: &[Lane]) {
        let some = share.iter().filter(|share| **share > NEGLIGIBLE).count();
        if some > 2 && !self.lanes.is_empty() {
            let to = &mut self.lanes[component * self.stride..][..self.stride];
            add_lanes(to, share, message);
        } else {
            accumulate(&mut self.sums.components[component].message, share, message, NEGLIGIBLE);
        }
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
        self.sums
    }
}

widest! {
    fn add_lanes(sums: &mut [Lane], share: &Lane, message: &[Lane]) = add_lanes_kernel
}

#[inline(always)]
fn add_lanes_kernel(sums: &mut [Lane], share: &Lane, message: &[Lane]) {
    for (sum, message) in sums.iter_mut().zip(message) {
        for lane in 0..LANES {
            sum[lane] += share[lane] * message[lane];
        }
    }
}

/// What a pass over some users finds, user by user.
pub struct Pass {
    /// The sums.
    pub sums: PassSums,
    /// ln Σ_c π_c p(y_i | c) of every user, block by block.
    pub logs: Vec<Lane>,
    /// The share of users in component c at `block·components + c`.
    pub shares: Vec<Lane>,
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
        let parts: Vec<Self> = (blocks.par_chunks(BLOCKS_PER_TASK))
            .map(|blocks| {
                let mut part = Self::new(population);
                let mut sums = Accumulator::new(population);
                for (users, messages) in blocks {
                    let start = part.shares.len();
                    part.shares.resize(start + count, ZERO);
                    let shares = &mut part.shares[start..];
                    let logs = lens.shares(messages, shares);
                    let active = users.active();
                    keep_active(shares, &active);
                    for lane in 0..LANES {
                        sums.sums.evidence += active[lane] * logs[lane];
                    }
                    for (absence, share) in part.absence.iter_mut().zip(shares.iter()) {
                        // A product of eight for one logarithm.
                        let rest = share.iter().map(|share| (1.0 - share).max(1e-30));
                        *absence += rest.product::<f64>().ln();
                    }
                    part.logs.push(logs);
                    let users = (&active, users.rewards());
                    lens.add(messages, users, &part.shares[start..], whole, &mut sums);
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

    /// Σ ln p(y_i) of users.
    pub fn evidence_of(users: &[Moments], lens: &Lens) -> f64 {
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

fn keep_active(shares: &mut [Lane], active: &Lane) {
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
                let logs = lens.shares(&messages, &mut shares);
                let active = users.active();
                keep_active(&mut shares, &active);
                for lane in 0..LANES {
                    sums.sums.evidence += active[lane] * logs[lane];
                }
                lens.add(&messages, (&active, users.rewards()), &shares, false, &mut sums);
            }
            sums.total()
        };
        let mut whole = Self::new(population);
        let firsts: Vec<usize> = (0..blocks).step_by(BLOCKS_PER_TASK).collect();
        // Not all at once: the parts of very many users would take more memory than the users.
        for some in firsts.chunks(TASKS_AT_ONCE) {
            let parts: Vec<Self> = some.par_iter().map(|at| part(*at)).collect();
            parts.iter().for_each(|part| whole.add(part));
        }
        whole
    }
}
