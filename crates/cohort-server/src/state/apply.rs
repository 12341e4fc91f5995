//! What does an event change in an app?

use std::sync::Arc;

use cohort::{Contexts, OnlinePolicy, Score};
use cohort_features::{Encoder, Shown, bytes::name_hash};

use super::ApplyError;
use super::app::App;
use super::decisions::{Decision, Status};
use crate::event::{CatalogueDecision, Decided, What};
use crate::learning::{Aggregation, Mode};
use crate::settings::AppSettings;
use crate::trial::TrialDecision;

impl App {
    /// Changes the app by one event.
    pub(super) fn apply(&mut self, name: &str, at_ms: u64, what: What) -> Result<(), ApplyError> {
        if at_ms < self.now_ms && !matches!(what, What::ClockStepped(_)) {
            let what = format!("an event at {at_ms} after one at {}", self.now_ms);
            return Err(ApplyError::Contradiction { app: name.to_owned(), what });
        }
        self.change(at_ms, what)
            .map_err(|what| ApplyError::Contradiction { app: name.to_owned(), what })?;
        self.now_ms = at_ms;
        Ok(())
    }

    fn change(&mut self, at_ms: u64, what: What) -> Result<(), String> {
        match what {
            What::Created(_) | What::Deleted | What::Rested => {
                Err("not an event inside an app".to_owned())
            }
            What::Changed(settings) => {
                if settings.dim != self.settings.dim || settings.policy != self.settings.policy {
                    return Err("a change of dimension or policy, which stay".to_owned());
                }
                if let Some(policy) = self.policy_for(&settings).map_err(|why| why.to_string())? {
                    self.policy = policy;
                }
                let features = self.settings.features.take();
                self.settings = AppSettings { features, ..settings };
                Ok(())
            }
            What::KeyAdded(key) => {
                self.keys.push(key);
                Ok(())
            }
            What::KeyRemoved(id) => {
                self.keys.retain(|key| key.id != id);
                Ok(())
            }
            What::ItemPut(id, features) => {
                self.check_features(&features)?;
                self.unlist(&id);
                Arc::make_mut(&mut self.described).remove(id.as_str());
                Arc::make_mut(&mut self.items).insert(id.as_str().into(), features.into());
                self.list(&id);
                Ok(())
            }
            What::ItemAttributes(id, features) => self.attribute(&id, features),
            What::ItemRemoved(id) => {
                self.unlist(&id);
                Arc::make_mut(&mut self.items).remove(id.as_str());
                Arc::make_mut(&mut self.described).remove(id.as_str());
                self.list(&id);
                Ok(())
            }
            What::FeaturesSet(settings) => {
                self.encoder = Some(Encoder::new(self.settings.dim, settings.clone()));
                self.settings.features = Some(settings);
                Ok(())
            }
            What::FeaturesSeen(seen) => {
                let encoder = self.encoder.as_mut().ok_or("JSON in an app of vectors")?;
                encoder.learn(&seen);
                Ok(())
            }
            What::ItemDescribed(id, features) => {
                if self.encoder.is_none() {
                    return Err("JSON in an app of vectors".to_owned());
                }
                self.unlist(&id);
                Arc::make_mut(&mut self.items).remove(id.as_str());
                let features = Arc::new(features);
                Arc::make_mut(&mut self.described).insert(id.as_str().into(), features);
                self.list(&id);
                Ok(())
            }
            What::Decided(made) => self.decided(at_ms, made, false, false),
            What::DecidedElsewhere(past) => self.decided(at_ms, past.made, false, true),
            What::DecidedInTrial(decision)
            | What::DecidedFromCatalogue(CatalogueDecision { decision, .. }) => {
                let TrialDecision { made, control, candidates: _ } = decision;
                self.decided(at_ms, made, control, false)
            }
            What::TrialSet(trial) => {
                trial.check(self.settings.dim).map_err(|why| why.to_string())?;
                self.trial = trial;
                Ok(())
            }
            What::LearningSet(learning) => {
                self.learning = learning;
                Ok(())
            }
            What::Watched { decision, agreed } => {
                self.watched(&decision, agreed);
                Ok(())
            }
            What::Imitated { decision, agreed, rival } => {
                self.watched(&decision, agreed);
                let Some(rival) = rival else { return Ok(()) };
                self.check_features(&rival.context)?;
                if let Some(Decision { made, .. }) = self.decisions.get(&decision)
                    && made.context.len() == rival.context.len()
                {
                    self.imitator.learn((made.ranking.first(), &made.context), &rival);
                }
                Ok(())
            }
            What::ModelReplaced(model) => {
                self.learned_ms = at_ms;
                self.replace_model(model.as_deref())
            }
            What::Activated(id) => match self.decisions.get(&id) {
                Some(found) if found.status == Status::NotShown => {
                    let ends_ms = match self.learning.wait_from_decision {
                        true => self.decisions.due(found),
                        false => self.window_end(at_ms),
                    };
                    self.decisions.move_to(&id, Status::Open, ends_ms);
                    Ok(())
                }
                other => Err(format!("activation of decision `{id}`, which is {other:?}")),
            },
            What::Rewarded { decision, reward } => {
                check_number(reward)?;
                match self.decisions.get(&decision) {
                    Some(found) if found.status == Status::Open => {
                        if self.learning.aggregation != Aggregation::Earliest {
                            self.decisions.gather(&decision, reward);
                            return Ok(());
                        }
                        // Others came first if rewards were gathered until now.
                        let first = found.gathered.first().copied().unwrap_or(reward);
                        self.rewarded(&decision, first, at_ms);
                        Ok(())
                    }
                    other => Err(format!("reward for decision `{decision}`, which is {other:?}")),
                }
            }
            What::TimePassed => {
                self.end_windows(at_ms, |_, _| true);
                Ok(())
            }
            What::WindowsEnded { due_ms, decision } => {
                let last = (due_ms, decision.as_str());
                self.end_windows(due_ms, |due_ms, id| (due_ms, id) <= last);
                Ok(())
            }
            // Of whoever is not here any more the log alone has something.
            What::UserForgotten(user) if self.users.find(&user).is_none() => Ok(()),
            What::UserForgotten(user) => {
                self.remove_user(&user, |online, user| online.forget(user))
            }
            What::UserRetired(user) => self.remove_user(&user, |online, user| online.retire(user)),
            What::ClockStepped(by_ms) => {
                self.seen.shift(by_ms);
                self.decisions.shift(by_ms);
                Ok(())
            }
            What::CaughtUp => {
                self.policy.catch_up();
                Ok(())
            }
            What::Refitted(found) => match self.policy.refits() {
                Some(refits) => refits.install(&found).map_err(|why| why.to_string()),
                None => Err("a refit of a policy that never refits".to_owned()),
            },
        }
    }

    /// Nothing is known of a user any more.
    pub(super) fn remove_user(
        &mut self,
        user: &str,
        forget: impl FnOnce(&mut dyn OnlinePolicy, usize) -> bool,
    ) -> Result<(), String> {
        match self.users.find(user) {
            Some(number) if forget(self.online(), number) => {
                self.decisions.remove_user(number as u32);
                self.effects.forget(number);
                self.seen.remove(number);
                self.users.remove(user);
                Ok(())
            }
            Some(_) => Err("a user of a policy that cannot forget was forgotten".to_owned()),
            None => Err(format!("user `{user}` was forgotten, and never came")),
        }
    }

    fn decided(
        &mut self,
        at_ms: u64,
        made: Decided,
        control: bool,
        elsewhere: bool,
    ) -> Result<(), String> {
        self.check_features(&made.context)?;
        if self.decisions.get(&made.id).is_some() {
            return Err(format!("decision `{}` was made twice", made.id));
        }
        let user = self.users.find_or_add(&made.user).ok_or("there are 2^32 users")?;
        self.seen.touch(user, at_ms);
        let status = if made.shown { Status::Open } else { Status::NotShown };
        let due_ms = self.window_end(at_ms);
        let mut decision = Decision::new(made, user as u32, control, at_ms, due_ms, status);
        decision.elsewhere = elsewhere;
        self.decisions.insert(decision);
        self.counts.decisions += 1;
        Ok(())
    }

    /// Somebody else decided, and the apprentice would have chosen the same or not.
    fn watched(&mut self, decision: &str, agreed: bool) {
        self.apprenticeship.decisions += 1;
        self.apprenticeship.agreed += u64::from(agreed);
        self.decisions.set_agreed(decision, agreed);
    }

    /// Closes an open decision, learning from its reward or its default.
    fn close(&mut self, id: &str, status: Status, at_ms: u64) {
        let has_effects = self.encoder.is_some();
        let Some(found) = self.decisions.get(id) else { return };
        let &Decision { user, control, agreed, elsewhere, .. } = found;
        let item = has_effects.then(|| name_hash(found.made.ranking.first()));
        let forget_ms = self.window_end(at_ms);
        let Some(context) = self.decisions.move_to(id, status, forget_ms) else { return };
        if let Status::Rewarded(reward) | Status::Expired(Some(reward)) = status {
            if self.learning.mode != Mode::LoggingOnly {
                let mut is_news = true;
                if let (Some(item), Ok(contexts)) = (item, Contexts::new(&context, context.len())) {
                    let (user, mut predicted) = (user as usize, [Score::default()]);
                    self.online().score(user, &contexts, &mut predicted);
                    let position = self.policy.insight().and_then(|insight| insight.position(user));
                    let cohort = position.and_then(|position| position.membership);
                    let cohort = cohort.map(|membership| membership.component);
                    let expected = predicted[0].expected;
                    let shown = Shown { item, vector: &context };
                    let Some(online) = self.policy.online() else { return };
                    let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
                        online.score(user, rows, scores);
                    };
                    is_news = self.effects.learn(user, cohort, shown, expected, reward, by_policy);
                }
                self.learned_ms = at_ms;
                if is_news {
                    self.online().learn_one(user as usize, &context, reward);
                }
            }
            // What others decided is no outcome of the policy.
            if !elsewhere {
                self.outcomes.add(at_ms, control, reward);
            }
            if let Some(agreed) = agreed {
                self.apprenticeship.earned(agreed, reward);
            }
        }
    }

    /// Closes an open decision with the reward that it got.
    fn rewarded(&mut self, id: &str, reward: f64, at_ms: u64) {
        self.close(id, Status::Rewarded(reward), at_ms);
        self.counts.rewards += 1;
        self.counts.reward_sum += reward;
    }

    /// Closes every decision whose window has ended, and forgets those that were closed a window
    /// ago, in the order in which they are due, as long as they are `wanted`.
    fn end_windows(&mut self, now_ms: u64, wanted: impl Fn(u64, &str) -> bool) {
        let decisions = |app: &Self| {
            let found = app.decisions.first_due(now_ms)?;
            let (due_ms, gathered) = (app.decisions.due(found), &found.gathered);
            let gathered = app.learning.aggregation.of(gathered);
            let is_wanted = wanted(due_ms, &found.made.id);
            is_wanted.then(|| (found.made.id.clone(), found.status, due_ms, gathered))
        };
        while let Some((id, status, due_ms, gathered)) = decisions(self) {
            match status {
                Status::Open if gathered.is_some() => {
                    self.rewarded(&id, gathered.unwrap_or_default(), due_ms);
                }
                Status::Open => {
                    let default = self.settings.default_reward;
                    self.close(&id, Status::Expired(default), due_ms);
                    match default {
                        Some(_) => self.counts.defaults += 1,
                        None => self.counts.unrewarded += 1,
                    }
                }
                Status::NotShown => {
                    self.counts.unrewarded += 1;
                    self.decisions.remove(&id);
                }
                Status::Rewarded(_) | Status::Expired(_) => self.decisions.remove(&id),
            }
        }
    }

    fn window_end(&self, at_ms: u64) -> u64 {
        at_ms.saturating_add(self.settings.window_ms)
    }

    fn check_features(&self, features: &[f64]) -> Result<(), String> {
        match features.len() == self.settings.dim {
            true => features.iter().try_for_each(|feature| check_number(*feature)),
            false => Err(format!("{} features for dim {}", features.len(), self.settings.dim)),
        }
    }
}

/// No version of this program has taken larger numbers from anybody.
fn check_number(number: f64) -> Result<(), String> {
    match number.abs() <= 1e6 {
        true => Ok(()),
        false => Err(format!("the number {number}, which is none that can be learned")),
    }
}
