//! The state of a bank agrees with a fresh solve: after a million updates, on very ill-conditioned
//! streams, for contexts of any size.

use super::super::layout::{F64x8, LANES};
use super::*;
use crate::linear::{Statistics, Symmetric};
use crate::simd::{Kernel, Simd};
use proptest::prelude::*;

/// The error of one learner against a fresh Cholesky solve of what it has seen, relative to the
/// largest number: of V⁻¹, of θ̂, and of ln det V (which starts at zero: relative to 1 at least).
fn drift(bank: &Bank, learner: usize, seen: &Statistics, lambda: f64) -> [f64; 3] {
    let dim = seen.moment.len();
    let mut precision = Symmetric::identity(dim, lambda);
    precision.add(1.0, &seen.gram);
    let factor = precision.cholesky().expect("V is positive definite");
    let mut estimate = seen.moment.clone();
    factor.solve(&mut estimate);
    let log_det = factor.log_det() - dim as f64 * lambda.ln();

    let apart = |a: &[f64], b: &[f64]| {
        let largest = b.iter().fold(f64::MIN_POSITIVE, |most, b| most.max(b.abs()));
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
    };
    let estimates = bank.estimates();
    [
        apart(bank.inverse(learner).packed(), factor.inverse().packed()),
        apart(&estimates[learner * dim..][..dim], &estimate),
        (bank.progress(learner).log_det - log_det).abs() / log_det.max(1.0),
    ]
}

/// The error of the worse of two learners after that many updates of each.
fn drift_after(
    updates: usize,
    dim: usize,
    lambda: f64,
    mut draw: impl FnMut(&mut ChaCha8Rng, &mut [f64]),
) -> [f64; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut bank = Bank::new(2, dim, lambda);
    let mut seen = [Statistics::new(dim), Statistics::new(dim)];
    let mut values = vec![0.0; 2 * dim];
    for _ in 0..updates {
        let mut rewards = [0.0; 2];
        for (at, x) in values.chunks_exact_mut(dim).enumerate() {
            draw(&mut rng, x);
            rewards[at] = x[0] + rng.random_range(-0.1..0.1);
            seen[at].learn(x, rewards[at]);
        }
        bank.learn(&Contexts::new(&values, dim).unwrap(), &[0, 1], &rewards);
    }
    let (a, b) = (drift(&bank, 0, &seen[0], lambda), drift(&bank, 1, &seen[1], lambda));
    std::array::from_fn(|at| a[at].max(b[at]))
}

fn assert_drift(drift: [f64; 3], bounds: [f64; 3]) {
    assert!((0..3).all(|at| drift[at] < bounds[at]), "{drift:?} against {bounds:?}");
}

#[test]
fn a_million_updates_of_the_papers_contexts() {
    let drift = drift_after(1_000_000, 15, 1.0, |rng, x| {
        x.fill_with(|| rng.random_range(-0.258..0.258));
    });
    assert_drift(drift, [1e-11; 3]);
}

#[test]
fn a_million_updates_along_one_line() {
    // All but one in ten thousand of every context lies in one direction: the condition number of
    // V is 5·10⁶, with which a fresh solve itself is right to about 10⁻⁹ only.
    let drift = drift_after(1_000_000, 15, 1.0, |rng, x| {
        let along = rng.random_range(-1.0..1.0);
        x.fill_with(|| along + rng.random_range(-1e-4..1e-4));
    });
    assert_drift(drift, [1e-6, 1e-5, 1e-7]);
}

#[test]
fn a_million_updates_of_coordinates_with_different_units() {
    // From 10⁻³ to 10³.
    let drift = drift_after(1_000_000, 7, 1.0, |rng, x| {
        for (k, x) in x.iter_mut().enumerate() {
            *x = rng.random_range(-1.0..1.0) * 10f64.powi(k as i32 - 3);
        }
    });
    assert_drift(drift, [1e-11; 3]);
}

#[test]
fn lengths_from_a_thousandth_to_ten_thousand() {
    // The update through V is taken wherever a context is far larger than all before it.
    let drift = drift_after(100_000, 6, 1.0, |rng, x| {
        let scale = 10f64.powf(rng.random_range(-3.0..4.0));
        x.fill_with(|| scale * rng.random_range(-1.0..1.0));
    });
    assert_drift(drift, [1e-7; 3]);
}

#[test]
fn lengths_beyond_the_digits_of_f64_do_no_harm() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    for set in sets() {
        let mut bank = Bank::new(9, 6, 1.0).using(set);
        for t in 0..5_000 {
            let scale = 10f64.powf(rng.random_range(-3.0..12.0));
            let x: Vec<f64> = (0..6).map(|_| scale * rng.random_range(-1.0..1.0)).collect();
            let before = bank.progress(t % 9).log_det;
            bank.learn_one(t % 9, &x, rng.random_range(-1.0..1.0));
            let log_det = bank.progress(t % 9).log_det;
            assert!((before..400.0).contains(&log_det), "{} after {t}: {log_det}", set.name());
        }
        assert!(bits(&bank).into_iter().all(|bits| f64::from_bits(bits).is_finite()));
    }
}

#[test]
fn a_huge_context_of_one_learner_is_nothing_to_its_neighbours() {
    for set in sets() {
        let (dim, huge) = (4, 2);
        let mut stream = Stream::new(dim, LANES, 21);
        let mut bank = Bank::new(LANES, dim, 1.0).using(set);
        let mut without = bank.clone();
        let mut values = stream.contexts();
        let (arms, rewards) = (std::array::from_fn::<_, LANES, _>(|l| l), stream.values(LANES));
        without.learn(&Contexts::new(&values, dim).unwrap(), &arms, &rewards);
        values[huge * dim..(huge + 1) * dim].fill(1e6);
        bank.learn(&Contexts::new(&values, dim).unwrap(), &arms, &rewards);
        for learner in (0..LANES).filter(|learner| *learner != huge) {
            assert_eq!(bank.inverse(learner), without.inverse(learner), "{}", set.name());
        }
        let mut seen = Statistics::new(dim);
        seen.learn(&[1e6; 4], rewards[huge]);
        assert_drift(drift(&bank, huge, &seen, 1.0), [1e-15, 1e-9, 1e-12]);
    }
}

#[test]
fn a_context_too_large_for_any_number_teaches_nothing() {
    for set in sets() {
        for size in [1e155, 1e200, f64::MAX] {
            let mut bank = Bank::new(3, 2, 1.0).using(set);
            bank.learn_one(1, &[0.5, -0.5], 1.0);
            let before = bits(&bank);
            bank.learn_one(1, &[size, -size], 1.0);
            assert_eq!(bits(&bank), before, "{} at {size}", set.name());
        }
    }
}

proptest! {
    #[test]
    fn any_updates_leave_the_inverse_positive_definite_and_exact(
        xs in prop::collection::vec(
            (prop::collection::vec(-1.0..1.0f64, 6), -2.0..3.0f64, 0usize..11),
            1..80,
        ),
        lambda in 0.01..10.0f64,
    ) {
        let mut bank = Bank::new(11, 6, lambda);
        let mut seen = vec![Statistics::new(6); 11];
        for (x, size, learner) in &xs {
            let x: Vec<f64> = x.iter().map(|x| x * 10f64.powf(*size)).collect();
            bank.learn_one(*learner, &x, x[0]);
            seen[*learner].learn(&x, x[0]);
        }
        for (learner, seen) in seen.iter().enumerate() {
            // Symmetric by construction (packed); positive definite where it has a factor.
            prop_assert!(bank.inverse(learner).cholesky().is_some());
            let drift = drift(&bank, learner, seen, lambda);
            prop_assert!(drift.iter().all(|drift| *drift < 1e-7), "{drift:?}");
        }
    }
}

/// ln(1 + v) of eight numbers.
struct Ln1p(F64x8);

impl Kernel for Ln1p {
    type Output = F64x8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let mut result = F64x8::splat(0.0);
        simd.store(simd.ln_1p(simd.load(&self.0)), &mut result);
        result
    }
}

#[test]
fn the_logarithm_is_that_of_the_standard_library() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    for _ in 0..20_000 {
        let v = F64x8(std::array::from_fn(|_| 10f64.powf(rng.random_range(-20.0..8.0))));
        for set in sets() {
            let found = set.run(Ln1p(v));
            for (v, found) in v.0.iter().zip(found.0) {
                let relative = (found - v.ln_1p()).abs() / v.ln_1p();
                assert!(relative < 1e-15, "{}: ln(1 + {v:e}) = {found:e}", set.name());
            }
        }
    }
    for set in sets() {
        assert_eq!(set.run(Ln1p(F64x8::splat(0.0))), F64x8::splat(0.0));
    }
}

/// e^v and ln v of eight numbers.
struct ExpLn(F64x8, F64x8);

impl Kernel for ExpLn {
    type Output = [F64x8; 2];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [F64x8; 2] {
        let mut results = [F64x8::splat(0.0); 2];
        simd.store(simd.exp(simd.load(&self.0)), &mut results[0]);
        simd.store(simd.ln(simd.load(&self.1)), &mut results[1]);
        results
    }
}

#[test]
fn exponentials_and_logarithms_are_those_of_the_standard_library() {
    let mut rng = ChaCha8Rng::seed_from_u64(37);
    for _ in 0..20_000 {
        let v = F64x8(std::array::from_fn(|_| rng.random_range(-699.0..699.0)));
        let w = F64x8(std::array::from_fn(|_| 10f64.powf(rng.random_range(-290.0..290.0))));
        for set in sets() {
            let [exp, ln] = set.run(ExpLn(v, w));
            for l in 0..LANES {
                let (v, w, name) = (v[l], w[l], set.name());
                assert!((exp[l] / v.exp() - 1.0).abs() < 1e-14, "{name}: e^{v} = {:e}", exp[l]);
                assert!((ln[l] - w.ln()).abs() < 1e-14 * w.ln().abs().max(1.0), "{name}: ln {w:e}");
            }
        }
    }
    for set in sets() {
        let [exp, ln] = set.run(ExpLn(F64x8::splat(0.0), F64x8::splat(1.0)));
        assert_eq!((exp, ln), (F64x8::splat(1.0), F64x8::splat(0.0)));
        let [exp, _] = set.run(ExpLn(F64x8::splat(-1e9), F64x8::splat(1.0)));
        assert!(exp[0] > 0.0 && exp[0] < 1e-300);
    }
}
