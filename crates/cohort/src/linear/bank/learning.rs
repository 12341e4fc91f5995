//! The rank-one update of all learners of a block at once.
//!
//! ```text
//! gain = V⁻¹x,  step = xᵀV⁻¹x,  residual = (y − ⟨x, θ̂⟩)/(1 + step)
//! θ̂ += gain·residual,  V⁻¹ −= gain·gainᵀ/(1 + step),  ln det V += ln(1 + step)
//! ```
//!
//! A learner whose x is zero and whose count is zero is unchanged, to the bit.

use super::layout::{F64x8, LANES, Layout};
use super::via_precision::learn_via_precision;
use crate::linear::oful::LARGEST_STEP;
use crate::simd::{GatherRows, Kernel, Simd};

/// Processes four rows of V⁻¹ at a time, whose sums then stay in registers, and the remaining rows
/// one by one.
macro_rules! for_rows {
    ($dim:expr, |$rows:ident, $start:ident| $body:block) => {
        for $start in (0..$dim).step_by(4) {
            macro_rules! of {
                ($count:literal) => {{
                    const $rows: usize = $count;
                    $body
                }};
            }
            match $dim - $start {
                1 => of!(1),
                2 => of!(2),
                3 => of!(3),
                _ => of!(4),
            }
        }
    };
}

/// Kernel that updates a block: one context and one reward for each of its learners.
pub struct Learn<'a> {
    /// The layout of a block.
    pub layout: Layout,
    /// The block.
    pub block: &'a mut [F64x8],
    /// Contexts, row by row.
    pub contexts: &'a [f64],
    /// The context of each learner, as a row of `contexts`.
    pub played: [u32; LANES],
    /// The rewards.
    pub rewards: F64x8,
    /// 1 for a learner that is updated, 0 for one that is not.
    pub count: F64x8,
    /// [`scratch_lanes`] lanes.
    pub scratch: &'a mut [F64x8],
}

/// How many lanes of scratch memory [`Learn`] needs.
pub fn scratch_lanes(layout: Layout) -> usize {
    2 * layout.dim
}

impl Kernel for Learn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { layout, block, contexts, played, rewards, mut count, scratch } = self;
        let dim = layout.dim;
        let block = layout.view_mut(block);
        let (x, gain) = scratch.split_at_mut(dim);
        let (x, gain) = (&mut x[..dim], &mut gain[..dim]);
        let played = GatherRows::new(contexts, dim, played);
        for k in 0..dim {
            simd.store(simd.gather(&played, k), &mut x[k]);
        }

        let (mut step, mut residual) = (simd.splat(0.0), simd.load(&rewards));
        let mut rows = &*block.inverse;
        for_rows!(dim, |R, start| {
            step = simd.add(step, gain_of_rows::<S, R>(simd, &mut rows, start, x, gain));
        });
        for (x, estimate) in x.iter().zip(&*block.estimate) {
            residual = simd.sub_mul(simd.load(x), simd.load(estimate), residual);
        }
        let excluded = if simd.all_up_to(step, LARGEST_STEP) {
            [false; LANES]
        } else {
            let (mut steps, mut residuals) = (F64x8::splat(0.0), F64x8::splat(0.0));
            simd.store(step, &mut steps);
            simd.store(residual, &mut residuals);
            let excluded = exclude_large_steps(&mut steps, &mut residuals, &mut count, gain);
            (step, residual) = (simd.load(&steps), simd.load(&residuals));
            excluded
        };

        let one = simd.splat(1.0);
        let shrink = simd.div(one, simd.add(one, step));
        let residual = simd.mul(residual, shrink);
        let mut rows = &mut *block.inverse;
        for_rows!(dim, |R, start| {
            shrink_rows::<S, R>(simd, &mut rows, start, gain, shrink);
        });
        for (gain, estimate) in gain.iter().zip(&mut *block.estimate) {
            let learned = simd.mul_add(simd.load(gain), residual, simd.load(estimate));
            simd.store(learned, estimate);
        }
        let log_det = simd.add(simd.load(block.log_det), simd.ln_1p(step));
        simd.store(log_det, block.log_det);
        let updates = simd.add(simd.load(block.updates), simd.load(&count));
        simd.store(updates, block.updates);

        if excluded != [false; LANES] {
            learn_via_precision(block, x, &rewards, excluded);
        }
    }
}

/// Leaves the learners unchanged whose step is too large for a rank-one update or negative by
/// rounding, and returns which they are.
#[cold]
#[inline(never)]
fn exclude_large_steps(
    steps: &mut F64x8,
    residuals: &mut F64x8,
    count: &mut F64x8,
    gain: &mut [F64x8],
) -> [bool; LANES] {
    let excluded = steps.0.map(|step| !(0.0..=LARGEST_STEP).contains(&step));
    for lane in (0..LANES).filter(|lane| excluded[*lane]) {
        (steps.0[lane], residuals.0[lane], count.0[lane]) = (0.0, 0.0, 0.0);
        for gain in &mut *gain {
            gain.0[lane] = 0.0;
        }
    }
    excluded
}

/// gain = V⁻¹x, the contribution of `R` rows of the lower triangle and of their mirror images.
/// Returns their contribution to xᵀV⁻¹x.
#[inline(always)]
fn gain_of_rows<S: Simd, const R: usize>(
    simd: S,
    rest: &mut &[F64x8],
    start: usize,
    x: &[F64x8],
    gain: &mut [F64x8],
) -> S::V {
    let mut row: [&[F64x8]; R] = [&[]; R];
    for r in 0..R {
        row[r] = rest.split_off(..=start + r).expect("a packed row is as long as its number");
    }
    let zero = simd.splat(0.0);
    let mut x_row = [zero; R];
    for r in 0..R {
        x_row[r] = simd.load(&x[start + r]);
    }
    let (mut below, mut mirrored) = ([zero; R], [zero; R]);
    for j in 0..start {
        let (x_j, mut gain_j) = (simd.load(&x[j]), simd.load(&gain[j]));
        for r in 0..R {
            let v = simd.load(&row[r][j]);
            below[r] = simd.mul_add(v, x_j, below[r]);
            gain_j = simd.mul_add(v, x_row[r], gain_j);
        }
        simd.store(gain_j, &mut gain[j]);
    }
    let mut step = zero;
    for r in 0..R {
        for c in 0..r {
            let v = simd.load(&row[r][start + c]);
            below[r] = simd.mul_add(v, x_row[c], below[r]);
            mirrored[c] = simd.mul_add(v, x_row[r], mirrored[c]);
        }
    }
    for r in 0..R {
        let diagonal = simd.load(&row[r][start + r]);
        let with_diagonal = simd.mul_add(diagonal, x_row[r], below[r]);
        step = simd.mul_add(x_row[r], simd.add(below[r], with_diagonal), step);
        simd.store(simd.add(with_diagonal, mirrored[r]), &mut gain[start + r]);
    }
    step
}

/// V⁻¹ −= gain·gainᵀ·shrink in `R` rows of the lower triangle.
#[inline(always)]
fn shrink_rows<S: Simd, const R: usize>(
    simd: S,
    rest: &mut &mut [F64x8],
    start: usize,
    gain: &[F64x8],
    shrink: S::V,
) {
    let row: [&mut [F64x8]; R] = std::array::from_fn(|r| {
        rest.split_off_mut(..=start + r).expect("a packed row is as long as its number")
    });
    let mut scaled = [simd.splat(0.0); R];
    for r in 0..R {
        scaled[r] = simd.mul(simd.load(&gain[start + r]), shrink);
    }
    for j in 0..start {
        let gain_j = simd.load(&gain[j]);
        for r in 0..R {
            let v = &mut row[r][j];
            simd.store(simd.sub_mul(scaled[r], gain_j, simd.load(v)), v);
        }
    }
    for r in 0..R {
        for c in 0..=r {
            let v = &mut row[r][start + c];
            simd.store(simd.sub_mul(scaled[r], simd.load(&gain[start + c]), simd.load(v)), v);
        }
    }
}
