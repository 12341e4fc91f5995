//! Arms as SIMD lanes for callers that ask many learners about the same few arms.

use crate::Contexts;
use crate::simd::LANES;

/// Independent partial sums, so that no addition waits for the previous one.
const SUMS: usize = 4;

/// One number for each arm of a group.
pub(crate) type ArmValues = [f64; LANES];

/// `LANES` arms, `group[k][lane]` being coordinate k of an arm; lanes without an arm are 0.
pub(crate) type ArmGroup = Vec<ArmValues>;

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

/// ⟨x, θ̂⟩ and xᵀV⁻¹x for every arm of a group.
#[inline(always)]
pub(crate) fn score_group(
    inverse: &[f64],
    estimate: &[f64],
    group: &[ArmValues],
) -> (ArmValues, ArmValues) {
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
fn products(entries: &[f64], group: &[ArmValues]) -> ArmValues {
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
