//! How large may numbers be? One answer for every driver: the service, the Python package, logs.

/// The largest magnitude of a reward. Squares of these, summed over any number of rewards, stay far
/// inside what an f64 can hold: the model never sees an infinity.
pub const MAX_REWARD: f64 = 1e6;

/// The largest magnitude of a feature. What is known of a user is the inverse of 1 + the sum of
/// squares of features: of larger ones that are nearly the same, rounding would leave nothing.
pub const MAX_FEATURE: f64 = 1e4;

/// Whether a reward is one that the model can take.
pub fn is_reward(number: f64) -> bool {
    number.abs() <= MAX_REWARD
}

/// Whether a feature is.
pub fn is_feature(number: f64) -> bool {
    number.abs() <= MAX_FEATURE
}
