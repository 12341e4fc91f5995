//! Which decisions wait for a reward, and until when?
//!
//! ```text
//!            ┌─ activate ─┐
//! not shown ─┘            └─ open ── reward ──> rewarded ─┐
//!     │                        └── window ends ─> expired ─┴─ one window later ─> forgotten
//!     └─────────────── window ends ───────────────────────────────────────────────────^
//! ```
//!
//! A decision is remembered for one window after it was closed, so that a repeated reward, a late
//! one and a retried decide are recognised. What is kept is so bounded by twice the window.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::event::Decided;

/// One decision and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// As it was made; of a closed one the context is forgotten.
    pub made: Decided,
    /// The user's number.
    pub user: u32,
    /// Whether it is of the control group.
    pub control: bool,
    /// When it was made.
    pub at_ms: u64,
    /// When its present status ends.
    pub due_ms: u64,
    /// What became of it.
    pub status: Status,
    /// Rewards that have come and are learned as one when the window ends.
    pub gathered: Vec<f64>,
    /// Whether the policy would have chosen the same, where it only watched.
    pub agreed: Option<bool>,
}

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Status {
    /// Nobody has seen it yet.
    NotShown,
    /// It waits for its reward.
    Open,
    /// The user answered.
    Rewarded(f64),
    /// The window ended without an answer; with what was learned instead.
    Expired(Option<f64>),
}

/// All decisions that are remembered, by id and by when they are due.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Shared with a snapshot that is being written; what changes meanwhile is copied.
    by_id: HashMap<Box<str>, Arc<Decision>>,
    due: BTreeSet<(u64, Box<str>)>,
    waiting: usize,
    /// How many there are of each user that has any.
    of_users: HashMap<u32, u32>,
    /// What all of them take, roughly.
    bytes: usize,
}

/// What a decision takes beside its ids and features: itself, and its places in both tables.
const DECISION_BYTES: usize = 256;

impl Decisions {
    /// The decision of that id.
    pub fn get(&self, id: &str) -> Option<&Decision> {
        self.by_id.get(id).map(|decision| &**decision)
    }

    /// Remembers a new one.
    pub fn insert(&mut self, decision: Decision) {
        let id: Box<str> = decision.made.id.as_str().into();
        self.waiting += usize::from(decision.waits());
        self.bytes += decision.bytes();
        *self.of_users.entry(decision.user).or_default() += 1;
        self.due.insert((decision.due_ms, id.clone()));
        self.by_id.insert(id, Arc::new(decision));
    }

    /// Gives a decision another status, which ends at another time, and returns its context; one
    /// that no longer waits keeps none.
    pub fn move_to(&mut self, id: &str, status: Status, due_ms: u64) -> Option<Box<[f64]>> {
        let decision = Arc::make_mut(self.by_id.get_mut(id)?);
        let (_, key) = self.due.take(&(decision.due_ms, Box::from(id)))?;
        self.waiting -= usize::from(decision.waits());
        decision.status = status;
        decision.due_ms = due_ms;
        self.waiting += usize::from(decision.waits());
        self.due.insert((due_ms, key));
        if decision.waits() {
            return Some(decision.made.context.clone());
        }
        self.bytes -= decision.bytes();
        let context = std::mem::take(&mut decision.made.context);
        decision.gathered = Vec::new();
        self.bytes += decision.bytes();
        Some(context)
    }

    /// Keeps one more reward of a decision that waits.
    pub fn gather(&mut self, id: &str, reward: f64) {
        if let Some(decision) = self.by_id.get_mut(id) {
            Arc::make_mut(decision).gathered.push(reward);
            self.bytes += size_of::<f64>();
        }
    }

    /// Keeps whether the policy would have chosen the same.
    pub fn set_agreed(&mut self, id: &str, agreed: bool) {
        if let Some(decision) = self.by_id.get_mut(id) {
            Arc::make_mut(decision).agreed = Some(agreed);
        }
    }

    /// Gives every decision the number that its user has now.
    pub fn renumber(&mut self, mut number: impl FnMut(&str) -> u32) {
        self.of_users.clear();
        // In their order: whoever is new gets the next number.
        for (_, id) in &self.due {
            let Some(decision) = self.by_id.get_mut(id) else { continue };
            let user = number(&decision.made.user);
            Arc::make_mut(decision).user = user;
            *self.of_users.entry(user).or_default() += 1;
        }
    }

    /// The first decision whose status has ended by then.
    pub fn first_due(&self, now_ms: u64) -> Option<&Decision> {
        let (due_ms, id) = self.due.first()?;
        (*due_ms <= now_ms).then(|| self.get(id)).flatten()
    }

    /// Where more than `most` have ended by then: when the last of the first `most` did, and which it is.
    pub fn part_due(&self, now_ms: u64, most: usize) -> Option<(u64, &str)> {
        let mut due = self.due.iter().take_while(|(due_ms, _)| *due_ms <= now_ms);
        let (due_ms, id) = due.nth(most.max(1) - 1)?;
        due.next().map(|_| (*due_ms, &**id))
    }

    /// Lets every status end so much later, or earlier.
    pub fn shift(&mut self, by_ms: i64) {
        for (due_ms, id) in std::mem::take(&mut self.due) {
            let due_ms = due_ms.saturating_add_signed(by_ms);
            if let Some(decision) = self.by_id.get_mut(&id) {
                Arc::make_mut(decision).due_ms = due_ms;
            }
            self.due.insert((due_ms, id));
        }
    }

    /// Forgets a decision.
    pub fn remove(&mut self, id: &str) {
        if let Some(decision) = self.by_id.remove(id) {
            self.waiting -= usize::from(decision.waits());
            self.bytes -= decision.bytes();
            self.due.remove(&(decision.due_ms, Box::from(id)));
            if let Some(count) = self.of_users.get_mut(&decision.user) {
                *count -= 1;
                if *count == 0 {
                    self.of_users.remove(&decision.user);
                }
            }
        }
    }

    /// Forgets all of a user.
    pub fn remove_user(&mut self, user: u32) {
        if !self.of_users.contains_key(&user) {
            return;
        }
        let theirs = self.by_id.iter().filter(|(_, decision)| decision.user == user);
        let theirs: Vec<Box<str>> = theirs.map(|(id, _)| id.clone()).collect();
        theirs.iter().for_each(|id| self.remove(id));
    }

    /// The ids of those that begin so and that nobody has seen yet, in order.
    pub fn not_shown_with(&self, beginning: &str) -> Vec<String> {
        let is_one = |decision: &&Arc<Decision>| {
            decision.status == Status::NotShown && decision.made.id.starts_with(beginning)
        };
        let mut ids: Vec<String> =
            self.by_id.values().filter(is_one).map(|one| one.made.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many wait for an answer or for being shown.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How much memory they take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, in the order in which they are due.
    pub fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.due.iter().filter_map(|(_, id)| self.get(id))
    }

    /// All of them, in no order: a copy that shares what they are.
    pub fn list(&self) -> Vec<Arc<Decision>> {
        self.by_id.values().cloned().collect()
    }
}

impl Decision {
    fn bytes(&self) -> usize {
        let Decided { id, user, ranking, context, .. } = &self.made;
        let ids = 3 * id.len() + user.len() + ranking.as_bytes().len();
        DECISION_BYTES + ids + size_of_val(&**context) + size_of_val(&self.gathered[..])
    }

    fn waits(&self) -> bool {
        matches!(self.status, Status::NotShown | Status::Open)
    }
}
