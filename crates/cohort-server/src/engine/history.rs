//! What was decided elsewhere, and what came of it: learned as if it had been decided here.

use super::request::{Answer, Offer, RewardOutcome};
use super::{Engine, Refusal};
use crate::auth::hex;
use crate::event::{Decided, PastDecided, Ranking, What};
use crate::journal::Group;
use crate::settings::is_reward;
use rand::RngExt;

/// A decision of the past.
#[derive(Clone, Debug)]
pub struct PastDecision {
    /// Its id: what was learned under it once is not learned again. One is made up if it has none.
    pub id: Option<String>,
    /// The user.
    pub user: String,
    /// What was shown: one item, with its features or by its name in the catalogue, in its context.
    pub offer: Offer,
    /// What else could have been chosen, as far as that is known by name.
    pub others: Vec<String>,
    /// How many items could have been chosen, where that is known.
    pub among: Option<u64>,
    /// With what probability.
    pub probability: f64,
    /// What came of it.
    pub reward: f64,
}

impl Engine {
    pub(super) fn learn_history(
        &mut self,
        now_ms: u64,
        app: &str,
        decisions: Vec<PastDecision>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        self.start_job_if_due(app)?;
        let learned = decisions.into_iter().map(|past| self.learn_past(at_ms, app, past, group));
        Ok(Answer::Rewarded(learned.collect()))
    }

    fn learn_past(
        &mut self,
        at_ms: u64,
        app: &str,
        past: PastDecision,
        group: &mut Group,
    ) -> Result<RewardOutcome, Refusal> {
        let PastDecision { id, user, offer, others, among, probability, reward } = past;
        if !is_reward(reward) {
            return Err(Refusal::BadReward { reward });
        }
        if let Some(before) = self.admit(at_ms, app, &user, id.as_deref(), group)? {
            let known = self.app(app)?.decisions().get(&before.id);
            let first = known.map_or(reward, |known| match known.status {
                crate::state::Status::Rewarded(first) => first,
                _ => reward,
            });
            return Ok(RewardOutcome::Repeated { first });
        }
        let mut row = Vec::new();
        self.look_up(at_ms, app, &offer, &mut row, group)?;
        let id = id.unwrap_or_else(|| hex(&self.rng.random::<[u8; 16]>()));
        let made = Decided {
            id: id.clone(),
            user,
            ranking: Ranking::new(offer.ids.iter().chain(&others).map(String::as_str)),
            context: row.into(),
            probability,
            shown: true,
        };
        let what = What::DecidedElsewhere(PastDecided { made, among });
        self.record(group, app, at_ms, what)?;
        self.reward(at_ms, app, id, reward, group)
    }
}
