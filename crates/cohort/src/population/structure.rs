//! How many cohorts there are: births, mergers and removals, each only where the evidence gains.

use rayon::prelude::*;

use super::evidence::{Reading, Sums};
use super::fit::{Pass, USERS_PER_TASK, Whole};
use super::model::{Component, Population};
use super::spectrum::Spectrum;
use crate::linear::{Symmetric, dot};

/// Nats that a change of structure must gain: less is noise.
const MARGIN: f64 = 1.0;
/// Births tried in vain before a refit gives up.
const VAIN: usize = 2;
/// Births of one refit at most.
const BIRTHS: usize = 16;
/// Users whose own posterior is tried as the centre of a new cohort, at each birth.
const SEEDS: usize = 12;
/// Users on which seeds are compared.
const SAMPLE: usize = 256;

/// Changes the number of cohorts while that helps.
pub(super) fn improve(spectra: &[Spectrum], population: &mut Population, whole: &Whole) {
    while merge_or_remove(spectra, population, whole) {}
    let pass = Pass::over(spectra, population);
    let mut logs = pass.logs.clone();
    let (mut vain, mut births) = (0, 0);
    if std::env::var("NOBIRTH").is_ok() { return; }
    while vain < VAIN && births < BIRTHS {
        let turn = vain + births * 7 + whole.rewards as usize;
        match birth(spectra, population, &logs, turn, &pass) {
            Some((cohort, with)) => {
                for component in &mut population.components {
                    component.weight *= 1.0 - cohort.weight;
                }
                population.components.push(cohort);
                logs = with;
                births += 1;
            }
            None => vain += 1,
        }
    }
    if births > 0 {
        for _ in 0..3 {
            let pass = Pass::over(spectra, population);
            population.maximise(&pass, whole);
        }
        while merge_or_remove(spectra, population, whole) {}
    }
}

/// A new cohort that the users' evidence pays for, and the users' logs with it.
fn birth(
    spectra: &[Spectrum],
    population: &Population,
    logs: &[f64],
    turn: usize,
    pass: &Pass,
) -> Option<(Component, Vec<f64>)> {
    let spread = match population.components.get(1) {
        Some(cohort) => vec![cohort.spread],
        None => vec![0.01 * population.components[0].spread, 0.1 * population.components[0].spread],
    };
    let mut seeds = user_seeds(spectra, population, turn);
    seeds.extend(axis_seeds(spectra, population, pass));
    let stride = spectra.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<usize> = (turn % stride..spectra.len()).step_by(stride).collect();
    let scale = spectra.len() as f64 / sample.len() as f64;
    let mut ranked: Vec<(f64, Component)> = seeds
        .into_iter()
        .flat_map(|seed| spread.iter().map(move |s| Component { spread: *s, ..seed.clone() }))
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|seed| {
            let mut reading = Reading::new(seed.centre.len());
            let gain: f64 = sample
                .iter()
                .map(|&i| {
                    let log = reading.of(&spectra[i], &seed, population.noise);
                    joined(logs[i], log, seed.weight)
                })
                .sum();
            (gain * scale, seed)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(3);
    let mut best: Option<(f64, Component, Vec<f64>)> = None;
    for (_, mut cohort) in ranked {
        for _ in 0..6 {
            let trial = Trial::of(spectra, &cohort, logs, population.noise);
            cohort.weight = ((trial.sums.users + 0.5) / (spectra.len() as f64 + 1.0)).min(0.99);
            cohort.settle(&trial.sums, &population.components[0]);
            if spread.len() > 1 && trial.sums.spread[1] > 0.0 {
                let step = trial.sums.spread[0] / trial.sums.spread[1];
                cohort.spread = (cohort.spread + step).clamp(0.0, 4.0 * cohort.spread);
            }
        }
        let trial = Trial::of(spectra, &cohort, logs, population.noise);
        let gain = trial.gain
            - cohort.cost(&population.components[0])
            - 0.5 * (spectra.len() as f64).ln();
        if gain > MARGIN && best.as_ref().is_none_or(|(most, ..)| gain > *most) {
            best = Some((gain, cohort, trial.logs));
        }
    }
    best.map(|(_, cohort, logs)| (cohort, logs))
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

/// A new cohort beside all that is there.
struct Trial {
    sums: Sums,
    gain: f64,
    logs: Vec<f64>,
}

impl Trial {
    fn of(spectra: &[Spectrum], cohort: &Component, logs: &[f64], noise: f64) -> Self {
        let dim = cohort.centre.len();
        let parts: Vec<Trial> = spectra
            .par_chunks(USERS_PER_TASK)
            .zip(logs.par_chunks(USERS_PER_TASK))
            .map(|(users, logs)| {
                let mut part = Trial { sums: Sums::new(dim), gain: 0.0, logs: Vec::new() };
                let mut reading = Reading::new(dim);
                for (user, log) in users.iter().zip(logs) {
                    let new = reading.of(user, cohort, noise);
                    let gain = joined(*log, new, cohort.weight);
                    part.gain += gain;
                    part.logs.push(log + gain);
                    let share = (cohort.weight.ln() + new - log - gain).exp();
                    if share > 1e-6 {
                        part.sums.add_user(share, user, &reading, noise);
                    }
                }
                part
            })
            .collect();
        let mut whole = Trial { sums: Sums::new(dim), gain: 0.0, logs: Vec::new() };
        for part in parts {
            whole.sums.add(&part.sums);
            whole.gain += part.gain;
            whole.logs.extend(part.logs);
        }
        whole
    }
}

/// Users, spread evenly, as centres: what is known of them is what is known of the cohort.
fn user_seeds(spectra: &[Spectrum], population: &Population, turn: usize) -> Vec<Component> {
    let at_large = &population.components[0];
    let count = SEEDS.min(spectra.len());
    let weight = (1.0 / spectra.len() as f64).max(0.05);
    (0..count)
        .map(|k| {
            let at = (turn * 31 + k * spectra.len() / count) % spectra.len();
            let user = &spectra[at];
            let mut reading = Reading::new(user.dim());
            let tight = Component { spread: 0.0, ..at_large.clone() };
            reading.of(user, &tight, population.noise);
            let mut sums = Sums::new(user.dim());
            sums.add_user(1.0, user, &reading, population.noise);
            let mut seed = Component { weight, ..at_large.clone() };
            seed.settle(&sums, at_large);
            seed
        })
        .collect()
}

/// Along the axes in which the users of a component differ most, one spread to either side.
fn axis_seeds(spectra: &[Spectrum], population: &Population, pass: &Pass) -> Vec<Component> {
    let count = pass.sums.len();
    let mut seeds = Vec::new();
    for c in 0..count.min(population.components.len()) {
        let component = &population.components[c];
        if component.spread <= 0.0 || pass.sums[c].users < 4.0 {
            continue;
        }
        let d = component.centre.len();
        let mut scatter = Symmetric::zero(d);
        let stride = spectra.len().div_ceil(4 * SAMPLE).max(1);
        for i in (0..spectra.len()).step_by(stride) {
            let share = pass.shares[i * count + c];
            if share > 0.01 {
                scatter.add_outer(share, &deviation(&spectra[i], component, population.noise));
            }
        }
        let eigen = scatter.eigen();
        for axis in eigen.vectors.chunks_exact(d).rev().take(2) {
            let reach = component.spread.sqrt() * 1.5;
            for side in [-1.0, 1.0] {
                seeds.push(Component {
                    weight: component.weight / 4.0,
                    centre: component
                        .centre
                        .iter()
                        .zip(axis)
                        .map(|(m, a)| m + side * reach * a)
                        .collect(),
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
        let rest = 1.0 - population.components.iter().map(|c| c.weight).sum::<f64>();
        for component in &mut population.components {
            component.weight /= 1.0 - rest;
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
    let d = prior.centre.len() as f64;
    let spread = prior.spread.max(1e-12);
    let mut information = sums.information.clone();
    information.add_diagonal(1.0 / spread);
    let mut pull: Vec<f64> =
        sums.pull.iter().zip(&prior.centre).map(|(p, m)| p + m / spread).collect();
    let Some(factor) = information.cholesky() else { return f64::NEG_INFINITY };
    let before = pull.clone();
    factor.solve(&mut pull);
    0.5 * (dot(&before, &pull)
        - factor.log_det()
        - dot(&prior.centre, &prior.centre) / spread
        - d * spread.ln())
}
