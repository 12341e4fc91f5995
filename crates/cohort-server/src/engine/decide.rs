//! Deciding: candidates judged, one chosen, the rest ranked, all written down.

use cohort::{Contexts, Score};
use cohort_features::Contribution;
use rand::RngExt;

use super::choice::{Choice, choose_in_trial, probabilities, rank};
use super::recent::{CANDIDATES, Reasons, candidates};
use super::request::{Answer, ForUser, Made, Offer};
use super::{Engine, Limits, Refusal};
use crate::auth::hex;
use crate::event::{CatalogueDecision, Decided, Ranking, What};
use crate::imitation::Rival;
use crate::journal::Group;
use crate::learning::{Learning, Mode};
use crate::trial::TrialDecision;

/// How decisions are made for a user.
pub(super) struct Terms {
    pub dim: usize,
    pub epsilon: f64,
    /// The share of the control group.
    pub control_share: f64,
    pub mode: Mode,
}

/// A candidate in its place of a ranking.
pub(super) struct Ranked<'a> {
    pub id: &'a str,
    pub row: &'a [f64],
    pub score: Score,
    /// What is expected of it by names of features, where that is told.
    pub parts: &'a [Contribution],
}

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
        offer: &Offer,
        users: Vec<ForUser>,
        explain: bool,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        if let Some(pick) = offer.pick.clone() {
            return self.decide_from_catalogue(now_ms, app, (offer, &pick), users, explain, group);
        }
        let demand = self.demand(app, offer, users.len().max(offer.batch), explain)?;
        self.refuse_beyond_limits(&demand)?;
        let at_ms = self.advance(now_ms, app, group)?;
        self.start_job_if_due(app)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        // A retry needs no candidates: they may have left the catalogue since.
        let known = self.app(app)?.decisions();
        let is_retry =
            |user: &ForUser| user.decision.as_ref().is_some_and(|id| known.get(id).is_some());
        let looked_up = match users.iter().all(is_retry) {
            true => Ok(()),
            false => self.look_up(at_ms, app, offer, &mut scratch.features, group),
        };
        let answer = looked_up.map(|()| {
            scratch.scores.resize(offer.ids.len(), Score::default());
            scratch.chances.resize(offer.ids.len(), 0.0);
            let decisions = users
                .into_iter()
                .map(|user| self.decide_for(at_ms, app, offer, user, explain, &mut scratch, group));
            Answer::Decided(decisions.collect())
        });
        self.scratch = scratch;
        answer
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
        if let Some(before) = self.admit(at_ms, app, &user, decision.as_deref(), group)? {
            return Ok(before);
        }
        let Terms { dim, epsilon, control_share, mode, .. } = self.terms(app, &user)?;
        let contexts = Contexts::new(&scratch.features, dim)
            .map_err(|why| Refusal::Bug { why: why.to_string() })?;
        let (scores, chances) = (&mut scratch.scores[..], &mut scratch.chances[..]);
        let seed = self.rng.random();
        let wants_reasons = self.wants_reasons(app, at_ms, explain);
        let known = self.app_mut(app)?;
        known.score(&user, &contexts, scores);
        let ids = &offer.ids[..];
        known.add_effects(&user, ids, &contexts, scores);
        let draws = known.chances(&user, &contexts, seed, chances);
        let chances = draws.then_some(&*chances);
        let (choice, control) = match mode {
            Mode::Online => choose_in_trial(scores, chances, epsilon, control_share, &mut self.rng),
            // The caller's own choice is the first.
            Mode::Apprentice | Mode::LoggingOnly => (Choice { item: 0, probability: 1.0 }, false),
        };
        let ranking = rank(scores, choice.item);
        let of_all = explain.then(|| {
            let of_all = match mode {
                Mode::Online => probabilities(scores, chances, epsilon, control_share),
                _ => (0..ids.len()).map(|item| f64::from(u8::from(item == choice.item))).collect(),
            };
            ranking.iter().map(|item| of_all[*item]).collect()
        });

        let told = match (explain, wants_reasons) {
            (true, _) => ranking.len(),
            (false, true) => ranking.len().min(CANDIDATES),
            (false, false) => 0,
        };
        let told = ranking[..told].iter().map(|at| (*at, contexts.arm(*at), scores[*at]));
        let parts = match told.len() {
            0 => Vec::new(),
            _ => self.app_mut(app)?.parts(&user, offer, told).unwrap_or_default(),
        };

        let id = decision.unwrap_or_else(|| hex(&self.rng.random::<[u8; 16]>()));
        let made = Made {
            id: id.clone(),
            ranking: Ranking::new(ranking.iter().map(|item| ids[*item].as_str())),
            probability: choice.probability,
            probabilities: of_all,
            scores: explain.then(|| ranking.iter().map(|item| scores[*item]).collect()),
            parts: (explain && !parts.is_empty()).then(|| parts.clone()),
        };
        let decided = Decided {
            id,
            user,
            ranking: made.ranking.clone(),
            context: contexts.arm(choice.item).into(),
            probability: choice.probability,
            shown,
        };
        let ranked = ranking.iter().enumerate().map(|(place, item)| Ranked {
            id: &ids[*item],
            row: contexts.arm(*item),
            score: scores[*item],
            parts: parts.get(place).map_or(&[], Vec::as_slice),
        });
        let ranked: Vec<Ranked> = ranked.collect();
        self.write_down((app, at_ms), (decided, control), None, explain, &ranked, group)?;
        if mode == Mode::Apprentice {
            let rows = contexts.iter();
            self.imitate((app, at_ms), &made.id, ids.iter().zip(rows), group)?;
        }
        Ok(made)
    }

    /// Lets the apprentice say what it would have chosen, and learn that the first candidate was.
    fn imitate<'a>(
        &mut self,
        (app, at_ms): (&str, u64),
        decision: &str,
        mut candidates: impl Iterator<Item = (&'a String, &'a [f64])>,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        let imitator = self.app(app)?.imitator();
        let Some((item, row)) = candidates.next() else { return Ok(()) };
        let shown = imitator.score(item, row);
        let mut best: Option<(f64, &String, &[f64])> = None;
        let mut alike = 0;
        for (item, row) in candidates {
            let score = imitator.score(item, row);
            alike += usize::from(score == shown);
            if best.as_ref().is_none_or(|(most, ..)| score > *most) {
                best = Some((score, item, row));
            }
        }
        // Of several that are liked alike any is chosen.
        let is_best = best.as_ref().is_none_or(|(score, ..)| *score <= shown);
        let agreed = is_best && (alike == 0 || self.rng.random_range(0..=alike) == 0);
        let rival = best.map(|(_, item, row)| Rival { item: item.clone(), context: row.into() });
        let decision = decision.to_owned();
        self.record_decision(group, app, at_ms, What::Imitated { decision, agreed, rival })
    }

    /// Whether there is room for one more decision; or the decision of that id, if it was made before.
    pub(super) fn admit(
        &mut self,
        at_ms: u64,
        app: &str,
        user: &str,
        decision: Option<&str>,
        group: &mut Group,
    ) -> Result<Option<Made>, Refusal> {
        let Limits { waiting: waiting_limit, decision_bytes, .. } = self.limits;
        let known = self.app(app)?;
        if let Some(before) = decision.and_then(|id| known.decisions().get(id)) {
            return made_before(&before.made, user).map(Some);
        }
        if known.decisions().waiting() >= waiting_limit {
            return Err(Refusal::TooManyWaiting { limit: waiting_limit });
        }
        if known.decisions().bytes() >= decision_bytes {
            return Err(Refusal::TooMuchRemembered { limit: decision_bytes });
        }
        self.make_room_for(at_ms, app, user, group)?;
        Ok(None)
    }

    /// How decisions of an app are made for a user.
    pub(super) fn terms(&self, app: &str, user: &str) -> Result<Terms, Refusal> {
        let known = self.app(app)?;
        let (settings, trial, learning) = (known.settings(), known.trial(), known.learning());
        let mut control_share = trial.control;
        if learning.sticky_control && control_share > 0.0 {
            control_share = f64::from(u8::from(Learning::is_control(user, control_share)));
        }
        Ok(Terms {
            dim: settings.dim,
            epsilon: settings.epsilon,
            control_share,
            mode: learning.mode,
        })
    }

    /// Writes a decision down as an event, and its reasons where they are wanted. `from` is the version of the
    /// catalogue and how many of its items could have been chosen, where it was chosen from that.
    pub(super) fn write_down(
        &mut self,
        (app, at_ms): (&str, u64),
        (made, control): (Decided, bool),
        from: Option<(u64, u64)>,
        explain: bool,
        ranked: &[Ranked],
        group: &mut Group,
    ) -> Result<(), Refusal> {
        if self.wants_reasons(app, at_ms, explain) {
            let reasons = Reasons {
                id: made.id.clone(),
                user: made.user.clone(),
                at_ms,
                probability: made.probability,
                control,
                candidates: Vec::new(),
                more: 0,
                memberships: Vec::new(),
            };
            self.remember(app, reasons, ranked)?;
        }
        let trial = self.app(app)?.trial();
        let (is_trial, log_candidates) = (trial.concerns_decisions(), trial.log_candidates);
        let rows = ranked.iter().flat_map(|one| one.row).copied();
        let candidates = if log_candidates { rows.collect() } else { Box::default() };
        let decision = TrialDecision { made, control, candidates };
        let what = match from {
            Some((version, among)) => {
                What::DecidedFromCatalogue(CatalogueDecision { decision, version, among })
            }
            None if is_trial => What::DecidedInTrial(decision),
            None => What::Decided(decision.made),
        };
        self.record_decision(group, app, at_ms, what)
    }

    /// Whether the reasons of a decision made now are kept.
    pub(super) fn wants_reasons(&self, app: &str, at_ms: u64, explain: bool) -> bool {
        self.recent.get(app).is_none_or(|recent| recent.wants(at_ms, explain))
    }

    /// Keeps a decision with its reasons, for people to look at.
    fn remember(
        &mut self,
        app: &str,
        mut reasons: Reasons,
        ranked: &[Ranked],
    ) -> Result<(), Refusal> {
        let known = self.app_mut(app)?;
        let number = known.users().find(&reasons.user);
        let rows: Vec<f64> =
            ranked.iter().take(CANDIDATES).flat_map(|one| one.row).copied().collect();
        let contexts = Contexts::new(&rows, known.settings().dim);
        let contexts = contexts.map_err(|why| Refusal::Bug { why: why.to_string() })?;
        let insight = known.insight();
        let explanation = number.and_then(|user| insight?.explain(user, &contexts));
        reasons.candidates = candidates(ranked, explanation.as_ref());
        reasons.more = ranked.len() - reasons.candidates.len();
        reasons.memberships = explanation.map(|found| found.memberships).unwrap_or_default();
        self.recent.entry(app.to_owned()).or_default().add(reasons);
        Ok(())
    }
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
