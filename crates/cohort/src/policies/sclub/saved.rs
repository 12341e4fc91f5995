//! How what SCLUB learned is kept.

use std::io::{self, Read, Write};

use super::sets::{Cluster, Sets, User};
use super::{INFO, Phased, Sclub};
use crate::Error;
use crate::linear::Oful;
use crate::saved::{
    State, check_equal, read_bound, read_count, read_numbers, read_places, write_bound,
    write_count, write_numbers, write_places,
};

impl State for Sclub {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.phased.save(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.phased.load(from, INFO.name)
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        self.phased.adopt(other.phased, INFO.name)
    }
}

impl Phased {
    pub(in crate::policies) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, &[self.turns, self.turns_left])?;
        write_count(out, self.phase as usize)?;
        self.sets.save(out)
    }

    pub(in crate::policies) fn load(
        &mut self,
        from: &mut dyn Read,
        what: &'static str,
    ) -> Result<(), Error> {
        let mut numbers = [0.0; 2];
        read_numbers(from, what, &mut numbers)?;
        let phase = read_count(from, what)?;
        check_equal(what, "phases that have been", phase < 1024, true)?;
        self.sets.load(from, what)?;
        [self.turns, self.turns_left] = numbers;
        self.phase = phase as i32;
        Ok(())
    }

    pub(in crate::policies) fn adopt(
        &mut self,
        other: Self,
        what: &'static str,
    ) -> Result<(), Error> {
        check_equal(what, "dimension", other.sets.dim, self.sets.dim)?;
        let scales = self.sets.scales;
        *self = other;
        self.sets.scales = scales;
        Ok(())
    }
}

impl Sets {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.dim)?;
        write_count(out, self.users.len())?;
        for user in &self.users {
            user.sums.save(out)?;
            write_count(out, user.checked.into())?;
        }
        write_count(out, self.clusters.len())?;
        // What was the sum of a cluster that has no members any more depends on when the policy was loaded.
        let none = Oful::new(self.dim, super::sets::LAMBDA);
        self.clusters.iter().try_for_each(|cluster| {
            let sums = if cluster.members.is_empty() { &none } else { self.sums(cluster) };
            cluster.save(out, sums)
        })?;
        write_places(out, self.free.iter().copied())?;
        write_places(out, self.checked.iter().copied())?;
        write_count(out, self.numbers as usize)?;
        write_bound(out, self.next_reunion)
    }

    fn load(&mut self, from: &mut dyn Read, what: &'static str) -> Result<(), Error> {
        check_equal(what, "dimension", read_count(from, what)?, self.dim)?;
        let mut sets = Self::new(0, self.dim, self.scales);
        for _ in 0..read_count(from, what)? {
            let sums = Oful::load(from, what, self.dim, super::sets::LAMBDA)?;
            let checked = read_count(from, what)? == 1;
            // Where it is follows from the clusters' members.
            sets.users.push(User { sums, cluster: usize::MAX, place: 0, checked });
        }
        for at in 0..read_count(from, what)? {
            let cluster = Cluster::load(from, what, self.dim, sets.users.len())?;
            sets.estimates.set(at, cluster.sums(&sets.users));
            for (place, member) in cluster.members.iter().enumerate() {
                let user = &mut sets.users[*member];
                check_equal(what, "users in two clusters", user.cluster != usize::MAX, false)?;
                (user.cluster, user.place) = (at, place);
            }
            sets.clusters.push(cluster);
        }
        let lost = sets.users.iter().any(|user| user.cluster == usize::MAX);
        check_equal(what, "users in no cluster", lost, false)?;
        sets.free = read_places(from, what, sets.clusters.len())?;
        sets.checked = read_places(from, what, sets.clusters.len())?;
        sets.numbers = read_count(from, what)? as u64;
        sets.next_reunion = read_bound(from, what)?;
        *self = sets;
        Ok(())
    }
}

impl Cluster {
    fn save(&self, out: &mut dyn Write, sums: &Oful) -> io::Result<()> {
        write_count(out, self.number as usize)?;
        write_places(out, self.members.iter().copied())?;
        sums.save(out)?;
        write_numbers(out, &self.pivot.0)?;
        write_numbers(out, &[self.pivot.1, self.served.0, self.served.1])?;
        write_count(out, self.unchecked)?;
        write_bound(out, self.reunion)
    }

    fn load(
        from: &mut dyn Read,
        what: &'static str,
        dim: usize,
        users: usize,
    ) -> Result<Self, Error> {
        let number = read_count(from, what)? as u64;
        let members = read_places(from, what, users)?;
        let sums = Oful::load(from, what, dim, super::sets::LAMBDA)?;
        let (mut pivot, mut numbers) = (vec![0.0; dim], [0.0; 3]);
        read_numbers(from, what, &mut pivot)?;
        read_numbers(from, what, &mut numbers)?;
        let [uncertainty, least, most] = numbers;
        Ok(Self {
            number,
            members,
            sums,
            pivot: (pivot, uncertainty),
            unchecked: read_count(from, what)?,
            served: (least, most),
            reunion: read_bound(from, what)?,
        })
    }
}
