//! What to show in several places at once, no item twice?
//!
//! Places are filled in their order, each by a decision of its own, with a reward of its own. What is shown
//! before is no candidate any more, and neither is what a later place could not do without: a place with
//! fewer candidates than there are places left is scarce, and items that the scarce ones need are kept for them
//! (Hall's condition, by a matching over the few candidates that scarce places have: `matching`). The probability
//! that is told is that of the item in its place, given those before.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashSet;

use super::limits::Demand;
use super::matching::Matching;
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
    /// Which places were filled before: what they show stays, and no other place may show it.
    before: Vec<bool>,
    /// What places must leave to each other.
    kept: Matching,
    /// What is shown.
    taken: HashSet<String>,
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
        let before: Vec<Option<String>> = slots
            .iter()
            .map(|slot| known.get(&slot.decision).map(|one| one.made.ranking.first().to_owned()))
            .collect();
        let mut progress = Progress {
            created_ms,
            before: before.iter().map(Option::is_some).collect(),
            taken: before.iter().flatten().cloned().collect(),
            ..Progress::default()
        };
        if before.iter().all(Option::is_some) {
            return Ok(progress);
        }
        self.check_waiting(app, slots.len())?;
        let mut demand = Demand::default();
        for slot in slots {
            demand = demand.and(self.demand(app, &slot.offer, 1, *explain)?);
        }
        self.refuse_beyond_limits(&demand)?;
        let at_ms = self.advance(now_ms, app, group)?;
        for (slot, before) in slots.iter().zip(&before) {
            progress.kept.add(match before {
                Some(_) => None,
                None => self.few_candidates(at_ms, app, slot, slots.len(), group)?,
            });
        }
        progress.taken.iter().for_each(|item| progress.kept.take(item));
        match progress.kept.first_that_cannot() {
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
        if !progress.before[progress.next] {
            let needed = progress.kept.needed_after(progress.next);
            offer.exclude(progress.taken.iter().map(String::as_str).chain(needed));
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
            progress.kept.take(made.ranking.first());
            progress.taken.insert(made.ranking.first().to_owned());
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

impl Offer {
    /// Without some of its candidates.
    fn exclude<'a>(&mut self, items: impl Iterator<Item = &'a str>) {
        let items: HashSet<&str> = items.collect();
        if let Some(pick) = &self.pick {
            let exclude = pick.exclude.and(items.into_iter().map(str::to_owned).collect());
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
