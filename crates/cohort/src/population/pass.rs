//! Expectation: which users belong where, and the sums over users that follow from it.
//!
//! A population goes in, sums come out. Sums add up over blocks of users, over threads and over
//! machines; their size does not depend on how many users there are.

use rayon::prelude::*;

use super::algebra::times;
use super::fit::inverse_work;
use super::lanes::{F64x8, LANES, ZERO, each};
use super::message::{Prepared, accumulate, likelihoods, message_len, probe, write};
use super::model::Population;
use super::moments::Moments;
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;
use crate::pace::spend;
use crate::simd::{self, Kernel, Simd};

/// Shares below this add nothing to sums.
const NEGLIGIBLE: f64 = 1e-6;
/// Shares below this say nothing about variances.
const SLIGHT: f64 = 0.01;
/// Components per user that say something about variances, at most.
const RANKS: usize = 32;
/// Blocks a task works on; fixed, so that sums are the same on any number of threads.
pub const BLOCKS_PER_TASK: usize = 16;
/// Work between two pauses, where somebody waits.
const WORK_AT_ONCE: f64 = 1e7;
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
pub type Messages = [Vec<F64x8>; 2];

/// A population prepared for looking at users.
pub struct Lens<'a> {
    population: &'a Population,
    /// The group of every coordinate, and how many there are.
    coordinates: Vec<usize>,
    groups: usize,
    probes: Vec<Vec<f64>>,
    prepared: [Prepared; 2],
    log_weights: Vec<f64>,
}

impl<'a> Lens<'a> {
    /// For a population.
    pub fn new(population: &'a Population) -> Self {
        Self {
            population,
            coordinates: population.groups().of_coordinates(),
            groups: population.groups().len(),
            probes: population.components.iter().map(probe).collect(),
            prepared: [0, 1]
                .map(|class| Prepared::new(&population.variances[class], population.noise)),
            log_weights: population.components.iter().map(|c| c.weight.ln()).collect(),
        }
    }

    /// The population.
    pub fn population(&self) -> &Population {
        self.population
    }

    /// Variances and noise of a class of components.
    pub fn prepared(&self, class: usize) -> &Prepared {
        &self.prepared[class]
    }

    /// How many components there are.
    pub fn components(&self) -> usize {
        self.probes.len()
    }

    /// Room for messages: none for cohorts where there are no cohorts.
    pub fn room(&self) -> Messages {
        let mut messages = Messages::default();
        self.make_room(&mut messages);
        messages
    }

    /// The same where messages of another population were.
    pub fn make_room(&self, messages: &mut Messages) {
        let len = message_len(self.population.features() + 1);
        messages[0].resize(len, ZERO);
        messages[1].resize(if self.components() > 1 { len } else { 0 }, ZERO);
    }

    /// The messages of eight users.
    pub fn write(&self, users: &Moments, messages: &mut Messages) {
        for (message, prepared) in messages.iter_mut().zip(&self.prepared) {
            if !message.is_empty() {
                write(users, prepared, message);
            }
        }
    }

    /// The shares of eight users in every component; returns the logs of their evidence.
    pub fn shares(&self, messages: &Messages, shares: &mut [F64x8]) -> F64x8 {
        let (at_large, cohorts) = shares.split_at_mut(1);
        likelihoods(&messages[0], &self.probes[..1], at_large);
        likelihoods(&messages[1], &self.probes[1..], cohorts);
        for (share, log_weight) in shares.iter_mut().zip(&self.log_weights) {
            for lane in 0..LANES {
                share[lane] += log_weight;
            }
        }
        softmax(shares)
    }

    /// Adds what eight users say to sums. `whole` asks for all of the outer products.
    fn add(
        &self,
        messages: &Messages,
        users: (&F64x8, &F64x8),
        shares: &[F64x8],
        whole: bool,
        to: &mut Accumulator,
    ) {
        let (active, rewards) = users;
        for (c, share) in shares.iter().enumerate() {
            let most = share.iter().copied().fold(0.0, f64::max);
            if most > NEGLIGIBLE {
                let sums = &mut to.sums.components[c];
                sums.users += share.iter().sum::<f64>();
                sums.rewards += share.iter().zip(rewards.iter()).map(|(s, n)| s * n).sum::<f64>();
                to.add(c, share, &messages[c.min(1)]);
            }
        }
        let Accumulator { sums, scratch, .. } = to;
        sums.users += active.iter().sum::<f64>();
        for lane in 0..LANES {
            sums.certain += shares.iter().map(|share| share[lane]).fold(0.0, f64::max);
        }
        let count = shares.len();
        self.add_class(messages, 0, &shares[..1], whole, scratch, &mut sums.classes[0]);
        if count > 1 {
            self.add_class(messages, 1, &shares[1..], whole, scratch, &mut sums.classes[1]);
        }
    }

    fn add_class(
        &self,
        messages: &Messages,
        class: usize,
        shares: &[F64x8],
        whole: bool,
        scratch: &mut Vec<F64x8>,
        sums: &mut ClassSums,
    ) {
        let dim = self.population.features() + 1;
        let message = &messages[class];
        let total: F64x8 = each(|lane| shares.iter().map(|share| share[lane]).sum());
        if total.iter().all(|share| *share < SLIGHT) {
            return;
        }
        scratch.clear();
        scratch.resize(packed_len(self.groups) + 2 * dim, ZERO);
        let (pairs, rest) = scratch.split_at_mut(packed_len(self.groups));
        let (mean, g) = rest.split_at_mut(dim);
        add_pairs(&message[..packed_len(dim)], &self.coordinates, pairs);
        for (sum, pair) in sums.pairs.iter_mut().zip(pairs) {
            *sum += (0..LANES).map(|lane| total[lane] * pair[lane]).sum::<f64>();
        }
        let mut taken = [usize::MAX; LANES];
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
            times(&message[..packed_len(dim)], mean, g);
            for (g, pull) in g.iter_mut().zip(&message[packed_len(dim)..]) {
                *g = each(|lane| pull[lane] - g[lane]);
            }
            if whole {
                add_outer(&share, g, &mut sums.outer);
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
    fn add_pairs(information: &[F64x8], groups: &[usize], pairs: &mut [F64x8]) = add_pairs_kernel
}

#[inline(always)]
fn add_pairs_kernel(information: &[F64x8], groups: &[usize], pairs: &mut [F64x8]) {
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
    fn add_outer(share: &F64x8, g: &[F64x8], outer: &mut [f64]) = add_outer_kernel
}

#[inline(always)]
fn add_outer_kernel(share: &F64x8, g: &[F64x8], outer: &mut [f64]) {
    let mut at = 0;
    for i in 0..g.len() {
        let scaled: F64x8 = each(|lane| share[lane] * g[i][lane]);
        for other in &g[..=i] {
            let p: F64x8 = each(|lane| scaled[lane] * other[lane]);
            outer[at] += ((p[0] + p[4]) + (p[1] + p[5])) + ((p[2] + p[6]) + (p[3] + p[7]));
            at += 1;
        }
    }
}

/// Logs to shares, user by user; returns the logs of their sums.
pub(super) fn softmax(logs: &mut [F64x8]) -> F64x8 {
    simd::run(Softmax(logs))
}

struct Softmax<'a>(&'a mut [F64x8]);

impl Kernel for Softmax<'_> {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let mut most = simd.splat(f64::NEG_INFINITY);
        for log in self.0.iter() {
            most = simd.larger(simd.load(log), most);
        }
        let (zero, mut total) = (simd.splat(0.0), simd.splat(0.0));
        for log in self.0.iter_mut() {
            let below = simd.sub(simd.load(log), most);
            // Shares that nobody will notice are none at all.
            let share = simd.where_greater(below, simd.splat(-50.0), simd.exp(below), zero);
            total = simd.add(total, share);
            simd.store(share, log);
        }
        let over = simd.div(simd.splat(1.0), total);
        for share in self.0.iter_mut() {
            simd.store(simd.mul(simd.load(share), over), share);
        }
        let mut logs = ZERO;
        simd.store(simd.add(most, simd.ln(total)), &mut logs);
        logs
    }
}

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
struct Accumulator {
    sums: PassSums,
    lanes: Vec<F64x8>,
    stride: usize,
    scratch: Vec<F64x8>,
}

/// Lanes of an accumulator at most.
const MOST_LANES: usize = 1 << 13;

impl Accumulator {
    fn new(population: &Population) -> Self {
        let stride = message_len(population.features() + 1);
        let wanted = stride * population.components.len();
        let lanes = if wanted <= MOST_LANES { vec![ZERO; wanted] } else { Vec::new() };
        Self { sums: PassSums::new(population), lanes, stride, scratch: Vec::new() }
    }

    fn add(&mut self, component: usize, share: &F64x8, message: &[F64x8]) {
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
                    simd::run(Absence { shares, sums: &mut part.absence });
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
        spend(2.0 * users.len() as f64 * inverse_work(lens.population.features() + 1));
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
