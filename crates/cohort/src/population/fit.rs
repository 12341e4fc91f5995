//! Fitting the mixture: variational expectation–maximisation on users' sufficient statistics.
//!
//! ```text
//! sample:  statistics of some users → structure (how many cohorts, where, which directions)
//! polish:  population → sums over all users → centres, weights, variances, noise
//! ```
//!
//! The two halves exchange nothing but a [`Population`] and [`PassSums`], and sums add up: users may be
//! in blocks, on threads or on machines of their own.

use super::constants;
use rayon::prelude::*;

use super::e_step::{EStep, Messages};
use super::lanes::LANES;
use super::ledger::Ledger;
use super::maximise::FixedParameters;
use super::model::{Component, Population};
use super::moments::Moments;
use super::pass::Pass;
use super::sample::sample;
use super::sums::PassSums;
use super::{buffer_pool, covariance, noise, structure};
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::pace::spend;

/// What a fit does not learn but is given, for ablations.
#[derive(Clone, Copy, Debug)]
pub struct FitOptions {
    /// Whether there may be cohorts at all.
    pub cohorts: bool,
    /// Whether users may differ more in some directions than in others.
    pub directions: bool,
    /// Whether users may be more or less noisy than others.
    pub noise: bool,
    /// σ, if it is not to be learned.
    pub sigma: Option<f64>,
    /// σ² is not below this.
    pub least_noise: f64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { cohorts: true, directions: true, noise: true, sigma: None, least_noise: 0.0 }
    }
}

impl Population {
    /// Fits the population to all statistics, starting from an earlier fit if there is one. `None`
    /// while all rewards or all contexts are zero.
    pub fn fit(
        ledger: &Ledger,
        warm: Option<&Population>,
        given: &FitOptions,
    ) -> Option<Population> {
        let slots = sample(ledger, warm);
        let users = ledger.moments_of(&slots);
        let mut population = Self::fit_sample(users, ledger.origin(), warm, given)?;
        population.polish(ledger, &slots, given);
        // If the numbers overflowed, the previous fit fixed.
        population.is_usable().then_some(population)
    }

    /// The first half: the structure of a sample of users.
    pub fn fit_sample(
        users: Vec<Moments>,
        origin: f64,
        warm: Option<&Population>,
        given: &FitOptions,
    ) -> Option<Population> {
        let mut fitting = Fitting::begin(users, origin, warm, given)?;
        if given.cohorts {
            fitting.find_cohorts();
        }
        Some(fitting.population.clone())
    }

    /// The second half: the sums over all users of a ledger.
    pub fn sums(&self, ledger: &Ledger) -> PassSums {
        let walk = ledger.walk();
        let moments = |at: usize| {
            let mut users = walk.moments(at);
            self.prepare(&mut users, true);
            users
        };
        PassSums::over(walk.blocks(), &moments, self)
    }

    /// Puts statistics into the population's basis, and weighs them where users are not equally noisy.
    pub(super) fn prepare(&self, users: &mut Moments, weigh: bool) {
        if let Some(basis) = &self.basis {
            users.rotate(basis);
        }
        if weigh
            && self.noise_dof.is_finite()
            && let Some(weights) = noise::weights(&EStep::new(self), users)
        {
            users.weigh(&weights);
        }
    }

    /// Updates the population by sums over all users, after a fit to a sample.
    pub(super) fn polish(&mut self, ledger: &Ledger, sample: &[usize], given: &FitOptions) {
        if sample.len() == ledger.answered() {
            return;
        }
        self.polish_by(&ledger.moments_of(sample), given, |population| population.sums(ledger));
    }

    /// The same after a fit to users with these statistics; `sums` gives the sums over all users for a population.
    pub(super) fn polish_by(
        &mut self,
        sample: &[Moments],
        given: &FitOptions,
        mut sums: impl FnMut(&Self) -> PassSums,
    ) {
        let Some(mut scales) = DataScales::of(sample) else { return };
        scales.floor = given.least_noise;
        let fixed = FixedParameters { noise: given.sigma.is_some(), at_large: false };
        for _ in 0..constants::polishing_passes() {
            let sums = sums(self);
            let certainty = self.certainty;
            self.maximise(&sums, &scales, fixed);
            // The certainty of the structure is that of the sample.
            self.certainty = certainty;
        }
    }
}

/// The scales of the data.
#[derive(Clone, Debug)]
pub(super) struct DataScales {
    /// Users with rewards.
    pub users: f64,
    /// All rewards.
    pub rewards: f64,
    /// Σ‖x‖².
    lengths: f64,
    /// Σ(y − mean)².
    squares: f64,
    /// The mean of all rewards, from the ledger's origin.
    mean: f64,
    /// Features that are not 0 for all of them.
    pub used: usize,
    /// What σ² is not below, whatever these say.
    floor: f64,
}

impl DataScales {
    pub fn of(users: &[Moments]) -> Option<Self> {
        let (mut count, mut rewards, mut total, mut squares, mut lengths) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut used = vec![false; users.first()?.dim() - 1];
        for block in users {
            let dim = block.dim();
            for lane in 0..LANES {
                count += f64::from(block.rewards()[lane] > 0.0);
                rewards += block.rewards()[lane];
                squares += block.squares()[lane];
                total += block.moment()[dim - 1][lane];
                for i in 0..dim - 1 {
                    let square = block.gram()[packed_len(i) + i][lane];
                    lengths += square;
                    used[i] |= square > 0.0;
                }
            }
        }
        let mean = total / rewards;
        // While all rewards are equal, their distance from zero is the only scale.
        let centred = squares - mean * total;
        let squares = if centred > 1e-12 * squares { centred } else { squares };
        let used = used.into_iter().filter(|used| *used).count();
        let scales = Self { users: count, rewards, lengths, squares, mean, used, floor: 0.0 };
        // Beyond these, squares would overflow.
        let usable = |value: f64| (1e-100..1e100).contains(&value);
        (usable(rewards) && usable(lengths) && usable(squares)).then_some(scales)
    }

    /// Half of the rewards' size as noise …
    pub fn noise(&self) -> f64 {
        0.5 * self.squares / self.rewards
    }

    /// … and half as signal.
    pub fn spread(&self) -> f64 {
        0.5 * self.squares / self.lengths
    }

    pub fn least_noise(&self) -> f64 {
        (self.noise() * 1e-10).max(self.floor)
    }

    fn first_guess(&self, features: usize, origin: f64) -> Population {
        let mut mean = vec![0.0; features + 1];
        mean[features] = self.mean;
        let mut doubt = Symmetric::identity(features + 1, self.spread());
        let last = packed_len(features + 1) - 1;
        doubt.packed_mut()[last] = self.noise();
        let mut variances = vec![self.spread(); features + 1];
        variances[features] = 0.1 * self.noise();
        Population {
            components: vec![Component { weight: 1.0, mean, doubt }],
            basis: None,
            directions: 0,
            variances: [variances.clone(), variances],
            noise: self.noise(),
            noise_dof: f64::INFINITY,
            origin,
            mean_prior_variance: self.spread(),
            evidence: 0.0,
            certainty: 1.0,
            tried: 0.0,
            searched: 0.0,
            directions_tried: 0.0,
            noise_tried: 0.0,
            used: self.used as f64,
        }
    }
}

/// Whether messages for one key can be used for the other.
fn nearly(a: &MessageKey, b: &MessageKey) -> bool {
    let close = |a: f64, b: f64| {
        (a - b).abs() <= constants::stale_variances() * a.max(b) || a.max(b) < 1e-12
    };
    close(a.1, b.1) && a.0.iter().zip(&b.0).all(|(a, b)| close(*a, *b))
}

/// What an inverse of eight matrices costs.
pub(super) fn inverse_work(dim: usize) -> f64 {
    (dim as f64).powi(3) / 2.0 + 50.0 * dim as f64
}

/// The variances of a class of components, and the noise: what messages depend on.
type MessageKey = (Vec<f64>, f64);

/// A fit to a sample of users under way, in the population's basis.
pub(super) struct Fitting {
    pub users: Vec<Moments>,
    pub population: Population,
    pub scales: DataScales,
    pub given: FitOptions,
    pub fixed: FixedParameters,
    /// Whether cohorts are decided by the evidence alone.
    pub by_evidence: bool,
    messages: Vec<Messages>,
    /// The key that the messages of each class were computed for.
    written: [Option<MessageKey>; 2],
}

impl Fitting {
    pub fn new(
        users: Vec<Moments>,
        population: Population,
        scales: DataScales,
        given: FitOptions,
    ) -> Self {
        let fixed = FixedParameters { noise: given.sigma.is_some(), at_large: false };
        Self {
            users,
            population,
            scales,
            given,
            fixed,
            by_evidence: false,
            messages: Vec::new(),
            written: [None, None],
        }
    }

    /// A fit with as many cohorts as before, after some EM passes (`passes`, `early_passes` or `first_passes`).
    pub fn begin(
        mut users: Vec<Moments>,
        origin: f64,
        warm: Option<&Population>,
        given: &FitOptions,
    ) -> Option<Self> {
        let mut scales = DataScales::of(&users)?;
        scales.floor = given.least_noise;
        let features = users.first()?.dim() - 1;
        // A fit to very few rewards is a bad start: variances near zero hardly grow again.
        let few = scales.rewards < constants::fresh_rewards() * scales.users
            || scales.rewards < constants::fresh_dimensions() * (scales.used + 1) as f64;
        let warm = warm.filter(|warm| !few || warm.components.len() > 1);
        let mut population = match warm {
            Some(warm) => warm.clone(),
            None => scales.first_guess(features, origin),
        };
        population.used = scales.used as f64;
        users.par_iter_mut().for_each(|users| population.prepare(users, false));
        if let Some(sigma) = given.sigma {
            population.noise = (sigma * sigma).max(scales.least_noise());
        }
        let mut fitting = Self::new(users, population, scales, *given);
        if given.noise {
            fitting.weigh_users();
        }
        let early = fitting.scales.rewards < fitting.scales.used as f64 * fitting.scales.users;
        fitting.iterate(match warm {
            None => constants::first_passes(),
            Some(_) if early => constants::early_passes(),
            Some(_) => constants::passes(),
        });
        if given.directions {
            covariance::improve(&mut fitting);
        }
        Some(fitting)
    }

    /// Continues with cohorts; from now on σ² is at least `least_noise`.
    pub fn go_on_with_cohorts(&mut self, least_noise: f64) {
        self.given = FitOptions { cohorts: true, least_noise, ..self.given };
        self.scales.floor = least_noise;
        self.find_cohorts();
    }

    /// Changes the number of cohorts where that increases the evidence.
    fn find_cohorts(&mut self) {
        if structure::improve(self) {
            self.iterate(constants::passes());
        }
    }

    /// At most `passes` EM iterations, until the evidence has converged.
    pub fn iterate(&mut self, passes: usize) {
        let mut before = f64::NEG_INFINITY;
        for _ in 0..passes {
            self.write_messages();
            self.spend_pass();
            let sums = Pass::sums_over(&self.users, &self.messages, &self.population);
            self.population.maximise(&sums, &self.scales, self.fixed);
            if (sums.evidence - before).abs() < constants::settled_evidence() * self.scales.users {
                break;
            }
            before = sums.evidence;
        }
    }

    /// The E step.
    pub fn pass(&mut self) -> Pass {
        self.write_messages();
        self.spend_pass();
        Pass::over(&self.users, &self.messages, &self.population, false)
    }

    /// The E step with complete outer products.
    pub fn whole_pass(&mut self) -> Pass {
        self.write_messages();
        self.spend_pass();
        Pass::over(&self.users, &self.messages, &self.population, true)
    }

    /// Weighs users' rewards by how noisy they are, where users differ in that.
    fn weigh_users(&mut self) {
        if self.scales.rewards > constants::noise_growth() * self.population.noise_tried {
            self.population.noise_tried = self.scales.rewards;
            self.write_messages();
            let e_step = EStep::new(&self.population);
            let dof = noise::fit_dof(&e_step, &self.users, &self.messages);
            self.population.noise_dof = dof;
        }
        if self.population.noise_dof.is_finite() {
            let e_step = EStep::new(&self.population);
            self.users.par_iter_mut().for_each(|users| {
                if let Some(weights) = noise::weights(&e_step, users) {
                    users.weigh(&weights);
                }
            });
            self.written = [None, None];
        }
    }

    fn write_messages(&mut self) {
        let population = &self.population;
        let classes = population.components.len().min(2);
        let now = |class: usize| (population.variances[class].clone(), population.noise);
        let is_stale = |class: usize| {
            class < classes
                && !self.written[class].as_ref().is_some_and(|known| nearly(known, &now(class)))
        };
        let stale = [is_stale(0), is_stale(1)];
        if stale == [false, false] {
            return;
        }
        let e_step = EStep::new(population);
        self.messages.resize_with(self.users.len(), Messages::default);
        self.messages.iter_mut().for_each(|messages| e_step.make_room(messages));
        (self.users.par_iter().zip(&mut self.messages).with_min_len(4)).for_each(
            |(users, messages)| {
                (0..2).filter(|class| stale[*class]).for_each(|class| {
                    e_step.write_class(class, users, &mut messages[class]);
                });
            },
        );
        for class in (0..2).filter(|class| stale[*class]) {
            spend(self.users.len() as f64 * inverse_work(population.features() + 1));
            self.written[class] = Some(now(class));
        }
        if classes == 1 {
            // Buffers of unused classes are released.
            self.written[1] = None;
        }
    }

    /// A dot product and a sum for each component, of messages of D² numbers.
    fn spend_pass(&self) {
        let (dim, components) = (self.population.features() + 1, self.population.components.len());
        spend((self.users.len() * (components + 2) * dim * dim) as f64);
    }

    /// The users' messages of the last pass.
    pub fn messages(&self) -> &[Messages] {
        &self.messages
    }

    /// The basis changed: messages must be computed again.
    pub fn rotated(&mut self) {
        self.written = [None, None];
    }
}

impl Drop for Fitting {
    fn drop(&mut self) {
        buffer_pool::give(self.messages.drain(..).flatten());
    }
}
