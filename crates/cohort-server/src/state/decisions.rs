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

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::sharded::Sharded;
use crate::event::Decided;

/// One decision and what became of it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// As it was made; of a closed one the context is forgotten.
    pub made: Decided,
    /// The user's number.
    pub user: u32,
    /// Whether it is of the control group.
    pub control: bool,
    /// Whether it was made elsewhere, before: it is learned from, and is no outcome of this service's decisions.
    pub elsewhere: bool,
    /// When it was made.
    pub at_ms: u64,
    /// When its present status ends, on a clock that was never set: [`Decisions::due`].
    due_ms: u64,
    /// What became of it.
    pub status: Status,
    /// Rewards that have come and are learned as one when the window ends.
    pub gathered: Vec<f64>,
    /// Whether the imitator would have chosen the same, where the policy only watched.
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
    by_id: Sharded<Arc<Decision>>,
    hasher: DefaultHashBuilder,
    /// On a clock that was never set …
    due: BTreeSet<(u64, Box<str>)>,
    /// … and by how much it was set since.
    set_ms: i64,
    waiting: usize,
    /// Users with the hashes of their decisions' ids, and how many have that hash: whoever goes takes its decisions
    /// with it, and nobody else's are looked at.
    of_users: BTreeMap<(u32, u64), u32>,
    /// The ids of those that nobody has seen yet.
    not_shown: BTreeSet<Box<str>>,
    /// What all of them take, roughly.
    bytes: usize,
}

/// What a decision takes beside its ids and features: itself, and its places in both tables.
const DECISION_BYTES: usize = 256;

/// When they are due is [asked](Decisions::due) of those whose clocks may have been set.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        let when =
            |one: &Self| (one.user, one.control, one.elsewhere, one.at_ms, one.status, one.agreed);
        self.made == other.made && when(self) == when(other) && self.gathered == other.gathered
    }
}

impl Decision {
    /// One whose status ends then, by the calendar, which is told when it is [inserted](Decisions::insert).
    pub(super) fn new(
        made: Decided,
        user: u32,
        control: bool,
        at_ms: u64,
        due_ms: u64,
        status: Status,
    ) -> Self {
        let (elsewhere, gathered, agreed) = (false, Vec::new(), None);
        Self { made, user, control, elsewhere, at_ms, due_ms, status, gathered, agreed }
    }
}

impl Decisions {
    fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    fn found(&self, id: &str) -> Option<&Arc<Decision>> {
        self.by_id.find(self.hash(id), |found| found.made.id == id)
    }

    /// The decision of that id.
    pub fn get(&self, id: &str) -> Option<&Decision> {
        self.found(id).map(|decision| &**decision)
    }

    /// When the present status of a decision ends.
    pub fn due(&self, decision: &Decision) -> u64 {
        decision.due_ms.saturating_add_signed(self.set_ms)
    }

    /// A time by the calendar on the clock that was never set.
    fn unset(&self, at_ms: u64) -> u64 {
        at_ms.saturating_add_signed(self.set_ms.saturating_neg())
    }

    /// Remembers a new one, which is due by the calendar.
    pub fn insert(&mut self, mut decision: Decision) {
        decision.due_ms = self.unset(decision.due_ms);
        self.waiting += usize::from(decision.waits());
        self.bytes += decision.bytes();
        let hash = self.hash(&decision.made.id);
        *self.of_users.entry((decision.user, hash)).or_default() += 1;
        self.due.insert((decision.due_ms, decision.made.id.as_str().into()));
        if decision.status == Status::NotShown {
            self.not_shown.insert(decision.made.id.as_str().into());
        }
        let Self { by_id, hasher, .. } = self;
        let hash_of = |one: &Arc<Decision>| hasher.hash_one(one.made.id.as_str());
        let decision = Arc::new(decision);
        by_id.insert(hash_of(&decision), decision, hash_of);
    }

    /// One less of a user.
    fn uncount(&mut self, user: u32, hash: u64) {
        if let Entry::Occupied(mut count) = self.of_users.entry((user, hash)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn get_mut(&mut self, id: &str) -> Option<&mut Decision> {
        let hash = self.hash(id);
        self.by_id.find_mut(hash, |found| found.made.id == id).map(Arc::make_mut)
    }

    /// Gives a decision another status, which ends at another time, and returns its context; one
    /// that no longer waits keeps none.
    pub fn move_to(&mut self, id: &str, status: Status, due_ms: u64) -> Option<Box<[f64]>> {
        let due_ms = self.unset(due_ms);
        let decision = self.get_mut(id)?;
        let (due_before, waited, bytes) = (decision.due_ms, decision.waits(), decision.bytes());
        let is_shown = decision.status == Status::NotShown && status != Status::NotShown;
        decision.status = status;
        decision.due_ms = due_ms;
        let waits = decision.waits();
        let context = match waits {
            true => decision.made.context.clone(),
            false => {
                decision.gathered = Vec::new();
                std::mem::take(&mut decision.made.context)
            }
        };
        let bytes_after = decision.bytes();
        self.bytes = self.bytes + bytes_after - bytes;
        self.waiting = self.waiting + usize::from(waits) - usize::from(waited);
        if is_shown {
            self.not_shown.remove(id);
        }
        let (_, key) = self.due.take(&(due_before, Box::from(id)))?;
        self.due.insert((due_ms, key));
        Some(context)
    }

    /// Keeps one more reward of a decision that waits.
    pub fn gather(&mut self, id: &str, reward: f64) {
        if let Some(decision) = self.get_mut(id) {
            decision.gathered.push(reward);
            self.bytes += size_of::<f64>();
        }
    }

    /// Keeps whether the imitator would have chosen the same.
    pub fn set_agreed(&mut self, id: &str, agreed: bool) {
        if let Some(decision) = self.get_mut(id) {
            decision.agreed = Some(agreed);
        }
    }

    /// Gives every decision the number that its user has now, which is asked once for each. Returns the users of decisions in
    /// the order in which these are due, the last one of each.
    pub fn renumber(&mut self, mut number: impl FnMut(&str) -> u32) -> Vec<u32> {
        let Self { by_id, hasher, due, .. } = self;
        let (mut numbers, mut changed) = (HashMap::<u32, (u32, usize)>::new(), Vec::new());
        // In their order: whoever is new gets the next number.
        for (at, (_, id)) in due.iter().enumerate() {
            let (id, hash) = (&**id, hasher.hash_one(&**id));
            let is_it = |one: &Arc<Decision>| one.made.id == id;
            let Some(found) = by_id.find(hash, is_it) else { continue };
            let (user, last) =
                numbers.entry(found.user).or_insert_with(|| (number(&found.made.user), at));
            *last = at;
            // What a snapshot shares is copied only where it changes.
            if found.user != *user
                && let Some(found) = by_id.find_mut(hash, is_it)
            {
                Arc::make_mut(found).user = *user;
            }
        }
        for ((user, hash), count) in std::mem::take(&mut self.of_users) {
            changed.push(((numbers.get(&user).map_or(user, |(user, _)| *user), hash), count));
        }
        // Putting each into its place would take several times as long as sorting all of them.
        changed.sort_unstable();
        self.of_users = changed.into_iter().collect();
        let mut users: Vec<(usize, u32)> =
            numbers.into_values().map(|(user, last)| (last, user)).collect();
        users.sort_unstable();
        users.into_iter().map(|(_, user)| user).collect()
    }

    /// The first decision whose status has ended by then.
    pub fn first_due(&self, now_ms: u64) -> Option<&Decision> {
        let (due_ms, id) = self.due.first()?;
        (*due_ms <= self.unset(now_ms)).then(|| self.get(id)).flatten()
    }

    /// Where more than `most` have ended by then: when the last of the first `most` did, and which it is.
    pub fn part_due(&self, now_ms: u64, most: usize) -> Option<(u64, &str)> {
        let now_ms = self.unset(now_ms);
        let mut due = self.due.iter().take_while(|(due_ms, _)| *due_ms <= now_ms);
        let (due_ms, id) = due.nth(most.max(1) - 1)?;
        due.next().map(|_| (due_ms.saturating_add_signed(self.set_ms), &**id))
    }

    /// Lets every status end so much later, or earlier: the clock was set.
    pub fn shift(&mut self, by_ms: i64) {
        self.set_ms = self.set_ms.saturating_add(by_ms);
    }

    /// Forgets a decision.
    pub fn remove(&mut self, id: &str) {
        let hash = self.hash(id);
        let Self { by_id, hasher, .. } = self;
        let hash_of = |one: &Arc<Decision>| hasher.hash_one(one.made.id.as_str());
        if let Some(decision) = by_id.remove(hash, |found| found.made.id == id, hash_of) {
            self.waiting -= usize::from(decision.waits());
            self.bytes -= decision.bytes();
            self.due.remove(&(decision.due_ms, Box::from(id)));
            if decision.status == Status::NotShown {
                self.not_shown.remove(id);
            }
            self.uncount(decision.user, hash);
        }
    }

    /// Forgets all of a user.
    pub fn remove_user(&mut self, user: u32) {
        while let Some(((_, hash), _)) = self.of_users.range((user, 0)..=(user, u64::MAX)).next() {
            let Some(found) = self.by_id.find(*hash, |one| one.user == user) else { return };
            let id = found.made.id.clone();
            self.remove(&id);
        }
    }

    /// The ids of those that begin so and that nobody has seen yet, in order.
    pub fn not_shown_with(&self, beginning: &str) -> Vec<String> {
        let from = (Bound::Included(beginning), Bound::Unbounded);
        let ids = self.not_shown.range::<str, _>(from);
        ids.take_while(|id| id.starts_with(beginning)).map(|id| id.to_string()).collect()
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.by_id.len() == 0
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

    /// A copy to write elsewhere, which shares what they are.
    pub(super) fn list(&self) -> DecisionList {
        DecisionList { by_id: self.by_id.clone(), set_ms: self.set_ms }
    }
}

/// All decisions of one moment.
pub(super) struct DecisionList {
    by_id: Sharded<Arc<Decision>>,
    set_ms: i64,
}

impl DecisionList {
    /// None.
    pub fn clear(&mut self) {
        self.by_id = Sharded::default();
    }

    /// All of them with when they are due, in that order.
    pub fn sorted(&self) -> Vec<(u64, &Decision)> {
        let due = |one: &Arc<Decision>| one.due_ms.saturating_add_signed(self.set_ms);
        let mut all: Vec<(u64, &Decision)> =
            self.by_id.iter().map(|one| (due(one), &**one)).collect();
        all.sort_by(|a, b| (a.0, &a.1.made.id).cmp(&(b.0, &b.1.made.id)));
        all
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ranking;
    use proptest::prelude::*;
    use std::collections::hash_map::{self, HashMap};
    use std::time::{Duration, Instant};

    fn decision(id: &str, user: u32, status: Status) -> Decision {
        let made = Decided {
            id: id.to_owned(),
            user: format!("user-{user}"),
            ranking: Ranking::new(["a", "b"]),
            context: Box::new([1.0]),
            probability: 1.0,
            shown: status == Status::Open,
        };
        Decision::new(made, user, false, 0, 1000, status)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, u32, bool),
        Move(u8, bool),
        Remove(u8),
        RemoveUser(u32),
        Renumber,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (any::<u8>(), 0..6u32, any::<bool>()).prop_map(|(id, user, shown)| Step::Insert(id, user, shown)),
            2 => (any::<u8>(), any::<bool>()).prop_map(|(id, opens)| Step::Move(id, opens)),
            2 => any::<u8>().prop_map(Step::Remove),
            1 => (0..6u32).prop_map(Step::RemoveUser),
            1 => Just(Step::Renumber),
        ]
    }

    proptest! {
        /// Both tables beside the decisions themselves say the same as looking at each of them would.
        #[test]
        fn users_and_what_was_not_shown_are_found_as_by_looking_at_all(
            steps in prop::collection::vec(step(), 1..200)
        ) {
            let (mut decisions, mut plain) = (Decisions::default(), HashMap::new());
            for step in steps {
                let name = |id: u8| format!("{}/{id}", id % 3);
                match step {
                    Step::Insert(id, user, shown) => {
                        let status = if shown { Status::Open } else { Status::NotShown };
                        if let hash_map::Entry::Vacant(place) = plain.entry(name(id)) {
                            place.insert((user, status));
                            decisions.insert(decision(&name(id), user, status));
                        }
                    }
                    Step::Move(id, opens) => {
                        let status = if opens { Status::Open } else { Status::Rewarded(1.0) };
                        let is_there = plain.get_mut(&name(id)).map(|known| known.1 = status).is_some();
                        prop_assert_eq!(decisions.move_to(&name(id), status, 2000).is_some(), is_there);
                    }
                    Step::Remove(id) => {
                        plain.remove(&name(id));
                        decisions.remove(&name(id));
                    }
                    Step::RemoveUser(user) => {
                        plain.retain(|_, (of, _)| *of != user);
                        decisions.remove_user(user);
                    }
                    Step::Renumber => {
                        // User 1 becomes user 2, and so on.
                        let next = |user: u32| (user + 1) % 6;
                        plain.values_mut().for_each(|(user, _)| *user = next(*user));
                        let users: HashMap<String, u32> =
                            decisions.iter().map(|one| (one.made.user.clone(), next(one.user))).collect();
                        // Names that had two numbers would have one afterwards: only where none has.
                        let consistent = decisions.iter().all(|one| users[&one.made.user] == next(one.user));
                        if consistent {
                            decisions.renumber(|user| users[user]);
                        } else {
                            plain.values_mut().for_each(|(user, _)| *user = (*user + 5) % 6);
                        }
                    }
                }
                for beginning in ["0/", "1/", "2/1", ""] {
                    let is_one = |(id, known): &(&String, &(u32, Status))| {
                        known.1 == Status::NotShown && id.starts_with(beginning)
                    };
                    let mut expected: Vec<String> =
                        plain.iter().filter(is_one).map(|(id, _)| id.clone()).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(decisions.not_shown_with(beginning), expected);
                }
                let mut users: Vec<u32> = decisions.iter().map(|one| one.user).collect();
                let mut expected: Vec<u32> = plain.values().map(|(user, _)| *user).collect();
                users.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(users, expected);
            }
            for user in 0..6 {
                decisions.remove_user(user);
            }
            prop_assert!(decisions.is_empty() && decisions.of_users.is_empty());
            prop_assert!(decisions.not_shown.is_empty() && decisions.due.is_empty());
            prop_assert_eq!((decisions.bytes(), decisions.waiting()), (0, 0));
        }
    }

    /// With a table of all of them to go through for each user this takes minutes.
    #[test]
    fn a_user_who_goes_costs_nothing_for_the_decisions_of_others() {
        let mut decisions = Decisions::default();
        for user in 0..200_000 {
            decisions.insert(decision(&format!("decision-{user}"), user, Status::Open));
        }
        let began = Instant::now();
        (0..100_000).for_each(|user| decisions.remove_user(user));
        assert_eq!(decisions.len(), 100_000);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
