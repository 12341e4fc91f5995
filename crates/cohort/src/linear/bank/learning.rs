//! Learning: the rank-one update of the learners of a block, all at once.
//!
//! ```text
//! gain = V⁻¹x,  step = xᵀV⁻¹x,  surprise = (y − ⟨x, θ̂⟩)/(1 + step)
//! θ̂ += gain·surprise,  V⁻¹ −= gain·gainᵀ/(1 + step),  ln det V += ln(1 + step)
//! ```
//!
//! A learner whose x is zero and whose count is zero stays as it is, to the bit.

use super::layout::{BlockMut, LANES, Lane, Layout};
use super::simd::{Kernel, Rows, Simd};
use crate::linear::Symmetric;
use crate::linear::oful::LARGEST_STEP;

/// What a block learns: one context and one reward for each of its learners.
pub struct Learn<'a> {
    /// The form of a block.
    pub layout: Layout,
    /// The block.
    pub block: &'a mut [Lane],
    /// Contexts, row by row.
    pub contexts: &'a [f64],
    /// Which of them each learner played.
    pub played: [u32; LANES],
    /// The rewards.
    pub rewards: Lane,
    /// 1 for a learner that learns, 0 for one that does not.
    pub count: Lane,
    /// [`scratch_lanes`] lanes.
    pub scratch: &'a mut [Lane],
}

/// How many lanes of scratch memory [`Learn`] needs.
pub fn scratch_lanes(layout: Layout) -> usize {
    2 * layout.dim
}

impl Kernel for Learn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { layout, block, contexts, played, rewards, count, scratch } = self;
        let dim = layout.dim;
        let block = layout.view_mut(block);
        let (x, gain) = scratch.split_at_mut(dim);
        let (x, gain) = (&mut x[..dim], &mut gain[..dim]);
        let rows = Rows::new(contexts, dim, played);
        for k in 0..dim {
            simd.store(simd.gather(&rows, k), &mut x[k]);
        }

        let mut step = simd.splat(0.0);
        let mut surprise = simd.load(&rewards);
        let mut rest = &*block.inverse;
        for start in (0..dim).step_by(ROWS) {
            step = simd.add(
                step,
                match dim - start {
                    1 => gain_of_rows::<S, 1>(simd, &mut rest, start, x, gain),
                    2 => gain_of_rows::<S, 2>(simd, &mut rest, start, x, gain),
                    3 => gain_of_rows::<S, 3>(simd, &mut rest, start, x, gain),
                    _ => gain_of_rows::<S, ROWS>(simd, &mut rest, start, x, gain),
                },
            );
        }
        for (x, estimate) in x.iter().zip(&*block.estimate) {
            surprise = simd.sub_mul(simd.load(x), simd.load(estimate), surprise);
        }

        let mut count = count;
        let mut too_large = [false; LANES];
        if !simd.all_up_to(step, LARGEST_STEP) {
            let mut steps = Lane::splat(0.0);
            simd.store(step, &mut steps);
            let mut surprises = Lane::splat(0.0);
            simd.store(surprise, &mut surprises);
            for lane in 0..LANES {
                too_large[lane] = !(0.0..=LARGEST_STEP).contains(&steps.0[lane]);
                if too_large[lane] {
                    (steps.0[lane], surprises.0[lane], count.0[lane]) = (0.0, 0.0, 0.0);
                    for gain in &mut *gain {
                        gain.0[lane] = 0.0;
                    }
                }
            }
            (step, surprise) = (simd.load(&steps), simd.load(&surprises));
        }

        let one = simd.splat(1.0);
        let shrink = simd.div(one, simd.add(one, step));
        let surprise = simd.mul(surprise, shrink);
        let mut rest = &mut *block.inverse;
        for start in (0..dim).step_by(ROWS) {
            match dim - start {
                1 => shrink_rows::<S, 1>(simd, &mut rest, start, gain, shrink),
                2 => shrink_rows::<S, 2>(simd, &mut rest, start, gain, shrink),
                3 => shrink_rows::<S, 3>(simd, &mut rest, start, gain, shrink),
                _ => shrink_rows::<S, ROWS>(simd, &mut rest, start, gain, shrink),
            }
        }
        for (gain, estimate) in gain.iter().zip(&mut *block.estimate) {
            let learned = simd.mul_add(simd.load(gain), surprise, simd.load(estimate));
            simd.store(learned, estimate);
        }
        let log_det = simd.add(simd.load(block.log_det), simd.ln_1p(step));
        simd.store(log_det, block.log_det);
        let updates = simd.add(simd.load(block.updates), simd.load(&count));
        simd.store(updates, block.updates);

        if too_large != [false; LANES] {
            learn_the_long_way(block, x, &rewards, too_large);
        }
    }
}

/// Rows of V⁻¹ that are worked on together: their sums stay in registers.
const ROWS: usize = 4;

/// gain = V⁻¹x, as far as it comes from `R` rows of the lower triangle and, by symmetry, from what
/// mirrors them. Returns what they add to xᵀV⁻¹x.
#[inline(always)]
fn gain_of_rows<S: Simd, const R: usize>(
    simd: S,
    rest: &mut &[Lane],
    start: usize,
    x: &[Lane],
    gain: &mut [Lane],
) -> S::V {
    let mut row: [&[Lane]; R] = [&[]; R];
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
    rest: &mut &mut [Lane],
    start: usize,
    gain: &[Lane],
    shrink: S::V,
) {
    let row: [&mut [Lane]; R] = std::array::from_fn(|r| {
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

/// The same update by way of V for the lanes named: exact where a rank-one update would cancel
/// many digits at once, because a context is far larger than all before it.
///
/// A context so large that λ is lost beside it — some 10⁸ times all that was seen before, in all
/// coordinates — leaves nothing to factor, and teaches nothing.
#[cold]
#[inline(never)]
fn learn_the_long_way(mut block: BlockMut, x: &[Lane], y: &Lane, lanes: [bool; LANES]) {
    for lane in (0..LANES).filter(|lane| lanes[*lane]) {
        // None where rounding or overflow leaves nothing that is positive definite.
        let _ = block.solve_again(lane, x, y.0[lane]);
    }
}

impl BlockMut<'_> {
    fn solve_again(&mut self, lane: usize, x: &[Lane], y: f64) -> Option<()> {
        let of = |lanes: &[Lane]| -> Vec<f64> { lanes.iter().map(|lanes| lanes.0[lane]).collect() };
        let (x, mut moment) = (of(x), vec![0.0; x.len()]);
        let before = Symmetric::from_packed(x.len(), of(self.inverse)).cholesky()?;
        let mut precision = before.inverse();
        precision.times(&of(self.estimate), &mut moment);
        precision.add_outer(1.0, &x);
        for (moment, x) in moment.iter_mut().zip(&x) {
            *moment += x * y;
        }
        let after = precision.cholesky()?;
        after.solve(&mut moment);
        let inverse = after.inverse();
        let grown = after.log_det() + before.log_det();
        if !(grown.is_finite() && inverse.packed().iter().chain(&moment).all(|v| v.is_finite())) {
            return None;
        }
        for (lanes, value) in self.inverse.iter_mut().zip(inverse.packed()) {
            lanes.0[lane] = *value;
        }
        for (lanes, value) in self.estimate.iter_mut().zip(moment) {
            lanes.0[lane] = value;
        }
        self.log_det.0[lane] += grown;
        self.updates.0[lane] += 1.0;
        Some(())
    }
}
