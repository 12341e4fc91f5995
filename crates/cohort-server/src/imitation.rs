//! What does whoever decides instead of the policy choose? A linear score of candidates, learned from
//! comparisons of what was shown with what was not; it knows nothing of rewards.
//!
//! ```text
//! s(item) = Σᵢ wᵢ·xᵢ/mᵢ + v[hash(item)],           mᵢ the largest |xᵢ| so far
//! after (shown, rival):  g = min(1, max(0, 1 − (s(shown) − s(rival))))       (squared hinge, clipped)
//!                        wᵢ ← wᵢ + g·zᵢ/√Gᵢ,  Gᵢ ← Gᵢ + (g·zᵢ)²,  z = x(shown) − x(rival)   (AdaGrad)
//! ```
//!
//! The rival is the candidate that is liked best of those that were not shown. Only sums, products and roots:
//! the same events give the same bits on every machine.

use std::io::{Read, Write};

use cohort_features::bytes::name_hash;

use crate::bytes::{Malformed, Put, Take};

/// Places for what features do not say of an item; items share them by their hashes.
const ITEMS: usize = 256;

/// A candidate that was not shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// The item.
    pub item: String,
    /// Its features.
    pub context: Box<[f64]>,
}

/// A model of the choices of somebody else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imitator {
    /// Comparisons that it learned from.
    seen: u64,
    /// Of features, then of items.
    weights: Vec<f64>,
    /// Sums of squared gradients.
    squares: Vec<f64>,
    /// The largest of every feature so far.
    scales: Vec<f64>,
}

impl Imitator {
    /// How many comparisons it learned from.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How much a candidate is like what was shown.
    pub fn score(&self, item: &str, row: &[f64]) -> f64 {
        let of_features = row.iter().zip(&self.scales).zip(&self.weights);
        let of_features = of_features.map(|((x, scale), weight)| weight * scaled(*x, *scale));
        of_features.sum::<f64>() + self.weights.get(row.len() + place(item)).unwrap_or(&0.0)
    }

    /// The first candidate was shown, the second was not.
    pub fn learn(&mut self, (item, row): (&str, &[f64]), rival: &Rival) {
        let dim = row.len();
        if self.scales.len() != dim {
            let numbers = vec![0.0; dim + ITEMS];
            let scales = vec![0.0; dim];
            *self = Self { seen: 0, weights: numbers.clone(), squares: numbers, scales };
        }
        self.seen += 1;
        for (scale, (a, b)) in self.scales.iter_mut().zip(row.iter().zip(&rival.context)) {
            *scale = scale.max(a.abs()).max(b.abs());
        }
        let margin = self.score(item, row) - self.score(&rival.item, &rival.context);
        let gradient = (1.0 - margin).clamp(0.0, 1.0);
        for at in 0..dim {
            let scale = self.scales[at];
            self.step(at, gradient * (scaled(row[at], scale) - scaled(rival.context[at], scale)));
        }
        let (shown, other) = (place(item), place(&rival.item));
        if shown != other {
            self.step(dim + shown, gradient);
            self.step(dim + other, -gradient);
        }
    }

    fn step(&mut self, at: usize, gradient: f64) {
        if gradient != 0.0 {
            self.squares[at] += gradient * gradient;
            self.weights[at] += gradient / self.squares[at].sqrt();
        }
    }

    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.put_u64(self.seen)?;
        out.put_numbers(&self.scales)?;
        out.put_numbers(&self.weights)?;
        out.put_numbers(&self.squares)
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let seen = from.take_u64()?;
        let (scales, weights) = (from.take_numbers()?, from.take_numbers()?);
        let squares = from.take_numbers()?;
        match weights.len() == scales.len() + ITEMS && squares.len() == weights.len() {
            true => Ok(Self { seen, weights, squares, scales }),
            false => {
                Err(Malformed::odd("a model of choices that has not as many numbers as it should"))
            }
        }
    }
}

fn scaled(x: f64, scale: f64) -> f64 {
    if scale > 0.0 { x / scale } else { 0.0 }
}

fn place(item: &str) -> usize {
    (name_hash(item) % ITEMS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates of a turn, drawn by a fixed recurrence.
    fn candidates(turn: u64, dim: u64, size: f64) -> Vec<(String, Vec<f64>)> {
        let number = |item: u64, at: u64| {
            let mixed = (turn * 31 + item * 17 + at * 7 + 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            size * ((mixed >> 40) as f64 / f64::from(1 << 24) - 0.5)
        };
        let row = |item| {
            (format!("i{}", (item + turn) % 4), (0..dim).map(|at| number(item, at)).collect())
        };
        (0..4).map(row).collect()
    }

    /// How often it is right in the last half of 300 turns.
    fn share(dim: u64, size: f64, rule: impl Fn(&[(String, Vec<f64>)]) -> usize) -> f64 {
        let (mut imitator, mut right) = (Imitator::default(), 0);
        for turn in 0..300 {
            let offer = candidates(turn, dim, size);
            let shown = rule(&offer);
            let mut order: Vec<usize> = (0..4).collect();
            let score = |at: &usize| imitator.score(&offer[*at].0, &offer[*at].1);
            order.sort_by(|a, b| score(b).total_cmp(&score(a)));
            right += usize::from(turn >= 150 && order[0] == shown);
            let rival = order.into_iter().find(|at| *at != shown).unwrap();
            let (item, row) = offer[rival].clone();
            let rival = Rival { item, context: row.into() };
            imitator.learn((&offer[shown].0, &offer[shown].1), &rival);
        }
        let mut bytes = Vec::new();
        imitator.write(&mut bytes).unwrap();
        assert_eq!(Imitator::read(&mut bytes.as_slice()).unwrap(), imitator);
        assert!(Imitator::read(&mut &bytes[..bytes.len() - 1]).is_err());
        right as f64 / 150.0
    }

    #[test]
    fn a_rule_is_learned_whatever_the_size_of_features() {
        let largest = |offer: &[(String, Vec<f64>)]| {
            (0..4).max_by(|a, b| offer[*a].1[0].total_cmp(&offer[*b].1[0])).unwrap()
        };
        let of_two = |offer: &[(String, Vec<f64>)]| {
            let value = |at: usize| offer[at].1[1] - 2.0 * offer[at].1[2];
            (0..4).max_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap()
        };
        let one_item =
            |offer: &[(String, Vec<f64>)]| offer.iter().position(|one| one.0 == "i2").unwrap();
        for size in [1e-3, 1.0, 1e6] {
            for found in
                [share(4, size, largest), share(16, size, of_two), share(4, size, one_item)]
            {
                assert!(found > 0.8, "{found} at size {size}");
            }
        }
    }
}
