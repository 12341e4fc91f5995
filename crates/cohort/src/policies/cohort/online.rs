//! Users that come one at a time.

use crate::population::constants;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::posteriors::Posteriors;
use super::{Cohort, DRAWS, FIRST_RETIRED, RETIRED_BYTES, saved};
use crate::linear::argmax;
use crate::population::{Belief, FitScope, Fitted, mean_rewards};
use crate::search::ScoreForm;
use crate::{Arm, Contexts, Error, OnlinePolicy, RefitJob, Refits, Score, SharedFits};

/// The posterior of a user.
enum UserPosterior<'a> {
    /// It is served in rounds.
    InRounds(&'a mut Posteriors),
    /// It has rewards and comes one at a time.
    Alone(&'a Belief),
    /// It has no rewards yet.
    New,
}

impl Cohort {
    /// The belief about a user with rewards that comes one at a time; computed if it is not cached.
    fn ask(&mut self, user: usize) -> Option<&Belief> {
        let (prior, slot) = (self.prior.as_ref()?, self.ledger.slot_of(user)?);
        if self.store.updated.get(slot).is_none() {
            self.ledger.settle();
        }
        self.store.get_or_infer(slot, || prior.infer(&self.ledger, slot))
    }

    /// The posterior of a user, wherever it is stored.
    fn posterior(&mut self, user: usize) -> UserPosterior<'_> {
        if self.store.in_rounds(user).is_some() {
            let posteriors = self.store.rounds.as_mut().expect("the user is served in rounds");
            return UserPosterior::InRounds(posteriors);
        }
        self.ask(user).map_or(UserPosterior::New, UserPosterior::Alone)
    }

    /// The scores of every arm for a new user, rewards counted from the origin.
    fn score_newcomer(&self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let Some(prior) = &self.prior else { return };
        prior.score_newcomer(contexts, self.newcomer_widths(user), self.normal_of(user), scores);
    }

    /// The width of a new user's own uncertainty, and that of what is drawn for it: new users are spread over arms,
    /// whether arms recur or not.
    fn newcomer_widths(&self, user: usize) -> [f64; 2] {
        [self.width(user), self.settings.exploration]
    }

    /// Standard normal numbers, the same ones for the same user.
    fn normal_of(&self, user: usize) -> impl FnMut() -> f64 + use<> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(user as u64);
        // Where no draws of `exploration_rule = thompson` are.
        rng.set_word_pos(u128::from(u64::MAX) << 4);
        move || StandardNormal.sample(&mut rng)
    }
}

impl OnlinePolicy for Cohort {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.go_on_refitting();
        if self.prior.is_none() {
            return self.round_robin_arm(user, contexts);
        }
        if self.settings.thompson {
            let arm = self.belief(user).map_or(0, |belief| self.draw(user, &belief, contexts));
            self.draws += 1;
            return arm;
        }
        let width = self.width(user);
        match self.posterior(user) {
            UserPosterior::InRounds(posteriors) => posteriors.choose_one(user, contexts, width),
            UserPosterior::Alone(belief) => belief.choose(contexts, width),
            UserPosterior::New => {
                let mut scores = vec![Score::default(); contexts.arms()];
                self.score_newcomer(user, contexts, &mut scores);
                argmax(scores.iter().map(Score::total))
            }
        }
    }

    /// As `decide` with the rule `ucb`, on the last fit. Before the first refit all arms have the
    /// same score.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.fill(Score::default());
        let width = self.width(user);
        let Some(origin) = self.population().map(|population| population.origin) else { return };
        match self.posterior(user) {
            UserPosterior::InRounds(posteriors) => posteriors.score(user, contexts, width, scores),
            UserPosterior::Alone(belief) => belief.score(contexts, width, scores),
            UserPosterior::New => self.score_newcomer(user, contexts, scores),
        }
        for score in scores {
            score.expected += origin;
        }
    }

    fn score_form(&mut self, user: usize) -> Option<ScoreForm> {
        let width = self.width(user);
        let Some(origin) = self.population().map(|population| population.origin) else {
            return Some(ScoreForm::flat(self.ledger.dim()));
        };
        let mut form = match self.posterior(user) {
            UserPosterior::InRounds(posteriors) => posteriors.belief(user).form(width),
            UserPosterior::Alone(belief) => belief.form(width),
            UserPosterior::New => {
                let widths = self.newcomer_widths(user);
                self.prior.as_ref()?.newcomer_form(widths, self.normal_of(user))
            }
        };
        form.offset += origin;
        Some(form)
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if let Some(panel) = &mut self.panel {
            panel.see(user, context, reward, &self.ledger);
        }
        match (&self.prior, &mut self.store.rounds) {
            (None, _) => {}
            (Some(_), Some(posteriors)) if user < posteriors.users() => {
                posteriors.learn_one(user, context, reward);
            }
            (Some(prior), _) => {
                self.ledger.settle();
                let ledger = &self.ledger;
                // The posterior of a new user is computed on demand.
                if let Some(slot) = ledger.slot_of(user) {
                    let origin = prior.population().origin;
                    let belief = self.store.updated_or_infer(slot, || prior.infer(ledger, slot));
                    let mut x = context.to_vec();
                    x.push(1.0);
                    belief.learn(&x, reward - origin);
                    if !belief.is_finite() {
                        self.store.updated.take(slot);
                    }
                }
            }
        }
        self.ledger.learn_one(user, context, reward);
        self.look_for_drift();
    }

    fn forget(&mut self, user: usize) -> bool {
        if !self.drop_posterior(user) {
            return false;
        }
        self.ledger.remove(user);
        true
    }

    fn retire(&mut self, user: usize) -> bool {
        if !self.drop_posterior(user) {
            return false;
        }
        // Those who are retired replace each other at random, the same ones in every replay.
        let turn = (self.ledger.rewards() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (turn ^ user as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        self.ledger.rename(user, FIRST_RETIRED + place as usize % self.most_retired());
        true
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        if !self.settings.thompson {
            return false;
        }
        match self.belief(user) {
            None => chances.fill(1.0 / contexts.arms() as f64),
            Some(belief) => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let scale = self.settings.exploration;
                let best = belief.draw_many(contexts, scale, DRAWS, &mut rng);
                for (chance, best) in chances.iter_mut().zip(best) {
                    *chance = best as f64 / DRAWS as f64;
                }
            }
        }
        true
    }
}

impl Cohort {
    /// Nothing but statistics is known of a user any more; `false` where it cannot be let go.
    fn drop_posterior(&mut self, user: usize) -> bool {
        // In rounds every user has a place that cannot be given up.
        if self.store.rounds.is_some() {
            return false;
        }
        self.ledger.settle();
        if let Some(slot) = self.ledger.slot_of(user) {
            self.store.remove(slot);
        }
        if let Some(panel) = &mut self.panel {
            panel.forget(user);
        }
        true
    }

    /// Of how many users who are retired statistics are kept.
    fn most_retired(&self) -> usize {
        (RETIRED_BYTES / (size_of::<f64>() * self.ledger.packed_len())).clamp(64, 1024)
    }

    /// Whether a refit is due, and whom it asks.
    pub(super) fn due(&self) -> Option<FitScope> {
        if self.refit.is_some() {
            return None;
        }
        let (rewards, answered) = (self.ledger.rewards(), self.ledger.answered() as f64);
        let (dim, ratio) = (self.ledger.dim(), self.settings.refit_ratio);
        let last = [self.fitted_rewards, self.fitted_each];
        let seen = Progress { rewards, answered, in_rounds: self.store.rounds.is_some() };
        due_at(dim, ratio, self.fitted.as_ref(), last, seen, || mean_rewards(&self.ledger))
    }

    /// The value of `fitted_rewards` after a refit that begins now.
    pub(super) fn rewards_at_refit(&self, scope: FitScope) -> f64 {
        match scope {
            FitScope::AllUsers => self.ledger.rewards(),
            FitScope::Sample => self.fitted_rewards,
        }
    }
}

/// What was seen so far.
pub(super) struct Progress {
    /// Rewards.
    pub rewards: f64,
    /// Users who gave any.
    pub answered: f64,
    /// Whether users are served in rounds.
    pub in_rounds: bool,
}

/// Whether a refit is due in R^d, and whom it asks: after a fit at which there were so many rewards, and so many of each of those who
/// come often, who have so many each by now.
pub(super) fn due_at(
    dim: usize,
    refit_ratio: f64,
    fitted: Option<&Fitted>,
    [fitted_rewards, fitted_each]: [f64; 2],
    Progress { rewards, answered, in_rounds }: Progress,
    each: impl FnOnce() -> f64,
) -> Option<FitScope> {
    if rewards == 0.0 {
        return None;
    }
    let dim = fitted.map_or(dim, |fitted| fitted.found.used_features());
    // Before that arms are chosen in turn: all users would choose the same one, and be told the same.
    let first = constants::first_rewards().min((dim + 1) as f64);
    if fitted.is_none() && rewards < first {
        return None;
    }
    let settled = fitted.is_some_and(Fitted::is_settled);
    let ratio = refit_ratio.powf(if settled { constants::settled_power() } else { 1.0 });
    // A refit costs as much as some decisions for every user, the more the larger the dimension. While users come
    // for the first time there is no waiting for them to come again: newcomers need what others have just told.
    let spacing =
        if in_rounds { constants::refit_spacing() } else { constants::refit_spacing_alone() };
    let spared = spacing * dim as f64;
    let next = |fitted: f64, spared: f64| (fitted * ratio).max(fitted + spared);
    let again = answered.min(rewards - answered).max(0.0);
    if fitted_rewards == 0.0 || rewards >= next(fitted_rewards, spared * again) {
        return Some(FitScope::AllUsers);
    }
    // A few users who come often beside very many who came once are soon worth a refit of their own.
    (each() >= next(fitted_each, spared)).then_some(FitScope::Sample)
}

impl Refits for Cohort {
    fn is_due(&self) -> bool {
        self.due().is_some()
    }

    fn catch_up(&mut self) {
        self.go_on_refitting();
    }

    fn job(&mut self) -> Option<RefitJob> {
        let scope = self.due()?;
        let rewards = self.rewards_at_refit(scope);
        let ledger = self.ledger().clone();
        let (before, panel) = (self.fitted.clone(), self.panel.clone());
        let (given, scoring_mode) = (self.settings.given, self.settings.scoring_mode);
        let restarts = self.watch.restarts;
        Some(Box::new(move || {
            let fitted =
                Fitted::fit(&ledger, before.as_ref(), panel.as_ref(), &given, scoring_mode, scope);
            saved::write_fitted(rewards, restarts, fitted.as_ref())
        }))
    }

    fn shared(&mut self) -> Option<&mut dyn SharedFits> {
        Some(self)
    }

    fn install(&mut self, found: &[u8]) -> Result<(), Error> {
        if found.starts_with(&saved::FITTED_VERSION_SHARED.to_le_bytes()) {
            return self.install_shared(found);
        }
        let (rewards, fitted) = saved::read_fitted(found, &self.ledger, self.watch.restarts)?;
        if rewards == 0.0 {
            return Ok(());
        }
        self.fitted_rewards = rewards;
        self.fitted_each = mean_rewards(&self.ledger);
        if let Some(fitted) = fitted {
            self.install_fit(fitted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::INFO;
    use super::*;
    use crate::Problem;

    fn answers(policy: &mut Cohort, users: std::ops::Range<usize>, turns: usize) {
        for turn in 0..turns {
            for user in users.clone() {
                let x = [1.0, (user as f64).sin(), (turn as f64 + user as f64).cos()];
                policy.learn_one(user, &x, x[1] * x[2]);
            }
        }
    }

    #[test]
    fn visitors_do_not_delay_refits_for_those_who_come_often() {
        let settings = INFO.check([]).unwrap();
        let mut policy = Cohort::new(&Problem::new(0, 3), &settings).unwrap();
        // As many rewards as dimensions, the level among them, come before the first fit.
        answers(&mut policy, 0..3, 1);
        assert_eq!(policy.due(), None);
        answers(&mut policy, 3..1070, 1);
        assert_eq!(policy.due(), Some(FitScope::AllUsers));
        policy.refit_if_due();
        assert_eq!(policy.due(), None);
        // Some users come again: few rewards among all, but four times as many for each of them.
        answers(&mut policy, 0..70, 3);
        assert_eq!(policy.due(), Some(FitScope::Sample));
        let all_users = policy.rewards_at_refit(FitScope::Sample);
        policy.refit_if_due();
        assert_eq!((policy.due(), policy.fitted_rewards), (None, all_users));
    }
}
