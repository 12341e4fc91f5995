//! What one app knows: its settings, its users, its items, its open decisions, and the policy
//! that learned from the closed ones.

use std::sync::Arc;

use cohort::insight::Insight;
use cohort::{Contexts, OnlinePolicy, Policy, RefitJob, Score};
use cohort_features::{Encoder, Features, ItemEffects, bytes::name_hash};

use super::ApplyError;
use super::catalogue::Catalogue;
use super::decisions::{Decision, Decisions, Status};
use super::names::Names;
use super::outcomes::Outcomes;
use super::seen::Seen;
use super::sorted::Sorted;
use crate::event::{CatalogueDecision, Decided, Key, What};
use crate::learning::{Aggregation, Apprenticeship, Learning, MOST_GATHERED, Mode};
use crate::settings::{AppSettings, BadSettings};
use crate::trial::{Trial, TrialDecision};

/// The features of every item that was registered by JSON.
pub type Described = Sorted<Arc<Features>>;

/// The features of every registered item.
pub type Items = Sorted<Box<[f64]>>;

/// One tenant of the service.
pub struct App {
    pub(super) settings: AppSettings,
    pub(super) created_ms: u64,
    /// The number of the event that created it, where this process has seen it: an app that was
    /// deleted and created again is another one.
    pub(super) born: u64,
    /// The time of its last event.
    pub(super) now_ms: u64,
    pub(super) keys: Vec<Key>,
    pub(super) users: Names,
    pub(super) seen: Seen,
    /// Shared with a snapshot that is being written.
    pub(super) items: Arc<Items>,
    pub(super) described: Arc<Described>,
    pub(super) catalogue: Catalogue,
    /// What makes vectors of JSON, in an app that takes it.
    pub(super) encoder: Option<Encoder>,
    /// What features do not say of items, in an app that takes JSON.
    pub(super) effects: ItemEffects,
    pub(super) decisions: Decisions,
    pub(super) counts: Counts,
    pub(super) trial: Trial,
    pub(super) learning: Learning,
    pub(super) apprenticeship: Apprenticeship,
    pub(super) outcomes: Outcomes,
    pub(super) policy: Box<dyn Policy>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Decisions made.
    pub decisions: u64,
    /// Rewards learned.
    pub rewards: u64,
    /// Their sum.
    pub reward_sum: f64,
    /// Decisions whose window ended and that were learned with the default reward.
    pub defaults: u64,
    /// Decisions whose window ended and that were not learned.
    pub unrewarded: u64,
}

impl Counts {
    /// How many decisions the policy has learned from.
    pub fn learned(&self) -> u64 {
        self.rewards + self.defaults
    }
}

impl App {
    /// A new app.
    pub(super) fn new(settings: AppSettings, at_ms: u64) -> Result<Self, BadSettings> {
        Ok(Self {
            policy: settings.build()?,
            settings,
            created_ms: at_ms,
            born: 0,
            now_ms: at_ms,
            keys: Vec::new(),
            users: Names::default(),
            seen: Seen::default(),
            items: Arc::default(),
            described: Arc::default(),
            catalogue: Catalogue::default(),
            encoder: None,
            effects: ItemEffects::default(),
            decisions: Decisions::default(),
            counts: Counts::default(),
            trial: Trial::default(),
            learning: Learning::default(),
            apprenticeship: Apprenticeship::default(),
            outcomes: Outcomes::default(),
        })
    }

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
            What::Decided(made) => self.decided(at_ms, made, false),
            What::DecidedInTrial(decision)
            | What::DecidedFromCatalogue(CatalogueDecision { decision, .. }) => {
                let TrialDecision { made, control, candidates: _ } = decision;
                self.decided(at_ms, made, control)
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
                self.apprenticeship.decisions += 1;
                self.apprenticeship.agreed += u64::from(agreed);
                self.decisions.set_agreed(&decision, agreed);
                Ok(())
            }
            What::ModelReplaced(model) => self.replace_model(model.as_deref()),
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
            What::UserForgotten(user) => self.let_go(&user, |online, user| online.forget(user)),
            What::UserRetired(user) => self.let_go(&user, |online, user| online.retire(user)),
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
    pub(super) fn let_go(
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

    fn decided(&mut self, at_ms: u64, made: Decided, control: bool) -> Result<(), String> {
        self.check_features(&made.context)?;
        if self.decisions.get(&made.id).is_some() {
            return Err(format!("decision `{}` was made twice", made.id));
        }
        let user = self.users.find_or_add(&made.user).ok_or("there are 2^32 users")?;
        self.seen.touch(user, at_ms);
        let status = if made.shown { Status::Open } else { Status::NotShown };
        let due_ms = self.window_end(at_ms);
        let decision = Decision::new(made, user as u32, control, at_ms, due_ms, status);
        self.decisions.insert(decision);
        self.counts.decisions += 1;
        Ok(())
    }

    /// Closes an open decision, learning from its reward or its default.
    fn close(&mut self, id: &str, status: Status, at_ms: u64) {
        let has_effects = self.encoder.is_some();
        let Some(found) = self.decisions.get(id) else { return };
        let &Decision { user, control, agreed, .. } = found;
        let item = has_effects.then(|| name_hash(found.made.ranking.first()));
        let forget_ms = self.window_end(at_ms);
        let Some(context) = self.decisions.move_to(id, status, forget_ms) else { return };
        if let Status::Rewarded(reward) | Status::Expired(Some(reward)) = status {
            if self.learning.mode != Mode::LoggingOnly {
                let mut taught = Some(reward);
                if let (Some(item), Ok(contexts)) = (item, Contexts::new(&context, context.len())) {
                    let (user, mut predicted) = (user as usize, [Score::default()]);
                    self.online().score(user, &contexts, &mut predicted);
                    let position = self.policy.insight().and_then(|insight| insight.position(user));
                    let cohort = position.and_then(|position| position.membership);
                    let cohort = cohort.map(|membership| membership.component);
                    let expected = predicted[0].expected;
                    taught = self.effects.learn(user, cohort, item, expected, reward);
                }
                if let Some(taught) = taught {
                    self.online().learn_one(user as usize, &context, taught);
                }
            }
            self.outcomes.add(at_ms, control, reward);
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

    /// The policy for other settings, knowing what the present one knows; `None` where the
    /// settings are right and the present one fits them.
    pub fn policy_for(
        &mut self,
        settings: &AppSettings,
    ) -> Result<Option<Box<dyn Policy>>, BadSettings> {
        let mut policy = settings.build()?;
        if settings.policy == self.settings.policy && settings.params == self.settings.params {
            return Ok(None);
        }
        let cannot = || BadSettings::Fixed(settings.policy.clone());
        let saved = self.policy.saved().ok_or_else(cannot)?;
        let learned = saved.share().map_err(|_| cannot())?;
        policy.saved().ok_or_else(cannot)?.take_over(learned)?;
        Ok(Some(policy))
    }

    pub(super) fn online(&mut self) -> &mut dyn OnlinePolicy {
        self.policy.online().expect("settings that name another policy are refused")
    }

    /// What its policy has to do that takes long, if anything is due.
    pub fn job(&mut self) -> Option<RefitJob> {
        self.policy.refits()?.job()
    }

    /// Whether its policy can be kept in a snapshot.
    pub(super) fn can_be_saved(&mut self) -> bool {
        self.policy.saved().is_some()
    }

    /// Whether its policy can forget users.
    pub fn can_forget(&mut self) -> bool {
        self.online().forget(usize::MAX)
    }

    /// In which order its users were seen.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What the policy thinks of every candidate for a user.
    pub fn score(&mut self, user: &str, contexts: &Contexts, scores: &mut [Score]) {
        // A user that never came gets the number that it would get now.
        let user = self.users.find(user).unwrap_or(self.users.next_number());
        self.online().score(user, contexts, scores);
    }

    /// Adds what features do not say of the candidates, by their ids, to what the policy thinks of them.
    pub fn add_effects(&self, user: &str, ids: &[String], scores: &mut [Score]) {
        if self.encoder.is_some() && !self.effects.is_empty() {
            let user = self.users.find(user).unwrap_or(self.users.next_number());
            let items: Vec<u64> = ids.iter().map(|id| name_hash(id)).collect();
            self.effects.adjust(user, &items, scores);
        }
    }

    /// The effect of an item for everybody, beyond its features, and how many rewards it rests on.
    pub fn effect_of(&self, item: &str) -> (f64, f64) {
        self.effects.of(name_hash(item))
    }

    /// With what probability each candidate is to be chosen, where the policy draws; see
    /// [`OnlinePolicy::chances`].
    pub fn chances(
        &mut self,
        user: &str,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        let user = self.users.find(user).unwrap_or(self.users.next_number());
        self.online().chances(user, contexts, seed, chances)
    }

    /// Its policy as something that can be looked into, where it can be.
    pub fn insight(&self) -> Option<&dyn Insight> {
        self.policy.insight()
    }

    /// How it learns.
    pub fn learning(&self) -> &Learning {
        &self.learning
    }

    /// What came of decisions that the policy only watched.
    pub fn apprenticeship(&self) -> Apprenticeship {
        self.apprenticeship
    }

    /// Whether a decision can take one more reward.
    pub fn can_gather(&self, decision: &Decision) -> bool {
        decision.gathered.len() < MOST_GATHERED
    }

    /// The coefficients that it expects rewards with: of a user, of a cohort by its number, or of
    /// everybody; `None` while nothing was learned, or where the policy cannot be looked into.
    pub fn coefficients(&mut self, user: Option<usize>, cohort: Option<usize>) -> Option<Vec<f64>> {
        let dim = self.settings.dim;
        let insight = self.insight()?;
        let mut theta = match (user, cohort) {
            (Some(user), _) => insight.user_summary(user)?.estimate,
            (None, Some(cohort)) => {
                let population = insight.population()?;
                if cohort >= population.cohorts().len() {
                    return None;
                }
                let at = population.components.len() - population.cohorts().len() + cohort;
                population.centre(at)
            }
            (None, None) => {
                let population = insight.population()?;
                let mut mean = vec![0.0; dim];
                for (at, component) in population.components.iter().enumerate() {
                    let centre = population.centre(at);
                    mean.iter_mut().zip(centre).for_each(|(m, c)| *m += component.weight * c);
                }
                mean
            }
        };
        theta.truncate(dim);
        (theta.len() == dim).then_some(theta)
    }

    /// Its control group.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// What came of its decisions.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Its settings.
    pub fn settings(&self) -> &AppSettings {
        &self.settings
    }

    /// What tells it from another app of its name, before it or after it.
    pub fn identity(&self) -> (u64, u64) {
        (self.born, self.created_ms)
    }

    /// When it was created.
    pub fn created_ms(&self) -> u64 {
        self.created_ms
    }

    /// The time of its last event.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Its keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Its users.
    pub fn users(&self) -> &Names {
        &self.users
    }

    /// The features of every registered item.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// The features of every item that was registered by JSON.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// What makes vectors of JSON, in an app that takes it.
    pub fn encoder(&self) -> Option<&Encoder> {
        self.encoder.as_ref()
    }

    /// What people call the coordinates: names that were given, or those of the features that JSON has there, the first
    /// seen of each, with a minus where the coordinate has the other sign. Empty where there are none.
    pub fn feature_names(&self) -> Vec<String> {
        let given = &self.trial.feature_names;
        let Some(encoder) = self.encoder.as_ref().filter(|_| given.is_empty()) else {
            return given.clone();
        };
        let mut names: Vec<String> = (0..encoder.dim()).map(|at| format!("feature {at}")).collect();
        let mut is_named = vec![false; names.len()];
        for named in encoder.names().filter(|named| named.place < encoder.dim()) {
            if !std::mem::replace(&mut is_named[named.place], true) {
                let minus = if named.sign < 0.0 { "−" } else { "" };
                names[named.place] = format!("{minus}{}", named.name);
            }
        }
        names
    }

    /// The same, to look at what is to be encoded.
    pub fn encoder_mut(&mut self) -> Option<&mut Encoder> {
        self.encoder.as_mut()
    }

    /// Its decisions.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// How often what happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// No version of this program has taken larger numbers from anybody.
fn check_number(number: f64) -> Result<(), String> {
    match number.abs() <= 1e6 {
        true => Ok(()),
        false => Err(format!("the number {number}, which is none that can be learned")),
    }
}
