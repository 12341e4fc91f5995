//! `dccb`: distributed clustering by gossip. Every user is a peer that keeps its own rewards, meets
//! one other peer at a time, and shares the content of a buffer with the peers it has not been
//! separated from.
//!
//! ```text
//! init    V_i = all users;  Ã_i = I, b̃_i = 0;  an empty buffer;  A_i = I, b_i = 0 of i's own rewards
//! choose  argmax_x ⟨x, Ã_i⁻¹b̃_i⟩ + α·√(xᵀÃ_i⁻¹x · ln(1 + T_i)),  T_i the rewards of i
//! learn   A_i += xxᵀ,  b_i += yx,  w_i = A_i⁻¹b_i
//! meet    a peer j of V_i at random:
//!           ‖w_i − w_j‖ > α₂(F(T_i) + F(T_j))   j leaves V_i, i leaves V_j, and both begin again from
//!                                               their own:  Ã = A, b̃ = b, buffers empty
//!           else V_i = V_j                      both buffers become their mean, place by place
//! append  (xxᵀ, yx) to the buffer of i;  what is longer than L = ⌈c·log₂(N^{3/2} T_i)⌉ goes to Ã_i, b̃_i,
//!         the oldest first
//! ```
//!
//! Sharing averages: the weights of one reward over all peers sum to 1, and by the time it leaves a
//! buffer they are all about 1/|V_i|. So Ã_i is about the mean of the peers of i, not their sum,
//! and a peer explores as if it were alone with much less noisy rewards.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `alpha2` α₂ | (0, ∞) | how different peers must be to be parted, as `club` has it |
//! | `buffer` c | [0, ∞) | scale of the delay L; 4 in the paper, 0 shares nothing |
//!
//! A reward costs O(L d² + d³): shared matrices have any rank, so Ã_i is refactored. Buffers take
//! O(N L d²) numbers, which the algorithm needs.
//!
//! The paper serves all peers in a round, each meeting the next of a random permutation. Where
//! users come one at a time, the user served meets one peer, and both take the mean so that weights
//! still sum to 1. The delay is that of the paper's bound, 4·log(|V|^{3/2} t); its base, and
//! whether it counts rounds of all users or of one, do not change its order. The paper's confidence
//! radius and threshold are those of its analysis; the forms here are those that experiments of
//! this family tune.
//!
//! Reference: Korda, Szörényi, Li, *Distributed Clustering of Linear Bandits in Peer to Peer Networks*,
//! ICML 2016, Section 4 (DCCB).

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use rand::RngExt;

use super::draws::stream;
use super::shared::clubs::{EXPLORATION_PARAMS, distance_squared, exploration, uncertainty, width};
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::linear::{Oful, Statistics};
use crate::params::{NOT_NEGATIVE, POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "dccb",
    summary: "peers gossip with those they have not been parted from (DCCB)",
    reference: "Korda, Szörényi, Li, ICML 2016, Section 4",
    params: &[
        EXPLORATION_PARAMS,
        &[
            Param::real("alpha2", POSITIVE, 2.0, "α₂: how different peers must be to be parted"),
            Param::real("buffer", NOT_NEGATIVE, 4.0, "c: scale of the delay, c·log₂(N^{3/2} T)"),
        ],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, alpha2: real, buffer: real }

/// A = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

#[derive(Clone)]
struct Dccb {
    exploration: f64,
    alpha2: f64,
    delay: f64,
    dim: usize,
    seed: u64,
    peers: Vec<Peer>,
    fresh: Peer,
}

#[derive(Clone)]
struct Peer {
    /// A, b and w of its own rewards.
    own: Oful,
    /// Ã − I and b̃.
    active: Statistics,
    /// Ã⁻¹ and Ã⁻¹b̃, derived from `active`.
    learner: Oful,
    /// The shared buffer, the oldest entry first.
    buffer: VecDeque<Statistics>,
    /// The peers that have left V, in order.
    parted: Vec<usize>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let dim = problem.dim;
    let fresh = Peer {
        own: Oful::new(dim, LAMBDA),
        active: Statistics::new(dim),
        learner: Oful::new(dim, LAMBDA),
        buffer: VecDeque::new(),
        parted: Vec::new(),
    };
    Ok(Box::new(Served(Dccb {
        exploration: exploration(settings),
        alpha2: settings.real("alpha2"),
        delay: settings.real("buffer"),
        dim,
        seed: problem.seed,
        peers: vec![fresh.clone(); problem.users],
        fresh,
    })))
}

impl Peer {
    fn rewards(&self) -> f64 {
        self.own.progress().updates
    }

    /// Separates from another peer: starts again from its own rewards.
    fn part_from(&mut self, other: usize) {
        if let Err(place) = self.parted.binary_search(&other) {
            self.parted.insert(place, other);
        }
        self.active.gram.packed_mut().copy_from_slice(self.own.precision().packed());
        self.active.gram.add_diagonal(-LAMBDA);
        self.active.moment.copy_from_slice(self.own.moment());
        self.active.rewards = self.rewards();
        self.buffer.clear();
        self.learner = Oful::from_statistics(&self.active, LAMBDA);
    }

    /// Entries older than the delay become active.
    fn activate(&mut self, delay: usize) {
        let before = self.buffer.len();
        while self.buffer.len() > delay {
            if let Some(oldest) = self.buffer.pop_front() {
                self.active.add(&oldest);
            }
        }
        if self.buffer.len() < before {
            self.learner = Oful::from_statistics(&self.active, LAMBDA);
        }
    }
}

/// Sets both to their mean.
fn share(a: &mut Statistics, b: &mut Statistics) {
    let means = |a: &mut [f64], b: &mut [f64]| {
        for (a, b) in a.iter_mut().zip(b) {
            *a = 0.5 * (*a + *b);
            *b = *a;
        }
    };
    means(a.gram.packed_mut(), b.gram.packed_mut());
    means(&mut a.moment, &mut b.moment);
    means(std::slice::from_mut(&mut a.rewards), std::slice::from_mut(&mut b.rewards));
}

impl Dccb {
    fn peer(&self, user: usize) -> &Peer {
        self.peers.get(user).unwrap_or(&self.fresh)
    }

    fn width(&self, user: usize) -> f64 {
        self.exploration * width(self.peer(user).rewards())
    }

    /// The peer met after `rewards` rewards: a random member of V other than the user.
    fn meets(&self, user: usize, rewards: f64) -> Option<usize> {
        let mut absent = self.peers[user].parted.clone();
        if let Err(place) = absent.binary_search(&user) {
            absent.insert(place, user);
        }
        let left = self.peers.len().checked_sub(absent.len()).filter(|left| *left > 0)?;
        let mut other = stream(self.seed, user, rewards).random_range(0..left);
        absent.into_iter().for_each(|absent| other += usize::from(absent <= other));
        Some(other)
    }

    fn meet(&mut self, user: usize, other: usize) {
        let [peer, other_peer] = match self.peers.get_disjoint_mut([user, other]) {
            Ok(both) => both,
            Err(_) => return,
        };
        let apart = distance_squared(peer.own.estimate(), other_peer.own.estimate()).sqrt();
        let unsure = uncertainty(peer.rewards()) + uncertainty(other_peer.rewards());
        if apart > self.alpha2 * unsure {
            peer.part_from(other);
            other_peer.part_from(user);
        } else if peer.parted == other_peer.parted {
            for (own, others) in peer.buffer.iter_mut().zip(&mut other_peer.buffer) {
                share(own, others);
            }
        }
    }

    /// L.
    fn delay(&self, user: usize) -> usize {
        let peers = (self.peers.len() as f64).powf(1.5);
        (self.delay * (peers * self.peers[user].rewards()).log2()).ceil() as usize
    }
}

impl OneUser for Dccb {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Dccb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.peer(user).learner.best_arm(contexts, self.width(user))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        self.peer(user).learner.score(contexts, self.width(user), scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if user >= self.peers.len() {
            self.peers.resize(user + 1, self.fresh.clone());
        }
        let before = self.peers[user].rewards();
        self.peers[user].own.learn(context, reward);
        // After a separation both start from all of their own rewards, this one included: it is not
        // shared.
        let parted = self.peers[user].parted.len();
        if let Some(other) = self.meets(user, before) {
            self.meet(user, other);
        }
        let delay = self.delay(user);
        let peer = &mut self.peers[user];
        if peer.parted.len() == parted {
            let mut newest = Statistics::new(context.len());
            newest.learn(context, reward);
            peer.buffer.push_back(newest);
            peer.activate(delay);
        }
    }
}

impl State for Dccb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_count(out, self.dim)?;
        saved::write_count(out, self.peers.len())?;
        for Peer { own, active, buffer, parted, .. } in &self.peers {
            own.save(out)?;
            active.save(out)?;
            saved::write_count(out, buffer.len())?;
            buffer.iter().try_for_each(|shared| shared.save(out))?;
            saved::write_places(out, parted.iter().copied())?;
        }
        Ok(())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, dim) = (INFO.name, self.dim);
        saved::check_equal(what, "dimension", saved::read_count(from, what)?, dim)?;
        let (mut peers, count) = (Vec::new(), saved::read_count(from, what)?);
        for _ in 0..count {
            let own = Oful::load(from, what, dim, LAMBDA)?;
            let active = Statistics::load(from, what, dim)?;
            let mut buffer = VecDeque::new();
            for _ in 0..saved::read_count(from, what)? {
                buffer.push_back(Statistics::load(from, what, dim)?);
            }
            let parted = saved::read_places(from, what, count)?;
            let in_order = parted.is_sorted_by(|a, b| a < b);
            saved::check_equal(what, "users who left, in order:", in_order, true)?;
            let learner = Oful::from_statistics(&active, LAMBDA);
            peers.push(Peer { own, active, learner, buffer, parted });
        }
        self.peers = peers;
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        self.peers = other.peers;
        Ok(())
    }
}
