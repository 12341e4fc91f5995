//! The sums of the E step: what the M step needs of all users. They can be added over blocks,
//! threads and machines; their size does not depend on the number of users.

use super::message::message_len;
use super::model::Population;
use crate::algebra::packed_len;
use crate::linear::Symmetric;

/// The sums for one component, each user weighted by its responsibility.
#[derive(Clone, Debug)]
pub struct Sums {
    dim: usize,
    /// Σ of responsibilities.
    pub users: f64,
    /// The number of rewards, each user weighted by its responsibility.
    pub rewards: f64,
    /// Σ of users' messages: information on the centre, information vector, log, square.
    pub message: Vec<f64>,
}

/// The sums for the variances of one class of components.
#[derive(Clone, Debug)]
pub struct ClassSums {
    /// Σ g gᵀ packed, g = pull − information·μ; only its diagonal unless asked for.
    pub outer: Vec<f64>,
    /// Σ over users of squared entries of the information, by pairs of groups, packed.
    pub pairs: Vec<f64>,
    /// The diagonal of Σ information, where it is not that of a component's sums.
    pub trace: Vec<f64>,
}

/// The sums of all components and classes.
#[derive(Clone, Debug)]
pub struct PassSums {
    /// One for each component.
    pub components: Vec<Sums>,
    /// The population at large, and cohorts.
    pub classes: [ClassSums; 2],
    /// Σ_i ln Σ_c π_c p(y_i | c).
    pub evidence: f64,
    /// Users with rewards.
    pub users: f64,
    /// Σ of the probability of every user's likeliest component.
    pub certain: f64,
}

impl Sums {
    /// Empty.
    pub fn new(dim: usize) -> Self {
        Self { dim, users: 0.0, rewards: 0.0, message: vec![0.0; message_len(dim)] }
    }

    /// Σ information.
    pub fn information(&self) -> &[f64] {
        &self.message[..packed_len(self.dim)]
    }

    /// Σ pull.
    pub fn information_vector(&self) -> &[f64] {
        &self.message[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// Σ yᵀK⁻¹y.
    pub fn square(&self) -> f64 {
        self.message[self.message.len() - 1]
    }

    /// Σ information as a matrix.
    pub fn information_matrix(&self) -> Symmetric {
        Symmetric::from_packed(self.dim, self.information().to_vec())
    }

    /// Adds the sums of other users.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        self.rewards += other.rewards;
        add(&mut self.message, &other.message);
    }
}

impl ClassSums {
    /// Empty.
    fn new(dim: usize, groups: usize) -> Self {
        Self {
            outer: vec![0.0; packed_len(dim)],
            pairs: vec![0.0; packed_len(groups)],
            trace: vec![0.0; dim],
        }
    }

    /// Adds the sums of other users.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.outer, &other.outer);
        add(&mut self.pairs, &other.pairs);
        add(&mut self.trace, &other.trace);
    }
}

impl PassSums {
    /// Empty.
    pub fn new(population: &Population) -> Self {
        let (dim, groups) = (population.features() + 1, population.groups().len());
        let class = ClassSums::new(dim, groups);
        Self {
            components: vec![Sums::new(dim); population.components.len()],
            classes: [class.clone(), class],
            evidence: 0.0,
            users: 0.0,
            certain: 0.0,
        }
    }

    /// All of its numbers, in an order that follows from the population.
    pub(crate) fn numbers(&mut self) -> Vec<&mut [f64]> {
        let one = std::slice::from_mut;
        let mut all = vec![one(&mut self.evidence), one(&mut self.users), one(&mut self.certain)];
        for sums in &mut self.components {
            all.extend([one(&mut sums.users), one(&mut sums.rewards), &mut sums.message[..]]);
        }
        for class in &mut self.classes {
            all.extend([&mut class.outer[..], &mut class.pairs[..], &mut class.trace[..]]);
        }
        all
    }

    /// Adds the sums of other users.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.components.iter_mut().zip(&other.components) {
            a.add(b);
        }
        for (a, b) in self.classes.iter_mut().zip(&other.classes) {
            a.add(b);
        }
        self.evidence += other.evidence;
        self.users += other.users;
        self.certain += other.certain;
    }
}

/// a + b.
pub(super) fn add(a: &mut [f64], b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
}
