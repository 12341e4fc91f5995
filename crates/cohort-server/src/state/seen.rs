//! Who has not been seen for longest? Users in the order in which something was last decided for them.

use std::io::{self, Read, Write};

use crate::bytes::{Malformed, Put, Take};

/// No user.
const NOBODY: u32 = u32::MAX;

/// A list of users' numbers, the longest unseen first; any of them is moved or taken out at once.
#[derive(Debug)]
pub struct Seen {
    users: Vec<Place>,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// [`NEVER`] for whoever is not in the list.
    at_ms: u64,
    before: u32,
    after: u32,
}

const NEVER: u64 = u64::MAX;
const NOWHERE: Place = Place { at_ms: NEVER, before: NOBODY, after: NOBODY };

impl Default for Seen {
    fn default() -> Self {
        Self { users: Vec::new(), first: NOBODY, last: NOBODY }
    }
}

impl Seen {
    /// A user was seen, later than all others.
    pub(super) fn touch(&mut self, user: usize, at_ms: u64) {
        if user >= self.users.len() {
            self.users.resize(user + 1, NOWHERE);
        }
        self.remove(user);
        let before = self.last;
        self.users[user] = Place { at_ms: at_ms.min(NEVER - 1), before, after: NOBODY };
        match before {
            NOBODY => self.first = user as u32,
            before => self.users[before as usize].after = user as u32,
        }
        self.last = user as u32;
    }

    /// A user is no more.
    pub(super) fn remove(&mut self, user: usize) {
        let there = self.users.get(user).copied().filter(|place| place.at_ms != NEVER);
        let Some(Place { before, after, .. }) = there else { return };
        match before {
            NOBODY => self.first = after,
            before => self.users[before as usize].after = after,
        }
        match after {
            NOBODY => self.last = before,
            after => self.users[after as usize].before = before,
        }
        self.users[user] = NOWHERE;
    }

    /// Everybody was seen so much later, or earlier: the clock was set.
    pub(super) fn shift(&mut self, by_ms: i64) {
        for place in self.users.iter_mut().filter(|place| place.at_ms != NEVER) {
            place.at_ms = place.at_ms.saturating_add_signed(by_ms).min(NEVER - 1);
        }
    }

    /// Who was not seen for longest, and when that was.
    pub fn longest_unseen(&self) -> Option<(usize, u64)> {
        self.iter().next()
    }

    /// Everybody, the longest unseen first.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let place = self.users.get(next as usize)?;
            let user = next as usize;
            next = place.after;
            Some((user, place.at_ms))
        })
    }

    /// A copy that can be written elsewhere.
    pub(super) fn list(&self) -> Vec<(u32, u64)> {
        self.iter().map(|(user, at_ms)| (user as u32, at_ms)).collect()
    }

    pub(super) fn save(list: &[(u32, u64)], out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(list.len() as u64)?;
        for (user, at_ms) in list {
            out.put_u32(*user)?;
            out.put_u64(*at_ms)?;
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
            Seen::save(&seen.list(), &mut bytes)?;
            let again = Seen::load(&mut bytes.as_slice(), 12).unwrap();
            prop_assert_eq!(again.iter().collect::<Vec<_>>(), plain);
        }
    }
}
