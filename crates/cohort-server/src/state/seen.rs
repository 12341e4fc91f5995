//! Who has not been seen for longest? Users in the order in which something was last decided for them.

use std::io::{self, Read, Write};

use cohort::Pieces;

use crate::bytes::{Malformed, Put, Take};

/// No user.
const NOBODY: u32 = u32::MAX;

/// A list of users' numbers, the longest unseen first; any of them is moved or taken out at once.
/// Copies share all that is not written to.
#[derive(Clone, Debug)]
pub struct Seen {
    users: Pieces<Place>,
    first: u32,
    last: u32,
    /// By how much the clock was set since the times that places have.
    set_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// On a clock that was never set; [`NEVER`] for whoever is not in the list.
    at_ms: u64,
    before: u32,
    after: u32,
}

const NEVER: u64 = u64::MAX;
const NOWHERE: Place = Place { at_ms: NEVER, before: NOBODY, after: NOBODY };

impl Default for Seen {
    fn default() -> Self {
        Self { users: Pieces::new(1), first: NOBODY, last: NOBODY, set_ms: 0 }
    }
}

impl Seen {
    /// A user was seen, later than all others.
    pub(super) fn touch(&mut self, user: usize, at_ms: u64) {
        while user >= self.users.len() {
            self.users.push(&[NOWHERE]);
        }
        self.remove(user);
        let (before, after) = (self.last, NOBODY);
        let at_ms = at_ms.saturating_add_signed(self.set_ms.saturating_neg()).min(NEVER - 1);
        self.users.set(user, Place { at_ms, before, after });
        match before {
            NOBODY => self.first = user as u32,
            before => self.change(before, |place| place.after = user as u32),
        }
        self.last = user as u32;
    }

    /// A user is no more.
    pub(super) fn remove(&mut self, user: usize) {
        if user >= self.users.len() || self.users.value(user).at_ms == NEVER {
            return;
        }
        let Place { before, after, .. } = self.users.value(user);
        match before {
            NOBODY => self.first = after,
            before => self.change(before, |place| place.after = after),
        }
        match after {
            NOBODY => self.last = before,
            after => self.change(after, |place| place.before = before),
        }
        self.users.set(user, NOWHERE);
    }

    fn change(&mut self, user: u32, change: impl FnOnce(&mut Place)) {
        change(&mut self.users.get_mut(user as usize)[0]);
    }

    /// Everybody was seen so much later, or earlier: the clock was set.
    pub(super) fn shift(&mut self, by_ms: i64) {
        self.set_ms = self.set_ms.saturating_add(by_ms);
    }

    /// Who was not seen for longest, and when that was.
    pub fn longest_unseen(&self) -> Option<(usize, u64)> {
        self.iter().next()
    }

    /// Everybody, the longest unseen first.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let user = (next != NOBODY).then_some(next as usize)?;
            let place = self.users.value(user);
            next = place.after;
            Some((user, place.at_ms.saturating_add_signed(self.set_ms)))
        })
    }

    /// Writes it.
    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(self.iter().count() as u64)?;
        for (user, at_ms) in self.iter() {
            out.put_u32(user as u32)?;
            out.put_u64(at_ms)?;
        }
        Ok(())
    }

    /// Reads it; users have numbers below `users`.
    pub(super) fn load(mut from: &mut dyn Read, users: usize) -> Result<Self, Malformed> {
        let mut seen = Self::default();
        for _ in 0..from.take_u64()? {
            let (user, at_ms) = (from.take_u32()? as usize, from.take_u64()?);
            if user >= users {
                return Err(Malformed::odd(format!("user {user} of {users} was seen")));
            }
            seen.touch(user, at_ms);
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_a_plain_list(
            events in prop::collection::vec((0..12usize, any::<bool>()), 0..200),
        ) {
            let mut seen = Seen::default();
            let mut plain: Vec<(usize, u64)> = Vec::new();
            for (at_ms, (user, goes)) in (0..).zip(events) {
                plain.retain(|(known, _)| *known != user);
                if goes {
                    seen.remove(user);
                } else {
                    seen.touch(user, at_ms);
                    plain.push((user, at_ms));
                }
                prop_assert_eq!(seen.longest_unseen(), plain.first().copied());
            }
            prop_assert_eq!(seen.iter().collect::<Vec<_>>(), plain.clone());
            let mut bytes = Vec::new();
            seen.clone().save(&mut bytes)?;
            let again = Seen::load(&mut bytes.as_slice(), 12).unwrap();
            prop_assert_eq!(again.iter().collect::<Vec<_>>(), plain);
        }
    }
}
