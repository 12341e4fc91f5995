//! The largest norm within an ellipsoid: line 11 of ALB-Norm, exactly.
//!
//! ```text
//! maximise ‖θ‖  subject to  (θ − θ̂)ᵀV(θ − θ̂) ≤ β²
//! ```
//!
//! In the eigenbasis of V = QΛQᵀ, with c = Qᵀθ̂, stationarity gives θ_k = c_k·μλ_k/(μλ_k − 1) for a
//! multiplier μ ≥ 1/λ_min, and the constraint becomes one *secular* equation in μ, `Σ_k λ_k
//! c_k²/(μλ_k − 1)² = β²`, whose left side falls from ∞ to 0: one root, found by bisection on a
//! logarithmic scale. Where c is zero along the flattest axis the left side need not reach β² (the
//! "hard case" of trust-region problems): then μ = 1/λ_min, and the remainder goes along that axis.

use crate::algebra::Eigen;

/// `max ‖θ‖` over `{θ : (θ − centre)ᵀ V (θ − centre) ≤ radius²}`, with V given by its eigenbasis.
pub fn largest_norm(eigen: &Eigen, centre: &[f64], radius: f64) -> f64 {
    let d = centre.len();
    let along: Vec<f64> = eigen.vectors.chunks_exact(d).map(|q| super::dot(q, centre)).collect();
    if radius <= 0.0 {
        return super::dot(centre, centre).sqrt();
    }
    let flattest = eigen.values[0];

    // In units of the flattest axis: a_k = λ_k/λ_min ≥ 1, s = μλ_min − 1 ≥ 0.
    let ratios: Vec<f64> = eigen.values.iter().map(|value| value / flattest).collect();
    let reach = radius * radius / flattest;
    let secular = |s: f64| -> f64 {
        (ratios.iter().zip(&along))
            .map(|(a, c)| if *c == 0.0 { 0.0 } else { a * (c / (a * (1.0 + s) - 1.0)).powi(2) })
            .sum()
    };

    // Σ a c²/(a(1+s) − 1)² ≤ Σ a c²/(as)² ≤ ‖c‖²/s²: the root lies at or below ‖c‖/√reach.
    let length_squared: f64 = along.iter().map(|c| c * c).sum();
    let (mut low, mut high) = (0.0, (length_squared / reach).sqrt());
    for _ in 0..200 {
        let middle = if low == 0.0 { high * 1e-3 } else { (low * high).sqrt() };
        if middle < 1e-18 || high <= low * (1.0 + 1e-15) {
            break;
        }
        if secular(middle) > reach { low = middle } else { high = middle }
    }
    let s = high;

    let theta_squared: f64 = (ratios.iter().zip(&along))
        .filter(|(_, c)| **c != 0.0)
        .map(|(a, c)| (c * a * (1.0 + s) / (a * (1.0 + s) - 1.0)).powi(2))
        .sum();
    let used = secular(s);
    // Hard case: the multiplier is at its limit and the constraint is not active yet.
    let missing = (reach - used).max(0.0);
    (theta_squared + missing).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::Symmetric;
    use super::*;
    use proptest::prelude::*;

    /// Brute force: the boundary of the ellipse, point by point (d = 2).
    fn brute_force(precision: &Symmetric, centre: &[f64], radius: f64) -> f64 {
        let eigen = precision.eigen();
        let steps = 200_000;
        (0..steps)
            .map(|step| {
                let angle = std::f64::consts::TAU * f64::from(step) / f64::from(steps);
                let (u, v) =
                    (angle.cos() / eigen.values[0].sqrt(), angle.sin() / eigen.values[1].sqrt());
                (0..2)
                    .map(|i| centre[i] + radius * (u * eigen.vectors[i] + v * eigen.vectors[2 + i]))
                    .fold(0.0, |sum: f64, theta| sum + theta * theta)
                    .sqrt()
            })
            .fold(0.0, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_brute_force_in_the_plane(
            x in prop::collection::vec(-2.0..2.0f64, 6),
            centre in prop::collection::vec(-2.0..2.0f64, 2),
            radius in 0.01..3.0f64,
        ) {
            let mut precision = Symmetric::identity(2, 0.5);
            for x in x.chunks(2) {
                precision.add_outer(1.0, x);
            }
            let exact = largest_norm(&precision.eigen(), &centre, radius);
            let brute = brute_force(&precision, &centre, radius);
            prop_assert!((exact - brute).abs() < 1e-7 * exact.max(1.0), "{exact} against {brute}");
        }

        #[test]
        fn no_point_of_the_ellipsoid_is_longer_and_one_is_as_long(
            x in prop::collection::vec(-1.0..1.0f64, 5 * 12),
            centre in prop::collection::vec(-1.0..1.0f64, 5),
            radius in 0.01..2.0f64,
        ) {
            let mut precision = Symmetric::identity(5, 1.0);
            for x in x.chunks(5) {
                precision.add_outer(1.0, x);
            }
            let exact = largest_norm(&precision.eigen(), &centre, radius);
            let longest = climb(&precision, &centre, radius);
            prop_assert!((exact - longest).abs() < 1e-6 * exact, "{exact} against {longest}");
        }
    }

    /// Brute force in any dimension: from many starts, move to the point of the boundary that is
    /// farthest in the direction of the present one. ‖θ‖ is convex, so each step climbs.
    fn climb(precision: &Symmetric, centre: &[f64], radius: f64) -> f64 {
        let inverse = precision.cholesky().unwrap().inverse();
        let d = centre.len();
        let mut longest: f64 = 0.0;
        for start in 0..2 * d {
            let mut theta = vec![0.0; d];
            theta[start / 2] = if start % 2 == 0 { 1.0 } else { -1.0 };
            for _ in 0..20_000 {
                let mut step = vec![0.0; d];
                inverse.times(&theta, &mut step);
                let scale = radius / inverse.quadratic(&theta).sqrt();
                theta = (0..d).map(|i| centre[i] + scale * step[i]).collect();
            }
            longest = longest.max(super::super::dot(&theta, &theta).sqrt());
        }
        longest
    }

    #[test]
    fn the_hard_case_goes_along_the_flattest_axis() {
        // V = diag(1, 4), θ̂ = (0, 1), β = 2: no component along the flat axis at all.
        let mut precision = Symmetric::identity(2, 1.0);
        precision.add_outer(3.0, &[0.0, 1.0]);
        let exact = largest_norm(&precision.eigen(), &[0.0, 1.0], 2.0);
        assert!((exact - brute_force(&precision, &[0.0, 1.0], 2.0)).abs() < 1e-8);
        // And with a centre of zero it is the longest half-axis.
        assert!((largest_norm(&precision.eigen(), &[0.0, 0.0], 2.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn no_radius_leaves_the_centre() {
        assert_eq!(largest_norm(&Symmetric::identity(2, 1.0).eigen(), &[3.0, 4.0], 0.0), 5.0);
    }
}
