//! Connected components of the γ-neighbour graph.

use super::partition::number_by_smallest_member;

/// The component of every point, numbered by smallest member, where points within `gamma` of
/// each other are joined. Exact and deterministic.
pub fn components(points: &[f64], dim: usize, gamma: f64) -> Vec<usize> {
    let count = points.len() / dim;
    let mut joined = UnionFind::new(count);
    let within = gamma * gamma;
    for i in 0..count {
        let a = &points[i * dim..(i + 1) * dim];
        for j in 0..i {
            let b = &points[j * dim..(j + 1) * dim];
            if joined.find(i) != joined.find(j) && distance_squared(a, b) <= within {
                joined.join(i, j);
            }
        }
    }
    let mut labels: Vec<usize> = (0..count).map(|i| joined.find(i)).collect();
    number_by_smallest_member(&mut labels);
    labels
}

fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Disjoint sets with path halving.
struct UnionFind {
    parent: Vec<usize>,
}

impl UnionFind {
    fn new(count: usize) -> Self {
        Self { parent: (0..count).collect() }
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.parent[at] != at {
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        self.parent[high] = low;
    }
}
