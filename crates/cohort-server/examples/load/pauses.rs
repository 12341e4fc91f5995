//! How long does the engine's thread stand still? Everything that is done with all users, decisions or items of an app
//! at once, by policy.

use std::time::Instant;

use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::settings::AppSettings;
use cohort_server::state::State;

use super::{DIM, figures};

const ITEMS: usize = 20_000;
/// Events after a copy was taken, the first of which copy what they write to.
const EVENTS: usize = 2000;

/// Policies, and the part of the users that each can have: comparing all users with all takes memory of its own.
const POLICIES: [(&str, usize, (&str, f64)); 15] = [
    ("cohort", 1, ("exploration", 0.5)),
    ("linucb-ind", 1, ("exploration", 0.5)),
    ("lints", 1, ("v", 0.5)),
    ("hier-ts", 1, ("sigma", 0.2)),
    ("squarecb", 1, ("rho", 0.4)),
    ("hier-ucb", 1, ("exploration", 0.5)),
    ("dynucb", 10, ("exploration", 0.5)),
    ("locb", 50, ("exploration", 0.5)),
    ("rclumb", 50, ("exploration", 0.5)),
    ("rsclumb", 50, ("exploration", 0.5)),
    ("cab", 50, ("exploration", 0.5)),
    ("dccb", 50, ("exploration", 0.5)),
    ("uniclub", 50, ("exploration", 0.5)),
    ("sclub", 50, ("exploration", 0.5)),
    ("club", 50, ("exploration", 0.5)),
];

pub fn measure(users: usize) {
    let mut table = Vec::new();
    for (policy, part, (name, value)) in POLICIES {
        let users = users / part;
        let mut app = Pausing::new(policy, users);
        if !app.state.can_be_saved() {
            println!("{policy:>10} is in no snapshot");
            continue;
        }
        let (copied, _copy) = timed(|| app.state.freeze().map(drop));
        let frozen = app.state.freeze().expect("it can be saved");
        let longest = (0..EVENTS)
            .map(|n| app.visit(n * 7919 % users, &format!("after-{n}")))
            .fold(0.0, f64::max);
        drop(frozen);
        let mut settings = app.state.app("load").expect("an app").settings().clone();
        settings.params.insert(name.to_owned(), value.into());
        let changed = app.apply(What::Changed(settings));
        let stepped = app.apply(What::ClockStepped(3_600_000));
        println!(
            "{policy:>10} {users:>8} users  copy for a snapshot {copied:7.2} ms  longest event after it {longest:7.2} ms  \
             parameters {changed:7.2} ms  clock {stepped:7.3} ms"
        );
        table.push((policy, users, [copied, longest, changed, stepped]));
    }
    let most = |at: usize| table.iter().map(|(_, _, took)| took[at]).fold(0.0, f64::max);
    figures::keep(
        "pauses",
        &[
            ("users", users as f64, ""),
            ("items", ITEMS as f64, ""),
            ("snapshot_copy_ms", most(0), ""),
            ("longest_event_after_a_copy_ms", most(1), ""),
            ("change_of_parameters_ms", most(2), ""),
            ("clock_that_is_set_ms", most(3), ""),
        ],
    );
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let done = work();
    (started.elapsed().as_secs_f64() * 1e3, done)
}

/// An app whose users all learned once and have a decision that waits.
struct Pausing {
    state: State,
    at_ms: u64,
}

impl Pausing {
    fn new(policy: &str, users: usize) -> Self {
        let mut app = Self { state: State::default(), at_ms: 1_000_000 };
        let policy = policy.to_owned();
        let settings = AppSettings { policy, window_ms: 86_400_000, ..AppSettings::new(DIM) };
        app.apply(What::Created(settings));
        for item in 0..ITEMS {
            app.apply(What::ItemPut(format!("item-{item:08}"), vec![0.1; DIM]));
        }
        for user in 0..users {
            app.visit(user, &format!("first-{user}"));
        }
        app
    }

    /// Milliseconds that the longest event of one visit takes.
    fn visit(&mut self, user: usize, id: &str) -> f64 {
        let value = |k: usize| ((user * 31 + k * 17) % 1000) as f64 / 4000.0;
        let decided = Decided {
            id: id.to_owned(),
            user: format!("user-{user:012}"),
            ranking: Ranking::new(["a"]),
            context: (0..DIM).map(value).collect(),
            probability: 1.0,
            shown: true,
        };
        let item = What::ItemPut(format!("item-{:08}", user % ITEMS), vec![0.2; DIM]);
        let reward = What::Rewarded { decision: id.to_owned(), reward: (user % 10) as f64 / 10.0 };
        let took = [What::Decided(decided), reward, item].map(|what| self.apply(what));
        took.into_iter().fold(0.0, f64::max)
    }

    fn apply(&mut self, what: What) -> f64 {
        if let What::ClockStepped(by_ms) = what {
            self.at_ms = self.at_ms.saturating_add_signed(by_ms);
        }
        let event = Event { app: "load".to_owned(), at_ms: self.at_ms, what };
        let (took, done) = timed(|| self.state.apply(event));
        done.expect("it fits");
        took
    }
}
