//! The rewards of users who have few, one row (x, y) each, in order of arrival.
//!
//! Rows of all users are in one array without holes: where rows are removed, the last ones of the array take their
//! places, so that users who go take their memory with them. The rows of a user are linked in a circle, each to the next
//! one and the last to the first, so that a row takes its numbers, one link and its slot, and no more.

use super::index::NONE;
use crate::pieces::Pieces;

/// The rows of one user, a circular list: its last row, and its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowRing {
    pub last: u32,
    pub rows: u32,
}

/// The rows of all users.
#[derive(Clone, Debug)]
pub struct RowPool {
    /// x, y.
    rows: Pieces<f64>,
    /// The row after it.
    links: Pieces<u32>,
    /// The slot that it is of.
    slots: Pieces<u32>,
    /// What every row counts, where that does not follow from its age.
    weights: Option<Pieces<f64>>,
}

/// The rows of one user in order of arrival: x, y (relative to the ledger's origin), and what the
/// row counts.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    pool: &'a RowPool,
    at: u32,
    left: usize,
    memory: f64,
}

impl<'a> Iterator for Rows<'a> {
    type Item = (&'a [f64], f64, f64);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.at = self.pool.links.value(self.at as usize);
        let (y, x) = self.pool.rows.get(self.at as usize).split_last()?;
        let weight = match &self.pool.weights {
            Some(weights) => weights.value(self.at as usize),
            None => power(self.memory, self.left),
        };
        Some((x, *y, weight))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Rows<'_> {}

/// base^exponent, by the same products on every machine.
fn power(mut base: f64, mut exponent: usize) -> f64 {
    let mut power = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power *= base;
        }
        base *= base;
        exponent /= 2;
    }
    power
}

impl RowPool {
    /// For contexts of dimension d.
    pub fn new(dim: usize) -> Self {
        let [links, slots] = [Pieces::new(1), Pieces::new(1)];
        Self { rows: Pieces::new(dim + 1), links, slots, weights: None }
    }

    /// Whether weights are kept row by row.
    pub fn is_weighted(&self) -> bool {
        self.weights.is_some()
    }

    /// The rows of a user.
    pub fn of(&self, circle: RowRing, memory: f64) -> Rows<'_> {
        Rows { pool: self, at: circle.last, left: circle.rows as usize, memory }
    }

    /// One more row for the user of a slot (`None` if it is the first), of weight 1.
    pub fn append(&mut self, slot: usize, circle: Option<RowRing>, x: &[f64], y: f64) -> RowRing {
        let new = u32::try_from(self.links.len()).ok().filter(|row| *row != NONE);
        let new = new.expect("less than 2^32 rows");
        let mut numbers = x.to_vec();
        numbers.push(y);
        self.rows.push(&numbers);
        self.slots.push(&[slot as u32]);
        if let Some(weights) = &mut self.weights {
            weights.push(&[1.0]);
        }
        match circle {
            None => {
                self.links.push(&[new]);
                RowRing { last: new, rows: 1 }
            }
            Some(RowRing { last, rows }) => {
                let first = self.links.value(last as usize);
                self.links.push(&[first]);
                self.links.set(last as usize, new);
                RowRing { last: new, rows: rows + 1 }
            }
        }
    }

    /// The places of a user's rows, in order of arrival.
    fn places(&self, circle: RowRing) -> Vec<u32> {
        let mut at = circle.last;
        let next = |_| {
            at = self.links.value(at as usize);
            at
        };
        (0..circle.rows).map(next).collect()
    }

    /// Removes the rows of a user. Others take their places: `moved` is told the slot of each, and where its last row
    /// was and is.
    pub fn release(&mut self, circle: RowRing, mut moved: impl FnMut(u32, [u32; 2])) {
        let mut places = self.places(circle);
        // From the end on, so that none that is to be removed is ever moved.
        places.sort_unstable_by(|a, b| b.cmp(a));
        for place in places {
            let last = (self.links.len() - 1) as u32;
            if place != last {
                let mut before = last;
                while self.links.value(before as usize) != last {
                    before = self.links.value(before as usize);
                }
                self.links.set(before as usize, place);
                moved(self.slots.value(last as usize), [last, place]);
            }
            self.rows.swap_remove(place as usize);
            self.links.swap_remove(place as usize);
            self.slots.swap_remove(place as usize);
            if let Some(weights) = &mut self.weights {
                weights.swap_remove(place as usize);
            }
        }
    }

    /// Gives the rows of a user to another slot.
    pub fn give_to(&mut self, circle: RowRing, slot: usize) {
        for place in self.places(circle) {
            self.slots.set(place as usize, slot as u32);
        }
    }

    /// Keeps weights row by row from now on; as yet they follow from ages.
    pub fn keep_weights(&mut self, circles: impl Iterator<Item = RowRing>, memory: f64) {
        if self.weights.is_some() {
            return;
        }
        let mut weights = Pieces::new(1);
        for _ in 0..self.links.len() {
            weights.push(&[1.0]);
        }
        for circle in circles {
            let mut rows = self.of(circle, memory);
            while let Some((_, _, weight)) = rows.next() {
                weights.set(rows.at as usize, weight);
            }
        }
        self.weights = Some(weights);
    }

    /// Multiplies the weights of a user's rows, where they are kept row by row.
    pub fn weigh(&mut self, circle: RowRing, factor: f64) {
        let Some(weights) = self.weights.as_mut().filter(|_| factor != 1.0) else { return };
        let mut at = circle.last;
        for _ in 0..circle.rows {
            at = self.links.value(at as usize);
            weights.get_mut(at as usize)[0] *= factor;
        }
    }

    /// Sets the weights of a user's rows, where they are kept row by row.
    pub fn set_weights(&mut self, circle: RowRing, values: &[f64]) {
        let Some(weights) = &mut self.weights else { return };
        let mut at = circle.last;
        for weight in &values[..circle.rows as usize] {
            at = self.links.value(at as usize);
            weights.set(at as usize, *weight);
        }
    }

    /// Bytes taken.
    pub fn memory_bytes(&self) -> usize {
        let weights = self.weights.as_ref().map_or(0, Pieces::memory_bytes);
        self.rows.memory_bytes() + self.links.memory_bytes() + self.slots.memory_bytes() + weights
    }

    /// How many pieces are not shared with another pool.
    #[cfg(test)]
    pub fn own(&self, other: &Self) -> usize {
        self.rows.own(&other.rows) + self.links.own(&other.links) + self.slots.own(&other.slots)
    }
}
