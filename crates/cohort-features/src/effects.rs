//! What features do not say: how much an item is liked beyond what they foretell, by everybody and by the very
//! user who has seen it.
//!
//! ```text
//! reward = what the policy expects of the item's features for the user
//!        + a_i       of the item, for everybody:            N(0, τ²)
//!        + g_ui      of this item for this user:            N(0, s²)
//!        + noise                                            σ²
//! ```
//!
//! All three variances are estimated from what was seen, by moments: τ² from how much items' residuals differ more
//! than chance lets them (one-way analysis of variance, groups of unequal size), σ² from how much a user's
//! answers to one item differ, s² from what is left of the surprise at first answers. An effect is then the
//! mean of its residuals, shrunk by how many there are; without evidence it is nothing, so a new item
//! starts from its features alone.
//!
//! Every reward changes a handful of sums, and a score costs two look-ups an item. The policy itself learns
//! as it would without.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use hashbrown::HashMap;

use cohort::Score;

/// Items whose effect is known; further ones have none until one of these is forgotten.
const MAX_ITEMS: usize = 1 << 20;
/// Answers of a user to an item that are remembered: the newest.
const MAX_PAIRS: usize = 1 << 20;
/// Surprises are averaged over about so many rewards: the policy gets better.
const MEMORY: f64 = 2000.0;
/// Rewards that stand for not knowing how much answers to one item differ.
const DOUBT: f64 = 10.0;

/// Residuals of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Item {
    count: f64,
    sum: f64,
}

/// Answers of one user to one item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pair {
    count: f64,
    mean: f64,
}

/// A user's number and an item's hash.
type PairKey = (u64, u64);

/// Effects of items, learned across users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemEffects {
    items: HashMap<u64, Item>,
    pairs: HashMap<PairKey, Pair>,
    /// Pairs in the order in which they came.
    order: VecDeque<PairKey>,
    /// Of all residuals: how many, their sum, the sum of their squares.
    count: f64,
    sum: f64,
    squares: f64,
    /// Σ sum²/count and Σ count² over items.
    between: f64,
    counts_squared: f64,
    /// Of answers to an item by a user who had answered before: how many, and their squared deviations.
    repeats: f64,
    repeat_squares: f64,
    /// The mean square of first surprises, of late, and how many there were.
    surprise: f64,
    surprises: f64,
}

/// What the sums say.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Variances {
    /// The mean of all residuals.
    centre: f64,
    /// Of one residual about its item's effect, divided by that of effects; infinite where items do not differ.
    item_ratio: f64,
    /// Of an answer to one item by one user, divided by that of what the policy does not know of it.
    pair_ratio: f64,
}

impl ItemEffects {
    /// Adds effects to what a policy thinks of items for a user. `items` are hashes of ids.
    pub fn adjust(&self, user: usize, items: &[u64], scores: &mut [Score]) {
        let variances = self.variances();
        for (item, score) in items.iter().zip(scores) {
            let (effect, known) = self.effect(&variances, user, *item, score.expected);
            score.expected += effect;
            score.bonus *= (1.0 - known).sqrt();
        }
    }

    /// What to add to the reward that is expected of an item for a user, and how much of it is known
    /// of this very user: from 0 (nothing) to 1 (all).
    fn effect(&self, variances: &Variances, user: usize, item: u64, expected: f64) -> (f64, f64) {
        let of_item = self.of_item(variances, item);
        match self.pairs.get(&(user as u64, item)) {
            Some(pair) if variances.pair_ratio.is_finite() => {
                let gain = pair.count / (pair.count + variances.pair_ratio);
                let foretold = expected + of_item;
                (of_item + gain * (pair.mean - foretold), gain)
            }
            _ => (of_item, 0.0),
        }
    }

    fn of_item(&self, variances: &Variances, item: u64) -> f64 {
        match self.items.get(&item) {
            Some(Item { count, sum }) if variances.item_ratio.is_finite() => {
                (sum - count * variances.centre) / (count + variances.item_ratio)
            }
            _ => 0.0,
        }
    }

    /// The effect of an item for everybody, and how many rewards it rests on.
    pub fn of(&self, item: u64) -> (f64, f64) {
        let rewards = self.items.get(&item).map_or(0.0, |item| item.count);
        (self.of_item(&self.variances(), item), rewards)
    }

    /// One reward of a user for an item, of which the policy had expected `expected`.
    pub fn learn(&mut self, user: usize, item: u64, expected: f64, reward: f64) {
        let residual = reward - expected;
        if !self.pairs.contains_key(&(user as u64, item)) {
            let surprise = residual - self.of_item(&self.variances(), item);
            self.surprises += 1.0;
            let step = 1.0 / self.surprises.min(MEMORY);
            self.surprise += step * (surprise * surprise - self.surprise);
        }
        self.learn_item(item, residual);
        self.learn_pair((user as u64, item), reward);
    }

    fn learn_item(&mut self, item: u64, residual: f64) {
        if !self.items.contains_key(&item) && self.items.len() >= MAX_ITEMS {
            return;
        }
        self.count += 1.0;
        self.sum += residual;
        self.squares += residual * residual;
        let known = self.items.entry(item).or_default();
        if known.count > 0.0 {
            self.between -= known.sum * known.sum / known.count;
        }
        self.counts_squared += 2.0 * known.count + 1.0;
        known.count += 1.0;
        known.sum += residual;
        self.between += known.sum * known.sum / known.count;
    }

    fn learn_pair(&mut self, key: PairKey, reward: f64) {
        match self.pairs.get_mut(&key) {
            Some(pair) => {
                let step = reward - pair.mean;
                self.repeats += 1.0;
                self.repeat_squares += step * step * pair.count / (pair.count + 1.0);
                pair.count += 1.0;
                pair.mean += step / pair.count;
            }
            None => {
                if self.pairs.len() >= MAX_PAIRS
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.pairs.remove(&oldest);
                }
                self.order.push_back(key);
                self.pairs.insert(key, Pair { count: 1.0, mean: reward });
            }
        }
    }

    /// Forgets what a user answered; what it had to say of items for everybody stays.
    pub fn forget(&mut self, user: usize) {
        let of_user = |key: &PairKey| key.0 == user as u64;
        self.pairs.retain(|key, _| !of_user(key));
        self.order.retain(|key| !of_user(key));
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.count == 0.0
    }

    fn variances(&self) -> Variances {
        let (items, count) = (self.items.len() as f64, self.count);
        let mut found = Variances {
            centre: if count > 0.0 { self.sum / count } else { 0.0 },
            item_ratio: f64::INFINITY,
            pair_ratio: f64::INFINITY,
        };
        if items >= 2.0 && count > items {
            let within = ((self.squares - self.between) / (count - items)).max(0.0);
            let between = (self.between - self.sum * self.sum / count) / (items - 1.0);
            let size = (count - self.counts_squared / count) / (items - 1.0);
            let of_items = (between - within) / size;
            if of_items > 0.0 && of_items > 1e-9 * within {
                found.item_ratio = within / of_items;
            }
        }
        if self.repeats > 0.0 && self.surprise > 0.0 {
            // While few answered twice, answers are taken to differ as much as surprises do.
            let noise = (self.repeat_squares + DOUBT * self.surprise) / (self.repeats + DOUBT);
            let unknown = self.surprise - noise;
            if unknown > 1e-9 * noise {
                found.pair_ratio = noise / unknown;
            }
        }
        found
    }

    /// Writes all that was learned.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut items: Vec<(u64, Item)> =
            self.items.iter().map(|(key, item)| (*key, *item)).collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        out.write_all(&(items.len() as u64).to_le_bytes())?;
        for (key, Item { count, sum }) in items {
            out.write_all(&key.to_le_bytes())?;
            put(out, &[count, sum])?;
        }
        out.write_all(&(self.order.len() as u64).to_le_bytes())?;
        for key in &self.order {
            let pair = self.pairs.get(key).copied().unwrap_or_default();
            out.write_all(&key.0.to_le_bytes())?;
            out.write_all(&key.1.to_le_bytes())?;
            put(out, &[pair.count, pair.mean])?;
        }
        put(out, &self.sums())
    }

    /// Reads what [`ItemEffects::save`] wrote.
    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let mut effects = Self::default();
        for _ in 0..take_count(from, MAX_ITEMS)? {
            let key = take_u64(from)?;
            let [count, sum] = take(from)?;
            effects.items.insert(key, Item { count, sum });
        }
        for _ in 0..take_count(from, MAX_PAIRS)? {
            let key = (take_u64(from)?, take_u64(from)?);
            let [count, mean] = take(from)?;
            effects.pairs.insert(key, Pair { count, mean });
            effects.order.push_back(key);
        }
        let [
            count,
            sum,
            squares,
            between,
            counts_squared,
            repeats,
            repeat_squares,
            surprise,
            surprises,
        ] = take(from)?;
        (effects.count, effects.sum, effects.squares) = (count, sum, squares);
        (effects.between, effects.counts_squared) = (between, counts_squared);
        (effects.repeats, effects.repeat_squares) = (repeats, repeat_squares);
        (effects.surprise, effects.surprises) = (surprise, surprises);
        Ok(effects)
    }

    fn sums(&self) -> [f64; 9] {
        [
            self.count,
            self.sum,
            self.squares,
            self.between,
            self.counts_squared,
            self.repeats,
            self.repeat_squares,
            self.surprise,
            self.surprises,
        ]
    }
}

fn put(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    numbers.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
}

fn take_u64(from: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn take_count(from: &mut dyn Read, most: usize) -> io::Result<u64> {
    match take_u64(from)? {
        count if count <= most as u64 => Ok(count),
        count => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{count} effects"))),
    }
}

fn take<const N: usize>(from: &mut dyn Read) -> io::Result<[f64; N]> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = f64::from_bits(take_u64(from)?);
        if !number.is_finite() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the number {number}")));
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn expected(effects: &ItemEffects, user: usize, item: u64) -> f64 {
        let mut scores = [Score::default()];
        effects.adjust(user, &[item], &mut scores);
        scores[0].expected
    }

    /// Answers of users to items: an effect of the item, one of the pair, and noise.
    fn world(item: f64, pair: f64, noise: f64, rewards: usize) -> (ItemEffects, Vec<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut effects = ItemEffects::default();
        let mut normal =
            |scale: f64| scale * (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0 * scale;
        let of_items: Vec<f64> = (0..50).map(|_| normal(item)).collect();
        let of_pairs: Vec<f64> = (0..50 * 40).map(|_| normal(pair)).collect();
        let mut order = ChaCha8Rng::seed_from_u64(4);
        for _ in 0..rewards {
            let (user, item) = (order.random_range(0..40), order.random_range(0..50));
            let reward = of_items[item] + of_pairs[user * 50 + item] + normal(noise);
            effects.learn(user, item as u64, 0.0, reward);
        }
        (effects, of_items)
    }

    #[test]
    fn items_that_do_not_differ_have_no_effect() {
        let (effects, _) = world(0.0, 0.0, 1.0, 5000);
        for item in 0..50 {
            assert!(expected(&effects, 99, item).abs() < 0.06, "{}", expected(&effects, 99, item));
        }
        assert_eq!(expected(&effects, 99, 1000), 0.0, "a new item starts from its features");
        assert_eq!(expected(&ItemEffects::default(), 0, 0), 0.0);
    }

    #[test]
    fn effects_of_items_are_found_and_shrunk() {
        let (effects, truth) = world(0.5, 0.0, 1.0, 10_000);
        for (item, truth) in truth.iter().enumerate() {
            assert!((expected(&effects, 99, item as u64) - truth).abs() < 0.35);
        }
        let (few, truth) = world(0.5, 0.0, 1.0, 300);
        let square = |values: Vec<f64>| values.iter().map(|x| x * x).sum::<f64>();
        let error = square((0..50).map(|i| expected(&few, 99, i as u64) - truth[i]).collect());
        let mean_of = |i: usize| few.items.get(&(i as u64)).map_or(0.0, |one| one.sum / one.count);
        let of_means = square((0..50).map(|i| mean_of(i) - truth[i]).collect());
        assert!(error < of_means && error < square(truth), "{error} {of_means}");
    }

    #[test]
    fn what_a_user_answered_before_counts_as_far_as_answers_are_the_same() {
        // Always the same answer: it is foretold, and there is nothing left to try.
        let (sure, _) = world(0.3, 1.0, 0.0, 10_000);
        let (key, pair) = sure.pairs.iter().next().unwrap();
        let mut scores = [Score { expected: 0.2, bonus: 1.0 }];
        sure.adjust(key.0 as usize, &[key.1], &mut scores);
        assert!((scores[0].expected - pair.mean).abs() < 0.02 && scores[0].bonus < 0.2);
        // Answers that are chance: one of them says next to nothing.
        let (unsure, _) = world(0.0, 0.0, 1.0, 10_000);
        let mut scores = [Score { expected: 0.0, bonus: 1.0 }];
        unsure.adjust(key.0 as usize, &[key.1], &mut scores);
        assert!(scores[0].bonus > 0.8, "{scores:?}");
    }

    #[test]
    fn it_is_kept_and_forgets() {
        let (mut effects, _) = world(0.3, 0.5, 0.5, 500);
        let mut bytes = Vec::new();
        effects.save(&mut bytes).unwrap();
        let loaded = ItemEffects::load(&mut bytes.as_slice()).unwrap();
        assert_eq!(loaded, effects);
        assert!(ItemEffects::load(&mut &bytes[..bytes.len() - 1]).is_err());
        effects.forget(7);
        assert!(
            effects.pairs.keys().all(|key| key.0 != 7)
                && effects.order.len() == effects.pairs.len()
        );
    }
}
