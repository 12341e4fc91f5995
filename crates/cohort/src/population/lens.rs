//! A population as users are looked at through it: their messages, their shares in components, and what they add to sums.

use super::algebra::times;
use super::lanes::{F64x8, LANES, ZERO, each};
use super::message::{Prepared, likelihoods, message_len, probe, write};
use super::model::Population;
use super::moments::Moments;
use super::pass::{Accumulator, NEGLIGIBLE};
use super::sums::ClassSums;
use crate::linear::symmetric::packed_len;
use crate::simd::{self, Kernel, Simd};

/// Shares below this say nothing about variances.
const SLIGHT: f64 = 0.01;
/// Components per user that say something about variances, at most.
const RANKS: usize = 32;

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
    pub(super) fn add(
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
