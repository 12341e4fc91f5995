//! Servers as nodes reach them: streams whose messages are lost, late or not acknowledged, and the bucket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cohort_server::cluster::log::{Bounds, Log, NotAcknowledged, Unreachable, Visit};
use cohort_server::cluster::memory::MemoryStream;
use cohort_server::journal::JournalError;
use rand::RngExt;
use rand_chacha::ChaCha12Rng;

/// What a node reaches of the servers.
pub struct Network {
    pub is_cut: bool,
    /// Chances that go wrong, of 20 calls.
    pub faults: u32,
    pub rng: ChaCha12Rng,
    /// Messages that will arrive some time.
    pub late: Vec<(MemoryStream, u64, Vec<u8>)>,
}

impl Network {
    /// Whether the next call goes wrong.
    pub fn fails(&mut self) -> bool {
        let faults = self.faults;
        self.is_cut || self.rng.random_range(0..20) < faults
    }
}

/// A stream as one node reaches it.
pub struct Reached(pub MemoryStream, pub Arc<Mutex<Network>>);

impl Log for Reached {
    type Ticket = Result<u64, NotAcknowledged>;

    fn publish(&self, after: u64, bytes: &[u8]) -> Self::Ticket {
        let mut network = self.1.lock().unwrap();
        if !network.fails() {
            return self.0.take(after, bytes);
        }
        // Lost, late, or there without an answer.
        match network.rng.random_range(0..3) {
            0 => {}
            1 => network.late.push((self.0.clone(), after, bytes.to_vec())),
            _ if network.is_cut => {}
            _ => {
                let _ = self.0.take(after, bytes);
            }
        }
        Err(NotAcknowledged::Unknown)
    }

    fn wait(&self, ticket: Self::Ticket) -> Result<u64, NotAcknowledged> {
        match self.1.lock().unwrap().fails() {
            true => Err(NotAcknowledged::Unknown),
            false => ticket,
        }
    }

    fn get(&self, sequence: u64) -> Result<Option<Vec<u8>>, Unreachable> {
        match self.1.lock().unwrap().fails() {
            true => Err(Unreachable("lost".to_owned())),
            false => self.0.get(sequence),
        }
    }

    fn bounds(&self) -> Result<Bounds, Unreachable> {
        match self.1.lock().unwrap().fails() {
            true => Err(Unreachable("lost".to_owned())),
            false => self.0.bounds(),
        }
    }

    fn scan(&self, from: u64, to: u64, visit: &mut Visit) -> Result<(), JournalError> {
        self.0.scan(from, to, visit)
    }

    fn purge(&self, before: u64) -> Result<(), Unreachable> {
        self.0.purge(before)
    }

    fn pause(&self, attempt: u32) -> bool {
        let network = self.1.lock().unwrap();
        !network.is_cut && attempt < 6
    }

    fn most_bytes(&self) -> usize {
        self.0.most_bytes()
    }

    fn name(&self) -> &str {
        "simulated"
    }

    fn again(&self) -> Box<dyn Log<Ticket = Self::Ticket>> {
        Box::new(Self(self.0.clone(), self.1.clone()))
    }
}

/// The bucket: keys with revisions, and all that was ever written, in order.
#[derive(Default)]
pub struct Bucket {
    pub written: Vec<(String, Option<Vec<u8>>)>,
    newest: BTreeMap<String, usize>,
}

impl Bucket {
    /// Revisions begin with 1.
    pub fn put(&mut self, key: &str, value: Option<Vec<u8>>) -> u64 {
        self.newest.insert(key.to_owned(), self.written.len());
        self.written.push((key.to_owned(), value));
        self.written.len() as u64
    }

    /// What a key has, and since which revision.
    pub fn newest(&self, key: &str) -> Option<(&[u8], u64)> {
        let at = *self.newest.get(key)?;
        Some((self.written[at].1.as_deref()?, at as u64 + 1))
    }

    /// Written if nobody wrote the key since that revision.
    pub fn update(&mut self, key: &str, value: Vec<u8>, revision: u64) -> Option<u64> {
        let known = self.newest.get(key).map_or(0, |at| *at as u64 + 1);
        (known == revision).then(|| self.put(key, Some(value)))
    }
}
