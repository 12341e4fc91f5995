//! The one place that decides whether two points are neighbours.

/// The points, γ, and the rule i ~ j ⇔ ‖p_i − p_j‖ ≤ γ.
///
/// The rule is Σ_k (a_k − b_k)² ≤ γ² in f64, summed from the first coordinate to the last. Before
/// squaring, both sides are multiplied by the power of two that brings γ into [1, 2): that changes
/// no digit of either, but squares neither overflow nor vanish, whatever the size of γ.
pub(super) struct Near<'a> {
    points: &'a [f64],
    dim: usize,
    scale: f64,
    limit: f64,
    unit: Unit,
}

/// The unit of length of the search in single precision: γ, unless the coordinates are so large
/// beside γ that their squares would leave the range of f32.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Multiplies a coordinate; a power of two.
    pub scale: f64,
    /// γ in this unit.
    pub gamma: f64,
}

/// Coordinates in units are below 2⁴⁰: their squares fit f32.
const LARGEST_EXPONENT: i32 = 38;

impl<'a> Near<'a> {
    pub fn new(points: &'a [f64], dim: usize, gamma: f64) -> Self {
        let count = points.len() / dim;
        assert!(count < u32::MAX as usize, "{count} points: positions are 32-bit numbers");
        let scale = power_of_two(-exponent(gamma));
        let largest = points.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        let unit = power_of_two((-exponent(gamma)).min(LARGEST_EXPONENT - exponent(largest)));
        Self {
            points,
            dim,
            scale,
            limit: (gamma * scale) * (gamma * scale),
            unit: Unit { scale: unit, gamma: gamma * unit },
        }
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub fn count(&self) -> usize {
        self.points.len() / self.dim
    }

    pub fn unit(&self) -> Unit {
        self.unit
    }

    pub fn point(&self, i: u32) -> &'a [f64] {
        &self.points[i as usize * self.dim..][..self.dim]
    }

    /// Whether points i and j are neighbours.
    pub fn near(&self, i: u32, j: u32) -> bool {
        let mut sum = 0.0;
        for (a, b) in self.point(i).iter().zip(self.point(j)) {
            let apart = (a - b) * self.scale;
            sum += apart * apart;
        }
        sum <= self.limit
    }
}

/// ⌊log₂ x⌋ for x > 0, within the exponents whose inverse is a normal number.
fn exponent(x: f64) -> i32 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    exponent.clamp(-1023, 1022)
}

/// 2^exponent, for an exponent in −1022..=1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, gamma: f64) -> bool {
        Near::new(&[a, b], 1, gamma).near(0, 1)
    }

    #[test]
    fn no_size_of_gamma_overflows_or_vanishes() {
        for size in [5e-324, 1e-310, 1e-200, 1e-5, 1.0, 1e150, 1e200, 8e307] {
            assert!(near(0.0, size, size), "{size}");
            assert!(near(-size, 0.0, size), "{size}");
            assert!(!near(-size, size, size), "{size}");
            assert!(!near(0.0, size, size / 2.0), "{size}");
        }
        // Apart by more than the range of f64.
        assert!(!near(-f64::MAX, f64::MAX, f64::MAX));
        assert!(near(-f64::MAX / 2.0, f64::MAX / 2.0, f64::MAX));
    }

    #[test]
    fn at_zero_only_equal_points_are_near() {
        assert!(near(0.3, 0.3, 0.0));
        assert!(near(0.0, -0.0, 0.0));
        assert!(!near(0.0, 5e-324, 0.0));
        assert!(!near(1e308, -1e308, 0.0));
    }

    #[test]
    fn the_scale_changes_no_decision() {
        // 0.1 + 0.2 is not 0.3: the plain formula decides, digit for digit.
        for (a, b, gamma) in [(0.0, 0.3, 0.1 + 0.2), (0.1, 0.4, 0.3), (0.3, 0.1 + 0.2, 5e-17)] {
            let plain = (a - b) * (a - b) <= gamma * gamma;
            assert_eq!(near(a, b, gamma), plain, "{a} {b} {gamma}");
        }
    }
}
