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
}

/// What is true of the users. Oracles are told it; no other policy looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// θ*_i, row by row.
    pub thetas: &'a [f64],
    /// The true cluster of every user.
    pub clusters: &'a [usize],
}

impl Problem<'static> {
    /// A problem of which only its size is known: no horizon, noise scale 1, no oracle.
    pub fn new(users: usize, dim: usize) -> Self {
        Self { users, dim, rounds: None, sigma: 1.0, seed: 0, truth: None }
    }
}
