//! Is it the same vector? Four projections of it, which are near each other where vectors are.

use crate::features::mix;

/// Projections of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sketch([i16; 4]);

impl Default for Sketch {
    fn default() -> Self {
        Self::ANY
    }
}

impl Sketch {
    /// Of vectors that an earlier version did not keep. No vector has it.
    pub const ANY: Self = Self([i16::MIN; 4]);
    /// Vectors whose sketches are no further from each other are the same: about 0.05 in every projection, or a twentieth
    /// of it.
    pub const SAME: u16 = 51;

    /// Of a vector.
    pub fn new(vector: &[f64]) -> Self {
        let mut sums = [0.0; 4];
        for (at, x) in vector.iter().enumerate() {
            let bits = mix(at as u64 + 1);
            for (part, sum) in sums.iter_mut().enumerate() {
                // Uniform, with variance 1.
                let weight = f64::from((bits >> (16 * part)) as i16) * (3f64.sqrt() / 32768.0);
                *sum += x * weight;
            }
        }
        Self(sums.map(on_scale))
    }

    /// The largest difference of a projection; none to one that is not known.
    pub fn distance(self, other: Self) -> u16 {
        if self == Self::ANY || other == Self::ANY {
            return 0;
        }
        let parts = self.0.iter().zip(other.0);
        parts.map(|(one, other)| one.abs_diff(other)).max().unwrap_or(0)
    }

    /// As it is kept.
    pub fn bits(self) -> u64 {
        self.0.iter().rev().fold(0, |bits, part| bits << 16 | u64::from(*part as u16))
    }

    /// What was kept.
    pub fn of_bits(bits: u64) -> Self {
        Self([0, 16, 32, 48].map(|by| (bits >> by) as i16))
    }
}

/// A number on a scale that is linear near 0 and roughly logarithmic far from it: 1024 steps to 1, and as many to every
/// doubling of 1 + |number|. By the bits of a float, so that all machines have the same.
fn on_scale(number: f64) -> i16 {
    let bits = (number.abs() as f32 + 1.0).to_bits();
    let steps = (bits.saturating_sub(1f32.to_bits()) >> 13).min(i16::MAX as u32) as i16;
    if number < 0.0 { -steps } else { steps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn it_tells_vectors_from_each_other_that_differ_in_a_word() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (mut same, mut alike) = (0, 0);
        for _ in 0..100_000 {
            let (one, other) = (rng.random_range(0..32), rng.random_range(0..31));
            let mut vector = [0.0; 32];
            vector.iter_mut().for_each(|x| *x = rng.random_range(-0.5..0.5));
            let with = |at: usize| {
                let mut vector = vector;
                vector[at] += 0.5;
                Sketch::new(&vector)
            };
            same += usize::from(with(one).distance(with((one + 1 + other) % 32)) <= Sketch::SAME);
            let measured = vector.map(|x| x * 1.01);
            alike +=
                usize::from(Sketch::new(&vector).distance(Sketch::new(&measured)) <= Sketch::SAME);
        }
        assert!(same <= 5 && alike > 95_000, "{same} {alike}");
    }

    #[test]
    fn large_numbers_and_its_bits() {
        let of = |x: f64| Sketch::new(&[x; 512]);
        assert!(of(1e6).distance(of(1.2e6)) > Sketch::SAME && of(1e6) != Sketch::ANY);
        assert_eq!((of(-0.0), on_scale(-1.0), on_scale(f64::MAX)), (of(0.0), -1024, i16::MAX));
        for sketch in [of(1e6), of(-3.0), Sketch::ANY] {
            assert_eq!(Sketch::of_bits(sketch.bits()), sketch);
        }
    }
}
