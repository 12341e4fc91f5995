//! Users that come one at a time.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Cohort, DRAWS, saved};
use crate::insight::Insight;
use crate::population::{Belief, Fitted};
use crate::{Arm, Contexts, Error, OnlinePolicy, RefitJob, Saved, Score};

/// Rewards of every user from one refit to the next, at least, in parts of the dimension.
const SPARED: f64 = 0.025;

/// Users with most rewards whose rewards decide, too, when a refit is due.
pub(super) const FREQUENT: usize = 1024;

impl Cohort {
    /// What is believed of a user that comes alone, worked out where it is not at hand.
    fn ask(&mut self, user: usize) -> Option<&Belief> {
        let prior = self.prior.as_ref()?;
        let Some(slot) = self.ledger.slot_of(user) else { return Some(prior.newcomer()) };
        if self.carried.get(slot).is_some() {
            return self.carried.get(slot);
        }
        self.ledger.settle();
        Some(self.asked.get_or(slot, || prior.infer(&self.ledger, slot)))
    }
}

impl OnlinePolicy for Cohort {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.go_on_refitting();
        if self.prior.is_none() {
            return self.blind(user, contexts);
        }
        if self.settings.thompson {
            let arm = self.belief(user).map_or(0, |belief| self.draw(user, &belief, contexts));
            self.draws += 1;
            return arm;
        }
        let width = self.width(user);
        match &mut self.posteriors {
            Some(posteriors) if user < posteriors.users() => {
                posteriors.choose_one(user, contexts, width)
            }
            _ => self.ask(user).map_or(0, |belief| belief.choose(contexts, width)),
        }
    }

    /// As `decide` with the rule `ucb`, on what was fitted last. Before the first refit nothing is
    /// known, and all arms are alike.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.fill(Score::default());
        let width = self.width(user);
        let Some(origin) = self.population().map(|population| population.origin) else { return };
        match &mut self.posteriors {
            Some(posteriors) if user < posteriors.users() => {
                posteriors.score(user, contexts, width, scores);
            }
            _ => {
                if let Some(belief) = self.ask(user) {
                    belief.score(contexts, width, scores);
                }
            }
        }
        for score in scores {
            score.expected += origin;
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if let Some(panel) = &mut self.panel {
            panel.see(user, context, reward, &self.ledger);
        }
        match (&self.prior, &mut self.posteriors) {
            (None, _) => {}
            (Some(_), Some(posteriors)) if user < posteriors.users() => {
                posteriors.learn_one(user, context, reward);
            }
            (Some(prior), _) => {
                self.ledger.settle();
                let ledger = &self.ledger;
                // Of a user that is new, what follows is worked out when it is asked for.
                if let Some(slot) = ledger.slot_of(user) {
                    let origin = prior.population().origin;
                    let asked = self.asked.take(slot);
                    let infer = || asked.unwrap_or_else(|| prior.infer(ledger, slot));
                    let belief = self.carried.get_or(slot, infer);
                    let mut x = context.to_vec();
                    x.push(1.0);
                    belief.learn(&x, reward - origin);
                    if !belief.is_finite() {
                        self.carried.take(slot);
                    }
                }
            }
        }
        self.ledger.learn_one(user, context, reward);
        self.look_for_drift();
    }

    fn forget(&mut self, user: usize) -> bool {
        // In rounds every user has a place that cannot be given up.
        if self.posteriors.is_some() {
            return false;
        }
        self.ledger.settle();
        if let Some(slot) = self.ledger.slot_of(user) {
            self.carried.take(slot);
            self.asked.take(slot);
            self.ledger.remove(user);
        }
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

    fn is_due(&self) -> bool {
        if self.refit.is_some() {
            return false;
        }
        let (rewards, ratio) = (self.ledger.rewards(), self.settings.refit_ratio);
        // A refit costs as much as some decisions for every user, the more the larger the dimension.
        let spared = SPARED * self.ledger.dim() as f64 * self.ledger.answered() as f64;
        let due = (self.fitted_rewards * ratio).max(self.fitted_rewards + spared);
        if rewards == 0.0 || self.fitted_rewards == 0.0 || rewards >= due {
            return rewards > 0.0;
        }
        // A few users who come often after very many who came once are soon worth a refit of their own.
        self.ledger.answered() > FREQUENT
            && self.ledger.top_total(FREQUENT) >= self.fitted_frequent * ratio
    }

    fn catch_up(&mut self) {
        self.go_on_refitting();
    }

    fn job(&mut self) -> Option<RefitJob> {
        if !self.is_due() {
            return None;
        }
        let ledger = self.ledger().clone();
        let (before, panel) = (self.fitted.clone(), self.panel.clone());
        let (given, scoring_mode) = (self.settings.given, self.settings.scoring_mode);
        let restarts = self.watch.restarts;
        Some(Box::new(move || {
            let fitted =
                Fitted::fit(&ledger, before.as_ref(), panel.as_ref(), &given, scoring_mode);
            saved::write_fitted(ledger.rewards(), restarts, fitted.as_ref())
        }))
    }

    fn install(&mut self, found: &[u8]) -> Result<(), Error> {
        let (rewards, fitted) = saved::read_fitted(found, &self.ledger, self.watch.restarts)?;
        if rewards == 0.0 {
            return Ok(());
        }
        self.fitted_rewards = rewards;
        self.fitted_frequent = self.ledger.top_total(FREQUENT);
        if let Some(fitted) = fitted {
            self.take_on(fitted);
        }
        Ok(())
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        // What is kept, and goes on elsewhere, is between two refits.
        self.finish_refit();
        Some(self)
    }
}
