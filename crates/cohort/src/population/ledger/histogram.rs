//! How many users have how many rewards.

use std::collections::BTreeMap;

/// Users by their count: exact for whole counts, to one part in 256 for decayed ones.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// By the bits of the count, which for positive numbers are in the order of the numbers.
    users: BTreeMap<u64, usize>,
}

/// The bits of a count; of one that is not whole, the middle of its bucket.
fn bucket(count: f64) -> u64 {
    const DROPPED: u32 = 52 - 7;
    if count.fract() == 0.0 {
        count.to_bits()
    } else {
        count.to_bits() >> DROPPED << DROPPED | 1 << (DROPPED - 1)
    }
}

impl Histogram {
    /// So many users had one count and now have another.
    pub fn shift(&mut self, users: usize, before: f64, after: f64) {
        let (old, new) = (bucket(before), bucket(after));
        if users == 0 || old == new {
            return;
        }
        if before > 0.0
            && let Some(there) = self.users.get_mut(&old)
        {
            *there -= users;
            if *there == 0 {
                self.users.remove(&old);
            }
        }
        if after > 0.0 {
            *self.users.entry(new).or_insert(0) += users;
        }
    }

    /// The `rank`-th largest count, from 1; the smallest where there are fewer, 0 where there are none.
    pub fn of_rank(&self, rank: usize) -> f64 {
        let mut left = rank;
        for (count, users) in self.users.iter().rev() {
            if left <= *users {
                return f64::from_bits(*count);
            }
            left -= users;
        }
        self.users.keys().next().map_or(0.0, |count| f64::from_bits(*count))
    }

    /// The number of users with at least `least` rewards, and the sum of their counts.
    pub fn from(&self, least: f64) -> (usize, f64) {
        let from = self.users.range(least.max(0.0).to_bits()..);
        from.fold((0, 0.0), |(all, total), (count, users)| {
            (all + users, total + *users as f64 * f64::from_bits(*count))
        })
    }

    /// Counts and how many users have each, from the smallest.
    pub fn iter(&self) -> impl Iterator<Item = (f64, usize)> {
        self.users.iter().map(|(count, users)| (f64::from_bits(*count), *users))
    }

    /// Bytes taken, roughly.
    pub fn memory_bytes(&self) -> usize {
        24 * self.users.len()
    }
}
