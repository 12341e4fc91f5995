//! What of a large request is done at a time? Requests of others are done between its parts, so that nobody waits long
//! for anybody's batch.

use std::sync::Arc;

use super::super::items::Registering;
use super::super::slate::Filling;
use super::super::{Answer, Request};

/// Work of one part, in the units of [`Request::work`]: some tenths of a millisecond.
const PART_WORK: u64 = 1_000_000;
/// Parts of one request that may wait at the same time: while a group is synced the engine's queue is not empty, and
/// groups of an app that is alone are as large as they may be.
pub(in crate::engine) const AHEAD: usize = 8;

/// Parts of a request, made when they are wanted.
type Parts = Box<dyn Iterator<Item = Request> + Send>;

/// A request in parts, to be done one after the other; one that is small is one part. What is asked of an app of `dim`
/// features.
pub(super) fn parts(request: Request, dim: usize) -> Parts {
    let work = request.work(dim);
    if work <= PART_WORK {
        return Box::new(std::iter::once(request));
    }
    // How many of so many are done at a time.
    let each = |all: usize| (PART_WORK.saturating_mul(all as u64) / work).max(1) as usize;
    match request {
        Request::Decide { app, mut offer, users, explain } => {
            // Limits are those of the whole.
            offer.batch = users.len();
            let offer = Arc::new(offer);
            let part = move |users| {
                let (app, offer) = (app.clone(), offer.clone());
                Request::DecidePart { app, offer, users, explain }
            };
            let each = each(users.len());
            Box::new(cut(users, each).map(part))
        }
        Request::Reward { app, rewards } => {
            let part = move |rewards| Request::Reward { app: app.clone(), rewards };
            let each = each(rewards.len());
            Box::new(cut(rewards, each).map(part))
        }
        Request::History { app, decisions } => {
            let part = move |decisions| Request::History { app: app.clone(), decisions };
            let each = each(decisions.len());
            Box::new(cut(decisions, each).map(part))
        }
        Request::Slate { app, user, slots, explain } => {
            let places = 0..slots.len();
            let filling = Arc::new(Filling::new(user, slots, explain));
            Box::new(places.map(move |at| {
                let (app, filling) = (app.clone(), filling.clone());
                Request::SlatePart { app, filling, at }
            }))
        }
        Request::RegisterItems { app, items } => {
            let (all, each) = (items.len(), each(items.len()));
            let put = Arc::new(Registering::new(items));
            let steps = [false, true].into_iter();
            Box::new(steps.flat_map(move |registers| {
                let (app, put) = (app.clone(), put.clone());
                // Looking at them costs less.
                let each = if registers { each } else { 4 * each };
                (0..all).step_by(each).map(move |from| {
                    let (app, put, part) = (app.clone(), put.clone(), from..all.min(from + each));
                    Request::RegisterPart { app, put, part, registers }
                })
            }))
        }
        other => Box::new(std::iter::once(other)),
    }
}

/// Pieces of so many.
fn cut<T: Send + 'static>(all: Vec<T>, each: usize) -> impl Iterator<Item = Vec<T>> + Send {
    let mut rest = all.into_iter();
    std::iter::from_fn(move || {
        Some(rest.by_ref().take(each).collect::<Vec<T>>()).filter(|piece| !piece.is_empty())
    })
}

/// What is answered to one part after what was answered to those before it.
pub(super) fn together(before: Option<Answer>, next: Answer) -> Answer {
    match (before, next) {
        (Some(Answer::Decided(mut all)), Answer::Decided(more)) => {
            all.extend(more);
            Answer::Decided(all)
        }
        (Some(Answer::Rewarded(mut all)), Answer::Rewarded(more)) => {
            all.extend(more);
            Answer::Rewarded(all)
        }
        (_, next) => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Refusal;
    use crate::engine::items::ListedItem;
    use crate::engine::request::{ForUser, Offer};
    use cohort_features::Given;

    #[test]
    fn a_large_request_is_cut_and_a_small_one_is_not() {
        let users = |count: usize| -> Vec<ForUser> {
            let user = |n: usize| ForUser { user: n.to_string(), decision: None, shown: true };
            (0..count).map(user).collect()
        };
        let decide = |count: usize| Request::Decide {
            app: "shop".to_owned(),
            offer: Offer::new(vec!["a".to_owned(); 100], vec![None; 100]),
            users: users(count),
            explain: false,
        };
        assert_eq!(parts(decide(2), 64).count(), 1);
        let mut seen = Vec::new();
        for part in parts(decide(488), 64) {
            assert!(part.work(64) <= PART_WORK);
            let Request::DecidePart { offer, users, .. } = part else { panic!("another request") };
            assert_eq!(offer.batch, 488);
            seen.extend(users.into_iter().map(|user| user.user));
        }
        assert_eq!(seen, (0..488).map(|n| n.to_string()).collect::<Vec<_>>());
        // One user cannot be cut.
        assert_eq!(parts(decide(3), 256).count(), 3);
        let rewards = (0..1000).map(|n| (n.to_string(), 1.0)).collect();
        let all = parts(Request::Reward { app: "shop".to_owned(), rewards }, 256);
        assert_eq!(all.count(), 1000usize.div_ceil(13));
        assert_eq!(parts(Request::ListApps, 1000).count(), 1);
    }

    #[test]
    fn many_items_are_all_looked_at_before_the_first_is_registered() {
        let item = |at: usize| ListedItem::new(at.to_string(), Given::Vector(vec![0.0; 64]));
        let app = "shop".to_owned();
        let items = (0..5000).map(item).collect();
        let mut covered = [0, 0];
        for part in parts(Request::RegisterItems { app, items }, 64) {
            assert!(part.work(64) <= PART_WORK + 10_000, "{}", part.work(64));
            let Request::RegisterPart { part, registers, .. } = part else { panic!("another") };
            assert!(!registers || covered[0] == 5000);
            assert_eq!(covered[usize::from(registers)], part.start);
            covered[usize::from(registers)] = part.end;
        }
        assert_eq!(covered, [5000, 5000]);
    }

    #[test]
    fn answers_of_parts_are_told_together_in_their_order() {
        let refused = |limit: usize| Refusal::TooManyUsers { limit };
        let limits = |answer: Answer| -> Vec<usize> {
            let of = |refusal: Refusal| match refusal {
                Refusal::TooManyUsers { limit } => limit,
                _ => panic!("another refusal"),
            };
            match answer {
                Answer::Decided(all) => {
                    all.into_iter().filter_map(|one| one.err().map(of)).collect()
                }
                Answer::Rewarded(all) => {
                    all.into_iter().filter_map(|one| one.err().map(of)).collect()
                }
                _ => panic!("another answer"),
            }
        };
        let decided =
            |from: usize| Answer::Decided(vec![Err(refused(from)), Err(refused(from + 1))]);
        let rewarded =
            |from: usize| Answer::Rewarded(vec![Err(refused(from)), Err(refused(from + 1))]);
        for of in [&decided as &dyn Fn(usize) -> Answer, &rewarded] {
            let all = [0, 2, 4].into_iter().fold(None, |all, from| Some(together(all, of(from))));
            assert_eq!(limits(all.unwrap()), [0, 1, 2, 3, 4, 5]);
        }
    }
}
