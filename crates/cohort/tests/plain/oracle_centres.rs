//! `oracle-centres` as plainly as it can be written: the joint Gaussian law of a user's whole
//! history under every centre, solved afresh for every decision.

use super::paper::{Matrix, invert};

/// What the oracle is told, matrices full.
pub struct Plain {
    pub centres: Vec<Vec<f64>>,
    pub weights: Vec<f64>,
    /// The covariance of users around their centre.
    pub covariance: Matrix,
    pub level: f64,
    pub level_spread: f64,
    pub sigma: f64,
    pub history: Vec<(Vec<f64>, f64)>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Plain {
    /// Covariance of the expected rewards of two contexts.
    fn covariance(&self, a: &[f64], b: &[f64]) -> f64 {
        let along: Vec<f64> = self.covariance.iter().map(|row| dot(row, b)).collect();
        dot(a, &along) + self.level_spread * self.level_spread
    }

    /// The posterior mean of the reward for a context.
    pub fn expected(&self, x: &[f64]) -> f64 {
        let n = self.history.len();
        let mut joint = vec![vec![0.0; n]; n];
        for (i, (a, _)) in self.history.iter().enumerate() {
            for (j, (b, _)) in self.history.iter().enumerate() {
                let noise = if i == j { self.sigma * self.sigma } else { 0.0 };
                joint[i][j] = self.covariance(a, b) + noise;
            }
        }
        let (inverse, _) = invert(&joint);
        let mut logs = Vec::new();
        let mut means = Vec::new();
        for (centre, weight) in self.centres.iter().zip(&self.weights) {
            let errors: Vec<f64> =
                self.history.iter().map(|(x, y)| y - self.level - dot(x, centre)).collect();
            let solved: Vec<f64> = inverse.iter().map(|row| dot(row, &errors)).collect();
            let to_new: Vec<f64> =
                self.history.iter().map(|(seen, _)| self.covariance(seen, x)).collect();
            logs.push(weight.ln() - 0.5 * dot(&errors, &solved));
            means.push(self.level + dot(x, centre) + dot(&to_new, &solved));
        }
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
        dot(&shares, &means) / shares.iter().sum::<f64>()
    }
}
