//! What to show in several places at once, no item twice?
//!
//! Places are filled in their order, each by a decision of its own, with a reward of its own. What is shown
//! before is no candidate any more, and neither is what a later place could not do without: a place with
//! fewer candidates than there are places left is scarce, and items that the scarce ones need are kept for them
//! (Hall's condition, by a matching over the few candidates that scarce places have: `matching`). The probability
//! that is told is that of the item in its place, given those before.

use std::sync::Arc;

use hashbrown::HashSet;

use super::limits::Demand;
use super::matching::Matching;
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
        let at_ms = self.advance(now_ms, app, group)?;
        let known = self.app(app)?.decisions();
        // What places show that were filled before stays, and no other place may show it.
        let before: Vec<Option<String>> = slots
            .iter()
            .map(|slot| known.get(&slot.decision).map(|one| one.made.ranking.first().to_owned()))
            .collect();
        let mut kept = Matching::default();
        let mut taken: HashSet<String> = before.iter().flatten().cloned().collect();
        if before.iter().any(Option::is_none) {
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
            for (slot, before) in slots.iter().zip(&before) {
                kept.add(match before {
                    Some(_) => None,
                    None => self.few_candidates(at_ms, app, slot, slots.len(), group)?,
                });
            }
            taken.iter().for_each(|item| kept.take(item));
            if let Some(at) = kept.first_that_cannot() {
                return Err(Refusal::SlateImpossible { slot: slots[at].id.clone() });
            }
        }
        let mut made = Vec::with_capacity(slots.len());
        for (at, Slot { decision, mut offer, .. }) in slots.into_iter().enumerate() {
            if before[at].is_none() {
                let needed = kept.needed_after(at);
                offer.exclude(taken.iter().map(String::as_str).chain(needed));
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
                kept.take(made.ranking.first());
                taken.insert(made.ranking.first().to_owned());
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
            let selection = known.select(pick.filter.as_ref(), &pick.exclude);
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

impl Offer {
    /// Without some of its candidates.
    fn exclude<'a>(&mut self, items: impl Iterator<Item = &'a str>) {
        let items: HashSet<&str> = items.collect();
        if let Some(pick) = &self.pick {
            let exclude = pick.exclude.iter().map(String::as_str).chain(items);
            let exclude = exclude.map(str::to_owned).collect();
            self.pick = Some(Arc::new(Pick { exclude, ..(**pick).clone() }));
            return;
        }
        let wanted: Vec<bool> = self.ids.iter().map(|id| !items.contains(id.as_str())).collect();
        keep(&mut self.ids, &wanted);
        keep(&mut self.features, &wanted);
        keep(&mut self.described, &wanted);
    }
}

fn keep<T>(list: &mut Vec<T>, wanted: &[bool]) {
    let mut wanted = wanted.iter();
    list.retain(|_| wanted.next().is_none_or(|wanted| *wanted));
}
