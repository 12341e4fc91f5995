//! From a configuration to a running service, and back.

use std::fs::{File, TryLockError};
use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rand::SeedableRng;
use rand::rngs::SysRng;
use rand_chacha::ChaCha12Rng;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::clock::SystemClock;
use crate::config::Config;
use crate::engine::Engine;
use crate::engine::recovery::{RecoveryError, recover};
use crate::engine::runtime::{Handle, Runtime};
use crate::http::{Service, router};
use crate::journal::JournalError;
use crate::journal::fjall::{FjallJournal, Reader};
use crate::measured;
use crate::priority;
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Folder;

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
    /// The machine fails.
    #[error("the machine refuses what the service needs: {0}")]
    Machine(std::io::Error),
}

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
    tls: Option<RustlsConfig>,
    /// Held as long as the folder is used.
    folder: File,
    demo: bool,
}

impl Server {
    /// Brings the state back and listens.
    pub fn open(config: Config) -> Result<Self, ServeError> {
        let started = Instant::now();
        let tls = tls(&config)?;
        let folder =
            |why| ServeError::Folder { folder: config.data_dir.display().to_string(), why };
        std::fs::create_dir_all(&config.data_dir).map_err(folder)?;
        let locked = lock(&config.data_dir)?;
        let journal = FjallJournal::open(&config.data_dir.join("journal"))?;
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
        let reader = journal.reader();
        let journal = Box::new(journal);
        let runtime = Runtime::start(engine, journal, snapshots, Box::new(SystemClock), options)
            .map_err(ServeError::Machine)?;
        let (journal, folder) = (reader, locked);
        let demo = false;
        Ok(Self { listener, address, config, runtime, metrics, journal, tls, folder, demo })
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
        let Self { listener, config, runtime, metrics, journal, tls, folder, demo, .. } = self;
        let service =
            Service::new(runtime.handle(), journal, config.clone(), metrics.clone(), demo);
        let visitors = demo.then(|| tokio::spawn(crate::demo::run(runtime.handle())));
        let app = routes(service).into_make_service();
        let control = axum_server::Handle::new();
        let watcher = tokio::spawn(stop_when(
            stop,
            control.clone(),
            runtime.handle(),
            Duration::from_millis(config.shutdown_ms),
        ));
        let upkeep = tokio::spawn(keep_up(metrics));
        let served = match tls {
            Some(tls) => {
                let server = axum_server::from_tcp_rustls(listener, tls);
                let mut server = server.map_err(ServeError::Machine)?.handle(control);
                wait_for_heads(server.http_builder(), config.request_timeout_ms);
                server.serve(app).await
            }
            None => {
                let server = axum_server::from_tcp(listener);
                let mut server = server.map_err(ServeError::Machine)?.handle(control);
                wait_for_heads(server.http_builder(), config.request_timeout_ms);
                server.serve(app).await
            }
        };
        watcher.abort();
        upkeep.abort();
        if let Some(visitors) = visitors {
            visitors.abort();
        }
        let stopped = tokio::task::spawn_blocking(move || runtime.stop()).await;
        drop(folder);
        served.map_err(ServeError::Machine)?;
        stopped.map_err(|why| ServeError::Machine(std::io::Error::other(why)))
    }
}

/// The threads that read requests and write answers, as many as the machine has cores.
pub fn request_threads() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(|| priority::step_back(priority::REQUESTS))
        .enable_all()
        .build()
}

/// A client that sends its headers one byte a minute is not waited for.
fn wait_for_heads(builder: &mut Builder<TokioExecutor>, timeout_ms: u64) {
    let timeout = Duration::from_millis(timeout_ms);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(timeout);
}

async fn stop_when(
    stop: impl Future<Output = ()>,
    control: axum_server::Handle<SocketAddr>,
    engine: Handle,
    patience: Duration,
) {
    stop.await;
    tracing::info!("stopping: requests under way are answered, new ones refused");
    engine.stop_taking();
    control.graceful_shutdown(Some(patience));
}

/// Histograms collect numbers until somebody sorts them in.
async fn keep_up(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        metrics.run_upkeep();
    }
}

/// Takes a folder for this process alone, as long as the file is open.
fn lock(folder: &Path) -> Result<File, ServeError> {
    let name = || folder.display().to_string();
    let fails = |why| ServeError::Folder { folder: name(), why };
    let file = File::open(folder).map_err(fails)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServeError::Served { folder: name() }),
        Err(TryLockError::Error(why)) => Err(fails(why)),
    }
}

/// Reads the certificate and its key, where there are any: before anybody is told that the service
/// listens.
fn tls(config: &Config) -> Result<Option<RustlsConfig>, ServeError> {
    if config.tls_cert.as_os_str().is_empty() {
        return Ok(None);
    }
    let unusable = |key, file: &Path, why: String, expected| ServeError::Tls {
        key,
        file: file.display().to_string(),
        why,
        expected,
    };
    let bad_cert =
        |why| unusable("tls_cert", &config.tls_cert, why, "the certificate chain as a PEM file");
    let bad_key = |why| {
        unusable("tls_key", &config.tls_key, why, "the certificate's private key as a PEM file")
    };
    // Another part of the process may have chosen a provider already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chain = CertificateDer::pem_file_iter(&config.tls_cert).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|why| bad_cert(why.to_string()))?;
    if chain.is_empty() {
        return Err(bad_cert("there is no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&config.tls_key);
    let key = key.map_err(|why| bad_key(why.to_string()))?;
    let tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut tls = tls.map_err(|why| bad_key(why.to_string()))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(RustlsConfig::from_config(Arc::new(tls))))
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
    let filter = EnvFilter::new(format!("warn,cohort_server={}", config.log_level));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let _ = match config.log_format.as_str() {
        "json" => logs.json().try_init(),
        _ => logs.try_init(),
    };
}
