//! Which nodes are there, and who owns which partition? Both are in a key-value bucket that every node watches.
//!
//! ```text
//! cluster        how many partitions there are; written once
//! node.NAME      a node, written anew twice a second as long as it lives
//! partition.N    who owns it and in which epoch; changed only where nobody changed it meanwhile
//! drain.NAME     this node is to give up what it owns
//! import         a folder is being moved in: there as long as not all of it is
//! ```
//!
//! A node is dead when its key did not change for [`DEAD`], by the clock of whoever looks: clocks of machines are not
//! compared. What protects data is not this but the stream (`journal`): here it is only decided who tries to write.
//!
//! Whoever is taken for dead may live all the same: its message may have come just before the lease changed hands, or be seen
//! late. Answers that write nothing are true only if one process gives them, so a new owner waits for those before it
//! ([`View::awaits`]): until they are silent for [`DEAD`], or say that they do not own the partition any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{Config, Store};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, StorageType};
use serde::{Deserialize, Serialize};

use super::nats::{Nats, NatsError};

/// How often a node says that it lives.
pub const HEARTBEAT: Duration = Duration::from_millis(500);
/// After how long without that it is dead.
pub const DEAD: Duration = Duration::from_secs(3);

/// What is fixed when a cluster is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many partitions users are spread over.
    pub partitions: u32,
    /// On how many servers everything is kept.
    pub replicas: usize,
}

/// A node as it tells about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name.
    pub node: String,
    /// The process: another one of the same name is another node.
    pub instance: String,
    /// The version of its program.
    pub version: String,
    /// Where it listens for HTTP.
    pub address: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Grows with every message.
    pub beat: u64,
    /// What it owns.
    pub owns: Vec<PartitionState>,
    /// What is wrong with it: sentences for people.
    #[serde(default)]
    pub troubles: Vec<String>,
}

/// A partition as its owner tells about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionState {
    /// Its number.
    pub partition: u32,
    /// The owner's epoch.
    pub epoch: u64,
    /// The last event.
    pub events: u64,
    /// Up to which event of the control stream it has come.
    pub followed: u64,
    /// Users of all its apps.
    pub users: u64,
    /// Bytes of its stream on each server.
    pub bytes: u64,
    /// Requests that wait.
    pub waiting: usize,
}

/// Who owns a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The node; empty where it was given up.
    pub node: String,
    /// Its process.
    pub instance: String,
    /// Larger than all before.
    pub epoch: u64,
    /// Whether an owner has begun to write the partition's stream: an empty one is a lost one from then on. Absent where
    /// an older program wrote this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<bool>,
    /// The last event that was known to be acknowledged when this was written.
    #[serde(default)]
    pub events: u64,
}

impl Lease {
    /// Whether the partition's stream was written before.
    pub fn was_written(&self) -> bool {
        self.written.unwrap_or(self.epoch > 0)
    }
}

/// What this process knows of the bucket.
#[derive(Default)]
pub struct View {
    nodes: BTreeMap<String, Known>,
    leases: BTreeMap<u32, (Lease, u64)>,
    drains: BTreeMap<String, bool>,
    /// The last event of each partition that an owner told to be acknowledged.
    events: BTreeMap<u32, u64>,
    /// Who held each partition since it was last given up, and did not say yet that it is over.
    former: BTreeMap<u32, Vec<Former>>,
}

/// A node as it was last seen.
struct Known {
    state: NodeState,
    seen: Instant,
    revision: u64,
}

impl Known {
    fn silent(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.seen)
    }
}

/// A process that held a partition until another one took it.
struct Former {
    node: String,
    instance: String,
    /// The revision by which it was taken.
    since: u64,
    /// The first message that was written after that: what it tells may be older.
    first: Option<u64>,
}

impl View {
    /// Takes over one entry of the bucket.
    pub fn apply(&mut self, key: &str, value: Option<&[u8]>, revision: u64, now: Instant) {
        let (kind, name) = key.split_once('.').unwrap_or((key, ""));
        match kind {
            "node" => match value.and_then(|value| serde_json::from_slice(value).ok()) {
                Some(state) => self.see(name, state, revision, now),
                None => {
                    if self.nodes.get(name).is_some_and(|known| known.revision < revision) {
                        self.nodes.remove(name);
                    }
                }
            },
            "partition" => {
                let lease: Option<Lease> =
                    value.and_then(|value| serde_json::from_slice(value).ok());
                if let (Ok(partition), Some(lease)) = (name.parse::<u32>(), &lease) {
                    self.hear(partition, lease.events);
                }
                if let (Ok(partition), Some(lease)) = (name.parse::<u32>(), lease)
                    && self.leases.get(&partition).is_none_or(|(_, known)| *known < revision)
                {
                    self.follow(partition, &lease, revision);
                    self.leases.insert(partition, (lease, revision));
                }
            }
            "drain" => {
                self.drains.insert(name.to_owned(), value.is_some_and(|value| !value.is_empty()));
            }
            _ => {}
        }
    }

    /// A node that says the same as before says nothing: bytes may be read twice.
    fn see(&mut self, name: &str, state: NodeState, revision: u64, now: Instant) {
        state.owns.iter().for_each(|owned| self.hear(owned.partition, owned.events));
        let is_old = |known: &Known| match known.state.instance == state.instance {
            true => state.beat <= known.state.beat,
            false => revision <= known.revision,
        };
        if self.nodes.get(name).is_some_and(is_old) {
            return;
        }
        for (partition, former) in &mut self.former {
            let owns = state.owns.iter().any(|owned| owned.partition == *partition);
            former.retain_mut(|former| {
                if former.node != name || revision < former.since {
                    return true;
                }
                // What the first message tells may be older than the new lease, what a second tells is not: it was made when
                // the first had ended.
                let first = *former.first.get_or_insert(state.beat);
                former.instance == state.instance && (owns || state.beat <= first)
            });
        }
        self.nodes.insert(name.to_owned(), Known { state, seen: now, revision });
    }

    /// Remembers who held a partition that somebody holds by a new lease. Whoever gives one up has waited for those before, and
    /// answers for it no more.
    fn follow(&mut self, partition: u32, lease: &Lease, revision: u64) {
        let former = self.former.entry(partition).or_default();
        if lease.node.is_empty() {
            former.clear();
            return;
        }
        let Some((before, _)) = self.leases.get(&partition) else { return };
        if !before.node.is_empty() && before.instance != lease.instance {
            let (node, instance) = (before.node.clone(), before.instance.clone());
            former.retain(|known| known.instance != instance);
            former.push(Former { node, instance, since: revision, first: None });
        }
    }

    /// The nodes that held a partition before, and did not say yet that they do not any more.
    pub fn former(&self, partition: u32) -> Vec<String> {
        let former = self.former.get(&partition).into_iter().flatten();
        former.map(|former| former.node.clone()).collect()
    }

    /// Whether any other process that held a partition before may still answer for it, if what is known of the nodes that did
    /// was read anew at this moment or later, and the lease was written before.
    pub fn awaits(&self, partition: u32, instance: &str, asked: Instant) -> bool {
        let may_answer = |former: &Former| {
            let known = self.nodes.get(&former.node);
            former.instance != instance
                && known.is_some_and(|known| {
                    known.state.instance == former.instance && known.silent(asked) < DEAD
                })
        };
        self.former.get(&partition).is_some_and(|former| former.iter().any(may_answer))
    }

    /// Remembers that an event of a partition was acknowledged.
    pub fn hear(&mut self, partition: u32, event: u64) {
        let known = self.events.entry(partition).or_default();
        *known = event.max(*known);
    }

    /// The last event of a partition that is known to have been acknowledged.
    pub fn heard(&self, partition: u32) -> u64 {
        self.events.get(&partition).copied().unwrap_or_default()
    }

    /// All nodes that live, by name.
    pub fn living(&self, now: Instant) -> impl Iterator<Item = &NodeState> {
        self.nodes.values().filter(move |known| known.silent(now) < DEAD).map(|known| &known.state)
    }

    /// A node, and how long ago it last spoke.
    pub fn node(&self, name: &str, now: Instant) -> Option<(&NodeState, Duration)> {
        self.nodes.get(name).map(|known| (&known.state, known.silent(now)))
    }

    /// All nodes that ever spoke and were not removed.
    pub fn nodes(&self, now: Instant) -> Vec<(NodeState, Duration)> {
        self.nodes.values().map(|known| (known.state.clone(), known.silent(now))).collect()
    }

    /// Whether a node is to give up what it owns.
    pub fn drains(&self, name: &str) -> bool {
        self.drains.get(name).copied().unwrap_or(false)
    }

    /// Who owns a partition by the bucket, and the revision of that.
    pub fn lease(&self, partition: u32) -> (Lease, u64) {
        self.leases.get(&partition).cloned().unwrap_or_default()
    }

    /// Whether a process owns a partition by the bucket, in this epoch.
    pub fn is_held(&self, partition: u32, instance: &str, epoch: u64) -> bool {
        let lease = self.leases.get(&partition).map(|(lease, _)| lease);
        lease.is_some_and(|lease| lease.instance == instance && lease.epoch == epoch)
    }

    /// The node that owns a partition and lives.
    pub fn owner(&self, partition: u32, now: Instant) -> Option<&NodeState> {
        let (lease, _) = self.leases.get(&partition)?;
        let (state, silent) = self.node(&lease.node, now)?;
        (state.instance == lease.instance && silent < DEAD).then_some(state)
    }
}

/// The bucket.
#[derive(Clone)]
pub struct Bucket(Store);

impl Bucket {
    /// The bucket of a cluster, made where it is not there, on so many servers.
    pub fn open(nats: &Nats, replicas: usize) -> Result<Self, NatsError> {
        let bucket = nats.named("nodes");
        let store = nats.wait(async {
            if let Ok(store) = nats.context().get_key_value(&bucket).await {
                return Ok(store);
            }
            let config = Config {
                bucket: bucket.clone(),
                history: 1,
                storage: StorageType::File,
                num_replicas: replicas,
                ..Config::default()
            };
            let made = nats.context().create_key_value(config).await;
            made.map_err(|why| NatsError::jetstream(format!("make the bucket {bucket}"), why))
        })?;
        Ok(Self(store))
    }

    /// The bucket itself.
    pub fn store(&self) -> &Store {
        &self.0
    }

    /// What the cluster is; made so where nobody made it before.
    pub async fn shape(&self, wanted: &Shape) -> Result<Shape, NatsError> {
        let fails = |why: String| NatsError::jetstream("read what the cluster is", why);
        let bytes = serde_json::to_vec(wanted).map_err(|why| fails(why.to_string()))?;
        // Whoever comes second takes what is there.
        let _ = self.0.create("cluster", bytes.into()).await;
        let found = self.0.get("cluster").await.map_err(|why| fails(why.to_string()))?;
        let found = found.ok_or_else(|| fails("it is not there".to_owned()))?;
        serde_json::from_slice(&found).map_err(|why| fails(why.to_string()))
    }

    /// The shape of a cluster that is there.
    pub async fn known_shape(&self) -> Result<Option<Shape>, NatsError> {
        let fails = |why: String| NatsError::jetstream("read what the cluster is", why);
        let found = self.0.get("cluster").await.map_err(|why| fails(why.to_string()))?;
        found
            .map(|found| serde_json::from_slice(&found).map_err(|why| fails(why.to_string())))
            .transpose()
    }

    /// Says that a node lives.
    pub async fn beat(&self, state: &NodeState) -> Result<(), NatsError> {
        let fails = |why: String| NatsError::jetstream("write that this node lives", why);
        let bytes = serde_json::to_vec(state).map_err(|why| fails(why.to_string()))?;
        let put = self.0.put(format!("node.{}", state.node), bytes.into()).await;
        put.map(|_| ()).map_err(|why| fails(why.to_string()))
    }

    /// A node is no more.
    pub async fn leave(&self, node: &str) {
        let _ = self.0.delete(format!("node.{node}")).await;
    }

    /// Writes who owns a partition, if nobody wrote since that revision. Returns the new one.
    pub async fn claim(&self, partition: u32, lease: &Lease, revision: u64) -> Option<u64> {
        let bytes = serde_json::to_vec(lease).ok()?;
        let key = format!("partition.{partition}");
        self.0.update(key, bytes.into(), revision).await.ok()
    }

    /// Asks a node to give up what it owns, or to own again.
    pub async fn drain(&self, node: &str, drains: bool) -> Result<(), NatsError> {
        let value = if drains { "drain" } else { "" };
        let put = self.0.put(format!("drain.{node}"), value.into()).await;
        put.map(|_| ()).map_err(|why| NatsError::jetstream("write to the bucket", why))
    }

    /// Says that a folder is being moved in, or that all of it is there.
    pub async fn set_importing(&self, importing: bool) -> Result<(), NatsError> {
        let fails = |why: String| NatsError::jetstream("write that a folder is moved in", why);
        if importing {
            let put = self.0.put("import", "not complete".into()).await;
            put.map(|_| ()).map_err(|why| fails(why.to_string()))
        } else {
            self.0.delete("import").await.map_err(|why| fails(why.to_string()))
        }
    }

    /// Whether a folder is being moved in, or was and the move was broken off.
    pub async fn is_importing(&self) -> Result<bool, NatsError> {
        let found = self.0.get("import").await;
        let fails = |why| NatsError::jetstream("read whether a folder is moved in", why);
        found.map(|found| found.is_some()).map_err(fails)
    }

    /// One entry as it is now.
    pub async fn read(&self, key: &str, view: &std::sync::Mutex<View>) -> Result<(), NatsError> {
        // Asked of the stream's leader: what other servers have may be older than what was acknowledged (`Store::entry`).
        let subject = format!("{}{key}", self.0.prefix);
        let (value, revision) = match self.0.stream.get_last_raw_message_by_subject(&subject).await
        {
            Ok(found) => {
                let is_put = found.headers.get("KV-Operation").is_none();
                (is_put.then_some(found.payload), found.sequence)
            }
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => (None, 0),
            Err(why) => {
                return Err(NatsError::jetstream("read the bucket of nodes", why.to_string()));
            }
        };
        let mut view = view.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        view.apply(key, value.as_deref(), revision, Instant::now());
        Ok(())
    }

    /// All entries as they are now.
    pub async fn read_all(&self, view: &std::sync::Mutex<View>) -> Result<(), NatsError> {
        use futures_util::TryStreamExt;
        let fails = |why: String| NatsError::jetstream("read the bucket of nodes", why);
        let keys = self.0.keys().await.map_err(|why| fails(why.to_string()))?;
        let keys: Vec<String> = keys.try_collect().await.map_err(|why| fails(why.to_string()))?;
        for key in keys {
            self.read(&key, view).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, instance: &str, beat: u64) -> Vec<u8> {
        let state = NodeState {
            node: name.to_owned(),
            instance: instance.to_owned(),
            version: String::new(),
            address: String::new(),
            started_ms: 0,
            beat,
            owns: Vec::new(),
            troubles: Vec::new(),
        };
        serde_json::to_vec(&state).unwrap()
    }

    #[test]
    fn a_new_owner_waits_for_those_before_it_as_long_as_they_may_answer() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let lease = |name: &str, epoch| {
            let (node, instance) = (name.to_owned(), name.to_owned());
            serde_json::to_vec(&Lease { node, instance, epoch, ..Lease::default() }).unwrap()
        };
        let says = |name: &str, beat, epoch: Option<u64>| {
            let mut state: NodeState = serde_json::from_slice(&node(name, name, beat)).unwrap();
            let owned = |epoch| PartitionState {
                partition: 7,
                epoch,
                events: 0,
                followed: 0,
                users: 0,
                bytes: 0,
                waiting: 0,
            };
            state.owns = epoch.map(owned).into_iter().collect();
            serde_json::to_vec(&state).unwrap()
        };
        let taken = || {
            let mut view = View::default();
            view.apply("node.a", Some(&says("a", 1, Some(1))), 1, at(0));
            view.apply("partition.7", Some(&lease("a", 1)), 2, at(0));
            assert!(view.former(7).is_empty() && !view.awaits(7, "b", at(0)));
            view.apply("partition.7", Some(&lease("b", 2)), 4, at(2900));
            assert_eq!(view.former(7), ["a"]);
            view
        };
        // It stays silent, or has left, or runs anew.
        let mut view = taken();
        assert!(view.awaits(7, "b", at(2900)) && !view.awaits(7, "b", at(3000)));
        view.apply("node.a", Some(&node("a", "new", 1)), 5, at(2950));
        assert!(!view.awaits(7, "b", at(2950)));
        let mut view = taken();
        view.apply("node.a", None, 5, at(2950));
        assert!(!view.awaits(7, "b", at(2950)));
        // It spoke once more before that, and lives: two messages after the lease must be without the partition.
        let mut view = taken();
        for (beat, revision, owns) in [(2, 3, None), (3, 5, None), (4, 6, Some(1))] {
            view.apply("node.a", Some(&says("a", beat, owns)), revision, at(3100));
            assert!(view.awaits(7, "b", at(3100)), "{beat}");
        }
        // A third owner waits for it as well, and what is given up has nobody to wait for.
        view.apply("partition.7", Some(&lease("c", 3)), 7, at(3200));
        assert_eq!(view.former(7), ["a", "b"]);
        view.apply("node.a", Some(&says("a", 5, None)), 8, at(3300));
        assert_eq!(view.former(7), ["b"]);
        view.apply("partition.7", Some(&lease("", 3)), 9, at(3300));
        assert!(view.former(7).is_empty());
    }

    #[test]
    fn a_node_lives_as_long_as_it_says_something_new() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut view = View::default();
        view.apply("node.a", Some(&node("a", "1", 1)), 1, at(0));
        view.apply("node.b", Some(&node("b", "1", 1)), 2, at(0));
        view.apply("node.a", Some(&node("a", "1", 2)), 3, at(2000));
        // The same once more, as when a bucket is read again.
        view.apply("node.b", Some(&node("b", "1", 1)), 2, at(2000));
        let living =
            |view: &View, ms| view.living(at(ms)).map(|node| node.node.clone()).collect::<Vec<_>>();
        assert_eq!(living(&view, 2500), ["a", "b"]);
        assert_eq!(living(&view, 3500), ["a"]);
        let lease =
            Lease { node: "a".to_owned(), instance: "1".to_owned(), epoch: 4, ..Lease::default() };
        let bytes = serde_json::to_vec(&lease).unwrap();
        view.apply("partition.7", Some(&bytes), 9, at(2500));
        // What is older than what is known changes nothing.
        let older = serde_json::to_vec(&Lease::default()).unwrap();
        view.apply("partition.7", Some(&older), 8, at(2500));
        assert_eq!(view.lease(7), (lease, 9));
        assert_eq!(view.owner(7, at(2600)).map(|node| node.node.as_str()), Some("a"));
        assert!(view.owner(7, at(9000)).is_none());
        // Another process of the same name does not own what the one before did.
        view.apply("node.a", Some(&node("a", "2", 1)), 10, at(2700));
        assert!(view.owner(7, at(2800)).is_none());
        view.apply("node.a", None, 11, at(2900));
        assert_eq!(living(&view, 2950), ["b"]);
        view.apply("drain.b", Some(b"drain"), 12, at(0));
        assert!(view.drains("b") && !view.drains("a"));
        view.apply("drain.b", Some(b""), 13, at(0));
        assert!(!view.drains("b"));
        // What was acknowledged once stays known, also of nodes that died.
        (0..2).for_each(|at| view.hear(7, 9 - at));
        assert_eq!((view.heard(7), view.heard(8)), (9, 0));
        // What an earlier process said, and is seen late, does not replace the one after it.
        view.apply("node.c", Some(&node("c", "2", 1)), 15, at(3000));
        view.apply("node.c", Some(&node("c", "1", 9)), 14, at(3000));
        assert_eq!(view.node("c", at(3000)).map(|(node, _)| node.instance.as_str()), Some("2"));
        // Of older programs it is not known whether they had written.
        let older: Lease =
            serde_json::from_str(r#"{"node":"a","instance":"1","epoch":2}"#).unwrap();
        let begun = Lease { written: Some(false), ..older.clone() };
        assert!(older.was_written() && !begun.was_written() && !Lease::default().was_written());
    }
}
