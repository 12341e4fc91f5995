//! The service without threads, network and clock: engine, journal and snapshots driven by hand,
//! so that a test can crash it wherever it likes.
#![allow(dead_code, missing_docs)]

use cohort_server::engine::recovery::recover;
use cohort_server::engine::request::{ForUser, Offer};
use cohort_server::engine::{Answer, Engine, Limits, Refit, Refusal, Request};
use cohort_server::journal::{Group, Journal, JournalError};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

pub const LIMITS: Limits = Limits {
    apps: 10,
    dim: 16,
    items: 100,
    waiting: 10_000,
    decision_bytes: 1 << 30,
    window_work: 1 << 30,
    users: 1 << 20,
    user_age_ms: 0,
    work: 1 << 30,
    journal_bytes: 1 << 24,
    answer_bytes: 1 << 24,
};

pub struct Simulation<J> {
    pub engine: Engine,
    pub journal: J,
    pub folder: MemoryFolder,
    /// Refits that were begun: each is done before the next request, and lost in a crash.
    refits: Vec<Refit>,
}

impl<J: Journal> Simulation<J> {
    /// Starts, or starts again, on what is on disk.
    pub fn start(journal: J, folder: &MemoryFolder, seed: u64) -> Result<Self, String> {
        let recovered = recover(&journal, &Snapshots::new(folder.clone()));
        let state = recovered.map_err(|why| why.to_string())?.state;
        let engine = Engine::new(state, LIMITS, ChaCha12Rng::seed_from_u64(seed));
        Ok(Self { engine, journal, folder: folder.clone(), refits: Vec::new() })
    }

    /// Asks; what it changed is synced before the answer is looked at.
    pub fn ask(&mut self, now_ms: u64, request: Request) -> Result<Answer, Refusal> {
        let (mut answers, committed) = self.ask_all(now_ms, [request]);
        committed.expect("this journal does not fail");
        answers.pop().expect("one request, one answer")
    }

    /// Asks several things that are committed as one group.
    pub fn ask_all(
        &mut self,
        now_ms: u64,
        requests: impl IntoIterator<Item = Request>,
    ) -> (Vec<Result<Answer, Refusal>>, Result<(), JournalError>) {
        let mut group = Group::default();
        let done: Vec<Request> = self.refits.drain(..).map(done).collect();
        for request in done {
            self.engine.handle(now_ms, request, &mut group).expect("what was fitted fits");
        }
        let answers = requests
            .into_iter()
            .map(|request| self.engine.handle(now_ms, request, &mut group))
            .collect();
        self.refits = self.engine.take_refits();
        let committed = match group.is_empty() {
            true => Ok(()),
            false => self.journal.append(&group).and_then(|()| self.journal.sync()),
        };
        (answers, committed)
    }

    pub fn snapshot(&mut self) -> Result<(), String> {
        let event = self.engine.state().last_event();
        let state = self.engine.state_mut();
        Snapshots::new(self.folder.clone())
            .write(event, |out| state.save(out))
            .map_err(|why| why.to_string())
    }

    /// The state as bytes: equal bytes are equal states, bit by bit.
    pub fn bytes(&mut self) -> Vec<u8> {
        state_bytes(self.engine.state_mut())
    }
}

fn done(Refit { app, ticket, job }: Refit) -> Request {
    Request::Refitted { app, ticket, found: job() }
}

pub fn state_bytes(state: &mut State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.save(&mut bytes).expect("memory takes all bytes");
    bytes
}

pub fn create(app: &str, settings: AppSettings) -> Request {
    let (trial, learning) = Default::default();
    Request::CreateApp { app: app.to_owned(), settings, trial, learning, key: None }
}

/// A decide for one user with candidates that depend on `salt`.
pub fn decide(app: &str, user: &str, id: Option<&str>, dim: usize, salt: u64) -> Request {
    let value = |item: u64, k: u64| {
        let mixed = (salt * 31 + item * 17 + k * 7 + 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as f64 / f64::from(1 << 24) - 0.5
    };
    let features = |item| Some((0..dim as u64).map(|k| value(item, k)).collect());
    let offer = Offer {
        ids: (0..4).map(|item| format!("item-{item}")).collect(),
        features: (0..4).map(features).collect(),
    };
    let decision = id.map(str::to_owned);
    let users = vec![ForUser { user: user.to_owned(), decision, shown: true }];
    Request::Decide { app: app.to_owned(), offer, users, explain: false }
}

pub fn reward(app: &str, decision: &str, reward: f64) -> Request {
    Request::Reward { app: app.to_owned(), rewards: vec![(decision.to_owned(), reward)] }
}
