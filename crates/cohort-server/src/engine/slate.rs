//! What to show in several places at once, no item twice?
//!
//! Places are filled in their order, each by a decision of its own, with a reward of its own. What is shown
//! before is no candidate any more, and neither is what a later place could not do without: a place with
//! fewer candidates than there are places left is scarce, and items that the scarce ones need are kept for them
//! (Hall's condition, by augmenting paths over the few candidates that scarce places have). The probability
//! that is told is that of the item in its place, given those before.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::limits::Demand;
use super::request::{Answer, ForUser, Offer, Pick, Slot};
use super::{Engine, Refusal};
use crate::journal::Group;

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
        let known = self.app(app)?.decisions();
        let is_retry = slots.iter().all(|slot| known.get(&slot.decision).is_some());
        let mut kept = Kept::default();
        if !is_retry {
            // Whatever can be refused is refused before the first place is filled.
            let limit = self.limits.waiting;
            if known.waiting() + slots.len() > limit {
                return Err(Refusal::TooManyWaiting { limit });
            }
            let mut demand = Demand::default();
            for slot in &slots {
                demand = demand.and(self.demand(app, &slot.offer, 1, explain)?);
            }
            self.refuse_beyond_limits(&demand)?;
            let at_ms = self.advance(now_ms, app, group)?;
            for (at, slot) in slots.iter().enumerate() {
                let left = slots.len() - at;
                kept.few.push(self.few_candidates(at_ms, app, slot, left + at, group)?);
            }
            if let Some(at) = kept.first_that_cannot(0, None) {
                return Err(Refusal::SlateImpossible { slot: slots[at].id.clone() });
            }
        }
        let mut made = Vec::with_capacity(slots.len());
        for (at, Slot { decision, mut offer, .. }) in slots.into_iter().enumerate() {
            if !is_retry {
                let needed = kept.needed_after(at);
                offer.exclude(kept.taken.iter().chain(&needed));
            }
            let users = vec![ForUser {
                user: user.user.clone(),
                decision: Some(decision),
                shown: user.shown,
            }];
            match self.decide(now_ms, app, &offer, users, explain, group)? {
                Answer::Decided(mut one) => made.push(one.pop().ok_or_else(bug)?),
                _ => return Err(bug()),
            }
            if let Some(Ok(made)) = made.last() {
                kept.taken.insert(made.ranking.first().to_owned());
            }
        }
        Ok(Answer::Decided(made))
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

fn bug() -> Refusal {
    Refusal::Bug { why: "a slate without a decision".to_owned() }
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
