//! Who asks where: a block of queries goes down the tree to the leaves that may hold neighbours of
//! theirs they do not hang together with yet.

use super::block::{PointBlock, square_to_box};
use super::census::{Census, NONE};
use super::disjoint::DisjointSets;
use super::index::Index;
use super::join::{BlockPoints, Scratch};
use super::lanes::{MOST_POINTS, Mask, NearBox, members};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One pass over the whole index.
pub(super) struct Search<'a> {
    pub index: &'a Index<'a>,
    pub sets: &'a DisjointSets,
    /// For every node a position; who hangs together with it passes by. [`NONE`]: nobody does.
    pruned: Vec<AtomicU32>,
    /// For every node the highest rank in it.
    highest: &'a [u64],
}

/// A block of queries on its way down the tree.
pub(super) struct QueryBlock<'a> {
    pub points: BlockPoints<'a>,
    /// If given, only nodes with a higher rank than their own are asked.
    pub ranks: Option<Ranks>,
    /// The leaf that is not asked: their own.
    pub own: Option<usize>,
    /// How many more leaves they may ask.
    pub visits: usize,
    pub scratch: Scratch,
}

/// The ranks of the queries of a block.
pub(super) struct Ranks {
    each: Vec<u64>,
    least: u64,
    most: u64,
}

impl Ranks {
    pub fn new(each: Vec<u64>) -> Self {
        let least = each.iter().copied().min().unwrap_or(0);
        let most = each.iter().copied().max().unwrap_or(0);
        Self { each, least, most }
    }

    /// Those of some that are below a rank. Mostly that is all or none.
    fn below(&self, rank: u64, some: Mask) -> Mask {
        if self.most < rank {
            some
        } else if self.least >= rank {
            0
        } else {
            filter(some, |l| self.each[l] < rank)
        }
    }
}

impl<'a> Search<'a> {
    /// Whoever hangs together with `pruned[node]` need not ask in that node.
    pub fn new(
        index: &'a Index,
        sets: &'a DisjointSets,
        census: &'a Census,
        pruned: Vec<u32>,
    ) -> Self {
        let pruned = pruned.into_iter().map(AtomicU32::new).collect();
        Self { index, sets, pruned, highest: &census.highest }
    }

    /// Lets the active points meet everybody below a node, the nearer child first.
    pub fn descend(&self, queries: &mut QueryBlock, node: usize, active: Mask) {
        let active = self.still_active(queries, node, active);
        if active == 0 {
            return;
        }
        let Some([left, right]) = self.index.tree.children(node) else {
            return self.visit(queries, node, active);
        };
        let block = queries.points.block;
        let left_first = self.way(block, left) <= self.way(block, right);
        let (near, far) = if left_first { (left, right) } else { (right, left) };
        self.descend(queries, near, active);
        self.descend(queries, far, active);
    }

    /// Those for whom there may be something new below a node.
    fn still_active(&self, queries: &mut QueryBlock, node: usize, active: Mask) -> Mask {
        if queries.visits == 0 || queries.own == Some(node) {
            return 0;
        }
        let active = match &queries.ranks {
            Some(ranks) => ranks.below(self.highest[node], active),
            None => active,
        };
        if active == 0 || self.boxes_apart(queries.points.block, node) {
            return 0;
        }
        let active = self.near_box(queries, node, active);
        let pruned = self.pruned(node);
        if pruned == NONE {
            return active;
        }
        let root = self.sets.find(pruned);
        filter(active, |l| {
            queries.points.roots[l] = self.sets.find(queries.points.roots[l]);
            queries.points.roots[l] != root
        })
    }

    /// A node is also passed by where both its children are, by the same.
    fn pruned(&self, node: usize) -> u32 {
        let known = self.pruned[node].load(Relaxed);
        if known != NONE {
            return known;
        }
        let Some([left, right]) = self.index.tree.children(node) else { return NONE };
        let (left, right) = (self.pruned[left].load(Relaxed), self.pruned[right].load(Relaxed));
        if left == NONE || right == NONE || self.sets.find(left) != self.sets.find(right) {
            return NONE;
        }
        self.pruned[node].store(left, Relaxed);
        left
    }

    /// Whether the box of the queries is more than γ from the box of a node.
    fn boxes_apart(&self, block: &PointBlock, node: usize) -> bool {
        let (low, high) = self.index.bounds(node);
        let (own_low, own_high) = block.bounds.split_at(low.len());
        let mut square = 0.0;
        for k in 0..low.len() {
            let apart = larger(low[k] - own_high[k], own_low[k] - high[k]);
            let apart = larger(apart, 0.0);
            square += apart * apart;
        }
        let gamma = self.index.near.unit().gamma;
        square > gamma * gamma * (1.0 + 1e-9) + 1e-300
    }

    /// The active points within γ of the box of a node.
    fn near_box(&self, queries: &mut QueryBlock, node: usize, active: Mask) -> Mask {
        let (block, scratch) = (queries.points.block, &mut queries.scratch);
        let (low, high) = self.index.bounds(node);
        for k in 0..low.len() {
            scratch.low[k] = (low[k] - block.centre[k]) as f32;
            scratch.high[k] = (high[k] - block.centre[k]) as f32;
        }
        let gamma = self.index.near.unit().gamma;
        self.index.processor.run(NearBox {
            lanes: &block.lanes,
            vectors: block.vectors,
            wanted: active,
            low: &scratch.low,
            high: &scratch.high,
            limit: square_to_box(gamma, block.radius, low.len()) as f32,
        })
    }

    /// How far the middle of a node is from the centre of a block, squared.
    fn way(&self, block: &PointBlock, node: usize) -> f64 {
        let (low, high) = self.index.bounds(node);
        let mut square = 0.0;
        for k in 0..low.len() {
            let way = 0.5 * (low[k] + high[k]) - block.centre[k];
            square += way * way;
        }
        square
    }

    /// Lets the active points meet the points of a leaf.
    ///
    /// Those who hang together with the leaf's leading component need only meet the others there.
    /// Whichever are fewer then go to the other side.
    fn visit(&self, queries: &mut QueryBlock, leaf: usize, active: Mask) {
        queries.visits -= 1;
        let node = self.index.tree.nodes[leaf];
        let positions: [u32; MOST_POINTS] =
            std::array::from_fn(|l| node.start.wrapping_add(l as u32));
        let block = self.index.block(leaf);
        let mut targets = BlockPoints::new(block, &positions[..block.count]);
        targets.look_up(self.sets, targets.all());
        queries.points.look_up(self.sets, active);
        let leader = self.sets.find(self.highest[leaf] as u32);
        let insiders = active & queries.points.members_of(leader);
        let outsiders = targets.all() & !targets.members_of(leader);
        let (points, scratch) = (&mut queries.points, &mut queries.scratch);
        self.join_neighbours(scratch, points, active & !insiders, &mut targets);
        let to_go = insiders.count_ones() as usize * block.vectors;
        let to_come = outsiders.count_ones() as usize * points.block.vectors;
        if to_go <= to_come {
            self.join_neighbours(scratch, points, insiders, &mut targets);
        } else {
            self.join_neighbours(scratch, &mut targets, outsiders, points);
        }
        if outsiders == 0 {
            self.pruned[leaf].store(node.start, Relaxed);
        }
    }
}

/// The larger of two numbers, in one instruction: `f64::max` takes several for the sake of NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The members of a set with a property.
fn filter(mask: Mask, mut keep: impl FnMut(usize) -> bool) -> Mask {
    members(mask).filter(|l| keep(*l)).fold(0, |kept, l| kept | 1 << l)
}
