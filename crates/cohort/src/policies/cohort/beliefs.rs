//! Beliefs of users that come one at a time: of those that matter now, in bounded memory.

use std::sync::Arc;

use crate::linear::symmetric::packed_len;
use crate::population::Belief;

/// Beliefs at most.
const MOST: usize = 1 << 15;

/// A belief for every place; users whose numbers leave the same rest share one, and the last to
/// come has it. A copy shares all beliefs until they change.
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
    pub fn get(&self, user: usize) -> Option<&Belief> {
        match self.places.get(user % self.most)? {
            Some((known, belief)) if *known == user => Some(belief),
            _ => None,
        }
    }

    /// The same, to let it learn; made first if it is not here.
    pub fn get_or(&mut self, user: usize, make: impl FnOnce() -> Belief) -> &mut Belief {
        let at = user % self.most;
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        let place = &mut self.places[at];
        if place.as_ref().is_none_or(|(known, _)| *known != user) {
            *place = Some((user, Arc::new(make())));
        }
        Arc::make_mut(&mut place.as_mut().expect("it was just put there").1)
    }

    /// Takes a user's belief out.
    pub fn take(&mut self, user: usize) -> Option<Belief> {
        let place = self.places.get_mut(user % self.most)?;
        let (_, belief) = place.take_if(|(known, _)| *known == user)?;
        Some(Arc::unwrap_or_clone(belief))
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.places.clear();
    }
}
