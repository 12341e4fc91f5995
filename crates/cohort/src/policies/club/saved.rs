//! How what CLUB learned is kept.

use std::io::{self, Read, Write};

use super::leashes::Leashes;
use super::{Club, INFO, LAMBDA};
use crate::linear::Oful;
use crate::saved::{
    expect, read_array, read_count, read_header, read_numbers, write_count, write_header,
    write_numbers,
};
use crate::{Error, Saved};

/// The layout that `save` writes.
const VERSION: u32 = 1;

impl Saved for Club {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_header(out, VERSION)?;
        write_count(out, self.dim)?;
        write_numbers(out, &[self.turns])?;
        self.graph.save(out)?;
        write_count(out, self.users.len())?;
        self.users.iter().try_for_each(|user| user.save(out))?;
        self.components.iter().try_for_each(|component| component.save(out))?;
        self.leashes.save(out)?;
        let drawn = self.rng.as_ref().map_or(0, |rng| rng.get_word_pos());
        out.write_all(&drawn.to_le_bytes())
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        read_header(from, what, VERSION)?;
        expect(what, "dimension", read_count(from, what)?, self.dim)?;
        let mut turns = [0.0];
        read_numbers(from, what, &mut turns)?;
        let graph = self.graph.load(from, what)?;
        expect(what, "users", read_count(from, what)?, graph.vertices())?;
        let mut read = |count: usize| -> Result<Vec<Oful>, Error> {
            let mut all = Vec::new();
            for _ in 0..count {
                all.push(Oful::load(from, what, self.dim, LAMBDA)?);
            }
            Ok(all)
        };
        let (users, components) = (read(graph.vertices())?, read(graph.components())?);
        let leashes = Leashes::load(from, what, &self.leashes, users.len())?;
        let drawn = u128::from_le_bytes(read_array(from, what)?);
        if let Some(rng) = &mut self.rng {
            rng.set_word_pos(drawn);
        }
        self.turns = turns[0];
        (self.graph, self.users, self.components) = (graph, users, components);
        self.leashes = leashes;
        Ok(())
    }
}

impl Leashes {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, &[self.alpha2])?;
        (0..self.users.len()).try_for_each(|user| write_numbers(out, self.anchor(user)))?;
        for leash in &self.users {
            write_numbers(out, &[leash.reach, leash.anchor_reach, leash.strain])?;
            crate::saved::write_bound(out, leash.length)?;
        }
        Ok(())
    }

    fn load(
        from: &mut dyn Read,
        what: &'static str,
        like: &Self,
        users: usize,
    ) -> Result<Self, Error> {
        let mut alpha2 = [0.0];
        read_numbers(from, what, &mut alpha2)?;
        expect(what, "alpha2", alpha2[0], like.alpha2)?;
        let mut leashes = Self::new(users, like.dim, like.alpha2);
        (0..users).try_for_each(|user| read_numbers(from, what, leashes.anchor_mut(user)))?;
        leashes.find_middle();
        for leash in &mut leashes.users {
            let mut numbers = [0.0; 3];
            read_numbers(from, what, &mut numbers)?;
            [leash.reach, leash.anchor_reach, leash.strain] = numbers;
            leash.length = crate::saved::read_bound(from, what)?;
        }
        Ok(leashes)
    }
}
