//! Three SIMD kernels over the points of a block, in single precision: shift a block, find the
//! points near a box, find the neighbours of some queries in another block.
//!
//! The kernels only propose candidates: a pair that passes is decided by `Near`, and the limits
//! allow for rounding. So every instruction set gives the same components.
//!
//! A block of n points is stored by rows of ⌈n/16⌉ vectors: first |v|²/2 of every point v, then the
//! first coordinate of every point, then the second, and so on. Lanes beyond n have |v|²/2 = ∞, so
//! that no query is near them.

use super::lanes::{MOST_VECTORS, Mask, Row, WIDTH};
use crate::simd::{F32x16, Kernel, Simd};

/// Shifts the points of a block by an offset, into the frame of another block: `moved` are the
/// coordinates x there, `limits` are `within` − |x|²/2. Returns the `wanted` points with |x|²/2 not
/// above `ball`. Vectors without a wanted point are skipped.
pub(super) struct Shift<'a> {
    pub lanes: &'a [F32x16],
    pub vectors: usize,
    pub wanted: Mask,
    pub offset: &'a [f32],
    pub ball: f32,
    pub within: f32,
    pub moved: &'a mut [Row],
    pub limits: &'a mut Row,
}

impl Kernel for Shift<'_> {
    type Output = Mask;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Mask {
        let coordinates = &self.lanes[self.vectors..];
        let mut near = 0;
        for v in vectors_of(self.wanted, self.vectors) {
            let mut squares = simd.splat_f32(0.0);
            let rows = coordinates.chunks_exact(self.vectors);
            for ((row, offset), moved) in rows.zip(self.offset).zip(self.moved.iter_mut()) {
                let x = simd.add_f32(simd.load_f32(&row[v]), simd.splat_f32(*offset));
                squares = simd.mul_add_f32(x, x, squares);
                simd.store_f32(x, &mut moved[v]);
            }
            let half = simd.mul_add_f32(squares, simd.splat_f32(0.5), simd.splat_f32(0.0));
            let limit = simd.sub_f32(simd.splat_f32(self.within), half);
            simd.store_f32(limit, &mut self.limits[v]);
            let inside = simd.not_above_f32(half, simd.splat_f32(self.ball));
            near |= Mask::from(inside) << (WIDTH * v);
        }
        near & self.wanted
    }
}

/// The `wanted` points whose squared distance to a box is not above a limit.
pub(super) struct NearBox<'a> {
    pub lanes: &'a [F32x16],
    pub vectors: usize,
    pub wanted: Mask,
    pub low: &'a [f32],
    pub high: &'a [f32],
    pub limit: f32,
}

impl Kernel for NearBox<'_> {
    type Output = Mask;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Mask {
        let coordinates = &self.lanes[self.vectors..];
        let mut near = 0;
        for v in vectors_of(self.wanted, self.vectors) {
            let mut squares = simd.splat_f32(0.0);
            let rows = coordinates.chunks_exact(self.vectors);
            for ((row, low), high) in rows.zip(self.low).zip(self.high) {
                let x = simd.load_f32(&row[v]);
                let below = simd.sub_f32(simd.splat_f32(*low), x);
                let above = simd.sub_f32(x, simd.splat_f32(*high));
                let outside = simd.max_f32(simd.max_f32(below, above), simd.splat_f32(0.0));
                squares = simd.mul_add_f32(outside, outside, squares);
            }
            let inside = simd.not_above_f32(squares, simd.splat_f32(self.limit));
            near |= Mask::from(inside) << (WIDTH * v);
        }
        near & self.wanted
    }
}

/// The most queries that are compared with a block at once.
pub(super) const AT_ONCE: usize = 8;

/// For each query x, the points v of a block with |v|²/2 − x·v not above the query's limit; with
/// limit = γ²/2 − |x|²/2 those are the v with |x − v|² ≤ γ².
pub(super) struct Neighbours<'a> {
    pub lanes: &'a [F32x16],
    pub vectors: usize,
    /// The coordinates of the queries, in the frame of the block.
    pub moved: &'a [Row],
    /// Which points of `moved` are queries; at most [`AT_ONCE`].
    pub queries: &'a [u8],
    pub limits: &'a Row,
}

impl Kernel for Neighbours<'_> {
    type Output = [Mask; AT_ONCE];

    /// A tile of queries × vectors stays in registers: each coordinate of the block is loaded once
    /// for all queries of the tile. Where too few queries are left, the last one is repeated.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [Mask; AT_ONCE] {
        let mut met = [[0; MOST_VECTORS]; AT_ONCE];
        let mut queries = [self.queries.last().copied().unwrap_or(0); AT_ONCE];
        queries[..self.queries.len()].copy_from_slice(self.queries);
        let mut from = 0;
        while from < self.queries.len() {
            let left = self.queries.len() - from;
            let (queries, met) = (&queries[from..], &mut met[from..]);
            from += match left {
                5.. if S::REGISTERS >= 32 => self.compare::<S, 8, 2>(simd, queries, met),
                3.. if S::REGISTERS >= 32 => self.compare::<S, 4, 2>(simd, queries, met),
                3.. if S::REGISTERS >= 8 => self.compare::<S, 4, 1>(simd, queries, met),
                2.. if S::REGISTERS >= 32 => self.compare::<S, 2, 4>(simd, queries, met),
                2.. => self.compare::<S, 2, 1>(simd, queries, met),
                _ if S::REGISTERS >= 8 => self.compare::<S, 1, 4>(simd, queries, met),
                _ => self.compare::<S, 1, 2>(simd, queries, met),
            };
        }
        met.map(|bits| {
            (0..MOST_VECTORS).fold(0, |mask, v| mask | Mask::from(bits[v]) << (WIDTH * v))
        })
    }
}

impl Neighbours<'_> {
    /// The first Q queries against the whole block, W vectors at a time. Returns Q.
    #[inline(always)]
    fn compare<S: Simd, const Q: usize, const W: usize>(
        &self,
        simd: S,
        queries: &[u8],
        met: &mut [[u16; MOST_VECTORS]],
    ) -> usize {
        let queries = queries.first_chunk::<Q>().expect("room for a tile");
        let met = met.first_chunk_mut::<Q>().expect("room for a tile");
        let mut v = 0;
        while v + W <= self.vectors {
            self.tile::<S, Q, W>(simd, queries, v, met);
            v += W;
        }
        while W > 2 && v + 2 <= self.vectors {
            self.tile::<S, Q, 2>(simd, queries, v, met);
            v += 2;
        }
        while v < self.vectors {
            self.tile::<S, Q, 1>(simd, queries, v, met);
            v += 1;
        }
        Q
    }

    /// Q queries against W vectors from the v-th on.
    #[inline(always)]
    fn tile<S: Simd, const Q: usize, const W: usize>(
        &self,
        simd: S,
        queries: &[u8; Q],
        v: usize,
        met: &mut [[u16; MOST_VECTORS]; Q],
    ) {
        let (half, coordinates) = self.lanes.split_at(self.vectors);
        let lane = |row: &Row, query: u8| {
            row[usize::from(query) / WIDTH % MOST_VECTORS].0[usize::from(query) % WIDTH]
        };
        let mut sums = [[simd.splat_f32(0.0); W]; Q];
        for q in 0..Q {
            for w in 0..W {
                sums[q][w] = simd.load_f32(&half[v + w]);
            }
        }
        for (row, moved) in coordinates.chunks_exact(self.vectors).zip(self.moved) {
            let mut block = [simd.splat_f32(0.0); W];
            for w in 0..W {
                block[w] = simd.load_f32(&row[v + w]);
            }
            for q in 0..Q {
                let x = simd.splat_f32(lane(moved, queries[q]));
                for w in 0..W {
                    sums[q][w] = simd.sub_mul_f32(x, block[w], sums[q][w]);
                }
            }
        }
        for q in 0..Q {
            let limit = simd.splat_f32(lane(self.limits, queries[q]));
            for w in 0..W {
                met[q][v + w] = simd.not_above_f32(sums[q][w], limit);
            }
        }
    }
}

/// The vectors that hold a wanted point.
#[inline(always)]
fn vectors_of(wanted: Mask, vectors: usize) -> impl Iterator<Item = usize> {
    (0..vectors).filter(move |v| (wanted >> (WIDTH * v)) as u16 != 0)
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{MOST_POINTS, first};
    use super::*;
    use crate::simd::InstructionSet;

    const DIM: usize = 5;

    /// Small whole numbers: every sum is exact, so every instruction set must find exactly the same.
    fn coordinate(point: usize, k: usize) -> f32 {
        ((point * 7 + k * 11 + point * k) % 9) as f32 - 4.0
    }

    fn block(count: usize) -> (usize, Vec<F32x16>) {
        let vectors = count.div_ceil(WIDTH);
        let mut lanes = vec![F32x16::splat(0.0); vectors * (DIM + 1)];
        lanes[..vectors].fill(F32x16::splat(f32::INFINITY));
        for l in 0..count {
            let (v, lane) = (l / WIDTH, l % WIDTH);
            lanes[v].0[lane] = (0..DIM).map(|k| 0.5 * coordinate(l, k).powi(2)).sum();
            for k in 0..DIM {
                lanes[(1 + k) * vectors + v].0[lane] = coordinate(l, k);
            }
        }
        (vectors, lanes)
    }

    fn those(count: usize, keep: impl Fn(usize) -> bool) -> Mask {
        (0..count).filter(|l| keep(*l)).fold(0, |mask, l| mask | 1 << l)
    }

    #[test]
    fn moved_points_meet_exactly_their_neighbours() {
        let offset = [1.0, 0.0, -2.0, 3.0, 0.0];
        let moved_square =
            |l: usize| -> f32 { (0..DIM).map(|k| (coordinate(l, k) + offset[k]).powi(2)).sum() };
        let distance_square = |l: usize, m: usize| -> f32 {
            (0..DIM).map(|k| (coordinate(l, k) + offset[k] - coordinate(m, k)).powi(2)).sum()
        };
        for set in InstructionSet::available() {
            for (count, targets) in [(1, 128), (16, 17), (37, 90), (128, 1)] {
                let (vectors, lanes) = block(count);
                let mut moved = vec![[F32x16::splat(0.0); MOST_VECTORS]; DIM];
                let mut limits = [F32x16::splat(0.0); MOST_VECTORS];
                let in_ball = set.run(Shift {
                    lanes: &lanes,
                    vectors,
                    wanted: first(count),
                    offset: &offset,
                    ball: 25.0,
                    within: 18.0, // distance 6
                    moved: &mut moved,
                    limits: &mut limits,
                });
                assert_eq!(in_ball, those(count, |l| moved_square(l) <= 50.0));
                let (target_vectors, target_lanes) = block(targets);
                let queries: Vec<u8> = (0..count as u8).collect();
                for queries in queries.chunks(AT_ONCE) {
                    let met = set.run(Neighbours {
                        lanes: &target_lanes,
                        vectors: target_vectors,
                        moved: &moved,
                        queries,
                        limits: &limits,
                    });
                    for (&query, met) in queries.iter().zip(met) {
                        let near = |m| distance_square(query.into(), m) <= 36.0;
                        assert_eq!(met, those(targets, near), "{set:?}, {query}");
                    }
                }
            }
        }
    }

    #[test]
    fn points_near_a_box_are_found_among_the_wanted() {
        let (low, high) = ([-1.0, -4.0, 2.0, 0.0, -3.0], [0.0, 4.0, 3.0, 1.0, -3.0]);
        let square = |l: usize| -> f32 {
            let outside = |k: usize| {
                let x = coordinate(l, k);
                (low[k] - x).max(x - high[k]).max(0.0)
            };
            (0..DIM).map(|k| outside(k).powi(2)).sum()
        };
        let (vectors, lanes) = block(MOST_POINTS);
        let wanted = those(MOST_POINTS, |l| l % 3 != 0 && l / WIDTH != 2);
        for set in InstructionSet::available() {
            let (low, high) = (&low, &high);
            let near = set.run(NearBox { lanes: &lanes, vectors, wanted, low, high, limit: 30.0 });
            assert_eq!(near, wanted & those(MOST_POINTS, |l| square(l) <= 30.0));
            assert_ne!(near, wanted);
            assert_ne!(near, 0);
        }
    }
}
