//! What a belief says of many arms at once: arms as SIMD lanes.

use super::lanes::{LANES, Lane, ZERO, add_scaled};
use super::posterior::Belief;
use crate::{Contexts, Judgement};

impl Belief {
    /// What is thought of every arm, as [`Belief::predict`] says it of one.
    pub fn judge(&self, contexts: &Contexts, width: f64, judgements: &mut [Judgement]) {
        let mut group = vec![ZERO; contexts.dim()];
        for (first, judgements) in (0..).step_by(LANES).zip(judgements.chunks_mut(LANES)) {
            for lane in 0..judgements.len() {
                for (coordinate, x) in group.iter_mut().zip(contexts.arm(first + lane)) {
                    coordinate[lane] = *x;
                }
            }
            let (mut mean, mut square) = (ZERO, ZERO);
            for guess in &self.guesses {
                let covariance = guess.covariance.packed();
                add_guess(&group, guess.share, &guess.mean, covariance, &mut mean, &mut square);
            }
            for (lane, judgement) in judgements.iter_mut().enumerate() {
                let variance = square[lane] - mean[lane] * mean[lane];
                let bonus = width * variance.max(0.0).sqrt();
                *judgement = Judgement { expected: mean[lane], bonus };
            }
        }
    }
}

widest! {
    /// Adds E⟨x, θ⟩ and E⟨x, θ⟩² under one guess, in its share, for a group of arms, `group[k][lane]`
    /// being coordinate k of an arm.
    fn add_guess(
        group: &[Lane],
        share: f64,
        centre: &[f64],
        covariance: &[f64],
        mean: &mut Lane,
        square: &mut Lane,
    ) = add_guess_kernel
}

#[inline(always)]
fn add_guess_kernel(
    group: &[Lane],
    share: f64,
    centre: &[f64],
    covariance: &[f64],
    mean: &mut Lane,
    square: &mut Lane,
) {
    let (mut along, mut variance) = (ZERO, ZERO);
    let mut rows = covariance;
    for (i, x) in group.iter().enumerate() {
        let (row, below) = rows.split_at(i + 1);
        rows = below;
        // xᵀCx = Σ_i x_i·(2·Σ_{j<i} C_ij x_j + C_ii x_i)
        let mut before = ZERO;
        for (entry, x) in row[..i].iter().zip(group) {
            add_scaled(&mut before, x, *entry);
        }
        for lane in 0..LANES {
            variance[lane] += x[lane] * (2.0 * before[lane] + row[i] * x[lane]);
        }
        add_scaled(&mut along, x, centre[i]);
    }
    for lane in 0..LANES {
        mean[lane] += share * along[lane];
        square[lane] += share * (along[lane] * along[lane] + variance[lane]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::posterior::Guess;
    use super::*;
    use crate::linear::Symmetric;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arms_together_are_judged_as_one_after_the_other(
            dim in 1usize..9,
            arms in 1usize..20,
            values in prop::collection::vec(-1.0..1.0f64, 9 * 20),
            share in 0.0..1.0f64,
            width in 0.0..2.0f64,
        ) {
            let contexts = Contexts::new(&values[..dim * arms], dim).unwrap();
            let guess = |component: usize, share: f64| {
                let mut covariance = Symmetric::identity(dim, 0.3);
                covariance.add_outer(0.5, &values[component..component + dim]);
                let mean = values[component + 3..component + 3 + dim].to_vec();
                Guess { component, share, mean, covariance }
            };
            let belief = Belief { guesses: vec![guess(0, share), guess(1, 1.0 - share)] };
            let mut judgements = vec![Judgement::default(); arms];
            belief.judge(&contexts, width, &mut judgements);
            for (x, judgement) in contexts.iter().zip(judgements) {
                let (mean, deviation) = belief.predict(x);
                prop_assert!((judgement.expected - mean).abs() < 1e-12);
                prop_assert!((judgement.bonus - width * deviation).abs() < 1e-7);
            }
        }
    }
}
