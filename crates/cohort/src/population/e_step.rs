//! The E step for eight users: their messages, their responsibilities, and what they add to the
//! sums.

use super::buffer_pool;
use super::lanes::{F64x8, LANES, ZERO, each};
use super::message::{MessagePrior, likelihoods, message_len, probe, write};
use super::model::{Groups, Population};
use super::moments::Moments;
use super::pass::{Accumulator, ClassLanes, NEGLIGIBLE};
use super::sums::ClassSums;
use crate::algebra::lanes::times_in;
use crate::algebra::packed_len;
use crate::simd::{self, GatherRows, Kernel, Simd, vectorized, with_scratch};

/// Responsibilities below this do not contribute to variances.
const SLIGHT: f64 = 0.01;

/// The messages of eight users, one for each class of components.
pub type Messages = [Vec<F64x8>; 2];

/// A population prepared for the E step.
pub struct EStep<'a> {
    population: &'a Population,
    groups: Groups,
    /// Centres, row by row.
    means: Vec<f64>,
    probes: Vec<Vec<f64>>,
    prepared: [MessagePrior; 2],
    log_weights: Vec<f64>,
}

impl<'a> EStep<'a> {
    /// For a population.
    pub fn new(population: &'a Population) -> Self {
        Self {
            population,
            groups: population.groups(),
            means: population.components.iter().flat_map(|one| &one.mean).copied().collect(),
            probes: population.components.iter().map(probe).collect(),
            prepared: [0, 1]
                .map(|class| MessagePrior::new(&population.variances[class], population.noise)),
            log_weights: population.components.iter().map(|c| c.weight.ln()).collect(),
        }
    }

    /// The population.
    pub fn population(&self) -> &Population {
        self.population
    }

    /// Variances and noise of a class of components.
    pub fn prepared(&self, class: usize) -> &MessagePrior {
        &self.prepared[class]
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.probes.len()
    }

    /// Buffers for messages; none for cohorts where there are no cohorts.
    pub fn room(&self) -> Messages {
        let mut messages = Messages::default();
        self.make_room(&mut messages);
        messages
    }

    /// Resizes buffers that held messages of another population.
    pub fn make_room(&self, messages: &mut Messages) {
        let len = message_len(self.population.features() + 1);
        let wanted = [len, if self.components() > 1 { len } else { 0 }];
        for (message, len) in messages.iter_mut().zip(wanted) {
            if message.len() != len {
                let fitting = if len == 0 { Vec::new() } else { buffer_pool::take(len) };
                buffer_pool::give([std::mem::replace(message, fitting)]);
            }
        }
    }

    /// The messages of eight users.
    pub fn write(&self, users: &Moments, messages: &mut Messages) {
        for (class, message) in messages.iter_mut().enumerate() {
            if !message.is_empty() {
                self.write_class(class, users, message);
            }
        }
    }

    /// The messages of eight users for one class.
    pub fn write_class(&self, class: usize, users: &Moments, message: &mut [F64x8]) {
        write(users, &self.prepared[class], message);
    }

    /// The responsibilities of eight users in every component; returns the logs of their evidence.
    pub fn responsibilities(&self, messages: &Messages, responsibilities: &mut [F64x8]) -> F64x8 {
        let (at_large, cohorts) = responsibilities.split_at_mut(1);
        likelihoods(&messages[0], &self.probes[..1], at_large);
        likelihoods(&messages[1], &self.probes[1..], cohorts);
        simd::run(Softmax { logs: responsibilities, weights: &self.log_weights })
    }

    /// Adds what eight users say to sums. `whole` asks for all of the outer products.
    pub(super) fn add(
        &self,
        messages: &Messages,
        users: (&F64x8, &F64x8),
        responsibilities: &[F64x8],
        whole: bool,
        to: &mut Accumulator,
    ) {
        let (active, rewards) = users;
        let (mut found, mut lists) =
            (std::mem::take(&mut to.components), std::mem::take(&mut to.ranks));
        to.sums.certain +=
            simd::run(FindActive { responsibilities, found: &mut found }).iter().sum::<f64>();
        to.sums.users += active.iter().sum::<f64>();
        for &c in &found {
            let share = &responsibilities[c as usize];
            let sums = &mut to.sums.components[c as usize];
            sums.users += share.iter().sum::<f64>();
            sums.rewards += share.iter().zip(rewards.iter()).map(|(s, n)| s * n).sum::<f64>();
            to.add(c as usize, share, &messages[c.min(1) as usize]);
        }
        let (at_large, cohorts) = found.split_at(found.partition_point(|c| *c == 0));
        for (class, found) in [at_large, cohorts].into_iter().enumerate() {
            list(responsibilities, found, &mut lists);
            self.add_class(&messages[class], &lists, whole, class, to);
        }
        (to.components, to.ranks) = (found, lists);
    }

    /// What users say about the variances of a class, of whose components they have the responsibilities that are listed.
    fn add_class(
        &self,
        message: &[F64x8],
        lists: &[ComponentLanes],
        whole: bool,
        class: usize,
        to: &mut Accumulator,
    ) {
        if lists.is_empty() {
            return;
        }
        let dim = self.population.features() + 1;
        let total: F64x8 = each(|lane| lists.iter().map(|listed| listed.share[lane]).sum());
        let ClassSums { outer, .. } = &mut to.sums.classes[class];
        let lanes = &mut to.classes[class];
        let groups = &self.groups;
        simd::run(AddPairs {
            information: message,
            groups,
            total: &total,
            pairs: &mut lanes.pairs,
        });
        with_scratch(2 * dim, |scratch| {
            let (mean, g) = scratch.split_at_mut(dim);
            for listed in lists {
                let rows = GatherRows::new(&self.means, dim, listed.components);
                let (share, g) = (&listed.share, &mut *g);
                simd::run(AddSquares { message, rows, share, mean, g, lanes, whole });
                if whole {
                    add_outer(share, g, outer);
                }
            }
        });
    }
}

/// One component for each lane; a lane without one has responsibility zero.
pub(super) struct ComponentLanes {
    components: [u32; LANES],
    share: F64x8,
}

/// Lists the responsibilities of eight users in some components that say something about variances.
fn list(responsibilities: &[F64x8], components: &[u32], lists: &mut Vec<ComponentLanes>) {
    lists.clear();
    let mut counts = [0; LANES];
    for &c in components {
        let share = &responsibilities[c as usize];
        for lane in (0..LANES).filter(|lane| share[*lane] >= SLIGHT) {
            if counts[lane] == lists.len() {
                lists.push(ComponentLanes { components: [0; LANES], share: ZERO });
            }
            let listed = &mut lists[counts[lane]];
            (listed.components[lane], listed.share[lane]) = (c, share[lane]);
            counts[lane] += 1;
        }
    }
}

/// Finds the components that any of eight users has a share in; returns everyone's largest share.
struct FindActive<'a> {
    responsibilities: &'a [F64x8],
    found: &'a mut Vec<u32>,
}

impl Kernel for FindActive<'_> {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let mut most = simd.splat(0.0);
        self.found.clear();
        for (c, share) in self.responsibilities.iter().enumerate() {
            let share = simd.load(share);
            most = simd.larger(share, most);
            if !simd.all_up_to(share, NEGLIGIBLE) {
                self.found.push(c as u32);
            }
        }
        let mut out = ZERO;
        simd.store(most, &mut out);
        out
    }
}

/// Adds squared entries of eight users' information, by pairs of groups of coordinates.
struct AddPairs<'a> {
    information: &'a [F64x8],
    groups: &'a Groups,
    total: &'a F64x8,
    pairs: &'a mut [F64x8],
}

impl Kernel for AddPairs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { information, groups, total, pairs } = self;
        let (zero, total) = (simd.splat(0.0), simd.load(total));
        for p in 0..groups.len() {
            for q in 0..=p {
                let mut sums = [zero; 2];
                for i in groups.range(p) {
                    let row = &information[packed_len(i)..=packed_len(i) + i];
                    let columns = groups.range(q);
                    let (twos, rest) = row[columns.start..columns.end.min(i)].as_chunks::<2>();
                    for two in twos {
                        for k in 0..2 {
                            let entry = simd.load(&two[k]);
                            sums[k] = simd.mul_add(entry, entry, sums[k]);
                        }
                    }
                    for entry in rest {
                        let entry = simd.load(entry);
                        sums[0] = simd.mul_add(entry, entry, sums[0]);
                    }
                }
                let mut sum = simd.add(sums[0], sums[1]);
                if p == q {
                    // Entries off the diagonal stand for two. Within one group both count, between two
                    // groups the pair (p, q) has one of them, and (q, p), which is not kept, the other.
                    sum = simd.add(sum, sum);
                    for i in groups.range(p) {
                        let entry = simd.load(&information[packed_len(i) + i]);
                        sum = simd.mul_add(entry, entry, sum);
                    }
                }
                let pair = &mut pairs[packed_len(p) + q];
                simd.store(simd.mul_add(total, sum, simd.load(pair)), pair);
            }
        }
    }
}

/// g = pull − information·μ of eight users and a centre each, and its squares where not all products are asked for.
struct AddSquares<'a> {
    message: &'a [F64x8],
    rows: GatherRows<'a>,
    share: &'a F64x8,
    mean: &'a mut [F64x8],
    g: &'a mut [F64x8],
    lanes: &'a mut ClassLanes,
    whole: bool,
}

impl Kernel for AddSquares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { message, rows, share, mean, g, lanes, whole } = self;
        let share = simd.load(share);
        let (information, rest) = message.split_at(packed_len(g.len()));
        for (k, mean) in mean.iter_mut().enumerate() {
            simd.store(simd.gather(&rows, k), mean);
        }
        times_in(simd, information, mean, g);
        for ((g, pull), square) in g.iter_mut().zip(rest).zip(&mut lanes.squares) {
            let far = simd.sub(simd.load(pull), simd.load(g));
            simd.store(far, g);
            if !whole {
                let scaled = simd.mul(share, far);
                simd.store(simd.mul_add(scaled, far, simd.load(square)), square);
            }
        }
    }
}

fn add_outer(share: &F64x8, g: &[F64x8], outer: &mut [f64]) {
    vectorized(
        #[inline(always)]
        || add_outer_kernel(share, g, outer),
    );
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

/// Logs to responsibilities of components that have such weights, user by user; returns the logs of their sums.
struct Softmax<'a> {
    logs: &'a mut [F64x8],
    weights: &'a [f64],
}

impl Kernel for Softmax<'_> {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let mut most = simd.splat(f64::NEG_INFINITY);
        for (log, weight) in self.logs.iter_mut().zip(self.weights) {
            let weighted = simd.add(simd.load(log), simd.splat(*weight));
            most = simd.larger(weighted, most);
            simd.store(weighted, log);
        }
        let (zero, mut total) = (simd.splat(0.0), simd.splat(0.0));
        for log in self.logs.iter_mut() {
            let below = simd.sub(simd.load(log), most);
            // Negligible responsibilities are set to zero.
            let share = simd.where_greater(below, simd.splat(-50.0), simd.exp(below), zero);
            total = simd.add(total, share);
            simd.store(share, log);
        }
        let over = simd.div(simd.splat(1.0), total);
        for share in self.logs.iter_mut() {
            simd.store(simd.mul(simd.load(share), over), share);
        }
        let mut logs = ZERO;
        simd.store(simd.add(most, simd.ln(total)), &mut logs);
        logs
    }
}
