//! Deciding among items of the catalogue that nobody listed: the best of all that match.
//!
//! ```text
//! P(item) = control/K + (1 − control)·(ε/K + (1 − ε)·[item is one of the best]/|best|),   K items match
//! ```
//!
//! Where the policy's score is a form that can be searched ([`cohort::search`]), few items are scored, and the answer is that of
//! scoring each. Items whose vectors depend on the context are put together for it first, once for a request. Items for other
//! policies, and items whose features are multiplied by each other, are scored one by one.

use std::sync::Arc;

use cohort::{Contexts, Score};
use cohort_features as json;
use rand::RngExt;
use rayon::prelude::*;

use super::decide::{Ranked, Terms};
use super::request::{Answer, ForUser, Made, Offer, Pick, Request};
use super::{Engine, Refusal};
use crate::auth::hex;
use crate::event::{Decided, Ranking};
use crate::journal::Group;
use crate::learning::Mode;
use crate::settings::MAX_FEATURE;
use crate::state::catalogue::{Selection, Within};

/// Numbers of items that are scored one by one, at most: they are all in memory at once.
const MOST_NUMBERS: usize = 1 << 24;
/// Items that are made vectors by one task.
const PER_TASK: usize = 512;

/// Items that were scored: all of the best, all that equal the last of them, and some more.
struct Scored {
    slots: Vec<u32>,
    rows: Vec<f64>,
    scores: Vec<Score>,
    /// With what probability each is to be chosen, where the policy draws.
    chances: Option<Vec<f64>>,
}

/// What is chosen from, for how many users.
#[derive(Clone, Copy)]
struct Among<'a> {
    selection: &'a Selection,
    /// The same in the context, where vectors depend on it and can be searched.
    within: Option<&'a Within>,
    batch: usize,
}

/// Numbers of items that are put into an index at a time: some milliseconds.
const NUMBERS_AT_ONCE: usize = 1 << 15;
/// Items that are put into it at a time, at most.
const ITEMS_AT_ONCE: usize = 1 << 10;

impl Engine {
    /// Makes a part of the index that a request chooses from, if it is not there. Says whether the request has to wait for
    /// another part.
    pub fn prepares(&mut self, request: &Request) -> bool {
        let Some(app) = request.picks_in() else { return false };
        let (mut more, nothing) = (false, &mut Group::default());
        let made = self.guarded(app, nothing, |engine, _| {
            if let Some(known) = engine.state.app_mut(app) {
                let most = (NUMBERS_AT_ONCE / known.settings().dim).clamp(1, ITEMS_AT_ONCE);
                more = !known.prepare_index(most);
            }
            Ok(Answer::Done)
        });
        made.is_ok() && more
    }

    pub(super) fn decide_from_catalogue(
        &mut self,
        now_ms: u64,
        app: &str,
        (offer, pick): (&Offer, &Pick),
        users: Vec<ForUser>,
        explain: bool,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        self.start_job_if_due(app)?;
        let known = self.app(app)?.decisions();
        let is_retry =
            |user: &ForUser| user.decision.as_ref().is_some_and(|id| known.get(id).is_some());
        if users.iter().all(is_retry) {
            let made = users.into_iter().map(|user| {
                let ForUser { user, decision, .. } = user;
                let before = self.admit(at_ms, app, &user, decision.as_deref(), group)?;
                before.ok_or_else(|| Refusal::Bug { why: "a retry of nothing".to_owned() })
            });
            return Ok(Answer::Decided(made.collect()));
        }
        if self.app(app)?.learning().mode != Mode::Online {
            return Err(Refusal::NothingToWatch);
        }
        let batch = users.len().max(offer.batch);
        let demand = self.demand(app, offer, batch, explain)?;
        self.refuse_beyond_limits(&demand)?;
        let selection = self.select(app, (offer, pick))?;
        // What JSON brings that was not seen before is written down once, for all users.
        let within = match offer.context.is_some() || offer.user.is_some() {
            true => self.look_around(at_ms, app, offer, &selection, group)?,
            false => None,
        };
        let among = Among { selection: &selection, within: within.as_ref(), batch };
        let decisions = users
            .into_iter()
            .map(|user| self.decide_among(at_ms, app, (offer, pick), among, user, explain, group));
        Ok(Answer::Decided(decisions.collect()))
    }

    /// The items that are meant.
    fn select(&mut self, app: &str, (offer, pick): (&Offer, &Pick)) -> Result<Selection, Refusal> {
        let known = self.app_mut(app)?;
        let all = known.items().len() + known.described().len();
        if known.encoder().is_none() && (offer.context.is_some() || offer.user.is_some()) {
            return Err(Refusal::NotJson);
        }
        let selection = known.select(pick.filter.as_ref(), pick.exclude.iter());
        if selection.count == 0 {
            return Err(Refusal::NothingMatches { items: all });
        }
        Ok(selection)
    }

    /// Features of the context and the user, and their interactions with items, that are new. Gives the items as they
    /// are in this context, where they can be searched.
    fn look_around(
        &mut self,
        at_ms: u64,
        app: &str,
        offer: &Offer,
        selection: &Selection,
        group: &mut Group,
    ) -> Result<Option<Within>, Refusal> {
        let seen = match self.app_mut(app)?.encoder_mut() {
            Some(encoder) => encoder.look(&around(offer))?,
            None => return Err(Refusal::NotJson),
        };
        self.record_seen(at_ms, app, seen, group)?;
        if !self.app(app)?.depends_on(&around(offer)) {
            return Ok(None);
        }
        while let Some((within, seen)) = self.app_mut(app)?.within(&around(offer), selection) {
            if seen.is_empty() {
                return Ok(Some(within));
            }
            self.record_seen(at_ms, app, seen, group)?;
        }
        let known = self.app(app)?;
        let slots: Vec<u32> = selection.iter().collect();
        let described: Vec<_> = known.described_at(&slots).into_iter().flatten().collect();
        let Some(encoder) = known.encoder() else { return Err(Refusal::NotJson) };
        let of_items = json::Offer {
            items: described.iter().map(|features| &**features).collect(),
            ..around(offer)
        };
        encoder.check(&of_items)?;
        let seen = encoder.look_at_pairs(&of_items);
        self.record_seen(at_ms, app, seen, group)?;
        Ok(None)
    }

    #[expect(clippy::too_many_arguments, reason = "one step of deciding, cut out to be readable")]
    fn decide_among(
        &mut self,
        at_ms: u64,
        app: &str,
        (offer, pick): (&Offer, &Pick),
        among: Among,
        ForUser { user, decision, shown }: ForUser,
        explain: bool,
        group: &mut Group,
    ) -> Result<Made, Refusal> {
        if let Some(before) = self.admit(at_ms, app, &user, decision.as_deref(), group)? {
            return Ok(before);
        }
        let terms = self.terms(app, &user)?;
        let selection = among.selection;
        let best = pick.best.clamp(1, selection.count);
        let mut scored = self.score_among(app, &user, offer, best, among)?;
        let all_alike = scored.slots.is_empty();
        if all_alike {
            // Any of them, and the first by name behind it.
            scored.slots = self.first_by_name(app, best, selection)?;
            self.complete(app, &user, offer, &mut scored)?;
        }
        let top = scored.scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
        let is_best = |at: usize| scored.scores[at].total() >= top;
        let bests: Vec<usize> = (0..scored.slots.len()).filter(|at| is_best(*at)).collect();
        let tied = if all_alike { selection.count } else { bests.len() };

        let control = terms.control_share > 0.0 && self.rng.random::<f64>() < terms.control_share;
        let share = if control { 1.0 } else { terms.epsilon };
        let explores = share > 0.0 && self.rng.random::<f64>() < share;
        let slot = if explores || (all_alike && scored.chances.is_none()) {
            selection.nth(self.rng.random_range(0..selection.count))
        } else if let Some(chances) = &scored.chances {
            scored.slots.get(super::choice::draw(chances, 0.0, &mut self.rng).item).copied()
        } else {
            let which = if tied > 1 { self.rng.random_range(0..tied) } else { 0 };
            bests.get(which).and_then(|at| scored.slots.get(*at)).copied()
        };
        let slot = slot.ok_or_else(|| Refusal::Bug { why: "nothing was chosen".to_owned() })?;
        let chosen = match scored.slots.iter().position(|known| *known == slot) {
            Some(at) => at,
            None => {
                scored.slots.push(slot);
                self.complete(app, &user, offer, &mut scored)?;
                scored.slots.len() - 1
            }
        };
        let chances_of = |at: usize| match &scored.chances {
            Some(chances) => chances.get(at).copied().unwrap_or(0.0),
            None if all_alike || scored.scores[at].total() >= top => 1.0 / tied as f64,
            None => 0.0,
        };
        let probability = |at: usize| terms.probability(chances_of(at), selection.count);

        let known = self.app(app)?;
        let mut order: Vec<usize> = (0..scored.slots.len()).collect();
        let total = |at: usize| scored.scores[at].total();
        order.sort_by(|a, b| {
            let by_score =
                (*a != chosen).cmp(&(*b != chosen)).then(total(*b).total_cmp(&total(*a)));
            by_score
                .then_with(|| known.item_at(scored.slots[*a]).cmp(known.item_at(scored.slots[*b])))
        });
        order.truncate(best);
        let ids: Vec<String> =
            order.iter().map(|at| known.item_at(scored.slots[*at]).to_owned()).collect();
        let ranking = Ranking::new(ids.iter().map(String::as_str));
        let version = known.catalogue().version();
        let id = decision.unwrap_or_else(|| hex(&self.rng.random::<[u8; 16]>()));
        let dim = terms.dim;
        let row = |at: usize| &scored.rows[at * dim..][..dim];
        let parts = match explain || self.wants_reasons(app, at_ms, explain) {
            true => {
                let told = Offer { pick: None, ids: ids.clone(), ..offer.clone() };
                let ranked = order.iter().enumerate();
                let ranked = ranked.map(|(place, at)| (place, row(*at), scored.scores[*at]));
                self.app_mut(app)?.parts(&user, &told, ranked).unwrap_or_default()
            }
            false => Vec::new(),
        };
        let made = Made {
            id: id.clone(),
            ranking: ranking.clone(),
            probability: probability(chosen),
            probabilities: explain.then(|| order.iter().map(|at| probability(*at)).collect()),
            scores: explain.then(|| order.iter().map(|at| scored.scores[*at]).collect()),
            parts: (explain && !parts.is_empty()).then(|| parts.clone()),
        };
        let (context, probability) = (row(chosen).into(), made.probability);
        let decided = Decided { id, user, ranking, context, probability, shown };
        let ranked = order.iter().zip(&ids).enumerate().map(|(place, (at, id))| Ranked {
            id,
            row: row(*at),
            score: scored.scores[*at],
            parts: parts.get(place).map_or(&[], Vec::as_slice),
        });
        let ranked: Vec<Ranked> = ranked.collect();
        let from = Some((version, selection.count as u64));
        self.write_down((app, at_ms), (decided, control), from, explain, &ranked, group)?;
        Ok(made)
    }

    /// What is needed to find the best, scored; nothing where all items are alike. As much is done for each user of the
    /// `batch`.
    fn score_among(
        &mut self,
        app: &str,
        user: &str,
        offer: &Offer,
        best: usize,
        Among { selection, within, batch }: Among,
    ) -> Result<Scored, Refusal> {
        let seed = self.rng.random();
        let limit = self.limits.work;
        let known = self.app_mut(app)?;
        let dim = known.settings().dim;
        let (slots, rows, scores) = (Vec::new(), Vec::new(), Vec::new());
        let mut scored = Scored { slots, rows, scores, chances: None };
        // Whether it draws its items can be asked with any of them.
        let first = selection.nth(0).and_then(|slot| known.row_at(slot, &around(offer)));
        let first = first.ok_or_else(|| Refusal::Bug { why: "an item is not there".to_owned() })?;
        let contexts = Contexts::new(&first, dim);
        let contexts = contexts.map_err(|why| Refusal::Bug { why: why.to_string() })?;
        let draws = known.chances(user, &contexts, seed, &mut [0.0]);
        let is_fixed = within.is_some() || !known.depends_on(&around(offer));
        let searched = match !draws && is_fixed {
            true => known.search(user, best, selection, within),
            false => None,
        };
        match searched {
            Some(None) => return Ok(scored),
            Some(Some(found)) => scored.slots = found,
            None => {
                let (users, items) = (batch, selection.count);
                let each = (items as u64).saturating_mul((dim * dim) as u64);
                let work = each.saturating_mul(users as u64);
                if work > limit || items.saturating_mul(dim) > MOST_NUMBERS {
                    return Err(Refusal::TooMuchWork { users, items, dim, limit });
                }
                scored.slots = selection.iter().collect();
            }
        }
        self.complete(app, user, offer, &mut scored)?;
        if draws {
            let contexts = Contexts::new(&scored.rows, dim);
            let contexts = contexts.map_err(|why| Refusal::Bug { why: why.to_string() })?;
            let mut chances = vec![0.0; scored.slots.len()];
            self.app_mut(app)?.chances(user, &contexts, seed, &mut chances);
            scored.chances = Some(chances);
        }
        Ok(scored)
    }

    /// The rows and scores of slots that have none yet.
    fn complete(
        &mut self,
        app: &str,
        user: &str,
        offer: &Offer,
        scored: &mut Scored,
    ) -> Result<(), Refusal> {
        let known = self.app_mut(app)?;
        let dim = known.settings().dim;
        let (from, around) = (scored.scores.len(), around(offer));
        let slots = &scored.slots[from..];
        if slots.is_empty() {
            return Ok(());
        }
        let found: Option<Vec<Vec<f64>>> = match slots.len() > PER_TASK {
            true => rows_of(known, slots, &around),
            false => slots.iter().map(|slot| known.row_at(*slot, &around)).collect(),
        };
        let bug =
            || Refusal::Bug { why: "an item of the index is not in the catalogue".to_owned() };
        let rows: Vec<f64> = found.ok_or_else(bug)?.into_iter().flatten().collect();
        let contexts = Contexts::new(&rows, dim);
        let contexts = contexts.map_err(|why| Refusal::Bug { why: why.to_string() })?;
        let mut scores = vec![Score::default(); slots.len()];
        known.score(user, &contexts, &mut scores);
        known.add_effects_at(user, slots, &contexts, &mut scores);
        scored.scores.extend(scores);
        scored.rows.extend(rows);
        Ok(())
    }

    /// The first items by name. Where they are not among the first of the catalogue, all that are selected are looked at, and
    /// no others: a filter may mean the last few of a million.
    fn first_by_name(
        &self,
        app: &str,
        count: usize,
        selection: &Selection,
    ) -> Result<Vec<u32>, Refusal> {
        let known = self.app(app)?;
        let (mut vectors, mut described) =
            (known.items().keys().peekable(), known.described().keys().peekable());
        let ids = std::iter::from_fn(|| match (vectors.peek(), described.peek()) {
            (Some(a), Some(b)) if a > b => described.next(),
            (Some(_), _) => vectors.next(),
            (None, _) => described.next(),
        });
        let slots = ids.take(selection.count).filter_map(|id| known.slot_of(id));
        let found: Vec<u32> = slots.filter(|slot| selection.has(*slot)).take(count).collect();
        if found.len() == count.min(selection.count) {
            return Ok(found);
        }
        let mut slots: Vec<u32> = selection.iter().collect();
        let by_name = |a: &u32, b: &u32| known.item_at(*a).cmp(known.item_at(*b));
        if count < slots.len() {
            slots.select_nth_unstable_by(count, by_name);
            slots.truncate(count);
        }
        slots.sort_unstable_by(by_name);
        Ok(slots)
    }
}

impl Terms {
    /// With what probability an item is chosen of `items`, if the policy does so with this one.
    fn probability(&self, by_policy: f64, items: usize) -> f64 {
        let uniform = 1.0 / items as f64;
        let policy = self.epsilon * uniform + (1.0 - self.epsilon) * by_policy;
        self.control_share * uniform + (1.0 - self.control_share) * policy
    }
}

/// The rows of very many items, by several threads.
fn rows_of(
    known: &crate::state::App,
    slots: &[u32],
    around: &json::Offer,
) -> Option<Vec<Vec<f64>>> {
    let described = known.described_at(slots);
    let vector = |slot: &u32| known.items().get(known.item_at(*slot)).map(|row| &**row);
    let vectors: Vec<Option<&[f64]>> = slots.iter().map(vector).collect();
    let encoder = known.encoder();
    let row = |(vector, features): (&Option<&[f64]>, &Option<Arc<json::Features>>)| match features {
        None => vector.map(<[f64]>::to_vec),
        Some(features) => {
            let mut row = Vec::new();
            let offer = json::Offer { items: vec![&**features], ..around.clone() };
            encoder?.encode(&offer, &mut row);
            row.iter_mut().for_each(|x| *x = x.clamp(-MAX_FEATURE, MAX_FEATURE));
            Some(row)
        }
    };
    vectors.par_iter().zip(&described).with_min_len(PER_TASK).map(row).collect()
}

fn around(offer: &Offer) -> json::Offer<'_> {
    json::Offer {
        items: Vec::new(),
        context: offer.context.as_deref(),
        user: offer.user.as_deref(),
    }
}
