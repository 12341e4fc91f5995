//! Sampling users for the structure search: those with the most rewards, and a random part of the
//! others.

use super::constants;
use super::ledger::Ledger;
use super::model::Population;

/// The largest sample size in R^d.
pub(super) fn sample_size(features: usize, warm: Option<&Population>) -> usize {
    let dim = (features + 1) as f64;
    let fewer = ((16.0 / dim).powi(2) * constants::sample_users() as f64) as usize;
    let users = fewer.clamp(constants::sample_least_users(), constants::sample_users());
    let searching = warm.is_none_or(|warm| {
        warm.components[0].weight > constants::sample_unassigned()
            || warm.certainty < constants::sample_certain()
    });
    if searching { constants::sample_more() * users } else { users }
}

/// Slots of the users of a sample: all users where there are few, except those with far fewer
/// rewards than others ([`least_rewards`]). Half have the most rewards; the other half is drawn
/// with probabilities that grow with their rewards. The sample changes with the number of rewards
/// seen.
pub fn sample(ledger: &Ledger, warm: Option<&Population>) -> Vec<usize> {
    sample_of(ledger, sample_size(ledger.dim(), warm))
}

/// The fewest rewards of a user in a sample: a fraction (`sample_least_part`) of what frequent
/// users have, or of the dimension. Users with one or two rewards do not inform the structure
/// unless all users are like that; they take part in the sums over all users afterwards.
pub(super) fn least_rewards_of(often: f64, dim: usize) -> f64 {
    constants::sample_least_part() * often.min(dim as f64)
}

fn least_rewards(ledger: &Ledger) -> f64 {
    least_rewards_of(ledger.count_of_rank(constants::sample_reference()), ledger.dim())
}

/// The mean number of rewards of the users a sample is taken from.
pub fn mean_rewards(ledger: &Ledger) -> f64 {
    ledger.mean_count_from(least_rewards(ledger))
}

/// The same, of at most `most` users.
pub fn sample_of(ledger: &Ledger, most: usize) -> Vec<usize> {
    sample_from(ledger, most, least_rewards(ledger))
}

/// The same, of users who have so many rewards at least.
pub(super) fn sample_from(ledger: &Ledger, most: usize, least: f64) -> Vec<usize> {
    // Users that were removed have no rewards.
    let counts: Vec<f64> = ledger.counts().flatten().copied().collect();
    let tells_enough = |slot: &usize| counts[*slot] > 0.0 && counts[*slot] >= least;
    let slots: Vec<usize> = (0..counts.len()).filter(tells_enough).collect();
    if slots.len() <= most {
        return slots;
    }
    let turn = ledger.rewards();
    // Users with about as many rewards are alike: those of a class take turns.
    let class = |slot: usize| (counts[slot].max(1.0).log2() * 2.0) as usize;
    let mut sizes: Vec<usize> = Vec::new();
    for &slot in &slots {
        let class = class(slot);
        if class >= sizes.len() {
            sizes.resize(class + 1, 0);
        }
        sizes[class] += 1;
    }
    let mut wanted = vec![0; sizes.len()];
    let mut left = most / 2;
    for class in (0..sizes.len()).rev() {
        wanted[class] = sizes[class].min(left);
        left -= wanted[class];
    }
    let mut chosen = vec![false; counts.len()];
    let mut seen = vec![0usize; sizes.len()];
    for &slot in &slots {
        let class = class(slot);
        if wanted[class] > 0 && takes_turn(seen[class], sizes[class], wanted[class], turn) {
            chosen[slot] = true;
        }
        seen[class] += 1;
    }
    // The rest by what each can tell: n/(n + d).
    let taken = chosen.iter().filter(|one| **one).count();
    let dim = ledger.dim() as f64;
    let tells = |slot: usize| counts[slot] / (counts[slot] + dim);
    let all: f64 = slots.iter().filter(|slot| !chosen[**slot]).map(|slot| tells(*slot)).sum();
    let step = all / (most - taken) as f64;
    let mut next = step * fraction(turn * 0.618_033_988_749_895);
    let mut sum = 0.0;
    for &slot in &slots {
        if chosen[slot] {
            continue;
        }
        sum += tells(slot);
        if sum > next {
            chosen[slot] = true;
            next += step;
        }
    }
    slots.into_iter().filter(|slot| chosen[*slot]).collect()
}

/// Whether the `at`-th of `size` users is among the `wanted` evenly spaced ones, from a start that moves with
/// `turn`.
fn takes_turn(at: usize, size: usize, wanted: usize, turn: f64) -> bool {
    if wanted == size {
        return true;
    }
    let shift = fraction(turn * 0.618_033_988_749_895);
    let place = |at: usize| ((at as f64 / size as f64 + shift) * wanted as f64).floor();
    place(at + 1) > place(at)
}

fn fraction(number: f64) -> f64 {
    number - number.floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users 0, 1, … with the given numbers of rewards.
    fn ledger(rewards: impl IntoIterator<Item = usize>) -> Ledger {
        let mut ledger = Ledger::new(3, 1.0);
        for (user, rewards) in rewards.into_iter().enumerate() {
            for turn in 0..rewards {
                ledger.learn_one(user, &[1.0, turn as f64, 0.5], user as f64);
            }
        }
        ledger
    }

    #[test]
    fn visitors_are_in_no_sample_beside_users_who_come_often() {
        let visited = ledger((0..1100).map(|user| if user % 11 == 0 { 10 } else { 2 }));
        let sampled = sample_of(&visited, 512);
        let often: Vec<usize> = (0..1100).step_by(11).collect();
        let users: Vec<usize> = sampled.iter().map(|slot| visited.user_of(*slot)).collect();
        assert_eq!(users, often);
        assert_eq!(mean_rewards(&visited), 10.0);
    }

    #[test]
    fn where_nobody_comes_often_everybody_may_be_in_a_sample() {
        let alike = ledger((0..300).map(|_| 2));
        assert_eq!(sample_of(&alike, 512).len(), 300);
        assert_eq!(sample_of(&alike, 128).len(), 128);
        // A few frequent users are too few for a sample.
        let few = ledger((0..300).map(|user| if user < 5 { 50 } else { 2 }));
        assert_eq!(sample_of(&few, 512).len(), 300);
    }
}
