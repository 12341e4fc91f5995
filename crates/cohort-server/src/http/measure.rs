//! How many requests came, how long did they take, and how did they end?

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Counter, Histogram};

/// The route of requests that ask for nothing there is, so that nobody can make up labels.
const NO_ROUTE: &str = "none";

/// The metrics of every route that was asked. Looking them up by their labels would take memory for
/// each request; here they are found by the route alone.
#[derive(Default)]
pub(super) struct Measures(RwLock<HashMap<String, Measure>>);

/// The metrics of one route. There are as many statuses as the service gives, which is few.
struct Measure {
    seconds: Histogram,
    by_status: Vec<(u16, Counter)>,
}

impl Measures {
    fn add(&self, route: &str, status: u16, took: Duration) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.get(route).is_some_and(|measure| measure.add(status, took)) {
            return;
        }
        drop(known);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let measure = known.entry(route.to_owned()).or_insert_with(|| Measure::of(route));
        measure.learn(route, status);
        measure.add(status, took);
    }
}

impl Measure {
    fn of(route: &str) -> Self {
        let seconds = metrics::histogram!("cohort_request_seconds", "route" => route.to_owned());
        Self { seconds, by_status: Vec::new() }
    }

    /// Whether the status was seen before; only then it was added.
    fn add(&self, status: u16, took: Duration) -> bool {
        let Some((_, count)) = self.by_status.iter().find(|(known, _)| *known == status) else {
            return false;
        };
        count.increment(1);
        self.seconds.record(took);
        true
    }

    fn learn(&mut self, route: &str, status: u16) {
        if self.by_status.iter().all(|(known, _)| *known != status) {
            let labels = [("route", route.to_owned()), ("status", status.to_string())];
            self.by_status.push((status, metrics::counter!("cohort_requests_total", &labels)));
        }
    }
}

/// Counts and times every request by its route: also those that took too long, that met a bug, or
/// that asked for nothing there is.
pub(super) async fn measure(
    State(measures): State<Arc<Measures>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let route = path.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let (status, took) = (response.status().as_u16(), started.elapsed());
    measures.add(route, status, took);
    tracing::debug!(%method, route, status, seconds = took.as_secs_f64(), "request");
    response
}
