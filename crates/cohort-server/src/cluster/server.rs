//! From a configuration to a node that serves, and back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::SysRng;
use rand::{SeedableRng, TryRng};
use rand_chacha::ChaCha12Rng;

use super::control::{CONTROL, ControlFeed};
use super::durability::{self, Durability, Monitors};
use super::front::Front;
use super::members::{Bucket, Shape, View};
use super::moving::refuse_half_imported;
use super::nats::{Nats, NatsError, NatsOptions};
use super::node::Node;
use super::objects::{ObjectFolder, open_store};
use super::partition::{PartitionContext, StreamReader, follow};
use super::replica::{DiscardingJournal, fold};
use super::wire::Wire;
use crate::auth::hex;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::runtime::{Options, Runtime};
use crate::http::{AdminKeys, Service, cluster_router};
use crate::journal::EventReader;
use crate::server::{Listening, ServeError};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::MemoryFolder;

/// How long a node waits for servers that answer and are not ready.
const START: Duration = Duration::from_secs(10);
/// How often servers are asked whether they sync on every write.
const ASK_SERVERS: Duration = Duration::from_secs(10);

/// A node that listens and has not begun to serve.
pub struct ClusterServer {
    listening: Listening,
    config: Config,
    nats: Nats,
    bucket: Bucket,
    shape: Shape,
    durability: Durability,
    monitors: Monitors,
    clock: Arc<dyn Clock + Sync>,
}

impl From<NatsError> for ServeError {
    fn from(why: NatsError) -> Self {
        Self::Cluster { why: why.to_string() }
    }
}

impl Config {
    /// How NATS is reached.
    pub fn nats_options(&self) -> NatsOptions {
        NatsOptions {
            servers: self.nats.clone(),
            credentials: self.nats_credentials.display().to_string(),
            tls_ca: self.nats_tls_ca.display().to_string(),
            tls_cert: self.nats_tls_cert.display().to_string(),
            tls_key: self.nats_tls_key.display().to_string(),
            prefix: self.nats_prefix.clone(),
        }
    }

    /// On how many servers everything is kept.
    pub(super) fn replicas(&self, nats: &Nats) -> usize {
        let several =
            self.nats.split(',').count().max(nats.client().server_info().connect_urls.len());
        match self.nats_replicas {
            0 if several >= 3 => 3,
            0 => 1,
            given => given,
        }
    }

    /// The node's name: as configured, or by machine and port.
    fn node(&self, address: SocketAddr) -> String {
        if !self.node_name.is_empty() {
            return self.node_name.clone();
        }
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let host: String = host.trim().chars().filter(|letter| fits(*letter)).collect();
        let host = if host.is_empty() { "node" } else { &host };
        format!("{host}-{}", address.port())
    }
}

/// Servers that have just started, or a stream that was just made, have no leader for a moment: asks again for a while.
fn retry<T>(mut ask: impl FnMut() -> Result<T, NatsError>) -> Result<T, NatsError> {
    let started = Instant::now();
    loop {
        match ask() {
            Err(why) if started.elapsed() < START => {
                tracing::warn!(%why, "NATS is not ready; it is asked again");
                std::thread::sleep(START / 50);
            }
            asked => return asked,
        }
    }
}

/// Asks servers again and again whether they sync: those that were silent at the start, and those that were started anew.
async fn watch_servers(mut monitors: Monitors, node: Arc<Node>) {
    loop {
        tokio::time::sleep(ASK_SERVERS).await;
        let asked = tokio::task::spawn_blocking(move || {
            let (_, failing) = monitors.ask();
            (monitors, failing)
        });
        let Ok((asked, failing)) = asked.await else { return };
        monitors = asked;
        node.set_servers(failing);
    }
}

impl ClusterServer {
    /// Connects to NATS, makes the cluster where there is none, and listens.
    pub fn open(config: Config) -> Result<Self, ServeError> {
        Self::open_with_clock(config, Arc::new(SystemClock))
    }

    /// The same with clocks of the caller's choice.
    pub fn open_with_clock(
        config: Config,
        clock: Arc<dyn Clock + Sync>,
    ) -> Result<Self, ServeError> {
        let listening = Listening::open(&config)?;
        let name = config.node(listening.address());
        let nats = Nats::connect(&config.nats_options(), &name)?;
        let wants_sync = config.durability != "replicated";
        let (durability, monitors) =
            durability::look(&nats, &config.nats, &config.nats_monitor, wants_sync)?;
        let replicas = config.replicas(&nats);
        let bucket = retry(|| Bucket::open(&nats, replicas))?;
        let wanted = Shape { partitions: config.partitions, replicas };
        let shape = retry(|| nats.wait(bucket.shape(&wanted)))?;
        refuse_half_imported(&nats, &bucket)?;
        // The stream is there before anybody follows it. One that was there and is lost must not look like a new one.
        let known = std::sync::Mutex::new(View::default());
        retry(|| nats.wait(bucket.read_all(&known)))?;
        let known = known.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !known.lease(shape.control()).0.was_written() {
            retry(|| nats.open_log(CONTROL, shape.replicas))?;
        }
        Ok(Self {
            listening,
            config: Config { node_name: name, ..config },
            nats,
            bucket,
            shape,
            durability,
            monitors,
            clock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Its name.
    pub fn node(&self) -> &str {
        &self.config.node_name
    }

    /// What the cluster is.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Servers of which nobody knows yet whether they sync on every write: they did not answer.
    pub fn silent(&self) -> &[String] {
        &self.monitors.silent
    }

    /// What an answer means.
    pub fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Serves until `stop` is done, then gives up its partitions and ends.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self { listening, config, nats, bucket, shape, clock, monitors, .. } = self;
        let failed = |why: String| ServeError::Cluster { why };
        let threads = tokio::runtime::Handle::current();
        let store = tokio::task::spawn_blocking({
            let (nats, replicas) = (nats.clone(), shape.replicas);
            move || retry(|| open_store(&nats, replicas))
        });
        let store = store.await.map_err(|why| failed(why.to_string()))??;
        let feed = ControlFeed::new(&nats);
        let metrics = listening.metrics();
        let (replica, followed) = tokio::task::spawn_blocking({
            let (nats, store, feed) = (nats.clone(), store.clone(), feed.clone());
            let (config, clock) = (config.clone(), clock.clone());
            move || -> Result<(Runtime, u64), ServeError> {
                let snapshots = Snapshots::new(ObjectFolder::new(&nats, store, CONTROL));
                feed.begin()?;
                let (recovered, tail) = fold(nats.log(CONTROL), &snapshots)?;
                let rng = ChaCha12Rng::try_from_rng(&mut SysRng)
                    .map_err(|why| ServeError::Machine(std::io::Error::other(why.to_string())))?;
                let engine = Engine::new(recovered.state, config.limits(), rng)
                    .in_cluster(tail.event, false);
                let nothing = Snapshots::new(MemoryFolder::default());
                let options = Options {
                    snapshot_events: 0,
                    snapshot_interval: Duration::ZERO,
                    ..config.options()
                };
                let journal = Box::new(DiscardingJournal(tail.event));
                let runtime = Runtime::start(engine, journal, nothing, Box::new(clock), options);
                Ok((runtime.map_err(ServeError::Machine)?, tail.event))
            }
        })
        .await
        .map_err(|why| failed(why.to_string()))??;
        let instance = {
            let mut bytes = [0; 8];
            SysRng.try_fill_bytes(&mut bytes).map_err(|why| failed(why.to_string()))?;
            hex(&bytes)
        };
        let prefix = config.nats_prefix.clone();
        let wire = {
            let (client, name) = (nats.client().clone(), config.node_name.clone());
            nats.runtime().spawn(async move { Wire::open(&client, &prefix, &name).await })
        };
        let wire = wire.await.map_err(|why| failed(why.to_string()))?;
        let wire = wire.map_err(|why| failed(why.to_string()))?;
        let keys = Arc::new(AdminKeys::of(&config));
        let context = PartitionContext {
            nats: nats.clone(),
            store,
            shape: shape.clone(),
            config: config.clone(),
            metrics: metrics.clone(),
            clock,
            feed: feed.clone(),
            node: config.node_name.clone(),
            threads: threads.clone(),
            keys: keys.clone(),
        };
        let address = listening.address().to_string();
        let node = Node::new(context, bucket, wire, instance, address);
        let streams = (0..shape.partitions).map(|partition| {
            let log = nats.log(&shape.name_of(partition)).impatient();
            Arc::new(StreamReader(log)) as Arc<dyn EventReader>
        });
        let service = Service::with_keys(
            replica.handle(),
            streams.collect(),
            config.clone(),
            metrics,
            false,
            keys,
        );
        let name = format!("node {}", config.node_name);
        let following = threads.spawn(follow(
            feed.clone(),
            replica.handle(),
            followed,
            name,
            node.replica_trouble(),
        ));
        let feeding = threads.spawn(feed.run(nats.clone()));
        let living = {
            let node = node.clone();
            nats.runtime().spawn(async move { node.run().await })
        };
        let mut living = living.await.map_err(|why| failed(why.to_string()))?.map_err(failed)?;
        living.push(threads.spawn(watch_servers(monitors, node.clone())));
        let front = Arc::new(Front {
            node: node.clone(),
            timeout: Duration::from_millis(config.request_timeout_ms),
            service: service.clone(),
        });
        let ended = node.clone();
        let (told, tells) = tokio::sync::oneshot::channel();
        let stop = async move {
            tokio::select! {
                () = stop => {}
                why = ended.ended() => {
                    tracing::error!(why, "this node ends, because it cannot go on");
                    let _ = told.send(why);
                }
            }
        };
        let patience = Duration::from_millis(config.shutdown_ms);
        let leaving = node.clone();
        let stop = async move {
            stop.await;
            tracing::info!("stopping: partitions are given up, requests go to their new owners");
            let begun = Instant::now();
            leaving.leave().await;
            patience.saturating_sub(begun.elapsed()).min(Duration::from_secs(2))
        };
        listening.serve(cluster_router(front, service.clone()), service, stop).await?;
        living.into_iter().for_each(|task| task.abort());
        feeding.abort();
        following.abort();
        let _ = tokio::task::spawn_blocking(move || replica.stop()).await;
        let mut tells = tells;
        match tells.try_recv() {
            Ok(why) => Err(ServeError::Ended { why }),
            Err(_) => Ok(()),
        }
    }
}
