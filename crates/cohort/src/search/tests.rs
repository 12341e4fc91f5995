use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{ItemMatrix, ScoreForm};
use crate::linear::Symmetric;

/// The slots of the k largest scores, with all that equal the k-th, by scoring each.
fn plain(scores: &[Option<f64>], k: usize) -> Vec<u32> {
    let mut all: Vec<f64> = scores.iter().flatten().copied().collect();
    all.sort_by(|a, b| b.total_cmp(a));
    let least = all.get(k - 1).copied().unwrap_or(f64::NEG_INFINITY);
    let is_best = |(slot, score): (usize, &Option<f64>)| {
        score.filter(|score| *score >= least).map(|_| slot as u32)
    };
    scores.iter().enumerate().filter_map(is_best).collect()
}

struct World {
    rows: Vec<Vec<f64>>,
    form: ScoreForm,
    shifts: Vec<f32>,
    wanted: Vec<u64>,
}

fn world(seed: u64, dim: usize, items: usize, rank: usize, scales: [f64; 3]) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [length, bonus, shift] = scales;
    let mut uniform = move |scale: f64| scale * (2.0 * rng.random::<f64>() - 1.0);
    let rows = (0..items).map(|_| (0..dim).map(|_| uniform(length)).collect()).collect();
    let mut spread = Symmetric::identity(dim, 1e-3 * bonus);
    for _ in 0..rank {
        let x: Vec<f64> = (0..dim).map(|_| uniform(1.0)).collect();
        spread.add_outer(bonus, &x);
    }
    let mut form = ScoreForm::new((0..dim).map(|_| uniform(1.0)).collect(), spread);
    form.offset = uniform(100.0);
    let shifts = (0..items).map(|_| uniform(shift) as f32).collect();
    let wanted = (0..items.div_ceil(64)).map(|_| uniform(1e18).to_bits()).collect();
    World { rows, form, shifts, wanted }
}

impl World {
    fn matrix(&self) -> ItemMatrix {
        let mut matrix = ItemMatrix::new(self.form.mean.len());
        for (slot, row) in self.rows.iter().enumerate() {
            matrix.set(slot, row);
        }
        matrix
    }

    fn scores(&self, is_there: impl Fn(usize) -> bool, shifted: bool) -> Vec<Option<f64>> {
        let score = |(slot, row): (usize, &Vec<f64>)| {
            let shift = if shifted { f64::from(self.shifts[slot]) } else { 0.0 };
            is_there(slot).then(|| self.form.at(row) + shift)
        };
        self.rows.iter().enumerate().map(score).collect()
    }

    fn is_wanted(&self, slot: usize) -> bool {
        self.wanted[slot / 64] >> (slot % 64) & 1 == 1
    }
}

proptest! {
    #[test]
    fn the_best_are_among_what_is_found(
        seed in any::<u64>(),
        dim in 1usize..40,
        items in 1usize..3000,
        rank in 0usize..40,
        length in -3.0..4.0f64,
        bonus in -6.0..4.0f64,
        k in 1usize..50,
        is_drawn in any::<bool>(),
    ) {
        let scales = [10f64.powf(length), 10f64.powf(bonus), 10f64.powf(length)];
        let mut world = world(seed, dim, items, rank, scales);
        if is_drawn {
            world.form.drawn = Some(world.form.mean.iter().rev().map(|value| 0.7 * value).collect());
        }
        let mut matrix = world.matrix();
        let holds = |found: &[u32], best: Vec<u32>| best.iter().all(|slot| found.contains(slot));
        let found = matrix.best(&world.form, k, None, None);
        prop_assert!(holds(&found, plain(&world.scores(|_| true, false), k)));
        let found = matrix.best(&world.form, k, Some(&world.wanted), Some(&world.shifts));
        let wanted = |slot: usize| world.is_wanted(slot);
        prop_assert!(holds(&found, plain(&world.scores(wanted, true), k)));
        prop_assert!(found.iter().all(|slot| wanted(*slot as usize)));
        (0..items).step_by(3).for_each(|slot| matrix.remove(slot));
        prop_assert_eq!(matrix.len(), items - items.div_ceil(3));
        let found = matrix.best(&world.form, k, None, None);
        prop_assert!(holds(&found, plain(&world.scores(|slot| slot % 3 != 0, false), k)));
        prop_assert!(found.iter().all(|slot| slot % 3 != 0));
    }
}

/// It is worth it: few are left of many, whatever the bonus is like.
#[test]
fn few_are_left() {
    for (dim, rank, bonus) in [(15, 3, 0.1), (15, 15, 1.0), (40, 40, 1.0), (16, 0, 1.0)] {
        let world = world(5, dim, 20_000, rank, [0.3, bonus, 0.0]);
        let found = world.matrix().best(&world.form, 10, None, None);
        assert!((10..40).contains(&found.len()), "{dim} {rank} {bonus}: {}", found.len());
    }
}

/// Of a policy that knows nothing: items of the same length, and some that are longer.
#[test]
fn items_are_alike_where_only_their_length_counts() {
    let mut world = world(6, 5, 300, 0, [1.0, 1.0, 0.0]);
    for row in &mut world.rows {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    let mut matrix = world.matrix();
    let radial = ScoreForm::new(vec![0.0; 5], Symmetric::identity(5, 0.3));
    assert!(matrix.all_alike(&radial, None) && matrix.all_alike(&ScoreForm::flat(5), None));
    assert!(!matrix.all_alike(&world.form, None), "something is expected of some");
    matrix.set(7, &[1.1, 0.0, 0.0, 0.0, 0.0]);
    assert!(!matrix.all_alike(&radial, None));
    assert!(matrix.all_alike(&radial, Some(&[!(1 << 7), !0, !0])), "it is not wanted");
    assert_eq!(matrix.best(&radial, 1, None, None), [7]);
    matrix.remove(7);
    assert!(matrix.all_alike(&radial, None));
}

#[test]
fn equal_items_are_all_found() {
    let mut matrix = ItemMatrix::new(3);
    for slot in 0..1000 {
        matrix.set(slot, if slot % 2 == 0 { &[0.1, 0.2, 0.3] } else { &[0.3, -0.2, 0.1] });
    }
    let form = ScoreForm::new(vec![1.0, 1.0, 1.0], Symmetric::identity(3, 0.01));
    assert_eq!(matrix.best(&form, 1, None, None), (0..1000).step_by(2).collect::<Vec<u32>>());
    assert!(ItemMatrix::new(3).best(&form, 5, None, None).is_empty());
    assert_eq!(matrix.best(&ScoreForm::flat(3), 5, None, None).len(), 1000);
    assert!(matrix.best(&form, 5, Some(&[]), None).is_empty());
}
