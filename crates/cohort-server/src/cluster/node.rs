//! A node: it says that it lives, sees who else does, owns its part of the partitions, and answers for them.

mod asking;
pub mod duties;
mod troubles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::Operation;
use futures_util::StreamExt;
use tokio::sync::Semaphore;

pub(super) use asking::is_in_doubt;
use duties::{Duty, Heard, Held, duties};

use super::members::{Bucket, HEARTBEAT, Lease, NodeState, View};
use super::partition::{Known, Partition, PartitionContext, Trouble};
use super::wire::{Call, Reply, Wire};
use crate::clock::Clock;
use crate::engine::runtime::Pressure;
use crate::server::memory_pressure;

/// How often a node looks what it should own.
const LOOK: Duration = Duration::from_millis(100);
/// How often all of the bucket is read anew, beside watching it.
const READ_AGAIN: Duration = Duration::from_secs(15);
/// Partitions that are taken over, or given up, at once.
const AT_ONCE: usize = 8;
/// How long a partition that is given up may take for a snapshot, while it is served.
const HAND_OVER: Duration = Duration::from_secs(60);
/// How often a partition that cannot be opened is tried in quick succession.
pub(super) const OFTEN: u32 = 10;
/// How often memory is looked at.
const MEMORY: Duration = Duration::from_secs(1);
/// How often the sizes of streams are looked at.
const SIZES: Duration = Duration::from_secs(10);

/// A node.
pub struct Node {
    /// What its partitions need.
    pub context: Arc<PartitionContext>,
    bucket: Bucket,
    view: Mutex<View>,
    owned: RwLock<BTreeMap<u32, Arc<Partition>>>,
    busy: Mutex<BTreeSet<u32>>,
    wire: Wire,
    instance: String,
    address: String,
    started_ms: u64,
    heard: Mutex<Heard>,
    /// The largest control number that an answer told.
    control: AtomicU64,
    /// It gives up what it owns, and takes nothing more.
    leaving: AtomicBool,
    /// It has given up everything.
    stopping: AtomicBool,
    /// A message that it lives is under way.
    beating: tokio::sync::Mutex<()>,
    /// Why partitions that it should serve cannot be opened, and how often that was tried.
    refused: Mutex<BTreeMap<u32, (String, u32)>>,
    /// What is wrong with the servers.
    servers: Mutex<Vec<String>>,
    /// Why the state of the control stream, by which keys are checked, is old.
    replica: Trouble,
    at_once: Arc<Semaphore>,
    /// Why it cannot go on.
    ended: tokio::sync::watch::Sender<Option<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// A node that owns nothing yet.
    pub fn new(
        context: PartitionContext,
        bucket: Bucket,
        wire: Wire,
        instance: String,
        address: String,
    ) -> Arc<Self> {
        let started_ms = context.clock.now_ms();
        Arc::new(Self {
            context: Arc::new(context),
            bucket,
            view: Mutex::default(),
            owned: RwLock::default(),
            busy: Mutex::default(),
            wire,
            instance,
            address,
            started_ms,
            heard: Mutex::default(),
            control: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            beating: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
            servers: Mutex::default(),
            replica: Trouble::default(),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            ended: tokio::sync::watch::Sender::new(None),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.context.node
    }

    /// What is known of nodes and partitions.
    pub fn view(&self) -> MutexGuard<'_, View> {
        locked(&self.view)
    }

    /// Begins to live: on the client's threads and on those of requests.
    pub async fn run(self: &Arc<Self>) -> Result<Vec<tokio::task::JoinHandle<()>>, String> {
        let threads = self.context.threads.clone();
        let node = self.clone();
        let answers = move |call: Call| {
            let node = node.clone();
            async move { node.answer(call).await }
        };
        let answering = self.wire.answer(threads.clone(), answers).await;
        let answering = answering.map_err(|why| why.to_string())?;
        self.bucket.read_all(&self.view).await.map_err(|why| why.to_string())?;
        Ok(vec![
            answering,
            tokio::spawn(self.clone().watch()),
            tokio::spawn(self.clone().beat()),
            tokio::spawn(self.clone().manage()),
            tokio::spawn(self.clone().measure()),
            tokio::spawn(self.clone().watch_memory()),
            tokio::spawn(super::fitter::run(self.clone())),
        ])
    }

    async fn watch(self: Arc<Self>) {
        loop {
            if let Ok(mut entries) = self.bucket.store().watch_with_history(">").await {
                let mut read_at = Instant::now();
                loop {
                    match tokio::time::timeout(Duration::from_secs(1), entries.next()).await {
                        Ok(Some(Ok(entry))) => {
                            let value =
                                (entry.operation == Operation::Put).then_some(&entry.value[..]);
                            let now = Instant::now();
                            self.view().apply(&entry.key, value, entry.revision, now);
                        }
                        Ok(_) => break,
                        Err(_) => {}
                    }
                    if read_at.elapsed() > READ_AGAIN {
                        read_at = Instant::now();
                        let _ = self.bucket.read_all(&self.view).await;
                    }
                }
            }
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    async fn beat(self: Arc<Self>) {
        let mut beat = 0;
        let mut clock = tokio::time::interval(HEARTBEAT);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.stopping.load(Ordering::Relaxed) {
            clock.tick().await;
            beat += 1;
            // What it may not answer for any more it does not own: whoever took it waits for that.
            let is_held = |owned: &Arc<Partition>| {
                self.view().is_held(owned.index(), &self.instance, owned.epoch())
            };
            let owns = self.partitions().into_iter().filter(is_held);
            let owns = owns.map(|partition| partition.state()).collect();
            let state = NodeState {
                node: self.name().to_owned(),
                instance: self.instance.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                address: self.address.clone(),
                started_ms: self.started_ms,
                beat,
                owns,
                troubles: self.troubles(),
            };
            let sent = Instant::now();
            let beating = self.beating.lock().await;
            if self.stopping.load(Ordering::Relaxed) {
                return;
            }
            let mut heard = self.bucket.beat(&state).await.is_ok();
            drop(beating);
            let answered = Instant::now();
            // After a silence others may own what this node owned: that is known before anything is answered again.
            if heard && !locked(&self.heard).continues(answered) {
                heard = self.bucket.read_all(&self.view).await.is_ok();
            }
            locked(&self.heard).beat(sent, heard, answered);
        }
    }

    /// Whether others still take this node for alive, by its own clock.
    pub fn is_heard(&self) -> bool {
        locked(&self.heard).is_heard(Instant::now())
    }

    /// The partitions that it owns.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.owned.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// One of them.
    pub fn owned(&self, partition: u32) -> Option<Arc<Partition>> {
        self.owned.read().unwrap_or_else(PoisonError::into_inner).get(&partition).cloned()
    }

    /// One of them for which it may answer: nobody else owns it by what was read while others took this node for alive.
    pub fn serves(&self, partition: u32) -> Option<Arc<Partition>> {
        let owned = self.owned(partition).filter(|_| self.is_heard())?;
        self.view().is_held(partition, &self.instance, owned.epoch()).then_some(owned)
    }

    fn forget(&self, partition: u32) -> Option<Arc<Partition>> {
        self.owned.write().unwrap_or_else(PoisonError::into_inner).remove(&partition)
    }

    /// Refuses new work while memory is scarce, as a single service does. Disks are the servers'.
    async fn watch_memory(self: Arc<Self>) {
        let mut pressure = Pressure::None;
        while !self.stopping.load(Ordering::Relaxed) {
            let seen = memory_pressure(pressure, &self.context.config);
            if seen != pressure {
                tracing::warn!(?seen, "memory of this node");
            }
            pressure = seen;
            self.partitions().iter().for_each(|owned| owned.handle().set_pressure(pressure));
            tokio::time::sleep(MEMORY).await;
        }
    }

    async fn measure(self: Arc<Self>) {
        let mut pause = LOOK * 20;
        while !self.stopping.load(Ordering::Relaxed) {
            tokio::time::sleep(pause).await;
            pause = SIZES;
            let partitions = self.partitions();
            let look = move || partitions.iter().for_each(|partition| partition.look());
            let _ = tokio::task::spawn_blocking(look).await;
        }
    }

    async fn manage(self: Arc<Self>) {
        while !self.leaving.load(Ordering::Relaxed) {
            self.look();
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks what it should own, and begins to take over or to give up what differs.
    fn look(self: &Arc<Self>) {
        let now = Instant::now();
        let me = self.name().to_owned();
        let view = self.view();
        if let Some((known, _)) = view.node(&me, now)
            && known.instance != self.instance
            && known.started_ms > self.started_ms
        {
            let why = format!(
                "another process runs as node {me} now; give nodes names of their own (node_name)"
            );
            self.ended.send_if_modified(|ended| ended.replace(why).is_none());
            return;
        }
        let can_judge = locked(&self.heard).can_judge(now);
        let all = 0..=self.context.shape.control();
        let held = all.clone().map(|partition| match self.owned(partition) {
            None => Held::Not,
            Some(owned) if owned.handle().failure().is_some() => Held::Failed,
            Some(_) => Held::Served,
        });
        let held: Vec<Held> = held.collect();
        let duties = duties(&view, (&me, &self.instance), &held, can_judge, now);
        // What others own now is theirs to tell of.
        let is_mine = |partition: u32| view.lease(partition).0.instance == self.instance;
        locked(&self.refused).retain(|partition, _| is_mine(*partition));
        drop(view);
        for (partition, duty) in all.zip(duties) {
            let node = self.clone();
            match duty {
                Duty::None => {}
                Duty::Abandon => self.begin(partition, node.abandon(partition)),
                Duty::GiveUp(lease, revision) => {
                    self.begin(partition, node.give_up(partition, lease, revision));
                }
                Duty::TakeOver(lease, revision) => {
                    self.begin(partition, node.take_over(partition, lease, revision));
                }
            }
        }
    }

    /// Does something with a partition, unless something is being done with it.
    fn begin(self: &Arc<Self>, partition: u32, work: impl Future<Output = ()> + Send + 'static) {
        if !locked(&self.busy).insert(partition) {
            return;
        }
        let node = self.clone();
        tokio::spawn(async move {
            work.await;
            locked(&node.busy).remove(&partition);
        });
    }

    async fn take_over(self: Arc<Self>, partition: u32, lease: Lease, revision: u64) {
        let Ok(permit) = self.at_once.clone().acquire_owned().await else { return };
        let is_served = self.owned(partition).is_some();
        let is_old = self.view().lease(partition).1 != revision;
        if self.leaving.load(Ordering::Relaxed) || is_served || is_old {
            return;
        }
        let tried = locked(&self.refused).get(&partition).map_or(0, |(_, tried)| *tried);
        let (was_written, events) = (lease.was_written(), self.view().heard(partition));
        let known = Known { was_written, events, tried };
        let epoch = lease.epoch + 1;
        let (node, instance) = (self.name().to_owned(), self.instance.clone());
        let (written, events) = (Some(known.was_written), known.events);
        let lease = Lease { node, instance, epoch, written, events };
        let Some(revision) = self.write_lease(partition, &lease, revision).await else { return };
        let context = self.context.clone();
        let opening = move || Partition::open(&context, partition, epoch, known);
        let opened = match tokio::task::spawn_blocking(opening).await {
            Ok(opened) => opened.map_err(|why| why.to_string()),
            Err(bug) => Err(format!("taking it over stopped at a bug: {bug}")),
        };
        drop(permit);
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => return self.cannot_serve(partition, epoch, why).await,
        };
        // An empty stream is a lost one from now on: that must be known before anything is acknowledged.
        let lease = Lease { written: Some(true), ..lease };
        let is_told =
            known.was_written || self.write_lease(partition, &lease, revision).await.is_some();
        if !(is_told && self.is_alone(partition, epoch).await) {
            let _ = tokio::task::spawn_blocking(move || opened.abandon()).await;
            return;
        }
        locked(&self.refused).remove(&partition);
        let mut owned = self.owned.write().unwrap_or_else(PoisonError::into_inner);
        owned.insert(partition, Arc::new(opened));
    }

    /// Waits until nobody who owned a partition before may answer for it. Returns whether this process still owns it then.
    async fn is_alone(&self, partition: u32, epoch: u64) -> bool {
        loop {
            let asked = Instant::now();
            let nodes = self.view().former(partition).into_iter();
            let keys = nodes.map(|node| format!("node.{node}"));
            let mut is_known = true;
            for key in keys.chain([format!("partition.{partition}")]) {
                is_known &= self.bucket.read(&key, &self.view).await.is_ok();
            }
            let is_held = self.view().is_held(partition, &self.instance, epoch);
            if !is_held || self.leaving.load(Ordering::Relaxed) {
                return false;
            }
            if is_known && !self.view().awaits(partition, &self.instance, asked) {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Writes who owns a partition, if nobody did meanwhile. Returns the revision of that.
    async fn write_lease(&self, partition: u32, lease: &Lease, revision: u64) -> Option<u64> {
        let revision = self.bucket.claim(partition, lease, revision).await?;
        let bytes = serde_json::to_vec(lease).unwrap_or_default();
        let key = format!("partition.{partition}");
        self.view().apply(&key, Some(&bytes), revision, Instant::now());
        Some(revision)
    }

    /// Says why a partition that this node owns cannot be served, and waits until that is tried again.
    async fn cannot_serve(&self, partition: u32, epoch: u64, why: String) {
        let tried = {
            let mut refused = locked(&self.refused);
            let (known, tried) = refused.entry(partition).or_default();
            if *known != why {
                tracing::error!(
                    partition,
                    epoch,
                    why,
                    "a partition cannot be taken over; it is tried again"
                );
                (*known, *tried) = (why, 0);
            }
            *tried += 1;
            *tried
        };
        // What a moment does not mend is asked for less often: every attempt is an epoch.
        let pause = if tried < OFTEN { Duration::from_millis(500) } else { Duration::from_secs(2) };
        tokio::time::sleep(pause).await;
    }

    /// Ends a partition that is owned by somebody else, or cannot go on.
    async fn abandon(self: Arc<Self>, partition: u32) {
        let Some(owned) = self.forget(partition) else { return };
        let why = owned.handle().failure();
        // Whoever owns it next, this node too, must find what was acknowledged.
        self.view().hear(partition, owned.handle().last_event());
        tracing::warn!(partition, epoch = owned.epoch(), ?why, "not owned any more");
        metrics::counter!("cohort_cluster_partitions_lost_total").increment(1);
        let _ = tokio::task::spawn_blocking(move || end(owned, Partition::abandon)).await;
    }

    /// Stops a partition and lets another node take it.
    async fn give_up(self: Arc<Self>, partition: u32, lease: Lease, revision: u64) {
        let Ok(_permit) = self.at_once.clone().acquire_owned().await else { return };
        // The snapshot is written while it is served: requests wait only for the events since.
        let Some(handle) = self.owned(partition).map(|owned| owned.handle().clone()) else {
            return;
        };
        let _ = tokio::task::spawn_blocking(move || handle.hand_over(HAND_OVER)).await;
        let Some(owned) = self.forget(partition) else { return };
        tracing::info!(partition, epoch = owned.epoch(), "given up for another node");
        let handle = owned.handle().clone();
        let _ = tokio::task::spawn_blocking(move || end(owned, Partition::stop)).await;
        let (node, instance, events) = (String::new(), String::new(), handle.last_event());
        let free = Lease { node, instance, events, ..lease };
        self.write_lease(partition, &free, revision).await;
    }

    /// Gives everything up and leaves.
    pub async fn leave(self: &Arc<Self>) {
        self.leaving.store(true, Ordering::Relaxed);
        let given_up = self.partitions().into_iter().map(|owned| {
            let (lease, revision) = self.view().lease(owned.index());
            self.clone().give_up(owned.index(), lease, revision)
        });
        futures_util::future::join_all(given_up).await;
        // It lives until the end: others must not take it for dead while it still serves.
        self.stopping.store(true, Ordering::Relaxed);
        // A message that is under way would make it live again.
        let _beaten = self.beating.lock().await;
        self.bucket.leave(self.name()).await;
    }

    /// Has a node give up what it owns, or own again.
    pub async fn drain(&self, node: &str, drains: bool) -> Result<(), super::nats::NatsError> {
        self.bucket.drain(node, drains).await
    }

    /// Waits until it cannot go on; returns why.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Answers what another node asks.
    async fn answer(&self, call: Call) -> Reply {
        match self.serves(call.partition) {
            Some(owned) => owned.answer(&call).await,
            None => Reply::NotMine,
        }
    }

    /// The largest control number that this node knows of.
    pub fn control(&self) -> u64 {
        self.control.load(Ordering::Relaxed).max(*self.context.feed.last().borrow())
    }
}

/// A partition ends when the last request that uses it has ended.
fn end(mut owned: Arc<Partition>, how: fn(Partition)) {
    owned.handle().stop_taking();
    for _ in 0..2000 {
        match Arc::try_unwrap(owned) {
            Ok(partition) => return how(partition),
            Err(used) => owned = used,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    tracing::error!("a partition is still in use and is left to itself");
}
