//! The tree search: a block of queries descends to the leaves that may hold neighbours outside the
//! queries' own components.

use super::block::{PointBlock, square_to_box};
use super::component_state::{ComponentState, NONE};
use super::disjoint::DisjointSets;
use super::index::PointIndex;
use super::join::{BlockPoints, Scratch};
use super::kernels::NearBox;
use super::lanes::{MOST_POINTS, Mask, members};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One pass over the whole index.
pub(super) struct Search<'a> {
    pub index: &'a PointIndex<'a>,
    pub sets: &'a DisjointSets,
    /// The pruning rule: for every node a position; queries connected to it skip the node.
    /// [`NONE`]: no query does.
    pruned: Vec<AtomicU32>,
    /// The highest rank in every node.
    highest: &'a [u64],
}

/// A block of queries that descends the tree.
pub(super) struct QueryBlock<'a> {
    pub points: BlockPoints<'a>,
    /// If given, only nodes with a rank above the query's own are visited.
    pub ranks: Option<Ranks>,
    /// The leaf that is skipped: the queries' own.
    pub own: Option<usize>,
    /// How many more leaves may be visited.
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

    /// Those of `some` that rank below `rank`; mostly all or none.
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
    /// Queries connected to `pruned[node]` skip that node.
    pub fn new(
        index: &'a PointIndex,
        sets: &'a DisjointSets,
        state: &'a ComponentState,
        pruned: Vec<u32>,
    ) -> Self {
        let pruned = pruned.into_iter().map(AtomicU32::new).collect();
        Self { index, sets, pruned, highest: &state.highest }
    }

    /// Compares the active queries with all points below a node, the nearer child first.
    pub fn descend(&self, queries: &mut QueryBlock, node: usize, active: Mask) {
        let active = self.still_active(queries, node, active);
        if active == 0 {
            return;
        }
        let Some([left, right]) = self.index.tree.children(node) else {
            return self.visit(queries, node, active);
        };
        let block = queries.points.block;
        let left_first = self.distance_squared(block, left) <= self.distance_squared(block, right);
        let (near, far) = if left_first { (left, right) } else { (right, left) };
        self.descend(queries, near, active);
        self.descend(queries, far, active);
    }

    /// The queries for which there may be a new edge below a node.
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

    /// A node is also pruned where both its children are, for the same component.
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
        self.index.set.run(NearBox {
            lanes: &block.lanes,
            vectors: block.vectors,
            wanted: active,
            low: &scratch.low,
            high: &scratch.high,
            limit: square_to_box(gamma, block.radius, low.len()) as f32,
        })
    }

    /// The squared distance from the middle of a node to the centre of a block.
    fn distance_squared(&self, block: &PointBlock, node: usize) -> f64 {
        let (low, high) = self.index.bounds(node);
        let mut square = 0.0;
        for k in 0..low.len() {
            let way = 0.5 * (low[k] + high[k]) - block.centre[k];
            square += way * way;
        }
        square
    }

    /// Compares the active queries with the points of a leaf.
    /// Queries in the leaf's leading component are compared with the other points only. The smaller
    /// side becomes the queries.
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

/// The larger of two numbers, in one instruction: `f64::max` takes several to handle NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The members of a set with a property.
fn filter(mask: Mask, mut keep: impl FnMut(usize) -> bool) -> Mask {
    members(mask).filter(|l| keep(*l)).fold(0, |kept, l| kept | 1 << l)
}
