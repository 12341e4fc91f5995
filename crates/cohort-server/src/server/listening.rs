//! Where does it listen, and what is read anew while it does?

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;

use super::connections::{self, SLACK, Terms};
use super::descriptors::{self, for_connections};
use super::error::ServeError;
use super::telemetry::recorder;
use super::tls::Certificate;
use crate::config::Config;
use crate::http::Service;

/// Connections that may wait to be taken.
#[cfg(unix)]
const BACKLOG: i32 = 4096;

/// Listens where it is configured.
pub(super) fn bind(config: &Config) -> Result<(TcpListener, SocketAddr), ServeError> {
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

/// Reads the certificate anew when the process is told that its configuration has changed.
pub(super) async fn reload_on_hangup(
    certificate: Option<Certificate>,
    config: Config,
    service: Arc<Service>,
) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    while hangups.recv().await.is_some() {
        service.reload_admin_keys();
        match certificate.as_ref().map_or(Ok(()), |certificate| certificate.reload(&config)) {
            Ok(()) => {
                let what =
                    if certificate.is_some() { "certificate read anew" } else { "files read anew" };
                tracing::info!(target: "cohort_server::audit", who = "SIGHUP", what, "changed");
            }
            Err(why) => tracing::error!(%why, "the certificate stays as it was"),
        }
    }
}

/// Histograms collect numbers until somebody sorts them in, and keys may be changed.
pub(super) async fn keep_up(metrics: PrometheusHandle, service: Arc<Service>) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        metrics.run_upkeep();
        service.reload_admin_keys();
    }
}
