//! What users say together about components and variances. Sums add up over blocks of users, over threads and over
//! machines; their size does not depend on how many users there are.

use super::message::message_len;
use super::model::Population;
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;

/// What users say about one component, each in the share to which it belongs to it.
#[derive(Clone, Debug)]
pub struct Sums {
    dim: usize,
    /// How many users, in parts.
    pub users: f64,
    /// How many rewards.
    pub rewards: f64,
    /// Σ of users' messages: information on the centre, pull, log, square.
    pub message: Vec<f64>,
}

/// What users say about the variances of one class of components.
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
    /// Of nobody.
    pub fn new(dim: usize) -> Self {
        Self { dim, users: 0.0, rewards: 0.0, message: vec![0.0; message_len(dim)] }
    }

    /// Σ information.
    pub fn information(&self) -> &[f64] {
        &self.message[..packed_len(self.dim)]
    }

    /// Σ pull.
    pub fn pull(&self) -> &[f64] {
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

    /// What others say, too.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        self.rewards += other.rewards;
        add(&mut self.message, &other.message);
    }
}

impl ClassSums {
    /// Of nobody.
    fn new(dim: usize, groups: usize) -> Self {
        Self {
            outer: vec![0.0; packed_len(dim)],
            pairs: vec![0.0; packed_len(groups)],
            trace: vec![0.0; dim],
        }
    }

    /// What others say, too.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.outer, &other.outer);
        add(&mut self.pairs, &other.pairs);
        add(&mut self.trace, &other.trace);
    }
}

impl PassSums {
    /// Of nobody.
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

    /// What other users say, too.
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
