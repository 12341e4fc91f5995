//! 100,000 random operations on the service and on a naive version of it, with restarts, lost
//! power and snapshots in between: same answers, same counts, same model.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeMap;

use cohort::linear::Oful;
use cohort_server::engine::request::{ForUser, Offer, RewardOutcome};
use cohort_server::engine::{Answer, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use common::{LIMITS, Simulation, create};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

const OPERATIONS: usize = 100_000;
const DIM: usize = 3;

/// The service as one would write it on a napkin: every decision ever made in a map, its fate
/// worked out from the times alone; every user a plain learner.
#[derive(Default)]
struct Naive {
    apps: BTreeMap<String, NaiveApp>,
    deleted: Vec<String>,
}

struct NaiveApp {
    settings: AppSettings,
    items: BTreeMap<String, Vec<f64>>,
    decisions: BTreeMap<String, NaiveDecision>,
    users: BTreeMap<String, Oful>,
    rewards: u64,
    reward_sum: f64,
    defaults: u64,
}

#[derive(Clone)]
struct NaiveDecision {
    user: String,
    ranking: Vec<String>,
    context: Vec<f64>,
    /// When the window ends; of a closed one, when it is forgotten.
    until_ms: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    NotShown,
    Open,
    Rewarded(f64),
    Expired,
}

impl NaiveApp {
    fn new(settings: AppSettings) -> Self {
        Self {
            settings,
            items: BTreeMap::new(),
            decisions: BTreeMap::new(),
            users: BTreeMap::new(),
            rewards: 0,
            reward_sum: 0.0,
            defaults: 0,
        }
    }

    /// Ends windows, earliest first, ties by id: that order decides how a user's model rounds.
    fn pass_time(&mut self, now_ms: u64) {
        loop {
            let due = self.decisions.iter().filter(|(_, decision)| decision.until_ms <= now_ms);
            let first = due.min_by_key(|(id, decision)| (decision.until_ms, id.to_string()));
            let Some((id, decision)) = first.map(|(id, d)| (id.clone(), d.clone())) else { return };
            match decision.fate {
                Fate::Open => {
                    if let Some(reward) = self.settings.default_reward {
                        self.learn(&decision, reward);
                        self.defaults += 1;
                    }
                    let decision = self.decisions.get_mut(&id).unwrap();
                    decision.fate = Fate::Expired;
                    decision.until_ms += self.settings.window_ms;
                }
                _ => {
                    self.decisions.remove(&id);
                }
            }
        }
    }

    fn learn(&mut self, decision: &NaiveDecision, reward: f64) {
        let user = self.users.entry(decision.user.clone());
        user.or_insert_with(|| Oful::new(DIM, 1.0)).learn(&decision.context, reward);
    }

    /// `Ok(learned?)`, or the code of the refusal.
    fn reward(&mut self, id: &str, reward: f64, now_ms: u64) -> Result<bool, &'static str> {
        let Some(decision) = self.decisions.get(id).cloned() else {
            return Err("decision_unknown");
        };
        match decision.fate {
            Fate::NotShown => Err("not_shown"),
            Fate::Expired => Err("late"),
            Fate::Rewarded(_) => Ok(false),
            Fate::Open => {
                self.learn(&decision, reward);
                self.rewards += 1;
                self.reward_sum += reward;
                let decision = self.decisions.get_mut(id).unwrap();
                decision.fate = Fate::Rewarded(reward);
                decision.until_ms = now_ms + self.settings.window_ms;
                Ok(true)
            }
        }
    }
}

struct Test {
    rng: ChaCha12Rng,
    disk: MemoryDisk,
    folder: MemoryFolder,
    service: Simulation<MemoryJournal>,
    naive: Naive,
    now_ms: u64,
    next_id: u64,
    seen: BTreeMap<&'static str, usize>,
}

#[test]
fn a_hundred_thousand_operations_agree_with_the_naive_version() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let service = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 0).unwrap();
    let mut test = Test {
        rng: ChaCha12Rng::seed_from_u64(7),
        disk,
        folder,
        service,
        naive: Naive::default(),
        now_ms: 1_000_000,
        next_id: 0,
        seen: BTreeMap::new(),
    };
    for operation in 0..OPERATIONS {
        test.operate();
        if operation % 1000 == 999 {
            test.compare_all();
        }
    }
    // Everything that can happen did, and often.
    for what in [
        "created",
        "deleted",
        "decided",
        "retried",
        "learned",
        "repeated",
        "late",
        "not_shown",
        "decision_unknown",
        "app_deleted",
        "activated",
        "item_unknown",
        "restarted",
        "snapshot",
        "decision_reused",
        "changed",
    ] {
        let often = test.seen.get(what).copied().unwrap_or(0);
        assert!(often >= 20, "`{what}` happened {often} times only: {:?}", test.seen);
    }
}

impl Test {
    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn some_app(&mut self) -> String {
        format!("app-{}", self.rng.random_range(0..3))
    }

    fn some_decision(&mut self) -> String {
        let back = self.rng.random_range(0..60u64.min(self.next_id + 1));
        format!("d{}", self.next_id - back)
    }

    fn operate(&mut self) {
        self.now_ms += self.rng.random_range(0..8);
        match self.rng.random_range(0..1000) {
            0..3 => self.create(),
            3..5 => self.delete(),
            5..20 => self.put_item(),
            20..30 => self.change(),
            30..450 => self.decide(),
            450..480 => self.activate(),
            480..980 => self.reward(),
            980..990 => self.wait(),
            990..997 => {
                self.service.snapshot().unwrap();
                self.saw("snapshot");
            }
            _ => self.restart(),
        }
    }

    fn create(&mut self) {
        let app = self.some_app();
        // The naive version learns as `linucb-ind` does.
        let mut settings = AppSettings { policy: "linucb-ind".to_owned(), ..AppSettings::new(DIM) };
        settings.window_ms = self.rng.random_range(20..400);
        settings.default_reward = self.rng.random_bool(0.5).then_some(0.125);
        settings.epsilon = if self.rng.random_bool(0.5) { 0.3 } else { 0.0 };
        let request = create(&app, settings.clone());
        let created = self.service.ask(self.now_ms, request);
        assert_eq!(created.is_ok(), !self.naive.apps.contains_key(&app));
        if created.is_ok() {
            self.naive.deleted.retain(|name| *name != app);
            self.naive.apps.insert(app, NaiveApp::new(settings));
            self.saw("created");
        }
    }

    fn delete(&mut self) {
        let app = self.some_app();
        let deleted = self.service.ask(self.now_ms, Request::DeleteApp { app: app.clone() });
        assert_eq!(deleted.is_ok(), self.naive.apps.remove(&app).is_some());
        if deleted.is_ok() {
            self.naive.deleted.push(app);
            self.saw("deleted");
        }
    }

    fn put_item(&mut self) {
        let app = self.some_app();
        let id = format!("item-{}", self.rng.random_range(0..4));
        let features: Vec<f64> = (0..DIM).map(|_| self.rng.random_range(-1.0..1.0)).collect();
        let items = vec![(id.clone(), features.clone())];
        let put = self.service.ask(self.now_ms, Request::PutItems { app: app.clone(), items });
        let known = self.naive.apps.get_mut(&app);
        assert_eq!(put.is_ok(), known.is_some());
        if let Some(known) = known {
            known.pass_time(self.now_ms);
            known.items.insert(id, features);
        }
    }

    fn change(&mut self) {
        let app = self.some_app();
        let window_ms = self.rng.random_range(20..400);
        let change = Box::new(move |settings: &mut AppSettings, _: &mut _, _: &mut _| {
            settings.window_ms = window_ms;
        });
        let changed =
            self.service.ask(self.now_ms, Request::ChangeApp { app: app.clone(), change });
        let known = self.naive.apps.get_mut(&app);
        assert_eq!(changed.is_ok(), known.is_some());
        if let Some(known) = known {
            known.pass_time(self.now_ms);
            known.settings.window_ms = window_ms;
            self.saw("changed");
        }
    }

    fn decide(&mut self) {
        let app = self.some_app();
        let user = format!("user-{}", self.rng.random_range(0..7));
        let shown = self.rng.random_bool(0.8);
        let id = match self.rng.random_bool(0.1) {
            true => self.some_decision(),
            false => {
                self.next_id += 1;
                format!("d{}", self.next_id)
            }
        };
        let from_catalogue = self.rng.random_bool(0.3);
        let ids: Vec<String> = (0..4).map(|item| format!("item-{item}")).collect();
        let features: Vec<Option<Vec<f64>>> = (0..4)
            .map(|item| {
                let row = (0..DIM).map(|_| self.rng.random_range(-1.0..1.0)).collect();
                (!from_catalogue || item > 1).then_some(row)
            })
            .collect();
        let offer = Offer::new(ids.clone(), features.clone());
        let users = vec![ForUser { user: user.clone(), decision: Some(id.clone()), shown }];
        let request = Request::Decide { app: app.clone(), offer, users, explain: false };
        let answer = self.service.ask(self.now_ms, request);

        let Some(known) = self.naive.apps.get_mut(&app) else {
            let code = answer.err().map(|refusal| refusal.code());
            let deleted = self.naive.deleted.contains(&app);
            assert_eq!(code, Some(if deleted { "app_deleted" } else { "app_unknown" }));
            return self.saw("app_deleted");
        };
        known.pass_time(self.now_ms);
        // Who was decided for gets that decision again; its items may have left the catalogue.
        if let Some(before) = known.decisions.get(&id) {
            let Ok(Answer::Decided(mut decisions)) = answer else { panic!("no decision") };
            let decision = decisions.pop().unwrap();
            if before.user != user {
                assert_eq!(decision.err().map(|refusal| refusal.code()), Some("decision_reused"));
                return self.saw("decision_reused");
            }
            assert!(decision.unwrap().ranking.iter().eq(&before.ranking), "a retry gets the same");
            return self.saw("retried");
        }
        let rows: Option<Vec<Vec<f64>>> = features
            .iter()
            .zip(&ids)
            .map(|(sent, id)| sent.clone().or_else(|| known.items.get(id).cloned()))
            .collect();
        let Some(rows) = rows else {
            assert_eq!(answer.err().map(|refusal| refusal.code()), Some("item_unknown"));
            return self.saw("item_unknown");
        };
        let Ok(Answer::Decided(mut decisions)) = answer else { panic!("no decision") };
        let made = decisions.pop().unwrap().unwrap_or_else(|refusal| panic!("{refusal}"));
        let chosen = ids.iter().position(|id| id == made.ranking.first()).unwrap();
        assert_eq!(made.ranking.iter().count(), 4);
        let naive = NaiveDecision {
            user,
            ranking: made.ranking.iter().map(str::to_owned).collect(),
            context: rows[chosen].clone(),
            until_ms: self.now_ms + known.settings.window_ms,
            fate: if shown { Fate::Open } else { Fate::NotShown },
        };
        known.decisions.insert(id, naive);
        self.saw("decided");
    }

    fn activate(&mut self) {
        let (app, decision) = (self.some_app(), self.some_decision());
        let request = Request::Activate { app: app.clone(), decision: decision.clone() };
        let answer = self.service.ask(self.now_ms, request);
        let Some(known) = self.naive.apps.get_mut(&app) else { return assert!(answer.is_err()) };
        known.pass_time(self.now_ms);
        let window_ms = known.settings.window_ms;
        let found = known.decisions.get_mut(&decision);
        assert_eq!(answer.is_ok(), found.is_some());
        if let Some(found) = found
            && found.fate == Fate::NotShown
        {
            found.fate = Fate::Open;
            found.until_ms = self.now_ms + window_ms;
            self.saw("activated");
        }
    }

    fn reward(&mut self) {
        let (app, decision) = (self.some_app(), self.some_decision());
        let reward = f64::from(self.rng.random_range(-4..5));
        let rewards = vec![(decision.clone(), reward)];
        let answer = self.service.ask(self.now_ms, Request::Reward { app: app.clone(), rewards });
        let Some(known) = self.naive.apps.get_mut(&app) else { return assert!(answer.is_err()) };
        known.pass_time(self.now_ms);
        let expected = known.reward(&decision, reward, self.now_ms);
        let Ok(Answer::Rewarded(mut outcomes)) = answer else { panic!("no outcome") };
        let outcome = outcomes.pop().unwrap().map_err(|refusal| refusal.code());
        let outcome = outcome.map(|outcome| outcome == RewardOutcome::Learned);
        assert_eq!(outcome, expected, "{app} {decision}");
        match outcome {
            Ok(true) => self.saw("learned"),
            Ok(false) => self.saw("repeated"),
            Err(code) => self.saw(code),
        }
    }

    /// Nobody asks for a while; only time passes.
    fn wait(&mut self) {
        self.now_ms += self.rng.random_range(0..300);
        self.service.ask(self.now_ms, Request::TimePasses).unwrap();
        let now_ms = self.now_ms;
        self.naive.apps.values_mut().for_each(|app| app.pass_time(now_ms));
    }

    fn restart(&mut self) {
        let before = self.service.bytes();
        self.disk.lose_power(0);
        let journal = MemoryJournal::open(&self.disk).unwrap();
        let seed = self.rng.random();
        self.service = Simulation::start(journal, &self.folder, seed).unwrap();
        assert_eq!(self.service.bytes(), before, "a restart changes no bit");
        self.saw("restarted");
    }

    /// Counts and models of every app and user.
    fn compare_all(&mut self) {
        let now_ms = self.now_ms;
        self.service.ask(now_ms, Request::TimePasses).unwrap();
        assert!(self.naive.apps.len() <= LIMITS.apps);
        for (name, naive) in &mut self.naive.apps {
            naive.pass_time(now_ms);
            let app = self.service.engine.state_mut().app_mut(name).unwrap();
            let counts = app.counts();
            assert_eq!(counts.rewards, naive.rewards, "{name}");
            assert_eq!(counts.reward_sum, naive.reward_sum, "{name}");
            assert_eq!(counts.defaults, naive.defaults, "{name}");
            assert_eq!(app.decisions().len(), naive.decisions.len(), "{name}");
            for (user, learner) in &naive.users {
                // ⟨e_k, θ̂⟩ is what is expected of the k-th unit vector.
                let units = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
                let contexts = cohort::Contexts::new(&units, DIM).unwrap();
                let mut scored = [cohort::Score::default(); DIM];
                app.score(user, &contexts, &mut scored);
                for k in 0..DIM {
                    let gap = (scored[k].expected - learner.estimate()[k]).abs();
                    assert!(gap < 1e-9, "{name} {user}: {gap}");
                }
            }
        }
    }
}
