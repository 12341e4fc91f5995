//! What is done with a request: checked, decided, written down, answered.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Engine`] | what does each request change, and what is the answer? |
//! | [`request`] | what can be asked, and what is answered? |
//! | [`refusal`] | what is refused, with which code, and what can the caller do? |
//! | [`recent`] | what was decided lately, and why? |
//! | [`choice`] | which item, and with what probability? |
//! | [`history`] | what was decided elsewhere? |
//! | [`items`] | which items come and go? |
//! | [`Limits`] | what may an app take up, and what does a request cost? |
//! | `catalogue` | which of all items, where none are listed? |
//! | `slate` | what in several places at once? |
//! | `follow` | what does a partition take over from its cluster? |
//! | [`Refit`] | when is a model refitted, and who waits for it? |
//! | [`Trouble`] | what is wrong with a single app, while the others go on? |
//! | [`recovery`] | how does the state come back? |
//! | [`runtime`] | which threads run it, and when is an answer safe to give? |
//!
//! The engine is a function of the state, the time it is told and the random numbers it is given:
//! `handle(now, request) → events + answer`. It waits for nothing and knows no thread.

mod catalogue;
pub mod choice;
mod decide;
mod excluded;
pub mod explained;
mod follow;
mod forget;
pub mod history;
pub mod items;
mod limits;
mod lookup;
mod matching;
mod offer;
pub mod recent;
pub mod recovery;
mod refits;
pub mod refusal;
pub mod request;
mod reward;
pub mod runtime;
pub mod slate;
mod time;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use cohort_features::Given;
use rand_chacha::ChaCha12Rng;

pub(crate) use forget::AT_ONCE;
pub(crate) use limits::EXCLUDED_WORK;
pub use limits::Limits;
pub use refits::Refit;
pub use refusal::Refusal;
pub use request::{Answer, Request};
pub use trouble::Trouble;

use crate::event::{Event, Key, What};
use crate::journal::Group;
use crate::learning::Learning;
use crate::settings::{AppSettings, is_feature};
use crate::state::{App, State};
use crate::trial::Trial;
use items::ListedItem;
use limits::MOST_KEYS;
use recent::Recent;
use refits::Refits;
use request::{AppView, Change, DecisionView};

/// The state and what may be asked of it.
pub struct Engine {
    state: State,
    limits: Limits,
    rng: ChaCha12Rng,
    scratch: decide::Scratch,
    refits: Refits,
    /// The newest decisions of each app, with the reasons: not part of the state.
    recent: BTreeMap<String, Recent>,
    troubles: trouble::Troubles,
    /// Where the group ended when the state last had all that is in it.
    consistent: (u32, usize),
    /// Whether windows have ended that are not closed.
    is_behind: bool,
    /// How much of the time may be a jump of the calendar, and makes nobody older yet.
    doubted_ms: u64,
    /// Whether users or apps went of whom something is on disk.
    has_erased: bool,
    /// Up to which event of a cluster's control stream it has come.
    followed: u64,
    /// Whether what users have in common is fitted here, from what is known here.
    fits: bool,
    /// Items of each app that were looked at and are not registered yet.
    kept_room: BTreeMap<String, Arc<AtomicUsize>>,
    /// Decisions of a slate that is decided place by place: they are written down together.
    held: Option<Vec<What>>,
}

impl Engine {
    /// An engine on a state, drawing random numbers from `rng`.
    pub fn new(state: State, limits: Limits, rng: ChaCha12Rng) -> Self {
        let (scratch, refits) = (decide::Scratch::default(), Refits::default());
        let (recent, troubles) = (BTreeMap::new(), trouble::Troubles::default());
        // Nobody knows what was erased before this process began.
        let (consistent, is_behind, has_erased) = ((0, 0), false, true);
        let (followed, fits) = (0, true);
        Self {
            state,
            limits,
            rng,
            scratch,
            refits,
            recent,
            troubles,
            consistent,
            is_behind,
            doubted_ms: 0,
            has_erased,
            followed,
            fits,
            kept_room: BTreeMap::new(),
            held: None,
        }
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, to save it.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Answers one request at one time. What it changes is added to the group, and may be answered
    /// only when the group is safe.
    pub fn handle(
        &mut self,
        now_ms: u64,
        request: Request,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::TimePasses => return self.pass_time(now_ms, group),
            Request::ClockSteps { by_ms } => return self.step_clock(now_ms, by_ms, group),
            Request::MemoryLow { most } => return self.retire_unseen(now_ms, most, group),
            Request::Follow { number, events } => {
                return self.follow(now_ms, number, events, group);
            }
            _ => {}
        }
        // What a bug has left behind is of no request any more.
        self.held = None;
        match request.works_on().map(str::to_owned) {
            Some(app) => self.guarded(&app, group, |engine, group| {
                engine.handle_soundly(now_ms, request, group)
            }),
            None => self.handle_soundly(now_ms, request, group),
        }
    }

    /// The same, where nothing panics.
    fn handle_soundly(
        &mut self,
        now_ms: u64,
        request: Request,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::CreateApp { app, settings, trial, learning, key } => {
                self.create_app(now_ms, app, settings, (*trial, *learning), key, group)
            }
            Request::ChangeApp { app, change } => self.change_app(now_ms, app, change, group),
            Request::Inspect { app, inspect } => {
                let started = Instant::now();
                let recent = self.recent.remove(&app).unwrap_or_default();
                self.app_mut(&app).map(|found| inspect(found, &recent))?;
                self.recent.insert(app, recent);
                metrics::histogram!("cohort_look_seconds").record(started.elapsed());
                Ok(Answer::Done)
            }
            Request::DeleteApp { app } => {
                // What it had learned goes with it: its windows need not be ended first.
                let at_ms = now_ms.max(self.app(&app)?.now_ms());
                self.record(group, &app, at_ms, What::Deleted)?;
                self.troubles.forget(&app);
                self.refits.under_way.remove(&app);
                self.refits.put_off.remove(&app);
                self.recent.remove(&app);
                self.kept_room.remove(&app);
                let gone = self.state.take_gone();
                // Where no thread can be had it is done here.
                drop(std::thread::Builder::new().spawn(move || drop(gone)));
                Ok(Answer::Done)
            }
            Request::ShowApp { app } => self.view(&app),
            Request::ListApps => {
                let views = self.state.apps().iter().map(|(name, app)| view_of(name, app));
                Ok(Answer::Apps(views.collect()))
            }
            Request::AddKey { app, key } => {
                let at_ms = self.advance(now_ms, &app, group)?;
                if self.app(&app)?.keys().len() >= MOST_KEYS {
                    return Err(Refusal::TooMany { what: "keys", limit: MOST_KEYS });
                }
                self.record(group, &app, at_ms, What::KeyAdded(key))?;
                Ok(Answer::Done)
            }
            Request::RemoveKey { app, key } => {
                let at_ms = self.advance(now_ms, &app, group)?;
                if !self.app(&app)?.keys().iter().any(|known| known.id == key) {
                    return Err(Refusal::KeyUnknown { key });
                }
                self.record(group, &app, at_ms, What::KeyRemoved(key))?;
                Ok(Answer::Done)
            }
            Request::PutItems { app, items } => {
                let listed = |(id, vector)| ListedItem::new(id, Given::Vector(vector));
                self.put_items(now_ms, &app, items.into_iter().map(listed).collect(), group)
            }
            Request::DescribeItems { app, items } => {
                let listed = |(id, features)| ListedItem::new(id, Given::Json(features));
                self.put_items(now_ms, &app, items.into_iter().map(listed).collect(), group)
            }
            Request::RegisterItems { app, items } => self.put_items(now_ms, &app, items, group),
            Request::RegisterPart { app, put, part, registers } => {
                self.put_part(now_ms, &app, &put, part, registers, group)
            }
            Request::RemoveItem { app, item } => self.remove_item(now_ms, &app, item, group),
            Request::ListItems { app } => {
                let known = self.app(&app)?;
                Ok(Answer::Items(known.items().clone(), known.described().clone()))
            }
            Request::Decide { app, offer, users, explain } => {
                self.decide(now_ms, &app, &offer, users, explain, group)
            }
            Request::DecidePart { app, offer, users, explain } => {
                self.decide(now_ms, &app, &offer, users, explain, group)
            }
            Request::Slate { app, user, slots, explain } => {
                self.decide_slate(now_ms, &app, user, slots, explain, group)
            }
            Request::SlatePart { app, filling, at } => {
                self.fill_place(now_ms, &app, &filling, at, group)
            }
            Request::History { app, decisions } => {
                self.learn_history(now_ms, &app, decisions, group)
            }
            Request::Activate { app, decision } => self.activate(now_ms, app, decision, group),
            Request::Reward { app, rewards } => {
                let at_ms = self.advance(now_ms, &app, group)?;
                let outcomes = rewards
                    .into_iter()
                    .map(|(decision, reward)| self.reward(at_ms, &app, decision, reward, group));
                Ok(Answer::Rewarded(outcomes.collect()))
            }
            Request::ReplaceModel { app, model } => self.replace_model(now_ms, &app, model, group),
            Request::ForgetUser { app, user } => {
                let at_ms = self.advance(now_ms, &app, group)?;
                self.forget_user(at_ms, &app, user, group)?;
                Ok(Answer::Done)
            }
            Request::ShowDecision { app, decision } => self.show_decision(&app, decision),
            Request::FitTogether { app, ask, next_look } => self.fit_together(&app, ask, next_look),
            Request::Refitted { app, ticket, found } => {
                // An app that was deleted meanwhile waits for nothing, nor does its successor.
                if self.refits.under_way.get(&app) == Some(&ticket) {
                    self.refits.under_way.remove(&app);
                    if found.is_empty() {
                        // Nothing was due in the cluster, or a partition did not answer.
                        return Ok(Answer::Done);
                    }
                    let at_ms = self.advance(now_ms, &app, group)?;
                    if let Err(why) = self.record(group, &app, at_ms, What::Refitted(found)) {
                        tracing::error!(app, %why, "what a refit found cannot be used");
                        self.troubles.refit_failed(&app, &why.to_string());
                        self.put_off_refit(&app)?;
                    } else {
                        self.troubles.refit_went_well(&app);
                    }
                }
                Ok(Answer::Done)
            }
            Request::RefitFailed { app, ticket } => {
                if self.refits.under_way.get(&app) == Some(&ticket) {
                    self.refits.under_way.remove(&app);
                    self.troubles.refit_failed(&app, "it stopped at a bug");
                    self.put_off_refit(&app)?;
                }
                Ok(Answer::Done)
            }
            Request::CloseWindows { app } => {
                let at_ms = self.advance(now_ms, &app, group)?;
                Ok(match self.app(&app)?.decisions().first_due(at_ms) {
                    Some(_) => Answer::Behind,
                    None => Answer::Done,
                })
            }
            Request::Rests => {
                self.record(group, "", now_ms, What::Rested)?;
                Ok(Answer::Done)
            }
            Request::Digest => {
                let sum =
                    self.state.digest().map_err(|why| Refusal::Bug { why: why.to_string() })?;
                Ok(Answer::Digest(self.state.last_event(), sum))
            }
            Request::TimePasses
            | Request::ClockSteps { .. }
            | Request::MemoryLow { .. }
            | Request::Follow { .. } => Ok(Answer::Done),
        }
    }

    fn create_app(
        &mut self,
        now_ms: u64,
        app: String,
        settings: AppSettings,
        (trial, learning): (Trial, Learning),
        key: Option<Key>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        if self.state.app(&app).is_some() {
            return Err(Refusal::AppExists { app });
        }
        if self.state.apps().len() >= self.limits.apps {
            return Err(Refusal::TooMany { what: "apps", limit: self.limits.apps });
        }
        self.check_settings(&settings)?;
        settings.build()?;
        trial.check(settings.dim)?;
        let features = settings.features.clone();
        self.record(group, &app, now_ms, What::Created(settings))?;
        if let Some(features) = features {
            self.record(group, &app, now_ms, What::FeaturesSet(features))?;
        }
        if trial != Trial::default() {
            self.record(group, &app, now_ms, What::TrialSet(trial))?;
        }
        if learning != Learning::default() {
            self.record(group, &app, now_ms, What::LearningSet(learning))?;
        }
        if let Some(key) = key {
            self.record(group, &app, now_ms, What::KeyAdded(key))?;
        }
        self.view(&app)
    }

    fn change_app(
        &mut self,
        now_ms: u64,
        app: String,
        change: Change,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        // What has ended by now is learned by the settings of before.
        let at_ms = self.catch_up(now_ms, &app, group)?;
        let known = self.app(&app)?;
        let (before, trial_before) = (known.settings().clone(), known.trial().clone());
        let learning_before = known.learning().clone();
        let (mut settings, mut trial) = (before.clone(), trial_before.clone());
        let mut learning = learning_before.clone();
        change(&mut settings, &mut trial, &mut learning);
        self.check_settings(&settings)?;
        trial.check(settings.dim)?;
        self.app_mut(&app)?.policy_for(&settings)?;
        if settings != before {
            self.record(group, &app, at_ms, What::Changed(settings))?;
        }
        if trial != trial_before {
            self.record(group, &app, at_ms, What::TrialSet(trial))?;
        }
        if learning != learning_before {
            self.record(group, &app, at_ms, What::LearningSet(learning))?;
        }
        self.view(&app)
    }

    fn check_settings(&self, settings: &AppSettings) -> Result<(), Refusal> {
        match settings.dim > self.limits.dim {
            true => Err(Refusal::TooMany { what: "features (dim)", limit: self.limits.dim }),
            false => Ok(()),
        }
    }

    fn show_decision(&self, app: &str, decision: String) -> Result<Answer, Refusal> {
        match self.app(app)?.decisions().get(&decision) {
            None => Err(Refusal::DecisionUnknown { decision }),
            Some(found) => {
                let (at_ms, control, status) = (found.at_ms, found.control, found.status);
                let made = found.made.clone();
                Ok(Answer::Decision(DecisionView { made, at_ms, control, status }))
            }
        }
    }

    /// Writes an event down and lets it change the state: always both.
    fn record(
        &mut self,
        group: &mut Group,
        app: &str,
        at_ms: u64,
        what: What,
    ) -> Result<(), Refusal> {
        let erases = matches!(what, What::UserForgotten(_) | What::UserRetired(_) | What::Deleted);
        let event = Event { app: app.to_owned(), at_ms, what };
        let mark = group.mark();
        group.push(|out| event.encode(out));
        self.state.apply(event).map_err(|why| {
            group.rewind(mark);
            Refusal::Bug { why: why.to_string() }
        })?;
        self.consistent = group.mark();
        self.has_erased |= erases;
        group.set_control(self.followed);
        Ok(())
    }

    /// The same of a decision, which is held where it is one of several that are written down together.
    fn record_decision(
        &mut self,
        group: &mut Group,
        app: &str,
        at_ms: u64,
        what: What,
    ) -> Result<(), Refusal> {
        match &mut self.held {
            Some(held) => {
                held.push(what);
                Ok(())
            }
            None => self.record(group, app, at_ms, what),
        }
    }

    fn app(&self, name: &str) -> Result<&App, Refusal> {
        self.state.app(name).ok_or_else(|| self.no_app(name))
    }

    fn app_mut(&mut self, name: &str) -> Result<&mut App, Refusal> {
        if self.state.app(name).is_none() {
            return Err(self.no_app(name));
        }
        self.state.app_mut(name).ok_or_else(|| Refusal::AppUnknown { app: name.to_owned() })
    }

    fn no_app(&self, name: &str) -> Refusal {
        let app = name.to_owned();
        match self.state.was_deleted(name) {
            true => Refusal::AppDeleted { app },
            false => Refusal::AppUnknown { app },
        }
    }

    fn view(&self, name: &str) -> Result<Answer, Refusal> {
        Ok(Answer::App(Box::new(view_of(name, self.app(name)?))))
    }
}

fn view_of(name: &str, app: &App) -> AppView {
    AppView {
        name: name.to_owned(),
        settings: app.settings().clone(),
        trial: app.trial().clone(),
        learning: app.learning().clone(),
        apprenticeship: app.apprenticeship(),
        created_ms: app.created_ms(),
        learned_ms: app.learned_ms(),
        keys: app.keys().to_vec(),
        users: app.users().count(),
        items: app.items().len() + app.described().len(),
        waiting: app.decisions().waiting(),
        counts: app.counts(),
    }
}

/// Features that the model can take, as many as the app has.
fn check_features(item: &str, features: &[f64], dim: usize) -> Result<(), Refusal> {
    if features.len() != dim {
        let (item, found) = (item.to_owned(), features.len());
        return Err(Refusal::WrongDim { item, found, dim });
    }
    match features.iter().find(|feature| !is_feature(**feature)) {
        Some(feature) => Err(Refusal::BadFeature { item: item.to_owned(), feature: *feature }),
        None => Ok(()),
    }
}
