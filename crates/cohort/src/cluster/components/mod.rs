//! Connected components of the γ-neighbour graph, exact, without storing an edge.
//!
//! Points are put into the leaves of a k-d tree, up to 128 nearby points each. Edges are searched
//! for in three passes, each of which leaves less to the next: within leaves, from leaves into a
//! few near ones, and last from everything but the largest component into everything within reach.
//! An edge between points of the same component is never searched for, so a dense cluster costs
//! little more than reading it; the cost is in proving that the components are apart.
//!
//! Single precision proposes pairs, with a margin for its rounding; one function in f64 decides.
//! Threads join components in any order: the result is the same in every order.
//!
//! | file | question it answers |
//! | --- | --- |
//! | this one | in which passes are edges searched for? |
//! | `near` | when are two points neighbours? |
//! | `disjoint` | which points are connected so far? |
//! | `tree`, `block`, `index` | where are the points? |
//! | `leaf` | who are neighbours within a leaf? |
//! | `component_state`, `passes` | which points have to search other leaves? |
//! | `search`, `join` | how are other leaves searched? |
//! | `lanes`, `kernels` | how are many distances computed at once? |

mod block;
mod component_state;
mod disjoint;
mod index;
mod join;
mod kernels;
mod lanes;
mod leaf;
mod near;
mod passes;
mod search;
#[cfg(test)]
mod tests;
mod tree;

use super::partition::number_by_smallest_member;
use crate::simd::InstructionSet;
use component_state::ComponentState;
use disjoint::DisjointSets;
use index::PointIndex;
use leaf::join_within;
use near::Near;
use passes::{search_all_leaves, search_near_leaves};
use rayon::prelude::*;

/// The component of every point, numbered by smallest member, where points within `gamma` of
/// each other are joined.
///
/// Points i and j are joined if Σ_k (p_ik − p_jk)² ≤ γ² in f64, and through others. The answer is
/// exact, and the same with any instruction set and any number of threads. Memory beyond the points is
/// about 5·`dim` + 40 bytes a point.
///
/// # Panics
/// If `dim` is 0, or if there are 2³² − 1 points or more.
pub fn components(points: &[f64], dim: usize, gamma: f64) -> Vec<usize> {
    components_on(InstructionSet::best(), points, dim, gamma)
}

fn components_on(set: InstructionSet, points: &[f64], dim: usize, gamma: f64) -> Vec<usize> {
    let near = Near::new(points, dim, gamma);
    if near.count() == 0 {
        return vec![];
    }
    let index = PointIndex::new(near, set);
    let sets = DisjointSets::new(index.near.count());
    index.leaves.par_iter().for_each(|&leaf| join_within(&index, &sets, leaf));
    let state = join_most(&index, &sets);
    if state.components > 1 {
        search_all_leaves(&index, &sets, &state);
    }
    labels(&index, &sets)
}

/// How many leaves the first pass may visit.
const FIRST_VISITS: usize = 16;

/// Searches more and more near leaves, as long as that joins a good part of the remaining
/// components. With less than one component per four leaves, all leaves are searched at once.
fn join_most(index: &PointIndex, sets: &DisjointSets) -> ComponentState {
    let leaves = index.leaves.len();
    let mut state = ComponentState::take(index, sets);
    let mut visits = FIRST_VISITS;
    while visits < leaves / 2 && state.components > leaves / 4 {
        search_near_leaves(index, sets, &state, visits);
        let before = state.components;
        state = ComponentState::take(index, sets);
        if state.components > before - before / 10 {
            break;
        }
        visits *= 4;
    }
    state
}

fn labels(index: &PointIndex, sets: &DisjointSets) -> Vec<usize> {
    let mut labels = vec![0; index.near.count()];
    for (position, &point) in index.tree.order.iter().enumerate() {
        labels[point as usize] = sets.find(position as u32) as usize;
    }
    number_by_smallest_member(&mut labels);
    labels
}
