//! From a configuration to a running service, and back.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Server`] | how does it start, serve and stop? |
//! | `connections` | who is connected, and who has to go when there is no room? |
//! | `timed` | how long may a client be silent? |
//! | `descriptors` | how many connections may there be, so that the journal never lacks a file? |
//! | `housekeeping` | is there room, and how long is the journal kept? |
//! | `tls` | which certificate? |

mod connections;
mod descriptors;
mod housekeeping;
mod timed;
mod tls;

use std::fs::{File, TryLockError};
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha12Rng;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::recovery::{RecoveryError, recover};
use crate::engine::runtime::{Handle, Runtime};
use crate::http::{Service, router};
use crate::journal::JournalError;
use crate::journal::segments::{Reader, SEGMENT_BYTES, SegmentJournal};
use crate::measured;
use crate::priority;
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Folder;
use connections::{SLACK, Terms};
use descriptors::for_connections;
use housekeeping::{Housekeeper, Keep};
use timed::Patience;
use tls::Certificate;

/// Why the service could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        why: std::io::Error,
    },
    /// The data folder cannot be used.
    #[error("the data folder {folder} cannot be used: {why}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        why: std::io::Error,
    },
    /// Somebody else uses the data folder.
    #[error(
        "another process serves the data folder {folder}: stop that one, or set data_dir to another \
         folder"
    )]
    Served {
        /// The folder.
        folder: String,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state does not come back.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The certificate or its key cannot be used.
    #[error("{key} {file} cannot be used: {why}; expected {expected}")]
    Tls {
        /// The key of the configuration: which of both.
        key: &'static str,
        /// The file.
        file: String,
        /// Why not.
        why: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The engine or its journal failed while it served.
    #[error(
        "the service cannot go on: {why}; what was acknowledged is safe: start it again, which reads \
         what is really on the disk"
    )]
    Ended {
        /// What failed.
        why: String,
    },
    /// The cluster cannot be used.
    #[error("{why}")]
    Cluster {
        /// Why not.
        why: String,
    },
    /// The machine fails.
    #[error("the machine refuses what the service needs: {0}")]
    Machine(std::io::Error),
}

/// Segments of the journal are not made smaller.
const LEAST_SEGMENT_BYTES: u64 = 1 << 20;

/// How long callers are told that the service ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Connections that may wait to be taken.
#[cfg(unix)]
const BACKLOG: i32 = 4096;

/// A service that listens and has not begun to serve.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    config: Config,
    runtime: Runtime,
    metrics: PrometheusHandle,
    journal: Reader,
    clock: Arc<dyn Clock + Sync>,
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
        let snapshots = Snapshots::new(disk);
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
        let runtime = Runtime::start(engine, journal, snapshots, Box::new(clock.clone()), options)
            .map_err(ServeError::Machine)?;
        let (journal, folder) = (reader, locked);
        let demo = false;
        Ok(Self {
            listener,
            address,
            config,
            runtime,
            metrics,
            journal,
            clock,
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
            clock,
            certificate,
            terms,
            folder,
            demo,
            ..
        } = self;
        let engine = runtime.handle();
        let housekeeper = Housekeeper {
            folder: config.data_dir.clone(),
            journal: journal.clone(),
            engine: engine.clone(),
            clock,
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

/// Listens where it is configured.
fn bind(config: &Config) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listen = |why| ServeError::Listen { address: config.listen.clone(), why };
    let listener = TcpListener::bind(&config.listen).map_err(listen)?;
    // Clients that come all at once are queued, not turned away: the standard queue is for 128.
    #[cfg(unix)]
    rustix::net::listen(&listener, BACKLOG).map_err(|why| listen(why.into()))?;
    listener.set_nonblocking(true).map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    // A name is what the machine says it is.
    if !config.needs_keys() && !address.ip().is_loopback() {
        let why = format!("it is {}, which others can reach; set admin_key", address.ip());
        return Err(listen(std::io::Error::other(why)));
    }
    Ok((listener, address))
}

/// What a node of a cluster has in common with a single service: connections, certificates, metrics.
pub(crate) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    metrics: PrometheusHandle,
    certificate: Option<Certificate>,
    terms: Terms,
    config: Config,
}

impl Listening {
    /// Listens.
    pub(crate) fn open(config: &Config) -> Result<Self, ServeError> {
        let certificate = Certificate::open(config)?;
        let most = for_connections(config.max_connections, descriptors::raise(), SLACK);
        let (listener, address) = bind(config)?;
        let no_metrics = || std::io::Error::other("metrics cannot be set up");
        let metrics = recorder().ok_or_else(|| ServeError::Machine(no_metrics()))?;
        let (terms, config) = (config.terms(most), config.clone());
        Ok(Self { listener, address, metrics, certificate, terms, config })
    }

    /// Where.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> PrometheusHandle {
        self.metrics.clone()
    }

    /// Answers until `stop` is done, which says how long what is under way may take.
    pub(crate) async fn serve(
        self,
        router: Router,
        service: Arc<Service>,
        stop: impl Future<Output = Duration>,
    ) -> Result<(), ServeError> {
        let Self { listener, metrics, certificate, terms, config, .. } = self;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Machine)?;
        let upkeep = tokio::spawn(keep_up(metrics, service.clone()));
        let reload = tokio::spawn(reload_on_hangup(certificate.clone(), config, service));
        connections::serve(listener, router, certificate, terms, stop).await;
        upkeep.abort();
        reload.abort();
        Ok(())
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

/// Reads the certificate anew when the process is told that its configuration has changed.
async fn reload_on_hangup(certificate: Option<Certificate>, config: Config, service: Arc<Service>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    while hangups.recv().await.is_some() {
        service.reload_admin_keys();
        match certificate.as_ref().map_or(Ok(()), |certificate| certificate.reload(&config)) {
            Ok(()) => tracing::info!("files were read anew"),
            Err(why) => tracing::error!(%why, "the certificate stays as it was"),
        }
    }
}

/// Histograms collect numbers until somebody sorts them in, and keys may be changed.
async fn keep_up(metrics: PrometheusHandle, service: Arc<Service>) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        metrics.run_upkeep();
        service.reload_admin_keys();
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

/// The recorder of all metrics of this process, however many services it runs.
fn recorder() -> Option<PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    const SECONDS: &[f64] =
        &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
    const EVENTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0];
    let set_up = || {
        use metrics_exporter_prometheus::Matcher::Full;
        let groups = Full("cohort_journal_group_events".to_owned());
        let builder = PrometheusBuilder::new().set_buckets(SECONDS).ok()?;
        let handle =
            builder.set_buckets_for_metric(groups, EVENTS).ok()?.install_recorder().ok()?;
        measured::describe();
        Some(handle)
    };
    RECORDER.get_or_init(set_up).clone()
}

/// Sends logs to standard error in the configured form. Only the first call in a process counts.
pub fn log(config: &Config) {
    use tracing_subscriber::EnvFilter;
    // Who changed what is always told.
    let levels = format!("warn,cohort_server={},cohort_server::audit=info", config.log_level);
    let filter = EnvFilter::new(levels);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let _ = match config.log_format.as_str() {
        "json" => logs.json().try_init(),
        _ => logs.try_init(),
    };
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
