//! Ridge regression by a Cholesky factor: M = λI + Σxxᵀ = LLᵀ, w = M⁻¹Σxy, for policies that
//! sample.
//!
//! L follows every reward in O(d²) ([`Cholesky::add_outer`]) and is never recomputed: a draw from
//! N(w, v²M⁻¹) is w + v·L⁻ᵀz, and xᵀM⁻¹x is the squared length of L⁻¹x, both O(d²).

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::dot;
use crate::Error;
use crate::algebra::Cholesky;
use crate::saved::{read_numbers, write_numbers};

/// One learner. Copies share its numbers until one of them learns, so that a copy of many learners
/// is cheap.
#[derive(Clone, Debug)]
pub struct Ridge {
    numbers: Arc<Numbers>,
}

#[derive(Clone, Debug)]
struct Numbers {
    factor: Cholesky,
    moment: Vec<f64>,
    estimate: Vec<f64>,
    rewards: f64,
}

impl Ridge {
    /// A fresh learner.
    pub fn new(dim: usize, lambda: f64) -> Self {
        let (moment, estimate) = (vec![0.0; dim], vec![0.0; dim]);
        let factor = Cholesky::identity(dim, lambda);
        Self { numbers: Arc::new(Numbers { factor, moment, estimate, rewards: 0.0 }) }
    }

    /// Learns one reward for one context.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        let own = Arc::make_mut(&mut self.numbers);
        own.moment.iter_mut().zip(x).for_each(|(b, x)| *b += x * y);
        // `estimate` serves as scratch for x before it is solved for.
        own.estimate.copy_from_slice(x);
        own.factor.add_outer(&mut own.estimate);
        own.estimate.copy_from_slice(&own.moment);
        own.factor.solve(&mut own.estimate);
        own.rewards += 1.0;
    }

    /// w + v·L⁻ᵀz, in place of z: a draw from N(w, v²M⁻¹) where z is standard normal.
    pub fn draw(&self, v: f64, z: &mut [f64]) {
        self.numbers.factor.backward(z);
        z.iter_mut().zip(&self.numbers.estimate).for_each(|(z, w)| *z = w + v * *z);
    }

    /// xᵀM⁻¹x; `scratch` is resized to the length of x.
    pub fn quadratic(&self, x: &[f64], scratch: &mut Vec<f64>) -> f64 {
        scratch.clear();
        scratch.extend(x);
        self.numbers.factor.forward(scratch);
        dot(scratch, scratch)
    }

    /// M = LLᵀ.
    pub fn factor(&self) -> &Cholesky {
        &self.numbers.factor
    }

    /// w.
    pub fn estimate(&self) -> &[f64] {
        &self.numbers.estimate
    }

    /// The number of rewards learned.
    pub fn rewards(&self) -> f64 {
        self.numbers.rewards
    }

    /// Writes the whole state.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, self.numbers.factor.packed())?;
        write_numbers(out, &self.numbers.moment)?;
        write_numbers(out, &self.numbers.estimate)?;
        write_numbers(out, &[self.numbers.rewards])
    }

    /// Reads what [`Ridge::save`] wrote of a learner of this dimension.
    pub fn load(from: &mut dyn Read, what: &'static str, dim: usize) -> Result<Self, Error> {
        let mut ridge = Self::new(dim, 1.0);
        let own = Arc::make_mut(&mut ridge.numbers);
        own.factor = read_factor(from, what, dim)?;
        read_numbers(from, what, &mut own.moment)?;
        read_numbers(from, what, &mut own.estimate)?;
        read_numbers(from, what, std::slice::from_mut(&mut own.rewards))?;
        Ok(ridge)
    }
}

/// Reads L of a factor of this dimension.
pub(crate) fn read_factor(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
) -> Result<Cholesky, Error> {
    let mut packed = Cholesky::identity(dim, 1.0).packed().to_vec();
    read_numbers(from, what, &mut packed)?;
    Cholesky::from_packed(dim, packed).ok_or_else(|| Error::Saved {
        what,
        found: "a factor whose diagonal is not positive".to_owned(),
        expected: "a factor of a positive definite matrix".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Oful;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// After 20,000 rewards it agrees with OFUL, which is recomputed now and then.
    #[test]
    fn it_is_the_regression_of_oful() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let (mut ridge, mut oful) = (Ridge::new(5, 0.7), Oful::new(5, 0.7));
        for _ in 0..20_000 {
            let x: Vec<f64> = (0..5).map(|_| rng.random_range(-1.0..1.0)).collect();
            let y = rng.random_range(-1.0..1.0);
            ridge.learn(&x, y);
            oful.learn(&x, y);
        }
        for (ridge, oful) in ridge.estimate().iter().zip(oful.estimate()) {
            assert!((ridge - oful).abs() < 1e-12);
        }
        let x = [0.3, -0.2, 0.9, 0.0, 0.4];
        let square = ridge.quadratic(&x, &mut Vec::new());
        assert!((square / oful.inverse().quadratic(&x) - 1.0).abs() < 1e-9);
    }
}
