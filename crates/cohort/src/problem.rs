//! What a policy is told before it starts.

/// What a policy is told when it is made. The environment fills it in; `Problem::new` is what a
/// real application knows.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// N, how many users there are at the start.
    pub users: usize,
    /// d, the dimension of the contexts.
    pub dim: usize,
    /// T, how many rounds will be played, where that is known.
    pub rounds: Option<usize>,
    /// σ, the scale of the noise on rewards; a policy's own `sigma` parameter comes first.
    pub sigma: f64,
    /// From which policies that draw random numbers draw them.
    pub seed: u64,
    /// What only oracles may look at.
    pub truth: Option<Truth<'a>>,
    /// Pairs of users who are known to be joined, say as friends, where that is known.
    pub graph: Option<&'a [(usize, usize)]>,
}

/// What is true of the users. Oracles are told it; no other policy looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// θ*_i, row by row.
    pub thetas: &'a [f64],
    /// The true cluster of every user.
    pub clusters: &'a [usize],
    /// The law that users were drawn from, where there is one.
    pub law: Option<Law<'a>>,
}

/// The mixture that users were drawn from: user i's reward for x has mean `level_i + ⟨x, θ_i⟩` with
/// `θ_i = μ_c + Σ_k z_k s_k`, z standard normal, and `level_i ~ N(level, level_spread²)`.
#[derive(Clone, Copy, Debug)]
pub struct Law<'a> {
    /// μ_c, row by row.
    pub centres: &'a [f64],
    /// The share of users that each centre has.
    pub weights: &'a [f64],
    /// s_k, row by row: the directions in which users of a cluster scatter, each as long as its
    /// standard deviation. None where users of a cluster are the same.
    pub scatter: &'a [f64],
    /// The mean of users' levels.
    pub level: f64,
    /// The standard deviation of users' levels.
    pub level_spread: f64,
    /// The noise scale of every user, where it is not that of the problem.
    pub sigmas: Option<&'a [f64]>,
}

impl<'a> Truth<'a> {
    /// Users of whom no law is known.
    pub const fn new(thetas: &'a [f64], clusters: &'a [usize]) -> Self {
        Self { thetas, clusters, law: None }
    }
}

impl Problem<'static> {
    /// A problem of which only its size is known: no horizon, noise scale 1, no oracle.
    pub fn new(users: usize, dim: usize) -> Self {
        Self { users, dim, rounds: None, sigma: 1.0, seed: 0, truth: None, graph: None }
    }
}
