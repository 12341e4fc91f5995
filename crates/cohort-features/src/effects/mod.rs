//! What features do not say: how much an item is liked beyond what they foretell, by everybody, by a cohort, and by the
//! very user who has seen it.
//!
//! ```text
//! reward = what the policy expects of the item's vector for the user
//!        + a_i       of the item, for everybody:              N(0, τ²)
//!        + b_ci      of the item, for the user's cohort:      see `cohorts`
//!        + g_ui      of this item for this user:              see `pairs`
//!        + h_uix     of the same in this very context x:      N(0, s²)
//!        + noise                                              σ²
//! ```
//!
//! How much of each there is comes from what was seen: how far effects of items and of pairs are shrunk from what would
//! have foretold answers best (see `shrinkage`), σ² from how much a user's answers to one vector differ, s² from what is left
//! of the surprise at first answers to a vector. An effect is the mean of its residuals, shrunk by how many there are;
//! without evidence it is nothing, so a new item starts from its features alone.
//!
//! An item in another context has another vector, and a user may answer otherwise. So g_ui is the mean of what was left
//! of rewards beyond what was expected there and then; where every answer of a pair was to one vector there is no telling it
//! from h_uix, and it is nothing. h_uix is of answers to the same vector: their mean reward is what the next will be, whatever
//! the policy makes of it.
//!
//! Every reward changes a handful of sums, and a score costs some look-ups an item. The policy is taught what is left of
//! a reward without the item's effect ([`ItemEffects::learn`] tells it): else users' coefficients would
//! have to account for items that are simply better liked. That effect is the one which all rewards before this one tell:
//! with this one among them, a part of what the user says of features would be taken for the item's.
//!
//! To the policy every answer is news of the vector, with h_uix as part of the noise. But h_uix stays the same
//! when the user answers to the same vector again: n answers say as much of features as one with the variance m² + σ²/n,
//! that is as n(1 + ρ)/(n + ρ) answers to different vectors, ρ = σ²/m². So the policy is taught an answer only
//! when that number reaches the next whole one, where ρ is below 1: a larger one may be chance. A user who always likes
//! what it liked before does not make its features look better and better, and uncertainty about everything else stays what
//! it is. m² is by how much the policy misses all answers now, beyond chance: at first answers it may have known little, and where
//! only few vectors are ever offered there would be no others to tell that it has learned since. Coefficients can account
//! for as many vectors as there are coefficients: m² is taken to be smaller while there were few.

mod cohorts;
mod pairs;
mod shrinkage;
mod sketch;

use std::io::{self, Read, Write};

use hashbrown::HashMap;

use cohort::Score;

use cohorts::CohortEffects;
use pairs::Pairs;
use shrinkage::Shrinkage;
use sketch::Sketch;

/// Items whose effect is known; further ones have none until one of these is forgotten.
const MAX_ITEMS: usize = 1 << 20;
/// Surprises are averaged over about so many rewards: the policy gets better.
const MEMORY: f64 = 2000.0;
/// The same of how far the policy is off: where it has learned that is to be known soon.
const MEMORY_OF_MISSES: f64 = 200.0;
/// Vectors for every coefficient that stand for features which account for all.
const TRUST: f64 = 4.0;
/// Rewards that stand for not knowing how much answers to one item differ.
const DOUBT: f64 = 10.0;

/// Residuals of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Item {
    count: f64,
    sum: f64,
}

/// An item as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The hash of its id.
    pub item: u64,
    /// Its vector in the context in which it is shown.
    pub vector: &'a [f64],
}

/// Effects of items, learned across users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemEffects {
    items: HashMap<u64, Item>,
    pairs: Pairs,
    cohorts: CohortEffects,
    /// Of effects of items …
    shrinkage: Shrinkage,
    /// … and of what pairs have in all contexts.
    of_pairs: Shrinkage,
    /// Of all residuals: how many, their sum, the sum of their squares.
    count: f64,
    sum: f64,
    squares: f64,
    /// Σ sum²/count and Σ count² over items.
    between: f64,
    counts_squared: f64,
    /// Of answers to a vector by a user who had answered to it before: how many, and their squared deviations.
    repeats: f64,
    repeat_squares: f64,
    /// The mean square of first surprises, of late, and how many there were.
    surprise: f64,
    surprises: f64,
    /// The mean square of what the policy and the effects of items miss, of late, and how many answers there were.
    miss: f64,
    misses: f64,
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
    /// Of what is left of one answer of a pair, divided by that of what it has in all contexts.
    pair_ratio: f64,
    /// Of an answer to one vector by one user, divided by that of what is not known of it before.
    same_ratio: f64,
    /// Of the same, divided by that of what the policy misses.
    taught_ratio: f64,
}

/// What is known of an item for a user.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effect {
    /// Of the item for everybody, for the user's cohort and for the user.
    of_item: f64,
    /// What is to be added to the reward that is expected of features.
    whole: f64,
    /// How much is known of this very vector for this user: from 0 (nothing) to 1 (all).
    known: f64,
}

impl Variances {
    /// As how many answers to different vectors so many to one count, rounded down; as they are where a user's answers
    /// to one vector differ more than the policy is off.
    fn worth(&self, answers: f64) -> f64 {
        match self.taught_ratio {
            ratio if ratio < 1.0 && answers > 0.0 => {
                // What is whole but for rounding is whole.
                (answers * (1.0 + ratio) / (answers + ratio) + 1e-9).floor()
            }
            _ => answers,
        }
    }
}

impl ItemEffects {
    /// Adds effects to what a policy thinks of items for a user.
    pub fn adjust<'a>(
        &self,
        user: usize,
        items: impl IntoIterator<Item = Shown<'a>>,
        scores: &mut [Score],
    ) {
        let variances = self.variances();
        for (shown, score) in items.into_iter().zip(scores) {
            let effect = self.effect(&variances, user as u64, shown, score.expected);
            score.expected += effect.whole;
            score.bonus *= (1.0 - effect.known).sqrt();
        }
    }

    /// What is added for items that a user has not answered to, by hashes of ids.
    pub fn shifts(&self, user: usize, items: &[u64]) -> Vec<f32> {
        let variances = self.variances();
        let shift = |item: &u64| self.foretold(&variances, user as u64, *item) as f32;
        items.iter().map(shift).collect()
    }

    /// Hashes of the items that a user has answered to, as far as they are remembered.
    pub fn items_of(&self, user: usize) -> &[u64] {
        self.pairs.items_of(user as u64)
    }

    /// What there is beyond the reward that is expected of an item's vector for a user.
    fn effect(&self, variances: &Variances, user: u64, shown: Shown, expected: f64) -> Effect {
        let mut of_item = self.foretold(variances, user, shown.item);
        let Some(pair) = self.pairs.get((user, shown.item)) else {
            return Effect { of_item, whole: of_item, known: 0.0 };
        };
        if variances.pair_ratio.is_finite() {
            of_item += pair.left.sum / (pair.left.count + variances.pair_ratio);
        }
        let answers = pair.answers_to(Sketch::new(shown.vector));
        if answers.count == 0.0 || !variances.same_ratio.is_finite() {
            return Effect { of_item, whole: of_item, known: 0.0 };
        }
        let known = answers.count / (answers.count + variances.same_ratio);
        let whole = of_item + known * (answers.mean - expected - of_item);
        Effect { of_item, whole, known }
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
    /// cohort, where it has one. Returns what the policy is to be taught: the reward without the item's effect as it was
    /// known before, or nothing where the user's answers to this vector before said all that this one says of features.
    pub fn learn(
        &mut self,
        user: usize,
        cohort: Option<usize>,
        shown: Shown,
        expected: f64,
        reward: f64,
    ) -> Option<f64> {
        let (residual, user, item) = (reward - expected, user as u64, shown.item);
        let (key, vector) = ((user, item), Sketch::new(shown.vector));
        let variances = self.variances();
        let foretold = self.foretold(&variances, user, item);
        let of_item = self.effect(&variances, user, shown, expected).of_item;
        let left = residual - foretold;
        let pair = self.pairs.get(key);
        let before = pair.map(|pair| pair.answers_to(vector)).unwrap_or_default();
        if before.count > 0.0 {
            let step = reward - before.mean;
            self.repeats += 1.0;
            self.repeat_squares += step * step * before.count / (before.count + 1.0);
        } else {
            follow(&mut self.surprise, &mut self.surprises, MEMORY, residual - of_item);
            if let Some(pair) = pair {
                self.of_pairs.judge(&pair.left, 0.0, left);
            }
        }
        follow(&mut self.miss, &mut self.misses, MEMORY_OF_MISSES, left);
        self.learn_item(item, residual);
        self.pairs.learn(key, vector, reward, left);
        if let Some(cohort) = cohort {
            self.learn_cohort(user, cohort as u64, item, residual);
        }
        let mut variances = self.variances();
        variances.taught_ratio *= 1.0 + TRUST * shown.vector.len() as f64 / self.surprises;
        let answers = before.count + 1.0;
        let is_news = variances.worth(answers) > variances.worth(answers - 1.0);
        is_news.then_some(reward - foretold)
    }

    fn learn_cohort(&mut self, user: u64, cohort: u64, item: u64, residual: f64) {
        if let Some(before) = self.cohorts.place(user, cohort) {
            for known in self.pairs.items_of(user) {
                if let Some(pair) = self.pairs.get((user, *known)).filter(|pair| pair.counted > 0.0)
                {
                    self.cohorts.shift(*known, before, cohort, pair.counted, pair.residuals);
                }
            }
        }
        self.cohorts.learn(cohort, item, residual);
        if let Some(pair) = self.pairs.get_mut((user, item)) {
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

    /// Forgets what a user answered; what it had to say of items for everybody stays.
    pub fn forget(&mut self, user: usize) {
        self.cohorts.forget(user as u64);
        self.pairs.forget(user as u64);
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
            pair_ratio: self.of_pairs.best(0.0).unwrap_or(f64::INFINITY),
            same_ratio: f64::INFINITY,
            taught_ratio: f64::INFINITY,
        };
        if self.repeats > 0.0 && self.surprise > 0.0 {
            // While few answered twice, answers are taken to differ as much as surprises do.
            let noise = (self.repeat_squares + DOUBT * self.surprise) / (self.repeats + DOUBT);
            let ratio = |whole: f64| match whole - noise {
                unknown if unknown > 1e-9 * noise => noise / unknown,
                _ => f64::INFINITY,
            };
            found.same_ratio = ratio(self.surprise);
            // What an earlier version kept does not tell how far the policy is off.
            found.taught_ratio = ratio(if self.misses > 0.0 { self.miss } else { self.surprise });
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
        self.pairs.save(out)?;
        put(out, &self.sums())
    }

    /// Whether cohorts have effects of their own.
    pub fn has_cohorts(&self) -> bool {
        !self.cohorts.is_empty()
    }

    /// Writes what was learned of cohorts.
    pub fn save_cohorts(&self, out: &mut dyn Write) -> io::Result<()> {
        self.pairs.save_counted(out)?;
        self.cohorts.save(out)
    }

    /// Whether it is known how far effects are shrunk.
    pub fn has_shrinkage(&self) -> bool {
        !self.shrinkage.is_empty()
    }

    /// Writes that.
    pub fn save_shrinkage(&self, out: &mut dyn Write) -> io::Result<()> {
        self.shrinkage.save(out)
    }

    /// Reads what [`ItemEffects::save_shrinkage`] wrote, after all else.
    pub fn load_shrinkage(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.shrinkage = Shrinkage::load(from)?;
        Ok(())
    }

    /// Whether answers are known by the vectors that were shown.
    pub fn has_vectors(&self) -> bool {
        self.misses > 0.0
    }

    /// Writes that.
    pub fn save_vectors(&self, out: &mut dyn Write) -> io::Result<()> {
        put(out, &[self.miss, self.misses])?;
        self.of_pairs.save(out)?;
        self.pairs.save_vectors(out)
    }

    /// Reads what [`ItemEffects::save_vectors`] wrote, after all else.
    pub fn load_vectors(&mut self, from: &mut dyn Read) -> io::Result<()> {
        [self.miss, self.misses] = take(from)?;
        self.of_pairs = Shrinkage::load(from)?;
        self.pairs.load_vectors(from)
    }

    /// Reads what [`ItemEffects::save_cohorts`] wrote, after all else.
    pub fn load_cohorts(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.pairs.load_counted(from)?;
        self.cohorts = CohortEffects::load(from)?;
        Ok(())
    }

    /// Reads what [`ItemEffects::save`] wrote.
    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let mut effects = Self::default();
        for _ in 0..take_count(from, MAX_ITEMS)? {
            let key = take_u64(from)?;
            let [count, sum] = take(from)?;
            effects.items.insert(key, Item { count, sum });
        }
        effects.pairs = Pairs::load(from)?;
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

/// A running mean of squares over about so many of the newest.
fn follow(mean: &mut f64, count: &mut f64, memory: f64, number: f64) {
    *count += 1.0;
    *mean += (number * number - *mean) / count.min(memory);
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
mod tests;
