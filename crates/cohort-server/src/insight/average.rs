//! How high are rewards, and how sure is that, however often one looks?
//!
//! A page that shows an interval every second is looked at every second. An interval that holds 95 %
//! of the time at one moment fixed beforehand does not hold 95 % of the time at all of them: sooner
//! or later a policy that changes nothing would seem to help. So intervals here hold at all times
//! together, with 95 %: confidence sequences.
//!
//! ```text
//! μ̂ ± σ̂ √( 2(tρ² + 1)/(t²ρ²) · ln(√(tρ² + 1)/α) )        t rewards, α = 0.05
//! ```
//!
//! ρ decides when they are tightest: at t = 1000, where they are 1.55 times as wide as an interval for
//! that moment alone. The average of a policy that learns is over decisions that get better: what is
//! covered is the mean of what each of them was worth.
//!
//! For the difference of two groups t is the harmonic size 1/(1/n + 1/m) and σ̂² that which gives the
//! difference its variance.
//!
//! Reference: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, *Time-uniform central limit theory and
//! asymptotic confidence sequences*, Annals of Statistics 2024, Theorem 2.2.

use crate::state::Moments;

/// With fewer rewards nothing is stated: the theory is for many.
const FEWEST: u64 = 30;
/// How often, over all time, an interval may miss.
const ALPHA: f64 = 0.05;
/// The number of rewards at which intervals are tightest.
const TIGHTEST: f64 = 1000.0;

/// A mean with an interval that holds at all times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The mean of rewards; `None` if there are too few, or if all are alike so that nobody knows how
/// much they vary.
pub fn interval(of: &Moments) -> Option<Interval> {
    let variance = variance(of).filter(|variance| *variance > 0.0)?;
    Some(around(mean(of)?, half_width(of.count as f64, variance)))
}

/// How much higher the first is than the second. The variance of a group whose rewards are all alike
/// is taken from both together.
pub fn difference(first: &Moments, second: &Moments) -> Option<Interval> {
    let pooled = variance(&first.with(second)).filter(|variance| *variance > 0.0)?;
    let of = |moments: &Moments| variance(moments).map(|v| if v > 0.0 { v } else { pooled });
    let (n, m) = (first.count as f64, second.count as f64);
    let size = 1.0 / (1.0 / n + 1.0 / m);
    let variance = (of(first)? / n + of(second)? / m) * size;
    Some(around(mean(first)? - mean(second)?, half_width(size, variance)))
}

/// The mean, if there is a reward at all.
pub fn mean(of: &Moments) -> Option<f64> {
    (of.count > 0).then(|| of.sum / of.count as f64)
}

fn variance(of: &Moments) -> Option<f64> {
    let n = of.count as f64;
    (of.count >= FEWEST).then(|| {
        let squares = (of.squares - of.sum * of.sum / n).max(0.0);
        // What is left of rewards that are all alike is rounding.
        if squares <= 1e-12 * of.squares { 0.0 } else { squares / (n - 1.0) }
    })
}

fn half_width(count: f64, variance: f64) -> f64 {
    let rest = -2.0 * ALPHA.ln();
    let rho_squared = (rest + (rest + 1.0).ln()) / TIGHTEST;
    let grown = count * rho_squared + 1.0;
    let scale = 2.0 * grown / (count * count * rho_squared);
    (variance * scale * (grown.sqrt() / ALPHA).ln()).sqrt()
}

fn around(mean: f64, half: f64) -> Interval {
    Interval { mean, low: mean - half, high: mean + half }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn add(moments: &mut Moments, reward: f64) {
        moments.count += 1;
        moments.sum += reward;
        moments.squares += reward * reward;
    }

    /// A policy that changes nothing, watched after every reward for 10,000 rewards, with a control
    /// group of a tenth: in at most 5 % of 400 such lives does it ever seem to help or to harm.
    #[test]
    fn looking_all_the_time_makes_no_lift() {
        let mut fooled = 0;
        for seed in 0..400 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut groups = [Moments::default(); 2];
            let seems = (0..10_000).any(|_| {
                let control = usize::from(rng.random::<f64>() < 0.1);
                add(&mut groups[control], f64::from(u8::from(rng.random::<f64>() < 0.3)));
                difference(&groups[0], &groups[1]).is_some_and(|d| d.low > 0.0 || d.high < 0.0)
            });
            fooled += usize::from(seems);
        }
        assert!(fooled <= 20, "{fooled} of 400");
    }

    /// The same for the mean of one group: it is covered at all times in 95 % of lives.
    #[test]
    fn a_mean_is_covered_at_all_times() {
        let mut missed = 0;
        for seed in 0..400 {
            let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
            let mut moments = Moments::default();
            missed += usize::from((0..5000).any(|_| {
                add(&mut moments, rng.random::<f64>());
                interval(&moments).is_some_and(|i| i.low > 0.5 || i.high < 0.5)
            }));
        }
        assert!(missed <= 20, "{missed} of 400");
    }

    #[test]
    fn a_real_lift_is_found_and_too_few_rewards_state_nothing() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut groups = [Moments::default(); 2];
        for _ in 0..10_000 {
            let control = usize::from(rng.random::<f64>() < 0.1);
            let likes = rng.random::<f64>() < if control == 1 { 0.3 } else { 0.45 };
            add(&mut groups[control], f64::from(u8::from(likes)));
        }
        let lift = difference(&groups[0], &groups[1]).unwrap();
        assert!(lift.low > 0.0 && (lift.mean - 0.15).abs() < 0.05, "{lift:?}");
        let few = Moments { count: 29, sum: 3.0, squares: 3.0 };
        assert_eq!(interval(&few), None);
        assert_eq!(interval(&Moments { count: 500, sum: 0.0, squares: 0.0 }), None, "all alike");
    }
}
