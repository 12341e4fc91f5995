//! How large is a number usually? Count, mean and squared deviations, one number at a time.

/// Of some numbers: how many, their mean, and Σ(x − mean)².
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// Σ(x − mean)².
    pub squares: f64,
}

/// A standardised number is no further from 0 than this.
const FURTHEST: f64 = 4.0;

impl Moments {
    /// One more number.
    #[inline]
    pub fn add(&mut self, number: f64) {
        self.count += 1.0;
        let step = number - self.mean;
        self.mean += step / self.count;
        self.squares += step * (number - self.mean);
    }

    /// Those of others too.
    pub fn merge(&mut self, others: &Self) {
        if others.count == 0.0 {
            return;
        }
        let count = self.count + others.count;
        let step = others.mean - self.mean;
        self.mean += step * (others.count / count);
        self.squares += others.squares + step * step * (self.count * others.count / count);
        self.count = count;
    }

    /// The standard deviation; 0 where all numbers were the same.
    pub fn deviation(&self) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        let deviation = (self.squares / self.count).sqrt();
        // What is left of numbers that are all the same is rounding.
        if deviation <= 1e-9 * self.mean.abs() { 0.0 } else { deviation }
    }

    /// How many standard deviations a number is from the mean, at most four; 0 where nothing is
    /// known of such numbers.
    pub fn standardise(&self, number: f64) -> f64 {
        standardise(number, self.mean, self.deviation())
    }

    /// The root of the mean square.
    pub fn size(&self) -> f64 {
        match self.count > 0.0 {
            true => (self.mean * self.mean + self.squares / self.count).sqrt(),
            false => 0.0,
        }
    }
}

/// [`Moments::standardise`] of numbers with that mean and that standard deviation.
#[inline]
pub(crate) fn standardise(number: f64, mean: f64, deviation: f64) -> f64 {
    match deviation {
        0.0 => 0.0,
        deviation => ((number - mean) / deviation).clamp(-FURTHEST, FURTHEST),
    }
}
