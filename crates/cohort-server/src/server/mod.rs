//! From a configuration to a running service, and back.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Server`] | how does it start, serve and stop? |
//! | `connections` | who is connected, and who has to go when there is no room? |
//! | `listening` | where does it listen, and what is read anew while it does? |
//! | `timed` | how long may a client be silent? |
//! | `unread` | was the body of a request read to its end? |
//! | `descriptors` | how many connections may there be, so that the journal never lacks a file? |
//! | `housekeeping` | is there room, and how long is the journal kept? |
//! | `room` | how much room is there, and how much may there be? |
//! | `tls` | which certificate? |
//! | `telemetry` | where do metrics and logs go? |
//! | [`ServeError`] | why could it not start, or go on? |

mod connections;
mod descriptors;
mod error;
mod housekeeping;
mod listening;
#[cfg(test)]
mod neglected;
mod room;
mod telemetry;
mod timed;
mod tls;
mod unread;

use std::fs::{File, TryLockError};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha12Rng;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::recovery::recover;
use crate::engine::runtime::{Handle, Runtime};
use crate::http::{Service, router};
use crate::journal::segments::{Reader, SEGMENT_BYTES, SegmentJournal};
use crate::priority;
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Folder;
use connections::{SLACK, Terms};
use descriptors::for_connections;
pub use error::ServeError;
pub(crate) use housekeeping::memory_pressure;
use housekeeping::{Housekeeper, Keep};
pub(crate) use listening::Listening;
use listening::{bind, keep_up, reload_on_hangup};
use room::{MachineRoom, Room};
pub use telemetry::log;
use telemetry::recorder;
use timed::Patience;
use tls::Certificate;

/// Segments of the journal are not made smaller.
const LEAST_SEGMENT_BYTES: u64 = 1 << 20;

/// What the journal takes while a snapshot is being written, at least.
const LEAST_KEPT_FROM_SNAPSHOTS: u64 = 16 << 20;

/// How long callers are told that the service ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A service that listens and has not begun to serve.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    config: Config,
    runtime: Runtime,
    metrics: PrometheusHandle,
    journal: Reader,
    room: Arc<dyn Room>,
    certificate: Option<Certificate>,
    terms: Terms,
    /// Held as long as the folder is used.
    folder: File,
    demo: bool,
}

impl Server {
    /// Brings the state back and listens.
    pub fn open(config: Config) -> Result<Self, ServeError> {
        Self::open_with_clock(config, Arc::new(SystemClock))
    }

    /// The same with clocks of the caller's choice.
    pub fn open_with_clock(
        config: Config,
        clock: Arc<dyn Clock + Sync>,
    ) -> Result<Self, ServeError> {
        let started = Instant::now();
        let certificate = Certificate::open(&config)?;
        let descriptors = descriptors::raise();
        let most = for_connections(config.max_connections, descriptors, SLACK);
        let terms = config.terms(most);
        let folder =
            |why| ServeError::Folder { folder: config.data_dir.display().to_string(), why };
        std::fs::create_dir_all(&config.data_dir).map_err(folder)?;
        let locked = lock(&config.data_dir)?;
        let segment_bytes = config.segment_bytes();
        let journal = SegmentJournal::open_with(&config.data_dir.join("journal"), segment_bytes)?;
        let disk = Folder::new(&config.data_dir.join("snapshots")).map_err(folder)?;
        let snapshots = Snapshots::new(disk).with_reserve(config.kept_from_snapshots());
        let recovered = recover(&journal, &snapshots)?;
        for damaged in &recovered.passed_over {
            tracing::warn!(%damaged, "a snapshot was passed over; the state is whole without it");
        }
        snapshots.tidy(&recovered.passed_over).map_err(folder)?;
        tracing::info!(
            events = recovered.state.last_event(),
            from_snapshot = recovered.snapshot_event,
            apps = recovered.state.apps().len(),
            seconds = started.elapsed().as_secs_f64(),
            "state recovered"
        );
        let machine = |why: String| ServeError::Machine(std::io::Error::other(why));
        let rng = ChaCha12Rng::try_from_rng(&mut SysRng).map_err(|why| machine(why.to_string()))?;
        let metrics = recorder().ok_or_else(|| machine("metrics cannot be set up".to_owned()))?;
        let engine = Engine::new(recovered.state, config.limits(), rng);
        let options = config.options();
        let (listener, address) = bind(&config)?;
        let reader = journal.reader();
        let journal = Box::new(journal);
        let runtime = Runtime::start(engine, journal, snapshots, Box::new(clock), options)
            .map_err(ServeError::Machine)?;
        let (journal, folder) = (reader, locked);
        let (demo, room) = (false, Arc::new(MachineRoom(config.data_dir.clone())));
        Ok(Self {
            listener,
            address,
            config,
            runtime,
            metrics,
            journal,
            room,
            certificate,
            terms,
            folder,
            demo,
        })
    }

    /// Users that are made up come as soon as it serves, and the page says so.
    pub fn with_demo(self) -> Self {
        Self { demo: true, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What requests are sent to, past HTTP.
    pub fn engine(&self) -> Handle {
        self.runtime.handle()
    }

    /// Serves until `stop` is done, then answers what is under way, writes a snapshot and ends.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        self.serve_routes(router, stop).await
    }

    /// The same with routes of the caller's choice.
    pub async fn serve_routes(
        self,
        routes: fn(Arc<Service>) -> Router,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self {
            listener,
            config,
            runtime,
            metrics,
            journal,
            room,
            certificate,
            terms,
            folder,
            demo,
            ..
        } = self;
        let engine = runtime.handle();
        let housekeeper = Housekeeper {
            room,
            journal: journal.clone(),
            engine: engine.clone(),
            terms: Keep::of(&config),
        };
        let housekeeper = tokio::spawn(housekeeper.run());
        let service = Service::new(
            engine.clone(),
            vec![Arc::new(journal)],
            config.clone(),
            metrics.clone(),
            demo,
        );
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Machine)?;
        let visitors = demo.then(|| tokio::spawn(crate::demo::run(engine.clone())));
        let upkeep = tokio::spawn(keep_up(metrics, service.clone()));
        let files = (certificate.clone(), config.clone(), service.clone());
        let reload = tokio::spawn(reload_on_hangup(files.0, files.1, files.2));
        let stop = stop_when(stop, engine.clone(), Duration::from_millis(config.shutdown_ms));
        connections::serve(listener, routes(service), certificate, terms, stop).await;
        upkeep.abort();
        housekeeper.abort();
        // What it is doing to the journal ends before the journal does.
        let _ = housekeeper.await;
        reload.abort();
        if let Some(visitors) = visitors {
            visitors.abort();
        }
        let stopped = tokio::task::spawn_blocking(move || runtime.stop()).await;
        drop(folder);
        stopped.map_err(|why| ServeError::Machine(std::io::Error::other(why)))?;
        engine.failure().map_or(Ok(()), |why| Err(ServeError::Ended { why }))
    }
}

impl Config {
    /// How large a file of the journal becomes: a small part of all that may be kept of it.
    fn segment_bytes(&self) -> u64 {
        match self.journal_max_bytes {
            0 => SEGMENT_BYTES,
            most => (most / 16).clamp(LEAST_SEGMENT_BYTES, SEGMENT_BYTES),
        }
    }

    /// Bytes of the disk that snapshots leave to the journal. Where fewer than twice as many are free no reward is taken any more, so
    /// that the journal needs little: no snapshot makes it fail.
    fn kept_from_snapshots(&self) -> u64 {
        (self.min_free_disk_bytes / 4).max(LEAST_KEPT_FROM_SNAPSHOTS)
    }

    /// How many connections there may be, of `most`, and how long they may be silent.
    fn terms(&self, most: usize) -> Terms {
        let patience = Patience {
            first_byte: Duration::from_millis(self.first_byte_timeout_ms),
            head: Duration::from_millis(self.header_timeout_ms),
            idle: Duration::from_millis(self.idle_timeout_ms),
        };
        Terms { most, most_per_address: self.max_connections_per_address, patience }
    }
}

/// The threads that read requests and write answers, as many as the machine has cores.
pub fn request_threads() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(|| priority::lower_priority(priority::REQUESTS))
        .enable_all()
        .build()
}

/// Waits until the service is asked to stop, or cannot go on; tells how long requests under way may
/// take.
async fn stop_when(stop: impl Future<Output = ()>, engine: Handle, patience: Duration) -> Duration {
    tokio::select! {
        () = stop => {
            tracing::info!("stopping: requests under way are answered, new ones refused");
            engine.stop_taking();
            patience
        }
        why = engine.ended() => {
            // Whoever watches over this process starts it again: only that repairs anything.
            tracing::error!(why, "the service ends, because it cannot go on");
            tokio::time::sleep(LAST_WORDS).await;
            patience.min(LAST_WORDS)
        }
    }
}

/// Takes a folder for this process alone, as long as the file is open.
pub(crate) fn lock(folder: &Path) -> Result<File, ServeError> {
    let name = || folder.display().to_string();
    let fails = |why| ServeError::Folder { folder: name(), why };
    let file = File::open(folder).map_err(fails)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServeError::Served { folder: name() }),
        Err(TryLockError::Error(why)) => Err(fails(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::router;
    use crate::journal::faulty::{Fault, FaultyJournal};
    use crate::journal::memory::{MemoryDisk, MemoryJournal};
    use crate::snapshot::disk::MemoryFolder;
    use crate::state::State;

    /// A supervisor starts again what ends, and only that: a service that cannot go on must end.
    #[test]
    fn a_journal_that_fails_is_told_and_ends_the_service_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let listen = "127.0.0.1:0".to_owned();
        let config = Config { data_dir: folder.path().into(), listen, ..Config::default() };
        let mut server = Server::open(config.clone()).unwrap();
        let url = format!("http://{}", server.address());
        let engine =
            Engine::new(State::default(), config.limits(), ChaCha12Rng::from_seed([1; 32]));
        let journal = MemoryJournal::open(&MemoryDisk::default()).unwrap();
        let journal = Box::new(FaultyJournal::new(journal, 2, Fault::Before));
        let snapshots = Snapshots::new(MemoryFolder::default());
        let (clock, options) = (Box::new(SystemClock), config.options());
        let faulty = Runtime::start(engine, journal, snapshots, clock, options).unwrap();
        std::mem::replace(&mut server.runtime, faulty).stop();
        let serving = std::thread::spawn(move || {
            let never = std::future::pending();
            request_threads().unwrap().block_on(server.serve_routes(router, never))
        });
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(config);
        let create = |name: &str| {
            let body = format!("{{\"name\": \"{name}\", \"dim\": 2}}");
            let json = ("content-type", "application/json");
            let asked = agent.post(format!("{url}/v1/apps")).header(json.0, json.1).send(&body);
            asked.unwrap().status().as_u16()
        };
        assert_eq!(agent.get(format!("{url}/healthz")).call().unwrap().status().as_u16(), 200);
        assert_eq!(create("good"), 201);
        assert_eq!(create("bad"), 503);
        let mut told = agent.get(format!("{url}/healthz")).call().unwrap();
        let said = told.body_mut().read_to_string().unwrap();
        assert_eq!(told.status().as_u16(), 503);
        assert!(said.contains("unwell") && said.contains("injected fault"), "{said}");
        let ended = serving.join().unwrap();
        let why = ended.err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("cannot go on") && why.contains("injected fault"), "{why}");
    }
}
