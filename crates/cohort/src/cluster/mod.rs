//! Which users are alike: MAXIMAL-CLUSTER, Algorithm 3 of the paper.
//!
//! | file | question it answers |
//! | --- | --- |
//! | this one | what is a cluster? |
//! | `components` | which points are connected within γ? |
//! | [`partition`] | how are clusters numbered? |
//! | [`ShrinkingGraph`] | which clusters are left when edges are cut one by one? |

mod components;
pub mod partition;
mod shrinking_graph;

pub use components::components;
pub(crate) use shrinking_graph::Bits;
pub use shrinking_graph::{ShrinkingGraph, Split};

use crate::Error;

/// MAXIMAL-CLUSTER({θ̂_i}, γ, p*): the cluster of every point, numbered by smallest member.
///
/// `points` holds one point of `dim` coordinates after the other. Refuses an incomplete last point,
/// numbers that are not finite, γ < 0 and p* outside [0, 1].
///
/// ```
/// let points = [0.0, 0.1, 5.0, 0.2, 9.0];
/// // Within 0.15 of a neighbour: {0, 1, 3}, {2}, {4}.
/// assert_eq!(cohort::cluster::maximal_cluster(&points, 1, 0.15, 0.0)?, [0, 0, 1, 0, 2]);
/// // Clusters with fewer than 2/5 of all points are merged into one.
/// assert_eq!(cohort::cluster::maximal_cluster(&points, 1, 0.15, 0.4)?, [0, 0, 1, 0, 1]);
/// # Ok::<(), cohort::Error>(())
/// ```
pub fn maximal_cluster(
    points: &[f64],
    dim: usize,
    gamma: f64,
    min_share: f64,
) -> Result<Vec<usize>, Error> {
    check(points, dim, gamma, min_share)?;
    // Lines 2–3: connected components of the graph with i ~ j ⇔ ‖θ̂_i − θ̂_j‖ ≤ γ.
    let mut labels = components(points, dim, gamma);
    // Lines 4–6: clusters with fewer than p*·N users are merged into one.
    collapse_small(&mut labels, min_share);
    Ok(labels)
}

/// Merges all clusters with fewer than `min_share`·N members into one.
pub fn collapse_small(labels: &mut [usize], min_share: f64) {
    let sizes = partition::sizes(labels);
    // i⁻²·N is rounded: a size that equals it up to rounding is not smaller.
    let enough = min_share * labels.len() as f64 * (1.0 - 1e-12);
    let small = |label: usize| (sizes[label] as f64) < enough;
    let Some(collapsed) = (0..sizes.len()).find(|&label| small(label)) else { return };
    for label in labels.iter_mut() {
        if small(*label) {
            *label = collapsed;
        }
    }
    partition::number_by_smallest_member(labels);
}

fn check(points: &[f64], dim: usize, gamma: f64, min_share: f64) -> Result<(), Error> {
    if dim == 0 || !points.len().is_multiple_of(dim) {
        return Err(Error::Shape {
            what: "points",
            found: format!("{} numbers", points.len()),
            expected: format!("rows of {dim}"),
        });
    }
    if points.len() / dim >= u32::MAX as usize {
        return Err(Error::Shape {
            what: "points",
            found: format!("{} points", points.len() / dim),
            expected: format!("fewer than {}", u32::MAX),
        });
    }
    if let Some(at) = points.iter().position(|v| !v.is_finite()) {
        return Err(Error::NotFinite {
            what: "points",
            place: format!("point {}, coordinate {}", at / dim, at % dim),
            found: points[at],
        });
    }
    if !(gamma >= 0.0 && gamma.is_finite()) {
        return Err(Error::Shape {
            what: "gamma",
            found: gamma.to_string(),
            expected: "a number in [0, ∞)".into(),
        });
    }
    if !(0.0..=1.0).contains(&min_share) {
        return Err(Error::Shape {
            what: "min_share",
            found: min_share.to_string(),
            expected: "a number in [0, 1]".into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clusters_are_those_with_strictly_fewer_than_the_share() {
        // Sizes 4, 3, 2, 1 of 10.
        let labels = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3];
        let collapsed = |share: f64| {
            let mut labels = labels;
            collapse_small(&mut labels, share);
            labels
        };
        assert_eq!(collapsed(0.0), labels);
        // One has a single member: exactly 1/10 of all is not fewer.
        assert_eq!(collapsed(0.1), labels);
        assert_eq!(collapsed(0.2), labels);
        assert_eq!(collapsed(0.3), [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]);
        assert_eq!(collapsed(0.31), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(collapsed(1.0), [0; 10]);
    }

    #[test]
    fn what_is_not_points_is_refused() {
        let refused = |points: &[f64], dim, gamma, share| {
            maximal_cluster(points, dim, gamma, share).unwrap_err()
        };
        assert!(matches!(refused(&[1.0; 5], 2, 1.0, 0.0), Error::Shape { what: "points", .. }));
        assert!(matches!(refused(&[1.0; 5], 0, 1.0, 0.0), Error::Shape { what: "points", .. }));
        assert!(matches!(refused(&[1.0, f64::NAN], 2, 1.0, 0.0), Error::NotFinite { .. }));
        assert!(matches!(refused(&[1.0], 1, -1.0, 0.0), Error::Shape { what: "gamma", .. }));
        assert!(matches!(refused(&[1.0], 1, f64::NAN, 0.0), Error::Shape { what: "gamma", .. }));
        assert!(matches!(refused(&[1.0], 1, 1.0, 1.1), Error::Shape { what: "min_share", .. }));
    }
}
