//! Student's t interval of a mean over repetitions.

use std::f64::consts::PI;

/// Half the width of the 95 % interval of the mean; `None` for fewer than two numbers.
pub fn half_width_95(numbers: &[f64]) -> Option<f64> {
    if numbers.len() < 2 {
        return None;
    }
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    Some(t_two_sided_95(numbers.len() - 1) * deviation / count.sqrt())
}

/// From here on t is normal to five digits.
const NEARLY_NORMAL: usize = 100_000;

/// t with P(|T| ≤ t) = 0.95, by bisection.
pub fn t_two_sided_95(freedom: usize) -> f64 {
    let freedom = freedom.min(NEARLY_NORMAL);
    // t(1) = 12.7 is the largest.
    let (mut low, mut high) = (1.9, 13.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < 0.95 { low = middle } else { high = middle }
    }
    high
}

/// P(|T| ≤ t) for whole degrees of freedom ν: a finite sum in θ = arctan(t/√ν) (Abramowitz and
/// Stegun, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let (sine, cosine) = (t / (freedom as f64).sqrt()).atan().sin_cos();
    // Even ν: sin θ·(1 + 1/2 cos²θ + 1·3/(2·4) cos⁴θ + …), up to cos^{ν−2}.
    // Odd ν: 2/π·(θ + sin θ·(cos θ + 2/3 cos³θ + 2·4/(3·5) cos⁵θ + …)), up to cos^{ν−2}.
    let odd = freedom % 2 == 1;
    let (mut power, mut term) = if odd { (1, cosine) } else { (0, 1.0) };
    let mut sum = 0.0;
    while power + 2 <= freedom {
        sum += term;
        power += 2;
        term *= cosine * cosine * (power as f64 - 1.0) / power as f64;
    }
    if odd { 2.0 / PI * (sine.atan2(cosine) + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let known =
            [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)];
        for (freedom, t) in known {
            assert!((t_two_sided_95(freedom) - t).abs() < 5e-5, "ν = {freedom}");
        }
        assert!((t_two_sided_95(100_000) - 1.95998).abs() < 5e-5, "the normal limit");
    }

    #[test]
    fn one_number_says_nothing_of_the_spread() {
        assert_eq!(half_width_95(&[3.0]), None);
        // Mean 2, deviation 1, three numbers: 4.3027·1/√3.
        assert!((half_width_95(&[1.0, 2.0, 3.0]).unwrap() - 2.4841).abs() < 1e-4);
    }
}
