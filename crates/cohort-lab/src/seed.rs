//! Random streams: one for each (seed, repetition, purpose, round), so that a number does not
//! depend on what was drawn before, on the policy, or on the thread.
//!
//! The streams are ChaCha8's: key = (seed, repetition, purpose), stream = round. Inside a stream
//! users come in order, so that more users do not change the numbers of the first ones.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The seed of one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The seed of the experiment.
    pub seed: u64,
    /// The repetition, from 0.
    pub repetition: usize,
}

/// The purpose of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The users: clusters, centres, vectors.
    Users = 1,
    /// The contexts on offer.
    Contexts = 2,
    /// The noise on rewards.
    Noise = 3,
    /// The policies' own draws.
    Policy = 4,
    /// Which users take part in a round.
    Activity = 5,
    /// The levels of users.
    Levels = 6,
    /// The subspace of the users' vectors.
    Subspace = 7,
    /// The drift of users.
    Drift = 8,
}

impl Seed {
    /// The stream for a purpose in a round (round 0 for what is drawn once).
    pub fn stream(self, purpose: Purpose, round: usize) -> ChaCha8Rng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&(self.repetition as u64).to_le_bytes());
        key[16..24].copy_from_slice(&(purpose as u64).to_le_bytes());
        let mut stream = ChaCha8Rng::from_seed(key);
        stream.set_stream(round as u64);
        stream
    }

    /// The seed of policies: the same for all of them, so that they are compared on the same draws.
    pub fn for_policies(self) -> u64 {
        self.stream(Purpose::Policy, 0).next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_address_matters() {
        let first = |seed, repetition, purpose, round| {
            Seed { seed, repetition }.stream(purpose, round).next_u64()
        };
        let numbers = [
            first(7, 0, Purpose::Noise, 0),
            first(8, 0, Purpose::Noise, 0),
            first(7, 1, Purpose::Noise, 0),
            first(7, 0, Purpose::Contexts, 0),
            first(7, 0, Purpose::Noise, 1),
        ];
        for (i, a) in numbers.iter().enumerate() {
            assert!(numbers[..i].iter().all(|b| a != b));
        }
        assert_eq!(first(7, 3, Purpose::Users, 9), first(7, 3, Purpose::Users, 9));
    }
}
