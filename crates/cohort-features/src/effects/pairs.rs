//! What did this user answer to this item before: to the same vector, and to others?
//!
//! An item is another question in another context: its vector is another one. So answers are kept for each vector of a
//! pair of user and item; what all of them had beyond what was expected is kept for the pair.
//!
//! ```text
//! sketch of a vector = ⟨x, w₁⟩ … ⟨x, w₄⟩ on a scale that is linear near 0 and logarithmic far away,  w at random
//! ```
//!
//! Vectors are the same where their sketches nearly are: the vector of an item with numbers changes a little whenever numbers
//! are measured anew, and numbers of a context need not come back to the last digit. Vectors with another word are further from
//! each other; of some hundred thousand that are, one has a sketch that is not.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use hashbrown::HashMap;

use super::sketch::Sketch;
use super::{Item, put, take, take_count, take_u64};

/// Pairs that are remembered: the newest.
const MAX_PAIRS: usize = 1 << 20;
/// Vectors of one pair to which answers are remembered: those answered to last.
const MAX_VECTORS: usize = 16;
/// The same of all pairs: beyond it the oldest pairs are forgotten.
const MAX_ALL: usize = 1 << 21;
/// What a pair had beyond what was expected is remembered over about so many answers: the policy gets better.
const MEMORY: f64 = 32.0;

/// A user's number and an item's hash.
pub(super) type PairKey = (u64, u64);

/// Answers of one user to one item.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pair {
    /// To each vector of it, the one that was answered to last at the end.
    answers: Vec<Answers>,
    /// What was left of rewards beyond what was expected in their context and of the item.
    pub left: Item,
    /// Of residuals that are among those of the user's cohort: how many, and their sum.
    pub counted: f64,
    pub residuals: f64,
}

/// Answers to one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Answers {
    vector: Sketch,
    pub count: f64,
    pub mean: f64,
}

/// Pairs of users and items.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pairs {
    by_key: HashMap<PairKey, Pair>,
    /// In the order in which they came.
    order: VecDeque<PairKey>,
    /// Items of the pairs of each user, in the order in which they came.
    of_users: HashMap<u64, Vec<u64>>,
    /// How many vectors all pairs have.
    vectors: usize,
}

impl Pair {
    /// Where answers to that vector are.
    fn find(&self, vector: Sketch) -> Option<usize> {
        let far = |known: &Answers| vector.distance(known.vector);
        let all = self.answers.iter().map(far).enumerate();
        let (at, _) = all.filter(|(_, far)| *far <= Sketch::SAME).min_by_key(|(_, far)| *far)?;
        Some(at)
    }

    /// Answers to that vector; nothing where there were none.
    pub fn answers_to(&self, vector: Sketch) -> Answers {
        self.find(vector).map_or_else(Answers::default, |at| self.answers[at])
    }

    /// One answer more. Says how many vectors it has more than before.
    fn answer(&mut self, vector: Sketch, reward: f64) -> usize {
        // Which vectors were answered to is not known: half of the next mean is theirs.
        for known in self.answers.iter_mut().filter(|known| known.vector == Sketch::ANY) {
            (known.vector, known.count) = (vector, known.count.min(1.0));
        }
        let at = self.find(vector);
        let mut known = match at {
            Some(at) => self.answers.remove(at),
            None => Answers { vector, ..Answers::default() },
        };
        known.count += 1.0;
        known.mean += (reward - known.mean) / known.count;
        let is_full = self.answers.len() >= MAX_VECTORS;
        if is_full {
            self.answers.remove(0);
        }
        self.answers.push(known);
        usize::from(at.is_none() && !is_full)
    }

    /// What is left of one reward more.
    fn leave(&mut self, left: f64) {
        let keep = if self.left.count >= MEMORY { (MEMORY - 1.0) / self.left.count } else { 1.0 };
        let Item { count, sum } = self.left;
        self.left = Item { count: count * keep + 1.0, sum: sum * keep + left };
    }
}

impl Pairs {
    pub fn get(&self, key: PairKey) -> Option<&Pair> {
        self.by_key.get(&key)
    }

    pub fn get_mut(&mut self, key: PairKey) -> Option<&mut Pair> {
        self.by_key.get_mut(&key)
    }

    /// Items that a user has answered to.
    pub fn items_of(&self, user: u64) -> &[u64] {
        self.of_users.get(&user).map_or(&[], |items| items)
    }

    /// One answer more, with what is left of it beyond what was expected.
    pub fn learn(&mut self, key: PairKey, vector: Sketch, reward: f64, left: f64) {
        if !self.by_key.contains_key(&key) {
            self.make_room(MAX_PAIRS - 1, MAX_ALL);
            self.insert(key, Pair::default());
        }
        if let Some(pair) = self.by_key.get_mut(&key) {
            self.vectors += pair.answer(vector, reward);
            pair.leave(left);
        }
        self.make_room(MAX_PAIRS, MAX_ALL);
    }

    fn insert(&mut self, key: PairKey, pair: Pair) {
        self.order.push_back(key);
        self.of_users.entry(key.0).or_default().push(key.1);
        self.vectors += pair.answers.len();
        self.by_key.insert(key, pair);
    }

    /// Forgets the oldest pairs where there are more.
    fn make_room(&mut self, pairs: usize, vectors: usize) {
        while self.by_key.len() > pairs || self.vectors > vectors {
            let Some((user, item)) = self.order.pop_front() else { return };
            if let Some(gone) = self.by_key.remove(&(user, item)) {
                self.vectors -= gone.answers.len();
            }
            if let Some(items) = self.of_users.get_mut(&user) {
                items.retain(|known| *known != item);
                if items.is_empty() {
                    self.of_users.remove(&user);
                }
            }
        }
    }

    /// Forgets all of a user.
    pub fn forget(&mut self, user: u64) {
        let Some(items) = self.of_users.remove(&user) else { return };
        for item in items {
            if let Some(gone) = self.by_key.remove(&(user, item)) {
                self.vectors -= gone.answers.len();
            }
        }
        self.order.retain(|key| key.0 != user);
    }

    fn in_order(&self) -> impl Iterator<Item = (&PairKey, &Pair)> {
        self.order.iter().filter_map(|key| Some((key, self.by_key.get(key)?)))
    }

    /// Writes which pairs there are, with all answers of each.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&(self.order.len() as u64).to_le_bytes())?;
        for (key, pair) in self.in_order() {
            let count: f64 = pair.answers.iter().map(|known| known.count).sum();
            let sum: f64 = pair.answers.iter().map(|known| known.count * known.mean).sum();
            out.write_all(&key.0.to_le_bytes())?;
            out.write_all(&key.1.to_le_bytes())?;
            put(out, &[count, if count > 0.0 { sum / count } else { 0.0 }])?;
        }
        Ok(())
    }

    /// Reads what [`Pairs::save`] wrote: until [`Pairs::load_vectors`] tells them, vectors are not known.
    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let mut pairs = Self::default();
        for _ in 0..take_count(from, MAX_PAIRS)? {
            let key = (take_u64(from)?, take_u64(from)?);
            let [count, mean] = take(from)?;
            let answers = vec![Answers { vector: Sketch::ANY, count, mean }];
            pairs.insert(key, Pair { answers, ..Pair::default() });
        }
        Ok(pairs)
    }

    /// Writes what is known of every vector, and beyond what was expected.
    pub fn save_vectors(&self, out: &mut dyn Write) -> io::Result<()> {
        for (_, pair) in self.in_order() {
            put(out, &[pair.left.count, pair.left.sum])?;
            out.write_all(&(pair.answers.len() as u64).to_le_bytes())?;
            for Answers { vector, count, mean } in &pair.answers {
                out.write_all(&vector.bits().to_le_bytes())?;
                put(out, &[*count, *mean])?;
            }
        }
        Ok(())
    }

    /// Reads what [`Pairs::save_vectors`] wrote, after [`Pairs::load`].
    pub fn load_vectors(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.vectors = 0;
        for key in &self.order {
            let Some(pair) = self.by_key.get_mut(key) else { continue };
            let [count, sum] = take(from)?;
            pair.left = Item { count, sum };
            pair.answers.clear();
            for _ in 0..take_count(from, MAX_VECTORS)? {
                let vector = Sketch::of_bits(take_u64(from)?);
                let [count, mean] = take(from)?;
                pair.answers.push(Answers { vector, count, mean });
            }
            self.vectors += pair.answers.len();
        }
        Ok(())
    }

    /// Writes what pairs have given to cohorts.
    pub fn save_counted(&self, out: &mut dyn Write) -> io::Result<()> {
        self.in_order().try_for_each(|(_, pair)| put(out, &[pair.counted, pair.residuals]))
    }

    /// Reads what [`Pairs::save_counted`] wrote, after [`Pairs::load`].
    pub fn load_counted(&mut self, from: &mut dyn Read) -> io::Result<()> {
        for key in &self.order {
            let [counted, residuals] = take(from)?;
            if let Some(pair) = self.by_key.get_mut(key) {
                (pair.counted, pair.residuals) = (counted, residuals);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn keys(&self) -> impl Iterator<Item = &PairKey> {
        self.order.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_by_vector_and_the_oldest_are_forgotten() {
        let mut pairs = Pairs::default();
        let vector = |at: usize| Sketch::new(&[1.0, at as f64]);
        for step in 0..40 {
            pairs.learn((0, 1), vector(step % 20), 1.0, 0.0);
            pairs.learn((1, step as u64), vector(0), 1.0, 0.0);
        }
        assert_eq!(pairs.vectors, MAX_VECTORS + 40);
        let pair = pairs.get((0, 1)).unwrap();
        assert_eq!(
            (pair.answers_to(vector(19)).count, pair.answers_to(vector(2)).count),
            (1.0, 0.0)
        );
        pairs.make_room(3, MAX_ALL);
        assert_eq!((pairs.by_key.len(), pairs.items_of(1).len(), pairs.vectors), (3, 3, 3));
        pairs.forget(1);
        assert_eq!((pairs.by_key.len(), pairs.order.len(), pairs.vectors), (0, 0, 0));
    }

    /// A snapshot of an earlier version has one mean of a pair: it counts until something is known of its vectors.
    #[test]
    fn answers_of_an_earlier_version_count_until_there_is_a_new_one() {
        let vector = |at: u32| Sketch::new(&[f64::from(at)]);
        let mut pairs = Pairs::default();
        (0..9).for_each(|at| pairs.learn((0, 1), vector(at), 1.0, 0.0));
        let mut bytes = Vec::new();
        pairs.save(&mut bytes).unwrap();
        let mut old = Pairs::load(&mut bytes.as_slice()).unwrap();
        assert_eq!(old.get((0, 1)).unwrap().answers_to(vector(7)).mean, 1.0);
        old.learn((0, 1), vector(7), 0.0, 0.0);
        let pair = old.get((0, 1)).unwrap();
        assert_eq!((pair.answers_to(vector(7)).mean, pair.answers_to(vector(8)).count), (0.5, 0.0));
    }
}
