//! What an item is liked beyond its features by one cohort, and not by all.
//!
//! ```text
//! residual of a user of cohort c for item i = a_i + b_ci + noise,   b_ci ~ N(0, τ²)
//! ```
//!
//! τ² is estimated by moments, as in a nested analysis of variance: how much the means of cohorts differ within an item, beyond
//! chance. Cohorts that do not differ have no effects of their own.
//!
//! A user belongs to the cohort that it most probably had when it last answered. If that is another one than before, what the
//! user said goes with it, as far as it is remembered.

use std::io::{self, Read, Write};

use hashbrown::HashMap;

use super::Item;
use super::saved::{put, take, take_count, take_u64};

/// Cells that are kept: further ones have no effect.
const MAX_CELLS: usize = 1 << 20;

/// A cohort's number and an item's hash.
type Cell = (u64, u64);

/// All cohorts' residuals of one item: how many, their sum, and the sum of squared counts of cohorts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ItemTotals {
    count: f64,
    sum: f64,
    counts_squared: f64,
}

/// Effects of items for cohorts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CohortEffects {
    cells: HashMap<Cell, Item>,
    items: HashMap<u64, ItemTotals>,
    /// The cohort that each user was in when it last answered.
    of_users: HashMap<u64, u64>,
    count: f64,
    squares: f64,
    /// Σ sum²/count over cells and over items, Σ over items of Σ count²/count.
    between_cells: f64,
    between_items: f64,
    unevenness: f64,
}

impl CohortEffects {
    pub fn is_empty(&self) -> bool {
        self.of_users.is_empty()
    }

    /// The user's cohort, and the one before if that was another.
    pub fn place(&mut self, user: u64, cohort: u64) -> Option<u64> {
        self.of_users.insert(user, cohort).filter(|before| *before != cohort)
    }

    /// One residual more.
    pub fn learn(&mut self, cohort: u64, item: u64, residual: f64) {
        self.change((cohort, item), 1.0, residual, residual * residual);
    }

    /// What a user said of an item goes from one cohort to another.
    pub fn shift(&mut self, item: u64, from: u64, to: u64, count: f64, sum: f64) {
        if self.cells.get(&(from, item)).is_some_and(|cell| cell.count >= count) {
            self.change((from, item), -count, -sum, 0.0);
            self.change((to, item), count, sum, 0.0);
        }
    }

    fn change(&mut self, key: Cell, count: f64, sum: f64, squares: f64) {
        if !self.cells.contains_key(&key) && self.cells.len() >= MAX_CELLS {
            return;
        }
        let cell = self.cells.entry(key).or_default();
        let item = self.items.entry(key.1).or_default();
        let mean_square = |count: f64, sum: f64| if count > 0.0 { sum * sum / count } else { 0.0 };
        let uneven = |item: &ItemTotals| {
            if item.count > 0.0 { item.counts_squared / item.count } else { 0.0 }
        };
        self.between_cells -= mean_square(cell.count, cell.sum);
        self.between_items -= mean_square(item.count, item.sum);
        self.unevenness -= uneven(item);
        item.counts_squared += count * (2.0 * cell.count + count);
        (cell.count, cell.sum) = (cell.count + count, cell.sum + sum);
        (item.count, item.sum) = (item.count + count, item.sum + sum);
        self.between_cells += mean_square(cell.count, cell.sum);
        self.between_items += mean_square(item.count, item.sum);
        self.unevenness += uneven(item);
        self.count += count;
        self.squares += squares;
        if cell.count <= 0.0 {
            self.cells.remove(&key);
        }
        if self.items.get(&key.1).is_some_and(|item| item.count <= 0.0) {
            self.items.remove(&key.1);
        }
    }

    /// The variance of a residual over that of effects; infinite where cohorts do not differ.
    pub fn ratio(&self) -> f64 {
        let (cells, items) = (self.cells.len() as f64, self.items.len() as f64);
        if cells <= items || self.count <= cells {
            return f64::INFINITY;
        }
        let within = ((self.squares - self.between_cells) / (self.count - cells)).max(0.0);
        let between = (self.between_cells - self.between_items) / (cells - items);
        let size = (self.count - self.unevenness) / (cells - items);
        let of_cells = (between - within) / size;
        match of_cells > 0.0 && of_cells > 1e-9 * within {
            true => within / of_cells,
            false => f64::INFINITY,
        }
    }

    /// What to add for a user, beyond what is expected of the item's residuals for everybody.
    pub fn effect(&self, user: u64, item: u64, ratio: f64, expected: f64) -> f64 {
        if !ratio.is_finite() {
            return 0.0;
        }
        let cell = self.of_users.get(&user).and_then(|cohort| self.cells.get(&(*cohort, item)));
        cell.map_or(0.0, |cell| (cell.sum - cell.count * expected) / (cell.count + ratio))
    }

    /// Forgets who a user was; what it said stays.
    pub fn forget(&mut self, user: u64) {
        self.of_users.remove(&user);
    }

    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut users: Vec<(u64, u64)> = self.of_users.iter().map(|(a, b)| (*a, *b)).collect();
        users.sort_unstable();
        out.write_all(&(users.len() as u64).to_le_bytes())?;
        for (user, cohort) in users {
            out.write_all(&user.to_le_bytes())?;
            out.write_all(&cohort.to_le_bytes())?;
        }
        let mut cells: Vec<(Cell, Item)> =
            self.cells.iter().map(|(key, one)| (*key, *one)).collect();
        cells.sort_unstable_by_key(|(key, _)| *key);
        out.write_all(&(cells.len() as u64).to_le_bytes())?;
        for ((cohort, item), Item { count, sum }) in cells {
            out.write_all(&cohort.to_le_bytes())?;
            out.write_all(&item.to_le_bytes())?;
            put(out, &[count, sum])?;
        }
        let mut items: Vec<(u64, ItemTotals)> = self.items.iter().map(|(a, b)| (*a, *b)).collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        out.write_all(&(items.len() as u64).to_le_bytes())?;
        for (key, ItemTotals { count, sum, counts_squared }) in items {
            out.write_all(&key.to_le_bytes())?;
            put(out, &[count, sum, counts_squared])?;
        }
        put(
            out,
            &[self.count, self.squares, self.between_cells, self.between_items, self.unevenness],
        )
    }

    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let mut effects = Self::default();
        for _ in 0..take_count(from, u32::MAX as usize)? {
            let (user, cohort) = (take_u64(from)?, take_u64(from)?);
            effects.of_users.insert(user, cohort);
        }
        for _ in 0..take_count(from, MAX_CELLS)? {
            let key = (take_u64(from)?, take_u64(from)?);
            let [count, sum] = take(from)?;
            effects.cells.insert(key, Item { count, sum });
        }
        for _ in 0..take_count(from, MAX_CELLS)? {
            let key = take_u64(from)?;
            let [count, sum, counts_squared] = take(from)?;
            effects.items.insert(key, ItemTotals { count, sum, counts_squared });
        }
        let [count, squares, between_cells, between_items, unevenness] = take(from)?;
        (effects.count, effects.squares) = (count, squares);
        (effects.between_cells, effects.between_items) = (between_cells, between_items);
        effects.unevenness = unevenness;
        Ok(effects)
    }
}
