//! The search for new cohorts. A candidate centre is a user's estimate, or a point on an axis along
//! which users differ. The gain in evidence is estimated on a few users first. The most promising
//! candidates become cohorts if their gain over the whole sample exceeds their cost.

use super::constants;
use rayon::prelude::*;

use super::buffer_pool;
use super::fit::{Fitting, inverse_work};
use super::lanes::{F64x8, LANES, ZERO, each};
use super::maximise::CentrePrior;
use super::message::{MessagePrior, accumulate, likelihood, message_len, probe, write};
use super::model::{Component, Population};
use super::pass::{BLOCKS_PER_TASK, Pass};
use super::structure::weight_cost;
use super::sums::Sums;
use crate::algebra::lanes;
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::pace::spend;
use crate::simd::{self, Kernel, Simd};

/// The search for new cohorts.
pub(super) struct CandidateSearch {
    dim: usize,
    variances: Vec<f64>,
    prior: CentrePrior,
    blocks: Vec<UserBlock>,
    /// Blocks that candidates are evaluated on first.
    compared: Vec<usize>,
    candidates: Vec<Candidate>,
    /// Whether any user belongs to no cohort.
    has_unassigned: bool,
}

/// Eight users.
struct UserBlock {
    messages: Vec<F64x8>,
    /// ln p(y_i) under the present population.
    logs: F64x8,
    active: F64x8,
}

struct Candidate {
    /// Whether the candidate is a user (else a point on an axis).
    user: bool,
    cohort: Component,
    /// ln p(y_i | candidate) of the users it is evaluated on.
    logs: Vec<F64x8>,
}

impl CandidateSearch {
    /// For cohorts of these variances. Which users are tried changes with the number of rewards.
    pub fn new(fitting: &mut Fitting, pass: &Pass, variances: Vec<f64>) -> Self {
        let Fitting { users, population, scales, .. } = &*fitting;
        let dim = population.features() + 1;
        let turn = scales.rewards as usize;
        let prepared = MessagePrior::new(&variances, population.noise);
        let blocks: Vec<UserBlock> = (users.par_iter().enumerate().with_min_len(4))
            .map(|(at, users)| {
                let mut messages = buffer_pool::take(message_len(dim));
                write(users, &prepared, &mut messages);
                UserBlock { messages, logs: pass.logs[at], active: users.active() }
            })
            .collect();
        let fewer = |most: usize| (16 * most / dim).clamp(constants::candidates_least(), most);
        spend(blocks.len() as f64 * inverse_work(dim));
        let compared =
            systematic_sample(blocks.len(), fewer(constants::candidates_compared()), turn / 3);
        let prior = CentrePrior::of_cohorts(population);
        let mut search = Self {
            dim,
            variances,
            prior,
            blocks,
            compared,
            candidates: Vec::new(),
            has_unassigned: true,
        };

        // Those that belong to no cohort are the likelier candidates.
        let count = population.components.len();
        let everyone: Vec<(usize, usize)> = (0..search.blocks.len())
            .flat_map(|block| (0..LANES).map(move |lane| (block, lane)))
            .filter(|(block, lane)| search.blocks[*block].active[*lane] > 0.0)
            .collect();
        let unassigned: Vec<(usize, usize)> = (everyone.iter().copied())
            .filter(|(block, lane)| pass.responsibilities[*block * count][*lane] > 0.2)
            .collect();
        search.has_unassigned = !unassigned.is_empty();
        let some = |from: &[(usize, usize)], most: usize| {
            systematic_sample(from.len(), most, turn / 7)
                .into_iter()
                .map(|at| from[at])
                .collect::<Vec<_>>()
        };
        let most = fewer(constants::candidates_tried());
        let mut chosen = some(&unassigned, most);
        chosen.extend(some(&everyone, (most - chosen.len()).max(most / 4)));
        let axes = axes(fitting, pass);
        let integrals = chosen.len() * search.compared.len();
        spend(integrals as f64 * inverse_work(dim) / 3.0);
        search.candidates = (chosen.par_iter())
            .map(|(block, lane)| search.user_candidate(*block, *lane))
            .chain(axes.into_par_iter().map(|cohort| search.place_candidate(cohort)))
            .collect();
        search
    }

    /// Adds cohorts while the evidence gains; returns whether any was added.
    pub fn add_cohorts(&mut self, population: &mut Population) -> bool {
        let before = population.components.len();
        // If all users have a cohort there is less to find.
        let mut failed = if self.has_unassigned { 0 } else { constants::candidates_failed() - 2 };
        while failed < constants::candidates_failed()
            && population.components.len() < before + constants::candidates_most_new()
        {
            // Estimated gains of users and of axis points are not comparable: the two kinds
            // alternate.
            let Some(best) = self.most_promising(failed % 2 == 0) else { break };
            let candidate = self.candidates.swap_remove(best);
            let (gain, cohort, logs) = self.grow(&candidate);
            if gain > constants::cohort_margin() {
                if population.components.len() == 1 {
                    population.variances[1] = self.variances.clone();
                }
                for component in &mut population.components {
                    component.weight *= 1.0 - cohort.weight;
                }
                population.components.push(cohort);
                for (block, logs) in self.blocks.iter_mut().zip(logs) {
                    block.logs = logs;
                }
            } else {
                failed += 1;
            }
        }
        let added = population.components.len() > before;
        if added {
            population.variances[1] = self.variances.clone();
        }
        added
    }

    /// A cohort with a given centre.
    fn place_candidate(&self, cohort: Component) -> Candidate {
        let probe = probe(&cohort);
        let logs = (self.compared.iter())
            .map(|block| {
                let mut logs = ZERO;
                likelihood(&self.blocks[*block].messages, &probe, &mut logs);
                logs
            })
            .collect();
        Candidate { user: false, cohort, logs }
    }

    /// A cohort whose only known member is one user.
    fn user_candidate(&self, block: usize, lane: usize) -> Candidate {
        let d = self.dim;
        let mut sums = Sums::new(d);
        let only = each(|l| f64::from(l == lane));
        accumulate(&mut sums.message, &only, &self.blocks[block].messages, 0.0);
        let mut cohort = Component {
            weight: (2.0 / (self.blocks.len() * LANES) as f64).clamp(0.02, 0.5),
            mean: self.prior.mean.clone(),
            doubt: Symmetric::zero(d),
        };
        self.prior.settle(&mut cohort, &sums);
        // ln p(y_i | y_candidate) = ln ∫ p(y_i | μ) p(μ | y_candidate) dμ
        let mut own: Vec<f64> = sums.message[..packed_len(d) + d].to_vec();
        for j in 0..d {
            own[packed_len(j) + j] += self.prior.precision[j];
            own[packed_len(d) + j] += self.prior.precision[j] * self.prior.mean[j];
        }
        let mut joint = vec![ZERO; packed_len(d) + d];
        let mut integral = |message: Option<&[F64x8]>| {
            simd::run(HalfSquare { own: &own, message, dim: d, joint: &mut joint })
        };
        let alone = integral(None);
        let logs = (self.compared.iter())
            .map(|block| {
                let messages = &self.blocks[*block].messages;
                let together = integral(Some(messages));
                let log = &messages[packed_len(d) + d];
                each(|lane| log[lane] + together[lane] - alone[lane])
            })
            .collect();
        Candidate { user: true, cohort, logs }
    }

    /// The candidate with the largest gain on the users it was evaluated on.
    fn most_promising(&self, user: bool) -> Option<usize> {
        let gains: Vec<f64> = (self.candidates.par_iter())
            .map(|one| {
                let gains = self.compared.iter().zip(&one.logs);
                gains.map(|(block, new)| self.blocks[*block].join(new, one.cohort.weight).0).sum()
            })
            .collect();
        let rank = |at: &usize| (self.candidates[*at].user == user, gains[*at]);
        (0..gains.len()).max_by(|a, b| {
            let ((a_kind, a), (b_kind, b)) = (rank(a), rank(b));
            a_kind.cmp(&b_kind).then(a.total_cmp(&b))
        })
    }

    /// The cohort that a candidate becomes, its gain, and the users' log likelihoods with it.
    fn grow(&self, candidate: &Candidate) -> (f64, Component, Vec<F64x8>) {
        let users: f64 = self.blocks.iter().flat_map(|block| block.active.0).sum();
        let mut cohort = candidate.cohort.clone();
        // First from the users it was evaluated on, by the candidate's likelihood alone.
        let mut sums = Sums::new(self.dim);
        for (block, new) in self.compared.iter().zip(&candidate.logs) {
            let block = &self.blocks[*block];
            block.add(&block.join(new, cohort.weight).1, &mut sums);
        }
        let mut among: f64 =
            self.compared.iter().flat_map(|block| self.blocks[*block].active.0).sum();
        let mut gain = f64::NEG_INFINITY;
        let mut rise = f64::INFINITY;
        let mut logs = Vec::new();
        let mut cost = f64::INFINITY;
        for pass in 0..constants::candidates_passes() {
            cohort.weight = ((sums.users + 0.5) / (among + 1.0)).min(0.99);
            self.prior.settle(&mut cohort, &sums);
            let next = self.trial(&cohort);
            cost = self.prior.cost(&cohort) + weight_cost(users);
            let next_rise = next.gain - gain;
            // The gain still to come if every pass gains the same fraction of the previous pass's
            // gain.
            let part = (next_rise / rise).clamp(0.0, constants::candidates_most_part());
            let promised = next.gain + next_rise * part / (1.0 - part);
            let hopeless = pass >= constants::candidates_hopeless_after() && promised < cost;
            let found = next.gain > cost + constants::cohort_margin()
                && next_rise < constants::candidates_enough() * next.gain;
            let settled = next_rise < 0.1 || hopeless || found;
            (gain, rise, sums, among, logs) = (next.gain, next_rise, next.sums, users, next.logs);
            if settled {
                break;
            }
        }
        (gain - cost, cohort, logs)
    }

    /// The present population with one more cohort.
    fn trial(&self, cohort: &Component) -> TrialCohort {
        let probe = probe(cohort);
        spend(inverse_work(self.dim) + (self.blocks.len() * self.dim * self.dim) as f64);
        let parts: Vec<TrialCohort> = (self.blocks.par_chunks(BLOCKS_PER_TASK))
            .map(|blocks| {
                let mut part =
                    TrialCohort { sums: Sums::new(self.dim), gain: 0.0, logs: Vec::new() };
                for block in blocks {
                    let mut new = ZERO;
                    likelihood(&block.messages, &probe, &mut new);
                    let (gains, responsibilities, with) = block.join(&new, cohort.weight);
                    part.gain += gains;
                    part.logs.push(with);
                    block.add(&responsibilities, &mut part.sums);
                }
                part
            })
            .collect();
        let mut whole = TrialCohort { sums: Sums::new(self.dim), gain: 0.0, logs: Vec::new() };
        for part in parts {
            whole.sums.add(&part.sums);
            whole.gain += part.gain;
            whole.logs.extend(part.logs);
        }
        whole
    }
}

impl Drop for CandidateSearch {
    fn drop(&mut self) {
        buffer_pool::give(self.blocks.drain(..).map(|block| block.messages));
    }
}

struct TrialCohort {
    sums: Sums,
    gain: f64,
    logs: Vec<F64x8>,
}

impl UserBlock {
    /// With a new component of that weight and those log likelihoods: the total gain, every user's
    /// responsibility, and every user's log likelihood.
    fn join(&self, new: &F64x8, weight: f64) -> (f64, F64x8, F64x8) {
        simd::run(Join { block: self, new, go: weight.ln(), stay: (1.0 - weight).ln() })
    }

    fn add(&self, responsibilities: &F64x8, sums: &mut Sums) {
        if responsibilities.iter().any(|share| *share > 1e-6) {
            sums.users += responsibilities.iter().sum::<f64>();
            accumulate(&mut sums.message, responsibilities, &self.messages, 1e-6);
        }
    }
}

struct Join<'a> {
    block: &'a UserBlock,
    new: &'a F64x8,
    go: f64,
    stay: f64,
}

impl Kernel for Join<'_> {
    type Output = (f64, F64x8, F64x8);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (f64, F64x8, F64x8) {
        let (logs, active) = (simd.load(&self.block.logs), simd.load(&self.block.active));
        let (zero, stay) = (simd.splat(0.0), simd.splat(self.stay));
        // ln((1 − w)·e^log + w·e^new) − log
        let odds = simd.add(simd.sub(simd.load(self.new), logs), simd.splat(self.go));
        let apart = simd.sub(odds, stay);
        let below = simd.sub(zero, simd.larger(apart, simd.sub(zero, apart)));
        let gain = simd.add(simd.larger(odds, stay), simd.ln_1p(simd.exp(below)));
        let share = simd.mul(active, simd.exp(simd.sub(odds, gain)));
        let gain = simd.mul(active, gain);
        let (mut gains, mut responsibilities, mut with) = (ZERO, ZERO, ZERO);
        simd.store(gain, &mut gains);
        simd.store(share, &mut responsibilities);
        simd.store(simd.add(logs, gain), &mut with);
        (gains.iter().sum(), responsibilities, with)
    }
}

/// `½ (bᵀA⁻¹b − ln det A)` of eight packed matrices A followed by vectors b: the sum of one for all and, where there
/// are any, of eight others.
struct HalfSquare<'a> {
    own: &'a [f64],
    message: Option<&'a [F64x8]>,
    dim: usize,
    joint: &'a mut [F64x8],
}

impl Kernel for HalfSquare<'_> {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let Self { own, message, dim, joint } = self;
        for (joint, own) in joint.iter_mut().zip(own) {
            simd.store(simd.splat(*own), joint);
        }
        for (joint, message) in joint.iter_mut().zip(message.unwrap_or(&[])) {
            simd.store(simd.add(simd.load(joint), simd.load(message)), joint);
        }
        let (matrix, vector) = joint.split_at_mut(packed_len(dim));
        let log_det = lanes::factor_from(simd, matrix, dim, lanes::InPlace);
        let square = lanes::solve_lower_in(simd, matrix, vector);
        let mut out = ZERO;
        simd.store(simd.mul(simd.splat(0.5), simd.sub(square, log_det)), &mut out);
        out
    }
}

/// Up to `most` of `count` places, evenly spaced, from a start that moves with `turn`.
pub(super) fn systematic_sample(count: usize, most: usize, turn: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| (turn + k * count / most) % count).collect()
}

/// Along the axes in which the users of a component differ most, to either side.
fn axes(fitting: &Fitting, pass: &Pass) -> Vec<Component> {
    let (population, messages) = (&fitting.population, fitting.messages());
    let count = population.components.len();
    let features = population.features();
    let mut far = vec![ZERO; features + 1];
    let chosen = systematic_sample(messages.len(), 4 * constants::candidates_compared(), 0);
    let mut candidates = Vec::new();
    for (c, component) in population.components.iter().enumerate() {
        let variances = population.variances_of(c);
        let spread = population.spread(c);
        if spread <= 0.0 || pass.sums.components[c].users < 4.0 {
            continue;
        }
        let mut scatter = Symmetric::zero(features);
        for &block in &chosen {
            let responsibilities = pass.responsibilities[block * count + c];
            if responsibilities.iter().any(|share| *share > 0.01) {
                deviations(&messages[block][c.min(1)], component, variances, &mut far);
                for lane in (0..LANES).filter(|lane| responsibilities[*lane] > 0.01) {
                    let far: Vec<f64> = far[..features].iter().map(|v| v[lane]).collect();
                    scatter.add_outer(responsibilities[lane], &far);
                }
            }
        }
        let eigen = scatter.eigen();
        let reach = spread.sqrt() * 1.5;
        for axis in eigen.vectors.chunks_exact(features).rev().take(3) {
            for side in [-reach, reach] {
                let mut mean = component.mean.clone();
                mean.iter_mut().zip(axis).for_each(|(m, a)| *m += side * a);
                let weight = component.weight / 4.0;
                candidates.push(Component { weight, mean, doubt: Symmetric::zero(features + 1) });
            }
        }
    }
    candidates
}

/// How far the posterior means of eight users, whose messages are these, are from their component's centre:
/// Δ(pull − information·μ).
pub(super) fn deviations(
    message: &[F64x8],
    component: &Component,
    variances: &[f64],
    out: &mut [F64x8],
) {
    let (information, pull) = message.split_at(packed_len(variances.len()));
    let mean: Vec<F64x8> = component.mean.iter().map(|m| F64x8::splat(*m)).collect();
    lanes::times(information, &mean, out);
    for ((out, pull), variance) in out.iter_mut().zip(pull).zip(variances) {
        *out = each(|lane| variance * (pull[lane] - out[lane]));
    }
}
