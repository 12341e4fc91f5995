//! Who asks where: a party of askers goes down the tree to the leaves that may hold neighbours of
//! theirs they do not hang together with yet.

use super::block::{Block, square_to_box};
use super::census::{Census, NONE};
use super::disjoint::DisjointSets;
use super::index::Index;
use super::lanes::{MOST_POINTS, Mask, NearBox, members};
use super::meeting::{Desk, Party};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One pass over the whole index.
pub(super) struct Search<'a> {
    pub index: &'a Index<'a>,
    pub sets: &'a DisjointSets,
    /// For every node a position; who hangs together with it passes by. [`NONE`]: nobody does.
    passed_by: Vec<AtomicU32>,
    /// For every node the highest rank in it.
    highest: &'a [u64],
}

/// A party on its way.
pub(super) struct Askers<'a> {
    pub party: Party<'a>,
    /// If given, only nodes with a higher rank than their own are asked.
    pub ranks: Option<Ranks>,
    /// The leaf that is not asked: their own.
    pub own: Option<usize>,
    /// How many more leaves they may ask.
    pub visits: usize,
    pub desk: Desk,
}

/// The ranks of a party.
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
    /// Whoever hangs together with `passed_by[node]` need not ask in that node.
    pub fn new(
        index: &'a Index,
        sets: &'a DisjointSets,
        census: &'a Census,
        passed_by: Vec<u32>,
    ) -> Self {
        let passed_by = passed_by.into_iter().map(AtomicU32::new).collect();
        Self { index, sets, passed_by, highest: &census.highest }
    }

    /// Lets the asking points meet everybody below a node, the nearer child first.
    pub fn ask(&self, askers: &mut Askers, node: usize, asking: Mask) {
        let asking = self.still_asking(askers, node, asking);
        if asking == 0 {
            return;
        }
        let Some([left, right]) = self.index.tree.children(node) else {
            return self.visit(askers, node, asking);
        };
        let block = askers.party.block;
        let left_first = self.way(block, left) <= self.way(block, right);
        let (near, far) = if left_first { (left, right) } else { (right, left) };
        self.ask(askers, near, asking);
        self.ask(askers, far, asking);
    }

    /// Those for whom there may be something new below a node.
    fn still_asking(&self, askers: &mut Askers, node: usize, asking: Mask) -> Mask {
        if askers.visits == 0 || askers.own == Some(node) {
            return 0;
        }
        let asking = match &askers.ranks {
            Some(ranks) => ranks.below(self.highest[node], asking),
            None => asking,
        };
        if asking == 0 || self.boxes_apart(askers.party.block, node) {
            return 0;
        }
        let asking = self.near_box(askers, node, asking);
        let passed_by = self.passed_by(node);
        if passed_by == NONE {
            return asking;
        }
        let root = self.sets.find(passed_by);
        filter(asking, |l| {
            askers.party.roots[l] = self.sets.find(askers.party.roots[l]);
            askers.party.roots[l] != root
        })
    }

    /// A node is also passed by where both its children are, by the same.
    fn passed_by(&self, node: usize) -> u32 {
        let known = self.passed_by[node].load(Relaxed);
        if known != NONE {
            return known;
        }
        let Some([left, right]) = self.index.tree.children(node) else { return NONE };
        let (left, right) =
            (self.passed_by[left].load(Relaxed), self.passed_by[right].load(Relaxed));
        if left == NONE || right == NONE || self.sets.find(left) != self.sets.find(right) {
            return NONE;
        }
        self.passed_by[node].store(left, Relaxed);
        left
    }

    /// Whether the box of the askers is more than γ from the box of a node.
    fn boxes_apart(&self, block: &Block, node: usize) -> bool {
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

    /// The asking points within γ of the box of a node.
    fn near_box(&self, askers: &mut Askers, node: usize, asking: Mask) -> Mask {
        let (block, desk) = (askers.party.block, &mut askers.desk);
        let (low, high) = self.index.bounds(node);
        for k in 0..low.len() {
            desk.low[k] = (low[k] - block.centre[k]) as f32;
            desk.high[k] = (high[k] - block.centre[k]) as f32;
        }
        let gamma = self.index.near.unit().gamma;
        self.index.processor.run(NearBox {
            lanes: &block.lanes,
            vectors: block.vectors,
            wanted: asking,
            low: &desk.low,
            high: &desk.high,
            limit: square_to_box(gamma, block.radius, low.len()) as f32,
        })
    }

    /// How far the middle of a node is from the centre of a block, squared.
    fn way(&self, block: &Block, node: usize) -> f64 {
        let (low, high) = self.index.bounds(node);
        let mut square = 0.0;
        for k in 0..low.len() {
            let way = 0.5 * (low[k] + high[k]) - block.centre[k];
            square += way * way;
        }
        square
    }

    /// Lets the asking points meet the points of a leaf.
    ///
    /// Those who hang together with the leaf's leading component need only meet the others there.
    /// Whichever are fewer then go to the other side.
    fn visit(&self, askers: &mut Askers, leaf: usize, asking: Mask) {
        askers.visits -= 1;
        let node = self.index.tree.nodes[leaf];
        let positions: [u32; MOST_POINTS] =
            std::array::from_fn(|l| node.start.wrapping_add(l as u32));
        let block = self.index.block(leaf);
        let mut hosts = Party::new(block, &positions[..block.count]);
        hosts.look_up(self.sets, hosts.everybody());
        askers.party.look_up(self.sets, asking);
        let leader = self.sets.find(self.highest[leaf] as u32);
        let insiders = asking & askers.party.members_of(leader);
        let outsiders = hosts.everybody() & !hosts.members_of(leader);
        let (party, desk) = (&mut askers.party, &mut askers.desk);
        self.introduce(desk, party, asking & !insiders, &mut hosts);
        let to_go = insiders.count_ones() as usize * block.vectors;
        let to_come = outsiders.count_ones() as usize * party.block.vectors;
        if to_go <= to_come {
            self.introduce(desk, party, insiders, &mut hosts);
        } else {
            self.introduce(desk, &mut hosts, outsiders, party);
        }
        if outsiders == 0 {
            self.passed_by[leaf].store(node.start, Relaxed);
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
