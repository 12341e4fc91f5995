//! What came of it? An event is a decision; of a rank for several places, each place is one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;

use super::error::DialectError;
use super::{Loop, Sent, bug, check_id};
use crate::auth::Scopes;
use crate::engine::{Answer, Refusal, Request};
use crate::http::Service;

const BAD_REWARD: &str = "InvalidRewardRequest";
const BAD_ACTIVATION: &str = "InvalidEventIdToActivate";

/// A reward as it is sent.
#[derive(Deserialize)]
pub struct Reward {
    value: f64,
}

/// Rewards of several places.
#[derive(Deserialize)]
pub struct SlotRewards {
    reward: Vec<SlotReward>,
}

/// The reward of one of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReward {
    slot_id: String,
    value: f64,
}

/// A reward of an event. One that is not known, that came too late or that was never shown is passed over
/// without a word, as clients expect it.
pub async fn reward(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::REWARD }>,
    sent: Sent,
) -> Result<StatusCode, DialectError> {
    let event = asked.event(BAD_REWARD)?.to_owned();
    let Reward { value } = sent.json(BAD_REWARD).await?;
    check_reward(value)?;
    service.give(&asked.app, vec![(event, value)]).await
}

/// Rewards of the places of an event, in one call or in several.
pub async fn reward_slots(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::REWARD }>,
    sent: Sent,
) -> Result<StatusCode, DialectError> {
    let event = asked.event(BAD_REWARD)?;
    let sent: SlotRewards = sent.json(BAD_REWARD).await?;
    if sent.reward.is_empty() {
        return Err(DialectError::bad(BAD_REWARD, "reward: expected one slot or more"));
    }
    if sent.reward.len() > service.config.max_batch {
        return Err(DialectError::bad(BAD_REWARD, "reward: more slots than one request may have"));
    }
    let mut rewards = Vec::with_capacity(sent.reward.len());
    for SlotReward { slot_id, value } in sent.reward {
        check_id("the slotId", &slot_id, BAD_REWARD)?;
        check_reward(value)?;
        rewards.push((slot_decision(event, &slot_id), value));
    }
    service.give(&asked.app, rewards).await
}

/// An event that was ranked with `deferActivation` was shown.
pub async fn activate(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::DECIDE }>,
) -> Result<StatusCode, DialectError> {
    let event = asked.event(BAD_ACTIVATION)?.to_owned();
    service.show(&asked.app, event).await
}

/// The same for all places of an event.
pub async fn activate_slots(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::DECIDE }>,
) -> Result<StatusCode, DialectError> {
    let beginning = slot_decision(asked.event(BAD_ACTIVATION)?, "");
    for decision in service.waiting_to_be_shown(&asked.app, beginning).await? {
        service.show(&asked.app, decision).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The decision for one place of an event. No event of another kind has such a name by accident, and no
/// two places have the same.
pub(super) fn slot_decision(event: &str, slot: &str) -> String {
    format!("slot:{}:{event}:{slot}", event.len())
}

fn check_reward(value: f64) -> Result<(), DialectError> {
    match (-1.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(DialectError::bad(BAD_REWARD, "a reward must be a number from -1 to 1")),
    }
}

impl Service {
    async fn give(
        &self,
        app: &str,
        rewards: Vec<(String, f64)>,
    ) -> Result<StatusCode, DialectError> {
        let told = |why| DialectError::from_refusal(why, BAD_REWARD);
        let request = Request::Reward { app: app.to_owned(), rewards };
        let Answer::Rewarded(outcomes) = self.engine.ask(request).await.map_err(told)? else {
            return Err(bug());
        };
        for outcome in outcomes {
            let what = match outcome {
                Ok(_) => "taken",
                Err(why) => match why {
                    Refusal::DecisionUnknown { .. } => "unknown",
                    Refusal::Late { .. } => "late",
                    Refusal::NotShown { .. } => "not_shown",
                    other => return Err(told(other)),
                },
            };
            metrics::counter!("cohort_personalizer_rewards_total", "outcome" => what).increment(1);
        }
        Ok(StatusCode::NO_CONTENT)
    }

    async fn show(&self, app: &str, decision: String) -> Result<StatusCode, DialectError> {
        match self.engine.ask(Request::Activate { app: app.to_owned(), decision }).await {
            Ok(_) | Err(Refusal::DecisionUnknown { .. }) => Ok(StatusCode::NO_CONTENT),
            Err(why) => Err(DialectError::from_refusal(why, BAD_ACTIVATION)),
        }
    }

    /// Decisions whose ids begin so and that were not shown yet.
    async fn waiting_to_be_shown(
        &self,
        app: &str,
        beginning: String,
    ) -> Result<Vec<String>, DialectError> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let look = move |app: &mut crate::state::App, _: &crate::engine::recent::Recent| {
            let found = app.decisions().not_shown_with(&beginning);
            // Whoever asked may have gone.
            let _ = send.send(found);
        };
        let request = Request::Inspect { app: app.to_owned(), inspect: Box::new(look) };
        let asked = self.engine.ask(request).await;
        asked.map_err(|why| DialectError::from_refusal(why, BAD_ACTIVATION))?;
        receive.await.map_err(|_| bug())
    }
}
