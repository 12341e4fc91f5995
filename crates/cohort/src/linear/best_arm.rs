//! All arms of one request scored for one learner: arms as SIMD lanes.

use super::{Oful, dot};
use crate::{Arm, Contexts, Score};

/// Arms scored together.
const LANES: usize = 8;

/// Sums kept side by side, so that no addition waits for the one before it.
const SUMS: usize = 4;

/// One number for each arm of a group.
type ArmLanes = [f64; LANES];

impl Oful {
    /// `argmax_x ⟨x, θ̂⟩ + width·‖x‖_{V⁻¹}`, ties to the lowest index.
    ///
    /// The same as scoring arm after arm, but for rounding: arms are taken `LANES` at a time,
    /// coordinate by coordinate, so that sums over coordinates are straight vector code.
    pub fn best_arm(&self, contexts: &Contexts, width: f64) -> Arm {
        let mut best = (0, f64::NEG_INFINITY);
        let mut group = vec![[0.0; LANES]; contexts.dim()];
        for first in (0..contexts.arms()).step_by(LANES) {
            let arms = LANES.min(contexts.arms() - first);
            for lane in 0..arms {
                for (coordinate, x) in group.iter_mut().zip(contexts.arm(first + lane)) {
                    coordinate[lane] = *x;
                }
            }
            let totals = totals(self.inverse().packed(), self.estimate(), &group, width);
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
    /// What [`Oful::best_arm`] compares, for every arm: ⟨x, θ̂⟩ and width·‖x‖_{V⁻¹}.
    pub fn score(&self, contexts: &Contexts, width: f64, scores: &mut [Score]) {
        for (x, score) in contexts.iter().zip(scores) {
            let expected = dot(x, self.estimate());
            let bonus = width * self.inverse().quadratic(x).max(0.0).sqrt();
            *score = Score { expected, bonus };
        }
    }
}

/// The totals of a group of arms, `group[k][lane]` being coordinate k of an arm. No form fuses a
/// product with a sum, so all give the same bits.
fn totals(inverse: &[f64], estimate: &[f64], group: &[ArmLanes], width: f64) -> ArmLanes {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has AVX2.
        return unsafe { scores_avx2(inverse, estimate, group, width) };
    }
    scores_portable(inverse, estimate, group, width)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scores_avx2(inverse: &[f64], estimate: &[f64], group: &[ArmLanes], width: f64) -> ArmLanes {
    scores_portable(inverse, estimate, group, width)
}

#[inline(always)]
fn scores_portable(inverse: &[f64], estimate: &[f64], group: &[ArmLanes], width: f64) -> ArmLanes {
    let mut total = [0.0; LANES];
    let mut square = [0.0; LANES];
    let mut rows = inverse;
    for (i, (x, estimate)) in group.iter().zip(estimate).enumerate() {
        let (row, below) = rows.split_at(i + 1);
        rows = below;
        // xᵀV⁻¹x = Σ_i x_i·(2·Σ_{j<i} V⁻¹_ij x_j + V⁻¹_ii x_i)
        let before = products(&row[..i], &group[..i]);
        for lane in 0..LANES {
            square[lane] += x[lane] * (2.0 * before[lane] + row[i] * x[lane]);
            total[lane] += estimate * x[lane];
        }
    }
    for lane in 0..LANES {
        total[lane] += width * square[lane].max(0.0).sqrt();
    }
    total
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
            let total = |arm| oful.optimistic(contexts.arm(arm), width, Shape::Ellipsoid);
            let best = (0..arms).map(total).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(total(oful.best_arm(&contexts, width)) > best - 1e-12);
        }
    }

    #[test]
    fn the_lowest_of_equal_arms_is_taken() {
        let values = [0.1, 0.5, 0.5, 0.2, 0.5, 0.1, 0.1, 0.1, 0.5];
        let contexts = Contexts::new(&values, 1).unwrap();
        assert_eq!(Oful::new(1, 1.0).best_arm(&contexts, 1.0), 1);
    }
}
