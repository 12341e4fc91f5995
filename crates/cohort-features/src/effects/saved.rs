//! What of effects is kept, and how.

use std::io::{self, Read, Write};

use super::cohorts::CohortEffects;
use super::level::Level;
use super::mean_vector::MeanVector;
use super::shrinkage::Shrinkage;
use super::{Item, ItemEffects, MAX_ITEMS, MAX_PAIRS, Pair};

impl ItemEffects {
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
            let pair = self.pairs.get(key).cloned().unwrap_or_default();
            out.write_all(&key.0.to_le_bytes())?;
            out.write_all(&key.1.to_le_bytes())?;
            put(out, &[pair.count, pair.mean])?;
        }
        put(out, &self.sums())
    }

    /// Whether cohorts have effects of their own.
    pub fn has_cohorts(&self) -> bool {
        !self.cohorts.is_empty()
    }

    /// Writes what was learned of cohorts.
    pub fn save_cohorts(&self, out: &mut dyn Write) -> io::Result<()> {
        for key in &self.order {
            let pair = self.pairs.get(key).cloned().unwrap_or_default();
            put(out, &[pair.counted, pair.residuals])?;
        }
        self.cohorts.save(out)
    }

    /// Whether it is known which vectors users have answered to.
    pub fn has_vectors(&self) -> bool {
        self.order.iter().any(|key| self.pairs.get(key).is_some_and(|pair| pair.vector.is_known()))
    }

    /// Writes them.
    pub fn save_vectors(&self, out: &mut dyn Write) -> io::Result<()> {
        let none = MeanVector::default();
        let of_pair = |key| self.pairs.get(key).map_or(&none, |pair| &pair.vector);
        self.order.iter().try_for_each(|key| of_pair(key).save(out))
    }

    /// Reads what [`ItemEffects::save_vectors`] wrote, after all else.
    pub fn load_vectors(&mut self, from: &mut dyn Read) -> io::Result<()> {
        for key in &self.order {
            let vector = MeanVector::load(from)?;
            if let Some(pair) = self.pairs.get_mut(key) {
                pair.vector = vector;
            }
        }
        Ok(())
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

    /// Whether it is known how well rewards were foretold.
    pub fn has_level(&self) -> bool {
        !self.level.is_empty()
    }

    /// Writes that.
    pub fn save_level(&self, out: &mut dyn Write) -> io::Result<()> {
        self.level.save(out)
    }

    /// Reads what [`ItemEffects::save_level`] wrote, after all else.
    pub fn load_level(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.level = Level::load(from)?;
        Ok(())
    }

    /// Reads what [`ItemEffects::save_cohorts`] wrote, after all else.
    pub fn load_cohorts(&mut self, from: &mut dyn Read) -> io::Result<()> {
        for at in 0..self.order.len() {
            let [counted, residuals] = take(from)?;
            if let Some(pair) = self.pairs.get_mut(&self.order[at]) {
                (pair.counted, pair.residuals) = (counted, residuals);
            }
        }
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
        for _ in 0..take_count(from, MAX_PAIRS)? {
            let key = (take_u64(from)?, take_u64(from)?);
            let [count, mean] = take(from)?;
            effects.pairs.insert(key, Pair { count, mean, ..Pair::default() });
            effects.order.push_back(key);
            effects.of_users.entry(key.0).or_default().push(key.1);
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

pub(super) fn put(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    // What could not be read again is not written: a snapshot that says so is better than one that is damaged.
    numbers.iter().try_for_each(|number| match number.is_finite() {
        true => out.write_all(&number.to_le_bytes()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the number {number}"))),
    })
}

pub(super) fn take_u64(from: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

pub(super) fn take_count(from: &mut dyn Read, most: usize) -> io::Result<u64> {
    match take_u64(from)? {
        count if count <= most as u64 => Ok(count),
        count => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{count} effects"))),
    }
}

pub(super) fn take<const N: usize>(from: &mut dyn Read) -> io::Result<[f64; N]> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = f64::from_bits(take_u64(from)?);
        if !number.is_finite() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the number {number}")));
        }
    }
    Ok(numbers)
}
