//! Fitting the mixture: variational expectation–maximisation on the users' spectra.
//!
//! ```text
//! spectra ← one eigendecomposition per user
//! repeat:  pass over users → shares, sums          (expectation)
//!          sums → centres, weights, spreads, noise (maximisation)
//! merge, remove and add cohorts where the evidence gains; repeat the above
//! ```
//!
//! A fit reads a ledger and an earlier fit and returns a new one: it can run beside decisions, and
//! every sum it takes over users adds up over partitions of them.

use std::borrow::Cow;

use rayon::prelude::*;

use super::births::evenly;
use super::evidence::{LaneSums, Slopes, Sums, everybody};
use super::lanes::{LANES, ZERO};
use super::ledger::Ledger;
use super::message::{message_len, write};
use super::model::{Component, Population};
use super::pass::Pass;
use super::posterior::{Believer, Outlook};
use super::scoring::{Variances, keep_from_zero, step};
use super::spectrum::Spectrum;
use super::structure;
use crate::linear::{Symmetric, dot};

/// Passes of a refit before it looks at the number of cohorts, and after.
const PASSES: usize = 2;
/// Blocks of users on which a fit iterates, at most; all others are asked once, at its end.
const SAMPLE: usize = 256;
/// Passes of the first fit, which starts from nothing.
const FIRST_PASSES: usize = 15;
/// Cohorts differ less within than this part of how much the population does, in squares.
const TIGHT: f64 = 0.5;

/// What a fit is not to learn, and is told instead: for ablations.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Whether there may be cohorts at all.
    pub cohorts: bool,
    /// σ, if it is not to be learned.
    pub sigma: Option<f64>,
}

impl Default for Given {
    fn default() -> Self {
        Self { cohorts: true, sigma: None }
    }
}

/// A fit, and what it looked at.
#[derive(Clone, Debug)]
pub struct Fit {
    /// What users have in common.
    pub population: Population,
    /// What was seen of them, in blocks.
    pub spectra: Vec<Spectrum>,
}

impl Population {
    /// The population behind what was seen of users, starting from an earlier fit where there is
    /// one. `None` while no reward and no context was anything but zero.
    pub fn fit(ledger: &Ledger, warm: Option<&Population>, given: &Given) -> Option<Fit> {
        let scales = Scales::of(ledger)?;
        let spectra = ledger.spectra(warm.map_or(0.0, |warm| warm.level));
        let spectrum = |at: usize| Cow::Borrowed(&spectra[at]);
        let population = Self::fit_to(ledger, scales, spectrum, warm, given);
        Some(Fit { population, spectra })
    }

    /// The same population, bit by bit, where nobody needs the spectra: they are worked out where
    /// they are looked at, so that a fit takes little memory beside the ledger's.
    pub fn fit_lightly(
        ledger: &Ledger,
        warm: Option<&Population>,
        given: &Given,
    ) -> Option<Population> {
        let scales = Scales::of(ledger)?;
        let level = warm.map_or(0.0, |warm| warm.level);
        let spectrum = |at: usize| Cow::Owned(ledger.spectrum(at, level));
        Some(Self::fit_to(ledger, scales, spectrum, warm, given))
    }

    fn fit_to<'a>(
        ledger: &Ledger,
        scales: Scales,
        spectrum: impl Fn(usize) -> Cow<'a, Spectrum> + Sync,
        warm: Option<&Population>,
        given: &Given,
    ) -> Population {
        let sample: Vec<Cow<Spectrum>> =
            evenly(ledger.blocks(), SAMPLE, 0).into_par_iter().map(&spectrum).collect();
        let mut fitting = Fitting {
            spectra: sample.iter().map(|users| &**users).collect(),
            population: match warm {
                Some(warm) => warm.clone(),
                None => scales.first_guess(ledger.dim()),
            },
            scales,
            given: *given,
        };
        if let Some(sigma) = given.sigma {
            fitting.population.noise = (sigma * sigma).max(fitting.scales.least_noise());
        }
        fitting.iterate(if warm.is_some() { PASSES } else { FIRST_PASSES });
        if given.cohorts {
            structure::improve(&mut fitting);
            fitting.iterate(PASSES);
        }
        if ledger.blocks() > SAMPLE {
            let sums = Pass::sums_over(ledger.blocks(), &spectrum, &fitting.population);
            fitting.maximise(&sums);
        }
        let mut population = fitting.population;
        population.level += level_step(ledger, &spectrum, &population);
        population
    }
}

/// The sizes of all that was seen.
#[derive(Clone, Debug)]
pub(super) struct Scales {
    /// Users with rewards.
    pub users: f64,
    /// All rewards.
    pub rewards: f64,
    /// Σ‖x‖².
    lengths: f64,
    /// Σy².
    squares: f64,
}

impl Scales {
    fn of(ledger: &Ledger) -> Option<Self> {
        let d = ledger.dim();
        let mut scales = Scales { users: 0.0, rewards: 0.0, lengths: 0.0, squares: 0.0 };
        for block in (0..ledger.blocks()).map(|at| ledger.block(at)) {
            for lane in 0..LANES {
                let rewards = block.rewards()[lane];
                scales.users += f64::from(rewards > 0.0);
                scales.rewards += rewards;
                scales.squares += block.squares()[lane];
                for i in 0..d {
                    scales.lengths += block.gram()[i * (i + 1) / 2 + i][lane];
                }
            }
        }
        // What is beyond these could not be squared again.
        let usable = |value: f64| (1e-100..1e100).contains(&value);
        (usable(scales.rewards) && usable(scales.lengths) && usable(scales.squares))
            .then_some(scales)
    }

    /// Half of the rewards' size as noise …
    fn noise(&self) -> f64 {
        0.5 * self.squares / self.rewards
    }

    /// … and half as signal.
    pub fn spread(&self) -> f64 {
        0.5 * self.squares / self.lengths
    }

    fn least_noise(&self) -> f64 {
        self.noise() * 1e-10
    }

    fn first_guess(&self, dim: usize) -> Population {
        let everybody = Component {
            weight: 1.0,
            centre: vec![0.0; dim],
            doubt: Symmetric::identity(dim, self.spread()),
            spread: self.spread(),
        };
        Population {
            components: vec![everybody],
            noise: self.noise(),
            reach: self.spread(),
            level: 0.0,
            evidence: 0.0,
        }
    }
}

/// A fit under way.
pub(super) struct Fitting<'a> {
    pub spectra: Vec<&'a Spectrum>,
    pub population: Population,
    pub scales: Scales,
    pub given: Given,
}

impl Fitting<'_> {
    /// Expectation and maximisation, several times.
    pub fn iterate(&mut self, passes: usize) {
        for _ in 0..passes {
            let pass = self.pass();
            self.maximise(&pass);
        }
    }

    /// Expectation.
    pub fn pass(&self) -> Pass {
        Pass::over(&self.spectra, &self.population)
    }

    /// Maximisation: everything afresh from the sums of a pass.
    pub fn maximise(&mut self, pass: &Pass) {
        let population = &mut self.population;
        population.evidence = pass.evidence;
        let count = population.components.len() as f64;
        let users: f64 = pass.sums.iter().map(|sums| sums.users).sum();
        for (component, sums) in population.components.iter_mut().zip(&pass.sums) {
            component.weight = (sums.users + 0.5) / (users + 0.5 * count);
        }

        // Cohorts: their centres are drawn from the population at large, and each is in turn one
        // more member of it, seen through its users.
        let at_large = population.components[0].clone();
        let mut at_large_sums = pass.sums[0].clone();
        let mut cohort_slopes = Slopes::default();
        for (cohort, sums) in population.components.iter_mut().zip(&pass.sums).skip(1) {
            cohort.settle(sums, &at_large);
            cohort_slopes.add(&sums.slopes);
            at_large_sums.add(&sums.as_one_user_of(&at_large));
        }
        // The population: its own centre is drawn around zero.
        let dim = at_large.centre.len();
        let origin = Component {
            weight: 1.0,
            centre: vec![0.0; dim],
            doubt: Symmetric::zero(dim),
            spread: population.reach,
        };
        population.components[0].settle(&at_large_sums, &origin);
        let whole = at_large_sums.as_one_user_of(&origin).slopes;
        let scale = self.scales.spread();
        population.reach =
            step(population.reach, &keep_from_zero(population.reach, whole.spread), scale);

        // Spreads and noise.
        let now = Variances {
            noise: population.noise,
            population: at_large.spread,
            cohorts: population.spreads()[1],
        };
        let next = now.scored(
            &at_large_sums.slopes,
            &cohort_slopes,
            self.scales.noise(),
            scale,
            self.given.sigma.is_some(),
        );
        population.noise = next.noise.max(self.scales.least_noise());
        population.components[0].spread = next.population;
        for cohort in population.components.iter_mut().skip(1) {
            cohort.spread = next.cohorts.min(TIGHT * next.population);
        }
    }
}

impl Sums {
    /// A component's centre as one user of the component it is drawn from.
    fn as_one_user_of(&self, from: &Component) -> Sums {
        let dim = from.centre.len();
        let lanes = |values: &[f64]| values.iter().map(|v| everybody(*v)).collect::<Vec<_>>();
        let centre = Spectrum::of(
            dim,
            lanes(self.information().packed()),
            &lanes(self.pull()),
            &ZERO,
            &everybody(dim as f64),
        );
        let mut one = LaneSums::new(dim);
        let mut message = vec![ZERO; message_len(dim)];
        write(&centre, from.spread, 1.0, &mut message);
        let share = everybody(1.0 / LANES as f64);
        one.add_messages(&share, &message);
        one.add_slopes(&share, &centre, from, 1.0);
        let mut one = one.total(dim);
        // The noise of a centre is not the rewards' noise.
        one.slopes.noise = [0.0; 2];
        one.slopes.spread[2] = 0.0;
        one
    }
}

/// How much the level that rewards are counted from must move: one step of scoring, towards zero
/// where little was seen. It counts from the next fit on.
fn level_step<'a>(
    ledger: &Ledger,
    spectrum: &impl Fn(usize) -> Cow<'a, Spectrum>,
    population: &Population,
) -> f64 {
    let believer = Believer::new(population, Outlook::default());
    let level = population.level;
    let (mut rest, mut information) = (0.0, 0.0);
    for at in evenly(ledger.blocks(), SAMPLE / 8, 0) {
        let (record, users) = (ledger.block(at), spectrum(at));
        for (lane, belief) in believer.believe(&users).iter().enumerate() {
            let n = record.rewards()[lane];
            if n == 0.0 {
                continue;
            }
            let contexts: Vec<f64> = record.contexts().iter().map(|x| x[lane]).collect();
            let guess = belief.likeliest();
            rest += record.total()[lane] - level * n - dot(&contexts, &guess.mean);
            information +=
                n - explained_level(&users, lane, &contexts, guess.component, population);
        }
    }
    // As if there had been a few rewards more, all of them zero.
    let imagined = 2.0 * ledger.dim() as f64;
    (rest - imagined * level) / (information.max(0.0) + imagined)
}

/// τ² Σ_j ⟨q_j, Σx⟩²/(σ² + τ²λ_j): how much of a level a user's θ could explain.
fn explained_level(
    users: &Spectrum,
    lane: usize,
    contexts: &[f64],
    component: usize,
    population: &Population,
) -> f64 {
    let (d, spread) = (users.dim(), population.components[component].spread);
    (0..d)
        .map(|j| {
            let q = &users.vectors()[j * d..(j + 1) * d];
            let along: f64 = q.iter().zip(contexts).map(|(q, x)| q[lane] * x).sum();
            spread * along * along / (population.noise + spread * users.values()[j][lane])
        })
        .sum()
}
