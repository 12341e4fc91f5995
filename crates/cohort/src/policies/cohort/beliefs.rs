//! Beliefs of users that come one at a time: of those that matter now, in bounded memory.

use std::sync::Arc;

use crate::linear::symmetric::packed_len;
use crate::population::Belief;

/// Beliefs at most.
const MOST: usize = 1 << 15;

/// A belief for every place, by the slots that users have in the ledger; slots that leave the same rest
/// share a place, and the last to come has it. A copy shares all beliefs until they change.
#[derive(Clone)]
pub(super) struct Beliefs {
    places: Vec<Option<(usize, Arc<Belief>)>>,
    most: usize,
}

impl Beliefs {
    /// For beliefs in R^d that take so much memory, roughly.
    pub fn new(dim: usize, bytes: usize) -> Self {
        let belief = 8 * (packed_len(dim) + dim) + 160;
        Self { places: Vec::new(), most: (bytes / belief).clamp(16, MOST) }
    }

    /// What is believed of a user, if it is here.
    pub fn get(&self, slot: usize) -> Option<&Belief> {
        match self.places.get(slot % self.most)? {
            Some((known, belief)) if *known == slot => Some(belief),
            _ => None,
        }
    }

    /// The same, to let it learn; made first if it is not here.
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

    /// Takes a user's belief out.
    pub fn take(&mut self, slot: usize) -> Option<Belief> {
        let place = self.places.get_mut(slot % self.most)?;
        let (_, belief) = place.take_if(|(known, _)| *known == slot)?;
        Some(Arc::unwrap_or_clone(belief))
    }

    /// All that are here.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Belief)> {
        self.places.iter().flatten().map(|(slot, belief)| (*slot, &**belief))
    }

    /// Nobody yet, with room for as many.
    pub fn empty(&self) -> Self {
        Self { places: Vec::new(), most: self.most }
    }

    /// Forgets everybody.
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
        let mut beliefs = Beliefs::new(1, 0);
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
