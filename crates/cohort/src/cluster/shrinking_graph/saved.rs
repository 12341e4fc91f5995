//! Serialisation of a graph: edges, spanning forest and members in their order, since the order
//! decides which edge is tried first.

use std::io::{self, Read, Write};

use super::{Bits, Edges, ShrinkingGraph};
use crate::Error;
use crate::saved::{check_equal, read_array, read_count, read_places, write_count, write_places};

impl ShrinkingGraph {
    /// Writes the graph.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.vertices())?;
        match &self.edges {
            Edges::AllBut(cuts) => {
                write_count(out, 0)?;
                for Bits(words) in cuts {
                    write_count(out, words.len())?;
                    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
                }
            }
            Edges::Only(lists) => {
                write_count(out, 1)?;
                lists.iter().try_for_each(|list| write_list(out, list))?;
            }
        }
        self.forest.iter().try_for_each(|list| write_list(out, list))?;
        write_count(out, self.members.len())?;
        self.members.iter().try_for_each(|list| write_list(out, list))?;
        Ok(())
    }

    /// Reads what [`ShrinkingGraph::save`] wrote of a graph that began, as this one did, complete
    /// or not.
    pub fn load(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let vertices = read_count(from, what)?;
        let listed = matches!(self.edges, Edges::Only(_));
        check_equal(what, "graphs with all edges listed", read_count(from, what)?, listed.into())?;
        let edges = if listed {
            Edges::Only(read_each(vertices, || read_list(from, what, vertices))?)
        } else {
            Edges::AllBut(read_each(vertices, || read_bits(from, what))?)
        };
        let forest = read_each(vertices, || read_list(from, what, vertices))?;
        let components = read_count(from, what)?;
        let members = read_each(components, || read_list(from, what, vertices))?;
        let place = places(what, vertices, &members)?;
        Ok(Self { edges, forest, place, members })
    }
}

/// The place of every vertex: each must be a member of exactly one component.
fn places(
    what: &'static str,
    vertices: usize,
    members: &[Vec<u32>],
) -> Result<Vec<(u32, u32)>, Error> {
    let mut places = vec![None; vertices];
    for (component, members) in members.iter().enumerate() {
        check_equal(what, "components without members", members.is_empty(), false)?;
        for (at, vertex) in members.iter().enumerate() {
            let before = places[*vertex as usize].replace((component as u32, at as u32));
            check_equal(what, "vertices in two components", before.is_some(), false)?;
        }
    }
    let placed: Option<Vec<(u32, u32)>> = places.into_iter().collect();
    check_equal(what, "vertices in no component", placed.is_none(), false)?;
    Ok(placed.unwrap_or_default())
}

/// Reads item by item, so that memory grows with what was really read.
fn read_each<T>(count: usize, mut read: impl FnMut() -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(read()?);
    }
    Ok(all)
}

fn read_bits(from: &mut dyn Read, what: &'static str) -> Result<Bits, Error> {
    let words = read_count(from, what)?;
    let word = || read_array(from, what).map(u64::from_le_bytes);
    read_each(words, word).map(Bits)
}

fn write_list(out: &mut dyn Write, list: &[u32]) -> io::Result<()> {
    write_places(out, list.iter().map(|vertex| *vertex as usize))
}

fn read_list(from: &mut dyn Read, what: &'static str, below: usize) -> Result<Vec<u32>, Error> {
    let places = read_places(from, what, below)?;
    Ok(places.into_iter().map(|place| place as u32).collect())
}
