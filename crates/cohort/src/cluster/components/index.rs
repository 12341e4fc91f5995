//! The search index: the tree, bounding boxes, and one block per leaf.

use super::block::{PointBlock, empty_box};
use super::near::Near;
use super::tree::Tree;
use crate::simd::InstructionSet;
use rayon::prelude::*;

pub(super) struct PointIndex<'a> {
    pub near: Near<'a>,
    pub tree: Tree,
    pub set: InstructionSet,
    /// The nodes that are leaves.
    pub leaves: Vec<usize>,
    /// The points of each leaf.
    blocks: Vec<PointBlock>,
    /// For every node that is a leaf, its number among the leaves.
    leaf_number: Vec<u32>,
    /// The bounding box of every node.
    bounds: Vec<f64>,
}

impl<'a> PointIndex<'a> {
    pub fn new(near: Near<'a>, set: InstructionSet) -> Self {
        let tree = Tree::grow(&near);
        let nodes = tree.nodes.len();
        let leaves: Vec<usize> = (0..nodes).filter(|&n| tree.children(n).is_none()).collect();
        let blocks: Vec<PointBlock> = leaves
            .par_iter()
            .map(|&leaf| PointBlock::new(&near, &tree.order[tree.nodes[leaf].positions()]))
            .collect();
        let mut leaf_number = vec![u32::MAX; nodes];
        for (number, &leaf) in leaves.iter().enumerate() {
            leaf_number[leaf] = number as u32;
        }
        let mut index = Self { near, tree, set, leaves, blocks, leaf_number, bounds: Vec::new() };
        index.bounds = index.boxes();
        index
    }

    /// The points of a leaf.
    pub fn block(&self, leaf: usize) -> &PointBlock {
        &self.blocks[self.leaf_number[leaf] as usize]
    }

    /// The bounding box of a node: its least coordinates and its greatest.
    pub fn bounds(&self, node: usize) -> (&[f64], &[f64]) {
        let dim = self.near.dim();
        self.bounds[2 * dim * node..][..2 * dim].split_at(dim)
    }

    /// Children come after their node: from last to first, each box is the union of two finished
    /// ones.
    fn boxes(&self) -> Vec<f64> {
        let dim = self.near.dim();
        let mut boxes = empty_box(dim).repeat(self.tree.nodes.len());
        for node in (0..self.tree.nodes.len()).rev() {
            let (mine, after) = boxes[2 * dim * node..].split_at_mut(2 * dim);
            let Some(children) = self.tree.children(node) else {
                mine.copy_from_slice(&self.block(node).bounds);
                continue;
            };
            for child in children {
                let child = &after[2 * dim * (child - node - 1)..][..2 * dim];
                for k in 0..dim {
                    mine[k] = mine[k].min(child[k]);
                    mine[dim + k] = mine[dim + k].max(child[dim + k]);
                }
            }
        }
        boxes
    }
}
