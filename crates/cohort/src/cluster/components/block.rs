//! Blocks of points for the neighbour search: up to 128 points in single precision, relative to
//! their centre.

use super::lanes::{MOST_POINTS, Mask, WIDTH, members};
use super::near::Near;
use crate::simd::F32x16;

/// Up to [`MOST_POINTS`] points by lanes, in search units, relative to their centre. Points far
/// from the origin but near each other keep their digits in f32 that way.
pub(super) struct PointBlock {
    pub count: usize,
    /// Vectors per row.
    pub vectors: usize,
    /// Row 0: |v|²/2; row 1 + k: coordinate k.
    pub lanes: Vec<F32x16>,
    pub centre: Vec<f64>,
    /// The largest distance of a point from the centre.
    pub radius: f64,
    /// The bounding box: first the least coordinates, then the greatest.
    pub bounds: Vec<f64>,
}

impl PointBlock {
    pub fn new(near: &Near, points: &[u32]) -> Self {
        debug_assert!((1..=MOST_POINTS).contains(&points.len()));
        let (dim, scale) = (near.dim(), near.unit().scale);
        let (centre, bounds) = centre_and_bounds(near, points);
        let vectors = points.len().div_ceil(WIDTH);
        let mut lanes = vec![F32x16::splat(0.0); vectors * (dim + 1)];
        lanes[..vectors].fill(F32x16::splat(f32::INFINITY));
        let mut radius_squared = 0.0_f64;
        for (l, &point) in points.iter().enumerate() {
            let (v, lane) = (l / WIDTH, l % WIDTH);
            let mut square = 0.0;
            for (k, (x, centre)) in near.point(point).iter().zip(&centre).enumerate() {
                let x = x * scale - centre;
                lanes[(1 + k) * vectors + v].0[lane] = x as f32;
                square += x * x;
            }
            lanes[v].0[lane] = (0.5 * square) as f32;
            radius_squared = radius_squared.max(square);
        }
        let radius = radius_squared.sqrt() * (1.0 + 1e-6);
        Self { count: points.len(), vectors, lanes, centre, radius, bounds }
    }

    /// The point of a group that is nearest to the centre; 0 if the group is empty.
    pub fn nearest_to_centre(&self, group: Mask) -> usize {
        let half_square = |l: &usize| self.lanes[l / WIDTH].0[l % WIDTH];
        members(group).min_by(|a, b| half_square(a).total_cmp(&half_square(b))).unwrap_or(0)
    }
}

fn centre_and_bounds(near: &Near, points: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let (dim, scale) = (near.dim(), near.unit().scale);
    let mut centre = vec![0.0; dim];
    let mut bounds = empty_box(dim);
    let (low, high) = bounds.split_at_mut(dim);
    for &point in points {
        for (k, x) in near.point(point).iter().enumerate() {
            let x = x * scale;
            centre[k] += x;
            low[k] = low[k].min(x);
            high[k] = high[k].max(x);
        }
    }
    centre.iter_mut().for_each(|sum| *sum /= points.len() as f64);
    (centre, bounds)
}

/// The empty bounding box.
pub(super) fn empty_box(dim: usize) -> Vec<f64> {
    let mut bounds = vec![f64::INFINITY; 2 * dim];
    bounds[dim..].fill(f64::NEG_INFINITY);
    bounds
}

/// An upper bound on half the squared distance that the kernels may compute for two points at most
/// `distance` apart, where `reach` bounds the sum of all lengths involved: the radii of both blocks
/// and the distance of their centres.
/// Coordinates, offset and shifted coordinates are each rounded to 24 bits, which moves a point by
/// less than 2⁻²²·reach; sums of dim products of numbers within reach are off by less than (dim +
/// 4)·2⁻²⁵·reach² each. The rest is a safety margin, also for numbers below the range of f32 and
/// for the rounding of `Near` itself.
pub(super) fn half_square(distance: f64, reach: f64, dim: usize) -> f64 {
    let moved = distance + 2f64.powi(-22) * reach + 2f64.powi(-110);
    let rounded = (dim + 8) as f64 * 2f64.powi(-24);
    0.5 * moved * moved * (1.0 + 2f64.powi(-20)) + rounded * reach * reach + 2f64.powi(-100)
}

/// An upper bound on the squared distance that the kernels may compute from a point to a box at
/// most `distance` away, where `radius` bounds the point's coordinates.
/// A coordinate outside the box by at most `distance` is off by less than 2⁻²³·(radius + distance)
/// after rounding; one inside stays inside, since rounding keeps order.
pub(super) fn square_to_box(distance: f64, radius: f64, dim: usize) -> f64 {
    let dim = dim as f64;
    let moved = distance + dim.sqrt() * 2f64.powi(-22) * (radius + distance) + 2f64.powi(-110);
    moved * moved * (1.0 + (dim + 8.0) * 2f64.powi(-22)) + 2f64.powi(-100)
}
