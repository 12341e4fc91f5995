//! Bounds on the magnitude of rewards and features, the same for every driver: the service, the
//! Python package, logs.

/// The largest magnitude of a reward. Sums of squares of such rewards stay far inside the range of
/// an f64, so the model never sees an infinity.
pub const MAX_REWARD: f64 = 1e6;

/// The largest magnitude of a feature. A learner keeps the inverse of I + Σxxᵀ: with larger, nearly
/// collinear features rounding would leave no correct digit in it.
pub const MAX_FEATURE: f64 = 1e4;

/// Whether a reward is finite and within [`MAX_REWARD`].
pub fn is_reward(number: f64) -> bool {
    number.abs() <= MAX_REWARD
}

/// Whether a feature is finite and within [`MAX_FEATURE`].
pub fn is_feature(number: f64) -> bool {
    number.abs() <= MAX_FEATURE
}
