//! Which points search other leaves: first a few, in near leaves; then all that must, everywhere.

use super::block::PointBlock;
use super::component_state::ComponentState;
use super::disjoint::DisjointSets;
use super::index::PointIndex;
use super::join::{BlockPoints, Scratch};
use super::lanes::{MOST_POINTS, Mask, first};
use super::search::{QueryBlock, Ranks, Search};
use rayon::prelude::*;

/// From every leaf, the points outside its leading component search near leaves. One point searches
/// for the whole leading component: one edge is enough to join it to another.
pub(super) fn search_near_leaves(
    index: &PointIndex,
    sets: &DisjointSets,
    state: &ComponentState,
    visits: usize,
) {
    let search = Search::new(index, sets, state, state.leading_roots(index));
    index.leaves.par_iter().for_each(|&leaf| {
        let node = index.tree.nodes[leaf];
        let block = index.block(leaf);
        let positions: Vec<u32> = (node.start..node.end).collect();
        let mut led: Mask = 0;
        for (l, root) in state.roots[node.positions()].iter().enumerate() {
            led |= Mask::from(*root == state.leader(leaf)) << l;
        }
        let active = first(block.count) & !led | 1 << block.nearest_to_centre(led);
        let mut queries = QueryBlock {
            points: BlockPoints::new(block, &positions),
            ranks: None,
            own: Some(leaf),
            visits,
            scratch: Scratch::new(index.near.dim()),
        };
        search.descend(&mut queries, 0, active);
    });
}

/// Of two components the lower-ranked searches for the higher, in all leaves within reach: that
/// finds every edge between components, and the largest component never searches.
pub(super) fn search_all_leaves(index: &PointIndex, sets: &DisjointSets, state: &ComponentState) {
    let search = Search::new(index, sets, state, state.common_roots(index));
    let top = state.highest[0];
    let asks = |at: &usize| state.rank(*at) < top;
    query_nodes(index, asks).par_iter().for_each(|&node| {
        let is_leaf = index.tree.children(node).is_none();
        let members = index.tree.nodes[node].positions();
        let positions: Vec<u32> =
            members.filter(|at| is_leaf || asks(at)).map(|at| at as u32).collect();
        let gathered;
        let block = if is_leaf {
            index.block(node)
        } else {
            let points: Vec<u32> =
                positions.iter().map(|at| index.tree.order[*at as usize]).collect();
            gathered = PointBlock::new(&index.near, &points);
            &gathered
        };
        let ranks = positions.iter().map(|at| state.rank(*at as usize)).collect();
        let mut queries = QueryBlock {
            points: BlockPoints::new(block, &positions),
            ranks: Some(Ranks::new(ranks)),
            own: is_leaf.then_some(node),
            visits: usize::MAX,
            scratch: Scratch::new(index.near.dim()),
        };
        search.descend(&mut queries, 0, first(positions.len()));
    });
}

/// Nodes that hold all queries, each with as many as fit one block: the fewer queries there are,
/// the more leaves are taken together.
fn query_nodes(index: &PointIndex, asks: impl Fn(&usize) -> bool) -> Vec<usize> {
    let queries =
        index.tree.fold(|leaf| leaf.positions().filter(&asks).count(), |left, right| left + right);
    let mut query_nodes = vec![];
    let mut to_split = vec![0];
    while let Some(node) = to_split.pop() {
        match index.tree.children(node) {
            Some([left, right]) if queries[node] > MOST_POINTS => to_split.extend([right, left]),
            _ if queries[node] > 0 => query_nodes.push(node),
            _ => {}
        }
    }
    query_nodes
}
