//! What is done with what comes after a decision: it was shown, users answered; and with what was
//! learned of that, where it is replaced.

use super::request::RewardOutcome;
use super::time::status_at;
use super::{Answer, Engine, Refusal};
use crate::event::What;
use crate::journal::Group;
use crate::learning::{Aggregation, MOST_GATHERED, Mode};
use crate::settings::is_reward;
use crate::state::{Model, Status};

impl Engine {
    pub(super) fn activate(
        &mut self,
        now_ms: u64,
        app: String,
        decision: String,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, &app, group)?;
        let known = self.app(&app)?;
        let found = known.decisions().get(&decision);
        let Some(status) = found.and_then(|found| status_at(known, found, at_ms)) else {
            return Err(Refusal::DecisionUnknown { decision });
        };
        // Asking twice is asking once: a retry must not fail.
        if status == Status::NotShown {
            self.record(group, &app, at_ms, What::Activated(decision))?;
        }
        Ok(Answer::Done)
    }

    pub(super) fn reward(
        &mut self,
        at_ms: u64,
        app: &str,
        decision: String,
        reward: f64,
        group: &mut Group,
    ) -> Result<RewardOutcome, Refusal> {
        if !is_reward(reward) {
            return Err(Refusal::BadReward { reward });
        }
        let known = self.app(app)?;
        let gathers = known.learning().aggregation != Aggregation::Earliest;
        let found = known.decisions().get(&decision);
        if gathers && found.is_some_and(|found| !known.can_gather(found)) {
            return Err(Refusal::TooMany {
                what: "rewards for one decision",
                limit: MOST_GATHERED,
            });
        }
        match found.and_then(|found| status_at(known, found, at_ms)) {
            None => Err(Refusal::DecisionUnknown { decision }),
            Some(Status::NotShown) => Err(Refusal::NotShown { decision }),
            Some(Status::Expired(_)) => Err(Refusal::Late { decision }),
            Some(Status::Rewarded(first)) => Ok(RewardOutcome::Repeated { first }),
            Some(Status::Open) => {
                let learns = known.learning().mode != Mode::LoggingOnly;
                self.record(group, app, at_ms, What::Rewarded { decision, reward })?;
                Ok(match (gathers, learns) {
                    (true, _) => RewardOutcome::Gathered,
                    (false, true) => RewardOutcome::Learned,
                    (false, false) => RewardOutcome::Logged,
                })
            }
        }
    }

    pub(super) fn replace_model(
        &mut self,
        now_ms: u64,
        app: &str,
        model: Option<Model>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.catch_up(now_ms, app, group)?;
        let mut bytes = None;
        if let Some(model) = model {
            let known = self.app_mut(app)?;
            let (model, read) =
                model.that_fits(known.settings()).map_err(|why| Refusal::BadModel { why })?;
            known.expect_model(read);
            bytes = Some(model);
        }
        let done = self.record(group, app, at_ms, What::ModelReplaced(bytes));
        if let Some(replaced) = self.app_mut(app)?.take_replaced() {
            // Where no thread can be had it is done here.
            drop(std::thread::Builder::new().spawn(move || drop(replaced)));
        }
        done?;
        // What a refit finds that is under way is about what was known before.
        self.refits.under_way.remove(app);
        self.recent.remove(app);
        Ok(Answer::Done)
    }
}
