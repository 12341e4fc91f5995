//! How the service is asked: thin, one file a subject. Bodies are read and checked here, what they
//! mean is the engine's business.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `access` | who may ask, and how often? |
//! | `body` | is the body what it should be? |
//! | `large` | where is JSON of megabytes read and written? |
//! | `path` | can the names in the address be read? |
//! | `error` | how is a refusal told? |
//! | `apps`, `keys`, `learning`, `items`, `decide`, `reward` | what can be asked? |
//! | `history` | what was decided elsewhere? |
//! | `slate` | what in several places at once? |
//! | `filter`, `strict` | which items are meant; is the JSON in order? |
//! | `users` | what is known of one, and how is that forgotten? |
//! | `features` | which features were seen, and which matter? |
//! | `insight`, `log` | what does it know, and what is in its log? |
//! | `personalizer` | how do clients of Azure Personalizer ask? |
//! | `page` | what does the page consist of? |
//! | `described`, `schemas` | what does the description say beyond the types? |
//! | `operations` | is it well, what does it count, how is it called? |
//! | `measure` | how many requests came, how long did they take? |

mod access;
mod apps;
mod body;
mod decide;
mod described;
mod downloads;
mod error;
mod features;
mod filter;
mod fits;
mod history;
mod insight;
mod items;
mod keys;
mod large;
mod learning;
mod log;
mod measure;
pub(crate) mod operations;
mod page;
mod path;
mod personalizer;
mod reward;
mod schemas;
mod slate;
mod strict;
mod users;
mod wanted;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::PrometheusHandle;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi, openapi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::cluster::front::Front;
use crate::config::Config;
use crate::engine::runtime::Handle;
use crate::insight::hub::Hub;
use crate::journal::EventReader;
pub(crate) use access::AdminKeys;
use access::{Hosts, Rates};
pub(crate) use error::ApiError;
pub(crate) use large::receive;
use measure::Measures;
pub(crate) use personalizer::{dialect_user, in_dialect, refused_at_front};

/// What every handler can use.
pub struct Service {
    engine: Handle,
    config: Config,
    admin: Arc<AdminKeys>,
    rates: Rates,
    metrics: PrometheusHandle,
    openapi: std::sync::OnceLock<String>,
    hub: Hub,
    /// The journal; in a cluster those of all partitions.
    journals: Vec<Arc<dyn EventReader>>,
    /// Logs that are being read: each takes a thread, of which there are not many.
    downloads: downloads::Downloads,
    demo: bool,
    /// Why the admin's keys could not be read when that was last tried.
    keys_trouble: Mutex<Option<String>>,
}

/// As handlers get it.
type Shared = State<Arc<Service>>;

impl Service {
    /// A service on a running engine.
    pub fn new(
        engine: Handle,
        journals: Vec<Arc<dyn EventReader>>,
        config: Config,
        metrics: PrometheusHandle,
        demo: bool,
    ) -> Arc<Self> {
        let admin = Arc::new(AdminKeys::of(&config));
        Self::with_keys(engine, journals, config, metrics, demo, admin)
    }

    /// The same with keys that others share: where they are read anew, they are for all.
    pub(crate) fn with_keys(
        engine: Handle,
        journals: Vec<Arc<dyn EventReader>>,
        config: Config,
        metrics: PrometheusHandle,
        demo: bool,
        admin: Arc<AdminKeys>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            admin,
            rates: Rates::new(config.rate_per_second),
            metrics,
            config,
            openapi: std::sync::OnceLock::new(),
            hub: Hub::default(),
            journals,
            downloads: downloads::Downloads::default(),
            demo,
            keys_trouble: Mutex::default(),
        })
    }
}

impl Service {
    /// The journals, to be read.
    fn readers(journals: &[Arc<dyn EventReader>]) -> Vec<&dyn EventReader> {
        journals.iter().map(|journal| &**journal).collect()
    }

    /// Reads the admin's keys anew, so that they can be changed while the service runs. Where the file
    /// cannot be used those before stay.
    pub(crate) fn reload_admin_keys(&self) {
        match self.config.admin_keys() {
            Ok(keys) => {
                self.set_keys_trouble(None);
                if self.admin.replace(keys) {
                    tracing::info!(target: "cohort_server::audit", "the admin's keys were read anew");
                }
            }
            Err(why) => self.set_keys_trouble(Some(why.to_string())),
        }
    }

    /// Says why the admin's keys cannot be read, once: they are tried every few seconds, for ever.
    fn set_keys_trouble(&self, why: Option<String>) {
        let mut known = self.keys_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = why.as_ref().filter(|why| known.as_ref() != Some(*why)) {
            tracing::error!(why, "the admin's keys stay as they were");
        }
        *known = why;
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "cohort",
        description = "Ask what to show a user, tell how the user answered; it learns across users."
    ),
    modifiers(&Keys),
    security(("app_key" = []), ("admin_key" = []))
)]
struct Description;

/// The keys that requests need, where the service has an `admin_key`. An operation that does not say
/// otherwise takes either.
struct Keys;

impl Modify for Keys {
    fn modify(&self, api: &mut openapi::OpenApi) {
        let key = |of: &str| {
            let meaning = format!("{of}; needed where the service has an admin_key");
            let bearer =
                HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(meaning));
            SecurityScheme::Http(bearer.build())
        };
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("app_key", key("A key of the app"));
        components.add_security_scheme("admin_key", key("The admin's key"));
    }
}

/// Every route, and its description as OpenAPI.
fn described_routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(apps::list, apps::create))
        .routes(routes!(apps::show, apps::change, apps::delete))
        .routes(routes!(keys::add_key, keys::list_keys))
        .routes(routes!(keys::remove_key))
        .routes(routes!(items::list, items::put))
        .routes(routes!(items::remove))
        .routes(routes!(decide::decide))
        .routes(routes!(decide::decide_batch))
        .routes(routes!(history::history))
        .routes(routes!(slate::slate))
        .routes(routes!(slate::slate_rewards))
        .routes(routes!(decide::activate))
        .routes(routes!(decide::show))
        .routes(routes!(reward::reward))
        .routes(routes!(reward::rewards))
        .routes(routes!(insight::status))
        .routes(routes!(insight::insight))
        .routes(routes!(insight::live))
        .routes(routes!(insight::user, users::forget))
        .routes(routes!(users::export))
        .routes(routes!(features::features))
        .routes(routes!(features::features_of_user))
        .routes(routes!(features::features_of_cohort))
        .routes(routes!(log::csv))
        .routes(routes!(log::parquet))
        .routes(routes!(operations::healthy))
        .routes(routes!(operations::ready))
        .routes(routes!(operations::cluster))
        .routes(routes!(operations::drain))
        .routes(routes!(operations::metrics))
}

/// The description of the interface, OpenAPI 3.1, as JSON.
pub fn openapi() -> String {
    let (_, api) = described_routes().split_for_parts();
    described::finish(&api, &Config::default())
}

/// Everything that can be asked.
pub fn router(service: Arc<Service>) -> Router {
    router_with(Router::new(), service)
}

/// Everything that can be asked, and more, which is measured and limited in the same way.
fn router_with(more: Router<Arc<Service>>, service: Arc<Service>) -> Router {
    layered(more, service, |router| router)
}

/// What a partition of a cluster is asked by nodes, which have measured it already.
pub(crate) fn partition_router(service: Arc<Service>) -> Router {
    let more = Router::new()
        .route("/internal/outcomes/{app}", axum::routing::get(insight::outcomes))
        .route("/internal/fit/{app}", axum::routing::post(fits::answer))
        .route("/internal/digest", axum::routing::get(operations::digest))
        .route("/internal/knows/{app}/{id}", axum::routing::get(decide::knows));
    let (routes, _) = described_routes().split_for_parts();
    // The front has looked at the host, the body's size and the time, and adds headers to the answer.
    let router = routes
        .merge(more)
        .merge(personalizer::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(panicked));
    router.with_state(service)
}

/// What a node of a cluster is asked: most of it is for partitions.
pub(crate) fn cluster_router(front: Arc<Front>, service: Arc<Service>) -> Router {
    let dispatched = |router: Router<Arc<Service>>| {
        router.layer(middleware::from_fn_with_state(front, crate::cluster::front::dispatch))
    };
    layered(Router::new(), service, dispatched)
}

fn layered(
    more: Router<Arc<Service>>,
    service: Arc<Service>,
    wrap: impl FnOnce(Router<Arc<Service>>) -> Router<Arc<Service>>,
) -> Router {
    let (routes, api) = described_routes().split_for_parts();
    let _ = service.openapi.set(described::finish(&api, &service.config));
    let timeout = Duration::from_millis(service.config.request_timeout_ms);
    let router = routes
        .merge(more)
        .merge(operations::routes())
        .merge(personalizer::routes())
        .merge(page::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method);
    let router = wrap(router)
        .layer(DefaultBodyLimit::max(service.config.body_bytes))
        .layer(middleware::from_fn_with_state(timeout, limit_time));
    let router = match service.config.needs_keys() {
        true => router,
        false => {
            let hosts = Arc::new(Hosts::new(&service.config.listen));
            router.layer(middleware::from_fn_with_state(hosts, access::check_host))
        }
    };
    // The last is the outermost: what the others refuse is measured too.
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(personalizer::translate))
        .layer(middleware::map_response(add_headers))
        .layer(middleware::from_fn_with_state(Arc::<Measures>::default(), measure::measure))
        .with_state(service)
}

/// What a browser must not do with any answer: guess its kind, show it inside another page, tell
/// others where it came from, keep it. Pages that may more say so themselves.
async fn add_headers(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, HeaderValue); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
        ),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// A request that takes too long is answered, like every other, with a code and a sentence.
async fn limit_time(State(timeout): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let sentence = "this took longer than request_timeout_ms and may have been done or \
                            not; ask again with the same decision_id";
            ApiError::later(503, "timed_out", sentence, 1).into_response()
        }
    }
}

/// For measuring: everything that can be asked, and `/empty/{app}`, which reads the body of a
/// decide as `decide` does and answers as many bytes, asking nobody.
pub fn router_with_empty(service: Arc<Service>) -> Router {
    router_with(Router::new().route("/empty/{app}", axum::routing::post(decide::empty)), service)
}

/// Reads any bytes as the body of every request that has one. For fuzzing.
pub fn http_body(bytes: &[u8]) {
    let _ = body::parse::<apps::NewApp>(bytes);
    let _ = body::parse::<apps::AppChange>(bytes);
    let _ = body::parse::<keys::KeyTerms>(bytes);
    let _ = body::parse::<items::PutItems>(bytes);
    let _ = body::parse::<decide::DecideBody>(bytes);
    let _ = body::parse::<decide::DecideBatchBody>(bytes);
    let _ = body::parse::<decide::ActivateBody>(bytes);
    let _ = body::parse::<slate::SlateBody>(bytes);
    let _ = body::parse::<history::HistoryBody>(bytes);
    let _ = body::parse::<strict::Strict>(bytes).map(|sent| filter::filter_of(&sent));
    let _ = body::parse::<reward::RewardBody>(bytes);
    let _ = body::parse::<reward::RewardsBody>(bytes);
}

async fn not_found(uri: Uri) -> Response {
    if personalizer::speaks(uri.path()) {
        return personalizer::not_found();
    }
    let sentence = "there is nothing here; /docs lists what there is";
    ApiError::new(404, "no_such_page", sentence).into_response()
}

async fn wrong_method(uri: Uri) -> Response {
    if personalizer::speaks(uri.path()) {
        return personalizer::wrong_method();
    }
    let sentence = "this is not asked with that method; see /docs";
    ApiError::new(405, "wrong_method", sentence).into_response()
}

/// A bug must not take the connection, or the service, with it.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    ApiError::new(500, "bug", "this is a bug in the service; its log says more").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    fn with_bug(service: Arc<Service>) -> Router {
        async fn bug() {
            panic!("a bug, made for this test");
        }
        async fn slow() {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let routes = Router::new()
            .route("/bug", axum::routing::get(bug))
            .route("/personalizer/v1.0/bug", axum::routing::get(bug))
            .route("/personalizer/v1.0/slow", axum::routing::get(slow));
        router_with(routes, service)
    }

    #[test]
    fn a_bug_is_answered_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            data_dir: folder.path().into(),
            listen: "127.0.0.1:0".to_owned(),
            shutdown_ms: 0,
            request_timeout_ms: 300,
            ..Config::default()
        };
        let server = Server::open(config).unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let stopped = async { stopped.await.unwrap_or_default() };
            runtime.block_on(server.serve_routes(with_bug, stopped)).unwrap();
        });
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(config);
        let get = |path: &str| {
            let mut answer = agent.get(format!("{url}{path}")).call().unwrap();
            (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
        };
        let (status, said) = get("/bug");
        assert!(status == 500 && said.contains("\"code\":\"bug\""), "{status} {said}");
        let (_, metrics) = get("/metrics");
        let counted = "cohort_requests_total{route=\"/bug\",status=\"500\"} 1";
        assert!(metrics.contains(counted), "{metrics}");
        // Clients of another dialect are told in it.
        let raw = |path: &str, host: &str| {
            let mut answer = agent.get(format!("{url}{path}")).header("Host", host).call().unwrap();
            let header =
                |name: &str| answer.headers().get(name).map(|of| of.to_str().unwrap().to_owned());
            let (code, id) = (header("x-ms-error-code"), header("apim-request-id"));
            let said: serde_json::Value = answer.body_mut().read_json().unwrap();
            assert!(id.is_some() && said["error"]["message"].is_string(), "{said}");
            assert_eq!(Some(said["error"]["code"].as_str().unwrap()), code.as_deref());
            (answer.status().as_u16(), code.unwrap())
        };
        for (path, host, expected) in [
            ("/personalizer/v1.0/bug", "localhost", (500, "InternalServerError")),
            ("/personalizer/v1.0/slow", "localhost", (503, "InternalServerError")),
            ("/personalizer/v1.0/configurations/service", "other.example", (403, "403")),
            ("/apps/x/personalizer/v1.0/rank", "other.example", (403, "403")),
        ] {
            let (status, code) = raw(path, host);
            assert_eq!((status, code.as_str()), expected, "{path}");
        }
        let mut ours =
            agent.get(format!("{url}/v1/apps")).header("Host", "other.example").call().unwrap();
        assert!(ours.body_mut().read_to_string().unwrap().contains("wrong_host"));
        drop(stop);
        serving.join().unwrap();
    }
}
