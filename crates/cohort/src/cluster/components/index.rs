//! All points made ready for searching: the tree, its boxes, and a block a leaf.

use super::block::{PointBlock, empty_box};
use super::lanes::Processor;
use super::near::Near;
use super::tree::Tree;
use rayon::prelude::*;

pub(super) struct Index<'a> {
    pub near: Near<'a>,
    pub tree: Tree,
    pub processor: Processor,
    /// The leaves' nodes.
    pub leaves: Vec<usize>,
    /// The leaves' points.
    blocks: Vec<PointBlock>,
    /// The number among the leaves of every node that is one.
    leaf_number: Vec<u32>,
    /// The box of every node.
    bounds: Vec<f64>,
}

impl<'a> Index<'a> {
    pub fn new(near: Near<'a>, processor: Processor) -> Self {
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
        let mut index =
            Self { near, tree, processor, leaves, blocks, leaf_number, bounds: Vec::new() };
        index.bounds = index.boxes();
        index
    }

    /// The points of a leaf.
    pub fn block(&self, leaf: usize) -> &PointBlock {
        &self.blocks[self.leaf_number[leaf] as usize]
    }

    /// The box of a node: its least coordinates and its greatest.
    pub fn bounds(&self, node: usize) -> (&[f64], &[f64]) {
        let dim = self.near.dim();
        self.bounds[2 * dim * node..][..2 * dim].split_at(dim)
    }

    /// Children come after their node: from the last to the first, each box is made of two ready
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
