//! The connection to NATS, and its streams as [`Log`]s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::context::{Context, ContextBuilder, PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType,
};
use async_nats::{Client, ConnectOptions, ServerAddr};
use futures_util::StreamExt;

use super::log::{Bounds, Log, NotAcknowledged, Unreachable, Visit};
use crate::journal::JournalError;

/// How long an acknowledgement is waited for before it is looked after.
const ACK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a scan waits for the next message before the leader is asked for it.
const SCAN_TIMEOUT: Duration = Duration::from_secs(3);
/// How often who waits for an answer has servers asked that give none: each time takes up to [`ACK_TIMEOUT`].
const ATTEMPTS: u32 = 4;
/// What a message has beside its payload: headers that say what is expected.
const HEADER_BYTES: usize = 4096;
/// Frames are cut into messages of no more bytes than this, also where servers would take more.
const MOST_BYTES: usize = 1 << 20;

/// How NATS is reached.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// `nats://HOST:PORT`, several with commas.
    pub servers: String,
    /// A credentials file; none if empty.
    pub credentials: String,
    /// Certificates of authorities beside the system's; none if empty.
    pub tls_ca: String,
    /// A client certificate; none if empty.
    pub tls_cert: String,
    /// Its key.
    pub tls_key: String,
    /// What all names of streams and subjects begin with.
    pub prefix: String,
}

/// Why NATS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A setting is not what it should be.
    #[error("{0}")]
    Setting(String),
    /// No server answers.
    #[error("none of the NATS servers {servers} can be reached: {why}")]
    Connect {
        /// The servers.
        servers: String,
        /// What the client says.
        why: String,
    },
    /// JetStream refuses.
    #[error("JetStream cannot {action}: {why}")]
    JetStream {
        /// What was asked.
        action: String,
        /// What it says.
        why: String,
    },
    /// The machine refuses.
    #[error("the machine refuses what NATS needs: {0}")]
    Machine(#[from] std::io::Error),
}

impl NatsError {
    pub(super) fn jetstream(action: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::JetStream { action: action.into(), why: why.to_string() }
    }
}

/// The threads on which the client runs. They end with the last connection.
struct Threads(Option<tokio::runtime::Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // A runtime must not be waited for on a thread of another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection. Clones are the same one.
#[derive(Clone)]
pub struct Nats {
    threads: Arc<Threads>,
    client: Client,
    context: Context,
    prefix: String,
}

impl Nats {
    /// Connects.
    pub fn connect(options: &NatsOptions, name: &str) -> Result<Self, NatsError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("nats")
            .enable_all()
            .build()?;
        let servers = options.servers.split(',').map(|server| {
            let server = server.trim();
            server.parse::<ServerAddr>().map_err(|why| {
                NatsError::Setting(format!(
                    "nats: `{server}` is no address of a server ({why}); expected nats://HOST:PORT"
                ))
            })
        });
        let servers: Vec<ServerAddr> = servers.collect::<Result<_, _>>()?;
        let connect = options.connect_options(name)?.connect(servers);
        let client = runtime.block_on(connect).map_err(|why| NatsError::Connect {
            servers: options.servers.clone(),
            why: why.to_string(),
        })?;
        // The context has a task of its own.
        let entered = runtime.enter();
        let context = ContextBuilder::new()
            .timeout(ACK_TIMEOUT)
            .ack_timeout(ACK_TIMEOUT)
            .max_ack_inflight(1 << 16)
            .build(client.clone());
        drop(entered);
        let threads = Arc::new(Threads(Some(runtime)));
        Ok(Self { threads, client, context, prefix: options.prefix.clone() })
    }

    /// Runs something on the client's threads and waits for it. Not to be called on one of them.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime().block_on(work)
    }

    /// The client's threads.
    pub fn runtime(&self) -> tokio::runtime::Handle {
        let runtime = self.threads.0.as_ref();
        runtime.expect("the runtime is there until it is dropped").handle().clone()
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// JetStream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// A name of this cluster, `PREFIX-NAME`.
    pub fn named(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// A subject of this cluster, `PREFIX.NAME`.
    pub fn subject(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// A stream of this cluster, made where it is not there, on so many servers.
    pub fn open_log(&self, name: &str, replicas: usize) -> Result<NatsLog, NatsError> {
        let log = self.log(name);
        let config = Config {
            name: log.stream.clone(),
            subjects: vec![log.subject.clone()],
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            // What does not fit is refused, never what was there before.
            discard: DiscardPolicy::New,
            num_replicas: replicas,
            allow_direct: false,
            deny_delete: true,
            ..Config::default()
        };
        let made = self.wait(self.context.get_or_create_stream(config));
        let action = format!("make the stream {} on {replicas} servers", log.stream);
        made.map_err(|why| NatsError::jetstream(action, why))?;
        Ok(log)
    }

    /// A stream that is there.
    pub fn log(&self, name: &str) -> NatsLog {
        let most = self.client.server_info().max_payload.min(MOST_BYTES);
        NatsLog {
            nats: self.clone(),
            stream: self.named(name),
            subject: self.subject(name),
            most: most.saturating_sub(HEADER_BYTES).max(1024),
            stop: Arc::default(),
            attempts: None,
        }
    }
}

impl NatsOptions {
    fn connect_options(&self, name: &str) -> Result<ConnectOptions, NatsError> {
        let cannot = |key: &str, file: &str, why: &dyn std::fmt::Display| {
            NatsError::Setting(format!("{key} {file} cannot be used: {why}"))
        };
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(Duration::from_secs(3))
            .ping_interval(Duration::from_secs(5))
            .request_timeout(Some(ACK_TIMEOUT))
            .reconnect_delay_callback(|attempts| {
                Duration::from_millis((20 << attempts.min(5)).min(500))
            });
        if !self.credentials.is_empty() {
            let file = &self.credentials;
            let read = std::fs::read_to_string(file)
                .map_err(|why| cannot("nats_credentials", file, &why))?;
            options =
                options.credentials(&read).map_err(|why| cannot("nats_credentials", file, &why))?;
        }
        if !self.tls_ca.is_empty() {
            options = options.add_root_certificates(self.tls_ca.clone().into()).require_tls(true);
        }
        match (self.tls_cert.is_empty(), self.tls_key.is_empty()) {
            (true, true) => Ok(options),
            (false, false) => {
                let (cert, key) = (self.tls_cert.clone().into(), self.tls_key.clone().into());
                Ok(options.add_client_certificate(cert, key).require_tls(true))
            }
            _ => Err(NatsError::Setting(
                "nats_tls_cert and nats_tls_key belong together: set both".to_owned(),
            )),
        }
    }
}

/// A stream of JetStream.
#[derive(Clone)]
pub struct NatsLog {
    nats: Nats,
    stream: String,
    subject: String,
    most: usize,
    /// Nobody wants answers any more.
    stop: Arc<AtomicBool>,
    /// How often servers that do not answer are asked again; for ever if none is said.
    attempts: Option<u32>,
}

impl NatsLog {
    /// What is set when nobody wants answers any more: attempts end then.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// The same for somebody who waits for the answer: servers that do not answer are not asked for ever.
    pub fn impatient(mut self) -> Self {
        self.attempts = Some(ATTEMPTS);
        self
    }

    /// How many bytes it takes on each server.
    pub fn bytes(&self) -> Result<u64, Unreachable> {
        self.nats.wait(async {
            let stream = self.nats.context.get_stream_no_info(&self.stream).await;
            let info = stream.map_err(unreachable_of)?.get_info().await.map_err(unreachable_of)?;
            Ok(info.state.bytes)
        })
    }

    /// Whether a refusal says that there is no such stream.
    fn is_gone(why: &(dyn std::error::Error + 'static)) -> bool {
        let told = why.source().and_then(|why| why.downcast_ref::<async_nats::jetstream::Error>());
        told.is_some_and(|why| why.error_code() == ErrorCode::STREAM_NOT_FOUND)
    }

    async fn scan_into(
        &self,
        (from, to): (u64, u64),
        visit: &mut Visit<'_>,
    ) -> Result<(), JournalError> {
        let fails = |why: String| super::log::store(&self.stream, "be read", why);
        let stream = self.nats.context.get_stream_no_info(&self.stream).await;
        let stream = stream.map_err(|why| fails(why.to_string()))?;
        let config = OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ..OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        let mut messages = consumer
            .map_err(|why| fails(why.to_string()))?
            .messages()
            .await
            .map_err(|why| fails(why.to_string()))?;
        loop {
            let next = tokio::time::timeout(SCAN_TIMEOUT, messages.next()).await;
            let message = next.map_err(|_| fails("no message came".to_owned()))?;
            let message = message.ok_or_else(|| fails("it ended".to_owned()))?;
            let message = message.map_err(|why| fails(why.to_string()))?;
            let sequence = message.info().map_err(|why| fails(why.to_string()))?.stream_sequence;
            if sequence > to {
                return Ok(());
            }
            visit(sequence, &message.payload)?;
            if sequence == to {
                return Ok(());
            }
        }
    }
}

fn unreachable_of(why: impl std::fmt::Display) -> Unreachable {
    Unreachable(why.to_string())
}

impl Log for NatsLog {
    type Ticket = Result<PublishAckFuture, NotAcknowledged>;

    fn publish(&self, after: u64, bytes: &[u8]) -> Self::Ticket {
        let message = PublishMessage::build()
            .payload(bytes.to_vec().into())
            .expected_last_sequence(after)
            .expected_stream(&self.stream);
        let sent = self.nats.wait(self.nats.context.send_publish(self.subject.clone(), message));
        sent.map_err(|_| NotAcknowledged::Unknown)
    }

    fn wait(&self, ticket: Self::Ticket) -> Result<u64, NotAcknowledged> {
        let acknowledged = self.nats.wait(async {
            ticket?.await.map_err(|why| match why.kind() {
                PublishErrorKind::WrongLastSequence => NotAcknowledged::WrongSequence,
                _ => NotAcknowledged::Unknown,
            })
        })?;
        Ok(acknowledged.sequence)
    }

    fn get(&self, sequence: u64) -> Result<Option<Vec<u8>>, Unreachable> {
        self.nats.wait(async {
            let stream = self.nats.context.get_stream_no_info(&self.stream).await;
            match stream.map_err(unreachable_of)?.get_raw_message(sequence).await {
                Ok(message) => Ok(Some(message.payload.to_vec())),
                Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(why) => match why.kind() {
                    // A stream that was removed has nothing; whoever wrote it finds that out by its bounds.
                    LastRawMessageErrorKind::JetStream(told)
                        if told.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        Ok(None)
                    }
                    _ => Err(unreachable_of(why)),
                },
            }
        })
    }

    fn bounds(&self) -> Result<Bounds, Unreachable> {
        self.nats.wait(async {
            let stream = self.nats.context.get_stream_no_info(&self.stream).await;
            let info = match stream.map_err(unreachable_of)?.get_info().await {
                Err(why) if Self::is_gone(&why) => return Ok(Bounds { first: 1, last: 0 }),
                info => info.map_err(unreachable_of)?,
            };
            let state = info.state;
            Ok(match state.messages {
                0 => Bounds { first: state.last_sequence + 1, last: state.last_sequence },
                _ => Bounds { first: state.first_sequence, last: state.last_sequence },
            })
        })
    }

    fn scan(&self, from: u64, to: u64, visit: &mut Visit) -> Result<(), JournalError> {
        self.nats.wait(self.scan_into((from, to), visit))
    }

    fn purge(&self, before: u64) -> Result<(), Unreachable> {
        self.nats.wait(async {
            let stream = self.nats.context.get_stream_no_info(&self.stream).await;
            let stream = stream.map_err(unreachable_of)?;
            stream.purge().sequence(before).await.map(|_| ()).map_err(unreachable_of)
        })
    }

    fn pause(&self, attempt: u32) -> bool {
        let enough = self.attempts.is_some_and(|most| attempt >= most);
        if self.stop.load(Ordering::Relaxed) || enough {
            return false;
        }
        std::thread::sleep(Duration::from_millis((5 << attempt.min(7)).min(500)));
        !self.stop.load(Ordering::Relaxed)
    }

    fn most_bytes(&self) -> usize {
        self.most
    }

    fn name(&self) -> &str {
        &self.stream
    }

    fn again(&self) -> Box<dyn Log<Ticket = Self::Ticket>> {
        Box::new(self.clone())
    }
}
