//! Fitting the mixture: variational expectation–maximisation on the users' spectra.
//!
//! One pass over users gives every user's shares in the components and the sums that the
//! components are then made from: centres by generalised least squares, spreads and noise by
//! Fisher scoring on the evidence (which, unlike EM, gets to a spread of exactly zero).

use rayon::prelude::*;

use super::evidence::Sums;
use super::message::{dot4, message_len, probe, write};
use super::model::{Component, Population};
use super::spectrum::Spectrum;
use super::structure;
use crate::linear::{Statistics, Symmetric, dot};

/// Users a task works on; fixed, so that sums are the same on any number of threads.
pub(super) const USERS_PER_TASK: usize = 64;

/// How many passes a refit makes before and after it looks for new cohorts.
const PASSES: usize = 3;
/// How many the first fit makes.
const FIRST_PASSES: usize = 15;

impl Population {
    /// The population behind users' statistics, starting from an earlier fit where there is one.
    pub fn fit(
        statistics: &[Statistics],
        warm: Option<&Population>,
    ) -> Option<(Population, Vec<Spectrum>)> {
        let mut whole = Whole::of(statistics);
        if whole.rewards < 1.0 || whole.lengths <= 0.0 || whole.squares <= 0.0 {
            return None;
        }
        whole.users = statistics.len();
        let spectra: Vec<Spectrum> = statistics.par_iter().map(Spectrum::new).collect();
        let mut population = match warm {
            Some(warm) => warm.clone(),
            None => whole.first_guess(statistics[0].moment.len()),
        };
        let passes = if warm.is_some() { PASSES } else { FIRST_PASSES };
        for _ in 0..passes {
            let pass = Pass::over(&spectra, &population);
            population.maximise(&pass, &whole);
        }
        structure::improve(&spectra, &mut population, &whole);
        for _ in 0..PASSES {
            let pass = Pass::over(&spectra, &population);
            population.maximise(&pass, &whole);
            population.evidence = pass.evidence;
        }
        Some((population, spectra))
    }
}

/// The scales of all that was seen, from which weak priors are made.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub users: usize,
    pub rewards: f64,
    /// Σ‖x‖².
    pub lengths: f64,
    /// Σy².
    pub squares: f64,
}

impl Whole {
    fn of(statistics: &[Statistics]) -> Self {
        let mut whole = Whole { users: 0, rewards: 0.0, lengths: 0.0, squares: 0.0 };
        for user in statistics {
            whole.rewards += user.rewards;
            whole.squares += user.squares;
            let d = user.moment.len();
            whole.lengths += (0..d).map(|i| user.gram.at(i, i)).sum::<f64>();
        }
        whole
    }

    /// Half of the rewards' size as noise …
    pub fn prior_noise(&self) -> f64 {
        0.5 * self.squares / self.rewards
    }

    /// … and half as signal.
    pub fn prior_spread(&self) -> f64 {
        0.5 * self.squares / self.lengths
    }

    fn first_guess(&self, dim: usize) -> Population {
        let everybody = Component {
            weight: 1.0,
            centre: vec![0.0; dim],
            doubt: Symmetric::identity(dim, self.prior_spread()),
            spread: self.prior_spread(),
        };
        Population { components: vec![everybody], noise: self.prior_noise(), reach: self.prior_spread(), evidence: 0.0 }
    }
}

/// One pass over all users: expectation.
pub(super) struct Pass {
    pub sums: Vec<Sums>,
    /// Σ_i ln Σ_c π_c p(y_i | c), the users' part of the evidence.
    pub evidence: f64,
    /// ln Σ_c π_c p(y_i | c) of every user.
    pub logs: Vec<f64>,
    /// The share of user i in component c at `i·components + c`.
    pub shares: Vec<f64>,
    /// Σ_i ln(1 − share), what every component's absence would cost in fit.
    pub absence: Vec<f64>,
}

impl Pass {
    pub fn over(spectra: &[Spectrum], population: &Population) -> Self {
        let dim = population.components[0].centre.len();
        let count = population.components.len();
        let noise = population.noise;
        let probes: Vec<Vec<f64>> = population.components.iter().map(probe).collect();
        let weights: Vec<f64> = population.components.iter().map(|c| c.weight.ln()).collect();
        let spreads = population.spreads();
        let parts: Vec<Pass> = spectra
            .par_chunks(USERS_PER_TASK)
            .map(|users| {
                let mut part = Pass {
                    sums: vec![Sums::new(dim); count],
                    evidence: 0.0,
                    logs: Vec::with_capacity(users.len()),
                    shares: vec![0.0; users.len() * count],
                    absence: vec![0.0; count],
                };
                let mut messages = [vec![0.0; message_len(dim)], vec![0.0; message_len(dim)]];
                for (user, shares) in users.iter().zip(part.shares.chunks_exact_mut(count)) {
                    write(user, spreads[0], noise, &mut messages[0]);
                    if count > 1 {
                        write(user, spreads[1], noise, &mut messages[1]);
                    }
                    for c in 0..count {
                        shares[c] = weights[c] + dot4(&messages[c.min(1)], &probes[c]);
                    }
                    let log = softmax(shares);
                    part.logs.push(log);
                    part.evidence += log;
                    for c in 0..count {
                        part.absence[c] += (1.0 - shares[c]).max(1e-300).ln();
                        if shares[c] > 1e-7 {
                            part.sums[c].add_message(shares[c], &messages[c.min(1)]);
                        }
                        if shares[c] > 1e-3 {
                            let component = &population.components[c];
                            part.sums[c].add_slopes(shares[c], user, component, noise);
                        }
                    }
                }
                part
            })
            .collect();
        let mut whole = Pass {
            sums: vec![Sums::new(dim); count],
            evidence: 0.0,
            logs: Vec::with_capacity(spectra.len()),
            shares: Vec::with_capacity(spectra.len() * count),
            absence: vec![0.0; count],
        };
        for part in parts {
            for (sums, part) in whole.sums.iter_mut().zip(&part.sums) {
                sums.add(part);
            }
            whole.evidence += part.evidence;
            whole.logs.extend(part.logs);
            whole.shares.extend(part.shares);
            for (a, b) in whole.absence.iter_mut().zip(part.absence) {
                *a += b;
            }
        }
        whole
    }
}

/// Logs to shares; returns the log of their sum.
pub(super) fn softmax(logs: &mut [f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for log in logs.iter_mut() {
        *log = (*log - most).exp();
        total += *log;
    }
    for share in logs.iter_mut() {
        *share /= total;
    }
    most + total.ln()
}

impl Population {
    /// τ² of the population at large and of cohorts.
    pub(super) fn spreads(&self) -> [f64; 2] {
        [self.components[0].spread, self.components.get(1).map_or(0.0, |cohort| cohort.spread)]
    }

    /// Maximisation: everything afresh from the sums of a pass.
    pub(super) fn maximise(&mut self, pass: &Pass, whole: &Whole) {
        let users: f64 = pass.sums.iter().map(|sums| sums.users).sum();
        let count = self.components.len() as f64;
        let noise = self.noise;
        let prior_spread = self.components[0].spread;

        // The cohorts: their centres are drawn from the population at large.
        let mut population = pass.sums[0].clone();
        let mut cohorts = Sums::new(self.components[0].centre.len());
        let at_large = self.components[0].clone();
        for (component, sums) in self.components.iter_mut().zip(&pass.sums).skip(1) {
            cohorts.add(sums);
            component.settle(sums, &at_large);
            // A cohort's centre is one more member of the population at large, seen through
            // its users.
            population.add(&sums.as_one_user(&at_large));
            component.weight = (sums.users + 0.5) / (users + 0.5 * count);
        }
        let at_large = &mut self.components[0];
        at_large.weight = (pass.sums[0].users + 0.5) / (users + 0.5 * count);
        // The population's own centre: how far it is from nothing at all is learned, too.
        let origin = Component {
            centre: vec![0.0; at_large.centre.len()],
            doubt: Symmetric::zero(at_large.centre.len()),
            spread: self.reach,
            weight: 1.0,
        };
        at_large.settle(&population, &origin);
        let one = population.as_one_user(&origin);
        let floor = whole.prior_spread() * 1e-9;
        let (slope, curve) = prior(self.reach);
        self.reach = stepped(
            self.reach,
            (one.spread[0] + slope) / (one.spread[1] + curve),
            whole.prior_spread(),
        );

        // Spreads and noise: one step of Fisher scoring, all three together.
        let [mut slope, mut curve] = [[0.0; 3], [0.0; 3]];
        slope[0] = population.noise[0] + cohorts.noise[0];
        curve[0] = population.noise[1] + cohorts.noise[1];
        (slope[1], curve[1]) = (population.spread[0], population.spread[1]);
        (slope[2], curve[2]) = (cohorts.spread[0], cohorts.spread[1]);
        let mixed = [population.spread[2], cohorts.spread[2]];
        // One imagined reward that is half noise.
        slope[0] += 0.5 * (whole.prior_noise() / noise - 1.0) / noise;
        curve[0] += 0.5 / (noise * noise);
        let (s, c) = prior(prior_spread.max(floor));
        (slope[1], curve[1]) = (slope[1] + s, curve[1] + c);
        let cohort_spread = self.components.get(1).map_or(0.0, |cohort| cohort.spread);
        let now = [noise, prior_spread, cohort_spread];
        let next = score(now, slope, curve, mixed);
        self.noise =
            stepped(noise, next[0] - now[0], noise).max(whole.prior_noise() * 1e-10);
        let spread = stepped(prior_spread, next[1] - now[1], whole.prior_spread());
        self.components[0].spread = spread.max(floor);
        let tight = stepped(cohort_spread, next[2] - now[2], spread).min(0.5 * spread);
        for cohort in self.components.iter_mut().skip(1) {
            cohort.spread = tight;
        }
    }
}

/// A prior that keeps a variance from being exactly zero while little is known: p(v) ∝ v.
fn prior(variance: f64) -> (f64, f64) {
    (1.0 / variance, 1.0 / (variance * variance))
}

/// A step of scoring that cannot overshoot: down in the logarithm, up by a factor at most.
fn stepped(now: f64, step: f64, scale: f64) -> f64 {
    if step < 0.0 {
        if now > 0.0 { now * (step / now).max(-20.0).exp() } else { 0.0 }
    } else {
        (now + step).min(3.0 * now + 0.03 * scale)
    }
}

/// `now + J⁻¹·slope` for (σ², τ₀², τ²), where only σ² has mixed terms; a spread that would become
/// negative is zero and the others are solved without it.
fn score(now: [f64; 3], slope: [f64; 3], curve: [f64; 3], mixed: [f64; 2]) -> [f64; 3] {
    let mut next = now;
    let mut fixed = [false, curve[1] <= 0.0, curve[2] <= 0.0];
    for _ in 0..3 {
        // Σ_k over free spreads eliminated: (J₀₀ − Σ m²/J_kk) Δ₀ = g₀ − Σ m g_k/J_kk
        let (mut left, mut right) = (curve[0], slope[0]);
        for k in 1..3 {
            if fixed[k] {
                right -= mixed[k - 1] * (next[k] - now[k]);
            } else {
                left -= mixed[k - 1] * mixed[k - 1] / curve[k];
                right -= mixed[k - 1] * slope[k] / curve[k];
            }
        }
        let step = if left > 1e-12 * curve[0] { right / left } else { 0.0 };
        next[0] = now[0] + step;
        let mut again = false;
        for k in 1..3 {
            if !fixed[k] {
                next[k] = now[k] + (slope[k] - mixed[k - 1] * step) / curve[k];
                if next[k] < 0.0 {
                    // As far as `stepped` will go.
                    next[k] = stepped(now[k], next[k] - now[k], 0.0);
                    (fixed[k], again) = (true, true);
                }
            }
        }
        if !again {
            break;
        }
    }
    next
}

impl Sums {
    /// The component's centre as one user of the component it is drawn from.
    fn as_one_user(&self, from: &Component) -> Sums {
        let dim = from.centre.len();
        let centre = Spectrum::new(&Statistics {
            gram: self.information(dim),
            moment: self.pull(dim).to_vec(),
            squares: 0.0,
            rewards: 0.0,
        });
        let mut one = Sums::new(dim);
        let mut message = vec![0.0; message_len(dim)];
        write(&centre, from.spread, 1.0, &mut message);
        one.add_message(1.0, &message);
        one.add_slopes(1.0, &centre, from, 1.0);
        // The noise of a centre is not the rewards' noise.
        one.noise = [0.0; 2];
        one.spread[2] = 0.0;
        one
    }
}

impl Component {
    /// The centre from what its users say and where centres come from.
    pub(super) fn settle(&mut self, sums: &Sums, prior: &Component) {
        let dim = self.centre.len();
        let precision = 1.0 / prior.spread.max(1e-12);
        let mut information = sums.information(dim);
        information.add_diagonal(precision);
        let mut pull = sums.pull(dim).to_vec();
        for (pull, centre) in pull.iter_mut().zip(&prior.centre) {
            *pull += precision * centre;
        }
        self.solve(&information, pull);
    }

    fn solve(&mut self, information: &Symmetric, mut pull: Vec<f64>) {
        if let Some(factor) = information.cholesky() {
            factor.solve(&mut pull);
            self.centre = pull;
            self.doubt = factor.inverse();
        }
    }

    /// KL(q(centre) ‖ N(prior.centre, prior.spread·I)): what a cohort costs.
    pub(super) fn cost(&self, prior: &Component) -> f64 {
        let d = self.centre.len() as f64;
        let spread = prior.spread.max(1e-12);
        let trace: f64 = (0..self.centre.len()).map(|i| self.doubt.at(i, i)).sum();
        let far: Vec<f64> = self.centre.iter().zip(&prior.centre).map(|(a, b)| a - b).collect();
        let log_det = self.doubt.cholesky().map_or(0.0, |factor| factor.log_det());
        0.5 * ((trace + dot(&far, &far)) / spread - d + d * spread.ln() - log_det)
    }
}
