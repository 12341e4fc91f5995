//! Joins neighbours within one leaf.

use super::block::{PointBlock, half_square};
use super::disjoint::DisjointSets;
use super::index::PointIndex;
use super::kernels::{Neighbours, Shift};
use super::lanes::{MOST_VECTORS, Mask, Row, first, members};
use crate::simd::F32x16;

/// Joins the neighbours within a leaf by breadth-first search: from a point to all its neighbours,
/// from them to theirs. In a dense leaf two or three points reach all others.
pub(super) fn join_within(index: &PointIndex, sets: &DisjointSets, leaf: usize) {
    let block = index.block(leaf);
    let node = index.tree.nodes[leaf];
    let points = &index.tree.order[node.positions()];
    let row = ShiftedBlock::new(index, block);
    let mut unreached = first(block.count);
    while unreached != 0 {
        let mut to_ask: Mask = 1 << block.nearest_to_centre(unreached);
        unreached &= !to_ask;
        while to_ask != 0 && unreached != 0 {
            let query = to_ask.trailing_zeros() as usize;
            to_ask &= to_ask - 1;
            for other in members(row.proposed(index, block, query) & unreached) {
                if index.near.near(points[query], points[other]) {
                    sets.join(node.start + query as u32, node.start + other as u32);
                    to_ask |= 1 << other;
                    unreached &= !(1 << other);
                }
            }
        }
    }
}

/// A block that is compared with itself: its points as queries, and their limits.
struct ShiftedBlock {
    moved: Vec<Row>,
    limits: Row,
}

impl ShiftedBlock {
    fn new(index: &PointIndex, block: &PointBlock) -> Self {
        let dim = index.near.dim();
        let mut moved = vec![[F32x16::splat(0.0); MOST_VECTORS]; dim];
        let mut limits = [F32x16::splat(0.0); MOST_VECTORS];
        index.set.run(Shift {
            lanes: &block.lanes,
            vectors: block.vectors,
            wanted: first(block.count),
            offset: &vec![0.0; dim],
            ball: f32::INFINITY,
            within: half_square(index.near.unit().gamma, 2.0 * block.radius, dim) as f32,
            moved: &mut moved,
            limits: &mut limits,
        });
        Self { moved, limits }
    }

    /// The candidates for neighbours of a query.
    fn proposed(&self, index: &PointIndex, block: &PointBlock, query: usize) -> Mask {
        index.set.run(Neighbours {
            lanes: &block.lanes,
            vectors: block.vectors,
            moved: &self.moved,
            queries: &[query as u8],
            limits: &self.limits,
        })[0]
    }
}
