//! What to show, in one place or in several?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use hashbrown::HashSet;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::DialectError;
use super::events::slot_decision;
use super::offered::{Asked, Place};
use super::{Loop, Sent, bug, check_id, new_id};
use crate::auth::Scopes;
use crate::engine::request::{ForUser, Made, Offer, Slot};
use crate::engine::{Answer, Request};
use crate::http::Service;
use crate::http::slate::MOST_SLOTS;
use crate::http::strict::Strict;

pub(super) const BAD: &str = "InvalidRankRequest";

/// Who is meant where nobody is named: then everybody is one user.
const EVERYBODY: &str = "everybody";

/// The header that names the user.
const USER_HEADER: &str = "x-cohort-user";

/// What can be shown.
#[derive(Deserialize)]
pub struct Action {
    pub(super) id: String,
    #[serde(default)]
    pub(super) features: Strict,
}

/// A rank as it is sent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankRequest {
    #[serde(default)]
    context_features: Strict,
    actions: Vec<Action>,
    excluded_actions: Option<Vec<String>>,
    event_id: Option<String>,
    defer_activation: Option<bool>,
}

/// One place of several.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SentSlot {
    id: String,
    #[serde(default)]
    features: Strict,
    excluded_actions: Option<Vec<String>>,
    baseline_action: String,
}

/// A rank for several places.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotsRequest {
    #[serde(default)]
    context_features: Strict,
    actions: Vec<Action>,
    slots: Vec<SentSlot>,
    event_id: Option<String>,
    defer_activation: Option<bool>,
}

/// Ranks actions: which one to show, and with what probability each would have been.
pub async fn rank(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::DECIDE }>,
    headers: HeaderMap,
    sent: Sent,
) -> Result<(StatusCode, Json<Value>), DialectError> {
    let is_large = sent.is_large();
    let sent: RankRequest = sent.json(BAD).await?;
    service.check_actions(&sent.actions)?;
    let user = service.user_in(&headers, &sent.context_features.0)?;
    let ids: Vec<String> = sent.actions.iter().map(|action| action.id.clone()).collect();
    let excluded: HashSet<String> = sent.excluded_actions.into_iter().flatten().collect();
    let offered: Vec<usize> = (0..ids.len()).filter(|at| !excluded.contains(&ids[*at])).collect();
    if offered.is_empty() {
        let sentence = "all actions are excluded: there is nothing left to show";
        return Err(DialectError::bad(BAD, sentence));
    }
    let event = event_of(sent.event_id)?;
    let shown = !sent.defer_activation.unwrap_or(false);
    let places = vec![Place { offered, features: None }];
    let context = sent.context_features.0;
    let asked_for = Asked { actions: sent.actions, context, places, is_large };
    let offer = service.offers(&asked.app, asked_for).await?.pop().ok_or_else(bug)?;
    let made = service.make(&asked.app, offer, user, event, shown).await?;
    let sent: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut body = json!({
        "ranking": ranking_of(&made, &sent),
        "eventId": made.id,
        "rewardActionId": made.ranking.first(),
    });
    if service.engine.directory().app(&asked.app).is_some_and(|listed| listed.explains) {
        body["inferenceExplanation"] = explanation_of(&made);
    }
    Ok((StatusCode::CREATED, Json(body)))
}

/// Ranks actions for several places, none of them twice; each place is a decision of its own.
pub async fn rank_slots(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::DECIDE }>,
    headers: HeaderMap,
    sent: Sent,
) -> Result<(StatusCode, Json<Value>), DialectError> {
    let is_large = sent.is_large();
    let sent: SlotsRequest = sent.json(BAD).await?;
    service.check_actions(&sent.actions)?;
    check_slots(&sent)?;
    let user = service.user_in(&headers, &sent.context_features.0)?;
    let event = event_of(sent.event_id)?;
    let shown = !sent.defer_activation.unwrap_or(false);
    // All places are read before any is filled: a slate that is refused leaves nothing behind.
    let mut names = Vec::with_capacity(sent.slots.len());
    let mut places = Vec::with_capacity(sent.slots.len());
    for slot in sent.slots {
        let excluded: HashSet<&str> =
            slot.excluded_actions.iter().flatten().map(String::as_str).collect();
        let id = |at: usize| sent.actions[at].id.as_str();
        let mut offered: Vec<usize> =
            (0..sent.actions.len()).filter(|at| !excluded.contains(id(*at))).collect();
        // The first is what is shown where the policy does not decide.
        offered.sort_by_key(|at| id(*at) != slot.baseline_action);
        names.push(slot.id);
        places.push(Place { offered, features: Some(slot.features.0) });
    }
    let context = sent.context_features.0;
    let asked_for = Asked { actions: sent.actions, context, places, is_large };
    let offers = service.offers(&asked.app, asked_for).await?;
    let places = names.iter().zip(offers).map(|(id, offer)| Slot {
        id: id.clone(),
        decision: slot_decision(&event, id),
        offer,
    });
    let made = service.fill(asked.app, places.collect(), user, shown).await?;
    let slots: Vec<Value> = (names.iter().zip(&made))
        .map(|(id, made)| json!({"id": id, "rewardActionId": made.ranking.first()}))
        .collect();
    Ok((StatusCode::CREATED, Json(json!({"slots": slots, "eventId": event}))))
}

/// Whom a rank is for; nothing where that is no name.
pub(super) fn user_of(headers: &HeaderMap, context: &Value) -> Option<String> {
    let in_header = headers.get(USER_HEADER).and_then(|value| value.to_str().ok());
    let one = std::slice::from_ref(context);
    let objects = context.as_array().map_or(one, |list| list.as_slice()).iter();
    let mut in_context = objects
        .filter_map(|object| object.get("_user").or_else(|| object.get("_cohort")?.get("user")));
    match (in_header, in_context.next()) {
        (Some(user), _) => Some(user.to_owned()),
        (None, Some(Value::String(user))) => Some(user.clone()),
        (None, Some(Value::Number(user))) => Some(user.to_string()),
        (None, None | Some(Value::Null)) => Some(EVERYBODY.to_owned()),
        (None, Some(_)) => None,
    }
}

fn check_slots(sent: &SlotsRequest) -> Result<(), DialectError> {
    let bad = |sentence: String| Err(DialectError::bad(BAD, sentence));
    if sent.slots.is_empty() {
        return bad("slots: expected one or more".to_owned());
    }
    if sent.slots.len() > MOST_SLOTS {
        let found = sent.slots.len();
        return bad(format!("{found} slots: expected 1 to {MOST_SLOTS}"));
    }
    if sent.slots.len() > sent.actions.len() {
        let (slots, actions) = (sent.slots.len(), sent.actions.len());
        return bad(format!(
            "{slots} slots and {actions} actions: expected as many actions or more"
        ));
    }
    let actions: HashSet<&str> = sent.actions.iter().map(|action| action.id.as_str()).collect();
    let (mut ids, mut baselines) = (HashSet::new(), HashSet::new());
    for slot in &sent.slots {
        check_id("a slot's id", &slot.id, BAD)?;
        let (id, baseline) = (&slot.id, slot.baseline_action.as_str());
        if !ids.insert(id.as_str()) {
            return bad(format!("the slot `{id}` is there twice"));
        }
        if !actions.contains(baseline) {
            return bad(format!("slot `{id}`: its baselineAction `{baseline}` is no action"));
        }
        if !baselines.insert(baseline) {
            return bad(format!(
                "slot `{id}`: its baselineAction `{baseline}` is another slot's too"
            ));
        }
        if slot.excluded_actions.iter().flatten().any(|excluded| excluded == baseline) {
            return bad(format!("slot `{id}`: its baselineAction `{baseline}` is excluded"));
        }
    }
    Ok(())
}

fn event_of(sent: Option<String>) -> Result<String, DialectError> {
    match sent.filter(|id| !id.is_empty()) {
        Some(id) => check_id("the eventId", &id, BAD).map(|()| id),
        None => new_id(),
    }
}

/// Every action with its probability. What was ranked has the places of what could be shown; actions that could not,
/// as they were excluded, keep theirs. Of an event that was ranked before it is told what was ranked then, whatever is
/// excluded now.
fn ranking_of(made: &Made, sent: &[&str]) -> Vec<Value> {
    let probabilities = probabilities(made);
    let shown: HashSet<&str> = made.ranking.iter().collect();
    let mut ranked = made.ranking.iter().zip(probabilities);
    let mut ranking = Vec::with_capacity(sent.len());
    for id in sent {
        match shown.contains(id) {
            true => ranking.extend(ranked.next()),
            false => ranking.push((id, 0.0)),
        }
    }
    // Those that were sent then and are not now.
    ranking.extend(ranked);
    ranking.into_iter().map(|(id, p)| json!({"id": id, "probability": p})).collect()
}

/// What each feature adds to the reward that is expected of an action. Nothing of an event that was ranked before, of
/// vectors, and while nothing was learned.
fn explanation_of(made: &Made) -> Value {
    let parts = made.parts.iter().flatten();
    let told = made.ranking.iter().zip(parts).map(|(id, parts)| {
        let features = parts.iter().map(|one| json!({"name": one.name, "score": one.part}));
        json!({"id": id, "features": features.collect::<Value>()})
    });
    told.collect()
}

/// Of everything that was ranked. What was ranked before is remembered by what was chosen alone.
fn probabilities(made: &Made) -> Vec<f64> {
    let count = made.ranking.iter().count();
    made.probabilities.clone().unwrap_or_else(|| {
        let others = (1.0 - made.probability).max(0.0) / (count.max(2) - 1) as f64;
        let of = |at| if at == 0 { made.probability } else { others };
        (0..count).map(of).collect()
    })
}

impl Service {
    fn check_actions(&self, actions: &[Action]) -> Result<(), DialectError> {
        let most = self.config.max_candidates;
        if !(1..=most).contains(&actions.len()) {
            let found = actions.len();
            return Err(DialectError::bad(BAD, format!("{found} actions: expected 1 to {most}")));
        }
        let mut ids = HashSet::with_capacity(actions.len());
        for action in actions {
            check_id("an action's id", &action.id, BAD)?;
            if !ids.insert(action.id.as_str()) {
                let sentence = format!("the action `{}` is there twice", action.id);
                return Err(DialectError::bad(BAD, sentence));
            }
        }
        Ok(())
    }

    /// The user: in a header, or in a feature of the context that other services ignore, `_user` or
    /// `_cohort.user`.
    fn user_in(&self, headers: &HeaderMap, context: &Value) -> Result<String, DialectError> {
        let user = user_of(headers, context)
            .ok_or_else(|| DialectError::bad(BAD, "_user: expected a word or a number"))?;
        check_id("the user", &user, BAD)?;
        Ok(user)
    }

    async fn make(
        &self,
        app: &str,
        offer: Offer,
        user: String,
        decision: String,
        shown: bool,
    ) -> Result<Made, DialectError> {
        let users = vec![ForUser { user, decision: Some(decision), shown }];
        // Explained: clients expect the probability of every action.
        let request = Request::Decide { app: app.to_owned(), offer, users, explain: true };
        let told = |why| DialectError::from_refusal(why, BAD);
        match self.engine.ask(request).await.map_err(told)? {
            Answer::Decided(mut made) => made.pop().ok_or_else(bug)?.map_err(told),
            _ => Err(bug()),
        }
    }

    /// Fills several places at once.
    async fn fill(
        &self,
        app: String,
        slots: Vec<Slot>,
        user: String,
        shown: bool,
    ) -> Result<Vec<Made>, DialectError> {
        let user = ForUser { user, decision: None, shown };
        let request = Request::Slate { app, user, slots, explain: false };
        let told = |why| DialectError::from_refusal(why, BAD);
        match self.engine.ask(request).await.map_err(told)? {
            Answer::Decided(made) => made.into_iter().map(|one| one.map_err(told)).collect(),
            _ => Err(bug()),
        }
    }
}
