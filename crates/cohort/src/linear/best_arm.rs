//! Scores all arms of one request for one learner: arms as SIMD lanes.

use std::cell::Cell;

use super::{Oful, dot};
use crate::simd::{F64x8, Kernel, LANES, Simd, run, vectorized};
use crate::{Arm, Contexts, Score};

/// How many groups of arms are scored at once.
const GROUPS: usize = 4;

/// Independent partial sums, so that no addition waits for the previous one.
const SUMS: usize = 4;

/// Requests with more numbers than this are not kept.
const MOST_KEPT: usize = 1 << 16;

/// Which function of ‖x‖_{V⁻¹} is the exploration bonus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bonus {
    /// `‖x‖_{V⁻¹}`, as the papers have it.
    Norm,
    /// Its square, as much public code has it.
    Squared,
}

impl Bonus {
    #[inline(always)]
    fn of_square(self, square: f64) -> f64 {
        match self {
            Self::Norm => square.max(0.0).sqrt(),
            Self::Squared => square.max(0.0),
        }
    }
}

impl Oful {
    /// `argmax_x ⟨x, θ̂⟩ + width·‖x‖_{V⁻¹}`, ties to the lowest index.
    pub fn best_arm(&self, contexts: &Contexts, width: f64) -> Arm {
        self.best_arm_by(contexts, width, Bonus::Norm)
    }

    /// [`Self::best_arm`] with this bonus.
    /// Equals scoring arm by arm up to rounding: arms are taken `LANES` at a time, coordinate by
    /// coordinate, so that sums over coordinates are plain vector code.
    pub fn best_arm_by(&self, contexts: &Contexts, width: f64, bonus: Bonus) -> Arm {
        let (inverse, estimate) = (self.inverse().packed(), self.estimate());
        with_arms(contexts, |arms| run(BestArm { inverse, estimate, arms, width, bonus }))
    }

    /// The two terms that [`Oful::best_arm`] compares, for every arm: ⟨x, θ̂⟩ and width·‖x‖_{V⁻¹}.
    pub fn score(&self, contexts: &Contexts, width: f64, scores: &mut [Score]) {
        self.score_by(contexts, width, Bonus::Norm, scores);
    }

    /// [`Self::score`] with this bonus.
    pub fn score_by(&self, contexts: &Contexts, width: f64, bonus: Bonus, scores: &mut [Score]) {
        for (x, score) in contexts.iter().zip(scores) {
            let expected = dot(x, self.estimate());
            let bonus = width * bonus.of_square(self.inverse().quadratic(x));
            *score = Score { expected, bonus };
        }
    }
}

/// The arms of a request, one lane an arm.
#[derive(Default)]
struct ArmLanes {
    /// The contexts as they came.
    values: Vec<f64>,
    dim: usize,
    arms: usize,
    /// How many groups of lanes; the last ends in zeros where it is not full.
    groups: usize,
    /// `lanes[coordinate][group]`.
    lanes: Vec<F64x8>,
}

thread_local! {
    static ARMS: Cell<ArmLanes> = Cell::default();
}

/// Lends the arms as lanes. Every thread keeps those of its last request: users who are served one
/// after the other are often offered the same, and turning rows into lanes takes as long as scoring.
fn with_arms<R>(contexts: &Contexts, work: impl FnOnce(&ArmLanes) -> R) -> R {
    let mut arms = ARMS.take();
    if !arms.are(contexts) {
        arms.set(contexts);
    }
    let result = work(&arms);
    if arms.values.len() <= MOST_KEPT {
        ARMS.set(arms);
    }
    result
}

impl ArmLanes {
    /// Whether these are the contexts, bit by bit.
    fn are(&self, contexts: &Contexts) -> bool {
        let (known, asked) = (&self.values[..], contexts.values());
        self.dim == contexts.dim()
            && known.len() == asked.len()
            && vectorized(
                #[inline(always)]
                || {
                    // No branch in between, so that it is vector code.
                    let differing = |a: &f64, b: &f64| a.to_bits() ^ b.to_bits();
                    known.iter().zip(asked).fold(0, |bits, (a, b)| bits | differing(a, b)) == 0
                },
            )
    }

    fn set(&mut self, contexts: &Contexts) {
        self.values.clear();
        self.values.extend_from_slice(contexts.values());
        (self.dim, self.arms) = (contexts.dim(), contexts.arms());
        self.groups = self.arms.div_ceil(LANES);
        self.lanes.clear();
        self.lanes.resize(self.dim * self.groups, F64x8::splat(0.0));
        for (arm, x) in contexts.iter().enumerate() {
            let of_group = self.lanes[arm / LANES..].iter_mut().step_by(self.groups);
            for (lane, x) in of_group.zip(x) {
                lane[arm % LANES] = *x;
            }
        }
    }
}

/// The best of all arms.
struct BestArm<'a> {
    inverse: &'a [f64],
    estimate: &'a [f64],
    arms: &'a ArmLanes,
    width: f64,
    bonus: Bonus,
}

impl Kernel for BestArm<'_> {
    type Output = Arm;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Arm {
        let mut best = (0, f64::NEG_INFINITY);
        let mut first = 0;
        while first < self.arms.groups {
            first += match self.arms.groups - first {
                1 => self.compare::<S, 1>(simd, first, &mut best),
                2 => self.compare::<S, 2>(simd, first, &mut best),
                3 => self.compare::<S, 3>(simd, first, &mut best),
                _ => self.compare::<S, GROUPS>(simd, first, &mut best),
            };
        }
        best.0
    }
}

impl BestArm<'_> {
    /// Compares the best so far with the arms of G groups; returns how many groups that are.
    #[inline(always)]
    fn compare<S: Simd, const G: usize>(
        &self,
        simd: S,
        first: usize,
        best: &mut (Arm, f64),
    ) -> usize {
        let totals = self.totals::<S, G>(simd, first);
        for (group, totals) in totals.iter().enumerate() {
            let before = (first + group) * LANES;
            let there = LANES.min(self.arms.arms - before);
            for (lane, total) in totals.iter().enumerate().take(there) {
                if *total > best.1 {
                    *best = (before + lane, *total);
                }
            }
        }
        G
    }

    /// The totals of G groups of arms. Products are not fused with sums: where arms are all of one
    /// length and nothing is known yet, totals differ by rounding alone, and so rounding decides.
    #[inline(always)]
    fn totals<S: Simd, const G: usize>(&self, simd: S, first: usize) -> [F64x8; G] {
        let zero = simd.splat(0.0);
        let (mut total, mut square) = ([zero; G], [zero; G]);
        let mut rows = self.inverse;
        let dim = self.estimate.len().min(self.arms.dim);
        for i in 0..dim {
            let (row, below) = rows.split_at(i + 1);
            rows = below;
            // xᵀV⁻¹x = Σ_i x_i·(2·Σ_{j<i} V⁻¹_ij x_j + V⁻¹_ii x_i)
            let before = self.products::<S, G>(simd, first, &row[..i]);
            let (diagonal, estimate) = (simd.splat(row[i]), simd.splat(self.estimate[i]));
            let x = self.lanes::<G>(first, i);
            for g in 0..G {
                let x = simd.load(&x[g]);
                let twice = simd.add(before[g], before[g]);
                let weighted = simd.mul(x, simd.add(twice, simd.mul(diagonal, x)));
                square[g] = simd.add(square[g], weighted);
                total[g] = simd.add(total[g], simd.mul(estimate, x));
            }
        }
        let width = simd.splat(self.width);
        let mut totals = [F64x8::splat(0.0); G];
        for g in 0..G {
            let bonus = match self.bonus {
                Bonus::Norm => simd.root(square[g]),
                Bonus::Squared => simd.larger(square[g], zero),
            };
            simd.store(simd.add(total[g], simd.mul(width, bonus)), &mut totals[g]);
        }
        totals
    }

    /// Σ_j entries_j·x_j for every arm of G groups.
    #[inline(always)]
    fn products<S: Simd, const G: usize>(
        &self,
        simd: S,
        first: usize,
        entries: &[f64],
    ) -> [S::V; G] {
        let mut sums = [[simd.splat(0.0); G]; SUMS];
        let whole = entries.len() / SUMS * SUMS;
        for j in whole..entries.len() {
            let (entry, x) = (simd.splat(entries[j]), self.lanes::<G>(first, j));
            for g in 0..G {
                sums[j - whole][g] = simd.mul(entry, simd.load(&x[g]));
            }
        }
        for start in (0..whole).step_by(SUMS) {
            for at in 0..SUMS {
                let j = start + at;
                let (entry, x) = (simd.splat(entries[j]), self.lanes::<G>(first, j));
                for g in 0..G {
                    sums[at][g] = simd.add(sums[at][g], simd.mul(entry, simd.load(&x[g])));
                }
            }
        }
        let mut all = [simd.splat(0.0); G];
        for g in 0..G {
            let pairs = [simd.add(sums[0][g], sums[1][g]), simd.add(sums[2][g], sums[3][g])];
            all[g] = simd.add(pairs[0], pairs[1]);
        }
        all
    }

    /// One coordinate of the arms of G groups.
    #[inline(always)]
    fn lanes<const G: usize>(&self, first: usize, coordinate: usize) -> &[F64x8; G] {
        let at = coordinate * self.arms.groups + first;
        self.arms.lanes[at..at + G].try_into().expect("as many as asked for")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any number of arms, whole groups or not, and any dimension.
        #[test]
        fn scores_are_those_of_one_arm_after_the_other(
            dim in 1usize..18,
            arms in 1usize..20,
            values in prop::collection::vec(-1.0..1.0f64, 18 * 20),
            rewards in prop::collection::vec(-1.0..1.0f64, 0..30),
            width in 0.0..2.0f64,
        ) {
            let contexts = Contexts::new(&values[..dim * arms], dim).unwrap();
            let mut oful = Oful::new(dim, 1.0);
            for (at, reward) in rewards.iter().enumerate() {
                oful.learn(contexts.arm(at % arms), *reward);
            }
            for (shape, bonus) in
                [(Shape::Ellipsoid, Bonus::Norm), (Shape::Squared, Bonus::Squared)]
            {
                let total = |arm| oful.optimistic(contexts.arm(arm), width, shape);
                let best = (0..arms).map(total).fold(f64::NEG_INFINITY, f64::max);
                let chosen = oful.best_arm_by(&contexts, width, bonus);
                prop_assert!(total(chosen) > best - 1e-12);
                let mut scores = vec![Score::default(); arms];
                oful.score_by(&contexts, width, bonus, &mut scores);
                let found = scores[chosen].expected + scores[chosen].bonus;
                prop_assert!((found - total(chosen)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_lowest_of_equal_arms_is_taken() {
        let values = [0.1, 0.5, 0.5, 0.2, 0.5, 0.1, 0.1, 0.1, 0.5];
        let contexts = Contexts::new(&values, 1).unwrap();
        assert_eq!(Oful::new(1, 1.0).best_arm(&contexts, 1.0), 1);
    }
}
