//! Where are users in the plane? Their estimates, projected on the two directions that tell the
//! cohorts apart best: the first principal directions of the cohorts' centres, or of the users
//! themselves while there are fewer than three cohorts.
//!
//! Directions are only defined up to turning and mirroring, so each new pair is turned to agree with
//! the one before as well as it can: the map moves as users move, not as an eigenvector pleases.

use cohort::linear::{Symmetric, dot};

/// Two directions and a middle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection {
    /// What is in the middle of the map.
    pub middle: Vec<f64>,
    /// To the right and upwards, each of length 1 (0 where d = 1 leaves no second one).
    pub axes: [Vec<f64>; 2],
}

impl Projection {
    /// For weighted points, in agreement with the projection before.
    pub fn of<'a>(
        points: impl Iterator<Item = (f64, &'a [f64])> + Clone,
        dim: usize,
        before: Option<&Self>,
    ) -> Self {
        let total: f64 = points.clone().map(|(weight, _)| weight).sum();
        let mut middle = vec![0.0; dim];
        for (weight, point) in points.clone() {
            for (sum, value) in middle.iter_mut().zip(point) {
                *sum += weight / total.max(f64::MIN_POSITIVE) * value;
            }
        }
        let mut scatter = Symmetric::zero(dim);
        for (weight, point) in points {
            let away: Vec<f64> = point.iter().zip(&middle).map(|(p, m)| p - m).collect();
            scatter.add_outer(weight / total.max(f64::MIN_POSITIVE), &away);
        }
        let mut projection = Self { middle, axes: principal(&scatter) };
        if let Some(before) = before.filter(|before| before.middle.len() == dim) {
            projection.turn_towards(before);
        }
        projection
    }

    /// Where a point is on the map.
    pub fn place(&self, point: &[f64]) -> [f64; 2] {
        let away: Vec<f64> = point.iter().zip(&self.middle).map(|(p, m)| p - m).collect();
        [dot(&away, &self.axes[0]), dot(&away, &self.axes[1])]
    }

    /// Turns and mirrors the axes so that they agree best with others: orthogonal Procrustes in two
    /// dimensions, which has a closed form.
    fn turn_towards(&mut self, before: &Self) {
        let m = |i: usize, j: usize| dot(&self.axes[i], &before.axes[j]);
        let (a, b, c, d) = (m(0, 0), m(0, 1), m(1, 0), m(1, 1));
        let (turned, mirrored) = ((a + d).hypot(c - b), (a - d).hypot(b + c));
        // New axis j = Σ_i R_ij · axis i.
        let r = if turned >= mirrored {
            let (sin, cos) = (c - b).atan2(a + d).sin_cos();
            [[cos, -sin], [sin, cos]]
        } else {
            let (sin, cos) = (b + c).atan2(a - d).sin_cos();
            [[cos, sin], [sin, -cos]]
        };
        let [first, second] = &self.axes;
        let mix = |j: usize| -> Vec<f64> {
            first.iter().zip(second).map(|(x, y)| r[0][j] * x + r[1][j] * y).collect()
        };
        self.axes = [mix(0), mix(1)];
    }
}

/// The two directions in which points differ most. Each points to where its largest part is positive.
fn principal(scatter: &Symmetric) -> [Vec<f64>; 2] {
    let d = scatter.dim();
    let eigen = scatter.eigen();
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|a, b| eigen.values[*b].total_cmp(&eigen.values[*a]));
    let axis = |which: usize| -> Vec<f64> {
        let Some(column) = order.get(which) else { return vec![0.0; d] };
        let vector = &eigen.vectors[column * d..][..d];
        let largest =
            vector.iter().fold(0.0f64, |most, v| if v.abs() > most.abs() { *v } else { most });
        let sign = if largest < 0.0 { -1.0 } else { 1.0 };
        vector.iter().map(|value| sign * value).collect()
    };
    [axis(0), axis(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_map_shows_the_widest_plane_and_stays_where_it_was(
            points in prop::collection::vec(prop::collection::vec(-1.0..1.0f64, 4), 5..30),
            nudge in -0.01..0.01f64,
        ) {
            let weighted = |points: &[Vec<f64>]| {
                points.iter().map(|p| (1.0, p.clone())).collect::<Vec<_>>()
            };
            let of = |points: &[(f64, Vec<f64>)], before: Option<&Projection>| {
                Projection::of(points.iter().map(|(w, p)| (*w, p.as_slice())), 4, before)
            };
            let first = of(&weighted(&points), None);
            let [right, up] = &first.axes;
            prop_assert!((dot(right, right) - 1.0).abs() < 1e-9);
            prop_assert!(dot(right, up).abs() < 1e-9);
            // Mirrored axes come back as they were.
            let mut mirrored = first.clone();
            mirrored.axes[0].iter_mut().for_each(|v| *v = -*v);
            mirrored.axes.swap(0, 1);
            mirrored.turn_towards(&first);
            for (a, b) in mirrored.axes.iter().flatten().zip(first.axes.iter().flatten()) {
                prop_assert!((a - b).abs() < 1e-9);
            }
            // The same points again, a little elsewhere: the same picture.
            let moved: Vec<Vec<f64>> =
                points.iter().map(|p| p.iter().map(|v| v + nudge).collect()).collect();
            let second = of(&weighted(&moved), Some(&first));
            for (p, q) in points.iter().zip(&moved) {
                let (a, b) = (first.place(p), second.place(q));
                prop_assert!((a[0] - b[0]).abs() < 1e-6 && (a[1] - b[1]).abs() < 1e-6);
            }
        }
    }
}
