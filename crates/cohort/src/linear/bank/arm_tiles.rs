//! The arms of a round, prepared once for all learners.

use super::layout::Layout;
use crate::linear::{Shape, dot};
use crate::{Arm, Contexts};

/// The tile sizes that kernels are compiled for.
pub const TILES: [usize; 7] = [1, 2, 4, 6, 8, 10, 13];

/// The arms of a round as weights against the coefficients of a block: ⟨x, θ̂⟩ and xᵀV⁻¹x are sums
/// of products of the two.
///
/// Arms are grouped into tiles of as many as a kernel scores at once, and inside a tile the weights
/// of one coefficient are contiguous. The last tile is padded with arms that are never chosen.
#[derive(Clone)]
pub struct ArmTiles {
    /// The layout of blocks in the arms' own dimension.
    pub layout: Layout,
    /// Arms per tile.
    pub tile: usize,
    /// The number of tiles.
    pub tiles: usize,
    /// packed(xxᵀ), off-diagonals doubled: `outer[tile][coefficient][arm]`; empty for balls.
    pub outer: Vec<f64>,
    /// `x[tile][coordinate][arm]`.
    pub x: Vec<f64>,
    /// ‖x‖ of every arm; empty for ellipsoids.
    pub length: Vec<f64>,
    /// Whether the bonus is xᵀV⁻¹x and not its square root.
    pub squared: bool,
    /// Added to the score of every arm: −∞ for padding.
    pub offset: Vec<f64>,
}

impl ArmTiles {
    /// Prepares contexts in tiles of at most `widest` arms.
    pub fn new(contexts: &Contexts, shape: Shape, offsets: Option<&[f64]>, widest: usize) -> Self {
        let layout = Layout::new(contexts.dim());
        let arms = contexts.arms();
        let tiles = arms.div_ceil(widest);
        let wanted = arms.div_ceil(tiles);
        let tile = TILES.into_iter().find(|tile| *tile >= wanted).unwrap_or(widest);

        let mut x = vec![0.0; tiles * layout.dim * tile];
        for (arm, context) in contexts.iter().enumerate() {
            let of_tile = &mut x[arm / tile * layout.dim * tile..];
            for (k, value) in context.iter().enumerate() {
                of_tile[k * tile + arm % tile] = *value;
            }
        }
        let mut offset = vec![f64::NEG_INFINITY; tiles * tile];
        match offsets {
            Some(offsets) => offset[..arms].copy_from_slice(offsets),
            None => offset[..arms].fill(0.0),
        }
        let (mut outer, mut length) = (Vec::new(), Vec::new());
        match shape {
            Shape::Ellipsoid | Shape::Squared => outer = outer_doubled(&x, tile, layout),
            Shape::Ball { .. } => {
                length = contexts.iter().map(euclidean).collect();
                length.resize(tiles * tile, 0.0);
            }
        }
        let squared = shape == Shape::Squared;
        Self { layout, tile, tiles, outer, x, length, squared, offset }
    }

    /// The number of arms, padding included.
    pub fn arms(&self) -> Arm {
        self.tiles * self.tile
    }
}

/// ‖x‖.
pub fn euclidean(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// packed(xxᵀ) of all arms, off-diagonals doubled, from their coordinates in tiles.
fn outer_doubled(x: &[f64], tile: usize, layout: Layout) -> Vec<f64> {
    let mut outer = Vec::with_capacity(x.len() / layout.dim * layout.packed);
    for x in x.chunks_exact(layout.dim * tile) {
        for i in 0..layout.dim {
            let (before, rest) = x.split_at(i * tile);
            let x_i = &rest[..tile];
            for x_j in before.chunks_exact(tile) {
                outer.extend(x_i.iter().zip(x_j).map(|(x_i, x_j)| 2.0 * x_i * x_j));
            }
            outer.extend(x_i.iter().map(|x_i| x_i * x_i));
        }
    }
    outer
}
