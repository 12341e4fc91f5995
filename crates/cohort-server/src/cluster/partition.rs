//! A partition that this node owns: the single service's engine on a stream, asked over its own HTTP interface.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::object_store::ObjectStore;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, Uri};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha12Rng;

use super::control::{CONTROL, ControlFeed, ControlFrame};
use super::journal::StreamJournal;
use super::log::{Log, insist};
use super::members::{PartitionState, Shape};
use super::nats::{Nats, NatsError, NatsLog};
use super::node::OFTEN;
use super::objects::ObjectFolder;
use super::wire::{Call, Reply};
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::recovery::{RecoveryError, recover};
use crate::engine::runtime::{Handle, Runtime};
use crate::http::{AdminKeys, Service, in_dialect, partition_router};
use crate::journal::{EventReader, Journal, JournalError, Visit, frame};
use crate::snapshot::Snapshots;

/// Why a partition cannot be owned.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// NATS refuses.
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// The stream cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state does not come back.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The machine fails.
    #[error("the machine refuses what a partition needs: {0}")]
    Machine(#[from] std::io::Error),
}

/// What is known of a partition before it is taken over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Whether an owner has written its stream.
    pub was_written: bool,
    /// The last event that is known to have been acknowledged.
    pub events: u64,
    /// How often it was tried to no avail.
    pub tried: u32,
}

/// Refuses a stream that is empty, or not there, although it was written before: it must not look like a new one.
pub(super) fn refuse_lost(log: &NatsLog, was_written: bool) -> Result<(), JournalError> {
    match was_written && insist(log, |log| log.bounds())?.last == 0 {
        true => {
            let what = "it is empty or not there, and was written before".to_owned();
            Err(super::journal::gone(log.name(), what))
        }
        false => Ok(()),
    }
}

/// What all partitions of a node need.
pub struct PartitionContext {
    /// The connection.
    pub nats: Nats,
    /// Where snapshots are.
    pub store: ObjectStore,
    /// What the cluster is.
    pub shape: Shape,
    /// How the node is set up.
    pub config: Config,
    /// What is counted.
    pub metrics: PrometheusHandle,
    /// What time it is.
    pub clock: Arc<dyn Clock + Sync>,
    /// The control stream.
    pub feed: ControlFeed,
    /// The node's name.
    pub node: String,
    /// The threads on which requests are answered.
    pub threads: tokio::runtime::Handle,
    /// The admin's keys, as the node has read them last.
    pub(crate) keys: Arc<AdminKeys>,
}

impl Shape {
    /// The control partition's number.
    pub fn control(&self) -> u32 {
        self.partitions
    }

    /// What a partition is called.
    pub fn name_of(&self, partition: u32) -> String {
        match partition == self.control() {
            true => CONTROL.to_owned(),
            false => format!("p{partition}"),
        }
    }
}

/// A partition that is owned.
pub struct Partition {
    index: u32,
    epoch: u64,
    runtime: Option<Runtime>,
    handle: Handle,
    router: TowerToHyperService<Router>,
    log: NatsLog,
    stop: Arc<AtomicBool>,
    follower: Option<tokio::task::JoinHandle<()>>,
    /// Why the control stream cannot be followed.
    trouble: Trouble,
    /// Bytes of its stream, as of the last look.
    bytes: AtomicU64,
}

impl Partition {
    /// Becomes its owner: from now on nobody who owned it before can write. Blocks until its state is there.
    pub fn open(
        context: &PartitionContext,
        index: u32,
        epoch: u64,
        known: Known,
    ) -> Result<Self, OpenError> {
        let PartitionContext { nats, store, shape, config, .. } = context;
        let started = Instant::now();
        let name = shape.name_of(index);
        let mut folder = ObjectFolder::new(nats, store.clone(), &name);
        // What could not be read for seconds is taken for damaged: the one before it gives the same state.
        folder.waits = known.tried < OFTEN;
        let snapshots = Snapshots::new(folder);
        let newest = snapshots.newest_event()?;
        let log = match known.was_written || newest > 0 {
            true => nats.log(&name),
            false => nats.open_log(&name, shape.replicas)?,
        };
        refuse_lost(&log, known.was_written || newest > 0)?;
        // Where only copies in memory were promised, a power cut may take the newest events; what is in a snapshot
        // must be there all the same.
        let expected = match config.durability == "replicated" {
            true => newest,
            false => newest.max(known.events),
        };
        let journal = StreamJournal::open(log.clone(), epoch, &context.node, expected)?;
        if journal.last() < known.events {
            let (last, told) = (journal.last(), known.events);
            tracing::error!(
                partition = name,
                last,
                told,
                "acknowledged events were lost; durability = \"replicated\""
            );
        }
        let recovered = recover(&journal, &snapshots)?;
        for damaged in &recovered.passed_over {
            tracing::warn!(%damaged, "a snapshot was passed over; the state is whole without it");
        }
        snapshots.tidy(&recovered.passed_over)?;
        let events = recovered.state.last_event();
        let is_control = index == shape.control();
        let mut limits = config.limits();
        // Limits of an app are for all its users together.
        if !is_control {
            let parts = shape.partitions.max(1) as usize;
            limits.users = (limits.users / parts).max(1);
            limits.waiting = (limits.waiting / parts).max(1);
            limits.decision_bytes = (limits.decision_bytes / parts).max(1);
        }
        let rng = ChaCha12Rng::try_from_rng(&mut SysRng)
            .map_err(|why| OpenError::Machine(std::io::Error::other(why.to_string())))?;
        let followed = journal.control();
        // One partition has all users, and does what a single service does.
        let fits = !is_control && shape.partitions == 1;
        let engine = Engine::new(recovered.state, limits, rng).in_cluster(followed, fits);
        let stop = log.stop_flag();
        let mut options = config.options();
        // Partitions that are behind still have to follow what is in the control stream.
        options.prunes &= !is_control;
        // A node writes snapshots as often as a single service does, and reads as many events when it starts.
        if !is_control && options.snapshot_events > 0 {
            let parts = u64::from(shape.partitions.max(1));
            options.snapshot_events = (options.snapshot_events / parts).max(1);
        }
        let clock = Box::new(context.clock.clone());
        let runtime = Runtime::start(engine, Box::new(journal), snapshots, clock, options)?;
        let handle = runtime.handle();
        let reader: Arc<dyn EventReader> = Arc::new(StreamReader(log.clone()));
        let service_config = Config { rate_per_second: 0, ..config.clone() };
        let metrics = context.metrics.clone();
        let keys = context.keys.clone();
        let readers = vec![reader];
        let service =
            Service::with_keys(handle.clone(), readers, service_config, metrics, false, keys);
        let router = TowerToHyperService::new(partition_router(service));
        let trouble = Trouble::default();
        let follower = (!is_control).then(|| {
            let (feed, handle) = (context.feed.clone(), handle.clone());
            context.threads.spawn(follow(feed, handle, followed, name.clone(), trouble.clone()))
        });
        if !is_control && !fits {
            let (client, prefix) = (nats.client().clone(), config.nats_prefix.clone());
            context.threads.spawn(super::fitter::tell(client, prefix, index, handle.clone()));
        }
        let seconds = started.elapsed().as_secs_f64();
        let from_snapshot = recovered.snapshot_event;
        tracing::info!(partition = name, epoch, events, from_snapshot, followed, seconds, "owned");
        metrics::histogram!("cohort_cluster_take_over_seconds").record(seconds);
        let (runtime, bytes) = (Some(runtime), AtomicU64::new(0));
        Ok(Self { index, epoch, runtime, handle, router, log, stop, follower, trouble, bytes })
    }

    /// What is wrong with it while it is served: sentences for people.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = self.handle.health().failures();
        troubles.extend(trouble_of(&self.trouble));
        troubles
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its owner's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What requests are sent to, past HTTP.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Answers a request, once it has come as far in the control stream as whoever asks.
    pub async fn answer(&self, call: &Call) -> Reply {
        if self.handle.failure().is_some() {
            return Reply::NotMine;
        }
        let patience = Duration::from_millis(call.patience_ms);
        if self.control() < call.control && !Box::pin(self.comes_to(call.control, patience)).await {
            // Nothing was done: another owner may be further.
            return Reply::NotMine;
        }
        let mut request = Request::new(Body::from(call.body.clone()));
        let Ok(target) = Uri::try_from(call.target.as_str()) else { return Reply::Lost };
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = target;
        *request.headers_mut() = call.headers.clone();
        match tokio::time::timeout(patience, self.router.call(request)).await {
            Ok(Ok(response)) => self.reply(in_dialect(&call.target, response)).await,
            _ => Reply::Lost,
        }
    }

    /// Waits until it has come so far in the control stream.
    async fn comes_to(&self, control: u64, patience: Duration) -> bool {
        if self.follower.is_none() {
            return true;
        }
        let mut followed = self.handle.followed();
        let come = followed.wait_for(|followed| *followed >= control);
        matches!(tokio::time::timeout(patience, come).await, Ok(Ok(_)))
    }

    /// The control number: what the control partition has written, or how far this one has come.
    fn control(&self) -> u64 {
        match self.follower {
            Some(_) => *self.handle.followed().borrow(),
            None => self.handle.last_event(),
        }
    }

    async fn reply(&self, response: Response<Body>) -> Reply {
        let (parts, body) = response.into_parts();
        let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else { return Reply::Lost };
        let (control, status) = (self.control(), parts.status.as_u16());
        Reply::Answered { control, status, headers: parts.headers, body }
    }

    /// What is told about it.
    pub fn state(&self) -> PartitionState {
        PartitionState {
            partition: self.index,
            epoch: self.epoch,
            events: self.handle.last_event(),
            followed: self.control(),
            users: self.handle.users(),
            bytes: self.bytes.load(Ordering::Relaxed),
            waiting: self.handle.waiting(),
        }
    }

    /// Looks how large its stream is. Blocks.
    pub fn look(&self) {
        if let Ok(bytes) = self.log.bytes() {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Answers what waits, writes a snapshot and ends. Blocks.
    pub fn stop(mut self) {
        if let Some(follower) = self.follower.take() {
            follower.abort();
        }
        self.handle.stop_taking();
        drop(self.runtime.take());
    }

    /// Ends without waiting for servers that do not answer. Blocks.
    pub fn abandon(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stop();
    }
}

/// Why something does not go on, as long as it does not.
pub(super) type Trouble = Arc<Mutex<Option<String>>>;

/// What it is now.
pub(super) fn trouble_of(trouble: &Trouble) -> Option<String> {
    trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Remembers it, and logs what is new.
fn set_trouble(trouble: &Trouble, why: Option<String>) {
    let mut known = trouble.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = why.as_ref().filter(|why| known.as_ref() != Some(*why)) {
        tracing::error!(why, "the control stream cannot be followed; it is tried again");
    }
    *known = why;
}

/// Hands a partition what the control stream says, in order. What cannot be read is tried again for ever, and told.
pub(super) async fn follow(
    feed: ControlFeed,
    handle: Handle,
    mut followed: u64,
    name: String,
    trouble: Trouble,
) {
    let mut last = feed.last();
    loop {
        let newest = *last.borrow_and_update();
        if newest > followed {
            let (reading, is_again) = (feed.clone(), trouble_of(&trouble).is_some());
            let read = move || {
                // What is kept in memory may be what was damaged.
                let frames = match is_again {
                    true => reading.read_after(followed),
                    false => reading.after(followed),
                };
                let with_events = |frame: ControlFrame| Ok((frame.last, frame.events()?));
                frames?.into_iter().map(with_events).collect::<Result<Vec<_>, JournalError>>()
            };
            let frames = match tokio::task::spawn_blocking(read).await {
                Ok(Ok(frames)) => frames,
                failed => {
                    let why = match failed {
                        Ok(read) => read.err().map_or_else(String::new, |why| why.to_string()),
                        Err(bug) => bug.to_string(),
                    };
                    let why = format!("{name} does not follow the control stream: {why}");
                    set_trouble(&trouble, Some(why));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            set_trouble(&trouble, None);
            for (number, events) in frames {
                handle.follow(number, events);
                followed = number;
            }
        }
        if last.changed().await.is_err() {
            return;
        }
    }
}

/// The events of a partition's stream, for whoever reads beside its owner.
pub struct StreamReader(pub NatsLog);

impl EventReader for StreamReader {
    fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
        let bounds = insist(&self.0, |log| log.bounds())?;
        if bounds.first > bounds.last {
            return Ok(0);
        }
        super::log::frames(&self.0, bounds.first, bounds.last, &mut |_, found| {
            frame::read(found.first, &found.bytes, found.first, visit).map(|_| ())
        })?;
        // A record that was removed meanwhile is an error.
        Ok(0)
    }
}
