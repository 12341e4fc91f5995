//! Scores all arms of one request for one learner: arms as SIMD lanes.

use super::{Oful, dot};
use crate::simd::{LANES, vectorized};
use crate::{Arm, Contexts, Score};

/// Independent partial sums, so that no addition waits for the previous one.
const SUMS: usize = 4;

/// One number for each arm of a group.
pub(crate) type ArmLanes = [f64; LANES];

/// `LANES` arms, `group[k][lane]` being coordinate k of an arm; lanes without an arm are 0.
pub(crate) type ArmGroup = Vec<ArmLanes>;

/// All arms, group by group.
pub(crate) fn groups<'a>(contexts: &'a Contexts) -> impl Iterator<Item = ArmGroup> + 'a {
    (0..contexts.arms()).step_by(LANES).map(|first| {
        let mut group = vec![[0.0; LANES]; contexts.dim()];
        for arm in first..contexts.arms().min(first + LANES) {
            for (coordinate, x) in group.iter_mut().zip(contexts.arm(arm)) {
                coordinate[arm - first] = *x;
            }
        }
        group
    })
}

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
        let mut best = (0, f64::NEG_INFINITY);
        for (first, group) in (0..).step_by(LANES).zip(groups(contexts)) {
            let arms = LANES.min(contexts.arms() - first);
            let (inverse, estimate) = (self.inverse().packed(), self.estimate());
            let totals = vectorized(
                #[inline(always)]
                || totals(inverse, estimate, &group, width, bonus),
            );
            for (lane, total) in totals.into_iter().enumerate().take(arms) {
                if total > best.1 {
                    best = (first + lane, total);
                }
            }
        }
        best.0
    }
}

impl Oful {
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

/// The totals of a group of arms. Products are never fused with sums, so every instruction set gives
/// the same bits.
#[inline(always)]
fn totals(
    inverse: &[f64],
    estimate: &[f64],
    group: &[ArmLanes],
    width: f64,
    bonus: Bonus,
) -> ArmLanes {
    let (mut total, square) = look(inverse, estimate, group);
    for lane in 0..LANES {
        total[lane] += width * bonus.of_square(square[lane]);
    }
    total
}

/// ⟨x, θ̂⟩ and xᵀV⁻¹x for every arm of a group.
#[inline(always)]
pub(crate) fn look(inverse: &[f64], estimate: &[f64], group: &[ArmLanes]) -> (ArmLanes, ArmLanes) {
    let mut expected = [0.0; LANES];
    let mut square = [0.0; LANES];
    let mut rows = inverse;
    for (i, (x, estimate)) in group.iter().zip(estimate).enumerate() {
        let (row, below) = rows.split_at(i + 1);
        rows = below;
        // xᵀV⁻¹x = Σ_i x_i·(2·Σ_{j<i} V⁻¹_ij x_j + V⁻¹_ii x_i)
        let before = products(&row[..i], &group[..i]);
        for lane in 0..LANES {
            square[lane] += x[lane] * (2.0 * before[lane] + row[i] * x[lane]);
            expected[lane] += estimate * x[lane];
        }
    }
    (expected, square)
}

/// Σ_j entries_j·x_j for every arm of a group.
#[inline(always)]
fn products(entries: &[f64], group: &[ArmLanes]) -> ArmLanes {
    let mut sums = [[0.0; LANES]; SUMS];
    let (entries, group) = (entries.chunks_exact(SUMS), group.chunks_exact(SUMS));
    for (sum, (entry, x)) in sums.iter_mut().zip(entries.remainder().iter().zip(group.remainder()))
    {
        for lane in 0..LANES {
            sum[lane] = entry * x[lane];
        }
    }
    for (entries, x) in entries.zip(group) {
        for at in 0..SUMS {
            for lane in 0..LANES {
                sums[at][lane] += entries[at] * x[at][lane];
            }
        }
    }
    let mut total = [0.0; LANES];
    for lane in 0..LANES {
        total[lane] = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
    }
    total
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
