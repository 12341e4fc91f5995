//! Three loops over the lanes of a block: move it, see who is near a box, let some meet another.
//!
//! A block of n points is stored by rows of ⌈n/16⌉ `Lanes`: first |v|²/2 of every point v, then the
//! first coordinate of every point, then the second, and so on. Lanes beyond n have |v|²/2 = ∞: no
//! point is near them.

use super::vector::Vector;
use super::{Lanes, Loop, MOST_VECTORS, Mask, Row, WIDTH};

/// Moves the points of a block by an offset, and prepares them to meet another block in whose frame
/// they are then: `moved` are their coordinates x there, `limits` are `within` − |x|²/2. Returns the
/// `wanted` points with |x|²/2 not above `ball`. Vectors of lanes without a wanted point are left
/// alone.
pub(in super::super) struct Shift<'a> {
    pub lanes: &'a [Lanes],
    pub vectors: usize,
    pub wanted: Mask,
    pub offset: &'a [f32],
    pub ball: f32,
    pub within: f32,
    pub moved: &'a mut [Row],
    pub limits: &'a mut Row,
}

impl Loop for Shift<'_> {
    type Output = Mask;

    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> Mask {
        let coordinates = &self.lanes[self.vectors..];
        let mut near = 0;
        for v in vectors_of(self.wanted, self.vectors) {
            // SAFETY: the caller vouches for the processor.
            unsafe {
                let mut squares = V::splat(0.0);
                let rows = coordinates.chunks_exact(self.vectors);
                for ((row, offset), moved) in rows.zip(self.offset).zip(self.moved.iter_mut()) {
                    let x = V::load(&row[v]).add(V::splat(*offset));
                    squares = squares.plus_product(x, x);
                    x.store(&mut moved[v]);
                }
                let half = V::splat(0.0).plus_product(squares, V::splat(0.5));
                V::splat(self.within).sub(half).store(&mut self.limits[v]);
                near |= Mask::from(half.not_above(V::splat(self.ball))) << (WIDTH * v);
            }
        }
        near & self.wanted
    }
}

/// Those of the `wanted` points whose squared distance to a box is not above a limit.
pub(in super::super) struct NearBox<'a> {
    pub lanes: &'a [Lanes],
    pub vectors: usize,
    pub wanted: Mask,
    pub low: &'a [f32],
    pub high: &'a [f32],
    pub limit: f32,
}

impl Loop for NearBox<'_> {
    type Output = Mask;

    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> Mask {
        let coordinates = &self.lanes[self.vectors..];
        let mut near = 0;
        for v in vectors_of(self.wanted, self.vectors) {
            // SAFETY: the caller vouches for the processor.
            unsafe {
                let mut squares = V::splat(0.0);
                let rows = coordinates.chunks_exact(self.vectors);
                for ((row, low), high) in rows.zip(self.low).zip(self.high) {
                    let x = V::load(&row[v]);
                    let outside = V::splat(*low).sub(x).max(x.sub(V::splat(*high)));
                    let outside = outside.max(V::splat(0.0));
                    squares = squares.plus_product(outside, outside);
                }
                near |= Mask::from(squares.not_above(V::splat(self.limit))) << (WIDTH * v);
            }
        }
        near & self.wanted
    }
}

/// How many queries may meet a block at once.
pub(in super::super) const AT_ONCE: usize = 8;

/// For each query x, the points v of a block with |v|²/2 − x·v not above the query's limit; with
/// limit = γ²/2 − |x|²/2 those are the v with |x − v|² ≤ γ².
pub(in super::super) struct MeetAll<'a> {
    pub lanes: &'a [Lanes],
    pub vectors: usize,
    /// The coordinates of the queries, in the frame of the block.
    pub moved: &'a [Row],
    /// Which points of `moved` ask; at most [`AT_ONCE`].
    pub queries: &'a [u8],
    pub limits: &'a Row,
}

impl Loop for MeetAll<'_> {
    type Output = [Mask; AT_ONCE];

    /// A tile of queries × vectors stays in registers: each coordinate of the block is loaded once
    /// for all queries of the tile. Where too few queries are left, the last one fills it up.
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> [Mask; AT_ONCE] {
        let mut met = [[0; MOST_VECTORS]; AT_ONCE];
        let mut queries = [self.queries.last().copied().unwrap_or(0); AT_ONCE];
        queries[..self.queries.len()].copy_from_slice(self.queries);
        let mut from = 0;
        while from < self.queries.len() {
            let left = self.queries.len() - from;
            let (queries, met) = (&queries[from..], &mut met[from..]);
            // SAFETY: the caller vouches for the processor.
            from += unsafe {
                match left {
                    5.. if V::REGISTERS >= 32 => self.meet::<V, 8, 2>(queries, met),
                    3.. if V::REGISTERS >= 32 => self.meet::<V, 4, 2>(queries, met),
                    3.. if V::REGISTERS >= 8 => self.meet::<V, 4, 1>(queries, met),
                    2.. if V::REGISTERS >= 32 => self.meet::<V, 2, 4>(queries, met),
                    2.. => self.meet::<V, 2, 1>(queries, met),
                    _ if V::REGISTERS >= 8 => self.meet::<V, 1, 4>(queries, met),
                    _ => self.meet::<V, 1, 2>(queries, met),
                }
            };
        }
        met.map(|bits| {
            (0..MOST_VECTORS).fold(0, |mask, v| mask | Mask::from(bits[v]) << (WIDTH * v))
        })
    }
}

impl MeetAll<'_> {
    /// The first Q queries against the whole block, W vectors at a time. Returns Q.
    #[inline(always)]
    unsafe fn meet<V: Vector, const Q: usize, const W: usize>(
        &self,
        queries: &[u8],
        met: &mut [[u16; MOST_VECTORS]],
    ) -> usize {
        let queries = queries.first_chunk::<Q>().expect("room for a tile");
        let met = met.first_chunk_mut::<Q>().expect("room for a tile");
        let mut v = 0;
        // SAFETY: the caller vouches for the processor.
        unsafe {
            while v + W <= self.vectors {
                self.tile::<V, Q, W>(queries, v, met);
                v += W;
            }
            while W > 2 && v + 2 <= self.vectors {
                self.tile::<V, Q, 2>(queries, v, met);
                v += 2;
            }
            while v < self.vectors {
                self.tile::<V, Q, 1>(queries, v, met);
                v += 1;
            }
        }
        Q
    }

    /// Q queries against W vectors from the v-th on.
    #[inline(always)]
    unsafe fn tile<V: Vector, const Q: usize, const W: usize>(
        &self,
        queries: &[u8; Q],
        v: usize,
        met: &mut [[u16; MOST_VECTORS]; Q],
    ) {
        let (half, coordinates) = self.lanes.split_at(self.vectors);
        let lane = |row: &Row, query: u8| {
            row[usize::from(query) / WIDTH % MOST_VECTORS].0[usize::from(query) % WIDTH]
        };
        // SAFETY: the caller vouches for the processor.
        unsafe {
            let mut sums = [[V::splat(0.0); W]; Q];
            for q in 0..Q {
                for w in 0..W {
                    sums[q][w] = V::load(&half[v + w]);
                }
            }
            for (row, moved) in coordinates.chunks_exact(self.vectors).zip(self.moved) {
                let mut block = [V::splat(0.0); W];
                for w in 0..W {
                    block[w] = V::load(&row[v + w]);
                }
                for q in 0..Q {
                    let x = V::splat(lane(moved, queries[q]));
                    for w in 0..W {
                        sums[q][w] = sums[q][w].minus_product(x, block[w]);
                    }
                }
            }
            for q in 0..Q {
                let limit = V::splat(lane(self.limits, queries[q]));
                for w in 0..W {
                    met[q][v + w] = sums[q][w].not_above(limit);
                }
            }
        }
    }
}

/// The vectors of lanes that hold a wanted point.
#[inline(always)]
fn vectors_of(wanted: Mask, vectors: usize) -> impl Iterator<Item = usize> {
    (0..vectors).filter(move |v| (wanted >> (WIDTH * v)) as u16 != 0)
}

#[cfg(test)]
mod tests {
    use super::super::{MOST_POINTS, Processor, first};
    use super::*;

    const DIM: usize = 5;

    /// Small whole numbers: every sum is exact, so every processor must find exactly the same.
    fn coordinate(point: usize, k: usize) -> f32 {
        ((point * 7 + k * 11 + point * k) % 9) as f32 - 4.0
    }

    fn block(count: usize) -> (usize, Vec<Lanes>) {
        let vectors = count.div_ceil(WIDTH);
        let mut lanes = vec![Lanes::all(0.0); vectors * (DIM + 1)];
        lanes[..vectors].fill(Lanes::all(f32::INFINITY));
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
        for processor in Processor::available() {
            for (count, targets) in [(1, 128), (16, 17), (37, 90), (128, 1)] {
                let (vectors, lanes) = block(count);
                let mut moved = vec![[Lanes::all(0.0); MOST_VECTORS]; DIM];
                let mut limits = [Lanes::all(0.0); MOST_VECTORS];
                let in_ball = processor.run(Shift {
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
                    let met = processor.run(MeetAll {
                        lanes: &target_lanes,
                        vectors: target_vectors,
                        moved: &moved,
                        queries,
                        limits: &limits,
                    });
                    for (&query, met) in queries.iter().zip(met) {
                        let near = |m| distance_square(query.into(), m) <= 36.0;
                        assert_eq!(met, those(targets, near), "{processor:?}, {query}");
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
        for processor in Processor::available() {
            let (low, high) = (&low, &high);
            let near =
                processor.run(NearBox { lanes: &lanes, vectors, wanted, low, high, limit: 30.0 });
            assert_eq!(near, wanted & those(MOST_POINTS, |l| square(l) <= 30.0));
            assert_ne!(near, wanted);
            assert_ne!(near, 0);
        }
    }
}
