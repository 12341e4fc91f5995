//! Embedding the engine in your own application, without the server: decisions on one thread,
//! refits on another, and learned state saved as bytes.
//!
//! `cargo run -p cohort --example embed`

use std::thread::{self, JoinHandle};

use cohort::policies::cohort as cohort_policy;
use cohort::{Contexts, Error, Policy, Problem};

const DIM: usize = 3;
const USERS: usize = 40;

/// A policy and its running refit, if any.
struct Embedded {
    policy: Box<dyn Policy>,
    refit: Option<JoinHandle<Vec<u8>>>,
}

impl Embedded {
    fn new() -> Result<Self, Error> {
        // Refits at twice as many rewards, each on a thread of its own.
        let policy = cohort_policy::builder().refit_ratio(2.0).build(&Problem::new(0, DIM))?;
        Ok(Self { policy, refit: None })
    }

    /// Chooses the index of a candidate for a user. Scoring never waits for a refit.
    fn decide(&mut self, user: usize, candidates: &Contexts) -> usize {
        let mut scores = vec![cohort::Score::default(); candidates.arms()];
        let online = self.policy.online().expect("`cohort` has an online form");
        online.score(user, candidates, &mut scores);
        cohort::linear::argmax(scores.iter().map(cohort::Score::total))
    }

    /// Learns a user's reward. Starts a refit where one is due, and installs one that is done.
    fn learn(&mut self, user: usize, context: &[f64], reward: f64) -> Result<(), Error> {
        self.policy.online().expect("as above").learn_one(user, context, reward);
        let refits = self.policy.refits().expect("`cohort` refits");
        if let Some(done) = self.refit.take_if(|refit| refit.is_finished()) {
            refits.install(&done.join().expect("a refit that ends"))?;
        }
        if self.refit.is_none() {
            self.refit = refits.job().map(thread::spawn);
        }
        Ok(())
    }

    /// The learned state, for a file of the application's own.
    fn save(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.policy.saved().expect("`cohort` can be kept").save(&mut bytes).expect("memory");
        bytes
    }

    /// Restores a saved state.
    fn load(bytes: &[u8]) -> Result<Self, Error> {
        let mut loaded = Self::new()?;
        loaded.policy.saved().expect("as above").load(&mut &*bytes)?;
        Ok(loaded)
    }
}

/// Serves some users, stops, and continues from the saved state.
pub fn main() -> Result<(), Error> {
    let mut app = Embedded::new()?;
    let mut earned = [0.0; 2];
    for request in 0..2000 {
        if request == 1000 {
            app = Embedded::load(&app.save())?;
        }
        let user = request * 13 % USERS;
        let values: Vec<f64> =
            (0..4 * DIM).map(|at| ((at * 53 + request * 19) as f64).sin()).collect();
        let candidates = Contexts::new(&values, DIM)?;
        let chosen = app.decide(user, &candidates);
        // Users of two groups: each likes one coordinate.
        let reward = candidates.arm(chosen)[user % 2];
        earned[request / 1000] += reward / 1000.0;
        app.learn(user, candidates.arm(chosen), reward)?;
    }
    println!("mean reward: {:.3}, and {:.3} after the restart", earned[0], earned[1]);
    assert!(earned[1] > earned[0]);
    Ok(())
}
