//! Nodes that beat, look, take over, give up, write and read, a step at a time.

mod node;
pub mod servers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cohort_server::cluster::journal::StreamJournal;
use cohort_server::cluster::members::{HEARTBEAT, Lease, NodeState, PartitionState};
use cohort_server::cluster::memory::MemoryStream;
use cohort_server::cluster::node::duties::{Duty, Held, duties};
use cohort_server::journal::{Group, Journal, JournalError};
use node::{Node, Serving, Task, acknowledge, started};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use servers::{Bucket, Reached};

pub const NODES: usize = 3;
pub const PARTITIONS: u32 = 4;

/// All of them, the servers and the time.
pub struct World {
    seed: u64,
    pub rng: ChaCha12Rng,
    base: Instant,
    pub now_ms: u64,
    bucket: Bucket,
    pub streams: Vec<MemoryStream>,
    pub nodes: Vec<Node>,
    /// Events that were acknowledged, by partition and number.
    pub acknowledged: BTreeMap<(u32, u64), Vec<u8>>,
    /// The newest epoch of each partition in which something was acknowledged.
    newest: BTreeMap<u32, u64>,
    made: u64,
    pub takeovers: usize,
    /// How often an owner was refused by the stream.
    pub fenced: usize,
    /// How often a new owner had to wait for one before it.
    pub waits: usize,
    /// Moments at which two nodes took a partition for theirs.
    pub doubled: usize,
    /// Whether all clocks go alike.
    clocks_are_true: bool,
    pub reads: usize,
    /// Reads that an owner answered that was none any more.
    pub old_reads: usize,
}

impl World {
    /// As it begins.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let clocks_are_true = seed.is_multiple_of(2);
        let nodes = (0..NODES).map(|at| started(&mut rng, at, at as u64, 0, clocks_are_true));
        let nodes = nodes.collect();
        Self {
            seed,
            rng,
            base: Instant::now(),
            now_ms: 0,
            bucket: Bucket::default(),
            streams: (0..PARTITIONS).map(|_| MemoryStream::default()).collect(),
            nodes,
            acknowledged: BTreeMap::new(),
            newest: BTreeMap::new(),
            made: 0,
            takeovers: 0,
            fenced: 0,
            waits: 0,
            doubled: 0,
            clocks_are_true,
            reads: 0,
            old_reads: 0,
        }
    }

    fn clock(&self, at: usize) -> Instant {
        self.base + Duration::from_micros((self.nodes[at].clock_ms * 1e3) as u64)
    }

    fn is_up(&self, at: usize) -> bool {
        !self.nodes[at].is_dead && self.nodes[at].stopped_until <= self.now_ms
    }

    /// Time goes on, for every node as its clock has it.
    pub fn pass(&mut self) {
        let ms = self.rng.random_range(1..25);
        self.now_ms += ms;
        for node in &mut self.nodes {
            if !(node.stands_still && node.stopped_until > self.now_ms) {
                node.clock_ms += ms as f64 * node.rate;
            }
        }
    }

    /// Something may go wrong.
    pub fn trouble(&mut self) {
        let at = self.rng.random_range(0..NODES);
        let now = self.now_ms;
        match self.rng.random_range(0..400) {
            0 => {
                let long = self.rng.random_range(100..12_000);
                let node = &mut self.nodes[at];
                let stands_still = long % 2 == 0 && !self.clocks_are_true;
                (node.stopped_until, node.stands_still) = (now + long, stands_still);
            }
            1 => {
                let node = &mut self.nodes[at];
                (node.is_dead, node.stopped_until) = (true, 0);
                (node.served, node.tasks) = (BTreeMap::new(), BTreeMap::new());
            }
            2 | 3 => self.revive(at),
            4 => self.nodes[at].network.lock().unwrap().is_cut = true,
            5..=7 => self.nodes[at].network.lock().unwrap().is_cut = false,
            8 => drop(self.bucket.put(&format!("drain.n{at}"), Some(b"drain".to_vec()))),
            9 | 10 => drop(self.bucket.put(&format!("drain.n{at}"), Some(Vec::new()))),
            11..=40 => self.arrive(),
            _ => {}
        }
    }

    /// A process that died is started anew, under its name.
    fn revive(&mut self, at: usize) {
        if self.nodes[at].is_dead {
            self.made += 1;
            let late = std::mem::take(&mut self.nodes[at].network.lock().unwrap().late);
            self.nodes[at] =
                started(&mut self.rng, at, 1000 + self.made, self.now_ms, self.clocks_are_true);
            self.nodes[at].network.lock().unwrap().late = late;
        }
    }

    /// A message that was under way arrives.
    fn arrive(&mut self) {
        let at = self.rng.random_range(0..NODES);
        let mut network = self.nodes[at].network.lock().unwrap();
        if !network.late.is_empty() {
            let which = self.rng.random_range(0..network.late.len());
            let (stream, after, bytes) = network.late.swap_remove(which);
            let _ = stream.take(after, &bytes);
        }
    }

    /// Nothing goes wrong any more.
    pub fn mend(&mut self) {
        for at in 0..NODES {
            self.revive(at);
            let node = &mut self.nodes[at];
            node.stopped_until = 0;
            let mut network = node.network.lock().unwrap();
            (network.is_cut, network.faults) = (false, 0);
            drop(network);
            self.bucket.put(&format!("drain.n{at}"), Some(Vec::new()));
        }
    }

    /// A node does one of the things that it does.
    pub fn step(&mut self, at: usize) {
        if !self.is_up(at) {
            return;
        }
        match self.rng.random_range(0..9) {
            8 => self.read(at),
            0 => self.watch(at),
            1 => self.beat(at),
            2 => self.look(at),
            3 | 4 => self.work(at),
            5 | 6 => self.write(at),
            _ => self.sync(at),
        }
    }

    fn is_cut(&mut self, at: usize) -> bool {
        self.nodes[at].network.lock().unwrap().fails()
    }

    /// Sees some more of the bucket; all of it now and then.
    fn watch(&mut self, at: usize) {
        if self.is_cut(at) {
            return;
        }
        let many = match self.rng.random_range(0..20) {
            0 => usize::MAX,
            _ => self.rng.random_range(0..30),
        };
        self.see(at, many);
    }

    fn see(&mut self, at: usize, many: usize) {
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        let upto = self.bucket.written.len().min(node.seen.saturating_add(many));
        for (number, (key, value)) in self.bucket.written[node.seen..upto].iter().enumerate() {
            let revision = (node.seen + number) as u64 + 1;
            node.view.apply(key, value.as_deref(), revision, now);
        }
        node.seen = upto;
    }

    /// Says that it lives, or hears that this was heard.
    fn beat(&mut self, at: usize) {
        let (cut, now) = (self.is_cut(at), self.clock(at));
        let sent_at = |ms: f64| self.base + Duration::from_micros((ms * 1e3) as u64);
        if let Some((sent, is_written)) = self.nodes[at].beat_sent.take() {
            // What never arrived is not acknowledged, however well servers are reached by now.
            let (sent, cut) = (sent_at(sent), cut || !is_written);
            if !cut && !self.nodes[at].heard.continues(now) {
                self.see(at, usize::MAX);
            }
            self.nodes[at].heard.beat(sent, !cut, now);
            return;
        }
        let node = &mut self.nodes[at];
        if node.clock_ms < node.beats_at {
            return;
        }
        node.beats_at = node.clock_ms + HEARTBEAT.as_millis() as f64;
        node.beat_sent = Some((node.clock_ms, !cut));
        node.beat += 1;
        let state = |(partition, serving): (&u32, &Serving)| PartitionState {
            partition: *partition,
            epoch: serving.epoch,
            events: serving.acknowledged,
            followed: 0,
            users: 0,
            bytes: 0,
            waiting: 0,
        };
        let is_held = |(partition, serving): &(&u32, &Serving)| {
            node.view.is_held(**partition, &node.instance, serving.epoch)
        };
        let told = NodeState {
            node: node.name.clone(),
            instance: node.instance.clone(),
            version: String::new(),
            address: String::new(),
            started_ms: node.started_ms,
            beat: node.beat,
            owns: node.served.iter().filter(is_held).map(state).collect(),
            troubles: Vec::new(),
        };
        if !cut {
            let value = serde_json::to_vec(&told).unwrap();
            self.bucket.put(&format!("node.n{at}"), Some(value));
        }
    }

    fn look(&mut self, at: usize) {
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        let held = (0..PARTITIONS).map(|partition| match node.served.get(&partition) {
            None => Held::Not,
            Some(serving) if serving.has_failed => Held::Failed,
            Some(_) => Held::Served,
        });
        let held: Vec<Held> = held.collect();
        let me = (node.name.as_str(), node.instance.as_str());
        let can_judge = node.heard.can_judge(now);
        let found = duties(&node.view, me, &held, can_judge, now);
        for (partition, duty) in (0..PARTITIONS).zip(found) {
            if node.tasks.contains_key(&partition) {
                continue;
            }
            match duty {
                Duty::None => {}
                Duty::Abandon => {
                    if let Some(ended) = node.served.remove(&partition) {
                        node.view.hear(partition, ended.acknowledged);
                    }
                }
                Duty::GiveUp(lease, revision) => {
                    let Some(mut ended) = node.served.remove(&partition) else { continue };
                    // What waits is answered before.
                    let settled = ended.journal.sync().is_ok();
                    if settled {
                        let (all, newest) = (&mut self.acknowledged, &mut self.newest);
                        acknowledge(all, newest, partition, &mut ended);
                    }
                    let (name, instance) = (String::new(), String::new());
                    let events = ended.acknowledged;
                    let free = Lease { node: name, instance, events, ..lease };
                    node.tasks.insert(partition, Task::Free(free, revision));
                }
                Duty::TakeOver(lease, revision) => {
                    node.tasks.insert(partition, Task::Claim(lease, revision));
                }
            }
        }
    }

    /// Writes a lease; the answer may be lost although it is written.
    fn claim(&mut self, at: usize, partition: u32, lease: &Lease, revision: u64) -> Option<u64> {
        if self.nodes[at].network.lock().unwrap().is_cut {
            return None;
        }
        let key = format!("partition.{partition}");
        let bytes = serde_json::to_vec(lease).unwrap();
        let revision = self.bucket.update(&key, bytes.clone(), revision)?;
        if self.is_cut(at) {
            return None;
        }
        let now = self.clock(at);
        self.nodes[at].view.apply(&key, Some(&bytes), revision, now);
        Some(revision)
    }

    /// Goes on with something that takes several steps.
    fn work(&mut self, at: usize) {
        let waiting: Vec<u32> = self.nodes[at].tasks.keys().copied().collect();
        if waiting.is_empty() {
            return;
        }
        let partition = waiting[self.rng.random_range(0..waiting.len())];
        let Some(task) = self.nodes[at].tasks.remove(&partition) else { return };
        let next = match task {
            Task::Claim(lease, revision) => {
                let node = &self.nodes[at];
                if node.view.lease(partition).1 != revision {
                    return;
                }
                let (was_written, known) = (lease.was_written(), node.view.heard(partition));
                let (name, instance) = (node.name.clone(), node.instance.clone());
                let epoch = lease.epoch + 1;
                let written = Some(was_written);
                let lease = Lease { node: name, instance, epoch, written, events: known };
                let claimed = self.claim(at, partition, &lease, revision);
                claimed.map(|revision| Task::Open { lease, revision, was_written, known })
            }
            Task::Open { lease, revision, was_written, known } => {
                self.open(at, partition, &lease, known).map(|serving| match was_written {
                    true => Task::Alone(serving),
                    false => Task::Begin { lease, revision, serving },
                })
            }
            Task::Begin { lease, revision, serving } => {
                let lease = Lease { written: Some(true), ..lease };
                self.claim(at, partition, &lease, revision).map(|_| Task::Alone(serving))
            }
            Task::Alone(serving) => self.alone(at, partition, serving),
            Task::Free(lease, revision) => {
                self.claim(at, partition, &lease, revision);
                None
            }
        };
        if let Some(next) = next {
            self.nodes[at].tasks.insert(partition, next);
        }
    }

    /// Serves a partition if nobody who owned it before may answer for it, and waits otherwise.
    fn alone(&mut self, at: usize, partition: u32, serving: Serving) -> Option<Task> {
        let asked = self.clock(at);
        let nodes = self.nodes[at].view.former(partition).into_iter();
        let keys = nodes.map(|node| format!("node.{node}"));
        for key in keys.chain([format!("partition.{partition}")]) {
            if self.is_cut(at) {
                return Some(Task::Alone(serving));
            }
            if let Some((value, revision)) = self.bucket.newest(&key) {
                self.nodes[at].view.apply(&key, Some(value), revision, asked);
            }
        }
        let node = &mut self.nodes[at];
        if !node.view.is_held(partition, &node.instance, serving.epoch) {
            return None;
        }
        if node.view.awaits(partition, &node.instance, asked) {
            self.waits += 1;
            return Some(Task::Alone(serving));
        }
        node.served.insert(partition, serving);
        None
    }

    fn open(&mut self, at: usize, partition: u32, lease: &Lease, known: u64) -> Option<Serving> {
        let node = &self.nodes[at];
        let log = Reached(self.streams[partition as usize].clone(), node.network.clone());
        let journal = StreamJournal::open(log, lease.epoch, &node.name, known).ok()?;
        let mut events = BTreeMap::new();
        let read = journal.read(1, &mut |number, bytes| {
            events.insert(number, bytes.to_vec());
            Ok(())
        });
        read.ok()?;
        // What was acknowledged before this owner began is there when it begins.
        let before = self.acknowledged.range((partition, 0)..(partition + 1, 0));
        for ((_, number), event) in before {
            assert_eq!(events.get(number), Some(event), "event {number} of {partition} is lost");
        }
        self.takeovers += 1;
        let acknowledged = journal.last();
        let (sent, has_failed) = (Vec::new(), false);
        Some(Serving { journal, epoch: lease.epoch, sent, acknowledged, has_failed })
    }

    /// A client asks for something of a partition that this node takes for its own.
    fn write(&mut self, at: usize) {
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        if !node.heard.is_heard(now) {
            return;
        }
        let Some((partition, serving)) = node.served.iter_mut().next_back() else { return };
        if serving.has_failed || !serving.sent.is_empty() {
            return;
        }
        let mut group = Group::default();
        for _ in 0..self.rng.random_range(1..4) {
            self.made += 1;
            let event = format!("{partition} {} {}", node.name, self.made).into_bytes();
            group.push(|out| out.extend(&event));
            serving.sent.push(event);
        }
        if serving.journal.append(&group).is_err() {
            serving.has_failed = true;
        }
    }

    /// A client asks for something that changes nothing, such as a reward for a decision that is not there: that is answered
    /// without the stream, and true as long as clocks are.
    fn read(&mut self, at: usize) {
        let now = self.clock(at);
        let node = &self.nodes[at];
        if !node.heard.is_heard(now) {
            return;
        }
        for (partition, serving) in &node.served {
            let is_held = node.view.is_held(*partition, &node.instance, serving.epoch);
            if serving.has_failed || !is_held {
                continue;
            }
            let newest = self.newest.get(partition).copied().unwrap_or_default();
            self.reads += 1;
            if serving.epoch < newest {
                let (seed, now, epoch) = (self.seed, self.now_ms, serving.epoch);
                assert!(
                    !self.clocks_are_true,
                    "seed {seed}: after {now} ms n{at} answers for {partition} in epoch {epoch}, though events of \
                     epoch {newest} were acknowledged"
                );
                self.old_reads += 1;
            }
        }
    }

    /// What was sent is acknowledged, or not.
    pub fn sync(&mut self, at: usize) {
        for (partition, serving) in &mut self.nodes[at].served {
            if serving.sent.is_empty() || serving.has_failed {
                continue;
            }
            match serving.journal.sync() {
                Ok(()) => {
                    let (all, newest) = (&mut self.acknowledged, &mut self.newest);
                    acknowledge(all, newest, *partition, serving);
                }
                Err(why) => {
                    self.fenced += usize::from(matches!(why, JournalError::Fenced { .. }));
                    serving.has_failed = true;
                }
            }
        }
    }

    /// Who takes each partition for its own, and is sure to be alive.
    pub fn owners(&self) -> Vec<Vec<usize>> {
        let owns = |at: usize, partition: &u32| {
            let serving = self.nodes[at].served.get(partition);
            serving.is_some_and(|serving| !serving.has_failed)
                && self.nodes[at].heard.is_heard(self.clock(at))
        };
        (0..PARTITIONS).map(|p| (0..NODES).filter(|at| owns(*at, &p)).collect()).collect()
    }

    /// Everything is served by one node each, and evenly.
    pub fn is_whole(&self) -> bool {
        let owners = self.owners();
        let counts = (0..NODES).map(|at| owners.iter().filter(|who| who.contains(&at)).count());
        let counts: Vec<usize> = counts.collect();
        let is_even = counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1;
        is_even && owners.iter().all(|who| who.len() == 1)
    }
}
