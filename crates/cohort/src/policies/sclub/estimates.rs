//! The estimates of clusters, eight in SIMD lanes, for comparisons: most pairs are far apart, which
//! a few coordinates show.

use super::sets::Scales;
use crate::linear::Oful;
use crate::policies::shared::clubs::uncertainty;
use crate::simd::{F64x8, Kernel, LANES, Simd, run};

/// Lanes are compared up to rounding: pairs this close are compared again exactly.
const ROUNDING: f64 = 1e-9;

/// Coordinates after which clusters that cannot be close are dropped.
const AT_ONCE: usize = 4;

/// w_V and F(T_V) of all clusters.
#[derive(Clone)]
pub(super) struct ClusterEstimates {
    dim: usize,
    /// Blocks of eight clusters: a lane a coordinate, and one for F(T_V).
    lanes: Vec<F64x8>,
}

impl ClusterEstimates {
    pub(super) fn new(dim: usize) -> Self {
        Self { dim, lanes: Vec::new() }
    }

    /// Updates the estimate of a cluster.
    pub(super) fn set(&mut self, at: usize, sums: &Oful) {
        let (start, lane) = self.place(at);
        let end = start + self.dim + 1;
        if self.lanes.len() < end {
            self.lanes.resize(end, F64x8::splat(0.0));
        }
        let block = &mut self.lanes[start..end];
        for (lanes, coordinate) in block.iter_mut().zip(sums.estimate()) {
            lanes[lane] = *coordinate;
        }
        block[self.dim][lane] = uncertainty(sums.progress().updates);
    }

    /// F(T_V).
    pub(super) fn uncertainty(&self, at: usize) -> f64 {
        let (start, lane) = self.place(at);
        self.lanes[start + self.dim][lane]
    }

    fn place(&self, at: usize) -> (usize, usize) {
        (at / LANES * (self.dim + 1), at % LANES)
    }

    /// How far two estimates may be apart where clusters are to merge.
    pub(super) fn alike(&self, scales: &Scales, a: usize, b: usize) -> f64 {
        scales.estimates / 2.0 * (self.uncertainty(a) + self.uncertainty(b))
            + scales.tolerance / 2.0
    }

    /// All clusters that may be that close to one; includes itself and unused ones.
    pub(super) fn near(&self, at: usize, estimate: &[f64], scales: &Scales, near: &mut Vec<usize>) {
        near.clear();
        run(NearClusters { estimates: self, estimate, own: self.uncertainty(at), scales, near });
    }
}

struct NearClusters<'a> {
    estimates: &'a ClusterEstimates,
    estimate: &'a [f64],
    own: f64,
    scales: &'a Scales,
    near: &'a mut Vec<usize>,
}

impl Kernel for NearClusters<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ClusterEstimates { dim, lanes } = self.estimates;
        let own = simd.splat(self.own);
        let wide = 1.0 + ROUNDING;
        let scale = simd.splat(wide * self.scales.estimates / 2.0);
        let tolerance = simd.splat(wide * self.scales.tolerance / 2.0);
        'blocks: for (at, block) in lanes.chunks_exact(dim + 1).enumerate() {
            let (coordinates, uncertainty) = block.split_at(*dim);
            let unsure = simd.add(own, simd.load(&uncertainty[0]));
            let limit = simd.mul_add(scale, unsure, tolerance);
            // How much more than the limit the square of the distance is.
            let mut over = simd.sub_mul(limit, limit, simd.splat(0.0));
            for (mine, theirs) in self.estimate.chunks(AT_ONCE).zip(coordinates.chunks(AT_ONCE)) {
                for (mine, theirs) in mine.iter().zip(theirs) {
                    let apart = simd.sub(simd.splat(*mine), simd.load(theirs));
                    over = simd.mul_add(apart, apart, over);
                }
                if simd.all_up_to(over, f64::MAX) {
                    continue 'blocks;
                }
            }
            let mut left = F64x8::splat(0.0);
            simd.store(over, &mut left);
            let close = (0..LANES).filter(|lane| left[*lane] < 0.0);
            self.near.extend(close.map(|lane| at * LANES + lane));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::shared::clubs::distance_squared;
    use rand::{RngExt, SeedableRng};

    /// All clusters that are close by the plain formula are found, and hardly any other.
    #[test]
    fn the_near_ones_are_those_of_the_formula() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let scales = Scales { estimates: 0.7, frequencies: 1.0, tolerance: 0.1 };
        for (dim, clusters) in [(1, 9), (4, 17), (6, 40), (15, 64)] {
            let mut estimates = ClusterEstimates::new(dim);
            let mut sums: Vec<Oful> = vec![Oful::new(dim, 1.0); clusters];
            for (at, sums) in sums.iter_mut().enumerate() {
                for _ in 0..3 + 10 * (at % 7) {
                    let x: Vec<f64> = (0..dim).map(|_| rng.random_range(-1.0..1.0)).collect();
                    sums.learn(&x, x[0] * (at % 3) as f64);
                }
                estimates.set(at, sums);
            }
            let (mut near, mut found) = (Vec::new(), 0);
            for a in 0..clusters {
                estimates.near(a, sums[a].estimate(), &scales, &mut near);
                near.retain(|b| *b < clusters);
                let close = |b: &usize| {
                    distance_squared(sums[a].estimate(), sums[*b].estimate()).sqrt()
                        < estimates.alike(&scales, a, *b)
                };
                assert_eq!(near, (0..clusters).filter(close).collect::<Vec<_>>());
                found += near.len() - 1;
            }
            assert!(found > 0, "{dim}");
        }
    }
}
