//! The state between two passes: the components so far, and which of them each node of the tree
//! holds.

use super::disjoint::DisjointSets;
use super::index::PointIndex;
use super::tree::Node;
use rayon::prelude::*;

/// The components so far, by position in the tree.
pub(super) struct ComponentState {
    /// The number of components.
    pub components: usize,
    /// The root of every position.
    pub roots: Vec<u32>,
    /// How many points each root has.
    sizes: Vec<u32>,
    /// The highest rank in every node.
    pub highest: Vec<u64>,
}

/// Stands for "no single root".
pub(super) const NONE: u32 = u32::MAX;

impl ComponentState {
    pub fn take(index: &PointIndex, sets: &DisjointSets) -> Self {
        let roots: Vec<u32> =
            (0..index.near.count() as u32).into_par_iter().map(|at| sets.find(at)).collect();
        let mut sizes = vec![0; roots.len()];
        roots.iter().for_each(|&root| sizes[root as usize] += 1);
        let components = sizes.iter().filter(|size| **size > 0).count();
        let mut state = Self { components, roots, sizes, highest: vec![] };
        state.highest = index
            .tree
            .fold(|leaf| leaf.positions().map(|at| state.rank(at)).max().unwrap_or(0), u64::max);
        state
    }

    /// Larger components rank higher; no two have the same rank.
    pub fn rank(&self, position: usize) -> u64 {
        let root = self.roots[position];
        u64::from(self.sizes[root as usize]) << 32 | u64::from(root)
    }

    /// The root of the highest-ranked component in a node.
    pub fn leader(&self, node: usize) -> u32 {
        self.highest[node] as u32
    }

    /// For every node, the root shared by all its positions, or [`NONE`].
    pub fn common_roots(&self, index: &PointIndex) -> Vec<u32> {
        let root_of = |leaf: Node| {
            let roots = &self.roots[leaf.positions()];
            if roots.iter().all(|root| *root == roots[0]) { roots[0] } else { NONE }
        };
        index.tree.fold(root_of, same)
    }

    /// For every node, the root that ranks highest in all its leaves, or [`NONE`].
    pub fn leading_roots(&self, index: &PointIndex) -> Vec<u32> {
        let leader_of = |leaf: Node| {
            leaf.positions().map(|at| self.rank(at)).max().map_or(NONE, |rank| rank as u32)
        };
        index.tree.fold(leader_of, same)
    }
}

fn same(left: u32, right: u32) -> u32 {
    if left == right { left } else { NONE }
}
