//! What to show in several places at once.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cohort_features::{ContextFeatures, Features, Given, UserFeatures};
use hashbrown::HashSet;
use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Client;
use super::body::{JsonBody, check_count, check_id};
use super::decide::{Candidate, DecisionBody, body_of, decisions_in, yes};
use super::error::{ApiError, ErrorBody};
use super::reward::{OutcomeOrError, RewardBody, RewardsBody, rewards_of};
use super::strict::Strict;
use super::wanted::{Wanted, leave_out};
use super::{Service, Shared};
use crate::auth::{Scopes, hex};
use crate::engine::request::Slot;
use crate::engine::{EXCLUDED_WORK, Refusal, Request};

/// Places of one slate.
pub(super) const MOST_SLOTS: usize = 64;
/// Candidates that places share may take this many times what a body may, when each place has its own list.
const COPIED: usize = 16;

/// A place.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotBody {
    /// Its name.
    pub id: String,
    /// What can be shown there, where that differs from the others.
    pub items: Option<Vec<Candidate>>,
    /// What items of the catalogue must be like to be shown there, beside the filter for all places.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Strict>,
    /// What is not shown there.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Features of the place, in an app that takes JSON: they are part of the context there.
    #[schema(value_type = Option<Object>)]
    pub features: Option<ContextFeatures>,
}

/// Decide for one user what to show in several places.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user": "ann", "slate_id": "s1", "slots": [{"id": "top"}, {"id": "side", "exclude": ["tea"]}],
    "items": [{"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}]}))]
pub struct SlateBody {
    /// The user's id.
    pub user: String,
    /// The places, the most important first: they are filled in this order.
    pub slots: Vec<SlotBody>,
    /// What can be shown; absent to choose from the catalogue.
    pub items: Option<Vec<Candidate>>,
    /// What items of the catalogue must be like.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Strict>,
    /// What is not shown anywhere.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How many of the best items of the catalogue are told for each place; 10 if absent.
    pub k: Option<usize>,
    /// The situation, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub context: Option<ContextFeatures>,
    /// What is known of the user besides what it answered, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub user_features: Option<UserFeatures>,
    /// The id that the slate shall have. A retry with the same id gets the same slate.
    pub slate_id: Option<String>,
    /// `false` for a slate that may never be shown: each place counts once its decision is activated.
    #[serde(default = "yes")]
    pub shown: bool,
    /// Whether the explanation is wanted.
    #[serde(default)]
    pub explain: bool,
}

/// What to show in each place.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct SlateAnswer {
    /// The slate's id.
    pub slate_id: String,
    /// The places in their order.
    pub slots: Vec<SlotAnswer>,
}

/// What to show in one place.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct SlotAnswer {
    /// Its name.
    pub slot: String,
    /// Its decision: the probability is that of the item in this place, given those before.
    #[serde(flatten)]
    pub decision: DecisionBody,
}

/// Decide for one user what to show in several places, no item twice. Every place is a decision of its own, called
/// `SLATE_ID/SLOT`, with a reward of its own.
#[utoipa::path(post, path = "/v1/apps/{app}/slate", tag = "decide", params(("app" = String, Path)),
    request_body = SlateBody,
    responses((status = 200, body = SlateAnswer), (status = "4XX", body = ErrorBody)))]
pub async fn slate(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::DECIDE }>,
    JsonBody(body): JsonBody<SlateBody>,
) -> Result<Json<SlateAnswer>, ApiError> {
    check_count("slots", body.slots.len(), MOST_SLOTS)?;
    let slate_id = match body.slate_id {
        Some(id) => id,
        None => new_id()?,
    };
    let mut names = HashSet::new();
    let exclude = body.exclude.into();
    let mut wanted = Wanted { items: body.items, filter: body.filter, exclude, k: body.k };
    let user_features = body.user_features.map(|user| Arc::new(user.0));
    let context = body.context.map(|context| Arc::new(context.0));
    service.check_candidates(&app, &wanted, &body.slots, context.as_deref())?;
    // Looked up once for all places.
    let excluded = wanted.exclude.clone();
    let excluded: HashSet<&str> = match body.slots.iter().any(|slot| wanted.lists(slot)) {
        true => excluded.iter().collect(),
        false => HashSet::new(),
    };
    if let Some(items) = wanted.items.as_mut().filter(|_| !excluded.is_empty()) {
        let is_used = body.slots.iter().any(|slot| slot.items.is_none());
        leave_out(items, &excluded).or_else(|why| if is_used { Err(why) } else { Ok(()) })?;
    }
    let mut slots = Vec::with_capacity(body.slots.len());
    for mut slot in body.slots {
        check_id("a slot's id", &slot.id, service.config.max_id_bytes)?;
        if !names.insert(slot.id.clone()) {
            let sentence = format!("the slot `{}` is there twice", slot.id);
            return Err(ApiError::new(422, "slot_twice", sentence));
        }
        if let Some(items) = slot.items.as_mut().filter(|_| !excluded.is_empty()) {
            leave_out(items, &excluded)?;
        }
        let mut offer = service.wanted(wanted.of_slot(slot.items, slot.filter, slot.exclude)?)?;
        offer.user = user_features.clone();
        offer.context = match (&context, slot.features) {
            (None, Some(own)) => Some(Arc::new(own.0)),
            (Some(shared), Some(own)) => Some(Arc::new(shared.joined(&own.0))),
            (shared, None) => shared.clone(),
        };
        let decision = format!("{slate_id}/{}", slot.id);
        slots.push(Slot { id: slot.id, decision, offer });
    }
    let ids: Vec<String> = slots.iter().map(|slot| slot.id.clone()).collect();
    for slot in &slots {
        check_id("a slate's id and a slot's", &slot.decision, service.config.max_id_bytes)?;
    }
    let user = service.for_user(body.user, Some(slate_id.clone()), body.shown)?;
    let request = Request::Slate { app, user, slots, explain: body.explain };
    let decisions = decisions_in(service.engine.ask(request).await?)?;
    let slots = ids
        .into_iter()
        .zip(decisions)
        .map(|(slot, made)| Ok::<_, ApiError>(SlotAnswer { slot, decision: body_of(made?) }));
    Ok(Json(SlateAnswer { slate_id, slots: slots.collect::<Result<_, _>>()? }))
}

impl Wanted {
    /// Whether a place has a list of candidates, its own or the shared one.
    fn lists(&self, slot: &SlotBody) -> bool {
        slot.items.is_some() || self.items.is_some()
    }
}

impl Service {
    /// Refuses candidates that are too many, or too large, for all places together: each place has its own list of them.
    fn check_candidates(
        &self,
        app: &str,
        wanted: &Wanted,
        slots: &[SlotBody],
        context: Option<&Features>,
    ) -> Result<(), ApiError> {
        let listed =
            |slot: &SlotBody| slot.items.as_ref().or(wanted.items.as_ref()).map_or(0, Vec::len);
        let items: usize = slots.iter().map(listed).sum();
        let dim = self.engine.directory().app(app).map_or(0, |listed| listed.dim);
        self.check_places(items, dim)?;
        let mut excluded = wanted.exclude.len();
        self.check_excluded(excluded)?;
        for slot in slots {
            self.check_excluded(wanted.exclude.len() + slot.exclude.len())?;
            excluded += slot.exclude.len();
            // What all share is left out of the catalogue for each.
            excluded += if wanted.lists(slot) { 0 } else { wanted.exclude.len() };
        }
        let limit = self.config.max_work / EXCLUDED_WORK;
        if excluded as u64 > limit {
            let (places, found) = (slots.len(), excluded);
            return Err(Refusal::TooMuchExcluded { places, found, limit }.into());
        }
        let shared: usize = wanted.items.iter().flatten().map(bytes_of).sum();
        let sharing = slots.iter().filter(|slot| slot.items.is_none()).count();
        // A place with features of its own has its own copy of the context.
        let joined = slots.iter().filter(|slot| slot.features.is_some()).count();
        let contexts = context.map_or(0, Features::bytes).saturating_mul(joined);
        let filter = wanted.filter.as_ref().map_or(0, |filter| filter.0.to_string().len());
        let copies = [shared.saturating_mul(sharing), contexts, filter.saturating_mul(slots.len())];
        Ok(self.check_held(copies.into_iter().fold(0, usize::saturating_add))?)
    }

    /// Refuses so many candidates, all places of a slate together.
    pub(super) fn check_places(&self, items: usize, dim: usize) -> Result<(), Refusal> {
        let limit = self.config.max_work;
        match (items as u64).saturating_mul((dim * dim) as u64) > limit {
            true => Err(Refusal::TooMuchWork { users: 1, items, dim, limit }),
            false => Ok(()),
        }
    }

    /// How much memory what all places of a slate hold together may take.
    pub(super) fn most_held(&self) -> usize {
        COPIED * self.config.body_bytes
    }

    /// Refuses what would take so much memory, all places of a slate together.
    pub(super) fn check_held(&self, found: usize) -> Result<(), Refusal> {
        let limit = self.most_held();
        match found > limit {
            true => {
                let (code, what) = ("too_much_held", "held for all places");
                Err(Refusal::TooLarge { code, what, found, limit })
            }
            false => Ok(()),
        }
    }
}

/// How much memory a candidate takes, roughly.
fn bytes_of(candidate: &Candidate) -> usize {
    let features = match candidate.features.as_ref().map(|features| &features.0) {
        Some(Given::Vector(vector)) => size_of_val(&vector[..]),
        Some(Given::Json(features)) => features.bytes(),
        None => 0,
    };
    size_of::<Candidate>() + candidate.id.len() + features
}

fn new_id() -> Result<String, ApiError> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).map_err(|_| {
        let sentence = "the machine gives no random numbers; send a slate_id, or try again";
        ApiError::later(503, "no_random_numbers", sentence, 1)
    })?;
    Ok(hex(&bytes))
}

/// Rewards for places of a slate.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"slate_id": "s1", "rewards": [{"slot": "top", "reward": 1.0}]}))]
pub struct SlateRewards {
    /// The slate's id.
    pub slate_id: String,
    /// One for each place that was answered; others may come later.
    pub rewards: Vec<SlotReward>,
}

/// A reward for a place.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotReward {
    /// The place.
    pub slot: String,
    /// The answer.
    pub reward: f64,
}

/// What rewards did, place by place.
#[derive(Debug, Serialize, ToSchema)]
pub struct SlateOutcomes {
    /// In the order of the rewards.
    pub outcomes: Vec<OutcomeOrError>,
}

/// Rewards for places of a slate, each with an outcome of its own.
#[utoipa::path(post, path = "/v1/apps/{app}/slate-rewards", tag = "reward",
    params(("app" = String, Path)), request_body = SlateRewards,
    responses((status = 200, body = SlateOutcomes), (status = "4XX", body = ErrorBody)))]
pub async fn slate_rewards(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::REWARD }>,
    JsonBody(body): JsonBody<SlateRewards>,
) -> Result<Json<SlateOutcomes>, ApiError> {
    check_count("rewards", body.rewards.len(), MOST_SLOTS)?;
    let slate = &body.slate_id;
    let rewards = body.rewards.into_iter().map(|one| RewardBody {
        decision_id: format!("{slate}/{}", one.slot),
        reward: one.reward,
        _user: None,
    });
    let body = RewardsBody { rewards: rewards.collect() };
    Ok(Json(SlateOutcomes { outcomes: rewards_of(&service, app, body).await? }))
}
