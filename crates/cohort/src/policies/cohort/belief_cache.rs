//! A bounded, direct-mapped cache of beliefs about users that come one at a time.

use std::sync::Arc;

use crate::algebra::packed_len;
use crate::population::Belief;

/// The most beliefs.
const MOST: usize = 1 << 15;

/// Beliefs by ledger slot modulo the number of places; a later slot replaces an earlier one. A copy
/// shares all beliefs until they change.
#[derive(Clone)]
pub(super) struct BeliefCache {
    places: Vec<Option<(usize, Arc<Belief>)>>,
    most: usize,
}

impl BeliefCache {
    /// For beliefs in R^d, within roughly `bytes`.
    pub fn new(dim: usize, bytes: usize) -> Self {
        let belief = 8 * (packed_len(dim) + dim) + 160;
        Self { places: Vec::new(), most: (bytes / belief).clamp(16, MOST) }
    }

    /// The belief about a user, if it is cached.
    pub fn get(&self, slot: usize) -> Option<&Belief> {
        match self.places.get(slot % self.most)? {
            Some((known, belief)) if *known == slot => Some(belief),
            _ => None,
        }
    }

    /// The same, mutable; inserted first if it is not cached.
    pub fn get_or(&mut self, slot: usize, make: impl FnOnce() -> Belief) -> &mut Belief {
        let at = slot % self.most;
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        let place = &mut self.places[at];
        if place.as_ref().is_none_or(|(known, _)| *known != slot) {
            *place = Some((slot, Arc::new(make())));
        }
        Arc::make_mut(&mut place.as_mut().expect("it was just put there").1)
    }

    /// Removes and returns a user's belief.
    pub fn take(&mut self, slot: usize) -> Option<Belief> {
        let place = self.places.get_mut(slot % self.most)?;
        let (_, belief) = place.take_if(|(known, _)| *known == slot)?;
        Some(Arc::unwrap_or_clone(belief))
    }

    /// All cached beliefs.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Belief)> {
        self.places.iter().flatten().map(|(slot, belief)| (*slot, &**belief))
    }

    /// An empty cache of the same size.
    pub fn empty(&self) -> Self {
        Self { places: Vec::new(), most: self.most }
    }

    /// Removes all beliefs.
    pub fn clear(&mut self) {
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Symmetric;

    fn belief(mean: f64) -> Belief {
        Belief::certain(0, vec![mean], Symmetric::identity(1, 1.0), 1.0)
    }

    fn mean_of(belief: &Belief) -> f64 {
        belief.likeliest().mean[0]
    }

    #[test]
    fn the_last_to_come_has_the_place() {
        let mut beliefs = BeliefCache::new(1, 0);
        let other = beliefs.most + 3;
        beliefs.get_or(3, || belief(1.0));
        let copy = beliefs.clone();
        let learning = beliefs.get_or(3, || unreachable!("it is there"));
        learning.classes[0].guesses[0].mean[0] = 2.0;
        assert_eq!(beliefs.get(3).map(mean_of), Some(2.0));
        assert_eq!(copy.get(3).map(mean_of), Some(1.0));
        beliefs.get_or(other, || belief(5.0));
        assert!(beliefs.get(3).is_none() && beliefs.get(other).is_some());
        assert!(beliefs.take(3).is_none() && beliefs.take(other).is_some());
        assert!(beliefs.get(other).is_none());
    }
}
