//! The slope of a straight line through points on logarithmic axes, and how sure it is.

use crate::figures::{Fit, Point};
use crate::results::half_width_95;

/// A fitted exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The line through the means.
    pub fit: Fit,
    /// Half the width of the 95 % interval of the slope over repetitions; `None` of one.
    pub margin: Option<f64>,
}

impl Slope {
    /// Whether an exponent is within the interval.
    pub fn allows(&self, exponent: f64) -> bool {
        (self.fit.slope - exponent).abs() <= self.margin.unwrap_or(0.0)
    }
}

/// Fits one line to the means, and one to each repetition to see how much slopes vary.
/// `repetitions[k]` are the numbers at `xs[k]`.
pub fn slope(xs: &[f64], repetitions: &[Vec<f64>]) -> Option<Slope> {
    let means: Vec<f64> =
        repetitions.iter().map(|all| all.iter().sum::<f64>() / all.len() as f64).collect();
    let fit = line(xs, &means)?;
    let count = repetitions.iter().map(Vec::len).min()?;
    let slopes: Vec<f64> = (0..count)
        .filter_map(|rep| {
            let ys: Vec<f64> = repetitions.iter().map(|all| all[rep]).collect();
            line(xs, &ys).map(|fit| fit.slope)
        })
        .collect();
    Some(Slope { fit, margin: half_width_95(&slopes) })
}

/// Least squares in the logarithms.
fn line(xs: &[f64], ys: &[f64]) -> Option<Fit> {
    let points: Vec<(f64, f64)> = (xs.iter().zip(ys))
        .filter(|(x, y)| **x > 0.0 && **y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let along: f64 = points.iter().map(|(px, py)| (px - x) * (py - y)).sum();
    let squares: f64 = points.iter().map(|(px, _)| (px - x).powi(2)).sum();
    let slope = along / squares;
    slope.is_finite().then_some(Fit { slope, intercept: y - slope * x })
}

/// The points of a fit.
pub fn means(xs: &[f64], repetitions: &[Vec<f64>]) -> Vec<Point> {
    xs.iter().zip(repetitions).map(|(x, all)| super::evidence::point(*x, all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_is_found_again() {
        let xs = [1.0, 2.0, 4.0, 8.0];
        let power = |scale: f64| xs.map(|x: f64| scale * x.powf(-0.5)).to_vec();
        let (a, b) = (power(3.0), power(5.0));
        let repetitions: Vec<Vec<f64>> = (0..4).map(|k| vec![a[k], b[k]]).collect();
        let slope = slope(&xs, &repetitions).unwrap();
        assert!((slope.fit.slope + 0.5).abs() < 1e-12);
        assert!(slope.margin.unwrap() < 1e-12);
        assert!((slope.fit.intercept - 4f64.ln()).abs() < 1e-12);
    }
}
