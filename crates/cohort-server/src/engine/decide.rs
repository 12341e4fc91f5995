//! Deciding: candidates judged, one chosen, the rest ranked, all written down.

use cohort::{Contexts, Score};
use rand::RngExt;

use super::choice::{Choice, choose_in_trial, probabilities, rank};
use super::recent::{Reasons, candidates};
use super::request::{Answer, ForUser, Made, Offer};
use super::{Engine, Limits, Refusal};
use crate::auth::hex;
use crate::event::{Decided, Ranking, What};
use crate::journal::Group;
use crate::learning::{Learning, Mode};
use crate::trial::TrialDecision;

/// What a decision takes beside ids and features, in the journal and in an answer, roughly.
const EVENT_BYTES: usize = 128;
/// What the explanation of a candidate takes beside its id.
const EXPLAINED_BYTES: usize = 96;

/// Memory that is used again for every decision.
#[derive(Default)]
pub(super) struct Scratch {
    features: Vec<f64>,
    scores: Vec<Score>,
    chances: Vec<f64>,
}

impl Engine {
    pub(super) fn decide(
        &mut self,
        now_ms: u64,
        app: &str,
        offer: Offer,
        users: Vec<ForUser>,
        explain: bool,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        self.check_work(app, &offer, users.len().max(offer.batch), explain)?;
        let at_ms = self.advance(now_ms, app, group)?;
        self.start_job_if_due(app)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        // A retry needs no candidates: they may have left the catalogue since.
        let known = self.app(app)?.decisions();
        let is_retry =
            |user: &ForUser| user.decision.as_ref().is_some_and(|id| known.get(id).is_some());
        let looked_up = match users.iter().all(is_retry) {
            true => Ok(()),
            false => self.look_up(at_ms, app, &offer, &mut scratch.features, group),
        };
        let answer = looked_up.map(|()| {
            scratch.scores.resize(offer.ids.len(), Score::default());
            scratch.chances.resize(offer.ids.len(), 0.0);
            let decisions = users.into_iter().map(|user| {
                self.decide_for(at_ms, app, &offer, user, explain, &mut scratch, group)
            });
            Answer::Decided(decisions.collect())
        });
        self.scratch = scratch;
        answer
    }

    /// Refuses, before anything is done, what would take too long, or write or answer too much: a small
    /// request can ask for very much.
    fn check_work(
        &self,
        app: &str,
        offer: &Offer,
        users: usize,
        explain: bool,
    ) -> Result<(), Refusal> {
        let known = self.app(app)?;
        let (dim, items) = (known.settings().dim, offer.ids.len());
        let work = (users as u64).saturating_mul(items as u64).saturating_mul((dim * dim) as u64);
        if work > self.limits.work {
            return Err(Refusal::TooMuchWork { users, items, dim, limit: self.limits.work });
        }
        let ids: usize = offer.ids.iter().map(String::len).sum();
        let rows = if known.trial().log_candidates { 1 + items } else { 1 };
        let journal = users.saturating_mul(ids + 2 * items + 8 * dim * rows + EVENT_BYTES);
        if journal > self.limits.journal_bytes {
            let (what, limit) = ("written to the journal", self.limits.journal_bytes);
            let code = "too_much_written";
            return Err(Refusal::TooLarge { code, what, found: journal, limit });
        }
        let explained = if explain { items * EXPLAINED_BYTES + ids } else { 0 };
        let answer = users.saturating_mul(ids + 3 * items + explained + EVENT_BYTES);
        match answer > self.limits.answer_bytes {
            true => {
                let (what, limit) = ("answered", self.limits.answer_bytes);
                Err(Refusal::TooLarge { code: "answer_too_large", what, found: answer, limit })
            }
            false => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `decide`, cut out to be readable")]
    fn decide_for(
        &mut self,
        at_ms: u64,
        app: &str,
        offer: &Offer,
        ForUser { user, decision, shown }: ForUser,
        explain: bool,
        scratch: &mut Scratch,
        group: &mut Group,
    ) -> Result<Made, Refusal> {
        let Limits { waiting: waiting_limit, decision_bytes, .. } = self.limits;
        let known = self.app(app)?;
        if let Some(before) = decision.as_ref().and_then(|id| known.decisions().get(id)) {
            return made_before(&before.made, &user);
        }
        if known.decisions().waiting() >= waiting_limit {
            return Err(Refusal::TooManyWaiting { limit: waiting_limit });
        }
        if known.decisions().bytes() >= decision_bytes {
            return Err(Refusal::TooMuchRemembered { limit: decision_bytes });
        }
        self.make_room_for(at_ms, app, &user, group)?;
        let known = self.app(app)?;
        let (dim, epsilon) = (known.settings().dim, known.settings().epsilon);
        let trial = known.trial();
        let (mut control_share, log_candidates) = (trial.control, trial.log_candidates);
        let mode = known.learning().mode;
        if known.learning().sticky_control && control_share > 0.0 {
            control_share = f64::from(u8::from(Learning::is_control(&user, control_share)));
        }
        let is_trial = trial.concerns_decisions();
        let contexts = Contexts::new(&scratch.features, dim)
            .map_err(|why| Refusal::Bug { why: why.to_string() })?;
        let (scores, chances) = (&mut scratch.scores[..], &mut scratch.chances[..]);
        let seed = self.rng.random();
        let known = self.app_mut(app)?;
        known.score(&user, &contexts, scores);
        let ids = &offer.ids[..];
        known.add_effects(&user, ids, scores);
        let parts = explain.then(|| known.parts(&user, offer)).flatten();
        let draws = known.chances(&user, &contexts, seed, chances);
        let chances = draws.then_some(&*chances);
        let (choice, control) = match mode {
            Mode::Online => choose_in_trial(scores, chances, epsilon, control_share, &mut self.rng),
            // The caller's own choice is the first.
            Mode::Apprentice | Mode::LoggingOnly => (Choice { item: 0, probability: 1.0 }, false),
        };
        let agreed = (mode == Mode::Apprentice).then(|| would_choose(scores, choice.item));
        let ranking = rank(scores, choice.item);
        let of_all = explain.then(|| {
            let of_all = match mode {
                Mode::Online => probabilities(scores, chances, epsilon, control_share),
                _ => (0..ids.len()).map(|item| f64::from(u8::from(item == choice.item))).collect(),
            };
            ranking.iter().map(|item| of_all[*item]).collect()
        });

        let id = decision.unwrap_or_else(|| hex(&self.rng.random::<[u8; 16]>()));
        let made = Made {
            id: id.clone(),
            ranking: Ranking::new(ranking.iter().map(|item| ids[*item].as_str())),
            probability: choice.probability,
            probabilities: of_all,
            scores: explain.then(|| ranking.iter().map(|item| scores[*item]).collect()),
            parts: parts.map(|parts| ranking.iter().map(|item| parts[*item].clone()).collect()),
        };
        let decided = Decided {
            id,
            user,
            ranking: made.ranking.clone(),
            context: contexts.arm(choice.item).into(),
            probability: choice.probability,
            shown,
        };
        let recent = self.recent.get(app);
        if recent.is_none_or(|recent| recent.wants(at_ms, explain)) {
            let reasons = Reasons {
                id: decided.id.clone(),
                user: decided.user.clone(),
                at_ms,
                probability: decided.probability,
                control,
                candidates: Vec::new(),
                more: 0,
                memberships: Vec::new(),
            };
            self.remember(app, reasons, ids, &contexts, &ranking, scores)?;
        }
        let what = match is_trial {
            false => What::Decided(decided),
            true => {
                let rows = ranking.iter().flat_map(|item| contexts.arm(*item));
                let candidates =
                    if log_candidates { rows.copied().collect() } else { Box::default() };
                What::DecidedInTrial(TrialDecision { made: decided, control, candidates })
            }
        };
        self.record(group, app, at_ms, what)?;
        if let Some(agreed) = agreed {
            let decision = made.id.clone();
            self.record(group, app, at_ms, What::Watched { decision, agreed })?;
        }
        Ok(made)
    }

    /// Keeps a decision with its reasons, for people to look at.
    fn remember(
        &mut self,
        app: &str,
        mut reasons: Reasons,
        ids: &[String],
        contexts: &Contexts,
        ranking: &[usize],
        scores: &[Score],
    ) -> Result<(), Refusal> {
        let known = self.app_mut(app)?;
        let number = known.users().find(&reasons.user);
        let insight = known.insight();
        let explanation = number.and_then(|user| insight?.explain(user, contexts));
        reasons.candidates = candidates(ids, ranking, scores, explanation.as_ref());
        reasons.more = ids.len() - reasons.candidates.len();
        reasons.memberships = explanation.map(|found| found.memberships).unwrap_or_default();
        self.recent.entry(app.to_owned()).or_default().add(reasons);
        Ok(())
    }
}

/// Whether a policy that only watches would choose this item: none is expected to be better. What it is
/// unsure of does not count, as it would try that only if it decided.
fn would_choose(scores: &[Score], item: usize) -> bool {
    scores.iter().all(|other| other.expected <= scores[item].expected)
}

/// A retry gets the decision that was made, whatever candidates it brings this time.
fn made_before(made: &Decided, user: &str) -> Result<Made, Refusal> {
    if made.user != user {
        return Err(Refusal::DecisionReused { decision: made.id.clone() });
    }
    Ok(Made {
        id: made.id.clone(),
        ranking: made.ranking.clone(),
        probability: made.probability,
        probabilities: None,
        scores: None,
        parts: None,
    })
}
