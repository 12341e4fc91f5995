//! How many cohorts there are: births, mergers and removals, each only where the evidence gains.

use rayon::prelude::*;

use super::evidence::Sums;
use super::fit::{Pass, USERS_PER_TASK, Whole};
use super::message::{determinant_and_square, dot4, message_len, probe, write};
use super::model::{Component, Population};
use super::spectrum::Spectrum;
use crate::linear::symmetric::packed_len;
use crate::linear::{Symmetric, dot};

/// Nats that a change of structure must gain: less is noise.
const MARGIN: f64 = 1.0;
/// Births tried in vain before a refit gives up.
const VAIN: usize = 3;
/// Births of one refit at most.
const BIRTHS: usize = 40;
/// Users that are tried as the seed of a new cohort.
const SEEDS: usize = 48;
/// Users that seeds are compared with.
const SAMPLE: usize = 256;

/// Changes the number of cohorts while that helps.
pub(super) fn improve(spectra: &[Spectrum], population: &mut Population, whole: &Whole) {
    while merge_or_remove(spectra, population, whole) {}
    let pass = Pass::over(spectra, population);
    // The spread of a new cohort is that of the others; the first tries a small and a large one.
    let spreads = match population.components.get(1) {
        Some(cohort) => vec![cohort.spread],
        None => [0.02, 0.15].map(|part| part * population.components[0].spread).to_vec(),
    };
    for spread in spreads {
        let mut nursery = Nursery::new(spectra, population, &pass, spread, whole);
        if nursery.raise(population) {
            for _ in 0..3 {
                let pass = Pass::over(spectra, population);
                population.maximise(&pass, whole);
            }
            while merge_or_remove(spectra, population, whole) {}
            return;
        }
    }
}

/// Where new cohorts are tried.
struct Nursery {
    dim: usize,
    spread: f64,
    /// Messages of all users at the spread.
    messages: Vec<f64>,
    /// ln p(y_i) of every user under all that is there.
    logs: Vec<f64>,
    /// Users that seeds are compared with.
    sample: Vec<usize>,
    seeds: Vec<Seed>,
}

struct Seed {
    cohort: Component,
    /// ln p(y_i | the seed) of the users of the sample.
    logs: Vec<f64>,
}

impl Nursery {
    fn new(
        spectra: &[Spectrum],
        population: &Population,
        pass: &Pass,
        spread: f64,
        whole: &Whole,
    ) -> Self {
        let dim = population.components[0].centre.len();
        let len = message_len(dim);
        let mut messages = vec![0.0; spectra.len() * len];
        messages
            .par_chunks_mut(len)
            .zip(spectra)
            .with_min_len(USERS_PER_TASK)
            .for_each(|(message, user)| write(user, spread, population.noise, message));
        let turn = whole.rewards as usize;
        let sample = evenly(spectra.len(), SAMPLE, turn);
        let mut nursery =
            Self { dim, spread, messages, logs: pass.logs.clone(), sample, seeds: Vec::new() };
        // Those that belong to nobody are the likelier seeds.
        let count = population.components.len();
        let lonely: Vec<usize> =
            (0..spectra.len()).filter(|i| pass.shares[i * count] > 0.2).collect();
        let mut users: Vec<usize> =
            evenly(lonely.len(), SEEDS, turn).into_iter().map(|at| lonely[at]).collect();
        users.extend(evenly(spectra.len(), SEEDS / 4, turn / 7));
        let at_large = &population.components[0];
        nursery.seeds = users
            .par_iter()
            .map(|user| nursery.user_seed(*user, at_large))
            .chain(axes(spectra, population, pass).into_par_iter().map(|c| nursery.seed(c)))
            .collect();
        nursery
    }

    fn message(&self, user: usize) -> &[f64] {
        let len = message_len(self.dim);
        &self.messages[user * len..(user + 1) * len]
    }

    /// A cohort at a fixed place.
    fn seed(&self, cohort: Component) -> Seed {
        let cohort = Component { spread: self.spread, ..cohort };
        let probe = probe(&cohort);
        let logs = self.sample.iter().map(|i| dot4(self.message(*i), &probe)).collect();
        Seed { cohort, logs }
    }

    /// A cohort whose only known member is one user: others are judged by the exact evidence of
    /// having a centre in common with it.
    fn user_seed(&self, user: usize, at_large: &Component) -> Seed {
        let d = self.dim;
        let mut sums = Sums::new(d);
        sums.add_message(1.0, self.message(user));
        let mut cohort = Component {
            weight: (2.0 / self.logs.len() as f64).clamp(0.02, 0.5),
            spread: self.spread,
            ..at_large.clone()
        };
        cohort.settle(&sums, at_large);
        let precision = 1.0 / at_large.spread.max(1e-12);
        let mut own = sums.information(d);
        own.add_diagonal(precision);
        let pull: Vec<f64> =
            sums.pull(d).iter().zip(&at_large.centre).map(|(p, m)| p + precision * m).collect();
        let (mut matrix, mut vector) = (own.packed().to_vec(), pull.clone());
        let alone = determinant_and_square(&mut matrix, &mut vector).unwrap_or((0.0, 0.0));
        let logs = self
            .sample
            .iter()
            .map(|&i| {
                let message = self.message(i);
                for (m, (a, b)) in matrix.iter_mut().zip(own.packed().iter().zip(message)) {
                    *m = a + b;
                }
                for (v, (a, b)) in
                    vector.iter_mut().zip(pull.iter().zip(&message[packed_len(d)..]))
                {
                    *v = a + b;
                }
                let log = message[packed_len(d) + d];
                determinant_and_square(&mut matrix, &mut vector)
                    .map_or(f64::NEG_INFINITY, |(det, square)| {
                        log + 0.5 * (alone.0 - det + square - alone.1)
                    })
            })
            .collect();
        Seed { cohort, logs }
    }

    /// Adds cohorts while that gains; whether any was.
    fn raise(&mut self, population: &mut Population) -> bool {
        let before = population.components.len();
        let mut vain = 0;
        while vain < VAIN && population.components.len() < before + BIRTHS {
            let Some(best) = self.most_promising() else { break };
            let seed = self.seeds.swap_remove(best);
            let (gain, cohort, logs) = self.grow(&seed, population);
            if gain > MARGIN {
                for component in &mut population.components {
                    component.weight *= 1.0 - cohort.weight;
                }
                population.components.push(cohort);
                self.logs = logs;
            } else {
                vain += 1;
            }
        }
        population.components.len() > before
    }

    fn most_promising(&self) -> Option<usize> {
        let gains: Vec<f64> = self
            .seeds
            .par_iter()
            .map(|seed| {
                let gains = self.sample.iter().zip(&seed.logs);
                gains.map(|(i, new)| joined(self.logs[*i], *new, seed.cohort.weight)).sum()
            })
            .collect();
        (0..gains.len()).max_by(|a, b| gains[*a].total_cmp(&gains[*b]))
    }

    /// The cohort that a seed becomes, what it gains, and users' logs with it.
    fn grow(&self, seed: &Seed, population: &Population) -> (f64, Component, Vec<f64>) {
        let at_large = &population.components[0];
        let users = self.logs.len() as f64;
        let mut cohort = seed.cohort.clone();
        // First from the sample, by what the seed alone says.
        let mut sums = Sums::new(self.dim);
        for (i, new) in self.sample.iter().zip(&seed.logs) {
            let gain = joined(self.logs[*i], *new, cohort.weight);
            let share = (cohort.weight.ln() + new - self.logs[*i] - gain).exp();
            if share > 1e-3 {
                sums.add_message(share, self.message(*i));
            }
        }
        cohort.weight = ((sums.users + 0.5) / (self.sample.len() as f64 + 1.0)).min(0.99);
        cohort.settle(&sums, at_large);
        let mut trial = self.trial(&cohort);
        let mut last = f64::NEG_INFINITY;
        for _ in 0..12 {
            cohort.weight = ((trial.sums.users + 0.5) / (users + 1.0)).min(0.99);
            cohort.settle(&trial.sums, at_large);
            trial = self.trial(&cohort);
            if trial.gain < last + 0.1 {
                break;
            }
            last = trial.gain;
        }
        let gain = trial.gain - cohort.cost(at_large) - 0.5 * users.ln();
        (gain, cohort, trial.logs)
    }

    fn trial(&self, cohort: &Component) -> Trial {
        let probe = probe(cohort);
        let len = message_len(self.dim);
        let parts: Vec<Trial> = self
            .messages
            .par_chunks(USERS_PER_TASK * len)
            .zip(self.logs.par_chunks(USERS_PER_TASK))
            .map(|(messages, logs)| {
                let mut part = Trial { sums: Sums::new(self.dim), gain: 0.0, logs: Vec::new() };
                for (message, log) in messages.chunks_exact(len).zip(logs) {
                    let new = dot4(message, &probe);
                    let gain = joined(*log, new, cohort.weight);
                    part.gain += gain;
                    part.logs.push(log + gain);
                    let share = (cohort.weight.ln() + new - log - gain).exp();
                    if share > 1e-6 {
                        part.sums.add_message(share, message);
                    }
                }
                part
            })
            .collect();
        let mut whole = Trial { sums: Sums::new(self.dim), gain: 0.0, logs: Vec::new() };
        for part in parts {
            whole.sums.add(&part.sums);
            whole.gain += part.gain;
            whole.logs.extend(part.logs);
        }
        whole
    }
}

/// A new cohort beside all that is there.
struct Trial {
    sums: Sums,
    gain: f64,
    logs: Vec<f64>,
}

/// Up to `most` of `count` places, evenly spaced, from a start that moves with `turn`.
fn evenly(count: usize, most: usize, turn: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| (turn + k * count / most) % count).collect()
}

/// ln((1 − w)·e^log + w·e^new) − log, the gain of one user.
fn joined(log: f64, new: f64, weight: f64) -> f64 {
    let odds = new - log + weight.ln();
    let stay = (1.0 - weight).ln();
    if odds > stay {
        odds + (stay - odds).exp().ln_1p()
    } else {
        stay + (odds - stay).exp().ln_1p()
    }
}

/// Along the axes in which the users of a component differ most, to either side.
fn axes(spectra: &[Spectrum], population: &Population, pass: &Pass) -> Vec<Component> {
    let count = pass.sums.len();
    let mut seeds = Vec::new();
    for c in 0..count {
        let component = &population.components[c];
        if component.spread <= 0.0 || pass.sums[c].users < 4.0 {
            continue;
        }
        let d = component.centre.len();
        let mut scatter = Symmetric::zero(d);
        for i in evenly(spectra.len(), 4 * SAMPLE, 0) {
            let share = pass.shares[i * count + c];
            if share > 0.01 {
                scatter.add_outer(share, &deviation(&spectra[i], component, population.noise));
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
fn deviation(user: &Spectrum, component: &Component, noise: f64) -> Vec<f64> {
    let d = user.dim();
    let mut deviation = vec![0.0; d];
    for j in user.seen() {
        let (value, q) = (user.values[j], user.vector(j));
        let rest = user.along[j] - value * dot(q, &component.centre);
        let along = component.spread * rest / (noise + component.spread * value);
        for k in 0..d {
            deviation[k] += along * q[k];
        }
    }
    deviation
}

/// One change that leaves fewer cohorts, if any gains.
fn merge_or_remove(spectra: &[Spectrum], population: &mut Population, whole: &Whole) -> bool {
    let count = population.components.len();
    if count == 1 {
        return false;
    }
    let users = spectra.len() as f64;
    let pass = Pass::over(spectra, population);
    let at_large = population.components[0].clone();

    let removal = (1..count)
        .map(|k| {
            let component = &population.components[k];
            let gain = pass.absence[k] - users * (1.0 - component.weight).ln()
                + component.cost(&at_large)
                + 0.5 * users.ln();
            (gain, k)
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((gain, k)) = removal
        && gain > 0.0
    {
        population.components.remove(k);
        let rest: f64 = population.components.iter().map(|c| c.weight).sum();
        for component in &mut population.components {
            component.weight /= rest;
        }
        let pass = Pass::over(spectra, population);
        population.maximise(&pass, whole);
        return true;
    }

    let alone: Vec<f64> = pass.sums.iter().map(|sums| log_integral(sums, &at_large)).collect();
    let mut best: Option<(f64, usize, usize)> = None;
    for a in 1..count {
        for b in a + 1..count {
            let mut both = pass.sums[a].clone();
            both.add(&pass.sums[b]);
            let (pa, pb) = (population.components[a].weight, population.components[b].weight);
            let mut gain = log_integral(&both, &at_large) - alone[a] - alone[b]
                + pass.sums[a].users * ((pa + pb) / pa).ln()
                + pass.sums[b].users * ((pa + pb) / pb).ln()
                + 0.5 * users.ln();
            if gain > 0.0 {
                for shares in pass.shares.chunks_exact(count) {
                    let entropy = |p: f64| if p > 1e-300 { p * p.ln() } else { 0.0 };
                    gain += entropy(shares[a]) + entropy(shares[b])
                        - entropy(shares[a] + shares[b]);
                }
            }
            if gain > 0.0 && best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, a, b));
            }
        }
    }
    let Some((_, a, b)) = best else { return false };
    let mut both = pass.sums[a].clone();
    both.add(&pass.sums[b]);
    let weight = population.components[b].weight;
    let merged = &mut population.components[a];
    merged.weight += weight;
    merged.settle(&both, &at_large);
    population.components.remove(b);
    let pass = Pass::over(spectra, population);
    population.maximise(&pass, whole);
    true
}

/// ln ∫ exp(⟨pull, μ⟩ − ½ μᵀ information μ) N(μ; centre, spread·I) dμ.
fn log_integral(sums: &Sums, prior: &Component) -> f64 {
    let d = prior.centre.len();
    let spread = prior.spread.max(1e-12);
    let mut information = sums.information(d);
    information.add_diagonal(1.0 / spread);
    let mut pull: Vec<f64> =
        sums.pull(d).iter().zip(&prior.centre).map(|(p, m)| p + m / spread).collect();
    let Some((log_det, square)) = determinant_and_square(information.packed_mut(), &mut pull)
    else {
        return f64::NEG_INFINITY;
    };
    0.5 * (square
        - log_det
        - dot(&prior.centre, &prior.centre) / spread
        - d as f64 * spread.ln())
}
