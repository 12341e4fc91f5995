//! Who may ask, and how often?

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::Service;
use super::error::ApiError;
use super::path::Path;
use crate::auth::{KeyHash, Scopes};
use crate::config::Config;

/// Who asks, for the audit: `admin`, `key ID`, or `anybody` where no keys are needed.
pub(crate) struct Who(String);

impl Who {
    /// Says that this asker has changed something: who, what, and by the log when.
    pub(crate) fn did(&self, what: &'static str, app: &str, detail: &str) {
        tracing::info!(target: "cohort_server::audit", who = self.0, what, app, detail, "changed");
    }
}

/// The admin asks. An argument of handlers that comes before the body: whoever may not ask is told
/// so before anything of the body is read.
pub(super) struct Admin(pub Who);

impl FromRequestParts<Arc<Service>> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, ApiError> {
        service.admit_admin(&parts.headers).map(Self)
    }
}

/// A client of the app that the path names asks, with a key that has a scope, or the admin, and not
/// too often. An argument like [`Admin`].
pub(super) struct Client<const SCOPE: u8 = 0>(pub String, pub Who);

#[derive(Deserialize)]
struct AppInPath {
    app: String,
}

impl<const SCOPE: u8> FromRequestParts<Arc<Service>> for Client<SCOPE> {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, ApiError> {
        let Path(AppInPath { app }) = Path::from_request_parts(parts, service).await?;
        let who = service.admit_client(&parts.headers, &app, SCOPE)?;
        Ok(Self(app, who))
    }
}

impl Service {
    /// Lets the admin pass.
    pub(crate) fn admit_admin(&self, headers: &HeaderMap) -> Result<Who, ApiError> {
        let key = key_in(headers);
        match self.admin.asks(key.as_ref()) {
            Some(who) => Ok(who),
            None => Err(refused(key.is_some(), "the admin key")),
        }
    }

    /// Lets clients of the app, and the admin, pass, as often as they may.
    pub(super) fn admit_client(
        &self,
        headers: &HeaderMap,
        app: &str,
        scope: u8,
    ) -> Result<Who, ApiError> {
        let key = key_in(headers);
        let who = match (self.admin.asks(key.as_ref()), &key) {
            (Some(who), _) => who,
            (None, Some(key)) => self.know(key, app, scope)?,
            (None, None) => return Err(refused(false, "a key of this app")),
        };
        if !self.rates.admit(app, Instant::now()) {
            let sentence = "this app asks more often than rate_per_second allows; ask later";
            return Err(ApiError::later(429, "rate_limited", sentence, 1));
        }
        // Whether an app that is not listed was deleted or never was, the engine knows.
        Ok(who)
    }

    /// At the front of a cluster, before the body is read: refuses keys that open nothing of the app, and apps that ask too
    /// often. What exactly a key opens its partition looks at. `app` is empty where only the admin may ask.
    pub(crate) fn admit_at_front(&self, headers: &HeaderMap, app: &str) -> Result<(), ApiError> {
        match app.is_empty() {
            true => self.admit_admin(headers).map(drop),
            false => self.admit_client(headers, app, 0).map(drop),
        }
    }

    /// Waits until it has come so far in the control stream of its cluster.
    pub(crate) async fn follows(&self, number: u64, patience: Duration) {
        let mut followed = self.engine.followed();
        let come = followed.wait_for(|followed| *followed >= number);
        let _ = tokio::time::timeout(patience, come).await;
    }

    /// Who has this key, if it opens that of this app.
    fn know(&self, key: &KeyHash, app: &str, scope: u8) -> Result<Who, ApiError> {
        let directory = self.engine.directory();
        let Some(known) = directory.app(app).and_then(|listed| listed.find(key)) else {
            return Err(refused(true, "a key of this app"));
        };
        // By the time of the service: a calendar that is wrong for less than a minute ends no key, and opens none that
        // has ended. One that stays wrong is the time, for keys as for all else, until it is set right.
        if known.expires_ms.is_some_and(|at_ms| at_ms <= self.engine.now_ms()) {
            let sentence = format!("the key {} has expired; ask for another", known.id);
            return Err(ApiError::new(403, "key_expired", sentence));
        }
        if !known.scopes.allow(scope) {
            let (has, needs) = (known.scopes.names().join(", "), needed(scope));
            let sentence = format!("this key opens {has}, and this needs {needs}");
            return Err(ApiError::new(403, "key_lacks_scope", sentence));
        }
        Ok(Who(format!("key {}", known.id)))
    }
}

/// The scope as people know it.
fn needed(scope: u8) -> String {
    Scopes::from_bits(scope).map_or_else(String::new, |scopes| scopes.names().join(" or "))
}

/// The admin's keys: one or more, so that they can be changed one after the other. The partitions of a node share them.
pub(crate) struct AdminKeys {
    /// Whether keys are needed: then nobody is the admin as long as none could be read.
    needed: bool,
    known: RwLock<Vec<KeyHash>>,
}

impl AdminKeys {
    /// Those of a configuration, as far as they can be read now.
    pub(crate) fn of(config: &Config) -> Self {
        let known = RwLock::new(config.admin_keys().unwrap_or_default());
        Self { needed: config.needs_keys(), known }
    }

    /// Whether others are meant now.
    pub(super) fn replace(&self, keys: Vec<KeyHash>) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *known != keys;
        *known = keys;
        changed
    }

    /// The admin, if it is the admin who asks, or anybody where no keys are needed.
    fn asks(&self, key: Option<&KeyHash>) -> Option<Who> {
        if !self.needed {
            return Some(Who("anybody".to_owned()));
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let key = key?;
        let is_one = known.iter().fold(false, |found, known| found | known.matches(key));
        is_one.then(|| Who("admin".to_owned()))
    }
}

fn refused(has_key: bool, needed: &str) -> ApiError {
    match has_key {
        false => {
            let sentence = format!("send {needed} as `Authorization: Bearer KEY`");
            ApiError::new(401, "key_missing", sentence)
        }
        true => ApiError::new(403, "key_refused", format!("this is not {needed}")),
    }
}

/// The key that was sent; clients of Azure Personalizer have a header of their own for it.
pub(super) fn key_in(headers: &HeaderMap) -> Option<KeyHash> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        let key = headers.get("ocp-apim-subscription-key")?.to_str().ok()?;
        return Some(KeyHash::of(key.trim()));
    };
    let value = value.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| KeyHash::of(key.trim()))
}

/// The hosts by which a service without keys may be asked. A web page of somebody else can let its
/// own name lead to 127.0.0.1 (DNS rebinding), and a browser then takes this service for a part of
/// that page; only the name, which the browser sends, tells.
pub(super) struct Hosts {
    listen: String,
}

impl Hosts {
    /// With the host of `listen`, which is `HOST:PORT`.
    pub(super) fn new(listen: &str) -> Self {
        Self { listen: without_port(listen).to_owned() }
    }

    fn know(&self, asked: &str) -> bool {
        let host = without_port(asked);
        ["localhost", "127.0.0.1", "[::1]", &self.listen]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// `HOST` of `HOST` and of `HOST:PORT`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    }
}

/// Refuses requests that were meant for another host. One that names none comes from no browser.
pub(super) async fn check_host(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
    next: Next,
) -> Response {
    let in_address = request.uri().authority().map(|authority| hosts.know(authority.as_str()));
    let in_headers = request.headers().get_all(header::HOST).iter();
    let in_headers = in_headers.map(|host| host.to_str().is_ok_and(|host| hosts.know(host)));
    if !in_address.into_iter().chain(in_headers).all(|known| known) {
        let sentence = format!(
            "this service has no admin_key and answers only to localhost, 127.0.0.1, [::1] and {}; \
             ask it by one of these, or set admin_key",
            hosts.listen
        );
        return ApiError::new(403, "wrong_host", sentence).into_response();
    }
    next.run(request).await
}

/// How often each app asks: a bucket that fills with `per_second` tokens a second, and holds as
/// many.
pub(super) struct Rates {
    per_second: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

/// Buckets that may be there before those that are full are thrown away.
const MOST_BUCKETS: usize = 4096;

impl Rates {
    pub(super) fn new(per_second: u64) -> Self {
        Self { per_second: per_second as f64, buckets: Mutex::default() }
    }

    fn admit(&self, app: &str, now: Instant) -> bool {
        if self.per_second == 0.0 {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(app) {
            // A bucket that nobody took from for a second is full, which is as good as none; names
            // of apps can be made up.
            if buckets.len() >= MOST_BUCKETS {
                buckets.retain(|_, (_, filled_at)| {
                    now.saturating_duration_since(*filled_at) < Duration::from_secs(1)
                });
            }
            buckets.insert(app.to_owned(), (self.per_second, now));
        }
        let Some((tokens, filled_at)) = buckets.get_mut(app) else { return true };
        let since = now.saturating_duration_since(*filled_at).as_secs_f64();
        *tokens = (*tokens + since * self.per_second).min(self.per_second);
        *filled_at = now;
        let enough = *tokens >= 1.0;
        *tokens -= f64::from(enough);
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_as_many_a_second_as_allowed() {
        let rates = Rates::new(10);
        let start = Instant::now();
        let passed =
            |from: Instant, asked: usize| (0..asked).filter(|_| rates.admit("shop", from)).count();
        assert_eq!(passed(start, 100), 10);
        assert_eq!(passed(start + Duration::from_millis(500), 100), 5);
        assert_eq!(passed(start + Duration::from_secs(60), 100), 10);
        assert!(rates.admit("another app", start));
    }

    #[test]
    fn names_that_are_made_up_are_forgotten_and_those_at_their_limit_are_not() {
        let rates = Rates::new(1);
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(10));
        for made_up in 0..MOST_BUCKETS {
            assert!(rates.admit(&made_up.to_string(), start));
        }
        assert!(rates.admit("shop", later) && rates.buckets.lock().unwrap().len() == 1);
        assert!(rates.admit("blog", later) && !rates.admit("shop", later));
    }

    #[test]
    fn hosts_are_known_with_and_without_their_port() {
        let hosts = Hosts::new("127.0.0.2:7700");
        for host in ["localhost", "LocalHost:80", "127.0.0.1:7700", "[::1]", "[::1]:7700"] {
            assert!(hosts.know(host), "{host}");
        }
        assert!(hosts.know("127.0.0.2:7700") && hosts.know("127.0.0.2"));
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7700"] {
            assert!(!hosts.know(host), "{host}");
        }
        assert!(!hosts.know("127.0.0.3") && !hosts.know("evil.example:localhost"));
    }

    #[test]
    fn a_new_key_that_is_logged_shows_no_key() {
        let made = super::super::keys::make_key(&Default::default());
        let Ok((shown, kept)) = made else { panic!("no key was made") };
        let logged = format!("{shown:?} {shown:#?} {kept:?}");
        assert!(logged.contains(&shown.id) && !logged.contains(&shown.key[3..]), "{logged}");
    }

    #[test]
    fn the_scheme_of_a_key_is_read_in_any_case() {
        let key = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            key_in(&headers)
        };
        for scheme in ["Bearer", "bearer", "BEARER"] {
            assert!(key(&format!("{scheme} secret")) == Some(KeyHash::of("secret")), "{scheme}");
        }
        assert!(key("Basic secret").is_none() && key("Bearer").is_none());
    }
}
