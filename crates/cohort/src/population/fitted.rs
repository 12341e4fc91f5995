//! The result of a refit: two populations, with and without cohorts, and which of them predicts
//! rewards better.
//!
//! ```text
//! at a refit, over users i of the panel and their rewards t since the refit before:
//! g_it = (y − E_plain y)² − (y − E_cohorts y)²               in units of the mean squared error
//! G = Σ_it g_it,   Var G = Σ_i(Σ_t g_it)² + Var_t Σ_i g_it − Σ_it g_it²
//! gain ← γ·gain + G,   variance ← γ²·variance + Var G,   z = gain/√variance
//! ```
//!
//! Rewards of one user are correlated, and so are those of one round, in which users are offered
//! the same arms: the variance accounts for both.
//!
//! The evidence alone is not enough: it assumes the model, and with rewards that violate it (zeros
//! and ones, stars) cohorts fit what is no difference between users. So cohorts are used if they
//! predicted held-out rewards better (large z) and not if they predicted them worse. In between, as
//! for new cohorts, they must predict the rewards they were fitted to clearly better from earlier
//! rewards of the same users, by more than their number of parameters explains: cohorts that fail
//! even that will not predict others.

use super::constants;
use super::fit::{FitOptions, Fitting};
use super::inference::ScoringMode;
use super::ledger::Ledger;
use super::model::Population;
use super::moments::Moments;
use super::panel::Panel;
use super::recurrence::Recurrence;

use super::sample::sample;

/// The comparison of the populations with and without cohorts on held-out rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldOutComparison {
    /// The accumulated gain, in mean squared errors.
    pub gain: f64,
    /// The variance of that.
    pub variance: f64,
    /// Whether cohorts are not used.
    pub against: bool,
}

/// Which users a fit uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FitScope {
    /// A sample of users, for the structure alone.
    Sample,
    /// A sample for the structure, then all users.
    AllUsers,
}

/// The result of a refit.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// With cohorts, if the evidence supports any.
    pub found: Population,
    /// Without cohorts, if there are any in `found`.
    pub plain: Option<Population>,
    /// Which of the two predicts better.
    pub verdict: HeldOutComparison,
    /// How often arms recur.
    pub recurrence: Recurrence,
}

/// Users whom the structure is looked for in.
pub(crate) struct Sampled {
    /// Their statistics.
    pub users: Vec<Moments>,
    /// What rewards count from.
    pub origin: f64,
    /// How many rewards they gave.
    pub seen: f64,
}

/// Updates a population by sums over all users.
pub(crate) type Polish<'a> = dyn FnMut(&mut Population, &FitOptions) + 'a;

/// How much better one population predicts than another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PredictionGain {
    pub sum: f64,
    pub variance: f64,
    /// The variance if only rewards of one user were correlated, and if none were.
    pub by_user: f64,
    pub alone: f64,
}

impl PredictionGain {
    /// From squared errors, user by user and reward by reward.
    pub fn new(errors: &[Vec<f64>], others: &[Vec<f64>]) -> Self {
        let all = || errors.iter().chain(others).flatten();
        let unit = all().sum::<f64>() / all().count().max(1) as f64;
        let mut gain = Self::default();
        if !(unit.is_finite() && unit > 0.0) {
            return gain;
        }
        let mut by_time = Vec::<f64>::new();
        for (errors, others) in errors.iter().zip(others) {
            by_time.resize(by_time.len().max(errors.len()), 0.0);
            let mut of_user = 0.0;
            for ((error, other), of_time) in errors.iter().zip(others).zip(&mut by_time) {
                let one = (other - error) / unit;
                of_user += one;
                *of_time += one;
                gain.alone += one * one;
            }
            gain.sum += of_user;
            gain.by_user += of_user * of_user;
        }
        gain.variance = (gain.by_user + between_times(&by_time) - gain.alone).max(gain.alone);
        gain
    }
}

/// The variance of a sum over times: from how much the times differ, of which few of them tell little (as of Student's
/// t), or from how far all of them are from zero, whichever is less.
fn between_times(sums: &[f64]) -> f64 {
    let times = sums.len() as f64;
    let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
    if times < 2.0 {
        return squares;
    }
    let mean = sums.iter().sum::<f64>() / times;
    let scatter: f64 = sums.iter().map(|sum| (sum - mean).powi(2)).sum();
    (scatter * times / (times - 1.0) * (1.0 + 4.0 / (times - 1.0))).min(squares)
}

impl HeldOutComparison {
    /// Whether cohorts are certainly better.
    fn is_sure(&self) -> bool {
        !self.against
            && self.variance > 0.0
            && self.gain > constants::verdict_sure() * self.variance.sqrt()
    }

    /// Updates at a refit: with the held-out gain of the previous cohorts, and the in-sample gain
    /// of the new ones.
    fn update(&mut self, held_out: PredictionGain, fitted_to: impl FnOnce() -> PredictionGain) {
        self.gain = constants::verdict_kept() * self.gain + held_out.sum;
        self.variance = constants::verdict_kept() * constants::verdict_kept() * self.variance
            + held_out.variance;
        let deviation = self.variance.sqrt();
        let better = self.variance > 0.0 && self.gain >= constants::verdict_better() * deviation;
        let worse = self.variance > 0.0 && self.gain < constants::verdict_worse() * deviation;
        let clearly = || {
            let gain = fitted_to();
            gain.sum > constants::verdict_clearly() * gain.by_user.sqrt()
        };
        self.against = !better && (worse || !clearly());
    }
}

impl Fitted {
    /// One population without a comparison.
    pub fn only(found: Population) -> Self {
        let (verdict, recurrence) = (HeldOutComparison::default(), Recurrence::default());
        Self { found, plain: None, verdict, recurrence }
    }

    /// The population that decisions use.
    pub fn used(&self) -> &Population {
        self.plain.as_ref().filter(|_| self.verdict.against).unwrap_or(&self.found)
    }

    /// Whether nearly all users have a cohort and cohorts are certainly better: further refits
    /// change little.
    pub fn is_settled(&self) -> bool {
        self.verdict.is_sure() && self.found.is_settled()
    }

    /// The population without cohorts, where it is known.
    pub fn without_cohorts(&self) -> Option<&Population> {
        let alone = Some(&self.found).filter(|found| found.components.len() == 1);
        self.plain.as_ref().or(alone)
    }

    /// The next refit, from all statistics; `panel` holds the rewards of some users since this one.
    /// With [`FitScope::Sample`] only a sample of users is used.
    pub fn fit(
        ledger: &Ledger,
        before: Option<&Self>,
        panel: Option<&Panel>,
        given: &FitOptions,
        scoring_mode: ScoringMode,
        scope: FitScope,
    ) -> Option<Self> {
        let slots = sample(ledger, before.map(|before| &before.found));
        let asked = Sampled {
            users: ledger.moments_of(&slots),
            origin: ledger.origin(),
            seen: slots.iter().map(|slot| ledger.count(*slot)).sum(),
        };
        let polish = &mut |population: &mut Population, given: &FitOptions| {
            population.polish(ledger, &slots, given);
        };
        let polish: Option<&mut Polish> = match scope {
            FitScope::Sample => None,
            FitScope::AllUsers => Some(polish),
        };
        Self::fit_to(asked, before, panel, given, scoring_mode, polish)
    }

    /// The same from statistics of a sample of users, wherever they are. `polish` updates it by sums over all users, after the fit to the
    /// sample.
    pub(crate) fn fit_to(
        asked: Sampled,
        before: Option<&Self>,
        panel: Option<&Panel>,
        given: &FitOptions,
        scoring_mode: ScoringMode,
        polish: Option<&mut Polish>,
    ) -> Option<Self> {
        let Sampled { users, origin, seen } = asked;
        let warm = before.map(|before| &before.found);
        let warm_plain = before.and_then(|before| match &before.plain {
            None if before.found.components.len() > 1 => None,
            None => Some(&before.found),
            plain => plain.as_ref(),
        });
        let alone = FitOptions { cohorts: false, ..*given };
        let mut given = *given;
        let sure = before.is_some_and(Self::is_settled);
        let warm = warm.filter(|warm| warm.components.len() > 1);
        let mut found = None;
        let mut plain = match before.and_then(|before| before.plain.clone()) {
            Some(plain) if sure => plain,
            _ => {
                let users = users.clone();
                let mut fitting = Fitting::begin(users, origin, warm_plain, &alone)?;
                let plain = Some(fitting.population.clone()).filter(Population::is_usable)?;
                if given.cohorts && warm.is_none() {
                    // The search for the first cohorts starts from the fitted population without
                    // cohorts.
                    fitting.go_on_with_cohorts(constants::verdict_least_noise() * plain.noise);
                    found = Some(fitting.population.clone()).filter(Population::is_usable);
                }
                plain
            }
        };
        given.least_noise = constants::verdict_least_noise() * plain.noise;
        if let Some(warm) = warm.filter(|_| given.cohorts) {
            found = Population::fit_sample(users, origin, Some(warm), &given)
                .filter(Population::is_usable);
        }
        if let Some(alike) = found.take_if(|found| found.components.len() == 1) {
            (plain.tried, plain.searched) = (alike.tried, alike.searched);
        }
        let verdict = before.map(|before| before.verdict).unwrap_or_default();
        let recurrence = before.map(|before| before.recurrence).unwrap_or_default();
        let mut fitted = match found {
            None => Self { found: plain, plain: None, verdict, recurrence },
            Some(found) => Self { found, plain: Some(plain), verdict, recurrence },
        };
        if let (Some(before), Some(panel)) = (before, panel) {
            let every = if sure { constants::verdict_fewer() } else { 1 };
            let held_out = before.gain(panel, every, scoring_mode);
            let mut verdict = fitted.verdict;
            verdict.update(held_out, || {
                // The in-sample gain that is due to the number of parameters alone.
                let cohorts = fitted.found.cohorts().len();
                let rewards = panel.rewards() as f64 / every as f64;
                let parameters = cohorts * (fitted.found.used_features() + 1);
                let leak = 2.0 * parameters as f64 * rewards / seen;
                let gain = fitted.gain(panel, every, scoring_mode);
                PredictionGain { sum: gain.sum - leak, ..gain }
            });
            fitted.verdict = verdict;
            fitted.recurrence.update(panel);
        }
        if let Some(polish) = polish {
            match &mut fitted.plain {
                None => polish(&mut fitted.found, &alone),
                Some(plain) if fitted.verdict.against => polish(plain, &alone),
                Some(_) => polish(&mut fitted.found, &given),
            }
        }
        fitted.used().is_usable().then_some(fitted)
    }

    /// The gain of cohorts on the rewards of a panel, estimated from every `every`-th of its users.
    fn gain(&self, panel: &Panel, every: usize, scoring_mode: ScoringMode) -> PredictionGain {
        let Some(plain) = &self.plain else { return PredictionGain::default() };
        let errors = |population| panel.prediction_errors(population, every, scoring_mode);
        PredictionGain::new(&errors(&self.found), &errors(plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rewards_of_one_user_or_one_time_share_counts_once() {
        // Gains are others − errors over the mean of all, which is 1.
        let of = |gains: [[f64; 2]; 2]| {
            let part = |sign: f64| gains.map(|user| user.map(|g| 1.0 + 0.5 * sign * g).to_vec());
            PredictionGain::new(&part(-1.0), &part(1.0))
        };
        // Two users who are alike at two times.
        let gain = of([[1.0, -0.5], [1.0, -0.5]]);
        let plain = [0.5 * 0.5 + 0.5 * 0.5, 2.0 * 2.0 + 1.0, 2.0 + 0.5];
        assert!((gain.sum - 1.0).abs() < 1e-12);
        assert!((gain.by_user - plain[0]).abs() < 1e-12);
        assert!((gain.variance - (plain[0] + plain[1] - plain[2])).abs() < 1e-12);
        // Times that agree: what they differ by, 2/1 for a mean that is not known, 5 for there being two only.
        assert!((between_times(&[2.0, 2.2]) - 10.0 * (0.1 * 0.1 + 0.1 * 0.1)).abs() < 1e-12);
        let nothing = PredictionGain::new(&[vec![], vec![0.0]], &[vec![], vec![0.0]]);
        assert_eq!((nothing.sum, nothing.variance), (0.0, 0.0));
    }

    #[test]
    fn cohorts_are_used_where_they_predict_better() {
        let gain = |sum: f64, variance: f64| PredictionGain {
            sum,
            variance,
            by_user: variance,
            alone: variance,
        };
        let (nothing, clearly) = (PredictionGain::default(), gain(4.0, 1.0));
        let mut verdict = HeldOutComparison::default();
        let mut update = |held_out, fitted_to| {
            verdict.update(held_out, || fitted_to);
            verdict.against
        };
        assert!(update(nothing, gain(2.0, 1.0)), "new, and no better than chance allows");
        assert!(!update(nothing, clearly), "new, and clearly better at what they were fitted to");
        assert!(!update(gain(-1.0, 1.0), clearly), "worse by what chance allows");
        assert!(update(gain(-2.0, 1.0), clearly), "worse");
        assert!(update(gain(0.5, 1.0), gain(2.0, 1.0)), "nothing speaks for them");
        assert!(!update(gain(4.0, 1.0), nothing), "better");
    }
}
