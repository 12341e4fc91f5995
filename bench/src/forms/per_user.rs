//! One user after the other with statically sized matrices: the straightforward implementation.

use cohort::Arm;
use nalgebra::{SMatrix, SVector};

use super::{DIM, Form, radius};

type Vector = SVector<f64, DIM>;

/// One LinUCB per user.
pub struct PerUser {
    users: Vec<User>,
}

struct User {
    inverse: SMatrix<f64, DIM, DIM>,
    estimate: Vector,
    log_det: f64,
}

impl PerUser {
    /// Fresh users.
    pub fn new(users: usize) -> Self {
        let user =
            || User { inverse: SMatrix::identity(), estimate: Vector::zeros(), log_det: 0.0 };
        Self { users: std::iter::repeat_with(user).take(users).collect() }
    }
}

impl Form for PerUser {
    fn round(&mut self, contexts: &[f64], rewards: &[f64], arms: &mut [Arm]) {
        let contexts: Vec<Vector> =
            contexts.chunks_exact(DIM).map(Vector::from_column_slice).collect();
        for ((user, reward), arm) in self.users.iter_mut().zip(rewards).zip(arms) {
            *arm = user.choose(&contexts);
            user.learn(&contexts[*arm], *reward);
        }
    }
}

impl User {
    fn choose(&self, contexts: &[Vector]) -> Arm {
        let radius = radius(self.log_det);
        cohort::linear::argmax(contexts.iter().map(|x| {
            let square = x.dot(&(self.inverse * x));
            x.dot(&self.estimate) + radius * square.max(0.0).sqrt()
        }))
    }

    fn learn(&mut self, x: &Vector, y: f64) {
        let gain = self.inverse * x;
        let step = x.dot(&gain);
        let surprise = (y - x.dot(&self.estimate)) / (1.0 + step);
        self.estimate += gain * surprise;
        self.inverse -= gain * gain.transpose() / (1.0 + step);
        self.log_det += step.ln_1p();
    }
}
