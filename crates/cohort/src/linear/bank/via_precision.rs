//! The update through V itself: where a rank-one update would cancel many digits at once, because a
//! context is far larger than all before it.

use super::layout::{BlockMut, F64x8, LANES};
use crate::linear::Symmetric;

/// Updates the marked learners. Contexts and rewards of the others are ignored.
/// A context so large that λ is lost beside it — some 10⁸ times all that was seen before, in all
/// coordinates — leaves nothing to factor and is dropped.
#[cold]
#[inline(never)]
pub fn learn_via_precision(mut block: BlockMut, x: &[F64x8], y: &F64x8, learners: [bool; LANES]) {
    for lane in (0..LANES).filter(|lane| learners[*lane]) {
        let of =
            |lanes: &[F64x8]| -> Vec<f64> { lanes.iter().map(|lanes| lanes.0[lane]).collect() };
        let inverse = Symmetric::from_packed(x.len(), of(block.inverse));
        if let Some(solved) = solve(&inverse, &of(block.estimate), &of(x), y.0[lane]) {
            block.write(lane, &solved);
        }
    }
}

/// The state of a learner after one more reward.
struct Solved {
    inverse: Symmetric,
    estimate: Vec<f64>,
    /// The growth of ln det V.
    growth: f64,
}

/// V ← (V⁻¹)⁻¹ + xxᵀ, solved from scratch; `None` where rounding or overflow leaves no positive
/// definite matrix.
fn solve(inverse: &Symmetric, estimate: &[f64], x: &[f64], y: f64) -> Option<Solved> {
    let before = inverse.cholesky()?;
    let mut precision = before.inverse();
    let mut moment = vec![0.0; x.len()];
    precision.times(estimate, &mut moment);
    precision.add_outer(1.0, x);
    for (moment, x) in moment.iter_mut().zip(x) {
        *moment += x * y;
    }
    let after = precision.cholesky()?;
    after.solve(&mut moment);
    let inverse = after.inverse();
    // `before` factors V⁻¹: its ln det is that of V with the opposite sign.
    let growth = after.log_det() + before.log_det();
    let finite = inverse.packed().iter().chain(&moment).all(|value| value.is_finite());
    (finite && growth.is_finite()).then_some(Solved { inverse, estimate: moment, growth })
}

impl BlockMut<'_> {
    fn write(&mut self, lane: usize, solved: &Solved) {
        for (lanes, value) in self.inverse.iter_mut().zip(solved.inverse.packed()) {
            lanes.0[lane] = *value;
        }
        for (lanes, value) in self.estimate.iter_mut().zip(&solved.estimate) {
            lanes.0[lane] = *value;
        }
        self.log_det.0[lane] += solved.growth;
        self.updates.0[lane] += 1.0;
    }
}
