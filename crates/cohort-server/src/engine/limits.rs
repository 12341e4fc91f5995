//! What may an app take up, and what does a request cost?

use super::items::ListedItem;
use super::request::{Offer, Request};
use super::runtime::AHEAD;

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

/// What a decision, a reward or any other request costs beside multiplications: finding what it is about, writing
/// it down, answering. In the units of [`Request::work`].
const ANY_WORK: u64 = 10_000;
/// The same for every candidate of a decision, which is ranked, and for every item that is registered.
const CANDIDATE_WORK: u64 = 250;

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
            Self::Reward { rewards, .. } => {
                (rewards.len() as u64).saturating_mul(square + ANY_WORK)
            }
            Self::History { decisions, .. } => {
                (decisions.len() as u64).saturating_mul(4 * square + 2 * ANY_WORK)
            }
            Self::PutItems { items, .. } => items_work(items.len(), dim),
            Self::DescribeItems { items, .. } => items_work(items.len(), dim),
            Self::RegisterItems { items, .. } => items_work(items.len(), dim),
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
            Self::RegisterItems { items, .. } => items.iter().map(ListedItem::bytes).sum(),
            Self::History { decisions, .. } => {
                decisions.iter().map(|past| past.user.len() + 192 + past.offer.bytes()).sum()
            }
            Self::Reward { rewards, .. } => rewards.iter().map(|(id, _)| id.len() + 32).sum(),
            Self::ReplaceModel { model, .. } => model.as_ref().map_or(0, Vec::len),
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
        let ids: usize = self.ids.iter().map(String::len).sum();
        self.candidates().saturating_mul(each).saturating_add(ids as u64 + ANY_WORK)
    }

    /// How many candidates there are to score, roughly: of a catalogue few are.
    fn candidates(&self) -> u64 {
        const FROM_CATALOGUE: u64 = 1024;
        if self.pick.is_some() { FROM_CATALOGUE } else { self.ids.len() as u64 }
    }

    /// How much memory it takes, roughly.
    fn bytes(&self) -> usize {
        let features = self.features.iter().flatten().map(|row| size_of_val(&row[..]));
        let picked = self.pick.iter().flat_map(|pick| &pick.exclude);
        let ids = self.ids.iter().chain(picked).map(|id| id.len() + 48);
        let described = self.described.iter().flatten().map(|one| one.bytes());
        let shared = self.context.iter().chain(&self.user).map(|one| one.bytes());
        let described = described.sum::<usize>() + shared.sum::<usize>();
        features.sum::<usize>() + ids.sum::<usize>() + described
    }
}
