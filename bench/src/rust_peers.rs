//! Other LinUCB-style crates, used in their fastest way with one model per user.

use irithyll::bandits::{ContextualBandit, LinUCB};
use rand_for_trashpanda::SeedableRng;
use rand_for_trashpanda::rngs::SmallRng;
use trashpanda::IndexSet;
use trashpanda::policies::{LinUcb, Policy};

use crate::forms::DIM;
use crate::world::ARMS;

/// A peer, how it is used, and one round of all its users.
pub struct Peer {
    /// The crate.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// How it is used.
    pub how: &'static str,
    /// One round.
    pub round: Box<dyn FnMut(&[f64], &[f64])>,
}

/// All peers.
pub fn all(users: usize) -> Vec<Peer> {
    vec![
        Peer {
            name: "irithyll",
            version: "10.0",
            how: "one LinUCB whose arms are the users; arm_ucb of every context, then update",
            round: irithyll(users),
        },
        Peer {
            name: "trashpanda",
            version: "0.1",
            how: "one LinUcb of K arms, each with a model, per user (its bounds are not public); \
                  select on one context, then update",
            round: trashpanda(users),
        },
    ]
}

fn irithyll(users: usize) -> Box<dyn FnMut(&[f64], &[f64])> {
    let mut bandit = LinUCB::new(users, DIM, 1.0);
    Box::new(move |contexts, rewards| {
        for (user, reward) in rewards.iter().enumerate() {
            let scores = contexts.chunks_exact(DIM).map(|x| bandit.arm_ucb(user, x));
            let arm = cohort::linear::argmax(scores);
            bandit.update(user, &contexts[arm * DIM..][..DIM], *reward);
        }
    })
}

fn trashpanda(users: usize) -> Box<dyn FnMut(&[f64], &[f64])> {
    let arms: IndexSet<usize> = (0..ARMS).collect();
    let mut bandits = vec![LinUcb::new(1.0, 1.0, DIM); users];
    let mut rng = SmallRng::seed_from_u64(1);
    Box::new(move |contexts, rewards| {
        let context = &contexts[..DIM];
        for (bandit, reward) in bandits.iter_mut().zip(rewards) {
            let arm = bandit.select(&arms, context, &mut rng).expect("there are arms");
            bandit.update(&arm, context, *reward);
        }
    })
}
