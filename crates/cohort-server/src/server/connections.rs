//! Who is connected, and who has to go when there is no room?
//!
//! There is a limit on connections, and one for each address. Where it is reached the newcomer gets
//! the place of whoever has said nothing for longest: first of those that never asked anything, then
//! of those between two requests. Only where all others are being served the newcomer is
//! answered with 503 and `Retry-After`. So a crowd of silent connections costs nobody a place.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::timed::{Patience, Timed};
use super::tls::Certificate;
use super::unread::Watched;

/// Descriptors for connections that are on their way out when all places are taken.
pub(super) const SLACK: usize = 32;
/// How long somebody who was answered at the door may take to read it.
const GOODBYE: Duration = Duration::from_millis(250);
/// A connection between two requests may be ended for a newcomer after so long.
const RESTING: Duration = Duration::from_secs(5);
/// How long taking connections rests after the machine refused one.
const PAUSE: Duration = Duration::from_millis(50);

/// How many there may be, and how long they may be silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// All together.
    pub most: usize,
    /// Of one address.
    pub most_per_address: usize,
    /// Silence.
    pub patience: Patience,
}

/// What is known of one connection.
#[derive(Debug, Default)]
pub(super) struct Line {
    under_way: AtomicUsize,
    /// How many requests it ever began.
    begun: AtomicU64,
    /// Whether several requests share it, so that bytes need not be the head of one (HTTP/2).
    shared: AtomicBool,
    /// Whether a request was answered before all of it had come.
    unread: AtomicBool,
    /// When something last moved, in milliseconds since the first connection.
    moved_ms: AtomicU64,
    end: Notify,
}

/// A request under way.
pub(super) struct UnderWay(Arc<Line>);

impl Line {
    /// A request begins; it ends when what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>, shared: bool) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.shared.fetch_or(shared, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// How many requests it ever began.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether bytes between requests are the head of the next one.
    pub(super) fn reads_heads(&self) -> bool {
        !self.shared.load(Ordering::Relaxed)
    }

    /// A request was answered before all of it had come.
    pub(super) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Whether its client may still be sending a request that was answered.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed) && self.reads_heads()
    }

    /// Something moved.
    pub(super) fn moved(&self) {
        self.moved_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Who goes first when somebody must: `None` for nobody.
    fn rank(&self, now_ms: u64) -> Option<(bool, u64)> {
        let (asked, moved_ms) = (self.begun() > 0, self.moved_ms.load(Ordering::Relaxed));
        let rests = now_ms.saturating_sub(moved_ms) >= RESTING.as_millis() as u64;
        (!self.is_busy() && (!asked || rests)).then_some((asked, moved_ms))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.moved();
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// All connections.
#[derive(Default)]
struct Table {
    next: u64,
    lines: HashMap<u64, (IpAddr, Arc<Line>)>,
    by_address: HashMap<IpAddr, usize>,
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Arc<Line>> {
        let (address, line) = self.lines.remove(&number)?;
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        metrics::gauge!("cohort_connections").set(self.lines.len() as f64);
        Some(line)
    }

    /// Ends the connection that has been silent for longest, of one address or of all.
    fn make_room(&mut self, of: Option<IpAddr>, now_ms: u64) -> bool {
        let theirs = self.lines.iter();
        let theirs = theirs.filter(|(_, (address, _))| of.is_none_or(|of| of == *address));
        let ranked = theirs.filter_map(|(number, (_, line))| Some((line.rank(now_ms)?, *number)));
        let Some((_, number)) = ranked.min() else { return false };
        if let Some(line) = self.remove(number) {
            line.end.notify_one();
            metrics::counter!("cohort_connections_ended_total", "why" => "room").increment(1);
        }
        true
    }
}

/// A place at the table, free again when dropped.
struct Place {
    number: u64,
    line: Arc<Line>,
    table: Arc<Mutex<Table>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.table).remove(self.number);
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a newcomer a place, that of somebody else if it must be.
fn admit(table: &Arc<Mutex<Table>>, address: IpAddr, terms: &Terms) -> Option<Place> {
    let mut known = locked(table);
    let theirs = known.by_address.get(&address).copied().unwrap_or_default();
    if theirs >= terms.most_per_address && !known.make_room(Some(address), now_ms()) {
        return None;
    }
    if known.lines.len() >= terms.most && !known.make_room(None, now_ms()) {
        return None;
    }
    known.next += 1;
    let (number, line) = (known.next, Arc::<Line>::default());
    line.moved();
    known.lines.insert(number, (address, line.clone()));
    *known.by_address.entry(address).or_default() += 1;
    metrics::gauge!("cohort_connections").set(known.lines.len() as f64);
    Some(Place { number, line, table: table.clone() })
}

/// Takes connections and answers what they ask until `stop` is done, then lets what is under way
/// end, for as long as `stop` says.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    certificate: Option<Certificate>,
    terms: Terms,
    stop: impl Future<Output = Duration>,
) {
    let table = Arc::<Mutex<Table>>::default();
    let places = Arc::new(Semaphore::new(terms.most + SLACK));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    let builder = Arc::new(builder);
    let graceful = GracefulShutdown::new();
    let (cut, is_cut) = watch::channel(());
    let mut stop = std::pin::pin!(stop);
    let patience = loop {
        let taken = tokio::select! {
            patience = &mut stop => break patience,
            taken = take(&listener, &places) => taken,
        };
        let Some((stream, peer, permit)) = taken else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(place) = admit(&table, peer.ip().to_canonical(), &terms) else {
            metrics::counter!("cohort_connections_refused_total").increment(1);
            tokio::spawn(turn_away(stream, certificate.is_some(), permit));
            continue;
        };
        let connection = Connection {
            router: TowerToHyperService::new(router.clone()),
            place,
            certificate: certificate.clone(),
            builder: builder.clone(),
            patience: terms.patience,
            watcher: graceful.watcher(),
            is_cut: is_cut.clone(),
            _permit: permit,
        };
        tokio::spawn(connection.run(stream));
    };
    drop(listener);
    drop(is_cut);
    let _ = tokio::time::timeout(patience, graceful.shutdown()).await;
    let _ = cut.send(());
    // Connections that were cut let go of what they hold: the engine ends after them.
    let _ = tokio::time::timeout(Duration::from_secs(1), cut.closed()).await;
}

/// The next connection, once there is a descriptor for it.
async fn take(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, peer, permit))
        }
        Err(why) => {
            tracing::warn!(%why, "a connection could not be taken");
            None
        }
    }
}

/// Tells a newcomer that there is no room. (Before a TLS handshake nothing can be told.)
async fn turn_away(mut stream: TcpStream, tls: bool, _permit: OwnedSemaphorePermit) {
    const BODY: &str = "{\"error\":{\"code\":\"too_many_connections\",\"message\":\"all connections \
                        are in use; keep connections open and share them, or try again later\"}}";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let goodbye = async {
        if !tls && stream.write_all(answer.as_bytes()).await.is_ok() {
            let _ = stream.shutdown().await;
            // Closing with bytes unread would take the answer back.
            let mut unread = [0; 4096];
            while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
        }
    };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

/// All that one connection needs.
struct Connection {
    router: TowerToHyperService<Router>,
    place: Place,
    certificate: Option<Certificate>,
    builder: Arc<Builder<TokioExecutor>>,
    patience: Patience,
    watcher: Watcher,
    is_cut: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        let Self { router, place, certificate, builder, patience, watcher, mut is_cut, _permit } =
            self;
        let line = place.line.clone();
        let timed = Timed::new(stream, line.clone(), patience);
        let ours = line.clone();
        let served = async {
            let Some(certificate) = certificate else {
                return answer(timed, ours, router, &builder, watcher).await;
            };
            let shaken = certificate.acceptor().accept(timed);
            let shaken = tokio::time::timeout(patience.first_byte + patience.head, shaken);
            match shaken.await {
                Ok(Ok(stream)) => answer(stream, ours, router, &builder, watcher).await,
                _ => tracing::debug!("a TLS handshake failed or took too long"),
            }
        };
        tokio::select! {
            () = served => {}
            () = line.end.notified() => {}
            _ = is_cut.changed() => {}
        }
    }
}

/// Answers what is asked on one connection until it ends.
async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    line: Arc<Line>,
    router: TowerToHyperService<Router>,
    builder: &Builder<TokioExecutor>,
    watcher: Watcher,
) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let under_way = line.begin(request.version() == hyper::Version::HTTP_2);
        let answer = router.call(request.map(|body| Watched::new(body, line.clone())));
        async move {
            let answer = answer.await;
            drop(under_way);
            answer
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(why) = watcher.watch(connection).await {
        tracing::debug!(why, "a connection ended before its time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { first_byte: Duration::ZERO, head: Duration::ZERO, idle: Duration::ZERO };
    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_silent_make_room_and_those_who_are_served_never_do() {
        let table = Arc::<Mutex<Table>>::default();
        let terms = Terms { most: 3, most_per_address: 2, patience: PATIENCE };
        let mut places: Vec<_> = (0..2).map(|_| admit(&table, A, &terms).unwrap()).collect();
        let requests: Vec<_> = places.iter().map(|place| place.line.begin(false)).collect();
        assert!(admit(&table, A, &terms).is_none(), "both of this address are served");
        let silent = admit(&table, B, &terms).unwrap();
        let newcomer = admit(&table, B, &terms).unwrap();
        assert!(!locked(&table).lines.contains_key(&silent.number), "it goes for the newcomer");
        let _served = newcomer.line.begin(false);
        assert!(admit(&table, B, &terms).is_none(), "all three are served");
        drop(silent);
        assert_eq!(locked(&table).lines.len(), 3, "its place is counted once");
        drop(requests);
        assert!(!locked(&table).make_room(None, now_ms()), "just served: not at once");
        assert!(locked(&table).make_room(Some(A), now_ms() + 5001), "but after a while");
        places.clear();
        drop(newcomer);
        let known = locked(&table);
        assert!(known.lines.is_empty() && known.by_address.is_empty());
    }
}
