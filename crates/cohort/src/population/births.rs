//! New cohorts. Seeds are single users (judged by the exact evidence that others share a centre
//! with them: this finds many small cohorts) and points along the axes in which a component's
//! users differ most (this finds a few large ones before any single user is known well). The most
//! promising seed is grown by expectation–maximisation of the one new component beside all others,
//! and stays if the evidence pays for it.

use rayon::prelude::*;

use super::evidence::{LaneSums, Sums};
use super::fit::Fitting;
use super::lanes::{LANES, Lane, ZERO, each};
use super::ledger::BLOCKS_PER_TASK;
use super::message::{expect, message_len, probe, write};
use super::model::{Component, LEAST_SPREAD, Population};
use super::pass::{Pass, active};
use super::spectrum::Spectrum;
use super::structure::{MARGIN, weight_cost};
use crate::linear::symmetric::packed_len;
use crate::linear::{Symmetric, dot};

/// Births tried in vain before a refit gives up.
const VAIN: usize = 4;
/// Births of one refit at most.
const BIRTHS: usize = 40;
/// Passes in which a seed finds its users, at most.
const MOST_PASSES: usize = 30;
/// Users that are tried as seeds.
const SEEDS: usize = 48;
/// Blocks of users that seeds are compared with.
pub(super) const SAMPLE: usize = 32;

/// Where new cohorts are tried.
pub(super) struct Nursery {
    dim: usize,
    spread: f64,
    beds: Vec<Bed>,
    /// Which beds seeds are compared with.
    sample: Vec<usize>,
    seeds: Vec<Seed>,
    /// Whether anybody belongs to no cohort.
    lonely: bool,
}

/// Eight users.
struct Bed {
    messages: Vec<Lane>,
    /// ln p(y_i) under all that is there.
    logs: Lane,
    active: Lane,
}

struct Seed {
    /// A user, or a place.
    user: bool,
    cohort: Component,
    /// ln p(y_i | the seed) of the users of the sample.
    logs: Vec<Lane>,
}

impl Nursery {
    /// For cohorts of one spread. Which users are looked at moves with the rewards seen.
    pub fn new(fitting: &Fitting, pass: &Pass, spread: f64) -> Self {
        let Fitting { spectra, population, scales, .. } = fitting;
        let dim = population.components[0].centre.len();
        let turn = scales.rewards as usize;
        let beds: Vec<Bed> = (0..spectra.len())
            .into_par_iter()
            .with_min_len(BLOCKS_PER_TASK)
            .map(|block| {
                let mut messages = vec![ZERO; message_len(dim)];
                write(spectra[block], spread, population.noise, &mut messages);
                Bed { messages, logs: pass.logs[block], active: active(spectra[block]) }
            })
            .collect();
        let sample = evenly(beds.len(), SAMPLE, turn / 3);
        let mut nursery = Self { dim, spread, beds, sample, seeds: Vec::new(), lonely: true };

        // Those that belong to no cohort are the likelier seeds.
        let count = population.components.len();
        let everyone: Vec<(usize, usize)> = (0..nursery.beds.len())
            .flat_map(|bed| (0..LANES).map(move |lane| (bed, lane)))
            .filter(|(bed, lane)| nursery.beds[*bed].active[*lane] > 0.0)
            .collect();
        let lonely: Vec<(usize, usize)> = (everyone.iter().copied())
            .filter(|(bed, lane)| pass.shares[*bed * count][*lane] > 0.2)
            .collect();
        nursery.lonely = !lonely.is_empty();
        let some = |from: &[(usize, usize)], most: usize| {
            evenly(from.len(), most, turn / 7).into_iter().map(|at| from[at]).collect::<Vec<_>>()
        };
        let mut users = some(&lonely, SEEDS);
        users.extend(some(&everyone, (SEEDS - users.len()).max(SEEDS / 4)));
        let axes = axes(spectra, population, pass);
        nursery.seeds = (users.par_iter())
            .map(|(bed, lane)| nursery.user_seed(*bed, *lane, &population.components[0]))
            .chain(axes.into_par_iter().map(|cohort| nursery.fixed_seed(cohort)))
            .collect();
        nursery
    }

    /// Adds cohorts while that gains; whether any was.
    pub fn raise(&mut self, population: &mut Population) -> bool {
        let before = population.components.len();
        // Where everybody has a cohort there is less to find.
        let mut vain = if self.lonely { 0 } else { VAIN / 2 };
        while vain < VAIN && population.components.len() < before + BIRTHS {
            // What users and places promise cannot be compared: they take turns.
            let Some(best) = self.most_promising(vain % 2 == 0) else { break };
            let seed = self.seeds.swap_remove(best);
            let (gain, cohort, logs) = self.grow(&seed, population);
            if gain > MARGIN {
                for component in &mut population.components {
                    component.weight *= 1.0 - cohort.weight;
                }
                population.components.push(cohort);
                for (bed, logs) in self.beds.iter_mut().zip(logs) {
                    bed.logs = logs;
                }
            } else {
                vain += 1;
            }
        }
        population.components.len() > before
    }

    /// A cohort at a given place.
    fn fixed_seed(&self, cohort: Component) -> Seed {
        let cohort = Component { spread: self.spread, ..cohort };
        let probe = probe(&cohort);
        let logs = (self.sample.iter())
            .map(|bed| {
                let mut logs = ZERO;
                expect(&self.beds[*bed].messages, &probe, &mut logs);
                logs
            })
            .collect();
        Seed { user: false, cohort, logs }
    }

    /// A cohort whose only known member is one user.
    fn user_seed(&self, bed: usize, lane: usize, at_large: &Component) -> Seed {
        let d = self.dim;
        let mut sums = LaneSums::new(d);
        sums.add_messages(&each(|l| f64::from(l == lane)), &self.beds[bed].messages);
        let sums = sums.total(d);
        let mut cohort = Component {
            weight: (2.0 / (self.beds.len() * LANES) as f64).clamp(0.02, 0.5),
            spread: self.spread,
            ..at_large.clone()
        };
        cohort.settle(&sums, at_large);
        // ln p(y_i | y_seed) = ln ∫ p(y_i | μ) p(μ | y_seed) dμ
        let precision = 1.0 / at_large.spread.max(LEAST_SPREAD);
        let mut own = sums.information();
        own.add_diagonal(precision);
        let pull = sums.pull().iter().zip(&at_large.centre).map(|(p, m)| p + precision * m);
        let own: Vec<f64> = own.packed().iter().copied().chain(pull).collect();
        let mut joint = vec![ZERO; packed_len(d) + d];
        for (joint, own) in joint.iter_mut().zip(&own) {
            *joint = [*own; LANES];
        }
        let (mut alone, mut together) = (ZERO, ZERO);
        half_square_less_log_det(&mut joint, d, &mut alone);
        let logs = (self.sample.iter())
            .map(|bed| {
                let messages = &self.beds[*bed].messages;
                for ((joint, own), message) in joint.iter_mut().zip(&own).zip(messages) {
                    *joint = each(|lane| own + message[lane]);
                }
                half_square_less_log_det(&mut joint, d, &mut together);
                let log = &messages[packed_len(d) + d];
                each(|lane| log[lane] + together[lane] - alone[lane])
            })
            .collect();
        Seed { user: true, cohort, logs }
    }

    /// The seed that would gain most among the users of the sample.
    fn most_promising(&self, user: bool) -> Option<usize> {
        let gains: Vec<f64> = (self.seeds.par_iter())
            .map(|seed| {
                let gains = self.sample.iter().zip(&seed.logs);
                gains.map(|(bed, new)| self.beds[*bed].join(new, seed.cohort.weight).0).sum()
            })
            .collect();
        let rank = |at: &usize| (self.seeds[*at].user == user, gains[*at]);
        (0..gains.len()).max_by(|a, b| {
            let ((a_kind, a), (b_kind, b)) = (rank(a), rank(b));
            a_kind.cmp(&b_kind).then(a.total_cmp(&b))
        })
    }

    /// The cohort that a seed becomes, what it gains, and users' logs with it.
    fn grow(&self, seed: &Seed, population: &Population) -> (f64, Component, Vec<Lane>) {
        let at_large = &population.components[0];
        let users: f64 = self.beds.iter().flat_map(|bed| bed.active).sum();
        let mut cohort = seed.cohort.clone();
        // First from the sample, by what the seed alone says.
        let mut sums = LaneSums::new(self.dim);
        for (bed, new) in self.sample.iter().zip(&seed.logs) {
            let bed = &self.beds[*bed];
            sums.add_messages(&bed.join(new, cohort.weight).1, &bed.messages);
        }
        let mut sums = sums.total(self.dim);
        let mut among: f64 = self.sample.iter().flat_map(|bed| self.beds[*bed].active).sum();
        let mut gain = f64::NEG_INFINITY;
        let mut logs = Vec::new();
        for _ in 0..MOST_PASSES {
            cohort.weight = ((sums.users + 0.5) / (among + 1.0)).min(0.99);
            cohort.settle(&sums, at_large);
            let next = self.trial(&cohort);
            let settled = next.gain < gain + 0.1;
            (gain, sums, among, logs) = (next.gain, next.sums, users, next.logs);
            if settled {
                break;
            }
        }
        let cost = cohort.cost(at_large) + weight_cost(users);
        (gain - cost, cohort, logs)
    }

    /// A new cohort beside all that is there.
    fn trial(&self, cohort: &Component) -> Trial {
        let probe = probe(cohort);
        let parts: Vec<(LaneSums, f64, Vec<Lane>)> = (self.beds.par_chunks(BLOCKS_PER_TASK))
            .map(|beds| {
                let (mut sums, mut gain, mut logs) = (LaneSums::new(self.dim), 0.0, Vec::new());
                for bed in beds {
                    let mut new = ZERO;
                    expect(&bed.messages, &probe, &mut new);
                    let (gains, shares, with) = bed.join(&new, cohort.weight);
                    gain += gains;
                    logs.push(with);
                    if shares.iter().any(|share| *share > 1e-6) {
                        sums.add_messages(&shares, &bed.messages);
                    }
                }
                (sums, gain, logs)
            })
            .collect();
        let mut whole = Trial { sums: Sums::new(self.dim), gain: 0.0, logs: Vec::new() };
        for (sums, gain, logs) in parts {
            whole.sums.add(&sums.total(self.dim));
            whole.gain += gain;
            whole.logs.extend(logs);
        }
        whole
    }
}

struct Trial {
    sums: Sums,
    gain: f64,
    logs: Vec<Lane>,
}

impl Bed {
    /// With a new component of that weight and those log likelihoods: the gain of all, everyone's
    /// share in it, and everyone's logs.
    fn join(&self, new: &Lane, weight: f64) -> (f64, Lane, Lane) {
        let (go, stay) = (weight.ln(), (1.0 - weight).ln());
        let mut gains = 0.0;
        let (mut shares, mut logs) = (ZERO, self.logs);
        for lane in 0..LANES {
            if self.active[lane] == 0.0 {
                continue;
            }
            // ln((1 − w)·e^log + w·e^new) − log
            let odds = new[lane] - self.logs[lane] + go;
            let gain = odds.max(stay) + (-(odds - stay).abs()).exp().ln_1p();
            gains += gain;
            shares[lane] = (odds - gain).exp();
            logs[lane] += gain;
        }
        (gains, shares, logs)
    }
}

widest! {
    /// `½ (bᵀA⁻¹b − ln det A)` of eight packed matrices A followed by vectors b, by Cholesky's
    /// factorisation in place.
    fn half_square_less_log_det(joint: &mut [Lane], dim: usize, out: &mut Lane)
        = half_square_less_log_det_kernel
}

#[inline(always)]
fn half_square_less_log_det_kernel(joint: &mut [Lane], dim: usize, out: &mut Lane) {
    let (mut determinant, mut logs, mut square) = ([1.0; LANES], ZERO, ZERO);
    // The vector is one more row of the factor.
    for i in 0..=dim {
        let row = packed_len(i);
        for j in 0..i {
            let other = packed_len(j);
            let mut rest = joint[row + j];
            for k in 0..j {
                for lane in 0..LANES {
                    rest[lane] -= joint[row + k][lane] * joint[other + k][lane];
                }
            }
            // Diagonals hold their own reciprocals.
            let diagonal = joint[other + j];
            joint[row + j] = each(|lane| rest[lane] * diagonal[lane]);
        }
        if i == dim {
            for j in 0..dim {
                for lane in 0..LANES {
                    square[lane] += joint[row + j][lane] * joint[row + j][lane];
                }
            }
            break;
        }
        let mut pivot = joint[row + i];
        for k in 0..i {
            for lane in 0..LANES {
                pivot[lane] -= joint[row + k][lane] * joint[row + k][lane];
            }
        }
        for lane in 0..LANES {
            let pivot = pivot[lane].max(1e-300);
            determinant[lane] *= pivot;
            joint[row + i][lane] = 1.0 / pivot.sqrt();
        }
        // A few pivots to a logarithm: their product can neither overflow nor vanish.
        if i % 3 == 2 || i + 1 == dim {
            for lane in 0..LANES {
                logs[lane] += determinant[lane].clamp(1e-300, 1e300).ln();
                determinant[lane] = 1.0;
            }
        }
    }
    *out = each(|lane| 0.5 * (square[lane] - logs[lane]));
}

/// Up to `most` of `count` places, evenly spaced, from a start that moves with `turn`.
pub(super) fn evenly(count: usize, most: usize, turn: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| (turn + k * count / most) % count).collect()
}

/// Along the axes in which the users of a component differ most, to either side.
fn axes(spectra: &[&Spectrum], population: &Population, pass: &Pass) -> Vec<Component> {
    let count = pass.sums.len();
    let blocks = evenly(spectra.len(), 4 * SAMPLE, 0);
    let mut seeds = Vec::new();
    for (c, component) in population.components.iter().enumerate() {
        if component.spread <= 0.0 || pass.sums[c].users < 4.0 {
            continue;
        }
        let d = component.centre.len();
        let mut scatter = Symmetric::zero(d);
        for &block in &blocks {
            for lane in 0..LANES {
                let share = pass.shares[block * count + c][lane];
                if share > 0.01 {
                    let far = deviation(spectra[block], lane, component, population.noise);
                    scatter.add_outer(share, &far);
                }
            }
        }
        let eigen = scatter.eigen();
        let reach = component.spread.sqrt() * 1.5;
        for axis in eigen.vectors.chunks_exact(d).rev().take(3) {
            for side in [-reach, reach] {
                let centre = component.centre.iter().zip(axis).map(|(m, a)| m + side * a);
                seeds.push(Component {
                    weight: component.weight / 4.0,
                    centre: centre.collect(),
                    doubt: Symmetric::zero(d),
                    spread: component.spread,
                });
            }
        }
    }
    seeds
}

/// How far a user's posterior mean is from its component's centre.
pub(super) fn deviation(
    users: &Spectrum,
    lane: usize,
    component: &Component,
    noise: f64,
) -> Vec<f64> {
    let d = users.dim();
    let mut deviation = vec![0.0; d];
    let mut q = vec![0.0; d];
    for j in 0..d {
        for k in 0..d {
            q[k] = users.vectors()[j * d + k][lane];
        }
        let value = users.values()[j][lane];
        let rest = users.along()[j][lane] - value * dot(&q, &component.centre);
        let along = component.spread * rest / (noise + component.spread * value);
        for k in 0..d {
            deviation[k] += along * q[k];
        }
    }
    deviation
}
