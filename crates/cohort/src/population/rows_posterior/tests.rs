use proptest::prelude::*;

use super::*;
use crate::linear::symmetric::packed_len;
use crate::linear::{Symmetric, dot};

/// The same with a dense covariance of θ of size D: Δ − ΔXᵀG⁻¹XΔ by one reward at a time.
struct Dense {
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    log: f64,
}

fn dense(rows: &[(Vec<f64>, f64, f64)], centre: &[f64], prior: &[f64], noise: f64) -> Dense {
    let dim = prior.len();
    let mut covariance = vec![vec![0.0; dim]; dim];
    (0..dim).for_each(|k| covariance[k][k] = prior[k]);
    let (mut mean, mut log) = (centre.to_vec(), 0.0);
    for (x, y, weight) in rows {
        let noise_here = noise / weight;
        let along: Vec<f64> = covariance.iter().map(|row| dot(row, x)).collect();
        let variance = noise_here + dot(&along, x);
        let rest = y - dot(&mean, x);
        // A row of weight w: ln of (1 + …/σ²), and w of ln σ².
        log -= 0.5 * ((variance / noise_here).ln() + weight * noise.ln() + rest * rest / variance);
        for i in 0..dim {
            mean[i] += along[i] * rest / variance;
            for j in 0..dim {
                covariance[i][j] -= along[i] * along[j] / variance;
            }
        }
    }
    Dense { mean, covariance, log }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-8 * (1.0 + b.abs())
}

proptest! {
    #[test]
    fn the_dual_form_is_the_posterior(
        dim in 2usize..12,
        n in 0usize..14,
        arms in 1usize..20,
        seed in any::<u64>(),
        noise in 0.05..2.0f64,
        weighted in any::<bool>(),
    ) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
        };
        let mut take = |count: usize| (0..count).map(|_| next()).collect::<Vec<f64>>();
        let rows: Vec<(Vec<f64>, f64, f64)> = (0..n)
            .map(|_| {
                let mut x = take(dim);
                x[dim - 1] = 1.0;
                let [y, weight] = [take(1)[0], take(1)[0]];
                (x, 3.0 * y, if weighted { weight + 0.6 } else { 1.0 })
            })
            .collect();
        let design = Design::of(dim, rows.iter().map(|(x, y, w)| (&x[..dim - 1], *y, *w)));
        let prior: Vec<f64> = take(dim).iter().map(|v| v + 0.5).collect();
        let posterior = RowsPosterior::new(&design, &prior, noise).unwrap();
        let contexts = take(arms * dim);
        let root = take(dim * dim);
        let mut doubt = Symmetric::zero(dim);
        root.chunks(dim).for_each(|row| doubt.add_outer(1.0, row));
        prop_assert_eq!(doubt.packed().len(), packed_len(dim));

        for centre in [take(dim), take(dim)] {
            let plain = dense(&rows, &centre, &prior, noise);
            let mut mean = vec![0.0; dim];
            let log = posterior.mean(&centre, &mut mean);
            prop_assert!(near(log, plain.log), "{log} against {}", plain.log);
            prop_assert_eq!(log, posterior.log_likelihood(&centre));
            prop_assert!(mean.iter().zip(&plain.mean).all(|(a, b)| near(*a, *b)));
        }

        let plain = dense(&rows, &vec![0.0; dim], &prior, noise);
        let none = Symmetric::zero(dim);
        let (mut known, mut carried) = (vec![0.0; arms], vec![0.0; arms * dim]);
        posterior.variances(&contexts, &mut known);
        posterior.carried(&contexts, &mut carried);
        let mut both = vec![0.0; 2 * arms];
        posterior.variances_with(&contexts, &[none.packed(), doubt.packed()], &mut both);
        prop_assert_eq!(&both[..arms], &known[..]);
        let unknown = &both[arms..];
        for (at, c) in contexts.chunks(dim).enumerate() {
            let along: Vec<f64> = plain.covariance.iter().map(|row| dot(row, c)).collect();
            prop_assert!(near(known[at], dot(&along, c)));
            // A = I − XᵀG⁻¹XΔ = Δ⁻¹ times the covariance, where Δ has an inverse.
            let a: Vec<f64> = along.iter().zip(&prior).map(|(a, prior)| a / prior).collect();
            let found = &carried[at * dim..][..dim];
            if prior.iter().all(|variance| *variance > 1e-3) {
                prop_assert!(a.iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-6));
            }
            prop_assert!(near(unknown[at] - known[at], doubt.quadratic(found)));
        }
    }
}

#[test]
fn a_noise_of_nothing_is_refused() {
    let mut design = Design::new(2);
    design.push(&[1.0, 1.0], 0.5, 1.0);
    design.push(&[1.0, 1.0], 0.5, 1.0);
    assert!(RowsPosterior::new(&design, &[1.0, 1.0], 0.0).is_none());
    assert!(RowsPosterior::new(&design, &[1.0, 1.0], 0.1).is_some());
}
