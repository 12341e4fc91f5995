//! The mean of the vectors that one user answered to when shown one item.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::saved::take_count;

/// A vector that is this near to the mean, as a share of its own squared length, is taken to be the mean: numbers that are
/// standardised by running moments change vectors a little where nothing else does.
const NEAR: f64 = 0.01;
/// No vector is longer.
const MAX_DIM: usize = 1 << 16;

/// A mean vector; of nothing in what a version kept that did not have them. Copies share the numbers until one changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MeanVector(Option<Arc<[f32]>>);

impl MeanVector {
    /// Of one vector.
    pub fn of(vector: &[f64]) -> Self {
        Self(Some(vector.iter().map(|x| *x as f32).collect()))
    }

    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// Its numbers, none where it is not known.
    pub fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().flat_map(|numbers| numbers.iter()).map(|x| f64::from(*x))
    }

    /// Whether a vector is as good as this one; what is not known, or of another length, has nothing to say against it.
    pub fn is_near(&self, vector: &[f64]) -> bool {
        let Some(mean) = self.0.as_deref().filter(|mean| mean.len() == vector.len()) else {
            return true;
        };
        let (mut square, mut distance) = (0.0, 0.0);
        for (x, mean) in vector.iter().zip(mean) {
            let step = x - f64::from(*mean);
            square += x * x;
            distance += step * step;
        }
        distance <= NEAR * square
    }

    /// One vector more, the `count`-th.
    pub fn add(&mut self, vector: &[f64], count: f64) {
        let Some(mean) = self.0.as_mut().filter(|mean| mean.len() == vector.len()) else {
            return *self = Self::of(vector);
        };
        let moved = |(mean, x): (&f32, &f64)| {
            let mean = f64::from(*mean);
            (mean + (x - mean) / count) as f32
        };
        match Arc::get_mut(mean) {
            Some(numbers) => {
                for (mean, x) in numbers.iter_mut().zip(vector) {
                    *mean = moved((mean, x));
                }
            }
            None => *mean = mean.iter().zip(vector).map(moved).collect(),
        }
    }

    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let numbers = self.0.as_deref().unwrap_or_default();
        out.write_all(&(numbers.len() as u64).to_le_bytes())?;
        numbers.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
    }

    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let dim = take_count(from, MAX_DIM)? as usize;
        let mut bytes = vec![0; 4 * dim];
        from.read_exact(&mut bytes)?;
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let numbers: Arc<[f32]> = bytes.chunks_exact(4).map(number).collect();
        if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the number {x}")));
        }
        Ok(Self((dim > 0).then_some(numbers)))
    }
}
