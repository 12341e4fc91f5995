//! Joins the neighbours between two blocks of points.

use super::block::{PointBlock, half_square};
use super::disjoint::DisjointSets;
use super::kernels::{AT_ONCE, Neighbours, Shift};
use super::lanes::{MOST_POINTS, MOST_VECTORS, Mask, Row, WIDTH, first, members};
use super::search::Search;
use crate::simd::F32x16;

/// The points of a block, and the components they belong to.
pub(super) struct BlockPoints<'a> {
    pub block: &'a PointBlock,
    /// The position of each point in the tree.
    pub positions: &'a [u32],
    /// A member of each point's set: its root when last looked up.
    pub roots: [u32; MOST_POINTS],
}

/// Scratch memory.
pub(super) struct Scratch {
    pub low: Vec<f32>,
    pub high: Vec<f32>,
    offset: Vec<f32>,
    moved: Vec<Row>,
    limits: Row,
}

impl Scratch {
    pub fn new(dim: usize) -> Self {
        Self {
            low: vec![0.0; dim],
            high: vec![0.0; dim],
            offset: vec![0.0; dim],
            moved: vec![[F32x16::splat(0.0); MOST_VECTORS]; dim],
            limits: [F32x16::splat(0.0); MOST_VECTORS],
        }
    }
}

impl<'a> BlockPoints<'a> {
    pub fn new(block: &'a PointBlock, positions: &'a [u32]) -> Self {
        let mut roots = [0; MOST_POINTS];
        roots[..positions.len()].copy_from_slice(positions);
        Self { block, positions, roots }
    }

    pub fn all(&self) -> Mask {
        first(self.positions.len())
    }

    /// Looks up the roots of the points in `some`.
    pub fn look_up(&mut self, sets: &DisjointSets, some: Mask) {
        for l in members(some) {
            self.roots[l] = sets.find(self.roots[l]);
        }
    }

    /// The points whose root, when last looked up, is `root`.
    pub fn members_of(&self, root: u32) -> Mask {
        let mut mask = 0;
        for (v, roots) in self.roots.chunks_exact(WIDTH).enumerate() {
            let mut bits = 0_u16;
            for (l, other) in roots.iter().enumerate() {
                bits |= u16::from(*other == root) << l;
            }
            mask |= Mask::from(bits) << (WIDTH * v);
        }
        mask & self.all()
    }

    /// The root common to all points when last looked up, if there is one.
    fn common_root(&self) -> Option<u32> {
        let roots = &self.roots[..self.positions.len()];
        roots.iter().all(|root| *root == roots[0]).then(|| roots[0])
    }

    /// Records that two sets have been joined.
    fn merge(&mut self, a: u32, b: u32, root: u32) {
        for known in &mut self.roots {
            if *known == a || *known == b {
                *known = root;
            }
        }
    }
}

impl Search<'_> {
    /// Joins the active queries with their neighbours among the targets.
    pub fn join_neighbours(
        &self,
        scratch: &mut Scratch,
        queries: &mut BlockPoints,
        active: Mask,
        targets: &mut BlockPoints,
    ) {
        if active == 0 {
            return;
        }
        let mut waiting = self.move_to(scratch, queries.block, targets.block, active);
        while waiting != 0 {
            let mut group = [0; AT_ONCE];
            let mut count = 0;
            for query in members(waiting).take(AT_ONCE) {
                group[count] = query as u8;
                count += 1;
                waiting &= !(1 << query);
            }
            let proposed = self.index.set.run(Neighbours {
                lanes: &targets.block.lanes,
                vectors: targets.block.vectors,
                moved: &scratch.moved,
                queries: &group[..count],
                limits: &scratch.limits,
            });
            let mut joined = false;
            for (&query, proposed) in group[..count].iter().zip(proposed) {
                joined |= proposed != 0 && self.join(queries, query.into(), targets, proposed);
            }
            if joined && let Some(root) = targets.common_root() {
                waiting &= !queries.members_of(root);
            }
        }
    }

    /// Shifts the active queries into the frame of the targets and sets their limits there. Returns
    /// those within γ of the bounding ball of the targets.
    fn move_to(
        &self,
        scratch: &mut Scratch,
        queries: &PointBlock,
        targets: &PointBlock,
        active: Mask,
    ) -> Mask {
        let mut square = 0.0;
        for (k, offset) in scratch.offset.iter_mut().enumerate() {
            let way = queries.centre[k] - targets.centre[k];
            square += way * way;
            *offset = way as f32;
        }
        let reach = queries.radius + square.sqrt() * (1.0 + 1e-9) + targets.radius;
        let (gamma, dim) = (self.index.near.unit().gamma, self.index.near.dim());
        self.index.set.run(Shift {
            lanes: &queries.lanes,
            vectors: queries.vectors,
            wanted: active,
            offset: &scratch.offset,
            ball: half_square(gamma + targets.radius, reach, dim) as f32,
            within: half_square(gamma, reach, dim) as f32,
            moved: &mut scratch.moved,
            limits: &mut scratch.limits,
        })
    }

    /// Joins a query with its neighbours among the proposed targets, one per set. Returns whether
    /// there was one.
    fn join(
        &self,
        queries: &mut BlockPoints,
        query: usize,
        targets: &mut BlockPoints,
        proposed: Mask,
    ) -> bool {
        let mut joined = false;
        let order = &self.index.tree.order;
        let at = queries.positions[query];
        for target in members(proposed) {
            let (mine, theirs) = (queries.roots[query], targets.roots[target]);
            let target_at = targets.positions[target];
            if mine != theirs && self.index.near.near(order[at as usize], order[target_at as usize])
            {
                let root = self.sets.join(at, target_at);
                queries.merge(mine, theirs, root);
                targets.merge(mine, theirs, root);
                joined = true;
            }
        }
        joined
    }
}
