//! What features do not say: how much an item is liked beyond what they foretell, by everybody, by a cohort, and by the
//! very user who has seen it.
//!
//! ```text
//! reward = what the policy expects of the item's features for the user
//!        + a_i       of the item, for everybody:            N(0, τ²)
//!        + b_ci      of the item, for the user's cohort:    see `cohorts`
//!        + g_ui      of this item for this user:            N(0, s²)
//!        + noise                                            σ²
//! ```
//!
//! How much of each there is comes from what was seen: how far effects of items are shrunk from what would have foretold
//! answers best (see `shrinkage`), σ² from how much a user's answers to one item differ, s² from what is left of the
//! surprise at first answers. An effect is the mean of its residuals, shrunk by how many there are; without evidence it is
//! nothing, so a new item starts from its features alone.
//!
//! Every reward changes a handful of sums, and a score costs some look-ups an item. The policy is taught rewards as they
//! are. Taught what is left of them without the item's effect, it and the effects would follow each other wherever features
//! cannot tell a level from the items that were shown: effects are what was left at the time, and what the policy expects moves. What
//! the policy makes of items that are simply better liked goes into their effects as its error, and so comes out right.
//! What is left is what the policy does not expect, once it foretells rewards better than their mean does (see `level`).
//!
//! An item has another vector in another context, and the same user may answer otherwise there. So g_ui is what was left of
//! the mean ȳ of the user's answers beyond what is expected of the mean x̄ of the vectors they were given to:
//!
//! ```text
//! reward expected of x = m(x) + n/(n + ρ) · (ȳ − m(x̄)),    m(x) = what the policy and the item's effects make of x now
//! ```
//!
//! Where all vectors were the same this is a mean of answers, whatever the policy makes of features; where they were not,
//! it leaves to features what differs between contexts. The policy's present opinion of x̄ counts, not those at the times of
//! the answers, when it knew less. For the same reason what the pair's answers say takes uncertainty away only as far as
//! it is of x̄: what is not known of x − x̄ stays to be tried.
//!
//! To the policy every answer is news of the item's features, with g_ui as part of the noise. But g_ui stays the same
//! when the user answers to the same vector again: n answers say as much of features as one with the variance s² + σ²/n,
//! that is as n(1 + ρ)/(n + ρ) answers to different items, ρ = σ²/s². So the policy is taught an answer to a vector that
//! is (nearly) x̄ only when that number reaches the next whole one, where ρ is below 1: a larger one may be chance. A
//! user who always likes what it liked before does not make its features look better and better, and uncertainty about
//! everything else stays what it is. Answers to other vectors are all taught.

mod cohorts;
mod level;
mod mean_vector;
mod saved;
mod shrinkage;

use std::collections::VecDeque;

use hashbrown::HashMap;

use cohort::{Contexts, Score};

use cohorts::CohortEffects;
use level::Level;
use mean_vector::MeanVector;
use shrinkage::Shrinkage;

/// Items whose effect is known; further ones have none until one of these is forgotten.
const MAX_ITEMS: usize = 1 << 20;
/// Answers of a user to an item that are remembered: the newest.
const MAX_PAIRS: usize = 1 << 20;
/// Numbers of the vectors that users have answered to: so many pairs are remembered as these are enough for.
const MAX_NUMBERS: usize = 1 << 25;
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

/// An item as it is shown to a user.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The hash of its id.
    pub item: u64,
    /// Its vector in the context in which it is shown.
    pub vector: &'a [f64],
}

/// Scores vectors for the user at hand, as the policy does without effects.
pub type ScoreVectors<'a> = &'a mut dyn FnMut(&Contexts, &mut [Score]);

/// Answers of one user to one item.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pair {
    count: f64,
    mean: f64,
    /// Of the vectors that were answered to.
    vector: MeanVector,
    /// Of residuals that are among those of the user's cohort: how many, and their sum.
    counted: f64,
    residuals: f64,
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
    /// Items of the pairs of each user, in the order in which they came.
    of_users: HashMap<u64, Vec<u64>>,
    cohorts: CohortEffects,
    shrinkage: Shrinkage,
    level: Level,
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
    /// Of one residual about its cohort's effect, divided by that of such effects; infinite where cohorts do not differ.
    cohort_ratio: f64,
    /// Of an answer to one item by one user, divided by that of what the policy does not know of it.
    pair_ratio: f64,
}

impl Variances {
    /// As how many answers to different items so many to one item count, rounded down; as they are where a user's answers
    /// to one item differ more than the user's effects do.
    fn worth(&self, answers: f64) -> f64 {
        match self.pair_ratio {
            ratio if ratio < 1.0 && answers > 0.0 => {
                // What is whole but for rounding is whole.
                (answers * (1.0 + ratio) / (answers + ratio) + 1e-9).floor()
            }
            _ => answers,
        }
    }
}

impl ItemEffects {
    /// Adds effects to what a policy thinks of items for a user; `score` is asked for what it thinks of other vectors.
    pub fn adjust<'a>(
        &self,
        user: usize,
        items: impl Iterator<Item = Shown<'a>> + Clone,
        scores: &mut [Score],
        score: ScoreVectors,
    ) {
        let variances = self.variances();
        let user = user as u64;
        let mut elsewhere = self.of_mean_vectors(&variances, user, items.clone(), score);
        for (Shown { item, vector }, score) in items.zip(scores) {
            let of_item = self.foretold(&variances, user, item);
            let pair = self.pairs.get(&(user, item)).filter(|_| variances.pair_ratio.is_finite());
            let Some(pair) = pair else {
                score.expected += of_item;
                continue;
            };
            let gain = pair.count / (pair.count + variances.pair_ratio);
            // At the mean of the vectors that were answered to, and of what is between it and this one.
            let (there, between) = match pair.vector.is_near(vector) {
                true => (score.expected, 0.0),
                false => elsewhere.next().unwrap_or((score.expected, score.bonus)),
            };
            score.expected += of_item + gain * (pair.mean - there - of_item);
            let variance = (1.0 - gain) * score.bonus * score.bonus + gain * between * between;
            score.bonus = variance.sqrt().min(score.bonus);
        }
    }

    /// Of each of these items that the user has answered to, but to other vectors: the reward that is expected at
    /// their mean, and the bonus of what is between it and the vector here.
    fn of_mean_vectors<'a>(
        &self,
        variances: &Variances,
        user: u64,
        items: impl Iterator<Item = Shown<'a>>,
        score: ScoreVectors,
    ) -> std::vec::IntoIter<(f64, f64)> {
        let (mut rows, mut dim) = (Vec::new(), 1);
        if variances.pair_ratio.is_finite() && self.of_users.contains_key(&user) {
            for Shown { item, vector } in items {
                let pair = self.pairs.get(&(user, item));
                if let Some(pair) = pair.filter(|pair| !pair.vector.is_near(vector)) {
                    dim = vector.len();
                    rows.extend(pair.vector.numbers());
                    let between = vector.iter().zip(pair.vector.numbers());
                    rows.extend(between.map(|(here, there)| here - there));
                }
            }
        }
        let mut scores = vec![Score::default(); rows.len() / dim];
        if let Ok(rows) = Contexts::new(&rows, dim) {
            score(&rows, &mut scores);
        }
        let found: Vec<(f64, f64)> =
            scores.chunks_exact(2).map(|of_one| (of_one[0].expected, of_one[1].bonus)).collect();
        found.into_iter()
    }

    /// What is added for items that a user has not answered to, by hashes of ids; `place` says where one is among them.
    pub fn shifts<'a>(
        &self,
        user: usize,
        items: &[u64],
        place: impl Fn(u64) -> Option<&'a u32>,
    ) -> Vec<f32> {
        let (variances, user) = (self.variances(), user as u64);
        let shift = |item: u64| self.foretold(&variances, user, item) as f32;
        // An item without a reward has no effect.
        if self.items.len() < items.len() / 4 {
            let mut shifts = vec![0.0; items.len()];
            for item in self.items.keys() {
                if let Some(to) = place(*item).and_then(|at| shifts.get_mut(*at as usize)) {
                    *to = shift(*item);
                }
            }
            return shifts;
        }
        items.iter().map(|item| shift(*item)).collect()
    }

    /// Hashes of the items that a user has answered to, as far as they are remembered.
    pub fn items_of(&self, user: usize) -> &[u64] {
        self.of_users.get(&(user as u64)).map_or(&[], |items| items)
    }

    /// The effect of an item for everybody and for the user's cohort.
    fn foretold(&self, variances: &Variances, user: u64, item: u64) -> f64 {
        let of_item = self.of_item(variances, item);
        let expected = variances.centre + of_item;
        of_item + self.cohorts.effect(user, item, variances.cohort_ratio, expected)
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

    /// One reward of a user for an item, of which the policy had expected `expected`; with the number of the user's
    /// cohort, where it has one. `score` is asked for what the policy thinks of other vectors. Returns whether the policy is
    /// to be taught it: not where the user's answers to this item before said all that this one says of features.
    pub fn learn(
        &mut self,
        user: usize,
        cohort: Option<usize>,
        Shown { item, vector }: Shown,
        expected: f64,
        reward: f64,
        score: ScoreVectors,
    ) -> bool {
        let number = user as u64;
        let residual = reward - self.level.opinion(expected, reward);
        let foretold = self.foretold(&self.variances(), number, item);
        let pair = self.pairs.get(&(number, item));
        let is_near = pair.is_none_or(|pair| pair.vector.is_near(vector));
        if pair.is_none() {
            let surprise = residual - foretold;
            self.surprises += 1.0;
            let step = 1.0 / self.surprises.min(MEMORY);
            self.surprise += step * (surprise * surprise - self.surprise);
        }
        // By how much more than at the mean vector is to be expected here.
        let beyond = match pair.filter(|_| !is_near).map(|pair| pair.vector.numbers().collect()) {
            None => 0.0,
            Some(there) => {
                let there: Vec<f64> = there;
                let mut scores = [Score::default()];
                if let Ok(there) = Contexts::new(&there, vector.len()) {
                    score(&there, &mut scores);
                }
                expected - scores[0].expected
            }
        };
        self.learn_item(item, residual);
        self.learn_pair((number, item), vector, reward, beyond);
        if let Some(cohort) = cohort {
            self.learn_cohort(number, cohort as u64, item, residual);
        }
        let variances = self.variances();
        let answers = self.pairs.get(&(number, item)).map_or(1.0, |pair| pair.count);
        !is_near || variances.worth(answers) > variances.worth(answers - 1.0)
    }

    fn learn_cohort(&mut self, user: u64, cohort: u64, item: u64, residual: f64) {
        if let Some(before) = self.cohorts.place(user, cohort) {
            for known in self.of_users.get(&user).into_iter().flatten() {
                if let Some(pair) =
                    self.pairs.get(&(user, *known)).filter(|pair| pair.counted > 0.0)
                {
                    self.cohorts.shift(*known, before, cohort, pair.counted, pair.residuals);
                }
            }
        }
        self.cohorts.learn(cohort, item, residual);
        if let Some(pair) = self.pairs.get_mut(&(user, item)) {
            pair.counted += 1.0;
            pair.residuals += residual;
        }
    }

    fn learn_item(&mut self, item: u64, residual: f64) {
        if !self.items.contains_key(&item) && self.items.len() >= MAX_ITEMS {
            return;
        }
        let centre = self.centre();
        self.count += 1.0;
        self.sum += residual;
        self.squares += residual * residual;
        let known = self.items.entry(item).or_default();
        self.shrinkage.judge(known, centre, residual);
        if known.count > 0.0 {
            self.between -= known.sum * known.sum / known.count;
        }
        self.counts_squared += 2.0 * known.count + 1.0;
        known.count += 1.0;
        known.sum += residual;
        self.between += known.sum * known.sum / known.count;
    }

    /// One answer of a user to an item, at a vector where so much more is expected than at the mean of the others.
    fn learn_pair(&mut self, key: PairKey, vector: &[f64], reward: f64, beyond: f64) {
        match self.pairs.get_mut(&key) {
            Some(pair) => {
                let step = reward - pair.mean;
                let surprise = step - beyond;
                self.repeats += 1.0;
                self.repeat_squares += surprise * surprise * pair.count / (pair.count + 1.0);
                pair.count += 1.0;
                pair.mean += step / pair.count;
                pair.vector.add(vector, pair.count);
            }
            None => {
                if self.pairs.len() >= MAX_PAIRS.min(MAX_NUMBERS / vector.len().max(1))
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.pairs.remove(&oldest);
                    self.unlist(oldest);
                }
                self.order.push_back(key);
                self.of_users.entry(key.0).or_default().push(key.1);
                let vector = MeanVector::of(vector);
                let pair = Pair { count: 1.0, mean: reward, vector, ..Pair::default() };
                self.pairs.insert(key, pair);
            }
        }
    }

    fn unlist(&mut self, (user, item): PairKey) {
        if let Some(items) = self.of_users.get_mut(&user) {
            items.retain(|known| *known != item);
            if items.is_empty() {
                self.of_users.remove(&user);
            }
        }
    }

    /// Forgets what a user answered; what it had to say of items for everybody stays.
    pub fn forget(&mut self, user: usize) {
        let user = user as u64;
        self.cohorts.forget(user);
        let Some(items) = self.of_users.remove(&user) else { return };
        for item in items {
            self.pairs.remove(&(user, item));
        }
        self.order.retain(|key| key.0 != user);
    }

    /// Whether nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.count == 0.0
    }

    /// The mean of all residuals.
    fn centre(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    fn variances(&self) -> Variances {
        let mut found = Variances {
            centre: self.centre(),
            item_ratio: self.shrinkage.best(self.count).unwrap_or_else(|| self.ratio_of_moments()),
            cohort_ratio: self.cohorts.ratio(),
            pair_ratio: f64::INFINITY,
        };
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

    /// What moments make of how far effects of items are shrunk: a one-way analysis of variance, of groups of unequal
    /// size.
    fn ratio_of_moments(&self) -> f64 {
        let (items, count) = (self.items.len() as f64, self.count);
        if items < 2.0 || count <= items {
            return f64::INFINITY;
        }
        let within = ((self.squares - self.between) / (count - items)).max(0.0);
        let between = (self.between - self.sum * self.sum / count) / (items - 1.0);
        let size = (count - self.counts_squared / count) / (items - 1.0);
        let of_items = (between - within) / size;
        match of_items > 0.0 && of_items > 1e-9 * within {
            true => within / of_items,
            false => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests;
