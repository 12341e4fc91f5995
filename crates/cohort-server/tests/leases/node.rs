//! What a node knows and is doing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cohort_server::cluster::journal::StreamJournal;
use cohort_server::cluster::members::{Lease, View};
use cohort_server::cluster::node::duties::Heard;
use cohort_server::journal::Journal;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

use super::servers::{Network, Reached};

/// A partition that a node serves.
pub struct Serving {
    pub journal: StreamJournal<Reached>,
    pub epoch: u64,
    /// Events that were sent and not acknowledged yet.
    pub sent: Vec<Vec<u8>>,
    pub acknowledged: u64,
    pub has_failed: bool,
}

/// What a node is doing with a partition.
pub enum Task {
    Claim(Lease, u64),
    Open {
        lease: Lease,
        revision: u64,
        was_written: bool,
        known: u64,
    },
    Begin {
        lease: Lease,
        revision: u64,
        serving: Serving,
    },
    /// Waits for those who owned it before.
    Alone(Serving),
    Free(Lease, u64),
}

/// A node.
pub struct Node {
    pub name: String,
    pub instance: String,
    pub started_ms: u64,
    pub beat: u64,
    /// What its clock says, and by how much of a millisecond it goes on in one.
    pub clock_ms: f64,
    pub rate: f64,
    /// Until when it does nothing, and whether its clock stands still as well.
    pub stopped_until: u64,
    pub stands_still: bool,
    pub is_dead: bool,
    pub view: View,
    pub seen: usize,
    pub heard: Heard,
    /// When the message was sent that is not acknowledged yet, and whether it was written.
    pub beat_sent: Option<(f64, bool)>,
    pub beats_at: f64,
    pub network: Arc<Mutex<Network>>,
    pub served: BTreeMap<u32, Serving>,
    pub tasks: BTreeMap<u32, Task>,
}

/// A process that has just begun.
pub fn started(
    world_rng: &mut ChaCha12Rng,
    at: usize,
    instance: u64,
    now_ms: u64,
    clocks_are_true: bool,
) -> Node {
    let rng = ChaCha12Rng::seed_from_u64(world_rng.next_u64());
    let network = Network { is_cut: false, faults: 2, rng, late: Vec::new() };
    Node {
        name: format!("n{at}"),
        instance: instance.to_string(),
        started_ms: now_ms,
        beat: 0,
        clock_ms: world_rng.random_range(0.0..1e6),
        rate: if clocks_are_true { 1.0 } else { world_rng.random_range(0.8..1.25) },
        stopped_until: 0,
        stands_still: false,
        is_dead: false,
        view: View::default(),
        seen: 0,
        heard: Heard::default(),
        beat_sent: None,
        beats_at: 0.0,
        network: Arc::new(Mutex::new(network)),
        served: BTreeMap::new(),
        tasks: BTreeMap::new(),
    }
}

/// What was sent is safe.
pub fn acknowledge(
    acknowledged: &mut BTreeMap<(u32, u64), Vec<u8>>,
    newest: &mut BTreeMap<u32, u64>,
    partition: u32,
    serving: &mut Serving,
) {
    if !serving.sent.is_empty() {
        let newest = newest.entry(partition).or_default();
        *newest = serving.epoch.max(*newest);
    }
    let first = serving.journal.last() + 1 - serving.sent.len() as u64;
    for (number, event) in (first..).zip(serving.sent.drain(..)) {
        let before = acknowledged.insert((partition, number), event);
        assert!(before.is_none(), "event {number} of {partition} was acknowledged twice");
    }
    serving.acknowledged = serving.journal.last();
}
