//! The inputs of a policy when it is made.

/// The inputs of a policy when it is made. The environment fills it in; `Problem::new` is what a
/// real application knows.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// N, the number of users at the start.
    pub users: usize,
    /// d, the dimension of the contexts.
    pub dim: usize,
    /// T, the number of rounds, where it is known.
    pub rounds: Option<usize>,
    /// σ, the noise scale of rewards; a policy's own `sigma` parameter takes precedence.
    pub sigma: f64,
    /// The seed of policies that draw random numbers.
    pub seed: u64,
    /// The ground truth, for oracles only.
    pub truth: Option<Truth<'a>>,
    /// Pairs of users known to be connected, say as friends.
    pub graph: Option<&'a [(usize, usize)]>,
}

/// Ground truth about the users. Only oracles read it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// θ*_i, row by row.
    pub thetas: &'a [f64],
    /// The true cluster of every user.
    pub clusters: &'a [usize],
    /// The distribution that users were drawn from, where there is one.
    pub law: Option<Law<'a>>,
}

/// The mixture that users were drawn from: user i's reward for x has mean `level_i + ⟨x, θ_i⟩` with
/// `θ_i = μ_c + Σ_k z_k s_k`, z standard normal, and `level_i ~ N(level, level_spread²)`.
#[derive(Clone, Copy, Debug)]
pub struct Law<'a> {
    /// μ_c, row by row.
    pub centres: &'a [f64],
    /// The share of users of each centre.
    pub weights: &'a [f64],
    /// s_k, row by row: the directions in which users of a cluster scatter, each as long as its
    /// standard deviation. Empty where all users of a cluster are the same.
    pub scatter: &'a [f64],
    /// The mean of users' levels.
    pub level: f64,
    /// The standard deviation of users' levels.
    pub level_spread: f64,
    /// The noise scale of every user, where it differs from that of the problem.
    pub sigmas: Option<&'a [f64]>,
}

impl<'a> Truth<'a> {
    /// Users of no known distribution.
    pub const fn new(thetas: &'a [f64], clusters: &'a [usize]) -> Self {
        Self { thetas, clusters, law: None }
    }
}

impl Problem<'static> {
    /// A problem of known size only: no horizon, noise scale 1, no ground truth.
    pub fn new(users: usize, dim: usize) -> Self {
        Self { users, dim, rounds: None, sigma: 1.0, seed: 0, truth: None, graph: None }
    }
}
