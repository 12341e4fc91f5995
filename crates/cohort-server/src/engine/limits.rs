//! What may an app take up, and what does a request cost?

use super::items::ListedItem;
use super::request::{Offer, Request};
use super::runtime::AHEAD;
use super::{Engine, Refusal};

/// Keys of an app: all are compared with the one that is sent, whenever one is.
pub(super) const MOST_KEYS: usize = 1000;

/// What one app may take up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Apps.
    pub apps: usize,
    /// d of an app.
    pub dim: usize,
    /// Items in an app's catalogue.
    pub items: usize,
    /// Decisions of an app that wait for their reward.
    pub waiting: usize,
    /// Bytes that all remembered decisions of an app take, roughly.
    pub decision_bytes: usize,
    /// Users of an app.
    pub users: usize,
    /// Milliseconds after which a user that did not come is forgotten; 0 for never.
    pub user_age_ms: u64,
    /// Users × candidates × d² of one request.
    pub work: u64,
    /// Windows × d² that are ended at once; more are ended in several parts.
    pub window_work: u64,
    /// Bytes that one request may have written to the journal, roughly.
    pub journal_bytes: usize,
    /// Bytes that one request may be answered with, roughly.
    pub answer_bytes: usize,
}

/// What a decision takes beside ids and features, in the journal and in an answer, roughly.
const EVENT_BYTES: usize = 128;
/// What the explanation of a candidate takes beside its id.
const EXPLAINED_BYTES: usize = 96;
/// What names of features and their parts add to that, in an app that takes JSON.
const NAMED_BYTES: usize = 800;
/// Of how many items of a catalogue ids are measured.
const MEASURED_IDS: usize = 64;

/// What deciding would take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    users: usize,
    /// Candidates that are scored for each user.
    items: usize,
    dim: usize,
    work: u64,
    journal: usize,
    answer: usize,
}

impl Demand {
    /// Of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            users: self.users.max(other.users),
            items: self.items.saturating_add(other.items),
            dim: self.dim.max(other.dim),
            work: self.work.saturating_add(other.work),
            journal: self.journal.saturating_add(other.journal),
            answer: self.answer.saturating_add(other.answer),
        }
    }
}

impl Engine {
    /// What it would take to decide for so many users. From a catalogue at least as many items are scored as are told.
    pub(super) fn demand(
        &self,
        app: &str,
        offer: &Offer,
        users: usize,
        explain: bool,
    ) -> Result<Demand, Refusal> {
        let known = self.app(app)?;
        let dim = known.settings().dim;
        let all = known.items().len() + known.described().len();
        let (items, ids, looks) = match &offer.pick {
            None => (offer.ids.len(), offer.ids.iter().map(String::len).sum(), 0),
            Some(pick) => {
                let some =
                    || known.items().keys().chain(known.described().keys()).take(MEASURED_IDS);
                let (count, bytes) =
                    (some().count().max(1), some().map(|id| id.len()).sum::<usize>());
                let items = pick.best.min(all);
                let filter = pick.filter.as_ref().map_or(0, |filter| filter.len());
                let looks = users.saturating_mul(dim).saturating_add(filter).saturating_mul(all);
                (items, items.saturating_mul(bytes.div_ceil(count)), looks as u64)
            }
        };
        let scored = (users as u64).saturating_mul(items as u64).saturating_mul((dim * dim) as u64);
        let rows = if known.trial().log_candidates { 1 + items } else { 1 };
        let named = if known.encoder().is_some() { NAMED_BYTES } else { 0 };
        let explained = if explain { items * (EXPLAINED_BYTES + named) + ids } else { 0 };
        Ok(Demand {
            users,
            items: if looks > scored { all } else { items },
            dim,
            work: scored.max(looks),
            journal: users.saturating_mul(ids + 2 * items + 8 * dim * rows + EVENT_BYTES),
            answer: users.saturating_mul(ids + 3 * items + explained + EVENT_BYTES),
        })
    }

    /// Refuses, before anything is done, what would take too long, or write or answer too much: a small
    /// request can ask for very much.
    pub(super) fn refuse_beyond_limits(&self, demand: &Demand) -> Result<(), Refusal> {
        let Demand { users, items, dim, work, journal, answer } = *demand;
        let Limits { work: most_work, journal_bytes, answer_bytes, .. } = self.limits;
        if work > most_work {
            return Err(Refusal::TooMuchWork { users, items, dim, limit: most_work });
        }
        if journal > journal_bytes {
            let (code, what) = ("too_much_written", "written to the journal");
            return Err(Refusal::TooLarge { code, what, found: journal, limit: journal_bytes });
        }
        match answer > answer_bytes {
            true => {
                let (code, what) = ("answer_too_large", "answered");
                Err(Refusal::TooLarge { code, what, found: answer, limit: answer_bytes })
            }
            false => Ok(()),
        }
    }
}

/// What a decision, a reward or any other request costs beside multiplications: finding what it is about, writing
/// it down, answering. In the units of [`Request::work`].
const ANY_WORK: u64 = 10_000;
/// The same for every candidate of a decision, which is ranked, and for every item that is registered.
const CANDIDATE_WORK: u64 = 250;

/// The same for every id that is left out of a catalogue.
pub(crate) const EXCLUDED_WORK: u64 = 64;

fn items_work(count: usize, dim: usize) -> u64 {
    let each = 4 * CANDIDATE_WORK + dim as u64;
    (count as u64).saturating_mul(each).saturating_add(ANY_WORK)
}

impl Request {
    /// How much there is to do in an app of `dim` features: one unit is a multiplication of numbers,
    /// roughly.
    pub fn work(&self, dim: usize) -> u64 {
        let square = (dim as u64).saturating_mul(dim as u64);
        match self {
            Self::DecidePart { offer, users, .. } => {
                offer.work_for_one(dim).saturating_mul(users.len() as u64)
            }
            Self::Decide { offer, users, .. } => {
                offer.work_for_one(dim).saturating_mul(users.len() as u64)
            }
            Self::Slate { slots, .. } => slots
                .iter()
                .fold(0, |sum: u64, slot| sum.saturating_add(slot.offer.work_for_one(dim))),
            Self::SlatePart { filling, at, .. } => filling.slots[*at].offer.work_for_one(dim),
            Self::Reward { rewards, .. } => {
                (rewards.len() as u64).saturating_mul(square + ANY_WORK)
            }
            Self::History { decisions, .. } => {
                (decisions.len() as u64).saturating_mul(4 * square + 2 * ANY_WORK)
            }
            Self::PutItems { items, .. } => items_work(items.len(), dim),
            Self::DescribeItems { items, .. } => items_work(items.len(), dim),
            Self::RegisterItems { items, .. } => items_work(items.len(), dim),
            // Looking costs less than writing down.
            Self::RegisterPart { part, registers, .. } => {
                items_work(part.len(), dim) / if *registers { 1 } else { 4 }
            }
            _ => ANY_WORK,
        }
    }

    /// How much memory it takes, roughly.
    pub fn bytes(&self) -> usize {
        const ANY: usize = 512;
        let inside = match self {
            // Parts that wait share the candidates.
            Self::DecidePart { offer, users, .. } => {
                let users = users.iter().map(|user| user.user.len() + 128);
                offer.bytes().div_ceil(AHEAD) + users.sum::<usize>()
            }
            Self::Decide { offer, users, .. } => {
                let users = users.iter().map(|user| user.user.len() + 128);
                offer.bytes() + users.sum::<usize>()
            }
            Self::Slate { slots, .. } => {
                slots.iter().map(|slot| slot.id.len() + 128 + slot.offer.bytes()).sum()
            }
            Self::SlatePart { filling, at, .. } => filling.slots[*at].offer.bytes(),
            Self::RegisterItems { items, .. } => items.iter().map(ListedItem::bytes).sum(),
            Self::RegisterPart { put, part, .. } => put.bytes(part.clone()),
            Self::History { decisions, .. } => {
                decisions.iter().map(|past| past.user.len() + 192 + past.offer.bytes()).sum()
            }
            Self::Reward { rewards, .. } => rewards.iter().map(|(id, _)| id.len() + 32).sum(),
            Self::ReplaceModel { model, .. } => model.as_ref().map_or(0, |model| model.len()),
            Self::DescribeItems { items, .. } => {
                items.iter().map(|(id, one)| id.len() + 48 + one.bytes()).sum()
            }
            Self::PutItems { items, .. } => {
                items.iter().map(|(id, row)| id.len() + 48 + size_of_val(&row[..])).sum()
            }
            _ => 0,
        };
        ANY + inside
    }
}

impl Offer {
    /// What it costs to decide for one user, in the units of [`Request::work`].
    pub(super) fn work_for_one(&self, dim: usize) -> u64 {
        let each = (dim as u64).saturating_mul(dim as u64).saturating_add(CANDIDATE_WORK);
        // Ids are copied into the answer, the journal and what is remembered.
        let excluded = self.pick.as_ref().map_or(0, |pick| pick.exclude.len());
        let ids = self.ids.iter().map(String::len).sum::<usize>() as u64;
        let ids = ids.saturating_add(EXCLUDED_WORK.saturating_mul(excluded as u64));
        self.candidates().saturating_mul(each).saturating_add(ids + ANY_WORK)
    }

    /// How many candidates there are to score, roughly: of a catalogue few are.
    fn candidates(&self) -> u64 {
        const FROM_CATALOGUE: u64 = 1024;
        if self.pick.is_some() { FROM_CATALOGUE } else { self.ids.len() as u64 }
    }

    /// How much memory it takes, roughly.
    fn bytes(&self) -> usize {
        let features = self.features.iter().flatten().map(|row| size_of_val(&row[..]));
        let picked: usize = self.pick.iter().map(|pick| pick.exclude.bytes()).sum();
        let ids = self.ids.iter().map(|id| id.len() + 48);
        let described = self.described.iter().flatten().map(|one| one.bytes());
        let shared = self.context.iter().chain(&self.user).map(|one| one.bytes());
        let described = described.sum::<usize>() + shared.sum::<usize>();
        features.sum::<usize>() + ids.sum::<usize>() + picked + described
    }
}
