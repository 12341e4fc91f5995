//! What one app knows: its settings, its users, its items, its open decisions, and the policy
//! that learned from the closed ones.

use std::sync::Arc;

use cohort::insight::Insight;
use cohort::{Contexts, OnlinePolicy, Policy, RefitJob, Score};
use cohort_features::{Encoder, Features, ItemEffects, Shown, bytes::name_hash};

use super::catalogue::Catalogue;
use super::decisions::{Decision, Decisions};
use super::names::Names;
use super::outcomes::Outcomes;
use super::seen::Seen;
use super::sorted::Sorted;
use crate::event::Key;
use crate::imitation::Imitator;
use crate::learning::{Apprenticeship, Learning, MOST_GATHERED};
use crate::settings::{AppSettings, BadSettings};
use crate::trial::Trial;

/// The features of every item that was registered by JSON.
pub type Described = Sorted<Arc<Features>>;

/// The features of every registered item.
pub type Items = Sorted<Box<[f64]>>;

/// One tenant of the service.
pub struct App {
    pub(super) settings: AppSettings,
    pub(super) created_ms: u64,
    /// When what it has learned last changed.
    pub(super) learned_ms: u64,
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
    pub(super) imitator: Imitator,
    pub(super) outcomes: Outcomes,
    pub(super) policy: Box<dyn Policy>,
    /// A model that was read already, or what was given up for it: no part of the state.
    pub(super) next_model: Option<Box<App>>,
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
            learned_ms: at_ms,
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
            imitator: Imitator::default(),
            outcomes: Outcomes::default(),
            next_model: None,
        })
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

    /// Adds what features do not say of the candidates, by their ids and vectors, to what the policy thinks of them.
    pub fn add_effects(
        &mut self,
        user: &str,
        ids: &[String],
        contexts: &Contexts,
        scores: &mut [Score],
    ) {
        let items = ids.iter().map(|id| name_hash(id));
        if self.has_effects() {
            let items: Vec<u64> = items.collect();
            self.adjust(user, &items, contexts, scores);
        }
    }

    /// Whether there is anything to say of items that their features do not.
    pub(super) fn has_effects(&self) -> bool {
        self.encoder.is_some() && !self.effects.is_empty()
    }

    /// Adds effects to what the policy thinks of items, by hashes of their ids and by their vectors.
    pub(super) fn adjust(
        &mut self,
        user: &str,
        items: &[u64],
        contexts: &Contexts,
        scores: &mut [Score],
    ) {
        let user = self.users.find(user).unwrap_or(self.users.next_number());
        let shown = items.iter().zip(contexts.iter());
        let shown = shown.map(|(item, vector)| Shown { item: *item, vector });
        let Some(online) = self.policy.online() else { return };
        let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
            online.score(user, rows, scores);
        };
        self.effects.adjust(user, shown, scores, by_policy);
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

    /// What it has learned of the choices of whoever decides instead of the policy.
    pub fn imitator(&self) -> &Imitator {
        &self.imitator
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

    /// When what it has learned last changed; of an app from before that was kept, when it was created.
    pub fn learned_ms(&self) -> u64 {
        self.learned_ms
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
