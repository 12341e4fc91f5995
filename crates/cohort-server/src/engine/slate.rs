//! What to show in several places at once, no item twice?
//!
//! Places are filled in their order, each by a decision of its own, with a reward of its own. What is shown
//! before is no candidate any more, and neither is what a later place could not do without: a place with
//! fewer candidates than there are places left is scarce, and items that the scarce ones need are kept for them
//! (Hall's condition, by augmenting paths over the few candidates that scarce places have). The probability
//! that is told is that of the item in its place, given those before.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};

use super::limits::Demand;
use super::request::{Answer, ForUser, Made, Offer, Pick, Slot};
use super::{Engine, Refusal};
use crate::event::What;
use crate::journal::Group;

/// A slate that is decided place by place, so that others are served between: what is decided is held until all of it is, and
/// written down at once.
pub struct Filling {
    user: ForUser,
    pub(super) slots: Vec<Slot>,
    explain: bool,
    progress: Mutex<Progress>,
}

/// How far a slate is.
#[derive(Default)]
struct Progress {
    /// The place that comes next.
    next: usize,
    /// When the app was created.
    created_ms: u64,
    /// Whether all of its decisions were made before.
    is_retry: bool,
    kept: Kept,
    held: Vec<What>,
    made: Vec<Result<Made, Refusal>>,
}

impl Filling {
    /// Of these places.
    pub fn new(user: ForUser, slots: Vec<Slot>, explain: bool) -> Self {
        Self { user, slots, explain, progress: Mutex::default() }
    }
}

impl Engine {
    pub(super) fn decide_slate(
        &mut self,
        now_ms: u64,
        app: &str,
        user: ForUser,
        slots: Vec<Slot>,
        explain: bool,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let filling = Filling::new(user, slots, explain);
        let mut answer = Answer::Decided(Vec::new());
        for at in 0..filling.slots.len() {
            answer = self.fill_place(now_ms, app, &filling, at, group)?;
        }
        Ok(answer)
    }

    /// Decides for the next place; for the last one writes all of them down, and answers.
    pub(super) fn fill_place(
        &mut self,
        now_ms: u64,
        app: &str,
        filling: &Filling,
        at: usize,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let mut progress = filling.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.next != at {
            return Err(bug("a place after one that was refused"));
        }
        if at == 0 {
            *progress = self.begin_slate(now_ms, app, filling, group)?;
        }
        self.decide_place(now_ms, app, filling, &mut progress, group)?;
        progress.next += 1;
        match progress.next < filling.slots.len() {
            true => Ok(Answer::Decided(Vec::new())),
            false => self.end_slate(now_ms, app, filling, std::mem::take(&mut *progress), group),
        }
    }

    /// Whatever can be refused is refused before the first place is filled.
    fn begin_slate(
        &mut self,
        now_ms: u64,
        app: &str,
        Filling { slots, explain, .. }: &Filling,
        group: &mut Group,
    ) -> Result<Progress, Refusal> {
        let (created_ms, known) = (self.app(app)?.created_ms(), self.app(app)?.decisions());
        let is_retry = slots.iter().all(|slot| known.get(&slot.decision).is_some());
        let mut progress = Progress { created_ms, is_retry, ..Progress::default() };
        if is_retry {
            return Ok(progress);
        }
        self.check_waiting(app, slots.len())?;
        let mut demand = Demand::default();
        for slot in slots {
            demand = demand.and(self.demand(app, &slot.offer, 1, *explain)?);
        }
        self.refuse_beyond_limits(&demand)?;
        let at_ms = self.advance(now_ms, app, group)?;
        for slot in slots {
            progress.kept.few.push(self.few_candidates(at_ms, app, slot, slots.len(), group)?);
        }
        match progress.kept.first_that_cannot(0, None) {
            Some(at) => Err(Refusal::SlateImpossible { slot: slots[at].id.clone() }),
            None => Ok(progress),
        }
    }

    fn check_waiting(&self, app: &str, more: usize) -> Result<(), Refusal> {
        let limit = self.limits.waiting;
        match self.app(app)?.decisions().waiting() + more > limit {
            true => Err(Refusal::TooManyWaiting { limit }),
            false => Ok(()),
        }
    }

    fn decide_place(
        &mut self,
        now_ms: u64,
        app: &str,
        Filling { user, slots, explain, .. }: &Filling,
        progress: &mut Progress,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        let Slot { decision, offer, .. } = &slots[progress.next];
        let mut offer = offer.clone();
        let kept = &mut progress.kept;
        if !progress.is_retry {
            let needed = kept.needed_after(progress.next);
            offer.exclude(kept.taken.iter().chain(&needed));
        }
        let decision = Some(decision.clone());
        let users = vec![ForUser { user: user.user.clone(), decision, shown: user.shown }];
        self.held = Some(std::mem::take(&mut progress.held));
        let decided = self.decide(now_ms, app, &offer, users, *explain, group);
        progress.held = self.held.take().unwrap_or_default();
        match decided? {
            Answer::Decided(one) => progress.made.extend(one),
            _ => return Err(bug("another answer than a decision")),
        }
        if let Some(Ok(made)) = progress.made.last() {
            kept.taken.insert(made.ranking.first().to_owned());
        }
        Ok(())
    }

    /// Writes down what was decided, unless the app has changed so that it cannot be.
    fn end_slate(
        &mut self,
        now_ms: u64,
        app: &str,
        filling: &Filling,
        progress: Progress,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let known = self.app(app)?;
        if known.created_ms() != progress.created_ms {
            return Err(Refusal::AppDeleted { app: app.to_owned() });
        }
        let ids = progress.held.iter().filter_map(decision_of);
        let (mut count, mut is_made) = (0, false);
        for id in ids {
            count += 1;
            is_made |= known.decisions().get(id).is_some();
        }
        if is_made {
            // The same slate was asked for twice, and the other one was faster.
            let Filling { user, slots, explain, .. } = filling;
            return self.decide_slate(now_ms, app, user.clone(), slots.clone(), *explain, group);
        }
        self.check_waiting(app, count)?;
        let at_ms = self.advance(now_ms, app, group)?;
        for what in progress.held {
            self.record(group, app, at_ms, what)?;
        }
        Ok(Answer::Decided(progress.made))
    }

    /// The candidates of a place, if they are fewer than `many`.
    fn few_candidates(
        &mut self,
        at_ms: u64,
        app: &str,
        slot: &Slot,
        many: usize,
        group: &mut Group,
    ) -> Result<Option<Vec<String>>, Refusal> {
        if let Some(pick) = &slot.offer.pick {
            let known = self.app_mut(app)?;
            let selection = known.select(pick.filter.as_ref(), pick.exclude.iter());
            if selection.count >= many {
                return Ok(None);
            }
            return Ok(Some(selection.iter().map(|at| known.item_at(at).to_owned()).collect()));
        }
        // What cannot be looked up is refused here.
        let mut rows = Vec::new();
        if !slot.offer.ids.is_empty() {
            self.look_up(at_ms, app, &slot.offer, &mut rows, group)?;
        }
        Ok((slot.offer.ids.len() < many).then(|| slot.offer.ids.clone()))
    }
}

/// The id of the decision that an event makes, if it makes one.
fn decision_of(what: &What) -> Option<&str> {
    match what {
        What::Decided(made) => Some(&made.id),
        What::DecidedInTrial(trial) => Some(&trial.made.id),
        What::DecidedFromCatalogue(from) => Some(&from.decision.made.id),
        _ => None,
    }
}

fn bug(why: &str) -> Refusal {
    Refusal::Bug { why: why.to_owned() }
}

/// What scarce places may show, and what is taken.
#[derive(Default)]
struct Kept {
    /// Of every place: its candidates where they are few.
    few: Vec<Option<Vec<String>>>,
    taken: HashSet<String>,
}

impl Kept {
    /// The first place from `from` on that cannot be filled if those before it are, without what is taken and
    /// without `without`.
    fn first_that_cannot(&self, from: usize, without: Option<&str>) -> Option<usize> {
        let mut shown: HashMap<&str, usize> = HashMap::new();
        (from..self.few.len()).find(|at| {
            let is_scarce = self.few[*at].is_some();
            is_scarce && !self.augment(*at, without, &mut shown, &mut HashSet::new())
        })
    }

    /// Finds an item for a place, giving others another one where need be.
    fn augment<'a>(
        &'a self,
        at: usize,
        without: Option<&str>,
        shown: &mut HashMap<&'a str, usize>,
        tried: &mut HashSet<&'a str>,
    ) -> bool {
        for item in self.few[at].iter().flatten().map(String::as_str) {
            let is_free = !self.taken.contains(item) && without != Some(item);
            if !is_free || !tried.insert(item) {
                continue;
            }
            let other = shown.get(item).copied();
            if other.is_none_or(|other| self.augment(other, without, shown, tried)) {
                shown.insert(item, at);
                return true;
            }
        }
        false
    }

    /// Items that a place must leave to those after it.
    fn needed_after(&self, at: usize) -> Vec<String> {
        let later = self.few[at + 1..].iter().flatten().flatten();
        let mut items: Vec<&String> = later.filter(|item| !self.taken.contains(*item)).collect();
        items.sort_unstable();
        items.dedup();
        items.retain(|item| self.first_that_cannot(at + 1, Some(item)).is_some());
        items.into_iter().cloned().collect()
    }
}

impl Offer {
    /// Without some of its candidates.
    fn exclude<'a>(&mut self, items: impl Iterator<Item = &'a String>) {
        let items: HashSet<&String> = items.collect();
        if let Some(pick) = &self.pick {
            let exclude = pick.exclude.and(items.into_iter().cloned().collect());
            self.pick = Some(Arc::new(Pick { exclude, ..(**pick).clone() }));
            return;
        }
        let wanted: Vec<bool> = self.ids.iter().map(|id| !items.contains(id)).collect();
        keep(&mut self.ids, &wanted);
        keep(&mut self.features, &wanted);
        keep(&mut self.described, &wanted);
    }
}

fn keep<T>(list: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    list.retain(|_| wanted.next().is_none_or(|wanted| *wanted));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(few: &[Vec<usize>], most: usize) -> Kept {
        let few = few.iter().map(|items| {
            let items: Vec<String> = items.iter().map(|item| format!("i{item}")).collect();
            (items.len() < most).then_some(items)
        });
        Kept { few: few.collect(), taken: HashSet::new() }
    }

    /// Whether places can be filled, by trying everything.
    fn can_fill(places: &[Vec<usize>], taken: &mut Vec<usize>) -> bool {
        let Some((first, rest)) = places.split_first() else { return true };
        first.iter().any(|item| {
            if taken.contains(item) {
                return false;
            }
            taken.push(*item);
            let fills = can_fill(rest, taken);
            taken.pop();
            fills
        })
    }

    proptest! {
        #[test]
        fn items_are_kept_exactly_for_whoever_cannot_do_without(
            places in prop::collection::vec(
                prop::collection::btree_set(0usize..6, 0..6), 1..5),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 5),
        ) {
            let places: Vec<Vec<usize>> =
                places.into_iter().map(|items| items.into_iter().collect()).collect();
            let mut kept = kept(&places, places.len());
            let possible = can_fill(&places, &mut Vec::new());
            prop_assert_eq!(kept.first_that_cannot(0, None).is_none(), possible);
            if !possible {
                return Ok(());
            }
            let mut taken = Vec::new();
            for (at, place) in places.iter().enumerate() {
                let needed = kept.needed_after(at);
                let free: Vec<usize> = place
                    .iter()
                    .copied()
                    .filter(|item| !taken.contains(item) && !needed.contains(&format!("i{item}")))
                    .collect();
                // Exactly those that leave the rest possible.
                for item in place.iter().filter(|item| !taken.contains(*item)) {
                    let mut with = taken.clone();
                    with.push(*item);
                    prop_assert_eq!(can_fill(&places[at + 1..], &mut with), free.contains(item));
                }
                prop_assert!(!free.is_empty());
                let chosen = free[choices[at].index(free.len())];
                taken.push(chosen);
                kept.taken.insert(format!("i{chosen}"));
            }
        }
    }
}
