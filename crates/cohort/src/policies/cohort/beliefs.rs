//! Beliefs of users that come one at a time: of those that matter now, in bounded memory.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::INFO;
use super::saved::{read_belief, write_belief};
use crate::Error;
use crate::linear::symmetric::packed_len;
use crate::population::Belief;
use crate::saved::{expect, read_count, write_count};

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

    /// Writes them.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.places.iter().flatten().count())?;
        for (user, belief) in self.places.iter().flatten() {
            write_count(out, *user)?;
            write_belief(out, belief)?;
        }
        Ok(())
    }

    /// Reads what was written of users below a number; there must be room for all of them.
    pub fn load(&self, from: &mut dyn Read, dim: usize, users: usize) -> Result<Self, Error> {
        let mut beliefs = Self { places: Vec::new(), most: self.most };
        for _ in 0..read_count(from, INFO.name)? {
            let user = read_count(from, INFO.name)?;
            expect(INFO.name, "a user that is known", user < users, true)?;
            if let Some(belief) = read_belief(from, dim)? {
                beliefs.get_or(user, || belief);
            }
        }
        Ok(beliefs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Symmetric;

    fn belief(mean: f64) -> Belief {
        Belief::certain(0, vec![mean], Symmetric::identity(1, 1.0))
    }

    #[test]
    fn the_last_to_come_has_the_place() {
        let mut beliefs = Beliefs::new(1, 0);
        let other = beliefs.most + 3;
        beliefs.get_or(3, || belief(1.0));
        let copy = beliefs.clone();
        beliefs.get_or(3, || unreachable!("it is there")).guesses[0].mean[0] = 2.0;
        assert_eq!(beliefs.get(3).map(|one| one.guesses[0].mean[0]), Some(2.0));
        assert_eq!(copy.get(3).map(|one| one.guesses[0].mean[0]), Some(1.0));
        beliefs.get_or(other, || belief(5.0));
        assert!(beliefs.get(3).is_none() && beliefs.get(other).is_some());
        assert!(beliefs.take(3).is_none() && beliefs.take(other).is_some());
        assert!(beliefs.get(other).is_none());
    }
}
