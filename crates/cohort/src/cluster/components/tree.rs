//! Which points lie together: a binary tree over them, cut along one coordinate at a time.

use super::lanes::MOST_POINTS;
use super::near::Near;

/// The points in an order in which every node is a range, and its nodes: each node is followed by
/// its left child's nodes, then its right child's.
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
    /// How many nodes after this one its right child comes; 0 for a leaf.
    skip: u32,
}

/// Points looked at to choose a cut.
const SAMPLE: usize = 64;
/// Deeper than this the points are halved without looking at them.
const DEEPEST_CUT: usize = 96;
/// Ranges shorter than this are cut on one thread.
const PARALLEL: usize = 8192;

impl Tree {
    /// Cuts until every leaf is small enough.
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
        // Children come after their node: from the last to the first, theirs are ready.
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

/// Points whose coordinate is at most `at` go left.
#[derive(Clone, Copy)]
struct Cut {
    coordinate: usize,
    at: f64,
    /// How many of the sample go to the smaller side.
    balance: usize,
}

impl Cut {
    /// Reorders the points; returns how many went left. Both sides get some.
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

/// Along the coordinate of greatest variance, in the widest gap of the middle half of a sample:
/// clusters are cut apart rather than through. Where ties leave no such gap, the next coordinate is
/// tried, and the most even cut taken in the end. `None` if the sample is one point.
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

/// Points picked by a fixed hash: a regular step could fall in with a rhythm of the input.
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

/// The widest gap with a quarter of the sample on each side, or else the most even cut.
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
