//! How what CLUB learned is kept.

use std::io::{self, Read, Write};

use super::edge_slack::EdgeSlacks;
use super::{Club, INFO, LAMBDA};
use crate::Error;
use crate::linear::Oful;
use crate::saved::{
    State, check_equal, read_array, read_count, read_numbers, write_count, write_numbers,
};

impl State for Club {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.dim)?;
        write_numbers(out, &[self.turns])?;
        self.graph.save(out)?;
        write_count(out, self.users.len())?;
        self.users.iter().try_for_each(|user| user.save(out))?;
        self.components.iter().try_for_each(|component| component.save(out))?;
        self.slacks.save(out)?;
        let drawn = self.rng.as_ref().map_or(0, |rng| rng.get_word_pos());
        out.write_all(&drawn.to_le_bytes())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        check_equal(what, "dimension", read_count(from, what)?, self.dim)?;
        let mut turns = [0.0];
        read_numbers(from, what, &mut turns)?;
        let graph = self.graph.load(from, what)?;
        check_equal(what, "users", read_count(from, what)?, graph.vertices())?;
        let mut read = |count: usize| -> Result<Vec<Oful>, Error> {
            let mut all = Vec::new();
            for _ in 0..count {
                all.push(Oful::load(from, what, self.dim, LAMBDA)?);
            }
            Ok(all)
        };
        let (users, components) = (read(graph.vertices())?, read(graph.components())?);
        let slacks = EdgeSlacks::load(from, what, &self.slacks, users.len())?;
        let drawn = u128::from_le_bytes(read_array(from, what)?);
        if let Some(rng) = &mut self.rng {
            rng.set_word_pos(drawn);
        }
        self.turns = turns[0];
        (self.graph, self.users, self.components) = (graph, users, components);
        self.slacks = slacks;
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        check_equal(INFO.name, "alpha2", other.slacks.alpha2, self.slacks.alpha2)?;
        if let Some(rng) = &mut self.rng {
            rng.set_word_pos(other.rng.as_ref().map_or(0, |rng| rng.get_word_pos()));
        }
        (self.turns, self.slacks) = (other.turns, other.slacks);
        (self.graph, self.users, self.components) = (other.graph, other.users, other.components);
        Ok(())
    }
}

impl EdgeSlacks {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, &[self.alpha2])?;
        (0..self.users.len()).try_for_each(|user| write_numbers(out, self.reference(user)))?;
        for slack in &self.users {
            write_numbers(out, &[slack.reach, slack.reference_reach, slack.drift_bound])?;
            crate::saved::write_bound(out, slack.length)?;
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
        check_equal(what, "alpha2", alpha2[0], like.alpha2)?;
        let mut slacks = Self::new(users, like.dim, like.alpha2);
        (0..users).try_for_each(|user| read_numbers(from, what, slacks.reference_mut(user)))?;
        slacks.find_middle();
        for slack in &mut slacks.users {
            let mut numbers = [0.0; 3];
            read_numbers(from, what, &mut numbers)?;
            [slack.reach, slack.reference_reach, slack.drift_bound] = numbers;
            slack.length = crate::saved::read_bound(from, what)?;
        }
        Ok(slacks)
    }
}
