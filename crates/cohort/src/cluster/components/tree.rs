//! A k-d tree over the points: each node is split along one coordinate.

use super::lanes::MOST_POINTS;
use super::near::Near;

/// The points in an order in which every node is a range, and the nodes in pre-order: each is
/// followed by its left child's nodes, then its right child's.
pub(super) struct Tree {
    /// The point at every position.
    pub order: Vec<u32>,
    pub nodes: Vec<Node>,
}

/// A range of positions; a leaf has at most [`MOST_POINTS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub start: u32,
    pub end: u32,
    /// The offset of the right child among the nodes; 0 for a leaf.
    skip: u32,
}

/// How many points are sampled to choose a split.
const SAMPLE: usize = 64;
/// Below this depth points are halved without looking at them.
const DEEPEST_CUT: usize = 96;
/// Ranges shorter than this are split on one thread.
const PARALLEL: usize = 8192;

impl Tree {
    /// Splits until every leaf is small enough.
    pub fn grow(near: &Near) -> Self {
        let mut order: Vec<u32> = (0..near.count() as u32).collect();
        let nodes = grow(near, &mut order, 0, 0);
        Self { order, nodes }
    }

    /// The two children of a node, unless it is a leaf.
    pub fn children(&self, node: usize) -> Option<[usize; 2]> {
        let skip = self.nodes[node].skip as usize;
        (skip > 0).then_some([node + 1, node + skip])
    }

    /// A value for every node: a leaf's from the leaf, any other from those of its children.
    pub fn fold<T: Copy>(&self, leaf: impl Fn(Node) -> T, join: impl Fn(T, T) -> T) -> Vec<T> {
        // Children come after their node: from last to first, their values are finished.
        let mut backwards: Vec<T> = Vec::with_capacity(self.nodes.len());
        for node in (0..self.nodes.len()).rev() {
            let ready = |child: usize| backwards[self.nodes.len() - 1 - child];
            let value = match self.children(node) {
                None => leaf(self.nodes[node]),
                Some([left, right]) => join(ready(left), ready(right)),
            };
            backwards.push(value);
        }
        backwards.reverse();
        backwards
    }
}

impl Node {
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

fn grow(near: &Near, order: &mut [u32], start: u32, depth: usize) -> Vec<Node> {
    let node = Node { start, end: start + order.len() as u32, skip: 0 };
    if order.len() <= MOST_POINTS {
        return vec![node];
    }
    let cut = if depth < DEEPEST_CUT { choose_cut(near, order) } else { None };
    let left_len = cut.map_or(order.len() / 2, |cut| cut.apply(near, order));
    let parallel = order.len() >= PARALLEL;
    let (left, right) = order.split_at_mut(left_len);
    let mut grow_left = || grow(near, left, start, depth + 1);
    let mut grow_right = || grow(near, right, start + left_len as u32, depth + 1);
    let (left, right) =
        if parallel { rayon::join(grow_left, grow_right) } else { (grow_left(), grow_right()) };
    let mut nodes = Vec::with_capacity(1 + left.len() + right.len());
    nodes.push(Node { skip: 1 + left.len() as u32, ..node });
    nodes.extend(left);
    nodes.extend(right);
    nodes
}

/// A split: points whose coordinate is at most `at` go left.
#[derive(Clone, Copy)]
struct Cut {
    coordinate: usize,
    at: f64,
    /// How many points of the sample go to the smaller side.
    balance: usize,
}

impl Cut {
    /// Reorders the points; returns how many went left. Neither side is empty.
    fn apply(&self, near: &Near, order: &mut [u32]) -> usize {
        let goes_left = |point: u32| near.point(point)[self.coordinate] <= self.at;
        let (mut left, mut right) = (0, order.len());
        loop {
            while left < right && goes_left(order[left]) {
                left += 1;
            }
            while left < right && !goes_left(order[right - 1]) {
                right -= 1;
            }
            if left == right {
                return left;
            }
            order.swap(left, right - 1);
        }
    }
}

/// Splits along the coordinate of greatest variance, in the widest gap of the middle half of a
/// sample: between clusters rather than through them. Where ties leave no such gap, the next
/// coordinate is tried, and in the end the most even split is taken. `None` if the sample is one
/// point.
fn choose_cut(near: &Near, order: &[u32]) -> Option<Cut> {
    let sample = sample(order);
    let mut coordinates: Vec<(f64, usize)> =
        (0..near.dim()).map(|k| (variance(near, &sample, k), k)).collect();
    coordinates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut most_even: Option<Cut> = None;
    for (_, coordinate) in coordinates {
        let Some(cut) = widest_gap(near, &sample, coordinate) else { continue };
        if cut.balance >= SAMPLE / 4 {
            return Some(cut);
        }
        if most_even.is_none_or(|best| cut.balance > best.balance) {
            most_even = Some(cut);
        }
    }
    most_even
}

/// Points sampled by a fixed hash: a regular step could resonate with a pattern in the input.
fn sample(order: &[u32]) -> [u32; SAMPLE] {
    let mut state = order.len() as u64;
    std::array::from_fn(|_| {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order[((bits ^ (bits >> 31)) % order.len() as u64) as usize]
    })
}

fn variance(near: &Near, sample: &[u32; SAMPLE], coordinate: usize) -> f64 {
    let scale = near.unit().scale;
    let value = |point: &u32| near.point(*point)[coordinate] * scale;
    let mean = sample.iter().map(value).sum::<f64>() / SAMPLE as f64;
    sample.iter().map(|point| (value(point) - mean) * (value(point) - mean)).sum()
}

/// The widest gap with a quarter of the sample on each side, or else the most even split.
fn widest_gap(near: &Near, sample: &[u32; SAMPLE], coordinate: usize) -> Option<Cut> {
    let mut values = sample.map(|point| near.point(point)[coordinate]);
    values.sort_unstable_by(f64::total_cmp);
    let cuts = (1..SAMPLE).filter(|&i| values[i - 1] < values[i]).map(|i| {
        let balance = i.min(SAMPLE - i);
        let gap = if balance >= SAMPLE / 4 { values[i] - values[i - 1] } else { 0.0 };
        (gap, Cut { coordinate, at: between(values[i - 1], values[i]), balance })
    });
    cuts.max_by(|(gap, cut), (other_gap, other)| {
        gap.total_cmp(other_gap).then(cut.balance.cmp(&other.balance))
    })
    .map(|(_, cut)| cut)
}

/// A number in [a, b), near the middle; a < b.
fn between(a: f64, b: f64) -> f64 {
    let middle = 0.5 * a + 0.5 * b;
    if (a..b).contains(&middle) { middle } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[f64], dim: usize) -> Tree {
        let near = Near::new(points, dim, 1.0);
        let tree = Tree::grow(&near);
        let mut order = tree.order.clone();
        order.sort();
        assert!(order.iter().copied().eq(0..near.count() as u32), "every point once");
        for node in 0..tree.nodes.len() {
            let range = tree.nodes[node].positions();
            match tree.children(node) {
                None => assert!((1..=MOST_POINTS).contains(&range.len())),
                Some([left, right]) => {
                    let (left, right) = (tree.nodes[left], tree.nodes[right]);
                    assert_eq!((left.start, right.end), (range.start as u32, range.end as u32));
                    assert_eq!(left.end, right.start);
                }
            }
        }
        tree
    }

    #[test]
    fn every_range_is_cut_into_two_until_it_is_small() {
        check(&[1.0], 1);
        check(&vec![0.5; 1000], 1);
        check(&(0..1000).map(f64::from).collect::<Vec<_>>(), 2);
        // Most of the points are the same one, and the others are ever smaller.
        let mut lopsided = vec![0.0; 5000];
        lopsided.extend((0..1000).map(|i| 2f64.powi(-i)));
        check(&lopsided, 1);
        check(&[f64::MAX, f64::MIN, 5e-324, -5e-324].repeat(100), 1);
    }

    #[test]
    fn clusters_are_cut_apart() {
        // Two clusters of unequal size: no leaf has points of both.
        let points: Vec<f64> = (0..3000)
            .map(|i| f64::from(i % 97) / 97.0 + if i % 3 == 0 { 50.0 } else { 0.0 })
            .collect();
        let tree = check(&points, 1);
        for node in (0..tree.nodes.len()).filter(|&node| tree.children(node).is_none()) {
            let mut sides =
                tree.order[tree.nodes[node].positions()].iter().map(|p| points[*p as usize] > 25.0);
            let first = sides.next();
            assert!(sides.all(|side| Some(side) == first));
        }
    }

    #[test]
    fn a_fold_sees_every_position_once() {
        let tree = check(&(0..1000).map(f64::from).collect::<Vec<_>>(), 1);
        let counts = tree.fold(|leaf| leaf.positions().len(), |left, right| left + right);
        for (count, node) in counts.into_iter().zip(&tree.nodes) {
            assert_eq!(count, node.positions().len());
        }
    }
}
