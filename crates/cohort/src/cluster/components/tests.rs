//! Components against the naive version, on points of many kinds.

use super::{components, components_on};
use crate::cluster::partition::number_by_smallest_member;
use crate::simd::InstructionSet;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// The definition: every pair is looked at, in plain arithmetic.
fn naive(points: &[f64], dim: usize, gamma: f64) -> Vec<usize> {
    let points: Vec<&[f64]> = points.chunks_exact(dim).collect();
    let mut labels = vec![usize::MAX; points.len()];
    for first in 0..points.len() {
        if labels[first] != usize::MAX {
            continue;
        }
        labels[first] = first;
        let mut reached = vec![first];
        while let Some(i) = reached.pop() {
            for j in 0..points.len() {
                if labels[j] == usize::MAX && square(points[i], points[j]) <= gamma * gamma {
                    labels[j] = first;
                    reached.push(j);
                }
            }
        }
    }
    number_by_smallest_member(&mut labels);
    labels
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// What points may look like.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One Gaussian blob.
    Blob,
    /// Gaussian clusters, and a few points anywhere.
    Clusters,
    /// Whole numbers: many points are equal, many distances are.
    Grid,
    /// On one line, in equal steps.
    Line,
    /// A few places, each with many points.
    Copies,
    /// From tiny to huge.
    AllSizes,
    /// Close together, far from the origin.
    FarAway,
}

const KINDS: [Kind; 7] = [
    Kind::Blob,
    Kind::Clusters,
    Kind::Grid,
    Kind::Line,
    Kind::Copies,
    Kind::AllSizes,
    Kind::FarAway,
];

fn points(kind: Kind, count: usize, dim: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let direction: Vec<f64> = (0..dim).map(|_| rng.sample(StandardNormal)).collect();
    let mut points = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let place = rng.random_range(0..7);
        let far = rng.random_range(0..20) == 0;
        let step = f64::from(rng.random_range(0..2 * count as u32));
        for k in 0..dim {
            let normal: f64 = rng.sample(StandardNormal);
            points.push(match kind {
                Kind::Blob => normal,
                Kind::Clusters if far => 10.0 * normal,
                Kind::Clusters => 0.3 * normal + f64::from((place * (k as i32 + 3)) % 7),
                Kind::Grid => f64::from(rng.random_range(0..4)),
                Kind::Line => step * direction[k],
                Kind::Copies => f64::from((place * (k as i32 + 3)) % 7) / 10.0,
                Kind::AllSizes => normal * 10f64.powi(rng.random_range(-12..12)),
                Kind::FarAway => 1e6 + normal / 64.0,
            });
        }
    }
    points
}

/// γ is the exact distance of two points, now and then a little off: the cases that rounding may
/// decide.
fn some_gamma(points: &[f64], dim: usize, pick: u64) -> f64 {
    let count = points.len() / dim;
    if count < 2 || pick.is_multiple_of(11) {
        return 0.0;
    }
    let i = pick as usize % count;
    let mut squares: Vec<f64> =
        points.chunks_exact(dim).map(|other| square(&points[i * dim..][..dim], other)).collect();
    squares.sort_by(f64::total_cmp);
    // Small distances more often: those make several components.
    let rank = (count as f64 * ((pick >> 8) % 1000) as f64 / 1000.0).powi(2) / count as f64;
    let gamma = squares[rank as usize].sqrt();
    match (pick >> 32) % 4 {
        0 => gamma.next_down().max(0.0),
        1 => gamma.next_up(),
        _ => gamma,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_processor_agrees_with_the_definition(
        kind in prop::sample::select(&KINDS[..]),
        count in 0_usize..700,
        dim in prop::sample::select(&[1_usize, 2, 3, 5, 15, 25][..]),
        seed: u64,
        pick: u64,
    ) {
        let points = points(kind, count, dim, seed);
        let gamma = some_gamma(&points, dim, pick);
        let expected = naive(&points, dim, gamma);
        for set in InstructionSet::available() {
            let found = components_on(set, &points, dim, gamma);
            prop_assert!(found == expected, "{set:?}, gamma = {gamma:e}");
        }
    }

    #[test]
    fn users_in_another_order_have_the_same_clusters(
        kind in prop::sample::select(&KINDS[..]),
        count in 1_usize..500,
        seed: u64,
        pick: u64,
    ) {
        let dim = 4;
        let points = points(kind, count, dim, seed);
        let gamma = some_gamma(&points, dim, pick);
        let mut order: Vec<usize> = (0..count).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(!seed));
        let shuffled: Vec<f64> =
            order.iter().flat_map(|&i| &points[i * dim..][..dim]).copied().collect();
        let labels = components(&points, dim, gamma);
        let mut expected: Vec<usize> = order.iter().map(|&i| labels[i]).collect();
        number_by_smallest_member(&mut expected);
        prop_assert_eq!(components(&shuffled, dim, gamma), expected);
    }

    /// Multiplying all by a power of two changes no digit, so it must change no cluster, even where
    /// squares leave the range of f64.
    #[test]
    fn the_unit_of_length_does_not_matter(
        kind in prop::sample::select(&KINDS[..]),
        count in 1_usize..300,
        seed: u64,
        pick: u64,
        exponent in -900..900_i32,
    ) {
        let dim = 3;
        let points = points(kind, count, dim, seed);
        let gamma = some_gamma(&points, dim, pick);
        let unit = 2f64.powi(exponent);
        let scaled: Vec<f64> = points.iter().map(|v| v * unit).collect();
        prop_assert_eq!(components(&scaled, dim, gamma * unit), naive(&points, dim, gamma));
    }
}

/// Enough leaves that every pass has work: from no edge at all over the critical region, where
/// a giant component, small ones and single points are mixed in every leaf, to one component.
#[test]
fn every_pass_is_exact_from_no_edge_to_one_component() {
    let count = 6000;
    for (kind, dim, gammas) in [
        (Kind::Blob, 15, [0.5, 1.6, 2.2, 2.6, 3.0, 5.0]),
        (Kind::Clusters, 15, [0.1, 0.5, 0.7, 0.9, 1.2, 10.0]),
    ] {
        let points = points(kind, count, dim, 5);
        for gamma in gammas {
            let expected = naive(&points, dim, gamma);
            for set in InstructionSet::available() {
                let found = components_on(set, &points, dim, gamma);
                assert!(found == expected, "{kind:?}, gamma = {gamma}, {set:?}");
            }
        }
    }
}

/// Few dimensions, many leaves, and γ where large components are connected by single points: no
/// search may stop too early.
#[test]
fn single_links_between_large_components_are_found() {
    let count = 3000;
    for seed in 0..16 {
        for (dim, critical) in [(2, 0.06), (3, 0.2)] {
            let points = points(Kind::Blob, count, dim, seed);
            for gamma in [0.8, 0.9, 1.0, 1.1, 1.2].map(|factor| factor * critical) {
                let found = components(&points, dim, gamma);
                assert!(found == naive(&points, dim, gamma), "dim {dim}, {seed}, {gamma}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_labels() {
    let (count, dim) = (5000, 8);
    for (kind, gamma) in [(Kind::Blob, 1.2), (Kind::Clusters, 0.6), (Kind::Line, 3.0)] {
        let points = points(kind, count, dim, 9);
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| components(&points, dim, gamma))
        };
        let expected = on(1);
        for threads in [2, 4, 2, 4] {
            assert!(on(threads) == expected, "{kind:?}, {threads} threads");
        }
    }
}

#[test]
fn a_long_chain_of_steps_of_exactly_gamma_holds() {
    // Every link is borderline, and only adjacent points are joined.
    let count = 20_000;
    let chain: Vec<f64> =
        (0..count).flat_map(|i| [3.0 * f64::from(i), 4.0 * f64::from(i)]).collect();
    assert_eq!(components(&chain, 2, 5.0), vec![0; count as usize]);
    let apart: Vec<usize> = (0..count as usize).collect();
    assert_eq!(components(&chain, 2, 5.0_f64.next_down()), apart);
}

#[test]
fn few_or_equal_points() {
    assert_eq!(components(&[], 3, 1.0), [0; 0]);
    assert_eq!(components(&[1.0, 2.0, 3.0], 3, 0.0), [0]);
    assert_eq!(components(&vec![0.25; 3 * 5000], 3, 0.0), vec![0; 5000]);
    assert_eq!(components(&[0.0, -0.0, 1e-300], 1, 0.0), [0, 0, 1]);
}

#[test]
fn huge_coordinates_do_not_overflow() {
    let huge = [-f64::MAX, f64::MAX, 1e308, -1e150, 1e150, 0.0];
    assert_eq!(components(&huge, 1, f64::MAX), [0; 6]);
    assert_eq!(components(&huge, 1, 1e200), [0, 1, 2, 3, 3, 3]);
    assert_eq!(components(&huge, 1, 1e150), [0, 1, 2, 3, 3, 3]);
    assert_eq!(components(&huge, 1, 1e149), [0, 1, 2, 3, 4, 5]);
}
