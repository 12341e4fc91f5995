//! JSON features: which were seen, which share a coordinate, which matter.

use axum::Json;
use axum::extract::State;
use cohort_features::{Kind, Named};
use serde::Serialize;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::access::Client;
use super::apps::unexpected;
use super::error::{ApiError, ErrorBody};
use super::path::Path;
use super::{Service, Shared, large};
use crate::auth::Scopes;
use crate::engine::Request;
use crate::engine::recent::Recent;
use crate::state::App;

/// Whose weights are asked for.
enum Whose {
    Everybody,
    User(String),
    Cohort(usize),
}

/// The features of an app that takes JSON.
#[derive(Debug, Serialize, ToSchema)]
pub struct FeatureList {
    /// How many coordinates there are.
    pub dim: usize,
    /// How many features share a coordinate with another.
    pub colliding: usize,
    /// Those that were seen, the weightiest first.
    pub features: Vec<FeatureBody>,
}

/// One feature.
#[derive(Debug, Serialize, ToSchema)]
pub struct FeatureBody {
    /// Its name; of an interaction both names with a `^` between them.
    pub name: String,
    /// `category`, `flag`, `number` or `list`.
    pub kind: String,
    /// Its coordinate; a list has none, its numbers have.
    pub coordinate: Option<usize>,
    /// Others that have the same coordinate.
    pub collides_with: Vec<String>,
    /// Of a number: its mean; of a list: its mean length.
    pub mean: Option<f64>,
    /// The standard deviation of that.
    pub deviation: Option<f64>,
    /// What one unit of it adds to the expected reward; absent while nothing was learned.
    pub weight: Option<f64>,
}

/// Which features were seen, which collide, and what each adds to the reward that is expected of everybody.
#[utoipa::path(get, path = "/v1/apps/{app}/features", tag = "insight", params(("app" = String, Path)),
    responses((status = 200, body = FeatureList), (status = "4XX", body = ErrorBody)))]
pub async fn features(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Json<FeatureList>, ApiError> {
    service.features_for(app, Whose::Everybody).await
}

/// The same, with what each feature adds to the reward that is expected of a user.
#[utoipa::path(get, path = "/v1/apps/{app}/users/{user}/features", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = FeatureList), (status = "4XX", body = ErrorBody)))]
pub async fn features_of_user(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, user)): Path<(String, String)>,
) -> Result<Json<FeatureList>, ApiError> {
    service.features_for(app, Whose::User(user)).await
}

/// The same, with what each feature adds to the reward that is expected of a cohort, by its number from 0 on.
#[utoipa::path(get, path = "/v1/apps/{app}/cohorts/{cohort}/features", tag = "insight",
    params(("app" = String, Path), ("cohort" = usize, Path)),
    responses((status = 200, body = FeatureList), (status = "4XX", body = ErrorBody)))]
pub async fn features_of_cohort(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, cohort)): Path<(String, String)>,
) -> Result<Json<FeatureList>, ApiError> {
    // What is no number, or one beyond all numbers of cohorts, is none of theirs.
    let cohort = cohort.parse().unwrap_or(usize::MAX);
    service.features_for(app, Whose::Cohort(cohort)).await
}

impl Service {
    async fn features_for(&self, app: String, whose: Whose) -> Result<Json<FeatureList>, ApiError> {
        let (send, receive) = oneshot::channel();
        let look = Box::new(move |app: &mut App, _: &Recent| {
            let _ = send.send(found(app, &whose));
        });
        self.engine.ask(Request::Inspect { app, inspect: look }).await?;
        let found = receive.await.map_err(|_| unexpected())??;
        // Thousands of names are put in order elsewhere: the engine's thread only copies what it has.
        large::apart(move || list(&found)).await.map(Json)
    }
}

/// What is known of the features of an app, copied.
struct Found {
    dim: usize,
    /// Each with what one unit of it adds to the expected reward.
    features: Vec<(Named, Option<f64>)>,
}

fn found(app: &mut App, whose: &Whose) -> Result<Found, ApiError> {
    if app.encoder().is_none() {
        return Err(crate::engine::Refusal::NotJson.into());
    }
    let theta = match whose {
        Whose::Everybody => app.coefficients(None, None),
        Whose::User(name) => {
            let sentence = || format!("nothing was ever decided for user `{name}`");
            let found = app.users().find(name);
            let user = found.ok_or_else(|| ApiError::new(404, "user_unknown", sentence()))?;
            app.coefficients(Some(user), None)
        }
        Whose::Cohort(cohort) => {
            let unknown =
                || ApiError::new(404, "cohort_unknown", "there is no cohort of that number");
            Some(app.coefficients(None, Some(*cohort)).ok_or_else(unknown)?)
        }
    };
    let encoder = app.encoder().ok_or_else(unexpected)?;
    let weight = |named| theta.as_ref().and_then(|theta| encoder.weight_of(named, theta));
    let features = encoder.names().map(|named| (named.clone(), weight(named))).collect();
    Ok(Found { dim: encoder.dim(), features })
}

fn list(found: &Found) -> FeatureList {
    let dim = found.dim;
    let mut of_place = vec![Vec::new(); dim];
    for (named, _) in found.features.iter().filter(|(named, _)| named.place < dim) {
        of_place[named.place].push(&*named.name);
    }
    let body = |(named, weight): &(Named, Option<f64>)| {
        let others = of_place.get(named.place).into_iter().flatten();
        let others = others.filter(|other| ***other != *named.name);
        let is_measured = matches!(named.kind, Kind::Number | Kind::List);
        FeatureBody {
            name: named.name.to_string(),
            kind: named.kind.name().to_owned(),
            coordinate: (named.place < dim).then_some(named.place),
            collides_with: others.take(5).map(|name| name.to_string()).collect(),
            mean: is_measured.then_some(named.moments.mean),
            deviation: is_measured.then(|| named.moments.deviation()),
            weight: *weight,
        }
    };
    let mut features: Vec<FeatureBody> = found.features.iter().map(body).collect();
    let size = |one: &FeatureBody| one.weight.map_or(-1.0, f64::abs);
    features.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let colliding = of_place.iter().filter(|names| names.len() > 1).map(Vec::len).sum();
    FeatureList { dim, colliding, features }
}
