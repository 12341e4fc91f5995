//! One pass over all users: to what share everybody belongs to every component, and the sums that
//! components are made from.

use std::borrow::Cow;

use rayon::prelude::*;

use super::evidence::{LaneSums, Sums};
use super::lanes::{LANES, Lane, ZERO, each};
use super::ledger::BLOCKS_PER_TASK;
use super::message::{expect, message_len, probe, write};
use super::model::{Component, Population};
use super::spectrum::Spectrum;

/// Shares below this are not summed.
const NEGLIGIBLE: f64 = 1e-7;
/// Shares below this say nothing about variances.
const SLIGHT: f64 = 1e-3;
/// Blocks that are asked about variances: three numbers need no more.
const SLOPE_BLOCKS: usize = 64;
/// Parts of a pass that wait to be added up, at most.
const TASKS_AT_ONCE: usize = 256;

/// What a pass finds.
pub struct Pass {
    /// What users say about every component.
    pub sums: Vec<Sums>,
    /// Σ_i ln Σ_c π_c p(y_i | c).
    pub evidence: f64,
    /// ln Σ_c π_c p(y_i | c) of every user, block by block.
    pub logs: Vec<Lane>,
    /// The share of users in component c at `block·components + c`.
    pub shares: Vec<Lane>,
    /// Σ_i ln(1 − share): what every component's absence would cost.
    pub absence: Vec<f64>,
}

/// A mixture prepared for looking at users.
pub struct Lens {
    noise: f64,
    spreads: [f64; 2],
    probes: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
}

impl Lens {
    /// For a population.
    pub fn new(population: &Population) -> Self {
        Self {
            noise: population.noise,
            spreads: population.spreads(),
            probes: population.components.iter().map(probe).collect(),
            log_weights: population.components.iter().map(|c| c.weight.ln()).collect(),
        }
    }

    /// Room for the messages of a block: at the spread of the population and at that of cohorts.
    pub fn room(&self, dim: usize) -> [Vec<Lane>; 2] {
        [vec![ZERO; message_len(dim)], vec![ZERO; message_len(dim)]]
    }

    /// The shares of a block's users in every component; returns the logs of their evidence.
    pub fn look(
        &self,
        users: &Spectrum,
        messages: &mut [Vec<Lane>; 2],
        shares: &mut [Lane],
    ) -> Lane {
        write(users, self.spreads[0], self.noise, &mut messages[0]);
        if shares.len() > 1 {
            write(users, self.spreads[1], self.noise, &mut messages[1]);
        }
        for (c, share) in shares.iter_mut().enumerate() {
            expect(&messages[c.min(1)], &self.probes[c], share);
            for lane in 0..LANES {
                share[lane] += self.log_weights[c];
            }
        }
        softmax(shares)
    }
}

/// Logs to shares, user by user; returns the logs of their sums.
fn softmax(logs: &mut [Lane]) -> Lane {
    let mut most = [f64::NEG_INFINITY; LANES];
    for log in logs.iter() {
        for lane in 0..LANES {
            most[lane] = most[lane].max(log[lane]);
        }
    }
    let mut total = ZERO;
    for log in logs.iter_mut() {
        for lane in 0..LANES {
            log[lane] = (log[lane] - most[lane]).exp();
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

/// Which of a block's users have seen anything: the others have nothing to say.
pub fn active(users: &Spectrum) -> Lane {
    each(|lane| f64::from(users.freedom[lane] > -(users.dim() as f64)))
}

impl Pass {
    /// Over all users.
    pub fn over(spectra: &[&Spectrum], population: &Population) -> Self {
        let spectrum = |at: usize| Cow::Borrowed(spectra[at]);
        Self::of(spectra.len(), &spectrum, population, true)
    }

    /// Over all users, of whom nothing is kept but the sums.
    pub fn sums_over<'a>(
        blocks: usize,
        spectrum: &(impl Fn(usize) -> Cow<'a, Spectrum> + Sync),
        population: &Population,
    ) -> Self {
        Self::of(blocks, spectrum, population, false)
    }

    fn of<'a>(
        blocks: usize,
        spectrum: &(impl Fn(usize) -> Cow<'a, Spectrum> + Sync),
        population: &Population,
        keeps_users: bool,
    ) -> Self {
        let dim = population.components[0].centre.len();
        let lens = Lens::new(population);
        let stride = blocks.div_ceil(SLOPE_BLOCKS);
        let part = |first: usize| {
            let mut part = Part::new(dim, population);
            for at in first..blocks.min(first + BLOCKS_PER_TASK) {
                let asked = at.is_multiple_of(stride);
                part.add(&lens, &spectrum(at), if asked { stride as f64 } else { 0.0 });
                if !keeps_users {
                    part.pass.logs.clear();
                    part.pass.shares.clear();
                }
            }
            (part.pass, part.sums)
        };
        let mut whole = Part::new(dim, population).pass;
        whole.sums = vec![Sums::new(dim); population.components.len()];
        let firsts: Vec<usize> = (0..blocks).step_by(BLOCKS_PER_TASK).collect();
        // Not all at once: the parts of very many users would take more memory than the users.
        for some in firsts.chunks(TASKS_AT_ONCE) {
            let parts: Vec<(Pass, Vec<LaneSums>)> = some.par_iter().map(|at| part(*at)).collect();
            for (part, sums) in parts {
                for (whole, part) in whole.sums.iter_mut().zip(&sums) {
                    whole.add(&part.total(dim));
                }
                whole.evidence += part.evidence;
                whole.logs.extend(part.logs);
                whole.shares.extend(part.shares);
                for (a, b) in whole.absence.iter_mut().zip(part.absence) {
                    *a += b;
                }
            }
        }
        whole
    }
}

/// A pass over some of the users.
struct Part<'a> {
    components: &'a [Component],
    noise: f64,
    pass: Pass,
    sums: Vec<LaneSums>,
    messages: Option<[Vec<Lane>; 2]>,
}

impl<'a> Part<'a> {
    fn new(dim: usize, population: &'a Population) -> Self {
        let count = population.components.len();
        let pass = Pass {
            sums: Vec::new(),
            evidence: 0.0,
            logs: Vec::new(),
            shares: Vec::new(),
            absence: vec![0.0; count],
        };
        Self {
            components: &population.components,
            noise: population.noise,
            pass,
            sums: vec![LaneSums::new(dim); count],
            messages: None,
        }
    }

    /// One block; what it says about variances counts `slope_weight` times.
    fn add(&mut self, lens: &Lens, users: &Spectrum, slope_weight: f64) {
        let count = self.components.len();
        let start = self.pass.shares.len();
        self.pass.shares.resize(start + count, ZERO);
        let messages = self.messages.get_or_insert_with(|| lens.room(users.dim()));
        let shares = &mut self.pass.shares[start..];
        let logs = lens.look(users, messages, shares);
        let active = active(users);
        for lane in 0..LANES {
            self.pass.evidence += active[lane] * logs[lane];
        }
        self.pass.logs.push(logs);
        for (c, share) in shares.iter_mut().enumerate() {
            for lane in 0..LANES {
                share[lane] *= active[lane];
            }
            self.pass.absence[c] +=
                share.iter().map(|share| (1.0 - share).max(1e-300).ln()).sum::<f64>();
            let most = share.iter().copied().fold(0.0, f64::max);
            if most > NEGLIGIBLE {
                self.sums[c].add_messages(share, &messages[c.min(1)]);
            }
            if most > SLIGHT && slope_weight > 0.0 {
                let share = each(|lane| slope_weight * share[lane]);
                self.sums[c].add_slopes(&share, users, &self.components[c], self.noise);
            }
        }
    }
}
