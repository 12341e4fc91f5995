//! Drift detection: rewards of the panel are predicted from the whole history of their users, and
//! from recent rewards alone.
//!
//! The former uses the population without cohorts as its prior, so that wrong cohorts are no reason
//! to forget; the latter a vague prior. Without drift the whole history predicts better; after a
//! drift it predicts worse than no history.

use super::constants;
use super::fitted::PredictionGain;
use super::inference::ScoringMode;
use super::model::Population;
use super::panel::{Panel, PredictionWindow};

/// A vague prior that knows only the scale of the users' vectors: if all users change alike, their
/// common mean misleads as well.
fn vague(population: &Population) -> Population {
    let mut unknown = population.clone();
    let d = population.features();
    let (mean, variances) = (&mut unknown.components[0].mean, &mut unknown.variances[0]);
    let length: f64 = mean[..d].iter().map(|m| m * m).sum();
    mean[..d].fill(0.0);
    variances[..d].iter_mut().for_each(|variance| *variance += length / d as f64);
    variances[d] = variances[d].max(population.noise);
    unknown
}

/// Whether users' earlier rewards predict their last ones worse than a vague prior does.
pub fn has_jumped(panel: &Panel, population: &Population, scoring_mode: ScoringMode) -> bool {
    let longest = panel.longest();
    if longest < constants::drift_least_last() {
        return false;
    }
    let from_all = panel.windowed_errors(
        population,
        scoring_mode,
        PredictionWindow::ALL,
        constants::drift_users(),
    );
    let unknown = vague(population);
    let mut last = constants::drift_least_last();
    while last <= longest {
        let recall = PredictionWindow { most: 0.0, keep: 1.0, last };
        let alone = panel.windowed_errors(&unknown, scoring_mode, recall, constants::drift_users());
        let tail = |errors: &Vec<f64>| errors[errors.len().saturating_sub(last)..].to_vec();
        let all: Vec<Vec<f64>> = from_all.iter().map(tail).collect();
        let sum = |errors: &[Vec<f64>]| errors.iter().flatten().sum::<f64>();
        let gain = PredictionGain::new(&alone, &all);
        if sum(&alone) < constants::drift_less() * sum(&all)
            && gain.sum > constants::drift_deviations() * gain.alone.sqrt()
        {
            return true;
        }
        last *= 2;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::{FitOptions, FitScope, Fitted, Ledger};

    /// Rewards of users with a vector each, which all change their sign in one turn.
    fn jumps(users: usize, turns: usize, change: usize, noise: f64) -> bool {
        let scoring_mode = ScoringMode::default();
        let mut ledger = Ledger::new(3, 1.0);
        let (mut fitted, mut panel): (Option<Fitted>, Option<Panel>) = (None, None);
        for turn in 0..turns {
            let user = turn % users;
            let wave = |k: usize| ((turn * (2 * k + 3)) as f64 * 0.7).sin();
            let x = [wave(1), wave(2), wave(3)];
            let sign = if turn < change { 1.0 } else { -1.0 };
            let own = (user as f64 * 1.3).sin();
            let mean = sign * (x[0] + own * x[1] - 0.5 * x[2]);
            let reward = 20.0 + mean + noise * (turn as f64 * turn as f64 * 0.37).sin();
            if let Some(panel) = &mut panel {
                panel.see(user, &x, reward, &ledger);
            }
            ledger.learn_one(user, &x, reward);
            if turn == turns / 2 {
                let given = FitOptions::default();
                fitted = Fitted::fit(&ledger, None, None, &given, scoring_mode, FitScope::AllUsers);
                panel = Some(Panel::new(&ledger));
            }
        }
        let fitted = fitted.unwrap();
        has_jumped(&panel.unwrap(), fitted.without_cohorts().unwrap(), scoring_mode)
    }

    #[test]
    fn a_change_is_seen_and_none_is_not() {
        for users in [1, 7, 100] {
            let turns = (80 * users).max(240);
            assert!(jumps(users, turns, turns - 60.max(8 * users), 0.1), "{users} users");
            for noise in [0.1, 3.0] {
                assert!(!jumps(users, turns, turns, noise), "{users} users, noise {noise}");
            }
        }
    }
}
