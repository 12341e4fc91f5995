//! What of a large request is done at a time? Requests of others are done between its parts, so that nobody waits long
//! for anybody's batch.

use super::super::{Answer, Request};

/// Work of one part, in the units of [`Request::work`]: a few milliseconds.
const PART_WORK: u64 = 4_000_000;

/// A request in parts, to be done one after the other; one that is small is one part. What is asked of an app of `dim`
/// features.
pub(super) fn parts(request: Request, dim: usize) -> Vec<Request> {
    if request.work(dim) <= PART_WORK {
        return vec![request];
    }
    let square = ((dim * dim) as u64).max(1);
    match request {
        Request::Decide { app, mut offer, users, explain } => {
            // Limits are those of the whole.
            offer.batch = users.len();
            let of_one = square.saturating_mul(offer.ids.len().max(1) as u64);
            let part = |users| {
                let (app, offer) = (app.clone(), offer.clone());
                Request::Decide { app, offer, users, explain }
            };
            cut(users, PART_WORK / of_one).map(part).collect()
        }
        Request::Reward { app, rewards } => {
            let part = |rewards| Request::Reward { app: app.clone(), rewards };
            cut(rewards, PART_WORK / square).map(part).collect()
        }
        other => vec![other],
    }
}

/// Pieces of so many, at least one.
fn cut<T>(mut all: Vec<T>, each: u64) -> impl Iterator<Item = Vec<T>> {
    let each = usize::try_from(each).unwrap_or(usize::MAX).max(1);
    std::iter::from_fn(move || {
        let rest = all.split_off(each.min(all.len()));
        Some(std::mem::replace(&mut all, rest)).filter(|piece| !piece.is_empty())
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
    use crate::engine::request::{ForUser, Offer};

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
        assert_eq!(parts(decide(9), 64).len(), 1);
        let mut seen = Vec::new();
        for part in parts(decide(488), 64) {
            assert!(part.work(64) <= PART_WORK + 2000);
            let Request::Decide { offer, users, .. } = part else { panic!("another request") };
            assert_eq!(offer.batch, 488);
            seen.extend(users.into_iter().map(|user| user.user));
        }
        assert_eq!(seen, (0..488).map(|n| n.to_string()).collect::<Vec<_>>());
        // One user cannot be cut.
        assert_eq!(parts(decide(3), 256).len(), 3);
        let rewards = (0..1000).map(|n| (n.to_string(), 1.0)).collect();
        let all = parts(Request::Reward { app: "shop".to_owned(), rewards }, 256);
        assert_eq!(all.len(), 1000usize.div_ceil(61));
        assert_eq!(parts(Request::ListApps, 1000).len(), 1);
    }
}
