//! The arms on offer, each a context vector.

use crate::Error;

/// The number of an arm among those on offer, from 0.
pub type Arm = usize;

/// The contexts β_1..β_K of one round (or of one request): K vectors of R^d, row by row.
///
/// A borrowed view, so that callers keep their own memory. Every number is finite: whoever holds a
/// `Contexts` need not check again.
///
/// ```
/// let values = [0.1, 0.2, 0.3, 0.4];
/// let contexts = cohort::Contexts::new(&values, 2)?;
/// assert_eq!(contexts.arms(), 2);
/// assert_eq!(contexts.arm(1), [0.3, 0.4]);
/// # Ok::<(), cohort::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Contexts<'a> {
    values: &'a [f64],
    dim: usize,
}

impl<'a> Contexts<'a> {
    /// A view of `values` as rows of `dim` numbers. Refuses an empty offer, an incomplete last row,
    /// and numbers that are not finite.
    pub fn new(values: &'a [f64], dim: usize) -> Result<Self, Error> {
        if dim == 0 || values.is_empty() || !values.len().is_multiple_of(dim) {
            return Err(Error::Shape {
                what: "contexts",
                found: format!("{} numbers", values.len()),
                expected: format!("one or more rows of {dim}"),
            });
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                what: "contexts",
                place: format!("arm {}, coordinate {}", at / dim, at % dim),
                found: values[at],
            });
        }
        Ok(Self { values, dim })
    }

    /// K, the number of arms.
    pub fn arms(&self) -> usize {
        self.values.len() / self.dim
    }

    /// d, the dimension.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All numbers, row by row.
    pub(crate) fn values(&self) -> &'a [f64] {
        self.values
    }

    /// The vector of one arm.
    pub fn arm(&self, arm: Arm) -> &'a [f64] {
        &self.values[arm * self.dim..(arm + 1) * self.dim]
    }

    /// All vectors, in the order of the arms.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [f64]> + Clone + use<'a> {
        self.values.chunks_exact(self.dim)
    }
}
